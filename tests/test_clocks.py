"""Wrong clocks: nothing is sent or done on a row that another clock dated ahead, and one mistake doesn't last for years."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET, clock_at
from fakes.fake_cloud import KIND
from fakes.fake_deployment import FakeDeployment, due, only
from fakes.judged_cases import case, move
from fakes.planned import seen_idle, since_own_call
from fakes.records import a_record, an_act, known, open_targets
from reaper.calendars import office_hours
from reaper.case import Blocked
from reaper.handover import Decided
from reaper.ledger import rows
from reaper.limits import holds
from reaper.limits.holds import Breaker, Exceeded, Hold, HoldRow, LimitName, Release
from reaper.model import AnnouncedAction, Mode, Pause, Result, State, StepName
from reaper.notices.message import Audience
from reaper.pending import stop_switch
from reaper.pending.unfinished import change_open_targets
from reaper.planning import dates
from reaper.record import Record, dated_ahead_because, without_void_times
from reaper.run import run_phases

MINUTE = timedelta(minutes=1)
ACTED = {"acted": StepName.STOP, "result": Result.DONE}
TIMES = {
    "written": ("written_at", {}),
    "notified": ("warned_at", {}),
    "reminded": ("reminded_at", {}),
    "acted on": ("acted_at", ACTED),
}


def idle_memory(column: str, ahead: timedelta, more: dict[str, Any]) -> Record:
    """A row whose time in that column is so far ahead."""
    return a_record(**{"idle_since": NOW - 5 * DAY, "seen_idle_at": NOW - HOUR, **more, column: NOW + ahead})


@pytest.mark.parametrize(("column", "more"), TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("ahead", [10 * MINUTE + timedelta(seconds=1), 7 * DAY], ids=["over 10 minutes", "7 days"])
def test_a_row_dated_ahead_gets_nothing(column: str, more: dict[str, Any], ahead: timedelta):
    record = idle_memory(column, ahead, more)
    assert move(case(idle_for=5 * DAY, acts={StepName.STOP: None}), record) is StepName.NONE
    assert "ahead of this run's clock" in (dated_ahead_because(record, NOW) or "")


@pytest.mark.parametrize(("column", "more"), TIMES.values(), ids=TIMES)
def test_clocks_may_differ_by_10_minutes(column: str, more: dict[str, Any]):
    assert dated_ahead_because(idle_memory(column, 10 * MINUTE, more), NOW) is None


@pytest.mark.parametrize(("column", "more"), TIMES.values(), ids=TIMES)
def test_times_over_7_days_ahead_are_void(column: str, more: dict[str, Any]):
    record = idle_memory(column, 7 * DAY + MINUTE, more)
    assert move(case(idle_for=5 * DAY, acts={StepName.STOP: None}), record) is StepName.WARN


def test_a_void_time_of_the_last_call_keeps_nothing_young():
    one = case(idle_for=5 * DAY, acts={StepName.STOP: None})
    assert since_own_call(one, a_record(called_at=NOW + 8 * DAY), NOW) == one
    ahead = since_own_call(one, a_record(called_at=NOW + 6 * DAY), NOW)
    assert ahead.verdict.state is State.YOUNG


def test_an_idle_period_seen_far_ahead_does_not_span_a_gap_in_the_proof():
    one = case(idle_for=2 * DAY, acts={StepName.STOP: None})
    warned = {"warned_at": NOW - 4 * DAY, "not_before": NOW - DAY, "announced": AnnouncedAction.STOP}
    record = a_record(idle_since=NOW - 20 * DAY, seen_idle_at=NOW + 8 * DAY, **warned)
    assert move(one, record) is not StepName.STOP
    assert seen_idle(one, record, NOW).seen_idle_at == NOW


def test_a_notice_by_a_clock_a_little_ahead_was_sent_now():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    because = only(deployment.sweep_after(minutes=-5)).step.because
    assert because.startswith("the owner was notified 0 minutes ago")


def test_a_void_notice_announces_nothing():
    ahead = a_record(warned_at=NOW - 5 * DAY, reminded_at=NOW + 8 * DAY, announced=AnnouncedAction.STOP)
    assert without_void_times(ahead, NOW) == Record()


def test_a_snooze_stays_a_snooze_whatever_the_other_times_are():
    snoozed = {"snoozed_at": NOW + 9 * DAY, "snoozed_until": NOW + 20 * DAY}
    both = known(warned_at=NOW + 8 * DAY, acted_at=NOW + 8 * DAY, written_at=NOW + 9 * DAY, **ACTED, **snoozed)
    assert without_void_times(both[0], NOW).act is None
    assert move(case(idle_for=5 * DAY, acts={StepName.STOP: None}), both) is StepName.NONE


def test_an_open_action_stays_open_whatever_its_time_is():
    opened = a_record(acted=StepName.STOP, acted_at=NOW + 8 * DAY, run="r0")
    assert without_void_times(opened, NOW) == opened


def mails(deployment: FakeDeployment) -> int:
    return sum(message.audience is Audience.OWNERS for message in deployment.channel.messages)


def test_a_run_with_a_slow_clock_sends_and_does_nothing():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    assert mails(deployment) == 1
    deployment.now -= HOUR
    finding = only(deployment.sweep())
    assert (finding.step.name, finding.step.because) == (
        StepName.NONE,
        "its ledger record is dated 1 hour ahead of this run's clock, so nothing is sent or done until that is past",
    )
    assert (mails(deployment), deployment.record("churn").version) == (1, 1)


def test_after_a_run_with_a_fast_clock_nothing_is_done_until_that_time():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    due(deployment)
    right = deployment.now
    deployment.now = right + 2 * DAY
    deployment.cloud.things["churn"].uses.append(deployment.now - 3 * HOUR)
    deployment.sweep()  # writes the row, and ends its notice
    deployment.cloud.things["churn"].uses.clear()
    written, sent = deployment.record("churn").written_at, mails(deployment)
    assert written == right + 2 * DAY
    deployment.now = right + DAY
    assert "ahead of this run's clock" in only(deployment.sweep()).step.because
    assert (mails(deployment), deployment.cloud.log) == (sent, [])
    deployment.now = right + 3 * DAY
    assert only(deployment.sweep()).step.name is StepName.WARN


def written_by_a_fast_clock(deployment: FakeDeployment) -> None:
    """Something else writes the row with a clock that is a day ahead."""
    id_, record = deployment.cloud.id("churn"), deployment.record("churn")
    assert deployment.ledger.write_record(id_, record, record.version, deployment.now + DAY)


def test_the_recheck_refuses_a_row_dated_ahead():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    due(deployment)

    def before_call(call: str, name: str) -> None:
        if call == "look":
            deployment.cloud.before_call = lambda call, name: None
            written_by_a_fast_clock(deployment)

    deployment.cloud.before_call = before_call
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "dated 1 day ahead of this run's clock" in (finding.outcome.because or "")


def test_no_notice_goes_out_about_a_row_dated_ahead_since():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep(Mode.NOTIFY)
    deployment.now += 9 * DAY
    opened, before = deployment.open_run(Mode.NOTIFY), mails(deployment)
    conclude = replace(opened.conclude, clock=_then(deployment, opened.conclude.clock))
    finding = only(run_phases(replace(opened, conclude=conclude)))
    assert (mails(deployment), "dated 1 day ahead" in finding.step.because) == (before, True)


def _then(deployment: FakeDeployment, clock: Any) -> Any:
    """The clock; at its first reading, which is conclude's, another writer dates the row ahead."""
    writes = [written_by_a_fast_clock]

    def read() -> Any:
        if writes:
            writes.pop()(deployment)
        return clock()

    return read


