"""A part of a stop that failed or was put back, and is made again: restoring the last part still restores the earlier ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import boto3
import pytest

from on_aws.actions.deployment import AwsDeployment, Killed, announced, finding
from on_aws.actions.test_half_done import dying_after
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.acting import restore
from reaper.acting.restore import RestoreContext
from reaper.aws.session import CloudSession
from reaper.model import StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, denied, error
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

LOWER, RESIZE = "RegisterScalableTarget", "UpdateEndpointWeightsAndCapacities"


def two(account: Account) -> str:
    """An endpoint of two variants, each under autoscaling that keeps two instances. Returns its ID."""
    account.endpoint("e", variants=[Variant(name=name, count=3) for name in "ab"], tags={"owner": "lee@example.com"})
    for name in "ab":
        account.alive("e", name, NOW - 15 * DAY, NOW + 30 * DAY)
        scaled.variant(account, "e", name, least=2)
    return account.arn("endpoint/e")


def counts(account: Account) -> dict[str, int]:
    return {variant.name: variant.count for variant in account.contents.endpoints["e"].variants}


def minima(account: Account) -> set[int]:
    return {target.least for target in account.contents.scalable.values()}


def sweep_until_acted(deployment: AwsDeployment) -> None:
    """A sweep each day until one acts on the endpoint."""
    for _ in range(9):
        deployment.now += DAY
        if finding(deployment.sweep(), "e").step.name is StepName.STOP:
            return
    raise AssertionError("nothing was done")


def restore_context(deployment: AwsDeployment) -> RestoreContext:
    return replace(
        deployment.restore_context(),
        open_session=lambda target: CloudSession(boto3.Session(), target),
        action_functions=registry.action_functions,
    )


def fail_once(deployment: AwsDeployment, fault: Fault) -> None:
    """The second part, whose scale-in fails."""
    deployment.server.rules.append(lambda call: fault if call.operation == RESIZE else None)
    sweep_until_acted(deployment)
    deployment.server.rules.clear()


def die_once(deployment: AwsDeployment) -> None:
    """The second part, which ends before its scale-in. It is settled more than a day later, so that its minimum stays lowered."""
    dying_after(deployment, LOWER, times=2)
    with pytest.raises(Killed):
        sweep_until_acted(deployment)


@pytest.mark.parametrize("fault", [denied(), error(503, "ServiceUnavailable", "no"), None], ids=["put back", "not known", "died"])
def test_restore_covers_the_parts_before_one_that_was_made_again(account: Account, server: Server, fault: Fault | None):
    resource_id = two(account)
    deployment = announced(server)
    deployment.sweep()
    assert counts(account) == {"a": 1, "b": 3}
    fail_once(deployment, fault) if fault else die_once(deployment)
    assert counts(account) == {"a": 1, "b": 3}
    sweep_until_acted(deployment)
    assert counts(account) == {"a": 1, "b": 1}
    deployment.now = server.now = deployment.now + timedelta(hours=1)
    result = restore.restore_resource(resource_id, restore_context(deployment))
    assert (result.undone and result.undone.not_restored, counts(account), minima(account)) == ((), {"a": 3, "b": 3}, {2})


def test_a_part_that_was_put_back_is_not_gone_on_with(account: Account, server: Server):
    resource_id = two(account)
    deployment = announced(server)
    server.rules.append(lambda call: denied() if call.operation == RESIZE else None)
    deployment.sweep()
    server.rules.clear()
    account.contents.endpoints["e"].variants[0].count = 1
    account.contents.scalable["endpoint/e/variant/a", scaled.VARIANT].least = 1
    sweep_until_acted(deployment)
    assert counts(account) == {"a": 1, "b": 1}
    deployment.now = server.now = deployment.now + timedelta(hours=1)
    restore.restore_resource(resource_id, restore_context(deployment))
    assert counts(account) == {"a": 1, "b": 3}


def test_restore_covers_the_part_before_one_whose_config_was_deleted(account: Account, server: Server):
    resource_id = two(account)
    deployment = announced(server)
    deployment.sweep()
    account.contents.configs.clear()
    sweep_until_acted(deployment)
    assert counts(account) == {"a": 1, "b": 1}
    deployment.now = server.now = deployment.now + timedelta(hours=1)
    result = restore.restore_resource(resource_id, restore_context(deployment))
    assert (result.undone and result.undone.not_restored, counts(account), minima(account)) == ((), {"a": 3, "b": 3}, {2})
