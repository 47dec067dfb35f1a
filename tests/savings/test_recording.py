"""Savings as a run counts them, from its phases to the ledger."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import DENIED, STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, due, finding_of, policy
from reaper.acting.restore import restore_resource
from reaper.errors import CloudError, Reason
from reaper.ledger.rows import AtVersion, Category, Key
from reaper.model import Mode, Result, StepName
from reaper.savings import book
from reaper.savings.totals import Saved
from reaper_sandbox.shortcuts import saved_since
from test_conclude import phases

USD = 1.408
"""What an ml.g5.xlarge costs an hour in us-east-1."""


HOURS = '{on: "mon-fri 08:00-18:00", tz: UTC, start: ours}'


def stopped_for_the_night(deployment: FakeDeployment) -> None:
    """Office hours stop it on Thursday evening."""
    deployment.policy = policy(
        POLICY.replace("idle_after: 24h", "idle_after: 30m")
        + f"rules: [{{name: desks, match: {{kind: {STARTABLE}}}, hours: {HOURS}}}]"
    )
    deployment.cloud.kind_name = STARTABLE
    deployment.now = NOW.replace(day=23, hour=10, minute=0)
    deployment.sweep()
    deployment.now += timedelta(days=3, hours=10)
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.STOP


@pytest.fixture
def deployment() -> FakeDeployment:
    """One idle resource."""
    deployment = FakeDeployment()
    deployment.cloud.add("churn", tags={"owner": "jo@example.com", "Team": "vision"})
    return deployment


def saved(deployment: FakeDeployment, by: str = "kind") -> Saved:
    return saved_since(deployment.ledger, NOW - DAY, deployment.now, by)


def stored(deployment: FakeDeployment) -> dict[Category, int]:
    """How many rows of savings there are."""
    rows = [row.key.category for row in deployment.ledger.store.scan()]
    return {each: rows.count(each) for each in (Category.SAVING, Category.SAVED, Category.TREND)}


def test_a_stop_is_credited_from_the_next_sweep_on(deployment: FakeDeployment):
    deployment.policy = policy(f"{POLICY}\nreport: {{tags: team}}")
    due(deployment).sweep()
    assert saved(deployment).lines == ()
    deployment.sweep_after(hours=6)
    result = saved(deployment, "tag:team")
    [line] = result.lines
    assert (line.hours, line.action.rate and line.action.rate.source, line.action.action) == (6.0, "snapshot", StepName.STOP)
    assert (result.groups[0].key, result.ours.saved_usd) == ("vision", pytest.approx(6 * USD, abs=0.01))


def test_a_conclude_that_runs_again_credits_nothing_twice(deployment: FakeDeployment):
    due(deployment).sweep()
    deployment.now += 6 * HOUR
    run = phases(deployment)
    run.conclude()
    before = list(deployment.ledger.store.scan())
    deployment.now += HOUR
    run.conclude()
    categories = {Category.SAVING, Category.SAVED}
    again = [row for row in deployment.ledger.store.scan() if row.key.category in categories]
    assert again == [row for row in before if row.key.category in categories]
    assert saved(deployment).ours.hours == 6.0


def test_an_undo_ends_it_at_its_exact_time(deployment: FakeDeployment):
    due(deployment).sweep()
    deployment.sweep_after(hours=6)
    deployment.now += 2 * HOUR
    restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    deployment.sweep_after(hours=4)
    deployment.sweep_after(hours=6)
    assert (saved(deployment).ours.hours, stored(deployment)[Category.SAVING]) == (8.0, 0)


def test_a_night_is_credited_until_our_start(deployment: FakeDeployment):
    stopped_for_the_night(deployment)
    deployment.sweep_after(hours=6)
    report = deployment.sweep_after(hours=7)
    assert finding_of(report, "churn").step.name is StepName.START
    assert (saved(deployment).ours.hours, stored(deployment)[Category.SAVING]) == (13.0, 0)


def test_a_day_that_only_incomplete_looks_saw_is_never_credited(deployment: FakeDeployment):
    """Its stop in the evening must not look like the one of the night before."""
    stopped_for_the_night(deployment)
    deployment.sweep_after(hours=6)
    deployment.cloud.add("odd", created=NOW.replace(tzinfo=None))
    reports = [deployment.sweep_after(hours=hours) for hours in (7, 11)]
    del deployment.cloud.things["odd"]
    deployment.sweep_after(hours=6)
    assert [finding_of(report, "churn").step.name for report in reports] == [StepName.START, StepName.STOP]
    assert ([line.hours for line in saved(deployment).lines], stored(deployment)[Category.SAVING]) == ([6.0, 6.0], 1)


@pytest.mark.parametrize(
    "odd",
    [
        {"at": "2026-11-20T08:00:00"},
        {"called_at": "9999-12-31T23:59:59Z"},
        {"looked_at": "0001-01-01T00:00:00Z"},
        {"rate": {"usd_per_hour": 1e308, "source": "?", "as_of": "?"}},
    ],
)
def test_an_odd_time_or_rate_of_a_row_costs_no_run_its_report(odd: dict[str, Any]):
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    due(deployment).sweep()
    row = next(row for row in deployment.ledger.store.scan() if row.key.category is Category.SAVING)
    facts = {"facts": json.dumps(json.loads(row.texts["facts"]) | odd)}
    deployment.ledger.store.put(row.key, facts, "2026-11-24T00:00:00.000000+00:00", AtVersion(version=int(row.version)))
    assert deployment.ledger.store.get(row.key).texts == facts
    report = deployment.sweep_after(hours=6)
    assert ["can't be read" in (row.error or "") for row in report.own_failures] == [True]


def test_an_owner_who_stops_it_after_a_notice_was_prompted(deployment: FakeDeployment):
    deployment.sweep()
    thing = deployment.cloud.things["churn"]
    thing.running_since, thing.changed = None, deployment.now + 2 * HOUR
    deployment.sweep_after(hours=6)
    deployment.sweep_after(hours=6)
    result = saved(deployment)
    assert (result.prompted.hours, result.ours.hours) == (10.0, 0.0)
    assert result.prompted.saved_usd == pytest.approx(10 * USD, abs=0.01)


def test_what_another_look_can_not_see_is_credited_once_it_is_seen(deployment: FakeDeployment):
    due(deployment).sweep()
    deployment.cloud.fail_on = lambda call, name: (_ for _ in ()).throw(DENIED) if call == "list" else None
    deployment.sweep_after(hours=6)
    assert saved(deployment).lines == ()
    deployment.cloud.fail_on = lambda call, name: None
    deployment.sweep_after(hours=6)
    assert saved(deployment).ours.hours == 12.0


def test_an_audit_writes_nothing_of_savings(deployment: FakeDeployment):
    due(deployment).sweep()
    before = stored(deployment)
    deployment.now += 6 * HOUR
    deployment.sweep(Mode.AUDIT)
    assert (stored(deployment), saved(deployment).lines) == (before, ())


def test_a_ledger_that_fails_is_a_row_of_the_report_and_stops_no_mail():
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn", tags={"owner": "jo@example.com"})
    due(deployment).sweep()
    key = next(row.key for row in deployment.ledger.store.scan() if row.key.category is Category.SAVING)
    deployment.ledger.store.put(key, {"facts": "?"}, "2026-11-24T00:00:00.000000+00:00")
    deployment.cloud.add("other", tags={"owner": "jo@example.com"})
    report = deployment.sweep_after(hours=6)
    assert finding_of(report, "other").outcome.result is Result.DONE
    assert ["can't be read" in (row.error or "") for row in report.own_failures] == [True]


def test_the_trend_notes_what_is_idle_each_day(deployment: FakeDeployment):
    deployment.sweep()
    deployment.sweep_after(hours=1)
    deployment.sweep_after(days=1)
    days = book.read_trend(deployment.ledger, NOW, deployment.now)
    assert [(day.target, day.resources, day.idle, day.idle_usd_per_hour) for day in days] == [(TARGET, 1, 1, USD)] * 2


def test_a_kind_that_is_gone_is_a_zero_of_the_trend(deployment: FakeDeployment):
    deployment.sweep()
    name, thing = deployment.cloud.things.popitem()
    deployment.sweep_after(hours=1)
    assert [(day.day, day.resources) for day in book.read_trend(deployment.ledger, NOW, deployment.now)] == [
        (f"{NOW:%Y-%m-%d}", 0)
    ]
    deployment.sweep_after(days=1)
    assert len(book.read_trend(deployment.ledger, NOW, deployment.now)) == 1
    deployment.cloud.things[name] = thing
    deployment.sweep_after(days=1)
    del deployment.cloud.things[name]
    deployment.sweep_after(days=9)
    days = book.read_trend(deployment.ledger, NOW, deployment.now)
    assert [day.resources for day in days] == [0, 1, 0]


def test_a_kind_that_could_not_be_read_is_no_zero(deployment: FakeDeployment):
    def denied(call: str, name: str) -> None:
        raise CloudError(Reason.DENIED, call, "not allowed")

    deployment.sweep()
    deployment.cloud.fail_on = denied
    deployment.sweep_after(days=1)
    assert [day.resources for day in book.read_trend(deployment.ledger, NOW, deployment.now)] == [1]


def test_a_begun_saving_lasts_if_another_credit_cannot_be_written(deployment: FakeDeployment):
    """It was waited for as its owner's, and something else was credited meanwhile."""
    deployment.cloud.add("other", tags={"owner": "jo@example.com"})
    deployment.cloud.things.pop("churn")
    due(deployment).sweep()
    deployment.now += HOUR
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY + HOUR
    put = deployment.ledger.store.put

    def failing(key: Key, *given: Any) -> bool:
        if key.category is Category.SAVED:
            raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "throttled")
        return put(key, *given)

    deployment.ledger.store.put = failing  # type: ignore[method-assign]
    report = deployment.sweep()
    assert finding_of(report, "churn").outcome.result is Result.DONE
    assert any("throttled" in (row.error or "") for row in report.coverage)
    deployment.ledger.store.put = put  # type: ignore[method-assign]
    deployment.sweep_after(hours=6)
    running = {row.saving.subject.name: row.saving.cause for row in book.read_open(deployment.ledger, TARGET)[0]}
    assert running["churn"] is book.Cause.OURS