OFFICE = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
MONDAY = datetime(2026, 11, 16, 22, tzinfo=UTC)


def test_a_void_enrolment_is_replaced_at_once():
    at_night = case(idle_for=5 * DAY, acts={StepName.STOP: None}, hours=OFFICE, remind_every=30 * DAY)
    ahead = {"announced": AnnouncedAction.HOURS, "hours": dates.hours_digest(OFFICE)}
    assert move(at_night, a_record(warned_at=MONDAY - DAY, **{**ahead, "hours": "-"}), MONDAY) is StepName.NONE
    assert move(at_night, a_record(warned_at=MONDAY + 8 * DAY, **ahead), MONDAY) is StepName.WARN


def test_a_void_stop_is_not_ours_to_start_again():
    asleep = {StepName.STOP: Blocked(because="it is stopped", already_done=True), StepName.START: None}
    by_day, stopped = MONDAY + 12 * HOUR, case(State.EXEMPT, acts=asleep, hours=OFFICE, changed=MONDAY)
    assert move(stopped, a_record(acted_at=MONDAY, **ACTED), by_day) is StepName.START
    assert move(stopped, a_record(acted_at=by_day + 8 * DAY, **ACTED), by_day) is StepName.NONE


@pytest.mark.parametrize("result", [None, Result.DONE], ids=["open", "done and not told"])
def test_an_action_dated_ahead_is_closed_and_told_once_that_is_past(result: Result | None):
    deployment = FakeDeployment()
    deployment.cloud.add("churn", uses=[NOW + n * HOUR for n in range(-24, 24)])
    id_, at = deployment.cloud.id("churn"), NOW + 2 * HOUR
    subject = {"id": id_, "kind": KIND, "name": "churn", "region": "us-east-1", "owner": "jo@example.com"}
    acted = Record(act=an_act(StepName.STOP, at, "run-0", result=result, **subject))
    assert deployment.ledger.write_record(id_, acted, 0, NOW)
    change_open_targets(deployment.ledger, [], [TARGET])
    deployment.sweep()
    assert (mails(deployment), deployment.record("churn").version, open_targets(deployment.ledger)) == (0, 1, [TARGET])
    deployment.now = at
    deployment.sweep()
    assert mails(deployment) == 1
    deployment.sweep()
    assert (mails(deployment), open_targets(deployment.ledger)) == (1, [])


