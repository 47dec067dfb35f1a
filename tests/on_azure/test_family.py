"""What is out of sight proves nothing: projects elsewhere, series that are not there, and a 404 for anything but a workspace that is gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from on_azure.conftest import CLUSTER, LONG_AGO, OTHER, PROVEN, SUB, Sweep
from on_azure.prepared_actions import find_resource
from reaper.azure.kinds.azureml_compute_cluster import TABLE
from reaper.azure.session import CloudSession
from reaper.model import State
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import denied, error, on
from reaper_sandbox.azure.metrics import Signal
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Workspace


def resting(space: Workspace, name: str = "gpus") -> None:
    signals.nodes(space.cluster(name), active=0, idle=1, since=LONG_AGO)


def test_a_hubs_cluster_is_judged_if_all_projects_are_visible(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN
    project = subscription.workspace("project", kind="Project").under(hub)
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN
    project.job("train", on=f"{hub.id}/computes/gpus")
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


@pytest.mark.parametrize("spelled", [lambda id_: id_, str.upper], ids=["as it is", "in capitals"])
def test_a_hubs_cluster_is_unknown_if_a_project_is_not_visible(
    subscription: Subscription, run_sweep: Sweep, spelled: Callable[[str], str]
):
    hub = subscription.workspace("hub", kind="Hub")
    near = subscription.workspace("near", kind="Project").under(hub)
    hub.body["properties"]["associatedWorkspaces"] = [spelled(near.id)]
    resting(hub)
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN
    hub.body["properties"]["associatedWorkspaces"].append(spelled(near.id.replace("/near", "/far").replace(SUB, OTHER)))
    result = run_sweep(CLUSTER)
    assert result.state("gpus") is State.UNKNOWN
    assert "far aren't visible" in result.because("gpus").lower()


def test_a_projects_cluster_is_unknown_if_its_hub_is_not_visible(server: Server, subscription: Subscription, run_sweep: Sweep):
    hub = Subscription(server.world, OTHER).workspace("hub", kind="Hub")
    for name in ("one", "two"):
        subscription.workspace(name, kind="Project").under(hub)
    resting(subscription.workspace("three", kind="Project").under(hub))
    result = run_sweep(CLUSTER, subscriptions=(SUB,))
    assert (result.state("gpus"), "its hub hub isn't visible" in result.because("gpus")) == (State.UNKNOWN, True)


@pytest.mark.parametrize("projects", ["x", [7], {"a": 1}, 7])
def test_a_hub_with_an_odd_list_of_projects_protects_its_own(subscription: Subscription, run_sweep: Sweep, projects: object):
    hub = subscription.workspace("hub", kind="Hub").set("properties.associatedWorkspaces", projects)
    resting(hub)
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.coverage(CLUSTER).status) == (State.UNKNOWN, "partial")


def test_without_active_nodes_idle_nodes_must_equal_total_nodes(vision: Workspace, run_sweep: Sweep):
    for name, resting in (("busy", 0), ("resting", 4)):
        cluster = vision.cluster(name, nodes=(4, 6))
        for metric, value in (("Total Nodes", 4), ("Idle Nodes", resting)):
            split = {"Scenario": "ComputeCluster", "ClusterName": name}
            signal = Signal(resource=vision.id, namespace=signals.WORKSPACES, metric=metric, dimensions=split)
            cluster.metrics.steady(signal, value, since=LONG_AGO)
    result = run_sweep(CLUSTER)
    assert (result.state("busy"), result.verdict("resting")) == (State.UNKNOWN, PROVEN)


@pytest.mark.parametrize("metric", ["Total Nodes", "Idle Nodes"])
@pytest.mark.parametrize("others", ["not there", "valueless"])
def test_one_heartbeat_proves_the_silence_of_active_nodes(vision: Workspace, run_sweep: Sweep, metric: str, others: str):
    cluster = vision.cluster("gpus", nodes=(4, 6))
    split = {"Scenario": "ComputeCluster", "ClusterName": "gpus"}
    signal = Signal(resource=vision.id, namespace=signals.WORKSPACES, metric=metric, dimensions=split)
    cluster.metrics.steady(signal, 4, since=LONG_AGO)
    if others == "valueless":
        signals.valueless_nodes(cluster, *{"Active Nodes", "Total Nodes", "Idle Nodes"} - {metric})
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_a_404_of_an_existing_workspace_is_a_failure(server: Server, vision: Workspace, run_sweep: Sweep):
    server.rules.append(on("GET", r".*/computes", error(404, "InvalidResourceType", "no such type")))
    assert run_sweep(CLUSTER).coverage(CLUSTER).status == "partial"


def test_a_projects_cluster_is_unknown_if_its_hub_is_unreadable(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    resting(subscription.workspace("project", kind="Project").under(hub))
    hub.set("properties.associatedWorkspaces", "x")
    assert "isn't visible" in run_sweep(CLUSTER).because("gpus")


def _hub_with_a_busy_project(subscription: Subscription) -> tuple[Workspace, Workspace]:
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    project = subscription.workspace("project", kind="Project").under(hub)
    project.job("train", on=f"{hub.id}/computes/gpus")
    return hub, project


def _hubless(project: Workspace) -> None:
    project.set("properties.hubResourceId", None)


def _only_the_project(hub: Workspace, project: Workspace, name: str | None) -> None:
    hub.set("properties.associatedWorkspaces", None)
    project.set("properties.hubResourceId", name)


LINKS: dict[str, Callable[[Workspace, Workspace], object]] = {
    "only the hub names it": lambda hub, project: _hubless(project),
    "only the hub names it, which is of a default kind": lambda hub, project: (_hubless(project), project.set("kind", "Default")),
    "the hub has a slash at its end": lambda hub, project: project.set("properties.hubResourceId", hub.id + "/"),
    "the hub names it by its number": lambda hub, project: (
        _hubless(project),
        hub.set("properties.associatedWorkspaces", [project.body["properties"]["workspaceId"]]),
    ),
    "the hub names it by its name": lambda hub, project: hub.set("properties.associatedWorkspaces", ["Project"]),
    "the hub is of a default kind": lambda hub, project: (_hubless(project), hub.set("kind", "Default")),
    "neither names the other": lambda hub, project: (_hubless(project), hub.set("properties.associatedWorkspaces", [])),
    "the project names it by its number": lambda hub, project: _only_the_project(
        hub, project, hub.body["properties"]["workspaceId"]
    ),
    "by its number, of no kind": lambda hub, project: (
        _only_the_project(hub, project, hub.body["properties"]["workspaceId"]),
        project.body.pop("kind"),
    ),
    "by a part of its id": lambda hub, project: _only_the_project(hub, project, "workspaces/hub"),
    "by an id that it had once": lambda hub, project: _only_the_project(hub, project, hub.id.replace("/ml/", "/old/")),
    "neither, and the project's kind is missing": lambda hub, project: (
        _only_the_project(hub, project, None),
        project.body.pop("kind"),
    ),
    "neither, and the project's kind has a blank": lambda hub, project: (
        _only_the_project(hub, project, None),
        project.set("kind", "Project "),
    ),
    "only the project, with a slash": lambda hub, project: (
        hub.set("properties.associatedWorkspaces", None),
        project.set("properties.hubResourceId", hub.id + "/"),
    ),
}


@pytest.mark.parametrize("how", LINKS.values(), ids=LINKS)
def test_a_projects_job_counts_in_every_spelling_of_the_link(
    subscription: Subscription, run_sweep: Sweep, how: Callable[[Workspace, Workspace], object]
):
    how(*_hub_with_a_busy_project(subscription))
    assert run_sweep(CLUSTER).because("gpus") == "job train on it is Running"


def test_a_project_without_a_hub_has_no_idle_cluster(subscription: Subscription, run_sweep: Sweep):
    resting(subscription.workspace("project", kind="Project"))
    resting(subscription.workspace("plain"), "alone")
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.verdict("alone")) == (State.UNKNOWN, PROVEN)


def test_a_project_named_by_its_hub_is_not_any_workspace_so_named(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub").set("properties.associatedWorkspaces", ["project"])
    resting(hub)
    subscription.workspace("project")
    assert run_sweep(CLUSTER).state("gpus") is State.UNKNOWN


def test_a_workspace_row_without_an_id_may_be_any_hubs_project(subscription: Subscription, run_sweep: Sweep):
    hub, project = _hub_with_a_busy_project(subscription)
    hub.set("properties.associatedWorkspaces", [])
    resting(subscription.workspace("plain"), "alone")
    del project.body["id"]
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.verdict("alone")) == (State.UNKNOWN, PROVEN)
    assert result.coverage(CLUSTER).status == "partial"


def test_a_project_added_since_is_read_before_an_action(cloud: CloudSession, subscription: Subscription):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    resource = find_resource(cloud, CLUSTER, "gpus")
    assert TABLE.read_now(cloud.without_cache(), resource).details.job_workspaces == (hub.id,)
    new = subscription.workspace("new", kind="Project").under(hub)
    again = TABLE.read_now(cloud.without_cache(), resource)
    assert (again.details.job_workspaces, again.details.unseen_because) == ((hub.id, new.id), None)


def test_an_invisible_project_added_since_is_noticed(cloud: CloudSession, subscription: Subscription):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    resource = find_resource(cloud, CLUSTER, "gpus")
    hub.set("properties.associatedWorkspaces", [hub.id.replace("/hub", "/far")])
    assert "far aren't visible" in str(TABLE.read_now(cloud.without_cache(), resource).details.unseen_because)
    hub.set("properties.associatedWorkspaces", [])
    del subscription.workspace("odd").body["id"]
    assert "can't be read at all" in str(TABLE.read_now(cloud.without_cache(), resource).details.unseen_because)


def _some_groups_only(server: Server) -> None:
    lists = r"/subscriptions/[^/]+/providers/Microsoft.MachineLearningServices/workspaces"
    server.rules.append(on("GET", lists, denied("Microsoft.MachineLearningServices/workspaces/read")))
    server.rules.append(deny("Microsoft.MachineLearningServices/*", ".*/resourceGroups/secret.*"))


@pytest.mark.parametrize(("names_them", "state"), [(True, State.IDLE), (False, State.UNKNOWN)])
def test_with_some_groups_readable_a_hub_must_name_its_projects(
    server: Server, subscription: Subscription, run_sweep: Sweep, names_them: bool, state: State
):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    subscription.workspace("project", kind="Project").under(hub)
    if not names_them:
        hub.set("properties.associatedWorkspaces", None)
    _some_groups_only(server)
    assert run_sweep(CLUSTER).state("gpus") is state


def test_an_unreadable_group_makes_its_hubs_cluster_unknown(server: Server, subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    subscription.workspace("project", kind="Project", group="secret").under(hub).job("train", on=f"{hub.id}/computes/gpus")
    hub.set("properties.associatedWorkspaces", None)
    _some_groups_only(server)
    assert run_sweep(CLUSTER).state("gpus") is State.UNKNOWN


def test_links_in_different_spellings_make_one_family(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    resting(hub)
    project = subscription.workspace("project", kind="Project").under(hub)
    project.set("properties.hubResourceId", hub.body["properties"]["workspaceId"])
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_workspaces_without_a_kind_share_nothing_without_a_hub(subscription: Subscription, run_sweep: Sweep):
    for name in ("one", "two"):
        space = subscription.workspace(name)
        space.body.pop("kind")
        resting(space, f"{name}-gpus")
    subscription.workspace("three").job("train", on="two-gpus")
    assert [run_sweep(CLUSTER).verdict(name) for name in ("one-gpus", "two-gpus")] == [PROVEN, PROVEN]
