"""What voids a notice, and what doesn't: one list, for notices of idleness and of office hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import Known, after_judging, case, counted, step_of
from fakes.planned import void_because
from fakes.records import a_record, changed
from reaper.calendars.office_hours import Hours, parse_hours
from reaper.case import Blocked, Case, Owner
from reaper.model import AnnouncedAction, Ceiling, Result, State, StepName
from reaper.planning.dates import VOID_ENROLMENT, has_new_owner, hours_digest
from reaper.record import MAX_CLOCK_SKEW, NO_SNOOZES, Notice, Record, Snooze

LEE, SAM = "lee@example.com", "sam@example.com"
HOURS = replace(parse_hours("mon-fri 07:00-21:00", "UTC"), by_rule=True)
FIRST, LAST = NOW - 5 * DAY, NOW - 2 * DAY
STOP = a_record(
    idle_since=NOW - 9 * DAY,
    seen_idle_at=NOW - HOUR,
    warned_at=FIRST,
    reminded_at=LAST,
    announced=AnnouncedAction.STOP,
    not_before=NOW - DAY,
    to=LEE,
    shape="min 2",
)
TAGGED = replace(HOURS, by_rule=False)
HOURLY = changed(STOP, announced=AnnouncedAction.HOURS, hours=hours_digest(HOURS))
TOUCH = timedelta(microseconds=1)
DELETE = changed(STOP, announced=AnnouncedAction.DELETE)


def judged(state: State = State.IDLE, hours: bool = False, **fields: Any) -> Case:
    """Lee's resource, idle for nine days under a rule that stops; or that has office hours. `thing`: fields of the resource."""
    owner, thing = fields.pop("owner", LEE), fields.pop("thing", {})
    of = case(state, **{"idle_for": 9 * DAY, "action": Ceiling.STOP, "hours": HOURS if hours else None, **fields})
    return replace(
        of, owner=Owner(address=owner, source="tag"), resource=replace(of.resource, **{"fingerprint": "min 2", **thing})
    )


def with_hours(hours: Hours, **fields: Any) -> Case:
    """The same with these hours."""
    of = judged(**fields)
    return replace(of, rule=replace(of.rule, hours=hours))


def is_void(of: Case, known: Known, now: datetime = NOW, host: Snooze = NO_SNOOZES.own, **seen: Any) -> bool:
    """Whether its notice counts for nothing any more, now and once this look is remembered."""
    record, snoozes = known if isinstance(known, tuple) else (known, NO_SNOOZES)
    snoozes = replace(snoozes, host=host)
    because = void_because(of, record, snoozes, now, **{"announces": True, **seen})
    left = counted(of, (record, snoozes), now, **{key: value for key, value in seen.items() if key != "announces"})
    if seen.get("announces", True):
        is_gone = left.notice is None or left.notice.hours == VOID_ENROLMENT
        assert is_gone is (because is not None)
    return because is not None


