from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import LOOKBACK, WEEK, after_judging, case, counted, move, step_of, with_snooze
from fakes.planned import after_notice, valid_notice_at, viewed
from fakes.records import a_record
from reaper.calendars import office_hours
from reaper.calendars.freezes import Freeze
from reaper.case import may_act
from reaper.finding import Step
from reaper.model import Ceiling, State, StepName, Verdict
from reaper.plan import REASONS, because_of, plan_step
from reaper.record import NO_SNOOZES, Claim, ManifestReference, Record, Snooze, Snoozes, after_action

WARN = Step(name=StepName.WARN, because="idle")


def warned(ago: timedelta, **fields: Any) -> Record:
    """Idle for ten days, warned a while ago, seen idle just now."""
    return a_record(
        **{"idle_since": NOW - 10 * DAY, "seen_idle_at": NOW - HOUR, "warned_at": NOW - ago, "receipt": "r", **fields}
    )


def snoozed(until: datetime, record: Record | None = None, **fields: Any) -> tuple[Record, Snoozes]:
    """A record and a snooze beside it."""
    return record or Record(), Snoozes(own=Snooze(until=until, **fields))


def test_plan_warns_the_first_time_a_resource_is_idle():
    step = step_of(case(), Record(), NOW)
    assert step.name is StepName.WARN
    assert "idle for more than 1 day under test" in step.because


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(warned(timedelta(0)), StepName.NONE, id="told this moment"),
        pytest.param(warned(WEEK - HOUR - timedelta(microseconds=1)), StepName.NONE, id="told almost a week ago"),
        pytest.param(
            warned(WEEK - HOUR), StepName.REMIND, id="told a week ago, but for the hour by which a daily clock may be early"
        ),
        pytest.param(warned(WEEK), StepName.REMIND, id="told a week ago"),
        pytest.param(warned(9 * DAY, reminded_at=NOW - 2 * DAY), StepName.NONE, id="reminded two days ago"),
        pytest.param(warned(9 * DAY, reminded_at=NOW - WEEK), StepName.REMIND, id="reminded a week ago"),
        pytest.param(snoozed(NOW + HOUR, warned(DAY)), StepName.NONE, id="kept for another hour"),
        pytest.param(snoozed(NOW + HOUR), StepName.NONE, id="kept before it was ever told"),
        pytest.param(snoozed(NOW + HOUR, warned(9 * DAY)), StepName.NONE, id="kept although a reminder is due"),
        pytest.param(snoozed(NOW, warned(2 * DAY)), StepName.WARN, id="the snooze it led to is over"),
        pytest.param(snoozed(NOW - DAY, warned(HOUR)), StepName.NONE, id="told after an earlier snooze was over"),
        pytest.param(
            warned(11 * DAY, seen_idle_at=None),
            StepName.WARN,
            id="told before this spell began, as far as anything is known",
        ),
        pytest.param(a_record(warned_at=NOW - 4 * DAY), StepName.NONE, id="told before the idle time that is proven"),
        pytest.param(a_record(warned_at=NOW - 2 * DAY), StepName.NONE, id="told within the idle time that is proven"),
        pytest.param(a_record(warned_at=NOW - 3 * DAY), StepName.NONE, id="told just when the proven idle time began"),
        pytest.param(snoozed(NOW - HOUR, warned(HOUR)), StepName.NONE, id="told just when a snooze was over"),
    ],
)
def test_plan_notifies_the_owner_of_an_idle_resource_on_time(known, expected):
    assert move(case(), known) is expected


@pytest.mark.parametrize("what", ["last_busy", "changed"])
@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        pytest.param(2 * DAY, StepName.WARN, id="after the notice"),
        pytest.param(3 * DAY - timedelta(microseconds=1), StepName.WARN, id="a moment after the notice"),
        pytest.param(3 * DAY, StepName.NONE, id="just when the notice was given"),
        pytest.param(4 * DAY, StepName.NONE, id="before the notice"),
    ],
)
def test_notice_before_the_last_use_or_change_does_not_count(what, ago, expected):
    of = case(idle_for=ago, **{what: NOW - ago})
    assert move(of, warned(3 * DAY)) is expected
    assert valid_notice_at(of, counted(of, warned(3 * DAY)), NOW) == (None if expected is StepName.WARN else NOW - 3 * DAY)


def test_use_that_shows_late_voids_the_notice_before_it():
    late = case(idle_for=2 * DAY, last_busy=NOW - 2 * DAY)
    record = warned(3 * DAY, seen_idle_at=NOW - HOUR)
    assert move(late, record) is StepName.WARN
    assert after_judging(late, record, NOW) == a_record(idle_since=NOW - 2 * DAY, seen_idle_at=NOW - HOUR)


