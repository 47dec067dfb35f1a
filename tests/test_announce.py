"""Mode announce: owners get the dates of actions, and only `apply`, which is mode enforce under a plan file, carries it out."""

from __future__ import annotations

from fakes.builders import DAY
from fakes.fake_deployment import FakeDeployment, finding_of, only
from reaper.model import Mode, Result, StepName


def test_a_notice_has_the_date_of_an_action_that_no_sweep_carries_out():
    deployment = FakeDeployment()
    deployment.cloud.add("quiet")
    assert only(deployment.sweep(Mode.ANNOUNCE)).step.name is StepName.WARN
    assert (deployment.record("quiet").notice.action, deployment.record("quiet").notice.not_before) == (
        "stop",
        deployment.now + 3 * DAY,
    )
    deployment.now += 4 * DAY
    finding = only(deployment.sweep(Mode.ANNOUNCE))
    assert (finding.step.name, finding.outcome.result, deployment.cloud.log) == (StepName.STOP, Result.PLANNED, [])


def test_what_was_announced_counts_when_a_run_acts():
    deployment = FakeDeployment()
    deployment.cloud.add("quiet")
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 3 * DAY
    assert only(deployment.sweep()).outcome.result is Result.DONE


def test_a_notice_of_mode_notify_announces_nothing():
    deployment = FakeDeployment()
    deployment.cloud.add("quiet")
    deployment.sweep(Mode.NOTIFY)
    assert (deployment.record("quiet").notice.action, deployment.record("quiet").notice.not_before) == (None, None)
    deployment.now += 4 * DAY
    assert finding_of(deployment.sweep(Mode.NOTIFY), "quiet").step.name is not StepName.STOP
