"""The address chooses a ledger, and its format says whether this version may write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import NamedRow


@pytest.mark.parametrize(
    ("address", "says"),
    [
        pytest.param("redis://x", "expected memory:", id="an unknown scheme"),
        pytest.param("ledger.db", "expected memory:", id="no scheme"),
        pytest.param("sqlite://", "expected a file", id="no file"),
        pytest.param("sqlite:///", "expected a file", id="the root"),
        pytest.param("dynamodb://a/b", "expected the name of a table", id="not a table's name"),
        pytest.param("table://account", "expected table://account/table", id="no table"),
        pytest.param("table://acc_ount/ledger", "expected table://account/table", id="not an account"),
        pytest.param("table://account/my-ledger", "letters and digits", id="a table's name with a dash"),
    ],
)
def test_an_invalid_address_is_refused(address, says):
    with pytest.raises(SettingsError, match=says):
        opening.open_ledger(address, {})


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        pytest.param({"HOME": "/home/jo"}, "linux", "sqlite:///home/jo/.local/state/ml-idle-reaper/ledger.db", id="a home"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "linux", "sqlite:///s/ml-idle-reaper/ledger.db", id="a state home"),
        pytest.param(
            {"HOME": "/h", "XDG_STATE_HOME": "state"},
            "linux",
            "sqlite:///h/.local/state/ml-idle-reaper/ledger.db",
            id="a relative state home does not count",
        ),
        pytest.param({"HOME": "/Users/jo"}, "darwin", "sqlite:///Users/jo/.local/state/ml-idle-reaper/ledger.db", id="macOS"),
        pytest.param(
            {"LOCALAPPDATA": r"C:\Users\jo\AppData\Local", "HOME": "/h"},
            "win32",
            r"sqlite://C:\Users\jo\AppData\Local\ml-idle-reaper\ledger.db",
            id="Windows",
        ),
    ],
)
def test_the_default_address_follows_the_platform(environ, platform, expected):
    assert opening.default_address(environ, platform) == expected


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_without_a_home_directory_the_error_names_the_setting(platform):
    with pytest.raises(SettingsError, match="REAPER_LEDGER is not set"):
        opening.default_address({}, platform)


def test_the_format_is_written_once(ledger):
    opening.ensure_format(ledger)
    opening.ensure_format(ledger)
    assert ledger.read_row("format") == NamedRow(values={"number": "3"}, version=1)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [("4", "install a newer version"), ("x", "install a newer version"), ("2", "delete it .*are lost, manifests stay")],
)
def test_a_ledger_of_another_format_is_refused(ledger, number, remedy):
    ledger.write_row("format", {"number": number}, 0)
    with pytest.raises(SettingsError, match=f"format {number}.*{remedy}"):
        opening.ensure_format(ledger)
    assert ledger.read_row("format").version == 1


def test_a_ledger_names_its_deployment_and_refuses_another(tmp_path: Path):
    def opened(deployment: str) -> Ledger:
        return opening.open_ledger(f"sqlite://{tmp_path}/ledger.db", {"REAPER_DEPLOYMENT": deployment})

    opening.ensure_format(opened(""))
    opening.ensure_format(opened("/Subscriptions/1/sites/One"))
    opening.ensure_format(opened("/subscriptions/1/sites/one"))
    opening.ensure_format(opened(""))
    row = opened("").read_row("format")
    assert row == NamedRow(values={"number": "3", "deployment": "/subscriptions/1/sites/one"}, version=2)
    other = opened("arn:aws:cloudformation:us-east-1:123456789012:stack/two/1")
    for refused in (lambda: opening.ensure_format(other), lambda: opening.require_known_format(other)):
        with pytest.raises(
            SettingsError,
            match=r"belongs to the deployment /subscriptions/1/sites/one, and this is arn:.*own ledger, or hand it over \(docs/operations.md\)",
        ):
            refused()
    assert other.read_row("format") == row
