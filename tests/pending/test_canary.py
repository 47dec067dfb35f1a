"""`enforce_only` over time: no date, no action and no part in office hours for what it leaves out, and a new notice once it is let in."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fakes.builders import NOW
from fakes.fake_deployment import POLICY, FakeDeployment, due, finding_of, only, policy, stopped
from reaper.model import Mode, Result, StepName
from reaper.notices.message import Audience

CANARY = POLICY + "enforce_only: {tags: {canary: here}}\n"
HERE = {"canary": "here"}
HOURS = "rules: [{name: office, hours: {on: 'mon-fri 07:00-19:00', tz: UTC, start: all, force: true}}]\n"


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing in the canary, and one that isn't."""
    made = FakeDeployment(policy=policy(CANARY))
    made.cloud.add("inside", tags=dict(HERE))
    made.cloud.add("outside")
    return made


def owner_mails(deployment: FakeDeployment) -> str:
    return "\n".join(m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS)


@pytest.mark.parametrize("mode", [Mode.ANNOUNCE, Mode.ENFORCE])
def test_what_is_left_out_gets_a_notice_without_a_date(deployment: FakeDeployment, mode: Mode):
    report = deployment.sweep(mode)
    assert [f.step.name for f in report.findings] == [StepName.WARN, StepName.WARN]
    inside, outside = (deployment.record(name) for name in ("inside", "outside"))
    assert (inside.notice.action, inside.notice.not_before is None) == ("stop", False)
    assert (outside.notice.action, outside.notice.not_before, outside.notice.warned_at) == (None, None, NOW)
    assert owner_mails(deployment).count("It won't be stopped automatically.") == 1
    assert "not in enforce_only, so notices only" in finding_of(report, "outside").step.because


def test_only_what_the_canary_covers_is_stopped(deployment: FakeDeployment):
    deployment.sweep()
    for _ in range(5):
        deployment.sweep_after(days=3)
    assert [name for _, name, _ in deployment.cloud.log] == ["inside"]


def test_an_audit_says_would_about_nothing_that_is_left_out(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += timedelta(days=3)
    report = deployment.sweep(Mode.AUDIT)
    assert finding_of(report, "inside").step.name is StepName.STOP
    assert finding_of(report, "outside").step.name is StepName.NONE
    assert finding_of(report, "outside").step.because.endswith("; not in enforce_only, so notices only")


def test_a_tag_that_is_gone_right_before_the_call_refuses_the_action():
    deployment = FakeDeployment(policy=policy(CANARY))
    thing = deployment.cloud.add("inside", tags=dict(HERE))
    due(deployment).cloud.before_call = lambda call, name: setattr(thing, "tags", {}) if call == "look" else None
    outcome = only(deployment.sweep()).outcome
    assert (outcome.result, outcome.because, stopped(deployment)) == (
        Result.REFUSED,
        "it is not in enforce_only, so notices only",
        False,
    )


def test_tags_that_cannot_be_read_leave_the_canary():
    deployment = FakeDeployment(policy=policy(CANARY.replace("{canary: here}", "{env: null}")))
    deployment.cloud.add("inside", tags={})
    due(deployment).cloud.things["inside"].tags = None
    assert (only(deployment.sweep()).case.rule.only_notices, stopped(deployment)) == (True, False)


def test_what_is_let_in_later_gets_a_whole_grace():
    deployment = FakeDeployment(policy=policy(CANARY))
    deployment.cloud.add("outside")
    deployment.sweep()
    deployment.now += timedelta(days=10)
    deployment.policy = policy(POLICY)
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert only(deployment.sweep_after(days=2, hours=23)).step.name is StepName.NONE
    assert only(deployment.sweep_after(hours=1)).outcome.result is Result.DONE


def test_a_notice_of_what_was_left_out_voids_its_announcement():
    deployment = FakeDeployment(policy=policy(POLICY))
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.policy = policy(CANARY)
    assert only(deployment.sweep_after(days=7)).step.name is StepName.WARN
    assert deployment.record("churn").notice.action is None
    deployment.policy = policy(POLICY)
    assert only(deployment.sweep_after(hours=1)).step.name is StepName.WARN
    assert not stopped(deployment)


def test_office_hours_neither_stop_nor_start_what_is_left_out():
    deployment = FakeDeployment(policy=policy(CANARY + HOURS))
    monday = datetime(2026, 11, 23, 6, 30, tzinfo=NOW.tzinfo)
    deployment.cloud.add("running")
    deployment.cloud.add("stopped", running_since=None, changed=monday - timedelta(days=9))
    for hours in range(0, 24 * 5, 3):
        deployment.now = monday + timedelta(hours=hours)
        steps = {f.step.name for f in deployment.sweep().findings}
        assert steps <= {StepName.NONE, StepName.WARN, StepName.REMIND}
    assert deployment.cloud.log == []
    assert "office hours" not in owner_mails(deployment).lower()


def test_an_enrolment_given_before_no_longer_counts_outside_the_canary():
    deployment = FakeDeployment(policy=policy(POLICY + HOURS))
    deployment.cloud.add("desk")
    deployment.now = datetime(2026, 11, 23, 9, tzinfo=NOW.tzinfo)
    deployment.sweep()
    deployment.policy = policy(CANARY + HOURS)
    for _ in range(24 * 6):
        deployment.now += timedelta(hours=1)
        deployment.sweep()
    assert not stopped(deployment)


def test_something_on_a_host_that_is_left_out_keeps_its_host():
    deployment = FakeDeployment(policy=policy(CANARY.replace("action: stop", "action: delete")))
    deployment.cloud.add("a-house", tags=dict(HERE))
    deployment.cloud.add("guest", host="a-house")
    deployment.sweep()
    report = deployment.sweep_after(days=3)
    assert not stopped(deployment)
    blocked = finding_of(report, "a-house").case.blocked[StepName.DELETE]
    assert blocked is not None
    assert blocked.because == "it hosts 1 component; it is handled on its own"
