"""A jump of the idle share and notices: none of idleness for two days, then none with a date, and those from before it lapse."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import KIND, STARTABLE
from fakes.fake_deployment import FakeDeployment, finding_of, jumped_places, policy
from fakes.judged_cases import case
from fakes.planned import stand, strongest_action, viewed
from fakes.records import a_record
from reaper.calendars import office_hours
from reaper.errors import CloudError, Reason
from reaper.limits import applying, holds
from reaper.limits.holds import Breaker
from reaper.model import ENDING_ACTIONS, NOTICES, AnnouncedAction, Ceiling, Mode, StepName
from reaper.record import NO_SNOOZES, Record
from reaper.run import run_phases

POLICY = """
version: 1
defaults: {action: stop, idle_after: 24h, grace: 1d, remind_every: 7d}
limits: {max_acts: 50, max_share: 100%, max_usd_per_hour: 1000}
owners: {domains: [example.com], fallback: ml-admins@example.com}
"""
OWNERS = {f"busy-{n}": f"o{n}@example.com" for n in range(8)}


def fleet(text: str = POLICY, mode: Mode = Mode.ENFORCE, kind: str = KIND) -> FakeDeployment:
    """Two idle and eight busy things with an owner each; days are known, and both idle ones' owners."""
    deployment = FakeDeployment(policy=policy(text), ledger=FailingLedger())
    deployment.cloud.kind_name = kind
    for index in range(2):
        deployment.cloud.add(f"idle-{index}", tags={"owner": "idle@example.com"})
    for name, owner in OWNERS.items():
        deployment.cloud.add(name, tags={"owner": owner}, uses=[NOW + n * DAY / 4 for n in range(-60, 1)])
    for _ in range(3):
        deployment.sweep(mode)
        deployment.now += HOUR
    deployment.know_days()
    return deployment


def outage(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE) -> FakeDeployment:
    """The signal of use breaks down for good, and a day later everything looks idle."""
    deployment.now = NOW + 20 * HOUR
    deployment.channel.messages.clear()
    deployment.now = NOW + DAY + 4 * HOUR
    deployment.sweep(mode)
    return deployment


def mails(deployment: FakeDeployment, to: str = "") -> list[str]:
    """What owners got, without the admins' summaries."""
    return [m.text for m in deployment.channel.messages if m.audience == "owners" and m.to.startswith(to)]


