"""What is out of sight proves nothing: projects elsewhere, series that are not there, and a 404 for anything but a workspace that is gone."""

from __future__ import annotations

from azure.conftest import CLUSTER, LONG_AGO, PROVEN, Sweep
from reaper.model import State
from reaper.sandbox.azure import signals
from reaper.sandbox.azure.fault import error, on
from reaper.sandbox.azure.metrics import Signal
from reaper.sandbox.azure.server import Server
from reaper.sandbox.azure.subscription import Subscription, Workspace


def test_a_hubs_cluster_is_unknown_while_none_of_its_projects_is_in_sight(subscription: Subscription, swept: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    signals.nodes(hub.cluster("gpus"), active=0, idle=1, since=LONG_AGO)
    assert swept(CLUSTER).state("gpus") is State.UNKNOWN
    project = subscription.workspace("project", kind="Project")
    project.body["properties"]["hubResourceId"] = hub.id
    assert swept(CLUSTER).verdict("gpus") == PROVEN


def test_without_active_nodes_idle_ones_must_account_for_all(vision: Workspace, swept: Sweep):
    for name, resting in (("busy", 0), ("resting", 4)):
        cluster = vision.cluster(name, nodes=(4, 6))
        for metric, value in (("Total Nodes", 4), ("Idle Nodes", resting)):
            split = {"Scenario": "ComputeCluster", "ClusterName": name}
            signal = Signal(resource=vision.id, namespace=signals.WORKSPACES, metric=metric, dimensions=split)
            cluster.metrics.steady(signal, value, since=LONG_AGO)
    result = swept(CLUSTER)
    assert (result.state("busy"), result.verdict("resting")) == (State.UNKNOWN, PROVEN)


def test_a_404_of_a_workspace_that_is_still_there_is_a_failure(server: Server, vision: Workspace, swept: Sweep):
    server.rules.append(on("GET", r".*/computes", error(404, "InvalidResourceType", "no such type")))
    assert swept(CLUSTER).coverage(CLUSTER).status == "partial"
