"""What the commands share at a terminal: widths, the line beside the spinner, how the command is called again, options without a value."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reaper.cli import options
from reaper.errors import SettingsError
from reaper.settings import Settings


def test_a_line_beside_the_spinner_never_goes_on_in_the_next():
    for width in (10, 40, 80):
        line = options.fit_one_line("12 of 34: 123456789012 us-east-1:\nsagemaker-inference-component: 5 seen", width)
        assert line.cell_len <= width - 3
        assert "\n" not in line.plain
    assert options.fit_one_line("12 of 34: [b]x", 80).plain == "12 of 34: [b]x"


@pytest.mark.parametrize(
    ("tty", "columns", "wide"),
    [(False, None, 120), (False, "60", 60), (False, "500", 200), (False, "", 120), (True, "80", 80), (True, "300", 200)],
)
def test_a_report_is_as_wide_as_the_terminal_or_as_columns_says(tty: bool, columns: str | None, wide: int):
    environ = {} if columns is None else {"COLUMNS": columns}
    out = Console(file=io.StringIO(), force_terminal=tty, _environ=environ)
    assert options.report_width(out, environ) == wide


def test_the_command_is_named_as_it_can_be_called_again(tmp_path: Path):
    known = tmp_path / "bin" / "reaper"
    known.parent.mkdir()
    known.write_text("#!/bin/sh\n")
    known.chmod(0o755)
    environ = {"PATH": str(known.parent)}
    assert options.own_command([str(known)], environ) == "reaper"
    assert options.own_command(["reaper"], environ) == "reaper"
    assert options.own_command([".venv/bin/reaper"], environ) == ".venv/bin/reaper"
    assert options.own_command(["a b/reaper"], {"PATH": ""}) == "'a b/reaper'"
    assert options.own_command(["/x/reaper/__main__.py"], environ) == "python -m reaper"


@pytest.mark.parametrize("option", ["account", "region", "subscription", "kind"])
@pytest.mark.parametrize("values", [[""], [" , "], ["", "aws-1"]])
def test_an_option_without_a_value_is_refused_and_does_not_mean_all(option: str, values: list[str]):
    given: dict[str, list[str] | None] = dict.fromkeys(("account", "region", "subscription", "kind"))
    with pytest.raises(SettingsError, match=f"--{option} '' names nothing"):
        options.with_options(Settings(), "all", **{**given, option: values})
