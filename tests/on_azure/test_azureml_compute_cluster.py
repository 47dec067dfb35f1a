from __future__ import annotations

import pytest

from on_azure.conftest import CLUSTER, DAY, HOUR, LONG_AGO, NOW, PROVEN, Sweep
from reaper.model import State
from reaper_sandbox.azure import jobs, signals
from reaper_sandbox.azure.fault import garbage, on
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Thing, Workspace


def idle(vision: Workspace, name: str = "gpus", **setup: object) -> Thing:
    """A cluster of one node that nobody used for weeks."""
    cluster = vision.cluster(name, **setup)
    signals.nodes(cluster, active=0, idle=1, since=LONG_AGO)
    return cluster


def test_silent_active_nodes_with_a_heartbeat_prove_a_cluster_idle(vision: Workspace, run_sweep: Sweep):
    idle(vision, nodes=(2, 6))
    result = run_sweep(CLUSTER)
    finding = result.findings["gpus"]
    assert result.verdict("gpus") == PROVEN
    assert finding.case.resource.size == "STANDARD_NC6S_V3 x2"
    assert finding.case.price.usd_per_hour == 2 * 3.823
    assert finding.case.verdict.idle_for > 13 * DAY


def test_an_active_node_makes_a_cluster_active(vision: Workspace, run_sweep: Sweep):
    cluster = idle(vision)
    signals.nodes(cluster, active=1, idle=0, since=NOW - 5 * HOUR, until=NOW - 4 * HOUR)
    result = run_sweep(CLUSTER)
    assert result.state("gpus") is State.ACTIVE
    assert NOW - 5 * HOUR < result.findings["gpus"].case.verdict.last_busy <= NOW - 3 * HOUR


def test_use_in_the_current_hour_is_not_reported_as_the_future(vision: Workspace, run_sweep: Sweep):
    signals.nodes(vision.cluster("gpus"), active=1, idle=0, since=LONG_AGO)
    assert run_sweep(CLUSTER).findings["gpus"].case.verdict.last_busy <= NOW


def test_running_nodes_make_a_cluster_active_without_metrics(vision: Workspace, run_sweep: Sweep):
    vision.cluster("gpus").set("properties.properties.nodeStateCounts.runningNodeCount", 1)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


@pytest.mark.parametrize("status", ["NotStarted", "Queued", "Running", "Finalizing", "Paused", "NotResponding", "Unknown"])
def test_an_unfinished_job_makes_a_cluster_active(vision: Workspace, run_sweep: Sweep, status: str):
    idle(vision)
    vision.job("old", status=status, on="gpus", created=NOW - 90 * DAY)
    assert run_sweep(CLUSTER).because("gpus") == f"job old on it is {status}"


@pytest.mark.parametrize("status", ["Completed", "Failed", "Canceled"])
def test_a_job_finished_long_ago_is_no_use_of_a_cluster(vision: Workspace, run_sweep: Sweep, status: str):
    idle(vision)
    vision.job("old", status=status, on="gpus", created=NOW - 5 * DAY)
    result = run_sweep(CLUSTER)
    assert result.verdict("gpus") == PROVEN
    assert result.findings["gpus"].case.verdict.idle_for == 5 * DAY


def test_a_job_finished_an_hour_ago_still_counts(vision: Workspace, run_sweep: Sweep):
    idle(vision)
    vision.job("quick", status="Completed", on="gpus", created=NOW - HOUR)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


def test_a_job_of_an_archived_experiment_counts_as_use(vision: Workspace, run_sweep: Sweep):
    idle(vision)
    jobs.archive_experiment(vision.job("paper", status="Running", on="gpus", created=NOW - 3 * DAY).body)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


@pytest.mark.parametrize("where", [{"steps": {"train": "gpus"}}, {"steps": {"train": None}, "default": "gpus"}])
def test_a_pipeline_step_or_default_compute_counts_as_use(vision: Workspace, run_sweep: Sweep, where: dict):
    idle(vision)
    vision.pipeline("nightly", created=NOW - 3 * DAY, **where)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


