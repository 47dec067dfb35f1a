"""Budgets for what is idle: admins are told once while one is exceeded, and again if that happens again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from reaper.errors import CloudError, Reason
from reaper.model import Status
from reaper.notices.message import Audience

BUDGETS = """
budgets:
  - {name: vision, match: {tags: {team: vision}}, usd_per_month: 500}
  - {name: everything, usd_per_month: 100000}
"""


def over_budget(deployment: FakeDeployment) -> list[str]:
    """The lines about exceeded budgets in the admins' mails, oldest first."""
    mails = [message.text for message in deployment.channel.messages if message.audience is Audience.ADMINS]
    return [line for text in mails for line in text.splitlines() if "over its budget" in line]


def denied(call: str, name: str) -> None:
    if call == "observe":
        raise CloudError(Reason.DENIED, call, "not allowed")


@pytest.fixture
def deployment() -> FakeDeployment:
    """Something idle for $1.408 an hour, which is $1,028 a month."""
    made = FakeDeployment(policy=policy(POLICY.replace("action: stop", "action: notify") + BUDGETS))
    made.cloud.add("a", tags={"team": "vision"})
    return made


def test_admins_are_told_once_while_a_budget_is_exceeded(deployment: FakeDeployment):
    for _ in range(4):
        deployment.sweep()
        deployment.now += HOUR
    deployment.cloud.add("b")
    deployment.sweep()
    assert over_budget(deployment) == ["- vision: idle resources cost $1,028 a month, over its budget of $500."]


def test_admins_are_told_again_after_it_was_kept(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += HOUR
    deployment.cloud.things["a"].uses.append(deployment.now - HOUR / 2)
    deployment.sweep()
    assert len(over_budget(deployment)) == 1
    deployment.now += 2 * DAY
    deployment.sweep()
    assert len(over_budget(deployment)) == 2


PRICE_A = 1.408 * 730


@pytest.mark.parametrize(
    ("share", "after", "told"),
    [
        pytest.param(0.95, HOUR, 1, id="just kept, exceeded again at once"),
        pytest.param(0.95, 4 * DAY, 2, id="just kept, exceeded again after days"),
        pytest.param(0.89, HOUR, 2, id="down to less than 90%"),
    ],
)
def test_a_budget_that_wavers_is_not_told_each_time(deployment: FakeDeployment, share: float, after: timedelta, told: int):
    """Two things are over it; without one of them it's kept at that share."""
    limit = f"usd_per_month: {PRICE_A / share:.2f}"
    deployment.policy = policy(POLICY.replace("action: stop", "action: notify") + BUDGETS.replace("usd_per_month: 500", limit))
    deployment.cloud.add("b", tags={"team": "vision"})
    deployment.sweep()
    kept = deployment.cloud.things.pop("b")
    deployment.now += HOUR
    deployment.sweep()
    deployment.cloud.things["b"] = kept
    deployment.now += after
    deployment.sweep()
    assert len(over_budget(deployment)) == told


def test_a_budget_with_unknown_prices_is_not_low(deployment: FakeDeployment):
    deployment.cloud.add("b", tags={"team": "vision"}, instance="ml.odd.large")
    deployment.sweep()
    kept = deployment.cloud.things.pop("a")
    deployment.now += HOUR
    [vision, _] = deployment.sweep().run.budgets
    assert (vision.is_over, vision.unpriced) == (False, 1)
    deployment.cloud.things["a"] = kept
    deployment.now += HOUR
    deployment.sweep()
    assert len(over_budget(deployment)) == 1


def test_an_incomplete_sweep_doesnt_show_that_it_is_kept(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += HOUR
    works, deployment.cloud.fail_on = deployment.cloud.fail_on, denied
    assert deployment.sweep().coverage[0].status is Status.DENIED
    deployment.cloud.fail_on = works
    deployment.now += HOUR
    report = deployment.sweep()
    assert len(over_budget(deployment)) == 1
    assert [(use.name, use.is_over) for use in report.run.budgets] == [("vision", True), ("everything", False)]