def test_moving_window_starts_no_new_idle_period():
    month = a_record(idle_since=NOW - 40 * DAY, seen_idle_at=NOW - 5 * DAY, warned_at=NOW - 20 * DAY, receipt="r")
    assert move(case(idle_for=LOOKBACK, remind_every=30 * DAY), month) is StepName.NONE
    assert move(case(idle_for=LOOKBACK, remind_every=20 * DAY), month) is StepName.REMIND
    assert valid_notice_at(case(idle_for=LOOKBACK), month, NOW) == NOW - 20 * DAY
    assert after_judging(case(idle_for=LOOKBACK), month, NOW) == month


def test_gap_in_proof_voids_the_grace_but_brings_no_earlier_notice():
    gap = warned(3 * DAY, seen_idle_at=NOW - 3 * DAY)
    now_idle = case(idle_for=2 * DAY)
    assert valid_notice_at(now_idle, gap, NOW) is None
    assert move(now_idle, gap) is StepName.NONE
    assert move(now_idle, after_judging(now_idle, gap, NOW), NOW) is StepName.NONE
    later = case(idle_for=6 * DAY)
    assert move(later, after_judging(now_idle, gap, NOW), NOW + 4 * DAY) is StepName.WARN
    again = after_notice(later, after_judging(later, gap, NOW + 4 * DAY), WARN, "r2", NOW + 4 * DAY)
    assert valid_notice_at(later, again, NOW + 5 * DAY) == NOW + 4 * DAY


def test_snooze_makes_the_verdict_exempt_with_person_date_and_reason():
    known = snoozed(datetime(2026, 11, 30, 8, tzinfo=UTC), by="jo@example.com", reason="demo on Friday")
    spared = with_snooze(case(last_busy=NOW - 3 * DAY), known, NOW)
    assert spared.verdict == Verdict(
        state=State.EXEMPT,
        because="snoozed until 2026-11-30 08:00 UTC by jo@example.com: demo on Friday",
        last_busy=NOW - 3 * DAY,
    )
    step = step_of(case(), known, NOW)
    assert step.because == spared.verdict.because


@pytest.mark.parametrize(
    ("of", "until"),
    [
        pytest.param(case(), None, id="nobody kept it"),
        pytest.param(case(), NOW, id="the snooze ends this moment"),
        pytest.param(case(State.ACTIVE), NOW + DAY, id="it is active"),
        pytest.param(case(State.UNKNOWN), NOW + DAY, id="nothing is known"),
        pytest.param(case(protected_because="tag reaper:keep"), NOW + DAY, id="it is protected anyway"),
    ],
)
def test_snooze_changes_only_idle_verdicts(of, until):
    assert with_snooze(of, (Record(), Snoozes(own=Snooze(until=until))), NOW) is of


def test_memory_has_the_idle_period_from_the_first_idle_verdict():
    assert after_judging(case(), a_record(version=4), NOW) == a_record(idle_since=NOW - 3 * DAY, seen_idle_at=NOW, version=4)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(case(State.ACTIVE), id="used"),
        pytest.param(case(State.YOUNG, changed=NOW - HOUR), id="changed"),
        pytest.param(case(State.EXEMPT, protected_because="tag reaper:keep"), id="protected"),
    ],
)
def test_only_use_change_and_protection_end_the_idle_period(of):
    fields = {"acted": StepName.STOP, "acted_at": NOW - DAY, "manifest": ManifestReference(address="m", sha256="0"), "version": 3}
    record = warned(DAY, reminded_at=NOW - 2 * HOUR, **fields)
    assert after_judging(of, snoozed(NOW + DAY, record, by="jo"), NOW) == a_record(**fields, state=of.verdict.state, state_at=NOW)


