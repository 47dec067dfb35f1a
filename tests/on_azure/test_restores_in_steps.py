"""Restores in several runs: a step that Azure refuses, as for want of quota, and actions that came one after the other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from on_azure.conftest import DEPLOYMENT
from on_azure.prepared_actions import PreparedAction, later, prepare_action
from reaper.acting.contract import UndoResult
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import Fault, error, on
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Endpoint, Workspace

TEXT = "Not enough quota available for Standard_NC6s_v3 in SubscriptionId 1. Current usage/limit: 6/6. Additional needed: 18"
QUOTA = error(400, "BadRequest", TEXT)
QUOTA_LATER = {"code": "OutOfQuota", "message": TEXT}
BACK = UndoResult(because="it exists, and gets 100% of the traffic again")


@pytest.fixture
def chat(vision: Workspace) -> Endpoint:
    one = vision.endpoint("chat")
    one.deployment("blue", size="Standard_NC6s_v3", capacity=3)
    return one.traffic(blue=100)


@pytest.fixture
def gone(server: Server, cloud: CloudSession, chat: Endpoint) -> PreparedAction:
    """The endpoint's only deployment, deleted."""

    def pause(seconds: float) -> None:
        server.now = server.world.now + timedelta(seconds=seconds + 60)

    cloud.clients.pause = pause
    one = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    one.perform()
    later(server)
    return one


def undo(one: PreparedAction) -> UndoResult:
    return one.undo()


@pytest.mark.parametrize("refusal", [QUOTA, error(409, "OutOfCapacity", TEXT)], ids=["quota", "capacity"])
def test_a_create_refused_for_lack_of_quota_is_repeated_later(
    server: Server, chat: Endpoint, gone: PreparedAction, refusal: Fault
):
    server.rules.append(on("PUT", ".*/deployments/blue", refusal, times=1))
    with pytest.raises(CloudError, match="Not enough quota") as caught:
        undo(gone)
    assert caught.value.reason is Reason.REFUSED
    assert undo(gone).run_again
    later(server)
    assert undo(gone) == BACK


def test_a_create_that_fails_later_is_repeated(server: Server, chat: Endpoint, gone: PreparedAction):
    server.world.operations.failures.append(QUOTA_LATER)
    undo(gone)
    later(server)
    assert server.world.estate.find(gone.resource.id)["properties"]["provisioningState"] == "Failed"
    assert undo(gone).because.startswith("recreating it has begun")
    later(server)
    assert undo(gone) == BACK
    later(server)
    assert (chat.body["properties"]["traffic"], server.world.estate.find(gone.resource.id)["sku"]["capacity"]) == (
        {"blue": 100},
        3,
    )


def test_a_broken_deployment_of_others_is_not_overwritten(server: Server, chat: Endpoint, gone: PreparedAction):
    chat.deployment("blue", created=server.world.now).set("properties.provisioningState", "Failed")
    before = len(server.mutations)
    with pytest.raises(CloudError, match="a different deployment blue exists now"):
        undo(gone)
    assert len(server.mutations) == before


@pytest.mark.parametrize(
    "refusal",
    [on("PUT", ".*/onlineEndpoints/chat", error(400, "BadRequest", "no")), deny("*/onlineEndpoints/write"),
     on("PUT", ".*/onlineEndpoints/chat", error(500))],
    ids=["refused", "denied", "server error"],
)  # fmt: skip
def test_traffic_that_cannot_be_restored_now_is_restored_later(
    server: Server, chat: Endpoint, gone: PreparedAction, refusal: object
):
    undo(gone)
    later(server)
    server.rules.append(refusal)
    undone = undo(gone)
    assert (undone.because, undone.run_again) == ("it exists", True)
    assert undone.not_restored[0].startswith("its 100% of the traffic couldn't be restored: ")
    server.rules.remove(refusal)
    assert undo(gone) == BACK


def test_a_scale_out_refused_for_lack_of_quota_is_repeated_later(server: Server, cloud: CloudSession, chat: Endpoint):
    one = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    one.perform()
    later(server)
    server.rules.append(on("PATCH", ".*", QUOTA, times=1))
    with pytest.raises(CloudError, match="Not enough quota"):
        undo(one)
    assert undo(one) == UndoResult(because="scaling it back from 1 to 3 instances has started")
    assert server.world.estate.find(one.resource.id)["sku"]["capacity"] == 3


def test_a_deployment_scaled_in_then_deleted_gets_its_instances_back(server: Server, cloud: CloudSession, chat: Endpoint):
    chat.deployment("green")
    chat.traffic(green=100)
    first = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    first.perform()
    later(server)
    second = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    second.perform()
    later(server)
    undo(second)
    later(server)
    assert undo(second) == UndoResult(because="it exists, with 0% of the traffic")
    assert undo(first) == UndoResult(because="scaling it back from 1 to 3 instances has started")
    later(server)
    assert server.world.estate.find(first.resource.id)["sku"]["capacity"] == 3


@pytest.mark.parametrize("path", ["tags", "properties.environmentVariables"])
def test_undo_gives_a_different_deployment_no_instances(server: Server, cloud: CloudSession, chat: Endpoint, path: str):
    first = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    first.perform()
    later(server)
    server.world.estate.drop(first.resource.id)
    chat.deployment("blue", size="Standard_NC6s_v3", created=server.world.now).set(path, {"a": "b"})
    with pytest.raises(CloudError, match="it was recreated on"):
        undo(first)


def test_the_manifest_of_a_broken_off_delete_restores_the_traffic(server: Server, cloud: CloudSession, chat: Endpoint):
    first = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    chat.traffic(blue=0)
    second = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    second.perform()
    later(server)
    undo(second)
    later(server)
    assert undo(second).not_restored == ()
    assert undo(first) == BACK
    later(server)
    assert chat.body["properties"]["traffic"] == {"blue": 100}
