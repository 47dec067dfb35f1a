"""Since when a resource is idle, and what that cost: one answer, on every surface, however long the window of metrics is."""

from __future__ import annotations

import csv as csv_lines
import io
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_deployment import FakeDeployment, finding_of
from fakes.mails import notice_item
from fakes.sample_findings import occasion
from reaper.duration import short_duration
from reaper.finding import Finding, Report
from reaper.model import Mode, State, StepName
from reaper.report import csv, html, markdown, text
from reaper.report.json import finding_json
from reaper.snooze.links import Keys, LinkSigner, open_visit
from reaper.text import format_usd

SIGNER = LinkSigner(base="https://keep.example.com", keys=Keys(current="k1", ring={"k1": b"1" * 32}))
LAST_USE = NOW - DAY - HOUR
SILENT_SINCE = LAST_USE.replace(minute=0, second=0, microsecond=0) + HOUR
"""The hour after that of its last use."""


@dataclass
class Fleet(FakeDeployment):
    """One resource that was used for the last time just before the first sweep, swept every day in mode notify."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud.add("churn", uses=[LAST_USE])

    def sweep_for(self, days: int) -> Finding:
        """The finding of the last of these daily sweeps."""
        for _ in range(days):
            self.now += DAY
            found = finding_of(self.sweep(Mode.NOTIFY), "churn")
        return found


def surfaces(finding: Finding, report: Report, now: datetime) -> dict[str, object]:
    """Its beginning, or how long it has lasted, and its cost, as each surface shows them."""
    item = notice_item(finding, occasion(now=now))
    visit = open_visit(SIGNER, now, "jo@example.com", True, "UTC", [finding])
    assert visit
    row = finding_json(finding, now)
    [line] = csv_lines.DictReader(io.StringIO(csv.render(report)))
    return {
        "mail": item.since,
        "page": visit.visit.resources[0].idle_since,
        "json": now - timedelta(seconds=row["idle_for_s"]),
        "sheet": now - timedelta(seconds=int(line["idle_for_s"])),
        "wasted": {row["wasted_usd"], float(line["wasted_usd"]), report.totals.wasted_usd, finding.wasted_usd},
        "shown": item.wasted.partition(" ")[0],
    }


@pytest.mark.parametrize("days", [1, 10, 20, 40])
def test_an_idle_period_has_one_begin_and_one_cost_everywhere(days: int):
    fleet = Fleet()
    found = fleet.sweep_for(days)
    report = fleet.sweep(Mode.AUDIT)
    shown = surfaces(found, replace(report, findings=(found,)), fleet.now)
    hours = (fleet.now - SILENT_SINCE) / HOUR
    assert found.case.verdict.state is State.IDLE
    assert {shown.pop(name) for name in ("mail", "page", "json", "sheet")} == {SILENT_SINCE}
    wasted = round(hours * found.case.usd_per_hour, 2)
    assert shown == {"wasted": {wasted}, "shown": format_usd(wasted)}


def test_every_report_says_how_long_it_has_lasted():
    fleet = Fleet()
    found = fleet.sweep_for(20)
    report = replace(fleet.sweep(Mode.AUDIT), findings=(found,))
    for render in (text.render, markdown.render, html.render):
        assert short_duration(found.idle_for) in render(report)


def test_without_a_ledger_it_is_the_edge_of_the_window():
    fleet = Fleet()
    fleet.sweep_for(40)
    fleet.ledger = None
    found = finding_of(fleet.sweep(Mode.AUDIT), "churn")
    assert found.idle_for == found.case.verdict.idle_for < 40 * DAY
    assert notice_item(found, occasion(now=fleet.now)).at_least


def test_a_sweep_that_saw_nothing_breaks_no_idle_period():
    fleet = Fleet()
    fleet.sweep_for(10)
    fleet.now += 3 * DAY  # nobody sweeps
    thing = fleet.cloud.things["churn"]
    thing.incomplete_replies = True
    assert fleet.sweep_for(2).case.verdict.state is State.UNKNOWN
    thing.incomplete_replies = False
    assert fleet.sweep_for(1).idle_since == SILENT_SINCE


def test_use_begins_another_period():
    fleet = Fleet()
    fleet.sweep_for(10)
    fleet.cloud.things["churn"].uses.append(fleet.now + 30 * timedelta(minutes=1))
    found = fleet.sweep_for(4)
    assert found.idle_since == NOW.replace(minute=0, second=0, microsecond=0) + 10 * DAY + HOUR


def test_after_a_call_of_ours_it_counts_from_that_call():
    """What it cost before at more instances is not wasted by what is left."""
    fleet = Fleet()
    fleet.cloud.things["churn"].variants = fleet.cloud.things["churn"].whole = 2
    fleet.sweep()
    assert finding_of(fleet.sweep_after(days=4), "churn").step.name is StepName.STOP
    called_at = fleet.record("churn").called_at
    found = fleet.sweep_for(3)
    assert (found.case.verdict.state, found.idle_since) == (State.IDLE, called_at)