@pytest.mark.parametrize("odd", [7, {"name": "gpus"}])
@pytest.mark.parametrize("where", ["properties.jobs.train.computeId", "properties.settings.default_compute"])
def test_an_unreadable_step_makes_the_workspaces_clusters_unknown(vision: Workspace, run_sweep: Sweep, where: str, odd: object):
    idle(vision)
    vision.pipeline("nightly", created=NOW - 3 * DAY, steps={"train": None}, default="elsewhere").set(where, odd)
    result = run_sweep(CLUSTER)
    assert result.state("gpus") is State.UNKNOWN
    assert result.coverage(CLUSTER).status == "partial"


def test_a_job_on_the_last_page_counts_too(server: Server, vision: Workspace, run_sweep: Sweep):
    server.world.page_size = 5
    idle(vision)
    for n in range(12):
        vision.job(f"done-{n}", status="Completed", on="elsewhere", created=NOW - n * DAY)
    vision.job("ancient", status="Paused", on="gpus", created=NOW - 80 * DAY)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


def test_a_job_on_another_cluster_does_not_count(vision: Workspace, run_sweep: Sweep):
    idle(vision)
    vision.job("busy", status="Running", on="gpus-2", created=NOW - DAY)
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_cluster_names_are_compared_without_case(vision: Workspace, run_sweep: Sweep):
    for name in ("Gpus-A", "GPUS-B"):
        idle(vision, name)
    vision.job("busy", status="Running", on=f"{vision.id.upper()}/COMPUTES/gpus-b", created=NOW - DAY)
    result = run_sweep(CLUSTER)
    assert (result.verdict("Gpus-A"), result.state("GPUS-B")) == (PROVEN, State.ACTIVE)


def test_more_than_ten_clusters_of_a_workspace_all_have_metrics(vision: Workspace, run_sweep: Sweep):
    for n in range(25):
        idle(vision, f"c{n:02}")
    assert len(run_sweep(CLUSTER).idle()) == 25


def test_a_cluster_without_node_counts_is_judged_by_metrics(vision: Workspace, run_sweep: Sweep):
    idle(vision).without("properties.properties.nodeStateCounts")
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_a_cluster_with_a_minimum_of_0_is_exempt(vision: Workspace, run_sweep: Sweep):
    vision.cluster("zero", nodes=(0, 8))
    assert run_sweep(CLUSTER).state("zero") is State.EXEMPT


def test_a_low_priority_cluster_has_no_dedicated_price(vision: Workspace, run_sweep: Sweep):
    idle(vision).set("properties.properties.vmPriority", "LowPriority")
    assert run_sweep(CLUSTER).findings["gpus"].case.price is None


@pytest.mark.parametrize(("state", "expected"), [("Creating", State.YOUNG), ("Updating", State.YOUNG), ("Failed", State.UNKNOWN)])
def test_a_cluster_without_optional_properties_is_judged(vision: Workspace, run_sweep: Sweep, state: str, expected: State):
    vision.cluster("new").set("properties.provisioningState", state).without("properties.properties")
    result = run_sweep(CLUSTER)
    assert result.state("new") is expected
    assert result.coverage(CLUSTER).status == "ok"


def test_a_recreated_cluster_is_young(vision: Workspace, run_sweep: Sweep):
    idle(vision, created=NOW - 3 * HOUR)
    assert run_sweep(CLUSTER).state("gpus") is State.YOUNG


def test_a_cluster_without_a_heartbeat_is_unknown(vision: Workspace, run_sweep: Sweep):
    vision.cluster("never")
    signals.nodes(vision.cluster("ended"), active=0, idle=1, since=LONG_AGO, until=NOW - 2 * DAY)
    result = run_sweep(CLUSTER)
    assert (result.state("never"), result.state("ended")) == (State.UNKNOWN, State.UNKNOWN)


def test_null_tags_count_as_no_tags(vision: Workspace, run_sweep: Sweep):
    idle(vision).tagged(None)
    assert run_sweep(CLUSTER).findings["gpus"].case.resource.tags == {}


def test_tags_of_an_unknown_shape_protect_a_cluster(vision: Workspace, run_sweep: Sweep):
    idle(vision).body["tags"] = "owner=ada"
    assert run_sweep(CLUSTER).because("gpus") == "its tags couldn't be read, and a tag may protect it"


