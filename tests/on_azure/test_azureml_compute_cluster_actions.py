"""The minimum of a compute cluster down to 0 nodes and back, over TLS against the sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from on_azure.conftest import CLUSTER, NOW
from on_azure.prepared_actions import PreparedAction, find_blocked, find_resource, later, prepare_action
from reaper import registry
from reaper.azure.session import CloudSession
from reaper.errors import LEFT_ALONE, CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.rights import only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

SCALE = "properties.properties.scaleSettings"


def scale(thing: Thing) -> dict[str, object]:
    return dict(thing.body["properties"]["properties"]["scaleSettings"])


def gpus(vision: Workspace, least: int = 2, most: int = 6) -> Thing:
    return vision.cluster("gpus", nodes=(least, most)).set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT30M")


def test_a_stop_sets_the_minimum_to_0_and_nothing_else(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    message = prepare_action(cloud, CLUSTER, "gpus").perform()
    assert scale(cluster) == {"minNodeCount": 0, "maxNodeCount": 6, "nodeIdleTimeBeforeScaleDown": "PT30M"}
    assert message == "its minimum is 0 nodes instead of 2; its maximum of 6 and its idle time are unchanged"
    assert [m.method for m in server.mutations] == ["PATCH"]
    assert not any("OperationsStatus" in r.path for r in server.requests)
    later(server)
    assert find_resource(cloud, CLUSTER, "gpus").parts == ()


def test_undo_restores_the_minimum(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    act.perform()
    later(server)
    undone = act.undo()
    assert (undone.because, undone.not_restored) == ("its minimum is 2 nodes again", ())
    assert scale(cluster) == {"minNodeCount": 2, "maxNodeCount": 6, "nodeIdleTimeBeforeScaleDown": "PT30M"}
    later(server)
    assert act.undo().because == "its minimum is already 2 nodes"


def test_undo_keeps_the_minimum_under_the_current_maximum(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    act.perform()
    later(server)
    cluster.set(f"{SCALE}.maxNodeCount", 1)
    undone = act.undo()
    assert undone.not_restored == ("its maximum is now 1 nodes, so its minimum can't be 2",)
    assert (scale(cluster)["minNodeCount"], scale(cluster)["maxNodeCount"]) == (1, 1)


def lowered(server: Server, cloud: CloudSession) -> PreparedAction:
    act = prepare_action(cloud, CLUSTER, "gpus")
    act.perform()
    later(server)
    return act


@pytest.mark.parametrize(
    ("since", "message"), [(1, "has been set to 1 nodes since, so the reaper left it alone"), (2, "is already 2 nodes")]
)
def test_undo_leaves_a_minimum_that_was_set_since(
    server: Server, cloud: CloudSession, vision: Workspace, since: int, message: str
):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set(f"{SCALE}.minNodeCount", since)
    undone = act.undo()
    assert (undone.because, undone.not_restored, scale(cluster)["minNodeCount"]) == (f"its minimum {message}", (), since)


def test_a_cluster_recreated_after_the_manifest_is_not_changed(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    vision.cluster("gpus", nodes=(2, 6), created=NOW).set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT30M")
    assert act.withdrawn() == "its creation time, last change, settings changed a moment ago"
    assert not server.mutations


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "properties.properties.vmSize",
            "Standard_ND96asr_v4",
            "its size changed from STANDARD_NC6S_V3 to Standard_ND96asr_v4",
        ),
        ("properties.createdOn", None, "it has no known creation time"),
        ("properties.provisioningState", "Updating", "it is still Updating: run it again in a few minutes"),
    ],
)
def test_undo_leaves_a_changed_or_unsettled_cluster_alone(
    server: Server, cloud: CloudSession, vision: Workspace, path: str, value: str | None, message: str
):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set(path, value).without("systemData")
    with pytest.raises(CloudError) as caught:
        act.undo()
    assert (caught.value.reason, message in str(caught.value)) == (Reason.REFUSED, True)
    assert (caught.value.code == LEFT_ALONE) is not ("Updating" in message or "no known" in message), (
        "only what stays so is never tried again"
    )
    assert scale(cluster)["minNodeCount"] == 0


def test_a_cluster_of_unknown_age_is_left_alone(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision).set("properties.createdOn", None).without("systemData")
    with pytest.raises(CloudError, match="it has no known creation time, so it may be another one"):
        prepare_action(cloud, CLUSTER, "gpus")
    assert not server.mutations


def test_cluster_sizes_are_compared_without_case(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set("properties.properties.vmSize", "Standard_NC6s_v3")
    assert act.undo().because == "its minimum is 2 nodes again"


def test_undo_on_a_busy_cluster_advises_to_run_it_again(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = lowered(server, cloud)
    server.rules.append(on("PATCH", ".*", error(409, "Conflict", "resizing")))
    with pytest.raises(CloudError, match="409 Conflict: resizing; run it again in a few minutes"):
        act.undo()


def test_the_fingerprint_of_a_cluster_has_its_scaling_and_size(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    before = find_resource(cloud, CLUSTER, "gpus")
    assert before.fingerprint == "min 2 of 6 STANDARD_NC6S_V3"
    cluster.set(f"{SCALE}.minNodeCount", 4).set("properties.properties.vmSize", "Standard_NC6s_v3")
    assert registry.action_functions(CLUSTER).read_now(cloud.without_cache(), before).fingerprint == "min 4 of 6 STANDARD_NC6S_V3"


def bend(server: Server, cluster: Thing, key: str, value: object) -> None:
    """Azure sets something else than it was told to."""

    def guard(request: Request) -> None:
        if request.method == "GET" and server.mutations:
            cluster.set(f"{SCALE}.{key}", value)

    server.rules.append(guard)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("maxNodeCount", 4, "0 to 4 nodes"),
        ("nodeIdleTimeBeforeScaleDown", "PT120S", "an idle time of PT120S"),
    ],
)
def test_scaling_that_azure_set_differently_is_said(
    server: Server, cloud: CloudSession, vision: Workspace, key: str, value: object, message: str
):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    bend(server, cluster, key, value)
    done = act.perform()
    assert done.startswith("its minimum is 0 nodes instead of 2; its scaling should be 0 to 6 nodes with an idle time of PT30M")
    assert message in done.partition("but Azure set it to ")[2]


def test_a_minimum_that_azure_did_not_set_is_a_failure(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    bend(server, cluster, "minNodeCount", 1)
    assert "but Azure set it to 1 to 6 nodes" in str(act.refused())


def test_an_equal_idle_time_in_another_spelling_is_no_change(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")

    def rewrite(request: Request) -> None:
        if request.method == "GET" and scale(cluster)["minNodeCount"] == 0:
            cluster.set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT1800S")

    server.rules.append(rewrite)
    assert act.perform().startswith("its minimum is 0 nodes")


@pytest.mark.parametrize(("key", "value"), [("maxNodeCount", 8), ("minNodeCount", 1), ("nodeIdleTimeBeforeScaleDown", "PT1H")])
def test_scaling_changed_after_the_manifest_refuses_the_action(
    server: Server, cloud: CloudSession, vision: Workspace, key: str, value: object
):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    cluster.set(f"{SCALE}.{key}", value)
    before = scale(cluster)
    assert "settings changed a moment ago" in act.withdrawn()
    assert (scale(cluster), server.mutations) == (before, [])


def test_a_manifest_of_other_scaling_refuses_the_action(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    state = {**act.manifest.undo_state, "scaleSettings": {**act.manifest.undo_state["scaleSettings"], "maxNodeCount": 9}}
    other = replace(act, manifest=replace(act.manifest, undo_state=state))
    assert other.withdrawn() == "its settings changed a moment ago"
    assert not server.mutations


@pytest.mark.parametrize(
    ("path", "value", "because", "already_done"),
    [
        (f"{SCALE}.minNodeCount", 0, "its minimum is already 0 nodes", True),
        ("properties.provisioningState", "Updating", "its state is Updating", False),
        ("properties.provisioningState", "Creating", "its state is Creating", False),
        ("properties.provisioningState", "Deleting", "it is being deleted", False),
        ("properties.provisioningState", "Failed", "its state is Failed", False),
        ("properties.properties.allocationState", "Resizing", "its state is Resizing", False),
        (f"{SCALE}.minNodeCount", True, "its minimum or maximum node count is unknown", False),
        (f"{SCALE}.minNodeCount", False, "its minimum or maximum node count is unknown", False),
        (f"{SCALE}.minNodeCount", -1, "its minimum or maximum node count is unknown", False),
        (f"{SCALE}.minNodeCount", None, "its minimum or maximum node count is unknown", False),
        (f"{SCALE}.maxNodeCount", None, "its minimum or maximum node count is unknown", False),
    ],
)
def test_each_state_and_scaling_blocks_a_cluster_stop(
    cloud: CloudSession, vision: Workspace, path: str, value: object, because: str, already_done: bool
):
    gpus(vision).set(path, value)
    barred = find_blocked(cloud, CLUSTER, "gpus")
    assert barred
    assert (barred.because, barred.already_done) == (because, already_done)


def test_a_steady_cluster_with_a_minimum_can_be_stopped(cloud: CloudSession, vision: Workspace):
    gpus(vision)
    assert find_blocked(cloud, CLUSTER, "gpus") is None


def test_an_unobserved_cluster_blocks_a_stop(cloud: CloudSession, vision: Workspace):
    gpus(vision)
    one = find_resource(cloud, CLUSTER, "gpus")
    assert registry.kind(CLUSTER).blocked_actions(replace(one, details=None))[StepName.STOP] is not None


def test_read_now_has_the_current_tags_of_a_cluster(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    resource = find_resource(cloud, CLUSTER, "gpus")
    cluster.tagged({"reaper:keep": "true"})
    fresh = registry.action_functions(CLUSTER).read_now(cloud, resource)
    assert (fresh.tags, fresh.id, fresh.size) == ({"reaper:keep": "true"}, resource.id, resource.size)


def test_a_refusal_quotes_azures_reason(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    server.rules.append(
        lambda request: cluster.set("properties.provisioningState", "Updating") and None if request.mutation else None
    )
    failed = act.refused()
    assert (failed.reason, "gpus is Updating and cannot be updated now" in str(failed)) == (Reason.REFUSED, True)
    assert scale(cluster)["minNodeCount"] == 2


def test_an_action_on_a_deleted_resource_raises_gone(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = prepare_action(cloud, CLUSTER, "gpus")
    cluster.remove()
    assert act.refused().reason is Reason.GONE
    with pytest.raises(CloudError) as caught:
        act.undo()
    assert caught.value.reason is Reason.GONE


def test_a_missing_permission_is_named_and_the_declared_ones_suffice(server: Server, cloud: CloudSession, vision: Workspace):
    cluster, kind = gpus(vision), registry.kind(CLUSTER)
    act = prepare_action(cloud, CLUSTER, "gpus")
    server.rules.append(only(*kind.permissions))
    failed = act.refused()
    assert (failed.reason, failed.missing) == (Reason.DENIED, "Microsoft.MachineLearningServices/workspaces/computes/write")
    assert scale(cluster)["minNodeCount"] == 2
    server.rules[:] = [only(*kind.permissions, *kind.actions[StepName.STOP].permissions)]
    act.perform()
    later(server)
    server.rules[:] = [only(*kind.permissions, *registry.action_functions(CLUSTER).undo_permissions)]
    act.undo()
    assert scale(cluster)["minNodeCount"] == 2


def test_scaling_without_an_idle_time_is_sent_without_one(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision).without(f"{SCALE}.nodeIdleTimeBeforeScaleDown")
    lowered(server, cloud)
    [sent] = server.mutations
    assert sent.body["properties"]["properties"]["scaleSettings"] == {"minNodeCount": 0, "maxNodeCount": 6}
