"""Evenings and weeks under `hours: {force: true}`: what mails say about them is true, and sent before it is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import KIND, STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, only, policy
from fakes.judged_cases import case, move
from fakes.planned import after_judging, enrolled_since, may_start
from fakes.records import a_record
from reaper.calendars import office_hours
from reaper.case import Blocked
from reaper.model import AnnouncedAction, Mode, Result, State, StepName
from reaper.notices.message import Audience
from reaper.planning import dates
from reaper.record import NO_SNOOZES

FORCED = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, force: true}}]\n"
MONDAY = datetime(2026, 11, 16, 19, 30, tzinfo=UTC)
OFFICE = office_hours.parse_hours("mon-fri 07:00-19:00", "UTC")


def enrolled() -> FakeDeployment:
    """One busy thing whose owner got a notice on Monday evening that its hours apply."""
    deployment = FakeDeployment(policy=policy(POLICY + FORCED), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={})
    used(deployment)
    deployment.sweep()
    deployment.channel.messages.clear()
    return deployment


def used(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].uses.append(deployment.now - timedelta(minutes=10))


def mails(deployment: FakeDeployment) -> list[str]:
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def test_forced_stop_after_a_manual_start_is_announced_once_that_ends():
    deployment = enrolled()
    deployment.policy = policy(POLICY + FORCED.replace("force: true", "force: true, override: 2h"))
    deployment.now = MONDAY + DAY
    deployment.cloud.things["churn"].changed = deployment.now - timedelta(minutes=20)
    used(deployment)
    assert only(deployment.sweep()).step.name is StepName.NONE
    assert mails(deployment) == []
    deployment.now += 2 * HOUR
    used(deployment)
    assert only(deployment.sweep()).step.name is StepName.REMIND


def test_summary_mentions_a_forced_stop_but_is_no_notice_of_the_day():
    deployment = enrolled()
    deployment.now = MONDAY + 7 * DAY - timedelta(minutes=45)
    used(deployment)
    deployment.sweep()
    [summary] = mails(deployment)
    assert "stopped, even while it is in use" in summary
    deployment.now += timedelta(hours=1, minutes=5)
    used(deployment)
    assert only(deployment.sweep()).step.name is StepName.REMIND
    deployment.now += HOUR
    used(deployment)
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_enrolment_dated_by_a_wrong_clock_is_replaced_at_once():
    record = a_record(warned_at=MONDAY + 400 * DAY, announced=AnnouncedAction.HOURS, hours=dates.hours_digest(OFFICE))
    assert move(case(hours=OFFICE, acts={StepName.STOP: None}), record, MONDAY) is StepName.WARN


def test_resource_recreated_since_the_reapers_stop_is_not_started():
    stopped = {StepName.STOP: Blocked(because="it is stopped already", already_done=True), StepName.START: None}
    of, now = case(State.EXEMPT, hours=OFFICE, acts=stopped), MONDAY + 15 * HOUR
    record = a_record(acted=StepName.STOP, acted_at=MONDAY - 7 * DAY)
    assert may_start(of, record, now)
    assert not may_start(replace(of, resource=replace(of.resource, created=MONDAY - DAY)), record, now)


def test_enrolment_survives_hours_that_are_briefly_not_the_rules():
    record = a_record(warned_at=MONDAY, announced=AnnouncedAction.HOURS, hours=dates.hours_digest(OFFICE))
    unpriced = case(State.ACTIVE, hours=replace(OFFICE, by_rule=False), in_doubt=True, acts={StepName.STOP: None})
    updated = after_judging(unpriced, record, NO_SNOOZES, MONDAY + DAY)
    assert enrolled_since(case(hours=OFFICE), updated.notice) == MONDAY


OFFICE_RULE = "rules: [{name: office, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"


def week(mode: Mode, rules: str, *, without_heartbeat: bool = False) -> list[str]:
    """The subjects of the mails to the owner of something that is used every day of a fortnight, swept every evening."""
    deployment = FakeDeployment(policy=policy(POLICY + rules), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={}, without_heartbeat=without_heartbeat)
    for _ in range(14):
        deployment.cloud.things["churn"].uses.append(deployment.now - 4 * HOUR)
        deployment.sweep(mode)
        deployment.now += DAY
    return [m.subject for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def test_notify_only_owner_gets_one_mail_a_week_about_idle_evenings():
    assert len(week(Mode.NOTIFY, OFFICE_RULE)) == 2


def test_resource_that_lacks_proof_for_a_stop_brings_one_mail_a_week():
    assert len(week(Mode.ENFORCE, OFFICE_RULE, without_heartbeat=True)) == 2


@pytest.mark.parametrize("rules", [OFFICE_RULE, FORCED], ids=["idle in the evening", "forced"])
@pytest.mark.parametrize(("kind_name", "is_stopped"), [(STARTABLE, True), (KIND, False)], ids=["startable", "for good"])
def test_the_evening_stops_only_what_the_morning_starts(rules: str, kind_name: str, is_stopped: bool):
    deployment = FakeDeployment(policy=policy(POLICY + rules), now=MONDAY)
    deployment.cloud.kind_name = kind_name
    deployment.cloud.add("churn", tags={}, uses=[MONDAY - 4 * HOUR])
    for _ in range(4 * 24 // 2):
        if 8 <= deployment.now.hour <= 17 and deployment.cloud.things["churn"].running_since:
            used(deployment)
        deployment.sweep()
        deployment.now += 2 * HOUR
    moves = [move for move, _, _ in deployment.cloud.log]
    assert moves[:2] == ([StepName.STOP, StepName.START] if is_stopped else [])


def test_weekly_summary_comes_even_if_every_sweep_stops_or_starts():
    deployment = FakeDeployment(policy=policy(POLICY + OFFICE_RULE.replace("mon-fri", "mon-sun")), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={})
    for _ in range(15):
        deployment.sweep()
        deployment.now += 12 * HOUR
        deployment.sweep()
        deployment.now += 12 * HOUR
    texts = [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert len(texts) == 3
    assert all("it was stopped" in text and "started" in text for text in texts[1:])


def test_likely_idle_resource_is_force_stopped_after_a_notice_that_day():
    deployment = FakeDeployment(policy=policy(POLICY + FORCED), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={}, without_heartbeat=True)
    deployment.sweep()
    deployment.now = MONDAY + DAY
    assert only(deployment.sweep()).step.name is StepName.REMIND
    deployment.now += HOUR
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_failed_start_is_retried_the_next_morning():
    stopped = {StepName.STOP: Blocked(because="it is stopped already", already_done=True), StepName.START: None}
    of, now = case(State.EXEMPT, hours=OFFICE, acts=stopped, changed=MONDAY), MONDAY + 36 * HOUR
    failed = a_record(acted=StepName.START, acted_at=MONDAY + 12 * HOUR, run="a", result=Result.FAILED)
    assert may_start(of, failed, now)
    assert not may_start(replace(of, resource=replace(of.resource, changed=MONDAY + 13 * HOUR)), failed, now)


def test_subject_of_a_mail_about_office_hours_alone_says_so():
    deployment = FakeDeployment(policy=policy(POLICY + OFFICE_RULE), now=MONDAY)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("churn", tags={})
    deployment.sweep()
    deployment.now += 7 * DAY
    deployment.sweep()
    subjects = [m.subject for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert subjects == [
        "1 ML resource will be stopped outside office hours from Mon 16 Nov: churn",
        "Weekly summary: office hours apply to 1 ML resource: churn",
    ]