def test_a_clusters_tag_overrides_its_workspaces_in_any_case(vision: Workspace, run_sweep: Sweep):
    idle(vision).tagged({"Reaper:Keep": "false"})
    vision.tagged({"reaper:keep": "true"})
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_computes_of_other_or_unknown_types_are_skipped(vision: Workspace, run_sweep: Sweep):
    vision.compute("lab", "Quantum", {"qubits": 5})
    vision.kubernetes("aks")
    result = run_sweep()
    assert result.findings == {}
    assert {c.status for c in result.swept.coverage} == {"ok"}


def test_a_job_in_a_project_uses_the_hubs_cluster_and_is_listed_once(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    project = subscription.workspace("project", kind="Project")
    project.body["properties"]["hubResourceId"] = hub.id.upper()
    cluster = idle(hub)
    twin = project.cluster("gpus")
    twin.body["properties"] = cluster.body["properties"]
    project.job("train", status="Queued", on="gpus", created=NOW - 2 * DAY)
    result = run_sweep(CLUSTER)
    assert [f.case.resource.id for f in result.swept.findings] == [cluster.id]
    assert result.state("gpus") is State.ACTIVE


def test_jobs_are_listed_only_if_a_verdict_needs_them(subscription: Subscription, vision: Workspace, run_sweep: Sweep):
    signals.nodes(vision.cluster("busy"), active=1, idle=0, since=LONG_AGO)
    vision.cluster("zero", nodes=(0, 8))
    assert not any("jobs" in call for call in run_sweep(CLUSTER).coverage(CLUSTER).calls)


@pytest.mark.parametrize("least", [True, False, -1, "1", None])
def test_an_invalid_minimum_is_unknown_and_has_no_price(vision: Workspace, run_sweep: Sweep, least: object):
    idle(vision).set("properties.properties.scaleSettings.minNodeCount", least)
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.findings["gpus"].case.price) == (State.UNKNOWN, None)


@pytest.mark.parametrize(
    ("key", "value"), [("location", None), ("location", 7), ("name", []), ("properties", ["x"]), ("properties.hubResourceId", 7)]
)
def test_an_unreadable_workspace_protects_its_own_and_hides_no_other(
    subscription: Subscription, vision: Workspace, run_sweep: Sweep, key: str, value: object
):
    idle(vision, "lost")
    idle(subscription.workspace("speech"), "found")
    vision.set(key, value)
    result = run_sweep(CLUSTER)
    assert result.idle() == ["found"]
    assert result.state("lost") is State.UNKNOWN
    assert (result.coverage(CLUSTER).status, vision.id in result.coverage(CLUSTER).error) == ("partial", True)


def test_a_job_of_an_unreadable_project_uses_the_hubs_cluster(subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    project = subscription.workspace("project", kind="Project").set("properties.hubResourceId", hub.id)
    odd = subscription.workspace("odd", kind="Project").set("properties.hubResourceId", 7)
    cluster = idle(hub)
    assert (project.name, run_sweep(CLUSTER).verdict("gpus")) == ("project", PROVEN)
    odd.job("at-work", on=cluster.id)
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


def test_unreadable_jobs_make_a_cluster_unknown(server: Server, vision: Workspace, run_sweep: Sweep):
    idle(vision)
    server.rules.append(deny("*/jobs/read"))
    result = run_sweep(CLUSTER)
    assert result.state("gpus") is State.UNKNOWN
    assert result.coverage(CLUSTER).missing == "Microsoft.MachineLearningServices/workspaces/jobs/read"


@pytest.mark.parametrize("key", ["_azureml.ClusterName", "_azureml.clustername"])
@pytest.mark.parametrize("status", ["Running", "Completed"])
def test_a_job_that_names_a_cluster_only_in_properties_counts(vision: Workspace, run_sweep: Sweep, key: str, status: str):
    idle(vision)
    vision.job("train", status=status, created=NOW - 2 * HOUR).set("properties.properties", {key: "GPUS"})
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


def test_unreadable_job_times_make_only_its_compute_unknown(vision: Workspace, run_sweep: Sweep):
    idle(vision)
    idle(vision, "other")
    vision.job("odd", status="Completed", on="gpus").body["systemData"] = {"createdAt": "yesterday"}
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.verdict("other")) == (State.UNKNOWN, PROVEN)
    assert result.coverage(CLUSTER).status == "partial"