@pytest.mark.parametrize(
    ("of", "changes", "stop", "hourly"),
    [
        pytest.param({"last_busy": LAST}, {}, False, False, id="used until the mail"),
        pytest.param({"last_busy": LAST + TOUCH}, {}, True, False, id="used since"),
        pytest.param({"state": State.ACTIVE}, {}, True, False, id="in use"),
        pytest.param({"state": State.EXEMPT, "last_busy": NOW - HOUR}, {}, True, False, id="used, and free by now"),
        pytest.param({"changed": LAST}, {}, False, False, id="changed until the mail"),
        pytest.param({"changed": LAST + TOUCH}, {}, True, False, id="changed since"),
        pytest.param({}, {"called_at": LAST + TOUCH}, True, False, id="a later call of ours"),
        pytest.param({}, {"called_at": NOW + 99 * DAY}, False, False, id="a call that a wrong clock dated"),
        pytest.param({}, {"shape": "min 4"}, True, False, id="of another shape"),
        pytest.param({"thing": {"fingerprint": None}}, {}, False, False, id="a shape that isn't known"),
        pytest.param({"thing": {"created": FIRST}}, {}, False, False, id="made when the first mail was sent"),
        pytest.param({"thing": {"created": LAST - TOUCH}}, {}, False, True, id="made between the mails"),
        pytest.param({"thing": {"created": LAST + TOUCH}}, {}, True, True, id="recreated"),
        pytest.param({"owner": SAM}, {}, True, True, id="another owner"),
        pytest.param({"owner": LEE.upper()}, {}, False, False, id="the same owner in other letters"),
        pytest.param({"owner": None}, {}, False, False, id="an owner who isn't known"),
        pytest.param({"owner": SAM, "state": State.UNKNOWN}, {}, False, False, id="an owner that a partial look found"),
        pytest.param({"owner": SAM, "thing": {"tags": None}}, {}, False, False, id="an owner found without tags"),
        pytest.param({}, {"disowned_by": LEE, "disowned_at": LAST + HOUR}, True, True, id="not mine"),
        pytest.param(
            {"owner": None},
            {"disowned_by": LEE, "disowned_at": FIRST - TOUCH},
            True,
            True,
            id="not mine, said too late for the mail",
        ),
        pytest.param({}, {"disowned_by": SAM, "disowned_at": LAST + HOUR}, False, False, id="not mine, says an earlier owner"),
        pytest.param({"protected_because": "kept"}, {}, True, True, id="protected now"),
        pytest.param({"protected_because": "kept", "state": State.EXEMPT}, {}, True, True, id="exempt for that"),
        pytest.param({"protected_because": "accepted", "in_doubt": True}, {}, False, False, id="perhaps protected"),
        pytest.param({"protection_ended_at": FIRST}, {}, False, False, id="a protection over before the first mail"),
        pytest.param({"protection_ended_at": LAST}, {}, False, True, id="a protection over at the last mail"),
        pytest.param({"protection_ended_at": LAST + TOUCH}, {}, True, True, id="a protection over since"),
        pytest.param({"protection_ended_at": NOW}, {}, True, True, id="a protection that ends now"),
        pytest.param({}, {"snoozed_until": FIRST}, False, False, id="a snooze over before the first mail"),
        pytest.param({}, {"snoozed_until": LAST}, False, True, id="a snooze over at the last mail"),
        pytest.param({}, {"snoozed_until": NOW}, True, True, id="a snooze that ends now"),
        pytest.param({}, {"snoozed_until": NOW + DAY}, False, False, id="a snooze that goes on"),
        pytest.param({"action": Ceiling.NOTIFY}, {}, True, True, id="its rule only notifies"),
        pytest.param({"action": Ceiling.NOTIFY, "only_notices": True}, {}, True, True, id="out of the canary"),
        pytest.param({"action": Ceiling.NOTIFY, "in_doubt": True}, {}, False, False, id="perhaps another rule"),
        pytest.param({"action": Ceiling.NOTIFY, "only_notices": True, "in_doubt": True}, {}, True, True, id="out of it for sure"),
        pytest.param({"action": Ceiling.NOTIFY, "thing": {"tags": None}}, {}, False, False, id="without its tags"),
        pytest.param({"action": Ceiling.NOTIFY, "state": State.UNKNOWN}, {}, True, True, id="unknown, under such a rule"),
        pytest.param({"state": State.UNKNOWN}, {}, False, False, id="unknown"),
        pytest.param({"state": State.YOUNG}, {}, False, False, id="young as such"),
        pytest.param({"waits_because": "a calendar can't be read"}, {}, False, False, id="frozen"),
        pytest.param({"acts": {StepName.STOP: Blocked(because="in a transition")}}, {}, False, False, id="blocked"),
    ],
)
def test_the_list_of_what_voids_a_notice(of: dict[str, Any], changes: dict[str, Any], stop: bool, hourly: bool):
    assert is_void(judged(**of), changed(STOP, **changes)) is stop
    assert is_void(judged(hours=True, **of), changed(HOURLY, **changes)) is hourly


@pytest.mark.parametrize(
    ("host", "stop", "hourly"),
    [(FIRST, False, False), (LAST, False, True), (LAST + TOUCH, True, True), (NOW, True, True), (NOW + HOUR, False, False)],
)
def test_an_ended_snooze_of_the_host_voids_as_its_own_does(host: datetime, stop: bool, hourly: bool):
    assert is_void(judged(), STOP, host=Snooze(until=host)) is stop
    assert is_void(judged(hours=True), HOURLY, host=Snooze(until=host)) is hourly


def test_a_snooze_of_an_earlier_resource_voids_nothing():
    of = judged(thing={"created": NOW - 6 * DAY})
    assert not is_void(of, changed(STOP, snoozed_at=NOW - 7 * DAY, snoozed_until=NOW))
    assert is_void(of, changed(STOP, snoozed_at=NOW - 3 * DAY, snoozed_until=NOW))


@pytest.mark.parametrize(
    ("record", "of", "void"),
    [
        pytest.param(STOP, judged(hours=True), True, id="office hours since"),
        pytest.param(HOURLY, judged(), True, id="no office hours any more"),
        pytest.param(HOURLY, judged(hours=HOURS, idle_for=DAY), False, id="the same hours"),
        pytest.param(changed(HOURLY, hours="other"), judged(hours=True), True, id="other hours"),
        pytest.param(changed(HOURLY, hours="other"), judged(hours=True, in_doubt=True), False, id="perhaps other ones"),
        pytest.param(DELETE, judged(), True, id="no delete any more"),
        pytest.param(DELETE, judged(action=Ceiling.DELETE), False, id="the delete"),
        pytest.param(DELETE, judged(delete_after=DAY), False, id="the delete by then"),
        pytest.param(DELETE, with_hours(TAGGED, action=Ceiling.DELETE), True, id="hours by tag, which only stop"),
        pytest.param(STOP, with_hours(TAGGED), False, id="hours by tag, which only delay"),
        pytest.param(STOP, judged(action=Ceiling.DELETE), False, id="a delete as well"),
        pytest.param(changed(STOP, announced=None), judged(action=Ceiling.NOTIFY), False, id="nothing was announced"),
    ],
)
def test_only_a_run_that_announces_voids_what_the_rule_does_not_allow(record: Record, of: Case, void: bool):
    assert is_void(of, record) is void
    assert not is_void(of, record, announces=False)
    kept = after_judging(of, record, NOW, announces=False)
    assert (kept.notice.action, kept.notice.hours) == (record.notice.action, record.notice.hours)


