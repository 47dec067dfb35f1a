"""What happens to a deployment and its endpoint while an act on it is under way, and between an act and its being taken back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from on_azure.acting import PreparedAction, find_resource, later, prepare_action
from on_azure.conftest import DEPLOYMENT
from on_azure.test_azureml_online_deployment_actions import chat, delete, full, traffic, undo, waits
from reaper import registry
from reaper.actions.contract import UndoResult
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import Fault, cut, error, on
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Endpoint, Subscription, Thing, Workspace

__all__ = ["chat"]
KEEP = {"reaper:keep": "true"}


@pytest.fixture
def blue(chat: Endpoint) -> Thing:
    """The only deployment of its endpoint, with all of its traffic."""
    one = full(chat)
    chat.traffic(blue=100)
    return one


def meanwhile(server: Server, cloud: CloudSession, happens: Callable[[], object]) -> None:
    """What an owner does while an act waits."""

    def pause(wait: float) -> None:
        happens()
        server.now = server.world.now + timedelta(seconds=wait + 60)

    cloud.clients.pause = pause


def gone(server: Server, act: PreparedAction) -> bool:
    return server.world.estate.find(act.resource.id) is None


# A delete that takes the traffic away first


@pytest.mark.parametrize("place", ["deployment", "endpoint", "workspace"])
def test_a_keep_tag_during_the_wait_stops_the_delete(
    server: Server, cloud: CloudSession, vision: Workspace, chat: Endpoint, blue: Thing, place: str
):
    act = delete(cloud)
    thing = {"deployment": blue, "endpoint": chat, "workspace": vision}[place]
    meanwhile(server, cloud, lambda: thing.tagged({**thing.body["tags"], **KEEP}))
    failed = act.refused()
    assert failed.reason is Reason.PARTIAL
    assert "tags changed a moment ago; its traffic had been set from 100% to 0%" in str(failed)
    assert "setting it back to 100% has begun" in str(failed)
    later(server)
    assert [m.method for m in server.mutations] == ["PUT", "PUT"]
    assert (gone(server, act), traffic(chat), thing.body["tags"]["reaper:keep"]) == (False, {"blue": 100}, "true")


@pytest.mark.parametrize(
    ("happens", "message"),
    [
        (lambda chat, blue: blue.set("properties.model", "m:8"), "its properties changed"),
        (lambda chat, blue: blue.set("sku.capacity", 9), "its sku changed"),
        (lambda chat, blue: blue.set("systemData.createdAt", "2026-11-21T10:00:00Z"), "it was recreated"),
        (lambda chat, blue: chat.set("properties.authMode", "Key"), "its endpoint's properties changed"),
        (lambda chat, blue: chat.set("systemData.createdAt", "2026-11-21T10:00:00Z"), "its endpoint was recreated"),
        (lambda chat, blue: chat.deployment("green"), "green appeared beside it"),
    ],
)
def test_any_change_during_the_wait_stops_the_delete(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, happens: Callable[[Endpoint, Thing], object], message: str
):
    act = delete(cloud)
    meanwhile(server, cloud, lambda: happens(chat, blue))
    failed = act.refused()
    assert (failed.reason, message in str(failed), gone(server, act)) == (Reason.PARTIAL, True, False)
    later(server)
    assert {name: share for name, share in traffic(chat).items() if share} == {"blue": 100}


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
def test_a_subscription_that_is_warned_after_the_recheck_is_left_alone(
    server: Server, cloud: CloudSession, subscription: Subscription, chat: Endpoint, blue: Thing, move: StepName
):
    """Azure would still carry out the delete, and then refuse to put anything back."""
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    subscription.in_state("Warned")
    assert "its subscription is Warned" in str(act.refused())
    assert (server.mutations, gone(server, act), traffic(chat)) == ([], False, {"blue": 100})


def test_a_subscription_warned_during_the_wait_keeps_its_deployment(
    server: Server, cloud: CloudSession, subscription: Subscription, chat: Endpoint, blue: Thing
):
    act = delete(cloud)
    meanwhile(server, cloud, lambda: subscription.in_state("Warned"))
    failed = act.refused()
    assert (failed.reason, "its subscription is Warned" in str(failed), gone(server, act)) == (Reason.PARTIAL, True, False)


def last_read_before_put(path: str, happens: Callable[[], object]) -> Callable[[Request], Fault | None]:
    """Just after the workspace, which is the last that is looked at anew before the endpoint is written."""
    changes: list[bool] = []

    def guard(request: Request) -> None:
        if request.method == "GET" and request.path.lower().endswith(path) and not changes:
            changes.append(True)
            happens()

    return guard


def test_a_keep_tag_set_just_before_the_traffic_change_is_not_erased(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    act = delete(cloud)
    server.rules.append(last_read_before_put("/workspaces/vision", lambda: chat.tagged({**chat.body["tags"], **KEEP})))
    failed = act.refused()
    assert (failed.reason, "its endpoint's tags changed a moment ago" in str(failed)) == (Reason.REFUSED, True)
    assert (chat.body["tags"], server.mutations, traffic(chat)) == ({"team": "speech", **KEEP}, [], {"blue": 100})


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
@pytest.mark.parametrize("place", ["deployment", "endpoint", "workspace"])
def test_a_tag_added_after_the_recheck_refuses_the_action(
    server: Server, cloud: CloudSession, vision: Workspace, chat: Endpoint, blue: Thing, place: str, move: StepName
):
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    {"deployment": blue, "endpoint": chat, "workspace": vision}[place].tagged(KEEP)
    assert "its tags changed a moment ago" in str(act.refused())
    assert not server.mutations


def noting_operations(server: Server, *things: Thing) -> None:
    """Azure notes the last operation at endpoints and deployments, and it is another one after each change."""
    numbers = count()

    def note(request: Request) -> None:
        for thing in things:
            server.world.estate.find(thing.id) and thing.body["properties"]["properties"].update(
                AzureAsyncOperationUri=f"https://management.azure.com/op/{next(numbers)}"
            )

    server.rules.append(note)


def test_the_noted_last_operation_does_not_count_as_a_change(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waits(server, cloud, 60)
    noting_operations(server, chat, blue)
    act = delete(cloud)
    act.perform()
    later(server)
    assert gone(server, act)
    undo(cloud, act)
    later(server)
    assert undo(cloud, act) == UndoResult(because="it exists, and gets 100% of the traffic again")


def once_cut(server: Server, method: str) -> None:
    """The first such call is carried out, but its reply is lost."""
    remaining = [True]

    def lose(request: Request) -> Fault | None:
        if request.method == method and remaining:
            remaining.clear()
            things = server.world.estate.find(request.path)
            things["properties"] |= {"traffic": {"blue": 0}, "provisioningState": "Succeeded"}
            return cut()
        return error(409, "Conflict", "busy") if request.method == method else None

    server.rules.append(lose)


def test_a_delete_continues_after_a_lost_reply_to_its_traffic_change(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    waits(server, cloud, 60)
    act = delete(cloud)
    once_cut(server, "PUT")
    assert act.perform().startswith("its 100% of the traffic was set to 0%, and deletion started")


def test_a_refused_traffic_change_changes_nothing(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    act = delete(cloud)
    server.rules.append(on("PUT", ".*", error(409, "Conflict", "busy")))
    failed = act.refused()
    assert (failed.reason, "busy" in str(failed), gone(server, act)) == (Reason.REFUSED, True, False)
    assert traffic(chat) == {"blue": 100}


def refusing_delete(server: Server, action: Callable[[], object]) -> None:
    def guard(request: Request) -> Fault | None:
        if request.method != "DELETE":
            return None
        action()
        return error(409, "Conflict", "not now")

    server.rules.append(guard)


def test_traffic_that_others_have_by_now_is_not_restored(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waits(server, cloud, 60)
    act = delete(cloud)
    full_green = lambda: (chat.deployment("green"), chat.traffic(green=100))  # noqa: E731
    refusing_delete(server, full_green)
    assert "by now it goes to green" in str(act.refused())
    assert traffic(chat) == {"green": 100}


def test_traffic_that_cannot_be_restored_now_is_left_to_undo(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waits(server, cloud, 60)
    act = delete(cloud)
    refusing_delete(server, lambda: server.rules.append(on("PUT", ".*", error(400, "BadRequest", "no"))))
    failed = act.refused()
    assert "couldn't be reverted now (400 BadRequest: no): undo restores the traffic" in str(failed)
    server.rules.clear()
    later(server)
    assert undo(cloud, act) == UndoResult(because="it exists, and gets 100% of the traffic again")
    assert traffic(chat) == {"blue": 100}


@pytest.mark.parametrize(
    ("becomes", "message"),
    [
        (lambda blue: blue.set("properties.provisioningState", "Deleting"), "because it is being deleted"),
        (lambda blue: blue.remove(), "because it is gone"),
    ],
)
def test_a_delete_of_unknown_result_restores_no_traffic_if_it_is_gone(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, becomes: Callable[[Thing], object], message: str
):
    waits(server, cloud, 60)
    act = delete(cloud)
    server.rules.append(lambda request: becomes(blue) and None if request.method == "DELETE" else None)
    server.rules.append(on("DELETE", ".*", error(501, "Oops", "sorry")))
    failed = act.refused()
    assert (failed.reason, "it may have been carried out" in str(failed), message in str(failed)) == (
        Reason.PARTIAL,
        True,
        True,
    )
    assert (traffic(chat), [m.method for m in server.mutations].count("PUT")) == ({"blue": 0}, 1)


def test_a_deployment_gone_after_the_wait_counts_as_gone(server: Server, cloud: CloudSession, blue: Thing):
    act = delete(cloud)
    meanwhile(server, cloud, blue.remove)
    assert act.refused().reason is Reason.GONE


def test_traffic_is_restored_as_soon_as_the_endpoint_settles(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waited: list[float] = []

    def pause(wait: float) -> None:
        waited.append(wait)
        chat.set("properties.provisioningState", "Succeeded" if len(waited) == 13 else "Updating")

    cloud.clients.pause = pause
    failed = delete(cloud).refused()
    assert "it wasn't deleted; its traffic had been set from 100% to 0%, and setting it back to 100% has begun" in str(failed)
    assert (traffic(chat), sum(waited)) == ({"blue": 100}, 65)


def test_the_first_manifest_restores_traffic_unknown_to_a_later_delete(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    first = delete(cloud)
    cloud.clients.pause = lambda seconds: None
    assert first.refused().reason is Reason.PARTIAL
    later(server)
    second = delete(cloud)
    assert second.manifest.undo_state["endpoint"]["properties"]["traffic"] == {"blue": 0}
    second.perform()
    later(server)
    assert gone(server, second)
    undo(cloud, first)
    later(server)
    undo(cloud, first)
    later(server)
    assert traffic(chat) == {"blue": 100}


# Taking a stop back


def stopped(server: Server, cloud: CloudSession) -> PreparedAction:
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    act.perform()
    later(server)
    return act


def refused(cloud: CloudSession, act: PreparedAction) -> str:
    with pytest.raises(CloudError) as caught:
        undo(cloud, act)
    assert caught.value.reason is Reason.REFUSED
    return str(caught.value)


def test_undo_does_not_scale_a_recreated_deployment(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    act = stopped(server, cloud)
    blue.remove()
    anew = chat.deployment("blue", size="Standard_ND96asr_v4", created=server.world.now)
    assert "it was recreated on 2026-11-21 10:22 UTC; the reaper left it alone" in refused(cloud, act)
    assert anew.body["sku"]["capacity"] == 1


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "properties.instanceType",
            "Standard_ND96asr_v4",
            "its size changed from Standard_NC6s_v3 to Standard_ND96asr_v4",
        ),
        ("properties.model", "m:8", "its model changed"),
        ("systemData", None, "it has no known creation time"),
        ("properties.provisioningState", "Updating", "it is still Updating: run it again in a few minutes"),
    ],
)
def test_undo_does_not_scale_a_changed_deployment(
    server: Server, cloud: CloudSession, blue: Thing, path: str, value: str | None, message: str
):
    act = stopped(server, cloud)
    blue.set(path, value)
    assert message in refused(cloud, act)
    assert blue.body["sku"]["capacity"] == 1


@pytest.mark.parametrize("since", [2, 5])
def test_undo_leaves_an_instance_count_that_was_set_since(server: Server, cloud: CloudSession, blue: Thing, since: int):
    act = stopped(server, cloud)
    blue.set("sku.capacity", since)
    assert undo(cloud, act).because == f"it has been scaled to {since} instances since, so the reaper left it alone"
    assert blue.body["sku"]["capacity"] == since


# Taking a delete back


@pytest.fixture
def deleted(server: Server, cloud: CloudSession, blue: Thing) -> PreparedAction:
    waits(server, cloud, 60)
    act = delete(cloud)
    act.perform()
    later(server)
    assert gone(server, act)
    return act


def remade(deleted: PreparedAction, chat: Endpoint, created: Any) -> Thing:
    """One with just what the manifest says."""
    again = chat.deployment("blue", created=created)
    old = deleted.manifest.undo_state["deployment"]
    again.body.update({key: deepcopy(old[key]) for key in ("properties", "sku", "tags", "identity")})
    return again


@pytest.mark.parametrize(
    ("path", "value"),
    [("tags", {}), ("sku.capacity", 1), ("properties.instanceType", "Standard_DS3_v2"), ("properties.livenessProbe", None)],
)
def test_a_restore_leaves_a_deployment_that_others_created_since(
    server: Server, cloud: CloudSession, chat: Endpoint, deleted: PreparedAction, path: str, value: object
):
    remade(deleted, chat, server.world.now).set(path, value)
    assert "a different deployment blue exists now; the reaper left it alone" in refused(cloud, deleted)
    assert traffic(chat) == {}


def test_a_deployment_older_than_the_manifest_is_not_a_restored_one(
    server: Server, cloud: CloudSession, chat: Endpoint, deleted: PreparedAction
):
    remade(deleted, chat, deleted.manifest.at - timedelta(hours=1))
    assert "a different deployment blue exists now" in refused(cloud, deleted)
    remade(deleted, chat, server.world.now)
    assert undo(cloud, deleted) == UndoResult(because="it exists, and gets 100% of the traffic again")


def test_nothing_is_restored_into_a_recreated_endpoint(
    server: Server, cloud: CloudSession, vision: Workspace, chat: Endpoint, deleted: PreparedAction
):
    chat.remove()
    vision.endpoint("chat", created=server.world.now)
    assert "its endpoint was recreated on" in refused(cloud, deleted)
    assert gone(server, deleted)


def test_a_deployment_that_was_never_deleted_gets_its_traffic_back(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    act = delete(cloud)
    chat.traffic(blue=0)
    blue.tagged(KEEP).set("sku.capacity", 4)
    assert undo(cloud, act) == UndoResult(because="it exists, and gets 100% of the traffic again")
    chat.traffic(blue=0).set("properties.provisioningState", "Succeeded")
    blue.set("properties.model", "m:8")
    assert "it was never deleted, and its properties have changed since; the reaper left it alone" in refused(cloud, act)
    assert traffic(chat) == {"blue": 0}


def test_undo_on_a_changing_endpoint_advises_to_run_it_again(
    server: Server, cloud: CloudSession, chat: Endpoint, deleted: PreparedAction
):
    chat.set("properties.provisioningState", "Updating")
    assert "another operation is at work on it.; run it again in a few minutes" in refused(cloud, deleted)
    chat.set("properties.provisioningState", "Succeeded")
    undo(cloud, deleted)
    later(server)
    chat.set("properties.provisioningState", "Updating")
    undone = undo(cloud, deleted)
    assert undone.not_restored == (
        "its endpoint is still Updating: run it again in a few minutes, which restores its traffic (100%)",
    )
    assert undone.run_again


def test_the_fingerprint_of_a_deployment_has_its_instances(cloud: CloudSession, blue: Thing):
    before = find_resource(cloud, DEPLOYMENT, "chat/blue")
    assert before.fingerprint == "3 x STANDARD_NC6S_V3"
    blue.set("sku.capacity", 4)
    assert registry.action_functions(DEPLOYMENT).read_now(cloud.without_cache(), before).fingerprint == "4 x STANDARD_NC6S_V3"
