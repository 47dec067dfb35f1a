"""The minimum of a compute cluster down to 0 nodes and back, over TLS against the sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from on_azure.acting import Planned, bar, found, later, planned
from on_azure.conftest import CLUSTER, NOW
from reaper import registry
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
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


def test_its_minimum_becomes_0_and_all_else_stays(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    told = planned(cloud, CLUSTER, "gpus").carry()
    assert scale(cluster) == {"minNodeCount": 0, "maxNodeCount": 6, "nodeIdleTimeBeforeScaleDown": "PT30M"}
    assert told == "its minimum is 0 nodes instead of 2; its maximum of 6 and its idle time are unchanged"
    assert [m.method for m in server.mutations] == ["PATCH"]
    assert not any("OperationsStatus" in r.path for r in server.requests)
    later(server)
    assert found(cloud, CLUSTER, "gpus").parts == ()


def test_its_old_minimum_comes_back(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    act.carry()
    later(server)
    undone = registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert (undone.because, undone.not_restored) == ("its minimum is 2 nodes again", ())
    assert scale(cluster) == {"minNodeCount": 2, "maxNodeCount": 6, "nodeIdleTimeBeforeScaleDown": "PT30M"}
    later(server)
    assert registry.action_functions(CLUSTER).undo(cloud, act.manifest).because == "its minimum is already 2 nodes"


def test_todays_maximum_is_kept_when_the_old_minimum_comes_back(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    act.carry()
    later(server)
    cluster.set(f"{SCALE}.maxNodeCount", 1)
    undone = registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert undone.not_restored == ("its maximum is now 1 nodes, so its minimum can't be 2",)
    assert (scale(cluster)["minNodeCount"], scale(cluster)["maxNodeCount"]) == (1, 1)


def lowered(server: Server, cloud: CloudSession) -> Planned:
    act = planned(cloud, CLUSTER, "gpus")
    act.carry()
    later(server)
    return act


@pytest.mark.parametrize(
    ("since", "told"), [(1, "has been set to 1 nodes since, so the reaper left it alone"), (2, "is already 2 nodes")]
)
def test_a_minimum_that_somebody_chose_since_is_left_alone(
    server: Server, cloud: CloudSession, vision: Workspace, since: int, told: str
):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set(f"{SCALE}.minNodeCount", since)
    undone = registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert (undone.because, undone.not_restored, scale(cluster)["minNodeCount"]) == (f"its minimum {told}", (), since)


def test_a_cluster_made_anew_under_its_name_is_left_as_it_is(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = lowered(server, cloud)
    anew = vision.cluster("gpus", nodes=(0, 9), created=server.world.now)
    with pytest.raises(CloudError, match="it was recreated on 2026-11-21 10:22 UTC; the reaper left it alone") as caught:
        registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert (caught.value.reason, scale(anew)["minNodeCount"]) == (Reason.REFUSED, 0)


def test_one_made_anew_after_it_was_recorded_is_not_touched(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    vision.cluster("gpus", nodes=(2, 6), created=NOW).set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT30M")
    assert "it was recreated" in str(act.refused())
    assert not server.mutations


@pytest.mark.parametrize(
    ("path", "value", "told"),
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
def test_what_is_not_surely_the_same_and_at_rest_is_left_as_it_is(
    server: Server, cloud: CloudSession, vision: Workspace, path: str, value: str | None, told: str
):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set(path, value).without("systemData")
    with pytest.raises(CloudError) as caught:
        registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert (caught.value.reason, told in str(caught.value)) == (Reason.REFUSED, True)
    assert scale(cluster)["minNodeCount"] == 0


def test_one_of_which_it_was_never_known_when_it_was_made_is_left_as_it_is(
    server: Server, cloud: CloudSession, vision: Workspace
):
    gpus(vision).set("properties.createdOn", None).without("systemData")
    act = planned(cloud, CLUSTER, "gpus")
    assert "it has no known creation time, so it may be another one" in str(act.refused())
    assert not server.mutations


def test_a_size_in_other_letters_is_the_same(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = lowered(server, cloud)
    cluster.set("properties.properties.vmSize", "Standard_NC6s_v3")
    assert registry.action_functions(CLUSTER).undo(cloud, act.manifest).because == "its minimum is 2 nodes again"


def test_a_cluster_that_azure_is_at_work_on_is_told_to_be_tried_again(server: Server, cloud: CloudSession, vision: Workspace):
    gpus(vision)
    act = lowered(server, cloud)
    server.rules.append(on("PATCH", ".*", error(409, "Conflict", "resizing")))
    with pytest.raises(CloudError, match="409 Conflict: resizing; run it again in a few minutes"):
        registry.action_functions(CLUSTER).undo(cloud, act.manifest)


def test_a_notice_about_it_is_about_its_scaling_and_size(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    before = found(cloud, CLUSTER, "gpus")
    assert before.fingerprint == "min 2 of 6 STANDARD_NC6S_V3"
    cluster.set(f"{SCALE}.minNodeCount", 4).set("properties.properties.vmSize", "Standard_NC6s_v3")
    assert registry.action_functions(CLUSTER).read_now(cloud.without_cache(), before).fingerprint == "min 4 of 6 STANDARD_NC6S_V3"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("maxNodeCount", 4, "0 to 4 nodes"),
        ("nodeIdleTimeBeforeScaleDown", "PT120S", "an idle time of PT120S"),
        ("minNodeCount", 1, "1 to 6 nodes"),
    ],
)
def test_what_azure_made_of_it_is_compared(
    server: Server, cloud: CloudSession, vision: Workspace, key: str, value: object, told: str
):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")

    def bend(request: Request) -> None:
        if request.method == "GET" and scale(cluster)["minNodeCount"] == 0:
            cluster.set(f"{SCALE}.{key}", value)

    server.rules.append(bend)
    failed = act.refused()
    assert failed.reason is Reason.PARTIAL
    assert told in str(failed).partition("but Azure set it to ")[2]


def test_the_same_idle_time_written_otherwise_is_the_same(server: Server, cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")

    def rewrite(request: Request) -> None:
        if request.method == "GET" and scale(cluster)["minNodeCount"] == 0:
            cluster.set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT1800S")

    server.rules.append(rewrite)
    assert act.carry().startswith("its minimum is 0 nodes")


@pytest.mark.parametrize(("key", "value"), [("maxNodeCount", 8), ("minNodeCount", 1), ("nodeIdleTimeBeforeScaleDown", "PT1H")])
def test_scaling_that_somebody_changed_meanwhile_is_left_alone(
    server: Server, cloud: CloudSession, vision: Workspace, key: str, value: object
):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    cluster.set(f"{SCALE}.{key}", value)
    before = scale(cluster)
    failed = act.refused()
    assert (failed.reason, "a moment ago" in str(failed)) == (Reason.REFUSED, True)
    assert (scale(cluster), server.mutations) == (before, [])


@pytest.mark.parametrize(
    ("path", "value", "because", "done"),
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
def test_what_bars_it(cloud: CloudSession, vision: Workspace, path: str, value: object, because: str, done: bool):
    gpus(vision).set(path, value)
    barred = bar(cloud, CLUSTER, "gpus")
    assert barred
    assert (barred.because, barred.already_done) == (because, done)


def test_nothing_bars_a_steady_one_with_a_minimum(cloud: CloudSession, vision: Workspace):
    gpus(vision)
    assert bar(cloud, CLUSTER, "gpus") is None


def test_what_could_not_be_observed_is_barred(cloud: CloudSession, vision: Workspace):
    gpus(vision)
    one = found(cloud, CLUSTER, "gpus")
    assert registry.kind(CLUSTER).blocked_actions(replace(one, details=None))[StepName.STOP] is not None


def test_a_look_sees_the_tags_of_this_moment(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    seen = found(cloud, CLUSTER, "gpus")
    cluster.tagged({"reaper:keep": "true"})
    fresh = registry.action_functions(CLUSTER).read_now(cloud, seen)
    assert (fresh.tags, fresh.id, fresh.size) == ({"reaper:keep": "true"}, seen.id, seen.size)


def test_azures_own_words_tell_why_it_refuses(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    cluster.set("properties.provisioningState", "Updating")
    failed = act.refused()
    assert (failed.reason, "gpus is Updating and cannot be updated now" in str(failed)) == (Reason.REFUSED, True)
    assert scale(cluster)["minNodeCount"] == 2


def test_what_is_gone_is_gone(cloud: CloudSession, vision: Workspace):
    cluster = gpus(vision)
    act = planned(cloud, CLUSTER, "gpus")
    cluster.remove()
    assert act.refused().reason is Reason.GONE
    with pytest.raises(CloudError) as caught:
        registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert caught.value.reason is Reason.GONE


def test_a_missing_right_is_named_and_the_declared_ones_are_enough(server: Server, cloud: CloudSession, vision: Workspace):
    cluster, kind = gpus(vision), registry.kind(CLUSTER)
    act = planned(cloud, CLUSTER, "gpus")
    server.rules.append(only(*kind.permissions))
    failed = act.refused()
    assert (failed.reason, failed.missing) == (Reason.DENIED, "Microsoft.MachineLearningServices/workspaces/computes/write")
    assert scale(cluster)["minNodeCount"] == 2
    server.rules[:] = [only(*kind.permissions, *kind.actions[StepName.STOP].permissions)]
    act.carry()
    later(server)
    server.rules[:] = [only(*kind.permissions, *registry.action_functions(CLUSTER).undo_permissions)]
    registry.action_functions(CLUSTER).undo(cloud, act.manifest)
    assert scale(cluster)["minNodeCount"] == 2