@pytest.mark.parametrize(("ended", "void"), [(None, False), (FIRST, False), (LAST, False), (LAST + TOUCH, True)])
def test_the_end_of_a_jump_voids_what_announced_an_action(ended: datetime | None, void: bool):
    assert is_void(judged(), STOP, lapsed=[None, ended]) is void
    assert not is_void(judged(), changed(STOP, announced=None), lapsed=[None, ended])
    assert not is_void(judged(hours=True), HOURLY, lapsed=[None, ended])


@pytest.mark.parametrize(("remind_every", "valid_for"), [(DAY, 14 * DAY), (7 * DAY, 14 * DAY), (30 * DAY, 60 * DAY)])
def test_a_notice_is_too_old_after_two_weeks_or_two_reminder_intervals(remind_every: timedelta, valid_for: timedelta):
    of, hourly = judged(remind_every=remind_every), judged(remind_every=remind_every, hours=True)
    for each, record in ((of, STOP), (hourly, HOURLY)):
        assert not is_void(each, record, LAST + valid_for + DAY), "counted from the date that it announced"
        assert is_void(each, record, LAST + valid_for + DAY + TOUCH)
        assert not is_void(each, changed(record, not_before=FIRST), LAST + valid_for)
        assert is_void(each, changed(record, not_before=FIRST), LAST + valid_for + TOUCH)
        assert not is_void(each, changed(record, announced=None), NOW + 99 * DAY)


def test_the_mail_about_our_own_part_counts_through_what_that_changed():
    acted = NOW - 3 * DAY
    told = a_record(
        acted=StepName.DELETE,
        acted_at=acted,
        called_at=acted + HOUR / 60,
        part="1 of 2 variants",
        result=Result.DONE,
        notified_at=acted + HOUR / 12,
        warned_at=acted + HOUR / 12,
        announced=AnnouncedAction.DELETE,
    )
    assert not is_void(judged(action=Ceiling.DELETE, changed=acted + HOUR / 6), told)
    assert is_void(judged(action=Ceiling.DELETE, changed=acted + HOUR), told)


@pytest.mark.parametrize("state", [State.IDLE, State.YOUNG, State.UNKNOWN, State.EXEMPT, State.ACTIVE])
@pytest.mark.parametrize("announces", [True, False])
def test_any_run_remembers_that_a_protection_began(state: State, announces: bool):
    seen = judged(state, protected_because="kept by tag")
    for record, hours in ((STOP, False), (HOURLY, True)):
        new = after_judging(
            replace(seen, rule=replace(seen.rule, hours=HOURS if hours else None)), record, NOW, announces=announces
        )
        later = judged(hours=hours)
        assert new.notice is None or new.notice.hours == VOID_ENROLMENT
        assert new.notice is None or counted(later, new, NOW + DAY).notice.hours == VOID_ENROLMENT


def test_a_price_that_is_unknown_for_a_while_loses_no_idle_period():
    doubtful = judged(State.EXEMPT, protected_because="accepted (it may match)", in_doubt=True)
    assert after_judging(doubtful, STOP, NOW) == replace(STOP, state=State.EXEMPT, state_at=NOW)
    assert after_judging(judged(State.YOUNG), STOP, NOW) == replace(STOP, state=State.YOUNG, state_at=NOW)


@pytest.mark.parametrize(
    ("notified", "owner", "expected"),
    [
        pytest.param(LEE, SAM, True, id="handed over"),
        pytest.param(LEE, LEE.upper(), False, id="the same in other letters"),
        pytest.param(None, SAM, False, id="it isn't known to whom it went"),
        pytest.param(LEE, None, False, id="it isn't known whose it is"),
    ],
)
def test_a_notice_to_another_owner_is_not_to_this_one(notified: str | None, owner: str | None, expected: bool):
    assert has_new_owner(judged(owner=owner), Notice(to=notified), Snooze()) is expected


@pytest.mark.parametrize(
    ("ahead", "void", "stays"),
    [
        pytest.param(MAX_CLOCK_SKEW, False, True, id="by the clock skew"),
        pytest.param(MAX_CLOCK_SKEW + TOUCH, True, True, id="by more: the row shows that a clock is wrong"),
        pytest.param(8 * DAY, True, False, id="too far to mean anything"),
    ],
)
def test_a_notice_that_is_dated_ahead_never_counts(ahead: timedelta, void: bool, stays: bool):
    for of, record in ((judged(), STOP), (judged(hours=True), HOURLY)):
        record = changed(record, warned_at=NOW + ahead, reminded_at=None)
        assert bool(void_because(of, record, NO_SNOOZES, NOW)) is void
        assert (counted(of, record) == record) is stays
        assert step_of(of, record, NOW).name in {StepName.NONE, StepName.WARN}


def test_a_missing_notice_is_not_void():
    assert void_because(judged(State.ACTIVE), Record(), NO_SNOOZES, NOW, announces=True) is None
