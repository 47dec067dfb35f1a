"""How savings are counted from look to look. Each rule has a case that fails without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, resource, rule
from fakes.planned import without_void_notice
from fakes.records import a_record, changed
from reaper.case import Case, Owner, Price
from reaper.finding import Finding, Outcome, Step
from reaper.model import AnnouncedAction, BilledPart, Confidence, Result, State, StepName, Verdict
from reaper.record import NO_SNOOZES, Record, Snooze
from reaper.savings.credit import Cause, Look, Saving, Span, await_prompted, begin_saving, count

ACTED = NOW.replace(minute=0)
MONTH = 30 * DAY
PRICE = Price(usd_per_hour=3.0, source="snapshot", as_of="2026-09-24")
THREE, ONE = (
    (BilledPart(component="Hosting", instance="ml.m5.xlarge", count=3),),
    (BilledPart(component="Hosting", instance="ml.m5.xlarge", count=1),),
)
LARGER = (BilledPart(component="Hosting", instance="ml.m5.4xlarge", count=1),)
STOPPED = a_record(acted=StepName.STOP, acted_at=ACTED, result=Result.DONE, called_at=ACTED, run="r")


def case(state: State = State.IDLE, parts: Any = ONE, last_busy: datetime | None = None, **fields: Any) -> Case:
    verdict = Verdict(state=state, because="said so", last_busy=last_busy, confidence=Confidence.PROVEN)
    rules = {name: fields.pop(name) for name in ("idle_after", "hours") if name in fields}
    about = {"owner": Owner(address="jo@example.com", source="tag"), "price": PRICE, "usd_per_hour": 3.0}
    thing = resource(parts=parts, **{name: fields.pop(name) for name in list(fields) if name not in Case.__slots__})
    return Case(resource=thing, rule=rule(**rules), verdict=verdict, **{**about, **fields})


def saving(**fields: Any) -> Saving:
    """A scale-in from three instances to one, at $2 an hour."""
    begun = begin_saving(done(case(parts=THREE, saves_usd_per_hour={StepName.STOP: 2.0})), ONE, ("team",), MONTH)
    assert begun
    return replace(begun, **fields)


def done(of: Case, step: StepName = StepName.STOP, record: Record = STOPPED, **outcome: Any) -> Finding:
    outcome = {"result": Result.DONE, "begun": True, "excess_usd_per_hour": 0.0, **outcome}
    return Finding(
        case=of,
        step=Step(name=step, because=""),
        outcome=Outcome(**outcome),
        record=record,
    )


def look(after: float, of: Case | None, record: Record = STOPPED, snooze: Snooze = NO_SNOOZES.own) -> Look:
    at = ACTED + after * HOUR
    return Look(at=at, over_at=at + timedelta(minutes=2), case=of, record=record, snooze=snooze)


def played(of: Saving, *looks: Look) -> tuple[Saving | None, float]:
    """The saving after these looks, and the hours that they credit."""
    total, still = 0.0, of
    for one in looks:
        after, credit = count(still, one)
        total += (credit.until - credit.since) / HOUR if credit else 0.0
        if after is None:
            return None, total
        still = after
    return still, total


IDLE, GONE, BUSY, UNKNOWN = case(), None, case(State.ACTIVE, parts=None), case(State.UNKNOWN, parts=None)
OFF = case(State.EXEMPT, parts=())
YOUNG = case(State.YOUNG, parts=None, changed=ACTED)


@pytest.mark.parametrize(
    ("looks", "runs_on", "expected"),
    [
        pytest.param([look(6, IDLE)], True, 6, id="idle with what the action left"),
        pytest.param([look(6, OFF)], True, 6, id="stopped"),
        pytest.param([look(6, IDLE), look(12, GONE)], False, 6, id="deleted by a person"),
        pytest.param([look(6, YOUNG)], True, 6, id="young only because of the action"),
        pytest.param([look(6, case(State.YOUNG, changed=ACTED))], True, 6, id="young only because of the action, described"),
        pytest.param([look(6, IDLE), look(12, IDLE), look(12, IDLE)], True, 12, id="the same look twice counts once"),
        pytest.param([look(12, IDLE), look(6, BUSY), look(18, IDLE)], True, 18, id="an older look changes nothing"),
        pytest.param([look(6, case(State.UNKNOWN, parts=()))], True, 0, id="stopped, but not known for sure"),
        pytest.param([look(6, case(State.YOUNG, parts=None))], True, 0, id="young, and nothing shows when it changed"),
        pytest.param([look(6, case(State.YOUNG, changed=ACTED, created=ACTED - HOUR))], True, 0, id="young because it is new"),
        pytest.param([look(6, BUSY), look(12, IDLE), look(18, IDLE)], True, 6 - 1 / 30, id="use suspends it for two looks"),
        pytest.param([look(6, IDLE), look(12, UNKNOWN), look(18, IDLE)], True, 6, id="what isn't known suspends it"),
        pytest.param([look(6, case(State.ACTIVE, parts=())), look(12, OFF)], True, 0, id="a job on what was scaled to nothing"),
        pytest.param([look(1, case(State.ACTIVE, parts=(), last_busy=ACTED - HOUR))], True, 1, id="used before it was stopped"),
        pytest.param([look(6, case(State.YOUNG, changed=ACTED, last_busy=ACTED + HOUR))], True, 0, id="young, and used since"),
        pytest.param([look(30, case(State.YOUNG, changed=ACTED))], True, 0, id="young for longer than our action makes it"),
        pytest.param([look(6, case(State.EXEMPT))], True, 0, id="protected and still running"),
        pytest.param([look(6, case(parts=None))], True, 0, id="what it runs is unknown"),
        pytest.param([look(6, IDLE), look(12, case(parts=THREE))], False, 6, id="it runs more than the action left"),
        pytest.param(
            [look(6, IDLE), look(12, case(parts=LARGER))], False, 6, id="it runs something that the action didn't leave"
        ),
        pytest.param([look(6, case(changed=ACTED + 3 * HOUR))], False, 0, id="a person changed it since"),
        pytest.param([look(6, case(changed=ACTED + HOUR / 6))], True, 6, id="the action itself changed it"),
        pytest.param([look(0.5, case(State.YOUNG, parts=THREE)), look(6, IDLE)], True, 6, id="the action doesn't show yet"),
        pytest.param([look(0.5, BUSY), look(6, IDLE)], True, 0, id="used right after the action"),
        pytest.param([look(6, IDLE), look(12, case(created=ACTED + 7 * HOUR))], False, 6, id="recreated under its ID"),
        pytest.param([look(24 * 29, IDLE), look(24 * 31, IDLE)], False, 24 * 30, id="the horizon ends it"),
    ],
)
def test_what_one_look_after_the_other_credits(looks: list[Look], runs_on: bool, expected: float):
    still, credited = played(saving(), *looks)
    assert (still is not None, round(credited, 3)) == (runs_on, round(expected, 3))


START = changed(STOPPED, acted=StepName.START, acted_at=ACTED + 8 * HOUR, called_at=ACTED + 8 * HOUR)
UNDONE = a_record(called_at=ACTED + 8 * HOUR)
LATER = changed(STOPPED, acted_at=ACTED + 8 * HOUR, called_at=ACTED + 8 * HOUR)


@pytest.mark.parametrize(
    ("record", "looks", "runs_on", "expected"),
    [
        pytest.param(START, [(7.9, OFF)], False, 8, id="our start right after this look"),
        pytest.param(START, [(7.9, BUSY)], False, 0, id="our start right after a look that showed it in use"),
        pytest.param(START, [(12, case(State.ACTIVE, parts=ONE))], False, 8, id="our start in an earlier run"),
        pytest.param(changed(START, result=None), [(12, OFF)], True, 12, id="a start that isn't known to be done"),
        pytest.param(UNDONE, [(12, case(State.YOUNG, parts=THREE, changed=ACTED + 8 * HOUR))], False, 8, id="an undo"),
        pytest.param(UNDONE, [(12, GONE)], False, 8, id="an undo, and deleted since"),
        pytest.param(UNDONE, [(12, case(changed=ACTED + 3 * HOUR))], False, 3, id="started by hand before the undo"),
        pytest.param(LATER, [(7, IDLE), (12, case(changed=ACTED + 8 * HOUR))], True, 12, id="a later action of ours"),
        pytest.param(LATER, [(12, case(changed=ACTED + 8 * HOUR))], True, 12, id="a later action of ours, in one look"),
        pytest.param(LATER, [(12, case(changed=ACTED + 10 * HOUR))], False, 0, id="changed after a later action of ours"),
        pytest.param(LATER, [(7, case(changed=ACTED + 5 * HOUR))], False, 0, id="changed before a later action of ours"),
    ],
)
def test_our_later_calls_end_it_at_their_exact_time(record: Record, looks: list[Any], runs_on: bool, expected: float):
    still, credited = played(saving(), *(look(after, of, record) for after, of in looks))
    assert (still is not None, round(credited, 3)) == (runs_on, expected)


def test_what_the_reaper_deleted_stays_a_saving():
    assert played(saving(deletes=True), look(6, GONE), look(12, GONE))[1] == 12
    later = changed(STOPPED, acted=StepName.DELETE, acted_at=ACTED + 8 * HOUR, called_at=ACTED + 8 * HOUR)
    still, credited = played(saving(), look(6, IDLE), look(12, GONE, later))
    assert still
    assert credited == 12


@pytest.mark.parametrize("result", [None, Result.REFUSED, Result.FAILED])
def test_a_delete_that_is_not_known_to_be_ours_ends_it(result: Result | None):
    later = changed(STOPPED, acted=StepName.DELETE, acted_at=ACTED + 8 * HOUR, result=result, called_at=ACTED + 8 * HOUR)
    assert played(saving(), look(6, IDLE), look(12, GONE, later)) == (None, 6.0)


def test_each_of_our_later_actions_is_known_until_the_next():
    third = changed(LATER, acted_at=ACTED + 21 * HOUR, called_at=ACTED + 21 * HOUR)
    scaled = case(changed=ACTED + 8 * HOUR)
    still, credited = played(saving(), look(7, IDLE, LATER), look(20, scaled, third))
    assert still
    assert credited == 20


def test_a_job_that_comes_and_goes_suspends_what_keeps_its_shape():
    idle = case(State.EXEMPT, parts=(), fingerprint="min 0 of 4")
    ran = case(State.EXEMPT, parts=(), fingerprint="min 0 of 4", changed=ACTED + 8 * HOUR)
    still, credited = played(saving(), look(6, idle), look(12, ran), look(18, ran))
    assert still
    assert round(credited, 2) == 11.97
    other = case(State.EXEMPT, parts=(), fingerprint="min 0 of 9", changed=ACTED + 8 * HOUR)
    assert played(saving(), look(6, idle), look(12, other)) == (None, 6.0)


def test_the_rate_is_that_of_the_action():
    begun = saving()
    assert begun.rate == replace(PRICE, usd_per_hour=2.0)
    assert (begun.at, begun.cause, begun.ends_at) == (ACTED, Cause.OURS, ACTED + MONTH)
    dearer = replace(IDLE, price=replace(PRICE, usd_per_hour=9.0), usd_per_hour=9.0)
    still, _ = count(begun, look(6, dearer))
    assert still
    assert still.rate == begun.rate


def test_counting_begins_once_the_call_was_made():
    called = changed(STOPPED, called_at=ACTED + timedelta(seconds=40, microseconds=1))
    begun = begin_saving(done(case(saves_usd_per_hour={StepName.STOP: 2.0}), record=called), ONE, (), MONTH)
    assert begun
    assert (begun.at, begun.looked_at) == (ACTED, ACTED + timedelta(seconds=41))


SAVES = {StepName.STOP: 2.0, StepName.DELETE: 3.0}
DELETED = changed(STOPPED, acted=StepName.DELETE)


@pytest.mark.parametrize(
    ("finding", "rate"),
    [
        pytest.param(done(case(saves_usd_per_hour=SAVES)), 2.0, id="a stop"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), StepName.DELETE, DELETED), 3.0, id="a delete"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), part_done="1 of 2 variants"), 2.0, id="one variant of two"),
        pytest.param(done(case()), None, id="without a price only hours"),
        pytest.param(done(case(saves_usd_per_hour=SAVES, host_id="arn:host")), None, id="a host's money isn't its components'"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), excess_usd_per_hour=1.5), 0.5, id="autoscaling's part isn't ours"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), excess_usd_per_hour=None), None, id="autoscaling's part isn't known"),
    ],
)
def test_what_an_action_saves_an_hour(finding: Finding, rate: float | None):
    begun = begin_saving(finding, (), (), MONTH)
    assert begun
    assert (begun.rate.usd_per_hour if begun.rate else None) == rate


@pytest.mark.parametrize(
    "finding",
    [
        pytest.param(done(case(saves_usd_per_hour=SAVES), already_done=True), id="it was stopped already"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), result=Result.REFUSED), id="refused"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), result=Result.FAILED), id="not known to be done"),
        pytest.param(done(case(saves_usd_per_hour=SAVES, stop_by="native")), id="the cloud's own idle shutdown"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), StepName.START, START), id="a start"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), excess_usd_per_hour=2.0), id="autoscaling would have ended all of it"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), StepName.DELETE, DELETED, part_done="2 of 3 components"), id="left"),
        pytest.param(done(case(saves_usd_per_hour=SAVES), record=Record()), id="its time isn't known"),
    ],
)
def test_what_saves_nothing_of_its_own(finding: Finding):
    assert begin_saving(finding, (), (), MONTH) is None


def test_only_the_policys_tags_are_kept():
    tagged = case(saves_usd_per_hour=SAVES, tags={"Team": "vision", "secret": "x"})
    begun = begin_saving(done(tagged), (), ("team",), MONTH)
    assert begun
    assert (begun.subject.tags, begun.subject.owner) == ({"team": "vision"}, "jo@example.com")


NOTICED = a_record(warned_at=ACTED, seen_idle_at=ACTED, idle_since=ACTED - DAY)


UNDONE_BEFORE = changed(NOTICED, called_at=ACTED - HOUR)
STARTED_BEFORE = changed(UNDONE_BEFORE, acted=StepName.START, acted_at=ACTED - HOUR, result=Result.DONE)


def waiting(record: Record = NOTICED, of: Case | None = None) -> Saving | None:
    of = of or replace(case(parts=THREE), verdict=replace(case().verdict, idle_for=2 * DAY))
    valid = without_void_notice(of, record, NO_SNOOZES, ACTED + HOUR)
    return await_prompted(replace(done(of, StepName.REMIND), record=record, notice=valid.notice), (), MONTH)


def off(at: float, **fields: Any) -> Case:
    return case(State.EXEMPT, parts=(), changed=ACTED + at * HOUR, **fields)


@pytest.mark.parametrize(
    ("looks", "record", "runs_on", "expected"),
    [
        pytest.param([look(6, off(2)), look(12, off(2))], NOTICED, True, 10, id="stopped two hours after the notice"),
        pytest.param([look(3, case(parts=THREE)), look(6, off(4))], NOTICED, True, 2, id="still running, then stopped"),
        pytest.param([look(3, UNKNOWN), look(6, off(4))], NOTICED, True, 2, id="unknown, then stopped"),
        pytest.param([look(6, off(-2))], NOTICED, False, 0, id="stopped before the notice"),
        pytest.param([look(6, case(State.EXEMPT, parts=()))], NOTICED, False, 0, id="nothing shows when it was stopped"),
        pytest.param([look(6, GONE)], NOTICED, False, 0, id="vanished"),
        pytest.param([look(6, case(State.EXEMPT, changed=ACTED + 4 * HOUR))], NOTICED, False, 0, id="protected, not stopped"),
        pytest.param(
            [look(4.5, case(State.EXEMPT, changed=ACTED + 4 * HOUR)), look(12, off(4))], NOTICED, False, 0, id="changed first"
        ),
        pytest.param([look(6, off(2)), look(12, off(2))], STARTED_BEFORE, True, 10, id="we had started it before"),
        pytest.param([look(6, off(2)), look(12, off(2))], UNDONE_BEFORE, True, 10, id="an undo came before"),
        pytest.param([look(3, BUSY), look(6, off(4))], NOTICED, False, 0, id="used after the notice"),
        pytest.param([look(6, off(4, last_busy=ACTED + HOUR))], NOTICED, False, 0, id="used, then stopped"),
        pytest.param([look(6, off(4))], changed(NOTICED, called_at=ACTED + HOUR), False, 0, id="we stopped it"),
        pytest.param([look(6, off(4), snooze=Snooze(at=ACTED + HOUR))], NOTICED, False, 0, id="snoozed, then stopped"),
        pytest.param([look(6, off(2)), look(12, case(parts=THREE, changed=ACTED + 8 * HOUR))], NOTICED, False, 4, id="restarted"),
        pytest.param([look(6, off(2)), look(12, GONE)], NOTICED, False, 4, id="stopped, then deleted"),
        pytest.param([look(6, off(4, created=ACTED + HOUR))], NOTICED, False, 0, id="another one under its ID"),
    ],
)
def test_a_stop_by_its_owner_after_a_notice_is_prompted(looks: list[Look], record: Record, runs_on: bool, expected: float):
    first = waiting()
    assert first
    still, credited = played(first, *(replace(one, record=record) for one in looks))
    assert (still is not None, credited) == (runs_on, expected)
    assert still is None or (still.cause, still.rate) == (Cause.PROMPTED, PRICE)


@pytest.mark.parametrize(
    ("record", "of"),
    [
        pytest.param(Record(), None, id="no notice"),
        pytest.param(NOTICED, BUSY, id="in use"),
        pytest.param(NOTICED, case(parts=THREE, host_id="arn:host"), id="its host's money"),
        pytest.param(NOTICED, case(parts=THREE, stop_by="native"), id="the cloud's own idle shutdown"),
        pytest.param(NOTICED, case(parts=THREE, excess_usd_per_hour=3.0), id="autoscaling may end all of it"),
        pytest.param(changed(NOTICED, announced=AnnouncedAction.HOURS), None, id="an enrollment in office hours"),
        pytest.param(changed(NOTICED, warned_at=ACTED - 3 * DAY), None, id="a notice of an earlier idle period"),
        pytest.param(changed(NOTICED, to="old@example.com"), None, id="a notice to an earlier owner"),
    ],
)
def test_without_a_valid_notice_nothing_is_awaited(record: Record, of: Case | None):
    if record.notice and record.notice.warned_at < ACTED:
        of = replace(case(parts=THREE, changed=ACTED - DAY), verdict=replace(case().verdict, idle_for=DAY))
    assert waiting(record, of) is None


def test_what_autoscaling_may_end_is_never_prompted():
    of = replace(case(parts=THREE, excess_usd_per_hour=1.0), verdict=replace(case().verdict, idle_for=2 * DAY))
    first = waiting(of=of)
    assert first
    assert first.rate == replace(PRICE, usd_per_hour=2.0)


def test_credits_are_whole_seconds_that_never_overlap():
    begun = saving(looked_at=ACTED)
    still, credit = count(begun, Look(at=ACTED + timedelta(hours=1, microseconds=7), over_at=NOW, case=IDLE, record=STOPPED))
    assert credit == Span(ACTED, ACTED + HOUR)
    assert still
    assert still.looked_at == ACTED + HOUR
