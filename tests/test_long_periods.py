"""Periods longer than the ledger keeps a record that no sweep writes."""

from __future__ import annotations

from datetime import timedelta

from fakes.builders import DAY
from fakes.fake_deployment import POLICY, FakeDeployment, only, policy, stopped
from reaper.acting import restore
from reaper.model import StepName


def deployed(defaults: str) -> FakeDeployment:
    text = POLICY.replace("idle_after: 24h, grace: 3d, remind_every: 7d", defaults)
    deployment = FakeDeployment(policy=policy(text))
    deployment.cloud.add("churn", created=deployment.now - 300 * DAY, running_since=deployment.now - 300 * DAY)
    return deployment


def steps(deployment: FakeDeployment, days: int) -> list[tuple[int, StepName]]:
    """What daily sweeps, each a minute later than the one before, do on which day, until something is stopped."""
    found = []
    for day in range(days):
        step = only(deployment.sweep()).step.name
        if step is not StepName.NONE:
            found.append((day, step))
        if stopped(deployment):
            break
        deployment.now += timedelta(days=1, minutes=1)
    return found


def test_a_notice_counts_until_the_end_of_a_long_grace():
    deployment = deployed("idle_after: 24h, lookback: 200d, grace: 90d, remind_every: 100d")
    assert steps(deployment, 100) == [(0, StepName.WARN), (90, StepName.STOP)]


def test_what_was_restored_is_left_alone_for_a_long_idle_after():
    deployment = deployed("idle_after: 90d, grace: 3d, remind_every: 7d")
    assert steps(deployment, 9) == [(0, StepName.WARN), (3, StepName.STOP)]
    restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    churn = deployment.cloud.things["churn"]
    churn.running_since, churn.changed = churn.created, None
    deployment.cloud.log.clear()
    assert steps(deployment, 94) == [(90, StepName.WARN), (93, StepName.STOP)]
