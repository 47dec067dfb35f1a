"""Deployments scaled to one instance, deleted and brought back, over TLS against the sandbox."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from on_azure.conftest import DEPLOYMENT, NOW
from on_azure.prepared_actions import PreparedAction, find_blocked, find_resource, later, prepare_action
from reaper import registry
from reaper.acting.contract import HalfDone, UndoResult
from reaper.azure import workspaces
from reaper.azure.session import CloudSession
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper.observation import Window
from reaper_sandbox.azure import autoscale
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Endpoint, Thing, Workspace

ML = "Microsoft.MachineLearningServices/workspaces"
OWN = ("id", "name", "type", "location", "kind", "tags", "sku", "identity", "properties")


@pytest.fixture
def chat(vision: Workspace) -> Endpoint:
    """An endpoint that has more to lose than its traffic."""
    one = vision.endpoint("chat").tagged(team="speech")
    one.set("properties.publicNetworkAccess", "Disabled").set("properties.authMode", "AADToken")
    return one.set("properties.properties", {"a": "b"})


def full(endpoint: Endpoint, name: str = "blue", capacity: int = 3) -> Thing:
    """A deployment with everything that can be set."""
    one = endpoint.deployment(name, size="Standard_NC6s_v3", capacity=capacity).tagged(team="speech", cost="42")
    one.body["identity"] = {"type": "UserAssigned", "userAssignedIdentities": {f"{endpoint.id}/id": {}}}
    return (
        one.set("properties.environmentVariables", {"TOKEN": "secret", "LEVEL": "3"})
        .set("properties.model", "azureml://registries/r/models/m/versions/7")
        .set("properties.environmentId", "azureml://registries/r/environments/e/versions/2")
        .set("properties.requestSettings.maxConcurrentRequestsPerInstance", 8)
        .set("properties.livenessProbe", {"initialDelay": "PT10S", "failureThreshold": 30})
    )


def delete(cloud: CloudSession, name: str = "chat/blue") -> PreparedAction:
    return prepare_action(cloud, DEPLOYMENT, name, StepName.DELETE)


def undo(cloud: CloudSession, act: PreparedAction) -> UndoResult:
    return act.undo()


def traffic(endpoint: Endpoint) -> dict[str, int]:
    return dict(endpoint.body["properties"]["traffic"])


def waits(server: Server, cloud: CloudSession, seconds: float = 0) -> list[float]:
    """What the acts wait for passes on the sandbox's clock; gives the waits."""
    waited: list[float] = []

    def pause(wait: float) -> None:
        waited.append(wait)
        server.now = server.world.now + timedelta(seconds=wait + seconds)

    cloud.clients.pause = pause
    return waited


# Stop: one instance


