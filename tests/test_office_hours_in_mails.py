"""Evenings and weeks under `hours: {force: true}`: what owners are told of them is true, and told before it is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, Enforcer, only, policy
from fakes.judged_cases import case, move
from reaper import enrolment, memory_updates, plan
from reaper.model import AnnouncedAction, Blocked, Memory, Mode, Result, State, StepName
from reaper.notices.message import Audience
from reaper.policy import office_hours

FORCED = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, force: true}}]\n"
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)
OFFICE = office_hours.parse_hours("mon-fri 07:00-19:00", "UTC")


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
    assert only(there.sweep()).step.name is StepName.NONE
    assert mails(there) == []
    there.now += 2 * HOUR
    used(there)
    assert only(there.sweep()).step.name is StepName.REMIND


def test_a_summary_says_that_it_is_stopped_even_while_used_and_is_no_notice_of_the_day():
    there = enrolled()
    there.now = MONDAY + 7 * DAY - timedelta(minutes=45)
    used(there)
    there.sweep()
    [summary] = mails(there)
    assert "scaled in, even while it is used" in summary
    there.now += timedelta(hours=1, minutes=5)
    used(there)
    assert only(there.sweep()).step.name is StepName.REMIND
    there.now += HOUR
    used(there)
    assert only(there.sweep()).step.name is StepName.STOP


def test_an_enrolment_that_a_wrong_clock_dated_is_replaced_at_once():
    memory = Memory(
        warned_at=MONDAY + 400 * DAY, announced_action=AnnouncedAction.HOURS, enrolment_digest=enrolment.hours_digest(OFFICE)
    )
    assert move(case(hours=OFFICE, acts={StepName.STOP: None}), memory, MONDAY) is StepName.WARN


def test_what_was_made_anew_since_our_stop_is_not_ours_to_start():
    stopped = {StepName.STOP: Blocked(because="it is stopped already", already_done=True), StepName.START: None}
    of, now = case(State.EXEMPT, hours=OFFICE, acts=stopped), MONDAY + 15 * HOUR
    memory = Memory(last_action=StepName.STOP, last_action_at=MONDAY - 7 * DAY)
    assert plan.may_start(of, memory, now)
    assert not plan.may_start(replace(of, resource=replace(of.resource, created=MONDAY - DAY)), memory, now)


def test_hours_that_are_not_the_rules_for_a_while_leave_the_enrolment():
    memory = Memory(warned_at=MONDAY, announced_action=AnnouncedAction.HOURS, enrolment_digest=enrolment.hours_digest(OFFICE))
    unpriced = case(State.ACTIVE, hours=replace(OFFICE, by_rule=False), acts={StepName.STOP: None})
    kept = memory_updates.after_judging(unpriced, memory, MONDAY + DAY)
    assert enrolment.enrolled_since(case(hours=OFFICE), kept, MONDAY + 2 * DAY) == MONDAY


OFFICE_RULE = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"


def week(mode: Mode, rules: str, *, vague: bool = False) -> list[str]:
    """The subjects of the mails to the owner of something that is used every day of a fortnight, swept every evening."""
    there = Enforcer(policy=policy(POLICY + rules), now=MONDAY)
    there.depot.add("churn", tags={}, vague=vague)
    for _ in range(14):
        there.depot.things["churn"].uses.append(there.now - 4 * HOUR)
        there.sweep(mode)
        there.now += DAY
    return [m.subject for m in there.post.messages if m.audience is Audience.OWNERS]


def test_who_is_only_told_hears_once_a_week_of_what_is_idle_every_evening():
    assert len(week(Mode.NOTIFY, OFFICE_RULE)) == 2


def test_what_can_never_be_stopped_for_want_of_proof_is_told_once_a_week():
    assert len(week(Mode.ENFORCE, OFFICE_RULE, vague=True)) == 2


def test_the_weekly_summary_comes_where_every_sweep_stops_or_starts_it():
    there = Enforcer(policy=policy(POLICY + OFFICE_RULE.replace("mon-fri", "mon-sun")), now=MONDAY)
    there.depot.add("churn", tags={})
    for _ in range(15):
        there.sweep()
        there.now += 12 * HOUR
        there.sweep()
        there.now += 12 * HOUR
    said = [m.text for m in there.post.messages if m.audience is Audience.OWNERS]
    assert len(said) == 3
    assert all("it was stopped" in text and "started" in text for text in said[1:])


def test_what_is_only_likely_idle_is_forced_after_a_notice_of_the_day():
    there = Enforcer(policy=policy(POLICY + FORCED), now=MONDAY)
    there.depot.add("churn", tags={}, vague=True)
    there.sweep()
    there.now = MONDAY + DAY
    assert only(there.sweep()).step.name is StepName.REMIND
    there.now += HOUR
    assert only(there.sweep()).step.name is StepName.STOP


def test_a_start_that_failed_is_tried_again_the_next_morning():
    stopped = {StepName.STOP: Blocked(because="it is stopped already", already_done=True), StepName.START: None}
    of, now = case(State.EXEMPT, hours=OFFICE, acts=stopped, changed=MONDAY), MONDAY + 36 * HOUR
    failed = Memory(
        last_action=StepName.START, last_action_at=MONDAY + 12 * HOUR, last_action_run="a", last_action_result=Result.FAILED
    )
    assert plan.may_start(of, failed, now)
    assert not plan.may_start(replace(of, resource=replace(of.resource, changed=MONDAY + 13 * HOUR)), failed, now)


def test_a_hosts_snooze_that_is_over_still_answers_what_lives_in_it():
    host = Memory(snoozed_until=MONDAY, snoozed_at=MONDAY - 2 * DAY, snoozed_by="lee")
    of = case(State.ACTIVE)
    assert memory_updates.after_judging(of, host, MONDAY + HOUR).snoozed_until is None, "nothing lives in it"
    of = replace(of, resource=replace(of.resource, contained=(of.resource,)))
    assert memory_updates.after_judging(of, host, MONDAY + 14 * DAY).snoozed_until == MONDAY
    assert memory_updates.after_judging(of, host, MONDAY + 15 * DAY).snoozed_until is None
    inner = Memory(warned_at=MONDAY - 3 * DAY, announced_action=AnnouncedAction.STOP, act_not_before=MONDAY)
    assert memory_updates.after_host_snooze(inner, memory_updates.after_judging(of, host, MONDAY + DAY)).announced_action is None


def test_a_mail_about_office_hours_alone_says_so_in_its_subject():
    there = Enforcer(policy=policy(POLICY + OFFICE_RULE), now=MONDAY)
    there.depot.add("churn", tags={})
    there.sweep()
    there.now += 7 * DAY
    there.sweep()
    subjects = [m.subject for m in there.post.messages if m.audience is Audience.OWNERS]
    assert subjects == [
        "1 ML resource will be scaled in outside office hours from Mon 16 Nov: churn",
        "Weekly summary: office hours are kept for 1 ML resource: churn",
    ]