def sweep_for(deployment: FakeDeployment, length: timedelta, every: timedelta = DAY / 2, mode: Mode = Mode.ENFORCE) -> None:
    for _ in range(length // every):
        deployment.now += every
        deployment.sweep(mode)


def test_no_notice_of_idleness_goes_out_for_two_days():
    deployment = outage(fleet())
    assert jumped_places(deployment) == {("aws/123456789012/us-east-1", "sagemaker-endpoint")}
    sweep_for(deployment, DAY * 1.5)
    assert mails(deployment) == []
    finding = finding_of(deployment.sweep(), "busy-0")
    assert finding.step.because.startswith(
        "no notice is sent until 2026-11-24 14:17 UTC, because 10 of 10 sagemaker-endpoint resources are idle"
    )
    assert finding.next is not None
    assert (finding.next.at, finding.next.blocked_because) == (None, finding.step.because)


def test_after_two_days_notices_go_out_without_a_date():
    deployment = outage(fleet())
    sweep_for(deployment, 3 * DAY)
    [text] = mails(deployment, "o1@")
    assert (
        "It can't be stopped automatically because 10 of 10 sagemaker-endpoint resources are idle, up from 20%, which may be a fault in the metrics."
        in text
    )
    assert "on or after" not in text
    record = deployment.record("busy-1")
    assert (record.notice.action, record.notice.not_before) == (None, None)


def test_without_the_breaker_eight_owners_would_be_told_a_date():
    deployment = outage(fleet(POLICY.replace("max_acts", "max_jump: 100%, max_acts")))
    assert sum("on or after" in text for text in mails(deployment)) == 8


def test_a_reminder_waits_for_the_end_of_a_jump():
    deployment = fleet(POLICY.replace("grace: 1d", "grace: 20d"))
    deployment.now = NOW + 6 * DAY + 8 * HOUR
    deployment.channel.messages.clear()
    for name in OWNERS:
        deployment.cloud.things[name].uses.clear()
    deployment.sweep()
    sweep_for(deployment, DAY)
    assert (mails(deployment), len(jumped_places(deployment))) == ([], 1)


def test_a_run_over_single_resources_reminds_of_nothing_that_a_jump_holds():
    deployment = outage(fleet())
    deployment.now = NOW + 7 * DAY
    opened = deployment.open_run(Mode.ANNOUNCE)
    report = run_phases(
        replace(opened, decide=replace(opened.decide, notices_only=True), conclude=replace(opened.conclude, notices_only=True))
    )
    assert (finding_of(report, "idle-0").step.name, mails(deployment, "idle@")) == (StepName.HOLD, [])


def test_notices_from_before_a_jump_lead_to_no_action_after_a_release():
    deployment = outage(fleet())
    sweep_for(deployment, 3 * DAY)
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.channel.messages.clear()
    deployment.now += HOUR
    deployment.sweep()
    assert deployment.cloud.log == []
    assert len(mails(deployment, "idle@")) == 1, "a new notice"
    sweep_for(deployment, DAY - HOUR, HOUR)
    assert deployment.cloud.log == []
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert len(deployment.cloud.log) == 10


def test_notices_from_before_a_jump_lapse_although_it_ends_naturally():
    deployment = outage(fleet())
    for name in OWNERS:
        deployment.cloud.things[name].uses += [deployment.now + n * HOUR for n in range(60)]
    deployment.now += HOUR
    deployment.channel.messages.clear()
    deployment.sweep()
    assert (deployment.cloud.log, jumped_places(deployment)) == ([], set())
    assert len(mails(deployment, "idle@")) == 1
    sweep_for(deployment, DAY, HOUR)
    assert {name for _, name, _ in deployment.cloud.log} == {"idle-0", "idle-1"}


def test_a_notice_that_announced_nothing_outlasts_a_jump():
    deployment = fleet(POLICY.replace("action: stop", "action: notify"))
    assert len(mails(deployment, "idle@")) == 1
    outage(deployment)
    sweep_for(deployment, 3 * DAY)
    for name in OWNERS:
        deployment.cloud.things[name].uses += [deployment.now + n * HOUR for n in range(9)]
    deployment.channel.messages.clear()
    sweep_for(deployment, 8 * HOUR, HOUR)
    assert (jumped_places(deployment), mails(deployment, "idle@")) == (set(), [])


def test_admins_are_told_of_a_jump_once_when_it_is_recorded():
    deployment = fleet(POLICY.replace("action: stop", "action: notify"))
    outage(deployment)
    summaries = [m for m in deployment.channel.messages if m.audience == "admins"]
    assert len(summaries) == 1
    assert "idle share jumped in 1 place" in summaries[0].subject
    line = "- sagemaker-endpoint in account 123456789012, us-east-1, since Sun 22 Nov 2026, 14:17 UTC: 10 of 10 sagemaker-endpoint resources"
    assert line in summaries[0].text
    assert "run `reaper release --account 123456789012`" in summaries[0].text
    deployment.now += HOUR
    deployment.sweep()
    assert len([m for m in deployment.channel.messages if m.audience == "admins"]) == 1


def test_a_run_that_only_notifies_records_a_jump_and_sends_nothing():
    deployment = outage(fleet(mode=Mode.NOTIFY), Mode.NOTIFY)
    sweep_for(deployment, DAY, mode=Mode.NOTIFY)
    assert (len(jumped_places(deployment)), mails(deployment)) == (1, [])
    sweep_for(deployment, 2 * DAY, mode=Mode.NOTIFY)
    assert len(mails(deployment, "o1@")) == 1


def test_an_audit_shows_a_jump_and_records_nothing():
    deployment = fleet()
    deployment.now = NOW + DAY + 4 * HOUR
    step = finding_of(deployment.sweep(Mode.AUDIT), "busy-0").step
    assert (step.name, "no notice is sent" in step.because, jumped_places(deployment)) == (StepName.NONE, True, set())


def test_unreadable_holds_send_no_notice_and_carry_out_nothing():
    deployment = fleet(POLICY.replace("max_acts", "max_jump: 100%, max_acts"))
    deployment.now = NOW + DAY + 4 * HOUR
    deployment.channel.messages.clear()

    def unreadable(call: str, name: str) -> None:
        if call == "row" and name == holds.HOLD_ROW:
            raise CloudError(Reason.THROTTLED, "dynamodb:BatchGetItem", "still throttled")

    deployment.ledger.fail_on = unreadable  # type: ignore[attr-defined]
    report = deployment.sweep()
    assert (mails(deployment), deployment.cloud.log) == ([], [])
    assert finding_of(report, "busy-0").step.because.startswith("no notice is sent, because the holds")
    assert finding_of(report, "idle-0").step.name is StepName.HOLD


def test_office_hours_go_on_during_a_jump():
    rules = "rules: [{name: office, match: {name: 'desk-*'}, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"
    deployment = fleet(POLICY + rules, kind=STARTABLE)
    deployment.cloud.add("desk", tags={"owner": "desk@example.com"})
    deployment.cloud.add("desk-1", tags={"owner": "desk@example.com"})
    outage(deployment)
    assert [text for text in mails(deployment, "desk@") if "outside its office hours" in text]
    deployment.now = datetime.fromisoformat("2026-11-23T20:00+00:00")
    deployment.sweep()
    assert {name for _, name, _ in deployment.cloud.log} == {"desk-1"}


def test_an_action_is_refused_if_a_jump_is_recorded_after_deciding():
    deployment = fleet()
    deployment.now = NOW + DAY
    place = Breaker(target="aws/123456789012/us-east-1", kind="sagemaker-endpoint", since=deployment.now, because="a jump")

    def jump(call: str, name: str) -> None:
        if call == "look":
            row_name = holds.row_name("aws/123456789012")
            row = deployment.ledger.read_row(row_name)
            written = holds.row_columns(holds.HoldRow(breakers=(place,)))
            assert deployment.ledger.write_row(row_name, written, row.version)

    for name in OWNERS:
        deployment.cloud.things[name].uses.append(deployment.now - HOUR)
    deployment.cloud.before_call = jump
    finding = finding_of(deployment.sweep(), "idle-0")
    assert finding.outcome.because == "it is on hold since this was decided: a jump"
    assert deployment.cloud.log == []


@pytest.mark.parametrize("kind", [KIND, STARTABLE], ids=["dated", "enrolled"])
def test_a_sweep_in_notify_leaves_what_was_announced_during_a_jump(kind: str):
    rules = "rules: [{name: office, match: {name: 'desk-*'}, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n"
    deployment = fleet(POLICY.replace("grace: 1d", "grace: 9d") + (rules if kind == STARTABLE else ""), kind=kind)
    name = "desk-1" if kind == STARTABLE else "idle-0"
    if kind == STARTABLE:
        deployment.cloud.add(name, tags={"owner": "desk@example.com"})
    deployment.sweep()
    announced = deployment.record(name).notice.action
    assert announced is (AnnouncedAction.HOURS if kind == STARTABLE else AnnouncedAction.STOP)
    outage(deployment, Mode.NOTIFY)
    sweep_for(deployment, 4 * DAY, mode=Mode.NOTIFY)
    assert len(jumped_places(deployment)) == 1
    assert deployment.record(name).notice.action is announced


# --- properties

times = st.integers(min_value=-30 * 24, max_value=0).map(lambda hours: NOW + hours * HOUR)
recalled = st.builds(
    a_record,
    warned_at=st.one_of(st.none(), times),
    reminded_at=st.none(),
    announced=st.sampled_from([None, AnnouncedAction.STOP, AnnouncedAction.DELETE]),
    not_before=st.one_of(st.none(), times),
    idle_since=st.just(NOW - 40 * DAY),
    seen_idle_at=st.one_of(st.none(), times),
)
breakers = st.builds(
    Breaker,
    target=st.just("aws/123456789012/us-east-1"),
    kind=st.just("sagemaker-endpoint"),
    since=st.one_of(st.none(), times),
    because=st.just("a jump"),
    lapsed_at=st.one_of(st.none(), times),
)


@settings(max_examples=300, deadline=None)
@given(record=recalled, breaker=breakers, idle_days=st.integers(1, 40))
def test_a_jump_only_takes_actions_and_dated_notices_away(record: Record, breaker: Breaker, idle_days: int):
    judged = case(idle_for=idle_days * DAY, acts={StepName.STOP: None, StepName.DELETE: None}, action=Ceiling.STOP)
    judged = replace(judged, resource=replace(judged.resource, target=TARGET))
    before = stand(judged, record, NO_SNOOZES, NOW)
    after = applying.after_jumps(before, viewed(before.case, NOW, record), [breaker])
    assert after.step.name not in ENDING_ACTIONS or before.step.name in ENDING_ACTIONS
    if breaker.since and after.step.name in NOTICES:
        assert NOW - breaker.since >= timedelta(hours=48)
        assert strongest_action(after.case, NOW) is None, "without a date"
    if (
        breaker.since is None
        and breaker.lapsed_at
        and record.notice
        and record.notice.warned_at
        and record.notice.warned_at < breaker.lapsed_at
    ):
        assert after.step.name is StepName.WARN, "a new notice first"


@settings(max_examples=100, deadline=None)
@given(record=recalled, breaker=breakers)
def test_a_jump_leaves_what_office_hours_decide(record: Record, breaker: Breaker):
    hours = office_hours.parse_hours("mon-fri 07:00-19:00", "UTC")
    judged = case(hours=hours, acts={StepName.STOP: None}, action=Ceiling.STOP)
    before = stand(judged, record, NO_SNOOZES, NOW)
    assert applying.after_jumps(before, viewed(before.case, NOW, record), [breaker]) == before