def test_a_stop_scales_to_one_instance_and_keeps_tags_and_sku(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    blue.tagged(team="speech", cost="42")
    assert act.perform() == "scaling it from 3 instances to one has started; the next sweep checks the result"
    assert blue.body["sku"] == {"name": "Default", "tier": "Standard", "capacity": 1}
    assert blue.body["tags"] == {"team": "speech", "cost": "42"}
    assert [m.method for m in server.mutations] == ["PATCH"]
    assert not any("Operations" in r.path for r in server.requests)
    assert find_blocked(cloud, DEPLOYMENT, "chat/blue").because == "its state is Updating"
    later(server)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue")
    assert (barred.because, barred.already_done) == ("it already has one instance, and Azure allows no fewer", True)


def test_undo_restores_the_instance_count(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    act.perform()
    later(server)
    assert undo(cloud, act) == UndoResult(because="scaling it back from 1 to 3 instances has started")
    assert blue.body["sku"] == {"name": "Default", "tier": "Standard", "capacity": 3}
    later(server)
    assert undo(cloud, act) == UndoResult(because="its capacity is already 3 instances")


def looked_at(cloud: CloudSession, name: str = "chat/blue") -> Blocked | None:
    """What keeps it from being scaled in, as a sweep knows it."""
    kind, session = registry.kind(DEPLOYMENT), cloud.without_cache()
    window = Window(start=NOW - timedelta(days=14), end=NOW, recent_since=NOW - timedelta(days=1))
    [observation] = kind.observe(session, [find_resource(cloud, DEPLOYMENT, name)], window)
    assert session.errors == []
    return kind.blocked_actions(observation.resource)[StepName.STOP]


@pytest.mark.parametrize(("least", "enabled", "barred"), [(2, True, True), (1, True, False), (2, False, False)])
def test_autoscale_that_would_undo_a_scale_in_blocks_it(
    server: Server, cloud: CloudSession, chat: Endpoint, least: int, enabled: bool, barred: bool
):
    blue = full(chat)
    setting = autoscale.body(blue.id.upper(), "keeps", "westeurope", least, 9)
    setting["properties"]["enabled"] = enabled
    server.world.autoscale += [autoscale.body(f"{blue.id}2", "other", "westeurope", 5, 9), setting]
    server.world.page_size = 1
    because = "its Azure Monitor autoscale keeps at least 2 instances and would undo a scale-in"
    assert looked_at(cloud) == (Blocked(because=because) if barred else None)


def test_autoscale_added_a_moment_ago_refuses_the_scale_in(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue")
    server.world.autoscale.append(autoscale.body(blue.id, "keeps", "westeurope", 2, 9))
    assert act.withdrawn() == "its settings changed a moment ago"
    assert not server.mutations


def test_the_default_instances_of_autoscale_count_as_a_minimum(server: Server, cloud: CloudSession, chat: Endpoint):
    server.world.autoscale.append(autoscale.body(full(chat).id, "keeps", "westeurope", 1, 9))
    server.world.autoscale[0]["properties"]["profiles"][0]["capacity"]["default"] = "3"
    assert "keeps at least 3 instances" in looked_at(cloud).because


def test_autoscale_is_read_once_and_not_for_single_instances(
    server: Server, cloud: CloudSession, chat: Endpoint, vision: Workspace
):
    def autoscale_reads() -> int:
        server.requests.clear()
        kind = registry.kind(DEPLOYMENT)
        session = cloud.without_cache()
        window = Window(start=NOW - timedelta(days=14), end=NOW, recent_since=NOW - timedelta(days=1))
        list(kind.observe(session, list(kind.discover(session)), window))
        return sum(r.path.lower().endswith("/autoscalesettings") for r in server.requests)

    full(chat, capacity=1)
    assert autoscale_reads() == 0
    for name in ("green", "red", "grey"):
        full(chat, name)
    full(vision.endpoint("other"))
    assert autoscale_reads() == 1


def test_a_partial_traffic_share_blocks_a_delete_without_siblings_too(cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=40, hidden=60)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    assert barred.because == "it gets 40% of its endpoint's traffic; shift that to another deployment first"


def test_unreadable_autoscale_blocks_the_scale_in_with_the_reason(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    server.world.autoscale.append(autoscale.body(blue.id, "odd", "westeurope", 1, 9))
    for odd in ("some", None):
        server.world.autoscale[0]["properties"]["profiles"][0]["capacity"]["minimum"] = odd
        assert "its Azure Monitor autoscale, which might undo a scale-in, couldn't be read" in looked_at(cloud).because
    server.world.autoscale[0]["properties"] = "odd"
    assert "an autoscale setting can't be read" in looked_at(cloud).because
    server.rules.append(deny("Microsoft.Insights/autoscaleSettings/read"))
    assert "missing permission Microsoft.Insights/autoscaleSettings/read" in looked_at(cloud).because


def test_autoscale_that_was_not_read_blocks_the_scale_in(cloud: CloudSession, chat: Endpoint):
    full(chat)
    one = find_resource(cloud, DEPLOYMENT, "chat/blue")
    assert registry.kind(DEPLOYMENT).blocked_actions(one)[StepName.STOP].because == (
        "its Azure Monitor autoscale, which might undo a scale-in, wasn't read"
    )


@pytest.mark.parametrize(
    ("scale", "because"),
    [
        (
            {"scaleType": "TargetUtilization", "minInstances": 2},
            "its autoscaling keeps at least 2 instances and would undo a scale-in",
        ),
        ({"scaleType": "TargetUtilization", "minInstances": 1}, None),
        ({"scaleType": "Default"}, None),
        (None, None),
    ],
)
def test_target_utilization_scaling_blocks_a_scale_in(cloud: CloudSession, chat: Endpoint, scale: Any, because: str | None):
    full(chat).set("properties.scaleSettings", scale)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue")
    assert (barred and barred.because) == because


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
@pytest.mark.parametrize("state", ["Creating", "Updating", "Deleting", "Scaling", "SomethingNew"])
def test_a_changing_deployment_blocks_both_actions(cloud: CloudSession, chat: Endpoint, state: str, move: StepName):
    full(chat).set("properties.provisioningState", state)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue", move)
    is_done = (state, move) == ("Deleting", StepName.DELETE)
    assert (barred.because, barred.already_done) == (f"its state is {state}", is_done)


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
def test_a_changing_endpoint_blocks_both_actions(cloud: CloudSession, chat: Endpoint, move: StepName):
    full(chat)
    chat.set("properties.provisioningState", "Updating")
    assert find_blocked(cloud, DEPLOYMENT, "chat/blue", move).because == "its endpoint's state is Updating"


@pytest.mark.parametrize("capacity", [None, True, -2, "3", 2.5])
def test_an_invalid_instance_count_blocks_a_scale_in(cloud: CloudSession, chat: Endpoint, capacity: object):
    full(chat).set("sku.capacity", capacity)
    assert find_blocked(cloud, DEPLOYMENT, "chat/blue").because == "its instance count is unknown"


def test_kubernetes_and_unobserved_deployments_block_every_action(cloud: CloudSession, vision: Workspace):
    own = vision.endpoint("own", kubernetes=vision.kubernetes("aks").id)
    own.deployment("blue", capacity=3)
    one = find_resource(cloud, DEPLOYMENT, "own/blue")
    for resource in (one, replace(one, details=None)):
        assert all(b and not b.already_done for b in registry.kind(DEPLOYMENT).blocked_actions(resource).values())


# Delete


def test_a_delete_without_traffic_leaves_the_sibling(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    green = full(chat, "green")
    chat.traffic(blue=0, green=100)
    act = delete(cloud)
    assert act.perform() == "deletion started; the next sweep checks the result"
    later(server)
    assert server.world.estate.find(act.resource.id) is None
    assert (server.world.estate.find(green.id), traffic(chat)) == (green.body, {"green": 100})
    assert [m.method for m in server.mutations] == ["DELETE"]


def test_deleting_the_only_deployment_first_sets_its_traffic_to_zero(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=100)
    before = deepcopy(chat.body)
    waited = waits(server, cloud, 30)
    act = delete(cloud)
    message = act.perform()
    assert message == "its 100% of the traffic was set to 0%, and deletion started; the next sweep checks the result"
    assert ([m.method for m in server.mutations], sum(waited)) == (["PUT", "DELETE"], 15)
    later(server)
    assert server.world.estate.find(act.resource.id) is None
    after = deepcopy(chat.body)
    for body in (before, after):
        del body["properties"]["traffic"], body["systemData"]
    assert after == before


def test_a_restored_deployment_equals_the_deleted_one_by_field(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    chat.traffic(blue=100)
    before = {key: deepcopy(blue.body[key]) for key in OWN}
    waits(server, cloud, 60)
    act = delete(cloud)
    act.perform()
    later(server)
    begun = undo(cloud, act)
    assert begun.because == "recreating it has begun, with its settings, its tags and 3 instances"
    assert begun.not_restored == ("it isn't ready yet: run it again in a few minutes, which restores its traffic (100%)",)
    assert undo(cloud, act).not_restored == (
        "it is still Creating: run it again in a few minutes, which restores its traffic (100%)",
    )
    later(server)
    assert undo(cloud, act) == UndoResult(because="it exists, and gets 100% of the traffic again")
    later(server)
    back = server.world.estate.find(act.resource.id)
    assert {key: back[key] for key in OWN} == before
    assert (traffic(chat), chat.body["tags"], chat.body["properties"]["authMode"]) == (
        {"blue": 100},
        {"team": "speech"},
        "AADToken",
    )
    assert undo(cloud, act) == UndoResult(because="it exists, with 100% of the traffic")


def test_a_deployment_deleted_without_traffic_is_restored_without(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    full(chat, "green")
    chat.traffic(green=100)
    before = {key: deepcopy(blue.body[key]) for key in OWN}
    act = delete(cloud)
    act.perform()
    later(server)
    for reason in ("it isn't ready yet", "it is still Creating"):
        undone = undo(cloud, act)
        assert (undone.not_restored, undone.run_again) == ((f"{reason}: run it again in a few minutes",), True)
    later(server)
    assert undo(cloud, act) == UndoResult(because="it exists, with 0% of the traffic")
    back = server.world.estate.find(act.resource.id)
    assert ({key: back[key] for key in OWN}, traffic(chat)) == (before, {"green": 100})


def test_a_restore_leaves_traffic_that_others_have_by_now(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=100)
    waits(server, cloud, 60)
    act = delete(cloud)
    act.perform()
    later(server)
    full(chat, "green")
    chat.traffic(green=100)
    undo(cloud, act)
    later(server)
    assert undo(cloud, act).not_restored == ("its 100% of the traffic now goes to green",)
    assert traffic(chat) == {"green": 100}


def test_a_restore_leaves_a_different_deployment_of_that_name_alone(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=100)
    waits(server, cloud, 60)
    act = delete(cloud)
    act.perform()
    later(server)
    chat.deployment("blue")
    with pytest.raises(CloudError, match="a different deployment blue exists now"):
        undo(cloud, act)
    assert traffic(chat) == {}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("Deleting", "it is still Deleting: run it again in a few minutes"),
        ("Failed", "its state is Failed: run it again when it is gone"),
    ],
)
def test_a_restore_never_overwrites_a_deleting_or_broken_deployment(
    server: Server, cloud: CloudSession, chat: Endpoint, state: str, message: str
):
    blue = full(chat)
    act = delete(cloud)
    blue.set("properties.provisioningState", state)
    with pytest.raises(CloudError, match=message):
        undo(cloud, act)
    assert not server.mutations


def test_a_restore_without_the_endpoint_is_refused(cloud: CloudSession, chat: Endpoint):
    full(chat)
    act = delete(cloud)
    chat.remove()
    with pytest.raises(CloudError) as caught:
        undo(cloud, act)
    assert caught.value.reason is Reason.GONE


def test_the_manifest_has_the_whole_deployment_and_endpoint(cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    chat.traffic(blue=100)
    record = delete(cloud).manifest.undo_state
    assert record["deployment"] == blue.body
    endpoint = record["endpoint"]
    assert endpoint == chat.body
    assert endpoint["properties"]["traffic"] == {"blue": 100}
    assert "keep the store of manifests private" in registry.kind(DEPLOYMENT).actions[StepName.DELETE].effect


def test_a_restore_warns_of_a_new_system_assigned_identity(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat).body["identity"] = {"type": "SystemAssigned", "principalId": "p", "tenantId": "t"}
    act = delete(cloud)
    act.perform()
    later(server)
    assert "identity is a new one" in undo(cloud, act).not_restored[1]
    assert server.mutations[-1].body["identity"] == {"type": "SystemAssigned"}


@pytest.mark.parametrize(
    ("kind", "shares", "because"),
    [
        ("traffic", {"blue": 40, "green": 60}, "it gets 40% of its endpoint's traffic; shift that to green first"),
        ("traffic", {"Blue": 100}, "it gets 100% of its endpoint's traffic; shift that to green first"),
        ("mirrorTraffic", {"blue": 10}, "it gets 10% of its endpoint's traffic mirrored"),
        ("traffic", {"blue": None}, "its share of its endpoint's traffic is unknown"),
        ("traffic", {"blue": True}, "its share of its endpoint's traffic is unknown"),
        ("traffic", {"blue": -1}, "its share of its endpoint's traffic is unknown"),
        ("traffic", ["blue"], "its share of its endpoint's traffic is unknown"),
        ("mirrorTraffic", "blue", "its share of its endpoint's traffic is unknown"),
        ("traffic", {"green": 100}, None),
        ("traffic", {"blue": 0, "green": 100}, None),
        ("traffic", None, None),
    ],
)
def test_traffic_that_would_have_to_move_blocks_a_delete(
    cloud: CloudSession, chat: Endpoint, kind: str, shares: Any, because: str | None
):
    full(chat)
    full(chat, "green")
    chat.set(f"properties.{kind}", shares)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    assert (barred and barred.because) == because


def test_an_unlisted_endpoint_blocks_a_delete(cloud: CloudSession, chat: Endpoint):
    full(chat)
    barred = find_blocked(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE, traffic_percent=None)
    assert barred.because == "its share of its endpoint's traffic is unknown"


def traffic_moved(chat: Endpoint) -> None:
    chat.traffic(blue=1, green=99)


def mirrored(chat: Endpoint) -> None:
    chat.set("properties.mirrorTraffic", {"blue": 5})


def being_changed(chat: Endpoint) -> None:
    chat.set("properties.provisioningState", "Updating")


@pytest.mark.parametrize("meanwhile", [traffic_moved, mirrored, being_changed])
@pytest.mark.parametrize("lenient", [False, True], ids=["", "even if Azure would let it"])
def test_traffic_added_a_moment_ago_refuses_the_delete(
    server: Server, cloud: CloudSession, chat: Endpoint, meanwhile: Any, lenient: bool
):
    blue = full(chat)
    full(chat, "green")
    chat.traffic(blue=0, green=100)
    act = delete(cloud)
    meanwhile(chat)
    if lenient:
        server.rules.append(on("DELETE", ".*", error(202, "", "")))
    assert "changed a moment ago" in act.withdrawn()
    assert (server.world.estate.find(blue.id), server.mutations) == (blue.body, [])


def test_a_sibling_added_a_moment_ago_refuses_the_delete(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=100)
    act = delete(cloud)
    full(chat, "green")
    assert act.withdrawn() == "its settings changed a moment ago"
    assert (traffic(chat), server.mutations) == ({"blue": 100}, [])


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("tags", {"reaper:keep": "true"}, "tags, settings"),
        ("sku.capacity", 5, "size, settings"),
        ("properties.model", "m:8", "settings"),
    ],
)
@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
def test_a_delete_that_the_manifest_could_not_restore_is_refused(
    server: Server, cloud: CloudSession, chat: Endpoint, path: str, value: object, what: str, move: StepName
):
    blue = full(chat)
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    blue.set(path, value)
    assert act.withdrawn() == f"its {what} changed a moment ago"
    assert not server.mutations


def test_an_endpoint_that_does_not_settle_stops_the_delete(server: Server, cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    chat.traffic(blue=100)
    act = delete(cloud)
    waited: list[float] = []
    cloud.clients.pause = waited.append
    failed = act.refused()
    assert sum(waited) == 55
    assert "its endpoint's state is Updating, so it wasn't deleted" in str(failed)
    with pytest.raises(CloudError, match="its endpoint is still Updating"):
        act.put_back()
    assert (server.world.estate.find(blue.id) is not None, sum(waited)) == (True, 70)
    later(server)
    assert act.put_back().state is HalfDone.PUT_BACK
    assert traffic(chat) == {"blue": 100}


@pytest.mark.parametrize(
    ("path", "value", "state"),
    [("properties.traffic", {"blue": 0, "green": 100}, HalfDone.LEFT), ("tags", {"team": "other"}, HalfDone.PUT_BACK)],
    ids=["traffic", "tags"],
)
def test_an_endpoint_that_ends_in_another_state_stops_the_delete(
    server: Server, cloud: CloudSession, chat: Endpoint, path: str, value: object, state: HalfDone
):
    blue = full(chat)
    chat.traffic(blue=100)
    waits(server, cloud, 60)
    act = delete(cloud)

    def bend(request: Request) -> None:
        if request.method == "GET" and server.mutations:
            chat.set(path, value)

    server.rules.append(bend)
    because, settled = act.interrupted()
    assert ("changed a moment ago" in because, settled.state) == (True, state)
    assert server.world.estate.find(blue.id) is not None


def test_a_delete_that_fails_after_the_traffic_moved_puts_it_back(server: Server, cloud: CloudSession, chat: Endpoint):
    full(chat)
    chat.traffic(blue=100)
    waits(server, cloud, 60)
    act = delete(cloud)
    server.rules.append(on("DELETE", ".*", error(409, "Conflict", "not now")))
    because, settled = act.interrupted()
    assert ("not now" in because, settled.state) == (True, HalfDone.PUT_BACK)
    assert settled.because == "its traffic was at 0%, and setting it back to 100% has begun"
    later(server)
    assert undo(cloud, act) == UndoResult(because="it exists, with 100% of the traffic")
    assert traffic(chat) == {"blue": 100}


def test_an_action_on_a_deleted_resource_raises_gone(cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    acts = [delete(cloud), prepare_action(cloud, DEPLOYMENT, "chat/blue")]
    blue.remove()
    assert {act.refused().reason for act in acts} == {Reason.GONE}


def test_a_deployment_gone_with_its_endpoint_raises_gone(cloud: CloudSession, chat: Endpoint):
    full(chat)
    act = delete(cloud)
    chat.remove()
    assert act.refused().reason is Reason.GONE


@pytest.mark.parametrize("move", [StepName.STOP, StepName.DELETE])
def test_a_deployment_of_unknown_age_is_left_alone(cloud: CloudSession, chat: Endpoint, move: StepName):
    full(chat).set("systemData", None)
    with pytest.raises(CloudError, match="it has no known creation time, so it may be another one"):
        prepare_action(cloud, DEPLOYMENT, "chat/blue", move)


def test_read_now_has_the_current_tags_traffic_and_siblings(cloud: CloudSession, vision: Workspace, chat: Endpoint):
    blue = full(chat)
    resource = find_resource(cloud, DEPLOYMENT, "chat/blue")
    blue.tagged(None)
    chat.tagged({"reaper:keep": "true"}).traffic(blue=7, green=93)
    vision.tagged(owner="ada")
    chat.deployment("green")
    session = cloud.without_cache()
    registry.action_functions(DEPLOYMENT).read_now(session, resource)
    chat.tagged({"reaper:keep": "false"})
    fresh = registry.action_functions(DEPLOYMENT).read_now(session, resource)
    assert fresh.tags == {"reaper:keep": "false", "owner": "ada"}
    assert (fresh.details.traffic_percent, fresh.details.siblings, fresh.id) == (7, ("green",), resource.id)


@pytest.mark.parametrize("place", ["deployment", "endpoint", "workspace"])
def test_unreadable_tags_at_any_level_make_the_tags_none(cloud: CloudSession, vision: Workspace, chat: Endpoint, place: str):
    things = {"deployment": full(chat), "endpoint": chat, "workspace": vision}
    resource = find_resource(cloud, DEPLOYMENT, "chat/blue")
    things[place].body["tags"] = "reaper:keep"
    assert registry.action_functions(DEPLOYMENT).read_now(cloud, resource).tags is None


def test_read_now_of_an_unreadable_deployment_fails(cloud: CloudSession, chat: Endpoint):
    blue = full(chat)
    resource = find_resource(cloud, DEPLOYMENT, "chat/blue")
    blue.body["systemData"]["createdAt"] = "yesterday"
    with pytest.raises(CloudError) as caught:
        registry.action_functions(DEPLOYMENT).read_now(cloud, resource)
    assert caught.value.reason is Reason.UNREADABLE


@pytest.mark.parametrize(
    ("move", "granted", "missing"),
    [
        (StepName.STOP, f"{ML}/onlineEndpoints/read", f"{ML}/onlineEndpoints/deployments/write"),
        (StepName.DELETE, f"{ML}/onlineEndpoints/write", f"{ML}/onlineEndpoints/deployments/delete"),
        (StepName.DELETE, f"{ML}/onlineEndpoints/deployments/delete", f"{ML}/onlineEndpoints/write"),
    ],
)
def test_a_missing_permission_is_named_and_the_declared_ones_suffice(
    server: Server, cloud: CloudSession, chat: Endpoint, move: StepName, granted: str, missing: str
):
    full(chat)
    chat.traffic(blue=100)
    waits(server, cloud, 60)
    kind = registry.kind(DEPLOYMENT)
    server.rules.append(only(*kind.permissions, *workspaces.ASSET_PERMISSIONS, granted))
    failed = prepare_action(cloud, DEPLOYMENT, "chat/blue", move).refused()
    assert (failed.reason, failed.missing) == (Reason.DENIED, missing)
    chat.traffic(blue=100).set("properties.provisioningState", "Succeeded")
    server.rules[:] = [only(*kind.permissions, *kind.actions[move].permissions)]
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", move)
    act.perform()
    later(server)
    server.rules[:] = [only(*kind.permissions, *registry.action_functions(DEPLOYMENT).undo_permissions)]
    undo(cloud, act)
    later(server)
    undo(cloud, act)
    later(server)
    assert server.world.estate.find(act.resource.id)["sku"]["capacity"] == 3
    assert traffic(chat) == {"blue": 100}
    assert server.world.now > NOW
