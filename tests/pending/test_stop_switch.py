"""The stop switch: while it is on, or can't be read, no call stops, deletes or starts anything. What puts something back goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, due, only, policy, stopped
from reaper.acting import restore
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import NamedRow
from reaper.model import UNTIL_RESUMED, Mode, Pause, Result, StepName
from reaper.pending import stop_switch
from reaper.pending.stop_switch import PAUSE_ROW

DELETE = POLICY.replace("action: stop", "action: delete")


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing that has been idle for two months."""
    new_deployment = FakeDeployment(ledger=FailingLedger())
    new_deployment.cloud.add("churn")
    return new_deployment


def pause(deployment: FakeDeployment, until: datetime = UNTIL_RESUMED) -> None:
    stop_switch.set_pause(deployment.ledger, Pause(until=until, by="lee"), deployment.now)


def resume(deployment: FakeDeployment) -> None:
    stop_switch.end_pause(deployment.ledger, "lee", deployment.now)


def paused_until(ledger: Ledger, now: datetime) -> datetime | None:
    pause = stop_switch.read_pause(ledger, now)
    return pause.until if pause else None


def test_a_pause_is_read_back_from_every_ledger(ledger):
    assert stop_switch.read_pause(ledger, NOW) is None
    set_until = stop_switch.set_pause(ledger, Pause(until=NOW + DAY, by="jo@example.com"), NOW)
    assert set_until == Pause(until=NOW + DAY, by="jo@example.com", at=NOW)
    assert paused_until(ledger, NOW + DAY - HOUR) == NOW + DAY
    assert paused_until(ledger, NOW + DAY) is None
    assert stop_switch.set_pause(ledger, Pause(by="jo"), NOW) == Pause(until=UNTIL_RESUMED, by="jo", at=NOW)
    assert paused_until(ledger, NOW + 9999 * DAY) == UNTIL_RESUMED
    assert stop_switch.end_pause(ledger, "jo", NOW) is None
    assert paused_until(ledger, NOW) is None


def test_every_ledger_reads_records_and_the_switch_together(ledger):
    stop_switch.set_pause(ledger, Pause(by="jo"), NOW)
    recalled, row = ledger.recall_with_row(["arn:aws:sagemaker:us-east-1:1:endpoint/a"], PAUSE_ROW, NOW)
    assert (recalled.readable, row) == ({}, NamedRow(values={"document": row.values["document"]}, version=1))
    assert ledger.recall_with_row([], "never written", NOW)[1] == NamedRow()


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="nothing in it"),
        pytest.param({"state": "off"}, id="no document"),
        pytest.param({"document": ""}, id="an empty document"),
        pytest.param({"document": "off"}, id="no JSON"),
        pytest.param({"document": "null"}, id="null"),
        pytest.param({"document": '{"state": "off"}'}, id="an unknown field"),
        pytest.param({"document": '{"until": "tomorrow"}'}, id="an end that is no time"),
        pytest.param({"document": '{"until": "2020-01-01T00:00:00"}'}, id="an end without a zone"),
        pytest.param({"document": '{"until": ""}'}, id="an empty end"),
        pytest.param({"document": '{"until": null}'}, id="no end"),
        pytest.param({"document": '{"until": "2020-01-01T00:00:00Z", "at": "?"}'}, id="a start that is no time"),
    ],
)
def test_a_row_that_cannot_be_understood_counts_as_on(ledger: Ledger, values: dict[str, str]):
    assert ledger.write_row(PAUSE_ROW, values, 0)
    assert paused_until(ledger, NOW) == UNTIL_RESUMED
    assert "counts as on" in stop_switch.paused_sentence(stop_switch.read_pause(ledger, NOW))
    assert stop_switch.end_pause(ledger, "jo", NOW) is None


def test_an_end_after_the_last_year_is_no_end(ledger: Ledger):
    assert ledger.write_row(PAUSE_ROW, {"document": '{"until": "9999-12-31T23:59:59-14:00"}'}, 0)
    assert stop_switch.paused_sentence(stop_switch.read_pause(ledger, NOW)).startswith(
        "The stop switch is on until `reaper resume`"
    )


