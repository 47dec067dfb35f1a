"""Where a report goes: its width, and the name of the command in it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reaper.cli import doctor, output
from reaper.doctor.check import to_fix


@pytest.mark.parametrize(
    ("tty", "columns", "width"),
    [(False, None, 120), (False, "60", 60), (False, "500", 200), (False, "", 120), (True, "80", 80), (True, "300", 200)],
)
def test_a_report_is_as_wide_as_the_terminal_or_columns(tty: bool, columns: str | None, width: int):
    environ = {} if columns is None else {"COLUMNS": columns}
    console = Console(file=io.StringIO(), force_terminal=tty, _environ=environ)
    assert output.report_width(console, environ) == width


def test_the_command_is_named_as_the_shell_can_run_it_again(tmp_path: Path):
    on_path = tmp_path / "bin" / "reaper"
    on_path.parent.mkdir()
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(0o755)
    environ = {"PATH": str(on_path.parent)}
    assert output.own_command([str(on_path)], environ) == "reaper"
    assert output.own_command(["reaper"], environ) == "reaper"
    assert output.own_command([".venv/bin/reaper"], environ) == ".venv/bin/reaper"
    assert output.own_command(["a b/reaper"], {"PATH": ""}) == "'a b/reaper'"
    assert output.own_command(["/x/reaper/__main__.py"], environ) == "python -m reaper"


def test_two_commands_that_are_too_long_for_a_line_break_between_them():
    fix = "reaper sweep --output report.json && reaper doctor --report report.json"
    lines = [line.strip() for line in doctor.render([to_fix("rules", "unknown", fix)], 60).splitlines()]
    assert lines[2:4] == ["Fix: reaper sweep --output report.json &&", "reaper doctor --report report.json"]
    assert f"Fix: {fix}" in doctor.render([to_fix("rules", "unknown", fix)], 120)
