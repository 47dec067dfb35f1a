"""The JSON report: strict JSON, times that every parser reads, and what a dashboard needs to know of rule, record and owner."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

import strict
from fakes.builders import DAY, HOUR, NOW, resource, rule
from fakes.records import a_record
from fakes.sample_findings import finding, report
from reaper.calendars import office_hours
from reaper.case import Claim, Evidence, Owner, Price
from reaper.coverage import own_row
from reaper.finding import Finding
from reaper.model import Ceiling, Role
from reaper.record import Snooze
from reaper.report import json as plain

HEART = Evidence(
    signal="CPUUtilization", subject="", role=Role.HEARTBEAT, points=3, last_busy=None, peak=4.0, complete=True, busy_above=-inf
)


def written(findings: Finding) -> Any:
    """The one finding, as a strict parser reads it."""
    [row] = strict.loads(plain.render(report(findings)))["findings"]
    return row


@pytest.mark.parametrize("number", [inf, -inf, nan])
def test_numbers_that_are_not_finite_become_null(number: float):
    price = Price(usd_per_hour=number, source="x", as_of="2026-01-01")
    item = finding(price=price, wasted_usd=number, evidence=(replace(HEART, peak=number, busy_above=number),))
    row = written(item)
    assert (row["usd_per_hour"], row["wasted_usd"]) == (None, None)
    assert [(e["peak"], e["busy_above"]) for e in row["evidence"]] == [(None, None)]
    answer = plain.report_json(report(item))
    assert answer["findings"] == [row]
    assert answer["totals"]["idle_usd_per_hour"] is None
    assert strict.loads(plain.json_text(answer)) == answer


def test_the_cost_of_a_run_is_in_the_report():
    row = replace(own_row("x", "x"), cloud="aws", calls={"cloudwatch:GetMetricData": 2}, metrics=700)
    made = report(finding(), coverage=(row, row))
    assert plain.report_json(made)["run"]["cost"] == {"metrics_requested": 1400, "calls": 4, "gb_seconds": None}


def test_a_signal_that_counts_at_any_value_has_no_level():
    assert written(finding(evidence=(HEART,)))["evidence"][0]["busy_above"] is None


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(987, 6, 5, 4, 3, 2, 999_999, tzinfo=UTC), "0987-06-05T04:03:02Z"),
        (datetime.fromisoformat("2026-11-21T12:00:00+02:00"), "2026-11-21T10:00:00Z"),
    ],
)
def test_years_below_1000_have_four_digits(when: datetime, text: str):
    assert plain.utc_text(when) == text
    assert written(finding(resource=resource(created=when)))["created"] == text


def test_the_rule_is_written_as_in_a_policy():
    hours = replace(office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin"), restart="all", force=True)
    strong = rule(action=Ceiling.DELETE, idle_after=36 * HOUR, grace=3 * DAY, hours=hours)
    assert written(finding(rule=strong))["rule_detail"] == {
        "action": "delete",
        "idle_after": "36h",
        "grace": "3d",
        "freezes": [],
        "waits_because": None,
        "hours": {"on": "mon-fri 07:00-21:00", "tz": "Europe/Berlin", "start": "all", "force": True, "except": []},
        "then": None,
    }
    followed = written(finding(rule=rule(delete_after=10 * DAY)))["rule_detail"]
    assert followed["then"] == {"action": "delete", "after": "10d"}
    assert written(finding(rule=rule(idle_after=timedelta(minutes=30))))["rule_detail"] == {
        "action": "stop",
        "idle_after": "30m",
        "grace": "3d",
        "freezes": [],
        "waits_because": None,
        "then": None,
        "hours": None,
    }


def test_the_report_includes_the_ledger_record():
    record = a_record(idle_since=NOW - 3 * DAY, warned_at=NOW - DAY, receipt="secret")
    assert written(finding(record=record, snooze=Snooze(by="lee@example.com")))["memory"] == {
        "idle_since": "2026-11-18T10:17:00Z",
        "warned_at": "2026-11-20T10:17:00Z",
        "snoozed_until": None,
    }
    assert written(finding())["memory"] is None


def test_an_unmailable_owner_is_claimed_never_the_address():
    claimed = Owner(address=None, source="nobody: no", claimed=Claim(address="a@other.test", source="tag owner"))
    assert written(finding(owner=claimed))["owner"] == {
        "address": None,
        "source": "nobody: no",
        "claimed": {"address": "a@other.test", "source": "tag owner"},
    }
    assert written(finding())["owner"]["claimed"] is None


def test_every_key_of_a_finding_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    row = written(
        finding(owner=Owner(address=None, source="x", claimed=Claim(address="a@b.test", source="y")), evidence=(HEART,))
    )
    keys = [*row, *row["rule_detail"], *row["owner"], *row["evidence"][0]]
    assert [key for key in keys if f"`{key}`" not in page] == []