def test_the_end_of_a_jump_dated_ahead_voids_no_later_notice():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    ended = Breaker(target="aws/123456789012/us-east-1", kind=KIND, lapsed_at=NOW + 9 * DAY)
    row = holds.row_columns(HoldRow(breakers=(ended,)))
    assert deployment.ledger.write_row(holds.row_name("aws/123456789012"), row, 0)
    steps = [only(deployment.sweep_after(hours=1)).step.name for _ in range(4)]
    assert steps == [StepName.WARN, StepName.NONE, StepName.NONE, StepName.NONE]


def test_a_release_ends_a_hold_and_a_jump_that_are_dated_ahead():
    hold = Hold(exceeded=Exceeded(limit=LimitName.ACTIONS), since=NOW + DAY, run="r1", because="too many")
    jump = Breaker(target="aws/123456789012/us-east-1", kind=KIND, since=NOW + DAY, because="a jump")
    given = Release(given_at=NOW, valid_until=NOW + DAY, by="lee")
    [row] = holds.settled_rows({"aws/123456789012": HoldRow(holds=(hold,), breakers=(jump,), release=given)}, NOW).values()
    assert (row.holds, row.jumps) == ((), ())


@pytest.mark.parametrize("skew", [11 * MINUTE, -11 * MINUTE], ids=["fast", "slow"])
def test_a_clock_that_differs_from_the_ledgers_sends_and_does_nothing(skew: timedelta):
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    due(deployment)
    sent = mails(deployment)
    deployment.ledger.store.clock_skew = skew
    report = deployment.sweep()
    assert (deployment.cloud.log, mails(deployment)) == ([], sent)
    [row] = [row for row in report.coverage if row.kind == "ledger"]
    apart = "ahead of" if skew > timedelta(0) else "behind"
    assert f"this machine's clock is 11 minutes {apart} the ledger's, so this machine sends no notice and changes nothing" in (
        row.error or ""
    )
    deployment.ledger.store.clock_skew = skew / 2
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_no_notice_goes_out_by_a_machine_whose_clock_is_wrong():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    opened = deployment.open_run(Mode.NOTIFY)

    def hand_over(value: Any) -> Any:
        if isinstance(value, Decided):  # what follows runs on another machine
            deployment.ledger.store.clock_skew = -DAY
        return value

    report = run_phases(opened, hand_over)
    assert mails(deployment) == 0
    assert any("1 day behind the ledger's" in (row.error or "") for row in report.coverage)


@pytest.mark.parametrize("skew", [-DAY, 90 * MINUTE], ids=["slow", "fast"])
def test_no_action_is_carried_out_by_a_machine_whose_clock_is_wrong(skew: timedelta):
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    due(deployment)

    def hand_over(value: Any) -> Any:
        if isinstance(value, Decided):  # what follows runs on another machine
            stop_switch.set_pause(deployment.ledger, Pause(until=deployment.now + HOUR, by="lee"), deployment.now)
            deployment.now += max(skew, timedelta(0))  # the pause seems to be over
            deployment.ledger.store.clock_skew = skew
        return value

    finding = only(run_phases(deployment.open_run(), hand_over))
    assert (finding.step.name, finding.outcome.result, deployment.cloud.log) == (StepName.STOP, Result.REFUSED, [])
    assert "this machine's clock is" in (finding.outcome.because or "")


@pytest.mark.parametrize(
    ("date", "skew"),
    [
        ("Thu, 26 Nov 2026 12:00:00 GMT", timedelta(hours=1)),
        ("Thu, 26 Nov 2026 13:11:00 GMT", -11 * MINUTE),
        (None, timedelta(0)),
        ("yesterday", timedelta(0)),
        ("Thu, 26 Nov 2026 12:00:00", timedelta(0)),
        (f"Thu, {'9' * 30} Nov 2026 12:00:00 GMT", timedelta(0)),
    ],
)
def test_the_date_of_a_reply_says_how_far_the_clocks_are_apart(monkeypatch, date: str | None, skew: timedelta):
    monkeypatch.setattr(rows, "datetime", clock_at(datetime(2026, 11, 26, 13, tzinfo=UTC)))
    assert rows.clock_skew(date) == skew
