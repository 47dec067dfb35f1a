"""When the plan lets a resource be stopped, deleted or started: evidence, notice, grace, promise, office hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import Known, after_judging, case, counted, step_of, with_snooze
from fakes.planned import action_due_at, after_action_mail, after_notice, is_forced, may_start, strongest_action, valid_notice_at
from fakes.records import a_record, an_act, changed, known
from reaper.calendars import office_hours
from reaper.case import Blocked, Case, Owner
from reaper.finding import Step
from reaper.ledger.rows import Recalled
from reaper.model import AnnouncedAction, Ceiling, Confidence, Result, State, StepName
from reaper.planning.dates import VOID_ENROLMENT, earliest_action_at, hours_digest
from reaper.record import ManifestReference, Record, Snooze, after_action, after_undo, before_action, is_unfinished

BOTH = {StepName.STOP: None, StepName.DELETE: None}
RUNNING = {StepName.STOP: None, StepName.START: Blocked(because="it is running already", already_done=True)}
HOURS = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")
NIGHT = datetime(2026, 11, 19, 22, 30, tzinfo=UTC)
"""A Thursday, 23:30 in Berlin."""
EVENING = NIGHT - 2 * HOUR
DAYTIME = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def told_of(move: StepName | None, ago: timedelta, now: datetime = NOW, **fields: Any) -> Known:
    """A notice of the present spell."""
    notified_at = now - ago
    record = a_record(idle_since=now - 10 * DAY, seen_idle_at=now - HOUR, warned_at=notified_at, announced=move)
    return changed(record, **fields)


def enrolled(ago: timedelta, now: datetime = NIGHT, **fields: Any) -> Known:
    """An enrolment notice about the office hours of these tests."""
    notice = {"warned_at": now - ago, "announced": AnnouncedAction.HOURS, "hours": hours_digest(HOURS)}
    return changed(Record(), **{**notice, **fields})


def step(of: Case, record: Known, now: datetime = NOW, acting: bool = True) -> StepName:
    planned = step_of(of, record, now, announces=acting)
    return planned.name


@pytest.mark.parametrize(
    ("action", "acts", "expected"),
    [
        pytest.param(Ceiling.NOTIFY, BOTH, None, id="notices only"),
        pytest.param(Ceiling.STOP, BOTH, StepName.STOP, id="stop"),
        pytest.param(Ceiling.DELETE, BOTH, StepName.DELETE, id="delete"),
        pytest.param(Ceiling.DELETE, {StepName.STOP: None}, StepName.STOP, id="a kind that is never deleted is stopped"),
        pytest.param(Ceiling.STOP, {StepName.DELETE: None}, None, id="a stop never becomes a delete"),
        pytest.param(Ceiling.STOP, {}, None, id="a kind that only tells"),
        pytest.param(Ceiling.STOP, {StepName.STOP: Blocked(because="it runs one instance")}, None, id="nothing can be done"),
        pytest.param(
            Ceiling.DELETE,
            {StepName.DELETE: Blocked(because="busy"), StepName.STOP: None},
            StepName.STOP,
            id="what can be done instead",
        ),
    ],
)
def test_warning_announces_the_strongest_possible_action(action, acts, expected):
    assert strongest_action(case(action=action, acts=acts), NOW) is expected


@pytest.mark.parametrize("state", [s for s in State if s is not State.IDLE])
def test_only_idle_resources_are_acted_on(state):
    of = case(state, acts=BOTH, action=Ceiling.DELETE)
    assert strongest_action(of, NOW) is None
    assert step(of, told_of(StepName.DELETE, 9 * DAY)) is StepName.NONE


def test_protected_resources_are_never_acted_on():
    of = case(acts=BOTH, protected_because="kept by tag reaper:keep")
    assert strongest_action(of, NOW) is None
    assert step(of, told_of(StepName.DELETE, 9 * DAY)) is StepName.NONE


def test_likely_evidence_brings_notices_only_unless_the_rule_acts_on_it():
    of = case(acts=BOTH)
    likely = replace(of, verdict=replace(of.verdict, confidence=Confidence.LIKELY))
    assert strongest_action(likely, NOW) is None
    assert step(likely, told_of(StepName.STOP, 4 * DAY)) is StepName.NONE
    assert strongest_action(replace(likely, rule=replace(of.rule, act_on=Confidence.LIKELY)), NOW) is StepName.STOP


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(Record(), StepName.WARN, id="never told"),
        pytest.param(
            told_of(StepName.STOP, 3 * DAY - timedelta(seconds=1)), StepName.NONE, id="a second before the grace is over"
        ),
        pytest.param(told_of(StepName.STOP, 3 * DAY), StepName.STOP, id="the grace is over"),
        pytest.param(told_of(None, 5 * DAY), StepName.WARN, id="told, but not of a stop"),
        pytest.param(told_of(StepName.DELETE, 5 * DAY), StepName.STOP, id="told of worse"),
        pytest.param(told_of(StepName.STOP, 5 * DAY, not_before=NOW + HOUR), StepName.NONE, id="promised for later"),
        pytest.param(told_of(StepName.STOP, 5 * DAY, snoozed_until=NOW + HOUR), StepName.NONE, id="kept"),
        pytest.param(told_of(StepName.STOP, 5 * DAY, snoozed_until=NOW - HOUR), StepName.WARN, id="kept until an hour ago"),
        pytest.param(told_of(StepName.STOP, -HOUR), StepName.NONE, id="told by a clock that was ahead"),
        pytest.param(told_of(StepName.STOP, -8 * DAY), StepName.WARN, id="told by a clock that was far ahead"),
        pytest.param(told_of(StepName.STOP, 11 * DAY), StepName.WARN, id="told before this spell"),
        pytest.param(
            told_of(StepName.STOP, 5 * DAY, acted=StepName.STOP, acted_at=NOW - timedelta(minutes=59)),
            StepName.NONE,
            id="asked for already",
        ),
        pytest.param(
            told_of(StepName.STOP, 5 * DAY, acted=StepName.STOP, acted_at=NOW - HOUR),
            StepName.STOP,
            id="asked for in vain",
        ),
    ],
)
def test_stop_is_due_after_its_announcement_in_this_idle_period(record, expected):
    assert step(case(idle_for=10 * DAY, acts=BOTH), record) is expected


def test_use_or_change_after_the_notice_voids_the_notice():
    record = told_of(StepName.STOP, 4 * DAY)
    for end in ({"last_busy": NOW - 3 * DAY}, {"changed": NOW - 3 * DAY}):
        of = case(idle_for=3 * DAY, acts=BOTH, **end)
        assert valid_notice_at(of, counted(of, record), NOW) is None
    assert step(case(idle_for=3 * DAY, acts=BOTH, changed=NOW - 3 * DAY), record) is StepName.WARN


def test_gap_in_proof_after_the_notice_voids_the_notice():
    record = a_record(idle_since=NOW - 20 * DAY, seen_idle_at=NOW - 6 * DAY, warned_at=NOW - 8 * DAY, announced=StepName.STOP)
    assert action_due_at(case(idle_for=5 * DAY, acts=BOTH), record, NOW) is None


def test_warning_remembers_its_action_and_its_date():
    of = case(acts=BOTH)
    warning = step_of(of, Record(), NOW)
    record = after_notice(of, Record(), warning, "r", NOW)
    assert (record.notice.action, record.notice.not_before) == (StepName.STOP, NOW + 3 * DAY)
    quiet = after_notice(of, Record(), warning, "r", NOW, announces=False)
    assert (quiet.notice.action, quiet.notice.not_before) == (None, None)


def test_action_after_an_undo_needs_a_new_notice():
    record = after_undo(
        told_of(
            StepName.STOP,
            5 * DAY,
            acted=StepName.STOP,
            acted_at=NOW - 2 * DAY,
            manifest=ManifestReference(address="s3://m", sha256="0"),
        ),
        NOW,
    )
    assert record == a_record(called_at=NOW)
    assert step(case(acts=BOTH), record) is StepName.WARN


def test_office_hours_delay_an_announced_stop_to_their_end():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=HOURS, grace=HOUR)
    assert step(of, enrolled(4 * DAY, DAYTIME), DAYTIME) is StepName.NONE
    assert earliest_action_at(of, DAYTIME, StepName.STOP) == datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
    assert step(of, enrolled(HOUR), NIGHT) is StepName.STOP


def test_tag_hours_protect_inside_and_need_an_ordinary_notice_outside():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=replace(HOURS, by_rule=False), grace=HOUR)
    assert step(of, told_of(StepName.STOP, 4 * DAY, DAYTIME), DAYTIME) is StepName.NONE
    assert step(of, Record(), NIGHT) is StepName.WARN
    assert after_notice(of, Record(), Step(name=StepName.WARN, because=""), "r", NIGHT).notice.action is AnnouncedAction.STOP
    assert step(of, enrolled(4 * DAY), NIGHT) is StepName.WARN, "an enrolment is no notice of an ordinary stop"
    assert step(of, told_of(StepName.STOP, HOUR, NIGHT), NIGHT) is StepName.STOP


def test_office_hours_stop_and_never_delete():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=HOURS, grace=HOUR, action=Ceiling.DELETE)
    assert step(of, enrolled(HOUR), NIGHT) is StepName.STOP


def test_manual_start_outside_office_hours_is_respected_for_four_hours():
    of = case(idle_for=HOUR, acts=BOTH, hours=HOURS, grace=timedelta(minutes=30), changed=NIGHT - HOUR)
    record = enrolled(4 * DAY)
    assert step(of, record, NIGHT) is StepName.NONE
    later = NIGHT + 3 * HOUR
    assert step(case(idle_for=4 * HOUR, acts=BOTH, hours=HOURS, grace=HOUR, changed=NIGHT - HOUR), record, later) is StepName.STOP


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(Record(), StepName.WARN, id="never told"),
        pytest.param(told_of(StepName.STOP, 4 * DAY, NIGHT), StepName.WARN, id="told of a stop for being idle"),
        pytest.param(enrolled(3 * DAY), StepName.STOP, id="told a grace ago"),
        pytest.param(enrolled(3 * DAY - timedelta(seconds=1)), StepName.NONE, id="a second before the grace is over"),
        pytest.param(enrolled(3 * DAY, not_before=NIGHT + HOUR), StepName.NONE, id="promised for later"),
        pytest.param(enrolled(3 * DAY, to="old@example.com"), StepName.NONE, id="handed over, and told too lately"),
        pytest.param(enrolled(7 * DAY, to="old@example.com"), StepName.WARN, id="handed over"),
        pytest.param(enrolled(8 * DAY, hours="other hours"), StepName.WARN, id="told of other hours"),
        pytest.param(enrolled(3 * DAY, hours="other hours"), StepName.NONE, id="told of other hours, and too lately"),
        pytest.param(enrolled(3 * DAY, hours=None), StepName.NONE, id="nobody knows of which hours"),
        pytest.param(enrolled(14 * DAY), StepName.STOP, id="told two weeks ago"),
        pytest.param(enrolled(40 * DAY), StepName.WARN, id="told so long ago that nobody remembers"),
        pytest.param(enrolled(40 * DAY, reminded_at=NIGHT - DAY), StepName.STOP, id="told long ago and reminded since"),
        pytest.param(enrolled(-HOUR), StepName.NONE, id="told by a clock that was ahead"),
        pytest.param(enrolled(4 * DAY, snoozed_until=NIGHT + HOUR), StepName.NONE, id="kept"),
    ],
)
def test_stop_by_office_hours_needs_an_enrolment(record, expected):
    of = replace(case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS), owner=Owner(address="new@example.com", source="tag"))
    assert step(of, record, NIGHT) is expected


def test_recreated_resource_needs_a_new_enrolment():
    of = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS)
    made = replace(of, resource=replace(of.resource, created=NIGHT - 2 * DAY))
    assert step(made, enrolled(3 * DAY), NIGHT) is StepName.NONE
    assert step(made, enrolled(7 * DAY), NIGHT) is StepName.WARN


@pytest.mark.parametrize("of", [case(State.ACTIVE, hours=HOURS), case(State.YOUNG, hours=HOURS), case(State.EXEMPT, hours=HOURS)])
def test_use_stops_and_starts_do_not_affect_an_enrolment(of):
    record = enrolled(4 * DAY)
    assert after_judging(of, record, NIGHT) == replace(record, state=of.verdict.state, state_at=NIGHT)
    assert after_action(record) == record


def test_ended_snooze_voids_an_enrolment_until_a_week_after_its_mail():
    of = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS)
    both = enrolled(5 * DAY, snoozed_until=NIGHT - HOUR, snoozed_at=NIGHT - 2 * DAY)
    assert step(of, both, NIGHT) is StepName.NONE
    later = after_judging(of, both, NIGHT), both[1]
    assert later[0].notice.warned_at == both[0].notice.warned_at
    assert step(of, later, NIGHT) is StepName.NONE
    assert step(of, later, NIGHT + 2 * DAY) is StepName.WARN


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(State.ACTIVE, StepName.REMIND, id="used"),
        pytest.param(State.EXEMPT, StepName.REMIND, id="stopped"),
        pytest.param(State.UNKNOWN, StepName.NONE, id="not known"),
    ],
)
def test_reminder_of_an_enrolment_is_weekly_whatever_the_verdict(state, expected):
    of = case(state, acts=BOTH, hours=HOURS)
    assert step(of, enrolled(7 * DAY, DAYTIME), DAYTIME) is expected
    assert step(of, enrolled(6 * DAY, DAYTIME), DAYTIME) is StepName.NONE
    assert step(of, enrolled(7 * DAY, DAYTIME), DAYTIME, acting=False) is StepName.NONE


def test_weekly_summary_keeps_the_enrolment_and_its_date():
    of, record = case(State.ACTIVE, acts=BOTH, hours=HOURS), enrolled(7 * DAY, not_before=NIGHT - 4 * DAY)
    after_it = after_notice(of, record, Step(name=StepName.REMIND, because=""), "r2", NIGHT)
    assert after_it == changed(record, reminded_at=NIGHT, receipt="r2")


def force(state: State = State.ACTIVE, **fields: Any) -> Case:
    return case(state, hours=replace(HOURS, force=True), **{"acts": RUNNING, **fields})


def test_force_stops_a_busy_resource_only_after_a_notice_that_day():
    of = force()
    week = 5 * DAY
    assert step(of, Record(), NIGHT) is StepName.WARN
    assert step(of, told_of(StepName.STOP, HOUR, NIGHT), NIGHT) is StepName.WARN, "not told of its office hours"
    assert step(of, enrolled(HOUR), NIGHT) is StepName.NONE, "the grace counts from the first mail"
    assert step(of, enrolled(week), EVENING) is StepName.REMIND
    assert step(of, enrolled(week, reminded_at=NIGHT - timedelta(minutes=59)), NIGHT) is StepName.NONE
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR), NIGHT) is StepName.STOP
    assert step(of, enrolled(week, reminded_at=NIGHT - DAY), EVENING) is StepName.REMIND
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR, snoozed_until=NIGHT + HOUR), NIGHT) is StepName.NONE
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR), NIGHT, acting=False) is StepName.NONE


def test_notice_of_a_forced_stop_is_never_too_late_for_that_day():
    of = force()
    assert step(of, enrolled(5 * DAY), NIGHT) is StepName.NONE, "the stop would be after midnight, and need another notice"
    assert step(of, enrolled(5 * DAY), NIGHT + HOUR) is StepName.REMIND
    assert step(force(grace=3 * DAY), enrolled(DAY), EVENING) is StepName.NONE, "the enrolment's grace ends on another day"


def test_daytime_summary_is_no_notice_of_a_forced_stop():
    summary = enrolled(9 * DAY, reminded_at=EVENING - 6 * HOUR)
    assert step(force(), summary, EVENING) is StepName.REMIND
    record = enrolled(9 * DAY, reminded_at=NIGHT - HOUR)
    assert step(force(), record, NIGHT) is StepName.STOP


def test_force_does_not_delay_the_stop_of_an_idle_resource():
    of = force(State.IDLE, idle_for=2 * HOUR)
    assert step(of, enrolled(5 * DAY), NIGHT) is StepName.STOP
    after_midnight = NIGHT + HOUR
    assert step(of, enrolled(5 * DAY), after_midnight) is StepName.STOP


def test_force_never_stops_a_resource_without_a_start_action():
    of = force(acts={StepName.STOP: None, StepName.DELETE: None})
    assert not is_forced(of, NIGHT)
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is StepName.NONE


def test_forced_stop_is_announced_once_a_day_despite_continued_use():
    of = force(last_busy=NIGHT - timedelta(minutes=5))
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - timedelta(minutes=30)), NIGHT) is StepName.NONE
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is StepName.STOP


def test_forced_stop_needs_a_well_dated_notice_to_the_present_owner():
    early = NIGHT - HOUR
    assert step(force(), enrolled(-HOUR / 2, early), early) is StepName.NONE
    handed_over = replace(force(), owner=Owner(address="new@example.com", source="tag"))
    assert step(handed_over, enrolled(8 * DAY, to="old@example.com"), NIGHT) is StepName.WARN
    assert step(handed_over, enrolled(5 * DAY, reminded_at=NIGHT - HOUR, to="old@example.com"), NIGHT) is StepName.NONE
    assert step(handed_over, enrolled(5 * DAY, reminded_at=NIGHT - HOUR, to="new@example.com"), NIGHT) is StepName.STOP


def test_notice_of_a_forced_stop_lasts_through_use():
    record = enrolled(HOUR)
    assert after_judging(force(), record, NIGHT) == replace(record, state=State.ACTIVE, state_at=NIGHT)
    assert after_judging(case(State.ACTIVE), record, NIGHT).notice.hours == VOID_ENROLMENT, "its rule has no hours any more"


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(force(State.UNKNOWN), id="unknown"),
        pytest.param(force(State.EXEMPT), id="exempt"),
        pytest.param(force(protected_because="kept by tag"), id="protected"),
        pytest.param(force(action=Ceiling.NOTIFY), id="notices only"),
    ],
)
def test_force_never_stops_unknown_protected_or_notify_only_resources(of):
    assert not is_forced(of, NIGHT)
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is StepName.NONE


def test_force_does_nothing_inside_office_hours():
    assert step(force(), enrolled(5 * DAY, DAYTIME), DAYTIME) is StepName.NONE
    assert step(force(), Record(), DAYTIME) is StepName.NONE, "nor is anybody told that they are over"


ASLEEP = {StepName.STOP: Blocked(because="it is stopped", already_done=True), StepName.START: None}
OPENING = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
OURS = a_record(acted=StepName.STOP, acted_at=DAYTIME - 12 * HOUR)


@pytest.mark.parametrize(
    ("restart", "record", "fields", "expected"),
    [
        pytest.param("ours", OURS, {}, StepName.START, id="we stopped it"),
        pytest.param("ours", Record(), {}, StepName.NONE, id="somebody else stopped it"),
        pytest.param(
            "ours",
            changed(OURS, acted=StepName.START),
            {},
            StepName.NONE,
            id="we started it last, and somebody else stopped it",
        ),
        pytest.param(
            "ours",
            changed(OURS, warned_at=DAYTIME + 2 * HOUR, reminded_at=DAYTIME + 10 * DAY, announced=AnnouncedAction.HOURS),
            {},
            StepName.NONE,
            id="its notice is dated ahead, in part so far that it is void",
        ),
        pytest.param("ours", OURS, {"changed": DAYTIME - 3 * HOUR}, StepName.NONE, id="somebody had it in hand since"),
        pytest.param("all", Record(), {"changed": OPENING - timedelta(seconds=1)}, StepName.START, id="everything is started"),
        pytest.param("all", Record(), {"changed": OPENING}, StepName.NONE, id="its owner stopped it this morning"),
        pytest.param("all", Record(), {}, StepName.NONE, id="nobody knows when it was stopped"),
        pytest.param("all", Record(), {"acts": {StepName.STOP: None}}, StepName.NONE, id="a kind that cannot be started"),
        pytest.param("all", Record(), {"protected_because": "kept by tag"}, StepName.NONE, id="left alone by tag"),
        pytest.param("all", Record(), {"action": Ceiling.NOTIFY}, StepName.NONE, id="notices only"),
        pytest.param(
            "all", Record(), {"acts": {StepName.START: Blocked(because="its status is Pending")}}, StepName.NONE, id="in between"
        ),
        pytest.param(
            "all",
            a_record(acted=StepName.START, acted_at=DAYTIME - timedelta(minutes=5)),
            {},
            StepName.NONE,
            id="started a moment ago",
        ),
    ],
)
def test_office_hours_start_resources_in_the_morning(restart, record, fields, expected):
    of = case(State.EXEMPT, **{"acts": ASLEEP, "hours": replace(HOURS, restart=restart), **fields})
    assert step(of, record, DAYTIME) is expected
    assert step(of, record, DAYTIME, acting=False) is StepName.NONE
    assert step(of, record, NIGHT) is StepName.NONE


def test_running_resource_is_not_started():
    assert not may_start(case(acts={StepName.START: None}, hours=replace(HOURS, restart="all")), Record(), DAYTIME)


def test_forced_stop_needs_a_notice_about_this_resource():
    busy = case(State.ACTIVE, acts=RUNNING, hours=replace(HOURS, force=True, override=timedelta(minutes=10)))
    anew = replace(busy, resource=replace(busy.resource, created=NIGHT - 3 * DAY))
    notified_today = enrolled(5 * DAY, reminded_at=NIGHT - HOUR)
    assert step(busy, notified_today, NIGHT) is StepName.STOP
    assert step(anew, notified_today, NIGHT) is StepName.NONE
    same = replace(busy, resource=replace(busy.resource, created=NIGHT - 5 * DAY))
    assert step(same, notified_today, NIGHT) is StepName.STOP


def test_unreadable_tags_rule_out_forced_stops_and_starts():
    assert not is_forced(replace(force(), resource=replace(force().resource, tags=None)), NIGHT)


def reason(of: Case, record: Record, now: datetime = NOW) -> str:
    planned = step_of(of, record, now)
    return planned.because


def test_waiting_reason_names_the_stop_or_the_reminder_that_comes_first():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert reason(of, told_of(StepName.STOP, DAY)) == "the owner was notified 1 day ago and it will be stopped in 2 days"
    patient = case(idle_for=10 * DAY, acts=BOTH, grace=20 * DAY)
    assert (
        reason(patient, told_of(StepName.STOP, DAY)) == "the owner was notified 1 day ago and gets a reminder in 5 days 23 hours"
    )
    only_notified = case(idle_for=10 * DAY)
    assert reason(only_notified, told_of(None, DAY)) == "the owner was notified 1 day ago and gets a reminder in 5 days 23 hours"
    assert "the owner was notified 4 days ago that it would be stopped" in reason(of, told_of(StepName.STOP, 4 * DAY))


def test_reasons_of_starts_and_of_stopped_resources():
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS)
    assert reason(of, OURS, DAYTIME) == "its office hours have begun, and the reaper had stopped it"
    of = case(State.EXEMPT, acts=ASLEEP, hours=replace(HOURS, restart="all"), changed=OPENING - HOUR)
    assert reason(of, Record(), DAYTIME) == "its office hours have begun, and test starts everything that has office hours"
    pending = a_record(acted=StepName.START, acted_at=DAYTIME)
    assert "start requested; the next sweep checks the result" in reason(of, pending, DAYTIME)
    rested = case(State.EXEMPT, acts=ASLEEP)
    assert (
        reason(rested, changed(OURS, acted_at=NOW))
        == "it is unchanged since the reaper's action on 2026-11-21 10:17 UTC: it is stopped"
    )
    assert reason(rested, Record()) == "nothing to do: it is exempt"
    barred = case(State.EXEMPT, acts={StepName.STOP: Blocked(because="its status is Updating")})
    assert reason(barred, OURS) == "nothing to do: it is exempt"


NEW = ManifestReference(address="new", sha256="f" * 64)


def test_intent_has_its_own_run_and_manifest_and_no_earlier_result():
    before = a_record(
        acted=StepName.STOP,
        acted_at=NOW - DAY,
        manifest=ManifestReference(address="old", sha256="0" * 64),
        run="a",
        result=Result.DONE,
        notified_at=NOW,
    )
    record = before_action(before, an_act(StepName.DELETE, NOW, "b", manifest=NEW))
    assert record == Record(act=an_act(StepName.DELETE, NOW, "b", manifest=NEW), called_at=NOW)
    assert before_action(before, an_act(StepName.START, NOW, "b")).act.manifest.address == "old"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(
            before_action(Record(), an_act(StepName.STOP, NOW, "a", manifest=NEW)),
            True,
            id="of another run",
        ),
        pytest.param(
            before_action(Record(), an_act(StepName.STOP, NOW, "b", manifest=NEW)),
            False,
            id="of this run",
        ),
        pytest.param(
            changed(
                before_action(Record(), an_act(StepName.STOP, NOW, "a", manifest=NEW)),
                result=Result.DONE,
            ),
            False,
            id="done",
        ),
        pytest.param(Record(), False, id="none"),
    ],
)
def test_action_is_unfinished_until_its_result_is_known(record, expected):
    assert is_unfinished(record, "b") is expected


PART = a_record(
    acted=StepName.STOP,
    acted_at=NOW - 4 * DAY,
    run="a",
    result=Result.DONE,
    part="1 of 2 variants",
    manifest=ManifestReference(address="m", sha256="0"),
)


def test_mail_about_a_part_is_the_notice_for_the_rest():
    of = case(idle_for=10 * DAY, acts=BOTH)
    record = after_action_mail(of, PART, StepName.STOP, "r", NOW - 4 * DAY)
    assert (record.notice.action, record.notice.not_before, record.act.notified_at) == (
        AnnouncedAction.STOP,
        NOW - DAY,
        NOW - 4 * DAY,
    )
    since = PART.act.at + timedelta(minutes=10)
    young = case(State.YOUNG, acts=BOTH, changed=since)
    assert after_judging(young, record, NOW - 3 * DAY).notice.warned_at == NOW - 4 * DAY, (
        "what we changed ourselves makes it young and no more"
    )
    again = case(idle_for=NOW - since, acts=BOTH, changed=since)
    assert step(again, record, NOW - DAY - timedelta(seconds=1)) is StepName.NONE
    assert step(again, record) is StepName.STOP


def test_ordinary_notice_after_a_part_is_no_notice_for_the_rest():
    record = told_of(
        StepName.STOP,
        8 * DAY,
        run="a",
        acted=StepName.STOP,
        acted_at=NOW - 30 * DAY,
        result=Result.DONE,
    )
    gap = changed(record, part="1 of 2 variants", notified_at=NOW - 30 * DAY, seen_idle_at=NOW - 6 * DAY)
    assert action_due_at(case(idle_for=5 * DAY, acts=BOTH), gap, NOW) is None


def test_notify_only_rule_ends_an_enrolment():
    of = case(idle_for=8 * DAY, acts=BOTH, hours=HOURS, action=Ceiling.NOTIFY)
    record = enrolled(7 * DAY)
    assert step(of, record, NIGHT) is StepName.REMIND
    assert after_notice(of, record, Step(name=StepName.REMIND, because=""), "r", NIGHT).notice.action is None


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"changed": NOW - 3 * DAY}, id="changed since"),
        pytest.param({"last_busy": NOW - 3 * DAY}, id="used since"),
    ],
)
def test_use_or_change_after_the_mail_about_a_part_voids_the_mail(fields):
    record = after_action_mail(case(acts=BOTH), PART, StepName.STOP, "r", NOW - 4 * DAY)
    assert step(case(idle_for=3 * DAY - HOUR, acts=BOTH, **fields), record) is StepName.WARN


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(timedelta(hours=1), StepName.START, id="still that stop"),
        pytest.param(timedelta(hours=1, seconds=1), StepName.NONE, id="somebody's own"),
    ],
)
def test_change_within_an_hour_still_counts_as_the_reapers_stop(changed, expected):
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS, changed=DAYTIME - 12 * HOUR + changed)
    assert step(of, OURS, DAYTIME) is expected


def test_start_before_closing_time_is_not_outside_office_hours():
    closing = datetime(2026, 11, 19, 20, 0, tzinfo=UTC)
    record = enrolled(4 * DAY)
    early = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS, grace=HOUR, changed=closing - timedelta(seconds=1))
    assert step(early, record, NIGHT) is StepName.STOP
    assert step(replace(early, resource=replace(early.resource, changed=closing)), record, NIGHT) is StepName.NONE


def test_action_requested_this_moment_is_unconfirmed():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert step(of, told_of(StepName.STOP, 5 * DAY, acted=StepName.STOP, acted_at=NOW)) is StepName.NONE
    assert step(of, told_of(StepName.STOP, 5 * DAY, acted=StepName.STOP, acted_at=NOW + timedelta(minutes=9))) is StepName.STOP
    assert step(of, told_of(StepName.STOP, 5 * DAY, acted=StepName.STOP, acted_at=NOW - 9 * HOUR)) is StepName.STOP


def test_stop_by_a_person_after_the_reapers_stop_is_respected():
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS, changed=DAYTIME - 12 * HOUR + timedelta(minutes=70))
    assert step(of, OURS, DAYTIME) is StepName.NONE


def test_run_that_announces_nothing_stops_nothing():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert step(of, told_of(StepName.STOP, 5 * DAY), acting=False) is StepName.NONE
    assert step(of, told_of(StepName.STOP, 7 * DAY), acting=False) is StepName.NONE, (
        "what was announced is left to runs that announce"
    )
    assert step(of, told_of(None, 7 * DAY), acting=False) is StepName.REMIND


@pytest.mark.parametrize(
    ("ago", "reminded", "expected"),
    [
        pytest.param(17 * DAY, None, StepName.STOP, id="two weeks after its date"),
        pytest.param(17 * DAY + HOUR, None, StepName.WARN, id="longer ago than that"),
        pytest.param(30 * DAY, 14 * DAY, StepName.STOP, id="two weeks after its last mail"),
        pytest.param(30 * DAY, 14 * DAY + HOUR, StepName.WARN, id="longer ago than that, after a reminder"),
    ],
)
def test_notice_lapses_two_weeks_after_its_date_or_its_last_mail(ago, reminded, expected):
    record = told_of(StepName.STOP, ago, not_before=NOW - ago + 3 * DAY, reminded_at=NOW - reminded if reminded else None)
    of = case(idle_for=40 * DAY, acts=BOTH)
    assert step(of, replace(record, idle_since=NOW - 40 * DAY)) is expected


def test_resource_stopped_long_after_its_start_is_started_again():
    of = case(State.EXEMPT, acts=ASLEEP, hours=replace(HOURS, restart="all"), changed=DAYTIME - DAY)
    assert step(of, a_record(acted=StepName.START, acted_at=DAYTIME - DAY), DAYTIME) is StepName.START


def test_short_reminder_interval_is_early_by_at_most_a_tenth():
    of = case(idle_for=10 * DAY, remind_every=5 * HOUR)
    assert step(of, told_of(None, 5 * HOUR - timedelta(minutes=30))) is StepName.REMIND
    assert step(of, told_of(None, 5 * HOUR - timedelta(minutes=31))) is StepName.NONE


def test_snooze_without_a_reason_is_reported_without_a_reason():
    of = case(idle_for=10 * DAY)
    assert reason(of, known(snoozed_until=NOW + DAY, snoozed_by="lee")) == "snoozed until 2026-11-22 10:17 UTC by lee"


@pytest.mark.parametrize("id", ["arn:aws:sagemaker:us-east-1:1:endpoint/Big", "arn:aws:sagemaker:us-east-1:1:endpoint/big"])
def test_snooze_of_a_host_protects_inner_resources_in_either_spelling(id):
    of = case(idle_for=10 * DAY, acts=BOTH)
    of = replace(of, resource=replace(of.resource, host_id="arn:aws:sagemaker:us-east-1:1:endpoint/Big"))
    recalled = Recalled(snoozes={id: Snooze(until=NOW + HOUR, by="lee")})
    host = Record(), recalled.snoozes(of.resource)
    spared = with_snooze(of, host, NOW)
    assert spared.verdict.because == "its host is snoozed until 2026-11-21 11:17 UTC by lee"
    assert with_snooze(of, host, NOW + HOUR) == of
