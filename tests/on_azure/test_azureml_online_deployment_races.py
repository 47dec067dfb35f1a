"""What happens to a deployment and its endpoint while an act on it is under way, and between an act and its being taken back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from on_azure.conftest import DEPLOYMENT
from on_azure.prepared_actions import PreparedAction, find_resource, later, prepare_action
from on_azure.test_azureml_online_deployment_actions import chat, delete, full, traffic, undo, waits
from reaper import registry
from reaper.acting.contract import HalfDone, PutBackResult, UndoResult
from reaper.azure.session import CloudSession
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import Fault, carried_out, error, lost, on, throttled
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
    because, settled = act.interrupted()
    assert because == "its tags, settings changed a moment ago"
    assert (settled.state, settled.because) == (HalfDone.PUT_BACK, "its traffic was at 0%, and setting it back to 100% has begun")
    later(server)
    assert [m.method for m in server.mutations] == ["PUT", "PUT"]
    assert (gone(server, act), traffic(chat), thing.body["tags"]["reaper:keep"]) == (False, {"blue": 100}, "true")


@pytest.mark.parametrize(
    ("happens", "message", "share"),
    [
        (lambda chat, blue: blue.set("properties.model", "m:8"), "its settings", 100),
        (lambda chat, blue: blue.set("sku.capacity", 9), "its size, settings", 100),
        (lambda chat, blue: blue.set("systemData.createdAt", "2026-11-21T10:00:00Z"), "its creation time", 0),
        (lambda chat, blue: chat.set("properties.authMode", "Key"), "its settings", 100),
        (lambda chat, blue: chat.set("systemData.createdAt", "2026-11-21T10:00:00Z"), "its settings", 100),
        (lambda chat, blue: chat.deployment("green"), "its settings", 100),
        (lambda chat, blue: chat.traffic(blue=100), "its share of its endpoint's traffic", 100),
    ],
)
def test_any_change_during_the_wait_stops_the_delete(
    server: Server,
    cloud: CloudSession,
    chat: Endpoint,
    blue: Thing,
    happens: Callable[[Endpoint, Thing], object],
    message: str,
    share: int,
):
    act = delete(cloud)
    meanwhile(server, cloud, lambda: happens(chat, blue))
    because, _ = act.interrupted()
    assert (because, gone(server, act)) == (f"{message} changed a moment ago", False)
    later(server)
    assert traffic(chat)["blue"] == share


def test_what_the_traffic_change_itself_brings_about_is_no_change(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    """Azure may note its time on the deployment, and an endpoint that had failed succeeds."""
    chat.set("properties.provisioningState", "Failed")
    act = delete(cloud)
    meanwhile(server, cloud, lambda: blue.set("systemData.lastModifiedAt", server.world.now.isoformat()))
    act.perform()
    later(server)
    assert gone(server, act)


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
def test_a_subscription_that_is_warned_after_the_recheck_is_left_alone(
    server: Server, cloud: CloudSession, subscription: Subscription, chat: Endpoint, blue: Thing, move: StepName
):
    """Azure would still carry out the delete, and then refuse to put anything back."""
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    subscription.in_state("Warned")
    assert "its subscription is Warned" in act.withdrawn()
    assert (server.mutations, gone(server, act), traffic(chat)) == ([], False, {"blue": 100})


def test_a_subscription_warned_during_the_wait_keeps_its_deployment(
    server: Server, cloud: CloudSession, subscription: Subscription, chat: Endpoint, blue: Thing
):
    act = delete(cloud)
    meanwhile(server, cloud, lambda: subscription.in_state("Warned"))
    assert ("its subscription is Warned" in act.withdrawn(), gone(server, act)) == (True, False)
    with pytest.raises(CloudError, match="ReadOnlyDisabledSubscription"):
        act.put_back()
    subscription.in_state("Enabled")
    later(server)
    assert (act.put_back().state, traffic(chat)) == (HalfDone.PUT_BACK, {"blue": 100})


def last_read(path: str, happens: Callable[[], object], times: int = 1) -> Callable[[Request], Fault | None]:
    """What happens right before the answer to the read of that number of that path."""
    reads: list[bool] = []

    def guard(request: Request) -> None:
        if request.method == "GET" and request.path.lower().endswith(path):
            reads.append(True)
            if len(reads) == times:
                happens()

    return guard


@pytest.mark.parametrize("read", [("/onlineendpoints/chat", 1), ("/deployments/blue", 1), ("/onlineendpoints/chat", 2)])
def test_a_keep_tag_set_just_before_the_traffic_change_is_not_erased(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, read: tuple[str, int]
):
    """The last one is the read between the permit and the PUT."""
    act = delete(cloud)
    path, times = read
    server.rules.append(last_read(path, lambda: chat.tagged({**chat.body["tags"], **KEEP}), times))
    with pytest.raises((ActionWithdrawn, CloudError), match="changed a moment ago"):
        act.perform()
    assert (chat.body["tags"], server.mutations, traffic(chat)) == ({"team": "speech", **KEEP}, [], {"blue": 100})


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
@pytest.mark.parametrize("place", ["deployment", "endpoint", "workspace"])
def test_a_tag_added_after_the_recheck_refuses_the_action(
    server: Server, cloud: CloudSession, vision: Workspace, chat: Endpoint, blue: Thing, place: str, move: StepName
):
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    {"deployment": blue, "endpoint": chat, "workspace": vision}[place].tagged(KEEP)
    assert act.withdrawn() == "its tags, settings changed a moment ago"
    assert not server.mutations


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
@pytest.mark.parametrize("place", ["deployment", "endpoint"])
def test_a_manifest_of_other_settings_refuses_the_action(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, place: str, move: StepName
):
    """They were changed and set back between the two looks, and the manifest was made in between."""
    thing = {"deployment": blue, "endpoint": chat}[place]
    before = dict(thing.body["tags"])
    server.rules.append(last_read("/deployments/blue", lambda: thing.tagged(KEEP), 2))
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    thing.tagged(before)
    assert act.withdrawn() == "its settings changed a moment ago"
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


def test_traffic_that_others_have_by_now_is_left(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waits(server, cloud, 60)
    act = delete(cloud)
    full_green = lambda: (chat.deployment("green"), chat.traffic(green=100))  # noqa: E731
    refusing_delete(server, full_green)
    _, settled = act.interrupted()
    assert settled == PutBackResult(
        state=HalfDone.LEFT, because="its 100% of the traffic goes to green by now, so it stays as it is"
    )
    assert traffic(chat) == {"green": 100}


def test_traffic_that_cannot_be_put_back_now_is_put_back_later(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waits(server, cloud, 60)
    act = delete(cloud)
    refusing_delete(server, lambda: server.rules.append(on("PUT", ".*", error(400, "BadRequest", "no"))))
    assert "not now" in str(act.refused())
    with pytest.raises(CloudError, match="400 BadRequest: no"):
        act.put_back()
    server.rules.clear()
    later(server)
    assert act.put_back().state is HalfDone.PUT_BACK
    assert traffic(chat) == {"blue": 100}


@pytest.mark.parametrize(
    ("becomes", "message"),
    [
        (lambda blue: blue.set("properties.provisioningState", "Deleting"), "it is being deleted"),
        (lambda blue: blue.remove(), "it is deleted"),
    ],
)
def test_a_delete_of_unknown_result_puts_no_traffic_back_if_it_is_gone(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, becomes: Callable[[Thing], object], message: str
):
    waits(server, cloud, 60)
    act = delete(cloud)
    server.rules.append(lambda request: becomes(blue) and None if request.method == "DELETE" else None)
    server.rules.append(on("DELETE", ".*", error(501, "Oops", "sorry")))
    because, settled = act.interrupted()
    assert "it may have been carried out" in because
    assert settled == PutBackResult(state=HalfDone.DONE, because=message)
    assert (traffic(chat), [m.method for m in server.mutations].count("PUT")) == ({"blue": 0}, 1)


def test_a_deployment_gone_after_the_wait_counts_as_deleted(server: Server, cloud: CloudSession, blue: Thing):
    act = delete(cloud)
    meanwhile(server, cloud, blue.remove)
    assert act.interrupted()[1] == PutBackResult(state=HalfDone.DONE, because="it is deleted")


def test_traffic_is_put_back_as_soon_as_the_endpoint_settles(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    waited: list[float] = []

    def pause(wait: float) -> None:
        waited.append(wait)
        chat.set("properties.provisioningState", "Succeeded" if len(waited) == 13 else "Updating")

    cloud.clients.pause = pause
    because, settled = delete(cloud).interrupted()
    assert ("it wasn't deleted" in because, settled.state) == (True, HalfDone.PUT_BACK)
    assert (traffic(chat), sum(waited)) == ({"blue": 100}, 65)


@pytest.mark.parametrize(
    ("fault", "puts"),
    [
        pytest.param(throttled(1), 2, id="throttled"),
        pytest.param(error(503, "Busy"), 2, id="not carried out"),
        pytest.param(carried_out(error(503, "Busy")), 1, id="carried out, and an error"),
        pytest.param(lost(), 1, id="carried out, and its reply lost"),
    ],
)
def test_putting_back_is_tried_again_after_looking_again(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, fault: Fault, puts: int
):
    act = delete(cloud)
    chat.traffic(blue=0)
    waits(server, cloud, 120)
    server.rules.append(on("PUT", ".*", fault, times=1))
    assert act.put_back() == PutBackResult(
        state=HalfDone.PUT_BACK, because="its traffic was at 0%, and setting it back to 100% has begun"
    )
    assert (traffic(chat), len(server.mutations)) == ({"blue": 100}, puts)


def test_traffic_set_by_a_person_is_left(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    act = delete(cloud)
    chat.traffic(blue=40)
    assert act.put_back().because == "its traffic has been set to 40% since, so it stays as it is"
    chat.traffic(blue=100)
    assert act.put_back() == PutBackResult(state=HalfDone.UNCHANGED, because="nothing had changed")
    assert not server.mutations


@pytest.mark.parametrize("place", ["deployment", "endpoint"])
@pytest.mark.parametrize(("minutes", "state"), [(5, HalfDone.PUT_BACK), (60, HalfDone.LEFT)])
def test_traffic_of_what_was_changed_later_is_left(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing, place: str, minutes: int, state: HalfDone
):
    act = delete(cloud)
    chat.traffic(blue=0)
    changed_at = act.manifest.at + timedelta(minutes=minutes)
    {"deployment": blue, "endpoint": chat}[place].set("systemData.lastModifiedAt", changed_at.isoformat())
    assert act.put_back().state is state
    assert traffic(chat) == {"blue": 100 if state is HalfDone.PUT_BACK else 0}


def test_traffic_of_another_deployment_of_that_name_is_left(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    act = delete(cloud)
    chat.traffic(blue=0)
    blue.remove()
    chat.deployment("blue", created=server.world.now)
    assert act.put_back().because == "it may be another deployment by now, so its traffic stays as it is"
    assert not server.mutations


def test_unreadable_traffic_is_looked_at_again_later(server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing):
    act = delete(cloud)
    chat.set("properties.traffic", {"blue": "some"})
    with pytest.raises(CloudError, match="its share of its endpoint's traffic can't be read"):
        act.put_back()
    assert not server.mutations


def test_the_first_manifest_restores_traffic_unknown_to_a_later_delete(
    server: Server, cloud: CloudSession, chat: Endpoint, blue: Thing
):
    first = delete(cloud)
    cloud.clients.pause = lambda seconds: None
    assert "so it wasn't deleted" in str(first.refused())
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
    assert "it was recreated on 2026-11-21 10:22 UTC, so the reaper left it alone" in refused(cloud, act)
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
    assert undo(cloud, act).because == f"its capacity has been set to {since} instances since, so the reaper left it alone"
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
    assert "a different deployment blue exists now, so the reaper left it alone" in refused(cloud, deleted)
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
    assert "it was never deleted, and its properties have changed since, so the reaper left it alone" in refused(cloud, act)
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
