"""`reaper savings` over a file of SQLite."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reaper.cli.main import app
from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.savings import book
from reaper.savings.credit import Cause, Span
from savings.test_book import saving

DAY = timedelta(days=1)
NOW = datetime.now(UTC).replace(microsecond=0)
BEGAN = NOW - 20 * DAY


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two priced actions, one without a price, and one that was prompted."""
    address = f"sqlite://{tmp_path / 'ledger.db'}"
    opened = opening.open_ledger(address, {})
    credits = [
        (saving("churn", at=BEGAN), Span(BEGAN, BEGAN + 5 * DAY)),
        (saving("=ranker", usd=7.09, at=BEGAN), Span(BEGAN, BEGAN + 15 * DAY)),
        (saving("unpriced", usd=None, at=BEGAN), Span(BEGAN, BEGAN + DAY)),
        (saving("prompted", cause=Cause.PROMPTED, at=BEGAN), Span(BEGAN, BEGAN + DAY)),
    ]
    book.add_credits(opened, credits, NOW)
    opened.close()
    monkeypatch.setenv("REAPER_LEDGER", address)
    return address


def shown(*argv: str) -> str:
    result = CliRunner().invoke(app, ["savings", *argv], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_has_the_agreed_keys_and_sums(ledger: str):
    said = json.loads(shown("--format", "json", "--by", "tag:team"))
    total = 120 * 2.0 + 360 * 7.09
    assert (said["schema"], said["saved_usd"], said["prompted_usd"], said["unpriced_hours"]) == (1, total, 48.0, 24.0)
    assert said["by"] == [{"key": "vision", "saved_usd": total, "hours": 504.0}]
    assert {"id", "kind", "action", "at", "until", "saved_usd", "unpriced_hours", "cause"} <= said["actions"][0].keys()
    assert sum(row["saved_usd"] for row in said["actions"] if row["cause"] == "ours") == total
    assert datetime.fromisoformat(said["since"]) < BEGAN < NOW


def test_csv_has_a_row_for_each_action_and_defuses_formulas(ledger: str):
    rows = list(csv.DictReader(io.StringIO(shown("--format", "csv"))))
    assert len(rows) == 4
    assert {row["name"] for row in rows} == {"churn", "'=ranker", "unpriced", "prompted"}
    assert {row["usd_per_hour"] for row in rows if row["name"] == "unpriced"} == {""}


def test_text_names_the_month_the_rest_and_the_ledger(ledger: str):
    said = shown("--by", "owner")
    today = datetime.now(UTC)  # a test may run past midnight
    assert f"Saved since {today - 30 * DAY:%Y-%m-%d}: $2,792 (list price), 24 unpriced hours. This month: $" in said
    assert "$48.00 prompted" in said
    assert ledger in said


def test_text_is_in_the_currency_of_the_policy_alone(ledger: str):
    euros = "{version: 1, prices: {currency: {code: EUR, rate: 0.5, as_of: 2026-11-01, source: ECB}}}"
    said = shown("--by", "owner", "--policy", euros)
    assert "EUR 1,396 (list price)" in said
    assert "EUR 24.00 prompted" in said
    assert "$" not in said


@pytest.mark.parametrize(
    ("argv", "because"),
    [
        pytest.param(("--since", "2w5"), "expected a duration such as 30m", id="neither a duration nor a date"),
        pytest.param(("--since", "2999-01-01"), "isn't in the past", id="to come"),
        pytest.param(("--since", "2020-01-01"), "kept for 400 days", id="too long ago"),
        pytest.param(("--by", "team"), "or tag:KEY", id="an unknown grouping"),
    ],
)
def test_a_wrong_option_is_an_error(ledger: str, argv: tuple[str, ...], because: str):
    with pytest.raises(SettingsError, match=because):
        shown(*argv)


def test_a_ledger_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_LEDGER", f"sqlite://{tmp_path / 'no.db'}")
    with pytest.raises(SettingsError, match="there is no file"):
        shown()
