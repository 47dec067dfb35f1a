"""When the plan lets a resource be stopped, deleted or started: evidence, notice, grace, promise, office hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case
from reaper.actions import intent
from reaper.enrolment import digest
from reaper.memory_updates import after, is_open, meant, moved, taken_back, told, told_of_part, undone
from reaper.model import Action, Announced, Bar, Case, Confidence, Memory, Move, Result, State, Step
from reaper.plan import act, due_at, forced, may_start, notice, plan, promise, spared_by_memory
from reaper.policy import office_hours

BOTH = {Move.STOP: None, Move.DELETE: None}
RUNNING = {Move.STOP: None, Move.START: Bar(because="it is running already", done=True)}
HOURS = office_hours.parse("mon-fri 07:00-21:00", "Europe/Berlin")
NIGHT = datetime(2026, 11, 19, 22, 30, tzinfo=UTC)
"""A Thursday, 23:30 in Berlin."""
EVENING = NIGHT - 2 * HOUR
DAYTIME = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def told_of(move: Move | None, ago: timedelta, now: datetime = NOW, **given: Any) -> Memory:
    """A notice of the present spell."""
    told_at = now - ago
    return Memory(idle_since=now - 10 * DAY, idle_seen=now - HOUR, warned_at=told_at, announced=move, **given)


def enrolled(ago: timedelta, now: datetime = NIGHT, **given: Any) -> Memory:
    """An enrolment notice about the office hours of these tests."""
    return Memory(**{"warned_at": now - ago, "announced": Announced.HOURS, "enrolled": digest(HOURS), **given})


def step(of: Case, memory: Memory, now: datetime = NOW, acting: bool = True) -> Move:
    [found] = plan([of], {of.resource.id: memory}, now, acting=acting)
    return found.move


@pytest.mark.parametrize(
    ("action", "acts", "expected"),
    [
        pytest.param(Action.NOTIFY, BOTH, None, id="notices only"),
        pytest.param(Action.STOP, BOTH, Move.STOP, id="stop"),
        pytest.param(Action.DELETE, BOTH, Move.DELETE, id="delete"),
        pytest.param(Action.DELETE, {Move.STOP: None}, Move.STOP, id="a kind that is never deleted is stopped"),
        pytest.param(Action.STOP, {Move.DELETE: None}, None, id="a stop never becomes a delete"),
        pytest.param(Action.STOP, {}, None, id="a kind that only tells"),
        pytest.param(Action.STOP, {Move.STOP: Bar(because="it runs one instance")}, None, id="nothing can be done"),
        pytest.param(
            Action.DELETE, {Move.DELETE: Bar(because="busy"), Move.STOP: None}, Move.STOP, id="what can be done instead"
        ),
    ],
)
def test_what_a_warning_announces(action, acts, expected):
    assert act(case(action=action, acts=acts), NOW) is expected


@pytest.mark.parametrize("state", [s for s in State if s is not State.IDLE])
def test_nothing_but_idle_is_ever_acted_on(state):
    of = case(state, acts=BOTH, action=Action.DELETE)
    assert act(of, NOW) is None
    assert step(of, told_of(Move.DELETE, 9 * DAY)) is Move.NONE


def test_what_is_protected_is_never_acted_on():
    of = case(acts=BOTH, protected="kept by tag reaper:keep")
    assert act(of, NOW) is None
    assert step(of, told_of(Move.DELETE, 9 * DAY)) is Move.NONE


def test_likely_evidence_leads_to_notices_only_unless_the_rule_says_otherwise():
    of = case(acts=BOTH)
    likely = replace(of, verdict=replace(of.verdict, confidence=Confidence.LIKELY))
    assert act(likely, NOW) is None
    assert step(likely, told_of(Move.STOP, 4 * DAY)) is Move.NONE
    assert act(replace(likely, rule=replace(of.rule, act_on=Confidence.LIKELY)), NOW) is Move.STOP


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(Memory(), Move.WARN, id="never told"),
        pytest.param(told_of(Move.STOP, 3 * DAY - timedelta(seconds=1)), Move.NONE, id="a second before the grace is over"),
        pytest.param(told_of(Move.STOP, 3 * DAY), Move.STOP, id="the grace is over"),
        pytest.param(told_of(None, 5 * DAY), Move.WARN, id="told, but not of a stop"),
        pytest.param(told_of(Move.DELETE, 5 * DAY), Move.STOP, id="told of worse"),
        pytest.param(told_of(Move.STOP, 5 * DAY, promised=NOW + HOUR), Move.NONE, id="promised for later"),
        pytest.param(told_of(Move.STOP, 5 * DAY, snoozed_until=NOW + HOUR), Move.NONE, id="kept"),
        pytest.param(told_of(Move.STOP, 5 * DAY, snoozed_until=NOW - HOUR), Move.WARN, id="kept until an hour ago"),
        pytest.param(told_of(Move.STOP, -HOUR), Move.WARN, id="told by a clock that was ahead"),
        pytest.param(told_of(Move.STOP, 11 * DAY), Move.WARN, id="told before this spell"),
        pytest.param(
            told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW - timedelta(minutes=59)),
            Move.NONE,
            id="asked for already",
        ),
        pytest.param(told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW - HOUR), Move.STOP, id="asked for in vain"),
    ],
)
def test_it_is_stopped_when_it_was_announced_in_this_spell_and_the_time_is_over(memory, expected):
    assert step(case(idle_for=10 * DAY, acts=BOTH), memory) is expected


def test_a_use_or_a_change_after_the_notice_makes_it_void():
    memory = told_of(Move.STOP, 4 * DAY)
    assert notice(case(idle_for=3 * DAY, acts=BOTH, last_busy=NOW - 3 * DAY), memory, NOW) is None
    assert notice(case(idle_for=3 * DAY, acts=BOTH, changed=NOW - 3 * DAY), memory, NOW) is None
    assert step(case(idle_for=3 * DAY, acts=BOTH, changed=NOW - 3 * DAY), memory) is Move.WARN


def test_a_time_without_proof_after_the_notice_makes_it_void():
    memory = Memory(idle_since=NOW - 20 * DAY, idle_seen=NOW - 6 * DAY, warned_at=NOW - 8 * DAY, announced=Move.STOP)
    assert due_at(case(idle_for=5 * DAY, acts=BOTH), memory, NOW) is None


def test_a_warning_remembers_what_it_announced_and_until_when_nothing_happens():
    of = case(acts=BOTH)
    [warning] = plan([of], {}, NOW)
    memory = told(of, Memory(), warning, "r", NOW)
    assert (memory.announced, memory.promised) == (Move.STOP, NOW + 3 * DAY)
    quiet = told(of, Memory(), warning, "r", NOW, acting=False)
    assert (quiet.announced, quiet.promised) == (None, None)


def test_after_an_undo_a_new_notice_is_needed():
    memory = undone(told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW - 2 * DAY, manifest="s3://m"))
    assert memory == Memory()
    assert step(case(acts=BOTH), memory) is Move.WARN


def test_inside_office_hours_nothing_is_stopped_and_the_promise_is_for_their_end():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=HOURS, grace=HOUR)
    assert step(of, enrolled(4 * DAY, DAYTIME), DAYTIME) is Move.NONE
    assert promise(of, DAYTIME) == datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
    assert step(of, enrolled(HOUR), NIGHT) is Move.STOP


def test_the_hours_of_a_tag_protect_inside_and_need_an_ordinary_notice_outside():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=replace(HOURS, by_rule=False), grace=HOUR)
    assert step(of, told_of(Move.STOP, 4 * DAY, DAYTIME), DAYTIME) is Move.NONE
    assert step(of, Memory(), NIGHT) is Move.WARN
    assert told(of, Memory(), Step(move=Move.WARN, because=""), "r", NIGHT).announced is Announced.STOP
    assert step(of, enrolled(4 * DAY), NIGHT) is Move.WARN, "an enrolment is no notice of an ordinary stop"
    assert step(of, told_of(Move.STOP, HOUR, NIGHT), NIGHT) is Move.STOP


def test_office_hours_stop_and_never_delete():
    of = case(idle_for=10 * DAY, acts=BOTH, hours=HOURS, grace=HOUR, action=Action.DELETE)
    assert step(of, enrolled(HOUR), NIGHT) is Move.STOP


def test_a_start_by_hand_outside_office_hours_is_respected_for_four_hours():
    of = case(idle_for=HOUR, acts=BOTH, hours=HOURS, grace=timedelta(minutes=30), changed=NIGHT - HOUR)
    memory = enrolled(4 * DAY)
    assert step(of, memory, NIGHT) is Move.NONE
    later = NIGHT + 3 * HOUR
    assert step(case(idle_for=4 * HOUR, acts=BOTH, hours=HOURS, grace=HOUR, changed=NIGHT - HOUR), memory, later) is Move.STOP


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(Memory(), Move.WARN, id="never told"),
        pytest.param(told_of(Move.STOP, 4 * DAY, NIGHT), Move.WARN, id="told of a stop for being idle"),
        pytest.param(enrolled(3 * DAY), Move.STOP, id="told a grace ago"),
        pytest.param(enrolled(3 * DAY - timedelta(seconds=1)), Move.NONE, id="a second before the grace is over"),
        pytest.param(enrolled(3 * DAY, promised=NIGHT + HOUR), Move.NONE, id="promised for later"),
        pytest.param(enrolled(3 * DAY, told="old@example.com"), Move.NONE, id="handed over, and told too lately"),
        pytest.param(enrolled(7 * DAY, told="old@example.com"), Move.WARN, id="handed over"),
        pytest.param(enrolled(8 * DAY, enrolled="other hours"), Move.WARN, id="told of other hours"),
        pytest.param(enrolled(3 * DAY, enrolled="other hours"), Move.NONE, id="told of other hours, and too lately"),
        pytest.param(enrolled(3 * DAY, enrolled=None), Move.NONE, id="nobody knows of which hours"),
        pytest.param(enrolled(14 * DAY), Move.STOP, id="told two weeks ago"),
        pytest.param(enrolled(40 * DAY), Move.WARN, id="told so long ago that nobody remembers"),
        pytest.param(enrolled(40 * DAY, reminded_at=NIGHT - DAY), Move.STOP, id="told long ago and reminded since"),
        pytest.param(enrolled(-HOUR), Move.NONE, id="told by a clock that was ahead"),
        pytest.param(enrolled(4 * DAY, snoozed_until=NIGHT + HOUR), Move.NONE, id="kept"),
    ],
)
def test_a_stop_by_office_hours_rests_on_an_enrolment(memory, expected):
    of = replace(case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS), owner="new@example.com")
    assert step(of, memory, NIGHT) is expected


def test_a_resource_made_anew_is_enrolled_anew():
    of = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS)
    made = replace(of, resource=replace(of.resource, created=NIGHT - 2 * DAY))
    assert step(made, enrolled(3 * DAY), NIGHT) is Move.NONE
    assert step(made, enrolled(7 * DAY), NIGHT) is Move.WARN


@pytest.mark.parametrize("of", [case(State.ACTIVE, hours=HOURS), case(State.YOUNG, hours=HOURS), case(State.EXEMPT, hours=HOURS)])
def test_use_stops_and_starts_leave_an_enrolment_alone(of):
    memory = enrolled(4 * DAY)
    assert after(of, memory, NIGHT) == memory
    assert moved(memory) == memory


def test_a_snooze_that_is_over_voids_an_enrolment_until_a_week_after_its_last_mail():
    of = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS)
    kept = enrolled(5 * DAY, snoozed_until=NIGHT - HOUR, snoozed_at=NIGHT - 2 * DAY)
    assert step(of, kept, NIGHT) is Move.NONE
    cleared = after(of, kept, NIGHT)
    assert (cleared.snoozed_until, cleared.warned_at) == (None, kept.warned_at)
    assert step(of, cleared, NIGHT) is Move.NONE
    assert step(of, cleared, NIGHT + 2 * DAY) is Move.WARN


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(State.ACTIVE, Move.REMIND, id="used"),
        pytest.param(State.EXEMPT, Move.REMIND, id="stopped"),
        pytest.param(State.UNKNOWN, Move.NONE, id="not known"),
    ],
)
def test_the_reminder_of_an_enrolment_is_weekly_whatever_is_seen(state, expected):
    of = case(state, acts=BOTH, hours=HOURS)
    assert step(of, enrolled(7 * DAY, DAYTIME), DAYTIME) is expected
    assert step(of, enrolled(6 * DAY, DAYTIME), DAYTIME) is Move.NONE
    assert step(of, enrolled(7 * DAY, DAYTIME), DAYTIME, acting=False) is Move.NONE


def test_a_weekly_summary_keeps_the_enrolment_and_its_date():
    of, memory = case(State.ACTIVE, acts=BOTH, hours=HOURS), enrolled(7 * DAY, promised=NIGHT - 4 * DAY)
    after_it = told(of, memory, Step(move=Move.REMIND, because=""), "r2", NIGHT)
    assert after_it == replace(memory, reminded_at=NIGHT, receipt="r2")


def force(state: State = State.ACTIVE, **given: Any) -> Case:
    return case(state, hours=replace(HOURS, force=True), **{"acts": RUNNING, **given})


def test_force_stops_what_is_busy_after_a_notice_of_the_same_day_and_never_without():
    of = force()
    week = 5 * DAY
    assert step(of, Memory(), NIGHT) is Move.WARN
    assert step(of, told_of(Move.STOP, HOUR, NIGHT), NIGHT) is Move.WARN, "not told of its office hours"
    assert step(of, enrolled(HOUR), NIGHT) is Move.NONE, "the grace counts from the first mail"
    assert step(of, enrolled(week), EVENING) is Move.REMIND
    assert step(of, enrolled(week, reminded_at=NIGHT - timedelta(minutes=59)), NIGHT) is Move.NONE
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR), NIGHT) is Move.STOP
    assert step(of, enrolled(week, reminded_at=NIGHT - DAY), EVENING) is Move.REMIND
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR, snoozed_until=NIGHT + HOUR), NIGHT) is Move.NONE
    assert step(of, enrolled(week, reminded_at=NIGHT - HOUR), NIGHT, acting=False) is Move.NONE


def test_no_notice_of_a_forced_stop_comes_too_late_for_that_day():
    of = force()
    assert step(of, enrolled(5 * DAY), NIGHT) is Move.NONE, "the stop would be after midnight, and need another notice"
    assert step(of, enrolled(5 * DAY), NIGHT + HOUR) is Move.REMIND
    assert step(force(grace=3 * DAY), enrolled(DAY), EVENING) is Move.NONE, "the enrolment's grace ends on another day"


def test_a_weekly_summary_in_the_daytime_is_no_notice_of_a_forced_stop():
    summary = enrolled(9 * DAY, reminded_at=EVENING - 6 * HOUR)
    assert step(force(), summary, EVENING) is Move.REMIND
    said = enrolled(9 * DAY, reminded_at=NIGHT - HOUR)
    assert step(force(), said, NIGHT) is Move.STOP


def test_force_makes_an_idle_resource_no_harder_to_stop():
    of = force(State.IDLE, idle_for=2 * HOUR)
    assert step(of, enrolled(5 * DAY), NIGHT) is Move.STOP
    after_midnight = NIGHT + HOUR
    assert step(of, enrolled(5 * DAY), after_midnight) is Move.STOP


def test_force_never_stops_what_cannot_be_started_again():
    of = force(acts={Move.STOP: None, Move.DELETE: None})
    assert not forced(of, NIGHT)
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is Move.NONE


def test_whoever_goes_on_using_it_after_the_notice_of_a_forced_stop_is_not_told_over_and_over():
    of = force(last_busy=NIGHT - timedelta(minutes=5))
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - timedelta(minutes=30)), NIGHT) is Move.NONE
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is Move.STOP


def test_a_forced_stop_needs_a_notice_to_the_present_owner_and_by_a_clock_that_is_right():
    early = NIGHT - HOUR
    assert step(force(), enrolled(-HOUR / 2, early), early) is Move.NONE
    handed_over = replace(force(), owner="new@example.com")
    assert step(handed_over, enrolled(8 * DAY, told="old@example.com"), NIGHT) is Move.WARN
    assert step(handed_over, enrolled(5 * DAY, reminded_at=NIGHT - HOUR, told="old@example.com"), NIGHT) is Move.NONE
    assert step(handed_over, enrolled(5 * DAY, reminded_at=NIGHT - HOUR, told="new@example.com"), NIGHT) is Move.STOP


def test_the_notice_of_a_forced_stop_outlasts_the_use_that_it_is_about():
    memory = enrolled(HOUR)
    assert after(force(), memory, NIGHT) == memory
    assert after(case(State.ACTIVE), memory, NIGHT).warned_at is None


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(force(State.UNKNOWN), id="unknown"),
        pytest.param(force(State.EXEMPT), id="exempt"),
        pytest.param(force(protected="kept by tag"), id="protected"),
        pytest.param(force(action=Action.NOTIFY), id="notices only"),
    ],
)
def test_force_never_stops_what_is_unknown_protected_or_not_to_be_stopped(of):
    assert not forced(of, NIGHT)
    assert step(of, enrolled(5 * DAY, reminded_at=NIGHT - HOUR), NIGHT) is Move.NONE


def test_force_does_nothing_inside_office_hours():
    assert step(force(), enrolled(5 * DAY, DAYTIME), DAYTIME) is Move.NONE
    assert step(force(), Memory(), DAYTIME) is Move.NONE, "nor is anybody told that they are over"


ASLEEP = {Move.STOP: Bar(because="it is stopped", done=True), Move.START: None}
OPENING = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
OURS = Memory(last_act=Move.STOP, acted_at=DAYTIME - 12 * HOUR)


@pytest.mark.parametrize(
    ("restart", "memory", "given", "expected"),
    [
        pytest.param("ours", OURS, {}, Move.START, id="we stopped it"),
        pytest.param("ours", Memory(), {}, Move.NONE, id="somebody else stopped it"),
        pytest.param(
            "ours", replace(OURS, last_act=Move.START), {}, Move.NONE, id="we started it last, and somebody else stopped it"
        ),
        pytest.param("ours", OURS, {"changed": DAYTIME - 3 * HOUR}, Move.NONE, id="somebody had it in hand since"),
        pytest.param("all", Memory(), {"changed": OPENING - timedelta(seconds=1)}, Move.START, id="everything is started"),
        pytest.param("all", Memory(), {"changed": OPENING}, Move.NONE, id="its owner stopped it this morning"),
        pytest.param("all", Memory(), {}, Move.NONE, id="nobody knows when it was stopped"),
        pytest.param("all", Memory(), {"acts": {Move.STOP: None}}, Move.NONE, id="a kind that cannot be started"),
        pytest.param("all", Memory(), {"protected": "kept by tag"}, Move.NONE, id="left alone by tag"),
        pytest.param("all", Memory(), {"action": Action.NOTIFY}, Move.NONE, id="notices only"),
        pytest.param("all", Memory(), {"acts": {Move.START: Bar(because="its status is Pending")}}, Move.NONE, id="in between"),
        pytest.param(
            "all", Memory(last_act=Move.START, acted_at=DAYTIME - timedelta(minutes=5)), {}, Move.NONE, id="started a moment ago"
        ),
    ],
)
def test_what_office_hours_start_in_the_morning(restart, memory, given, expected):
    of = case(State.EXEMPT, **{"acts": ASLEEP, "hours": replace(HOURS, restart=restart), **given})
    assert step(of, memory, DAYTIME) is expected
    assert step(of, memory, DAYTIME, acting=False) is Move.NONE
    assert step(of, memory, NIGHT) is Move.NONE


def test_what_runs_is_not_started():
    assert not may_start(case(acts={Move.START: None}, hours=replace(HOURS, restart="all")), Memory(), DAYTIME)


def test_a_forced_stop_needs_a_notice_about_this_very_resource():
    busy = case(State.ACTIVE, acts=RUNNING, hours=replace(HOURS, force=True, override=timedelta(minutes=10)))
    anew = replace(busy, resource=replace(busy.resource, created=NIGHT - 3 * DAY))
    told_today = enrolled(5 * DAY, reminded_at=NIGHT - HOUR)
    assert step(busy, told_today, NIGHT) is Move.STOP
    assert step(anew, told_today, NIGHT) is Move.NONE
    same = replace(busy, resource=replace(busy.resource, created=NIGHT - 5 * DAY))
    assert step(same, told_today, NIGHT) is Move.STOP


def test_force_and_starts_leave_alone_what_has_unreadable_tags():
    assert not forced(replace(force(), resource=replace(force().resource, tags=None)), NIGHT)


def said(of: Case, memory: Memory, now: datetime = NOW) -> str:
    [found] = plan([of], {of.resource.id: memory}, now)
    return found.because


def test_the_sentence_says_what_comes_first_the_stop_or_the_reminder():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert said(of, told_of(Move.STOP, DAY)) == "its owner was told 1 d ago and it is stopped in 2 d"
    patient = case(idle_for=10 * DAY, acts=BOTH, grace=20 * DAY)
    assert said(patient, told_of(Move.STOP, DAY)) == "its owner was told 1 d ago and is reminded in 5 d 23 h"
    only_told = case(idle_for=10 * DAY)
    assert said(only_told, told_of(None, DAY)) == "its owner was told 1 d ago and is reminded in 5 d 23 h"
    assert "its owner was told 4 d ago that it would be stopped" in said(of, told_of(Move.STOP, 4 * DAY))


def test_the_sentences_about_starts_and_about_what_the_reaper_left():
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS)
    assert said(of, OURS, DAYTIME) == "its office hours have begun, and the reaper had stopped it"
    of = case(State.EXEMPT, acts=ASLEEP, hours=replace(HOURS, restart="all"), changed=OPENING - HOUR)
    assert said(of, Memory(), DAYTIME) == "its office hours have begun, and test starts everything that keeps them"
    pending = Memory(last_act=Move.START, acted_at=DAYTIME)
    assert "asked for it to be started" in said(of, pending, DAYTIME)
    rested = case(State.EXEMPT, acts=ASLEEP)
    assert said(rested, replace(OURS, acted_at=NOW)) == "it is as the reaper left it on 2026-11-21 10:17 UTC: it is stopped"
    assert said(rested, Memory()) == "nothing to do: it is exempt"
    assert said(rested, Memory(last_act=Move.STOP)) == "nothing to do: it is exempt"
    barred = case(State.EXEMPT, acts={Move.STOP: Bar(because="its status is Updating")})
    assert said(barred, OURS) == "nothing to do: it is exempt"


def test_an_intent_names_its_run_and_its_own_manifest_and_nothing_of_the_action_before():
    before = Memory(last_act=Move.STOP, acted_at=NOW - DAY, manifest="old", act_run="a", act_result=Result.DONE, act_told=NOW)
    memory = meant(before, Move.DELETE, "new", "b", NOW)
    assert memory == Memory(last_act=Move.DELETE, acted_at=NOW, manifest="new", act_run="b")
    assert taken_back(memory, before) == before
    assert meant(before, Move.START, None, "b", NOW).manifest == "old"


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(meant(Memory(), Move.STOP, "m", "a", NOW), True, id="of another run"),
        pytest.param(meant(Memory(), Move.STOP, "m", "b", NOW), False, id="of this run"),
        pytest.param(replace(meant(Memory(), Move.STOP, "m", "a", NOW), act_result=Result.DONE), False, id="done"),
        pytest.param(told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW), True, id="of 49f8b6c"),
        pytest.param(told_of(Move.STOP, HOUR, last_act=Move.STOP, acted_at=NOW - DAY), False, id="of 49f8b6c, told since"),
        pytest.param(Memory(last_act=Move.STOP, acted_at=NOW), False, id="of 49f8b6c, done"),
        pytest.param(Memory(), False, id="none"),
    ],
)
def test_an_action_is_open_until_its_result_is_known(memory, expected):
    assert is_open(memory, "b") is expected


PART = Memory(
    last_act=Move.STOP, acted_at=NOW - 4 * DAY, act_run="a", act_result=Result.DONE, act_part="1 of 2 variants", manifest="m"
)


def test_the_mail_about_a_part_is_the_notice_for_the_rest():
    of = case(idle_for=10 * DAY, acts=BOTH)
    memory = told_of_part(of, PART, "r", NOW - 4 * DAY)
    assert (memory.announced, memory.promised, memory.act_told) == (Announced.STOP, NOW - DAY, NOW - 4 * DAY)
    changed = PART.acted_at + timedelta(minutes=10)
    young = case(State.YOUNG, acts=BOTH, changed=changed)
    assert after(young, memory, NOW - 3 * DAY).warned_at == NOW - 4 * DAY, "what we changed ourselves makes it young and no more"
    again = case(idle_for=NOW - changed, acts=BOTH, changed=changed)
    assert step(again, memory, NOW - DAY - timedelta(seconds=1)) is Move.NONE
    assert step(again, memory) is Move.STOP


def test_an_ordinary_notice_after_a_part_is_no_mail_about_it():
    memory = told_of(Move.STOP, 8 * DAY, act_run="a", last_act=Move.STOP, acted_at=NOW - 30 * DAY, act_result=Result.DONE)
    gap = replace(memory, act_part="1 of 2 variants", act_told=NOW - 30 * DAY, idle_seen=NOW - 6 * DAY)
    assert due_at(case(idle_for=5 * DAY, acts=BOTH), gap, NOW) is None


def test_a_rule_that_only_notifies_ends_an_enrolment():
    of = case(idle_for=8 * DAY, acts=BOTH, hours=HOURS, action=Action.NOTIFY)
    memory = enrolled(7 * DAY)
    assert step(of, memory, NIGHT) is Move.REMIND
    assert told(of, memory, Step(move=Move.REMIND, because=""), "r", NIGHT).announced is None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"changed": NOW - 3 * DAY}, id="changed since"),
        pytest.param({"last_busy": NOW - 3 * DAY}, id="used since"),
    ],
)
def test_use_or_change_after_the_mail_about_a_part_voids_it(given):
    memory = told_of_part(case(acts=BOTH), PART, "r", NOW - 4 * DAY)
    assert step(case(idle_for=3 * DAY - HOUR, acts=BOTH, **given), memory) is Move.WARN


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(timedelta(hours=1), Move.START, id="still that stop"),
        pytest.param(timedelta(hours=1, seconds=1), Move.NONE, id="somebody's own"),
    ],
)
def test_a_change_within_an_hour_is_still_our_stop(changed, expected):
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS, changed=DAYTIME - 12 * HOUR + changed)
    assert step(of, OURS, DAYTIME) is expected


def test_what_was_started_before_closing_time_was_not_started_outside_of_it():
    closing = datetime(2026, 11, 19, 20, 0, tzinfo=UTC)
    memory = enrolled(4 * DAY)
    early = case(idle_for=2 * HOUR, acts=BOTH, hours=HOURS, grace=HOUR, changed=closing - timedelta(seconds=1))
    assert step(early, memory, NIGHT) is Move.STOP
    assert step(replace(early, resource=replace(early.resource, changed=closing)), memory, NIGHT) is Move.NONE


def test_what_was_asked_for_this_moment_is_pending():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert step(of, told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW)) is Move.NONE
    assert step(of, told_of(Move.STOP, 5 * DAY, last_act=Move.STOP, acted_at=NOW + HOUR)) is Move.STOP
    assert step(of, told_of(Move.STOP, 5 * DAY, last_act=Move.STOP)) is Move.STOP
    assert step(of, told_of(Move.STOP, 5 * DAY, acted_at=NOW)) is Move.STOP


def test_a_person_who_stopped_it_for_good_after_us_is_respected():
    of = case(State.EXEMPT, acts=ASLEEP, hours=HOURS, changed=DAYTIME - 12 * HOUR + timedelta(minutes=70))
    assert step(of, OURS, DAYTIME) is Move.NONE


def test_without_acting_nothing_is_stopped_whatever_was_announced():
    of = case(idle_for=10 * DAY, acts=BOTH)
    assert step(of, told_of(Move.STOP, 5 * DAY), acting=False) is Move.NONE
    assert step(of, told_of(Move.STOP, 7 * DAY), acting=False) is Move.NONE, "what was announced is left to runs that announce"
    assert step(of, told_of(None, 7 * DAY), acting=False) is Move.REMIND


@pytest.mark.parametrize(
    ("ago", "reminded", "expected"),
    [
        pytest.param(17 * DAY, None, Move.STOP, id="two weeks after its date"),
        pytest.param(17 * DAY + HOUR, None, Move.WARN, id="longer ago than that"),
        pytest.param(30 * DAY, 14 * DAY, Move.STOP, id="two weeks after its last mail"),
        pytest.param(30 * DAY, 14 * DAY + HOUR, Move.WARN, id="longer ago than that, after a reminder"),
    ],
)
def test_a_notice_lapses_two_weeks_after_its_date_or_its_last_mail(ago, reminded, expected):
    memory = told_of(Move.STOP, ago, promised=NOW - ago + 3 * DAY, reminded_at=NOW - reminded if reminded else None)
    of = case(idle_for=40 * DAY, acts=BOTH)
    assert step(of, replace(memory, idle_since=NOW - 40 * DAY)) is expected


def test_what_was_started_long_ago_and_stands_still_is_started_again():
    of = case(State.EXEMPT, acts=ASLEEP, hours=replace(HOURS, restart="all"), changed=DAYTIME - DAY)
    assert step(of, Memory(last_act=Move.START, acted_at=DAYTIME - DAY), DAYTIME) is Move.START


def test_a_short_cadence_is_early_by_no_more_than_its_tenth():
    of = case(idle_for=10 * DAY, remind_every=5 * HOUR)
    assert step(of, told_of(None, 5 * HOUR - timedelta(minutes=30))) is Move.REMIND
    assert step(of, told_of(None, 5 * HOUR - timedelta(minutes=31))) is Move.NONE


def test_a_snooze_without_a_reason_is_told_without_one():
    of = case(idle_for=10 * DAY)
    assert said(of, Memory(snoozed_until=NOW + DAY, snoozed_by="lee")) == "kept by lee until 2026-11-22 10:17 UTC"


@pytest.mark.parametrize("id", ["arn:aws:sagemaker:us-east-1:1:endpoint/Big", "arn:aws:sagemaker:us-east-1:1:endpoint/big"])
def test_a_snooze_of_the_host_keeps_what_lives_in_it_in_either_spelling(id):
    of = case(idle_for=10 * DAY, acts=BOTH)
    of = replace(of, resource=replace(of.resource, facts={"host": "arn:aws:sagemaker:us-east-1:1:endpoint/Big"}))
    kept = {id: Memory(snoozed_until=NOW + HOUR, snoozed_by="lee")}
    spared = spared_by_memory(of, Memory(), NOW, intent.host(of.resource, kept))
    assert spared.verdict.because == "what it lives in is kept by lee until 2026-11-21 11:17 UTC"
    assert spared_by_memory(of, Memory(), NOW + HOUR, intent.host(of.resource, kept)) == of
