"""A freeze holds what is due, moves dates by its length, and can only take actions away. Notices and starts go on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case, counted, step_of
from fakes.planned import action_due_at, after_notice, enrolled_since, forced_stop_at, next_action, void_because
from fakes.read_calendars import frozen
from fakes.records import a_record, changed
from reaper.calendars import office_hours
from reaper.calendars.freezes import BusinessDays, Freeze, freeze_at, merged
from reaper.calendars.office_hours import Hours
from reaper.case import Blocked, Case
from reaper.finding import Step
from reaper.model import ENDING_ACTIONS, AnnouncedAction, Ceiling, State, StepName
from reaper.planning.dates import earliest_action_at, hours_digest
from reaper.record import NO_SNOOZES, Record

BOTH = {StepName.STOP: None, StepName.DELETE: None}
RUNNING = {StepName.STOP: None, StepName.START: Blocked(because="it is running already", already_done=True)}
STOPPED = {StepName.STOP: Blocked(because="it is stopped already", already_done=True), StepName.START: None}
HOURS = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
FROZEN = frozen("2026-11-20", "2026-11-30")
"""NOW is Saturday, November 21."""
AFTER = FROZEN.end
FROZEN_BECAUSE = "frozen by year-end until 2026-12-01 00:00 UTC"
WAITS = "the freeze calendar 'year-end' can't be read: no such file"


def notified(ago: timedelta, action: StepName | AnnouncedAction = StepName.STOP, **fields: object) -> Record:
    """The owner was notified in this idle period."""
    record = a_record(idle_since=NOW - 30 * DAY, seen_idle_at=NOW - HOUR, warned_at=NOW - ago, announced=action)
    return changed(record, **fields)


def enrolled(hours: Hours, ago: timedelta = 9 * DAY) -> Record:
    return notified(ago, AnnouncedAction.HOURS, hours=hours_digest(hours), reminded_at=NOW - DAY)


@pytest.mark.parametrize(
    ("of", "record"),
    [
        pytest.param(case(acts=BOTH, grace=3 * DAY), notified(6 * DAY), id="stop"),
        pytest.param(case(acts=BOTH, action=Ceiling.DELETE), notified(6 * DAY, StepName.DELETE), id="delete"),
        pytest.param(case(acts=RUNNING, hours=HOURS), enrolled(HOURS), id="stop by office hours"),
        pytest.param(
            case(State.ACTIVE, acts=RUNNING, hours=replace(HOURS, force=True), grace=HOUR),
            changed(enrolled(HOURS), reminded_at=NOW - 2 * HOUR),
            id="stop of what is in use",
        ),
        pytest.param(
            case(acts=BOTH, changed=NOW - 6 * DAY, idle_for=6 * DAY),
            notified(6 * DAY, acted=StepName.STOP, part="1 of 2", notified_at=NOW - 6 * DAY),
            id="the rest of a stop",
        ),
    ],
)
@pytest.mark.parametrize(
    ("fields", "because"),
    [
        pytest.param({"freezes": (FROZEN,)}, FROZEN_BECAUSE, id="frozen"),
        pytest.param({"waits_because": WAITS}, f"nothing is stopped or deleted because {WAITS}", id="unreadable"),
    ],
)
def test_what_is_due_waits_for_the_end_of_a_freeze(of: Case, record: Record, fields: dict, because: str):
    assert step_of(of, record, NOW).name in ENDING_ACTIONS
    waiting = replace(of, rule=replace(of.rule, **fields))
    assert step_of(waiting, record, NOW) == Step(name=StepName.NONE, because=because)
    coming = next_action(waiting, record, NOW)
    if of.verdict.state is State.IDLE:
        assert coming is not None
        assert (coming.at, coming.blocked_because) == (AFTER if "freezes" in fields else None, because)


def test_office_hours_and_a_freeze_are_both_over_at_the_next_date():
    of = case(acts=RUNNING, hours=HOURS, freezes=(replace(FROZEN, end=AFTER + 8 * HOUR), frozen("2026-12-02", "2026-12-02")))
    coming = next_action(of, enrolled(HOURS), NOW)
    assert coming is not None
    assert coming.at == datetime(2026, 12, 1, 21, tzinfo=UTC)


def test_a_reminder_still_goes_out_in_a_freeze():
    of = case(acts=BOTH, grace=3 * DAY, freezes=(FROZEN,))
    assert step_of(of, notified(8 * DAY), NOW).name is StepName.REMIND
    assert step_of(of, Record(), NOW).name is StepName.WARN


def test_frozen_time_counts_toward_no_grace():
    before = FROZEN.start - DAY
    of = case(acts=BOTH, grace=3 * DAY, freezes=(FROZEN,))
    assert earliest_action_at(of, before, StepName.STOP) == AFTER + 2 * DAY
    warned = after_notice(of, Record(), Step(name=StepName.WARN, because="due"), "r", before)
    assert warned.notice.not_before == AFTER + 2 * DAY


def test_frozen_time_counts_toward_no_then():
    of = case(acts=BOTH, grace=3 * DAY, delete_after=14 * DAY, freezes=(FROZEN,))
    assert earliest_action_at(of, FROZEN.start - DAY, StepName.DELETE) == AFTER + 13 * DAY


def test_a_calendar_edited_after_the_notice_only_lengthens():
    of, told = case(acts=BOTH, grace=3 * DAY), notified(2 * DAY)
    held = replace(of, rule=replace(of.rule, freezes=(FROZEN,)))
    longer = AFTER + 3 * DAY - (FROZEN.start - (NOW - 2 * DAY))
    for promised, free, frozen_due in ((NOW + DAY, NOW + DAY, longer), (NOW + 20 * DAY, NOW + 20 * DAY, NOW + 20 * DAY)):
        record = changed(told, not_before=promised)
        assert (action_due_at(of, record, NOW), action_due_at(held, record, NOW)) == (free, frozen_due)


def test_a_date_that_a_reminder_named_stands_after_its_freeze_is_lifted():
    of, told = case(acts=BOTH, grace=3 * DAY), notified(8 * DAY, not_before=NOW - 5 * DAY)
    held = replace(of, rule=replace(of.rule, freezes=(FROZEN,)))
    step = step_of(held, told, NOW)
    assert step.name is StepName.REMIND
    assert step_of(of, told, NOW).name is StepName.STOP
    reminded = after_notice(held, told, step, "r", NOW)
    assert step_of(of, reminded, NOW + HOUR).name is StepName.NONE
    assert action_due_at(of, reminded, NOW + HOUR) == AFTER


def test_a_notice_whose_date_a_freeze_moved_does_not_lapse_by_it():
    long = replace(FROZEN, end=FROZEN.start + 60 * DAY)
    of = case(acts=BOTH, grace=3 * DAY, remind_every=7 * DAY)
    frozen_case = replace(of, rule=replace(of.rule, freezes=(long,)))
    record = a_record(warned_at=FROZEN.start - DAY, announced=AnnouncedAction.STOP, not_before=FROZEN.start + 2 * DAY)
    due = long.end + 2 * DAY
    assert void_because(of, record, NO_SNOOZES, due) == "it is too old"
    assert void_because(frozen_case, record, NO_SNOOZES, due) is None
    assert void_because(frozen_case, record, NO_SNOOZES, long.end + 15 * DAY) == "it is too old"


def test_no_notice_of_the_day_goes_out_while_its_stop_would_be_frozen():
    forced = replace(HOURS, force=True)
    of, record = case(State.ACTIVE, acts=RUNNING, hours=forced, grace=HOUR), enrolled(HOURS)
    assert forced_stop_at(of, record.notice, NOW) == NOW + HOUR
    assert step_of(of, record, NOW).name is StepName.REMIND
    for fields in ({"freezes": (FROZEN,)}, {"waits_because": WAITS}):
        waiting = replace(of, rule=replace(of.rule, **fields))
        assert forced_stop_at(waiting, record.notice, NOW) is None
        assert step_of(waiting, record, NOW).name is StepName.NONE
    until_noon = replace(FROZEN, end=NOW + 3 * HOUR)
    assert forced_stop_at(replace(of, rule=replace(of.rule, freezes=(until_noon,))), record.notice, NOW) == NOW + 3 * HOUR


@pytest.mark.parametrize("state", [State.IDLE, State.ACTIVE], ids=["idle since", "still in use"])
@pytest.mark.parametrize("hours", [1, 3], ids=["no freeze", "a freeze that is lifted"])
def test_a_notice_of_the_day_names_a_date_that_stands(state: State, hours: int):
    freezes = (replace(FROZEN, end=NOW + hours * HOUR),) if hours > 1 else ()
    terms = {"acts": RUNNING, "hours": replace(HOURS, force=True), "grace": HOUR}
    of, record = case(State.ACTIVE, **terms, freezes=freezes), enrolled(HOURS)
    step = step_of(of, record, NOW)
    assert step.name is StepName.REMIND
    told, later = after_notice(of, record, step, "r", NOW), case(state, **terms)
    assert step_of(later, told, NOW + hours * HOUR - timedelta(minutes=1)).name is StepName.NONE
    assert step_of(later, told, NOW + hours * HOUR).name is StepName.STOP


def test_what_office_hours_stopped_is_started_in_a_freeze():
    monday = datetime(2026, 11, 23, 8, tzinfo=UTC)
    record = a_record(acted=StepName.STOP, acted_at=NOW - DAY)
    of = case(State.EXEMPT, acts=STOPPED, hours=HOURS, freezes=(FROZEN,), waits_because=WAITS)
    assert step_of(of, record, monday).name is StepName.START


def test_a_day_off_stops_what_is_idle_and_starts_nothing():
    monday = datetime(2026, 11, 23, 12, tzinfo=UTC)
    holiday = replace(HOURS, calendars=("germany",), days_off=frozenset({monday.date()}))
    for hours, stops in ((replace(holiday, days_off=frozenset()), False), (holiday, True)):
        running = case(acts=RUNNING, hours=hours)
        assert (step_of(running, enrolled(hours), monday).name is StepName.STOP) is stops
        record = a_record(acted=StepName.STOP, acted_at=NOW - DAY)
        stopped = case(State.EXEMPT, acts=STOPPED, hours=hours)
        assert (step_of(stopped, record, monday).name is StepName.START) is not stops


def test_days_off_that_change_leave_an_enrolment_valid():
    hours = replace(HOURS, calendars=("germany",))
    record = enrolled(hours)
    later = case(acts=RUNNING, hours=replace(hours, days_off=frozenset({NOW.date()})))
    assert enrolled_since(later, record.notice) == record.notice.warned_at
    assert enrolled_since(case(acts=RUNNING, hours=replace(hours, calendars=("france",))), record.notice) is None


def test_a_grace_in_business_days_moves_the_date_and_is_never_shorter():
    days = BusinessDays(count=2, calendar="germany", tz="UTC", days_off=frozenset({datetime(2026, 11, 23, tzinfo=UTC).date()}))
    of = case(acts=BOTH, grace=timedelta(hours=46), business_days=days)
    assert earliest_action_at(of, NOW, StepName.STOP) == NOW + 4 * DAY  # Saturday, then Tuesday and Wednesday
    assert earliest_action_at(replace(of, rule=replace(of.rule, grace=6 * DAY)), NOW, StepName.STOP) == NOW + 6 * DAY
    coming = next_action(of, Record(), NOW)
    assert coming is not None
    assert coming.blocked_because == "notice first, grace 2 business days (germany)"


moments = st.integers(-50 * 24, 50 * 24).map(lambda hours: NOW + hours * HOUR)
freezes = st.lists(st.tuples(moments, st.integers(1, 700)), max_size=4).map(
    lambda spans: merged(Freeze(calendar="x", start=start, end=start + hours * HOUR) for start, hours in spans)
)
cases = st.builds(
    lambda state, action, acts, hours, grace, only: case(
        state, action=action, acts=acts, hours=hours, grace=grace * HOUR, only_notices=only, idle_for=30 * DAY
    ),
    st.sampled_from([State.IDLE, State.ACTIVE, State.EXEMPT, State.UNKNOWN]),
    st.sampled_from(Ceiling),
    st.sampled_from([BOTH, RUNNING, STOPPED]),
    st.sampled_from([None, HOURS, replace(HOURS, force=True), replace(HOURS, by_rule=False)]),
    st.integers(1, 200),
    st.booleans(),
)
recalled = st.builds(
    lambda ago, since, announced, promised, stopped: notified(
        ago * HOUR,
        announced,
        reminded_at=NOW - min(ago, since) * HOUR,
        not_before=promised,
        hours=hours_digest(HOURS) if announced is AnnouncedAction.HOURS else None,
        **({"acted": StepName.STOP, "acted_at": NOW - 2 * DAY} if stopped else {}),
    ),
    st.integers(1, 20 * 24),
    st.integers(1, 20 * 24),
    st.sampled_from(AnnouncedAction),
    st.none() | moments,
    st.booleans(),
)


@settings(max_examples=400, deadline=None)
@given(cases, recalled, freezes, st.sampled_from([None, WAITS]))
@example(case(acts=BOTH), notified(6 * DAY), (FROZEN,), None)
@example(case(acts=BOTH), notified(6 * DAY), (), WAITS)
def test_a_freeze_only_takes_actions_away_and_only_moves_dates_on(of: Case, record: Record, spans: tuple, waits: str | None):
    record = counted(of, record)
    assume(record.notice)
    held = replace(of, rule=replace(of.rule, freezes=spans, waits_because=waits))
    free, step = step_of(of, record, NOW), step_of(held, record, NOW)
    if step.name in ENDING_ACTIONS:
        assert (free.name, freeze_at(spans, NOW), waits) == (step.name, None, None)
    assert (step.name is StepName.START) == (free.name is StepName.START)
    assert earliest_action_at(held, NOW, StepName.STOP) >= earliest_action_at(of, NOW, StepName.STOP)
    due, free_due = action_due_at(held, record, NOW), action_due_at(of, record, NOW)
    assert (due is None) == (free_due is None)
    assert due is None or free_due is None or due >= free_due
    coming, free_coming = next_action(held, record, NOW), next_action(of, record, NOW)
    if coming and coming.at:
        assert free_coming is not None
        assert free_coming.at is not None
        assert coming.at >= free_coming.at
        assert freeze_at(spans, coming.at) is None


@settings(max_examples=200, deadline=None)
@given(cases, recalled, freezes, freezes, st.sampled_from([None, "tag reaper:keep=true"]))
@example(case(acts=BOTH), notified(6 * DAY), (FROZEN,), (FROZEN,), None)
@example(case(acts=BOTH), notified(6 * DAY), (), (FROZEN,), "tag reaper:keep=true")
def test_removing_a_freeze_removes_no_other_protection(of: Case, record: Record, one: tuple, other: tuple, protected: str | None):
    left = replace(of, rule=replace(of.rule, freezes=one, protected_because=protected))
    both = replace(of, rule=replace(left.rule, freezes=merged([*one, *other])))
    if freeze_at(one, NOW) or protected:
        assert step_of(left, record, NOW).name not in ENDING_ACTIONS
        assert step_of(both, record, NOW).name not in ENDING_ACTIONS