def test_an_unfinished_job_with_odd_times_counts_as_use(vision: Workspace, run_sweep: Sweep):
    idle(vision)
    vision.job("odd", on="gpus").body["systemData"] = {"createdAt": "yesterday"}
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("properties.computeId", 7),
        ("properties.computeId", ["gpus"]),
        ("properties.jobs", "train"),
        ("properties.settings", ["gpus"]),
        ("properties.properties", 7),
        ("properties.properties", {"_azureml.ClusterName": 7}),
        ("properties.properties", {"_azureml.ClusterName": {"name": "gpus"}}),
        ("properties.properties", {"_azureml.ClusterName": [{"name": "gpus"}]}),
        ("properties", None),
        ("name", None),
        ("systemData", {"createdAt": "yesterday"}),
    ],
)
def test_a_job_that_may_be_anywhere_makes_all_computes_unknown(vision: Workspace, run_sweep: Sweep, path: str, value: object):
    idle(vision)
    idle(vision, "other")
    vision.job("odd", status="Completed").set(path, value)
    result = run_sweep(CLUSTER)
    assert (result.state("gpus"), result.state("other")) == (State.UNKNOWN, State.UNKNOWN)
    assert result.coverage(CLUSTER).status == "partial"


def test_a_job_counts_although_another_workspace_is_unreadable(server: Server, subscription: Subscription, run_sweep: Sweep):
    hub = subscription.workspace("hub", kind="Hub")
    project = subscription.workspace("project", kind="Project").under(hub)
    project.job("train", on=idle(hub).id)
    server.rules.append(deny("*/jobs/read", ".*/workspaces/hub"))
    assert run_sweep(CLUSTER).state("gpus") is State.ACTIVE


def test_an_unreadable_list_of_one_workspace_hides_no_other(
    server: Server, subscription: Subscription, vision: Workspace, run_sweep: Sweep
):
    idle(vision, "lost")
    idle(subscription.workspace("speech"), "found")
    server.rules.append(on("GET", ".*/workspaces/vision/computes", garbage()))
    result = run_sweep(CLUSTER)
    assert result.idle() == ["found"]
    assert result.coverage(CLUSTER).status == "partial"


def test_active_nodes_without_values_and_idle_nodes_prove_silence(vision: Workspace, run_sweep: Sweep):
    cluster = vision.cluster("gpus", nodes=(2, 4))
    signals.valueless_nodes(cluster)
    signals.resting_nodes(cluster, 2, total=2, since=LONG_AGO)
    assert run_sweep(CLUSTER).verdict("gpus") == PROVEN


def test_an_hour_with_unaccounted_nodes_proves_nothing_before_it(vision: Workspace, run_sweep: Sweep):
    cluster, hour = vision.cluster("gpus", nodes=(2, 4)), NOW.replace(minute=0) - 9 * HOUR
    signals.resting_nodes(cluster, 2, total=2, since=LONG_AGO, until=hour)
    signals.resting_nodes(cluster, 1, total=2, since=hour, until=hour + HOUR)
    signals.resting_nodes(cluster, 2, total=2, since=hour + HOUR)
    result = run_sweep(CLUSTER)
    assert result.state("gpus") is State.UNKNOWN
    assert "Active Nodes (or as many Idle as Total Nodes)" in result.because("gpus")
    assert run_sweep(CLUSTER, policy="version: 1\ndefaults: {idle_after: 6h}").verdict("gpus") == PROVEN


def test_a_heartbeat_without_values_leaves_a_cluster_unknown(vision: Workspace, run_sweep: Sweep):
    signals.valueless_nodes(vision.cluster("gpus"), "Active Nodes", "Idle Nodes", "Total Nodes")
    assert run_sweep(CLUSTER).state("gpus") is State.UNKNOWN