@pytest.mark.parametrize("state", [State.UNKNOWN, State.EXEMPT, State.YOUNG])
def test_unknown_young_and_free_resources_keep_their_idle_period(state):
    record = warned(DAY)
    assert after_judging(case(state), record, NOW) == replace(record, state=state, state_at=NOW)
    assert after_judging(case(state), replace(record, notice=None), NOW) == replace(record, notice=None)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("hours", [None, replace(office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin"), force=True)])
def test_a_state_is_written_only_when_it_changes(state, hours):
    of = case(state, hours=hours, acts={StepName.STOP: None, StepName.START: None})
    told = after_notice(of, after_judging(of, Record(), NOW), WARN, "r1", NOW)
    assert told.state is (None if state is State.IDLE else state)
    for record in (told, after_judging(of, warned(HOUR), NOW), after_judging(of, told, NOW + HOUR)):
        seen = after_judging(of, record, NOW + HOUR)
        assert (seen.state, seen.state_at) == (record.state, record.state_at)
        assert after_judging(of, seen, NOW + 2 * HOUR) == seen


def test_use_is_dated_by_its_signal_and_ends_once_it_is_idle_or_acted_on():
    used = after_judging(case(State.ACTIVE, last_busy=NOW - HOUR), warned(DAY), NOW)
    assert (used.state, used.state_at, used.notice) == (State.ACTIVE, NOW - HOUR, None)
    assert after_judging(case(State.UNKNOWN), used, NOW + DAY) == used, "its notice is used up"
    assert after_judging(case(), used, NOW + 9 * DAY).state is None
    assert (after_action(used).state, after_action(used).state_at) == (None, None)


def test_memory_is_rarely_rewritten():
    record = after_judging(case(idle_for=DAY), Record(), NOW)
    writes = 0
    for day in range(1, 61):
        now = NOW + day * DAY
        new = after_judging(case(idle_for=min((day + 1) * DAY, LOOKBACK)), record, now)
        writes, record = writes + (new != record), new
    assert writes <= 12
    assert record.idle_since == NOW - DAY


def test_ended_snooze_takes_the_notice_it_answered():
    known = snoozed(NOW - HOUR, warned(2 * DAY), by="jo", reason="demo")
    seen = {"state": State.UNKNOWN, "state_at": NOW}
    assert after_judging(case(State.UNKNOWN), known, NOW) == a_record(idle_since=NOW - 10 * DAY, seen_idle_at=NOW - HOUR, **seen)


def test_snooze_ends_at_its_last_moment():
    known = snoozed(NOW, by="jo")
    assert with_snooze(case(), known, NOW) == case()
    assert with_snooze(case(), known, NOW - timedelta(microseconds=1)).verdict.state is State.EXEMPT


@pytest.mark.parametrize(
    ("seen_ago", "idle_for", "expected"),
    [
        pytest.param(4 * DAY, 8 * DAY + HOUR, 4 * DAY, id="less than half of the proof ago"),
        pytest.param(4 * DAY, 8 * DAY, timedelta(0), id="half of the proof ago"),
        pytest.param(4 * DAY, 4 * DAY, timedelta(0), id="just where the proof begins"),
    ],
)
def test_last_seen_idle_time_is_renewed_halfway(seen_ago, idle_for, expected):
    record = a_record(idle_since=NOW - 30 * DAY, seen_idle_at=NOW - seen_ago)
    assert after_judging(case(idle_for=idle_for), record, NOW) == a_record(idle_since=NOW - 30 * DAY, seen_idle_at=NOW - expected)


def test_notice_is_remembered_with_its_receipt():
    first = after_notice(case(), a_record(version=1), WARN, "r1", NOW)
    claim = Claim(since=NOW - 3 * DAY, until=NOW)
    assert first == a_record(warned_at=NOW, receipt="r1", version=1, claim=claim)
    reminder = Step(name=StepName.REMIND, because="still idle")
    assert after_notice(case(), first, reminder, "r2", NOW + WEEK) == replace(
        first,
        notice=replace(first.notice, reminded_at=NOW + WEEK, reminders=1, receipt="r2"),
        claim=Claim(since=NOW + WEEK - 3 * DAY, until=NOW + WEEK),
    )
    assert after_notice(case(), first, Step(name=StepName.NONE, because="told already"), "r3", NOW) is first


def test_ignore_rule_leads_to_no_step_whatever_the_memory():
    assert not may_act(case(action=Ceiling.IGNORE))
    assert move(case(action=Ceiling.IGNORE), warned(30 * DAY)) is StepName.NONE


def test_the_first_reason_of_the_list_is_the_one_shown():
    record, until = a_record(acted=StepName.STOP, acted_at=NOW - timedelta(minutes=5)), NOW + DAY
    freezes = (Freeze(calendar="release", start=NOW - DAY, end=NOW + DAY),)
    known, snoozes = replace(record, written_at=NOW + HOUR), Snoozes(own=Snooze(until=until, by="ana"))
    view = viewed(case(state=State.ACTIVE, freezes=freezes), NOW, known, snoozes, interrupted="it was interrupted")
    calm = [
        {"interrupted": None},
        {"record": record},
        {"case": case(freezes=freezes)},
        {"snoozes": NO_SNOOZES},
        {"record": Record()},
    ]
    shown = [plan_step(view).because]
    for change in calm:
        view = replace(view, **change)
        shown.append(plan_step(view).because)
    parts = (
        "it was interrupted",
        "ahead of this run's clock",
        "it is active",
        "snoozed until",
        "stop requested",
        "idle for more than",
    )
    assert [part for part, because in zip(parts, shown, strict=True) if part not in because] == []
    assert [name for name in REASONS if because_of(view, name)] == ["frozen"]
