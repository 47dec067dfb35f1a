"""Evenings and weeks under `hours: {force: true}`: what owners are told of them is true, and told before it is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from core.cases import case, move
from core.enforcer import POLICY, Enforcer, only, policy
from core.fakes import DAY, HOUR
from reaper import enrolment, plan, schedule
from reaper.message import Audience
from reaper.model import Announced, Bar, Memory, Move, State

FORCED = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, force: true}}]\n"
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)
OFFICE = schedule.parse("mon-fri 07:00-19:00", "UTC")


def enrolled() -> Enforcer:
    """One busy thing whose owner was told on Monday evening that its hours are kept."""
    there = Enforcer(policy=policy(POLICY + FORCED), now=MONDAY)
    there.depot.add("churn", tags={})
    used(there)
    there.sweep()
    there.post.messages.clear()
    return there


def used(there: Enforcer) -> None:
    there.depot.things["churn"].uses.append(there.now - timedelta(minutes=10))


def mails(there: Enforcer) -> list[str]:
    return [m.text for m in there.post.messages if m.audience is Audience.OWNERS]


def test_what_was_started_by_hand_in_the_evening_is_announced_only_when_that_is_over():
    there = enrolled()
    there.policy = policy(POLICY + FORCED.replace("force: true", "force: true, override: 2h"))
    there.now = MONDAY + DAY
    there.depot.things["churn"].changed = there.now - timedelta(minutes=20)
    used(there)
    assert only(there.sweep()).step.move is Move.NONE
    assert mails(there) == []
    there.now += 2 * HOUR
    used(there)
    assert only(there.sweep()).step.move is Move.REMIND


def test_a_summary_says_that_it_is_stopped_even_while_used_and_is_no_notice_of_the_day():
    there = enrolled()
    there.now = MONDAY + 7 * DAY - timedelta(minutes=45)
    used(there)
    there.sweep()
    [summary] = mails(there)
    assert "stopped, even while it is used" in summary
    there.now += timedelta(hours=1, minutes=5)
    used(there)
    assert only(there.sweep()).step.move is Move.REMIND
    there.now += HOUR
    used(there)
    assert only(there.sweep()).step.move is Move.STOP


def test_an_enrolment_that_a_wrong_clock_dated_is_replaced_at_once():
    memory = Memory(warned_at=MONDAY + 400 * DAY, announced=Announced.HOURS, enrolled=enrolment.digest(OFFICE))
    assert move(case(hours=OFFICE, acts={Move.STOP: None}), memory, MONDAY) is Move.WARN


def test_what_was_made_anew_since_our_stop_is_not_ours_to_start():
    stopped = {Move.STOP: Bar(because="it is stopped already", done=True), Move.START: None}
    of, now = case(State.EXEMPT, hours=OFFICE, acts=stopped), MONDAY + 15 * HOUR
    memory = Memory(last_act=Move.STOP, acted_at=MONDAY - 7 * DAY)
    assert plan.may_start(of, memory, now)
    assert not plan.may_start(replace(of, resource=replace(of.resource, created=MONDAY - DAY)), memory, now)


def test_hours_that_are_not_the_rules_for_a_while_leave_the_enrolment():
    memory = Memory(warned_at=MONDAY, announced=Announced.HOURS, enrolled=enrolment.digest(OFFICE))
    unpriced = case(State.ACTIVE, hours=replace(OFFICE, by_rule=False), acts={Move.STOP: None})
    kept = plan.after(unpriced, memory, MONDAY + DAY)
    assert enrolment.since(case(hours=OFFICE), kept, MONDAY + 2 * DAY) == MONDAY
