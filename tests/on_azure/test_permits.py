"""The permit of an action: asked right before every changing call, and where it is withdrawn no further call is made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from on_azure.acting import PreparedAction, later, prepare_action
from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE
from reaper import registry
from reaper.actions.contract import ActionResult, CallCheck, UndoResult
from reaper.azure.session import CloudSession
from reaper.errors import ActionWithdrawn
from reaper.model import StepName
from reaper_sandbox.azure.fault import denied, lost, on
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace


def scaled(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue")


def deleted(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)


def deleted_with_traffic(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    chat = vision.endpoint("chat")
    chat.deployment("blue", capacity=3)
    chat.traffic(blue=100)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)


def shrunk(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.cluster("gpus", nodes=(2, 4))
    return prepare_action(cloud, CLUSTER, "gpus")


def stopped(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada")
    return prepare_action(cloud, INSTANCE, "ada")


def stopped_natively(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada")
    return prepare_action(cloud, INSTANCE, "ada", stop_by="native")


def started(vision: Workspace, cloud: CloudSession) -> PreparedAction:
    vision.instance("ada").set("properties.properties.state", "Stopped")
    return prepare_action(cloud, INSTANCE, "ada", StepName.START)


EVERY = pytest.mark.parametrize(
    ("act", "calls"),
    [(scaled, 1), (deleted, 1), (deleted_with_traffic, 2), (shrunk, 1), (stopped, 1), (stopped_natively, 1), (started, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)


@pytest.fixture(autouse=True)
def _waits(server: Server, cloud: CloudSession) -> None:
    def pause(seconds: float) -> None:
        server.now = server.world.now + timedelta(seconds=seconds + 60)

    cloud.clients.pause = pause


def withdrawn_at(call: int) -> CallCheck:
    """A permit that is withdrawn before the changing call of that number, counted from 1."""
    checks: list[int] = []

    def permit() -> None:
        checks.append(1)
        if len(checks) == call:
            raise ActionWithdrawn("it was snoozed a moment ago")

    return permit


@EVERY
def test_the_permit_is_checked_right_before_each_change(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    one, request_counts = act(vision, cloud), []
    made = one.result(lambda: request_counts.append(len(server.requests)))
    changing = [at for at, request in enumerate(server.requests) if request.mutation]
    assert request_counts == changing
    assert len(changing) == calls
    assert isinstance(made, ActionResult)
    assert (bool(made.because), made.part_done) == (True, None)


@EVERY
def test_a_refused_permit_changes_nothing(
    server: Server, vision: Workspace, cloud: CloudSession, act: Callable[[Workspace, CloudSession], PreparedAction], calls: int
):
    one = act(vision, cloud)
    for call in range(1, calls + 1):
        before = len(server.mutations)
        with pytest.raises(ActionWithdrawn, match="it was snoozed a moment ago"):
            one.result(withdrawn_at(call))
        assert [m.method for m in server.mutations[before:] if m.method != "PUT"] == []
        assert len(server.mutations) == before + 2 * (call - 1), "what was changed before it is put back"
        later(server)


def test_a_delete_withdrawn_after_the_traffic_moved_restores_it(server: Server, vision: Workspace, cloud: CloudSession):
    one = deleted_with_traffic(vision, cloud)
    with pytest.raises(ActionWithdrawn, match="setting it back to 100% has begun"):
        one.result(withdrawn_at(2))
    later(server)
    chat, blue = (server.world.estate.find(id_) for id_ in (one.resource.id.rpartition("/deployments/")[0], one.resource.id))
    assert [m.method for m in server.mutations] == ["PUT", "PUT"]
    assert chat["properties"]["traffic"] == {"blue": 100}
    assert blue["properties"]["provisioningState"] == "Succeeded"


def test_a_delete_cut_off_after_the_traffic_moved_restores_it(server: Server, vision: Workspace, cloud: CloudSession):
    one = deleted_with_traffic(vision, cloud)
    withdrawn = withdrawn_at(2)

    def permit() -> None:
        try:
            withdrawn()
        except ActionWithdrawn:
            server.rules.append(on("PUT", ".*", denied()))
            raise

    with pytest.raises(ActionWithdrawn, match="undo restores the traffic"):
        one.result(permit)
    server.rules.clear()
    later(server)
    undone = registry.action_functions(DEPLOYMENT).undo(cloud.without_cache(), one.manifest)
    assert undone == UndoResult(because="it exists, and gets 100% of the traffic again")


def test_a_retried_call_checks_the_permit_once(server: Server, vision: Workspace, cloud: CloudSession):
    one, mutation_counts = scaled(vision, cloud), []
    server.rules.append(on("PATCH", ".*", lost(), times=1))
    one.result(lambda: mutation_counts.append(len(server.mutations)))
    assert (mutation_counts, len(server.mutations)) == ([0], 2)


def test_restoring_traffic_needs_no_permit(server: Server, vision: Workspace, cloud: CloudSession):
    one = deleted_with_traffic(vision, cloud)
    blue = server.world.estate.find(one.resource.id)
    permits = iter([lambda: None])

    def permit() -> None:
        next(permits)()
        blue["tags"] = {"reaper:keep": "true"}

    with pytest.raises(Exception, match="setting it back to 100% has begun"):
        one.result(permit)
    assert [m.method for m in server.mutations] == ["PUT", "PUT"]