def test_nothing_is_acted_on_while_the_switch_is_on(deployment):
    pause(due(deployment), deployment.now + 2 * HOUR)
    outcome = only(deployment.sweep()).outcome
    assert (outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert outcome.because == "the stop switch is on until 2026-11-24 12:17 UTC, set by lee"
    assert deployment.record("churn").act is None
    assert only(deployment.sweep_after(hours=2)).outcome.result is Result.DONE


def test_after_resume_the_next_sweep_acts(deployment):
    pause(due(deployment))
    assert "until `reaper resume`, set by lee" in str(only(deployment.sweep()).outcome.because)
    resume(deployment)
    assert only(deployment.sweep()).outcome.result is Result.DONE


def test_notices_go_on_while_the_switch_is_on(deployment):
    pause(deployment)
    assert only(deployment.sweep()).outcome.result is Result.DONE
    assert deployment.record("churn").notice.warned_at == NOW


def test_an_unreadable_switch_stops_every_action(deployment):
    def fail_on(call: str, name: str) -> None:
        if (call, name) == ("row", PAUSE_ROW):
            raise CloudError(Reason.THROTTLED, "dynamodb:GetItem", "too often")

    due(deployment).ledger.fail_on = fail_on
    outcome = only(deployment.sweep()).outcome
    assert (outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "can't be read" in (outcome.because or "")


def before_call_of(deployment: FakeDeployment, number: int) -> None:
    """The switch is turned on right before the permit of that changing call is asked for."""
    permits: list[int] = []

    def before_permit() -> None:
        permits.append(1)
        if len(permits) == number:
            pause(deployment)

    deployment.cloud.before_permit = before_permit


def test_a_pause_right_before_the_first_call_takes_back_the_intent(deployment):
    before = due(deployment).record("churn")
    before_call_of(deployment, 1)
    outcome = only(deployment.sweep()).outcome
    assert (outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "the stop switch is on" in (outcome.because or "")
    after = deployment.record("churn")
    assert (after.act, after.notice.warned_at, after.notice.not_before) == (
        None,
        before.notice.warned_at,
        before.notice.not_before,
    )
    resume(deployment)
    assert only(deployment.sweep_after(minutes=5)).outcome.result is Result.DONE


def test_a_pause_between_two_calls_ends_the_action_there():
    deployment = FakeDeployment(policy=policy(DELETE))
    deployment.cloud.add("churn", minimum=2)
    deployment.sweep()
    deployment.now += 3 * DAY
    before_call_of(deployment, 2)
    report = deployment.sweep()
    [outcome] = [f.outcome for f in report.findings if f.outcome.begun]
    assert (outcome.result, deployment.cloud.log, deployment.cloud.things["churn"].minimum) == (Result.REFUSED, [], 2)
    assert "it was begun, then interrupted: the stop switch is on" in (outcome.because or "")
    deployment.sweep_after(days=1)
    assert deployment.cloud.log == []


def test_a_pause_between_two_actions_of_a_run_ends_the_run(deployment):
    deployment.cloud.add("tide")
    deployment.sweep()
    deployment.now += 3 * DAY
    before_call_of(deployment, 2)
    results = sorted(f.outcome.result for f in deployment.sweep().findings)
    assert (results, len(deployment.cloud.log)) == ([Result.DONE, Result.REFUSED], 1)


def test_office_hours_start_nothing_while_the_switch_is_on():
    hours = "rules: [{name: office, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, start: all}}]\n"
    deployment = FakeDeployment(policy=policy(POLICY + hours))
    deployment.cloud.kind_name = STARTABLE
    stopped_at = deployment.now - 9 * DAY
    deployment.cloud.add("desk", running_since=None, changed=stopped_at)
    pause(deployment)
    deployment.now = datetime(2026, 11, 23, 9, tzinfo=NOW.tzinfo)
    finding = only(deployment.sweep())
    assert (finding.step.name, finding.outcome.result) == (StepName.START, Result.REFUSED)
    resume(deployment)
    assert only(deployment.sweep_after(minutes=5)).outcome.result is Result.DONE


def test_a_restore_goes_on_while_the_switch_is_on(deployment):
    due(deployment).sweep()
    pause(deployment)
    deployment.now += HOUR
    result = restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    assert (result.error, deployment.cloud.things["churn"].running_since) == (None, deployment.now)


def test_a_pause_that_is_over_needs_no_resume(deployment):
    pause(due(deployment), deployment.now - timedelta(microseconds=1))
    assert only(deployment.sweep()).outcome.result is Result.DONE


def test_below_enforce_the_switch_changes_nothing(deployment):
    pause(deployment)
    finding = only(deployment.sweep(Mode.ANNOUNCE))
    assert (finding.step.name, finding.outcome.result, stopped(deployment)) == (StepName.WARN, Result.DONE, False)
