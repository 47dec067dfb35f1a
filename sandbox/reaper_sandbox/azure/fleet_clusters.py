"""The clusters of the fleet: more than ten in one workspace, so that a default `top` of 10 loses some."""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.azure import jobs, signals
from reaper_sandbox.azure.expected import Expected, cluster
from reaper_sandbox.azure.subscription import Workspace

EXPECTED: dict[str, Expected] = {
    "idle-min-nodes": cluster("idle", "two nodes up for weeks, none ever active", "proven"),
    "busy": cluster("active", "three nodes are active right now"),
    "busy-last-night": cluster("active", "nodes were active up to ten hours ago"),
    "busy-last-week": cluster("idle", "nodes were active up to six days ago, not since", "proven"),
    "resizing": cluster("active", "its allocation state is Resizing"),
    "queued-run": cluster("active", "a run waits for it"),
    "archived-experiment": cluster("active", "a run of an archived experiment is on it"),
    "pipeline-step": cluster("active", "a step of a running pipeline names it, the pipeline itself does not"),
    "pipeline-default": cluster("active", "a running pipeline has it as the default compute of its steps"),
    "no-node-counts": cluster("idle", "nodeStateCounts is missing, the metrics are enough", "proven"),
    "low-priority-idle": cluster("idle", "idle, at the low-priority price", "proven"),
    "Mixed-Case": cluster("idle", "its metrics spell its name mixed-case", "proven"),
    "min-zero": cluster("exempt", "scales to zero nodes by itself"),
    "creating-cluster": cluster("young", "is being created, without scale settings or counts yet"),
    "failed-cluster": cluster("unknown", "its creation failed; it shows no scale settings"),
    "born-today": cluster("young", "three hours old"),
    "never-metered": cluster("unknown", "nothing was ever published for it"),
    "heartbeat-stopped": cluster("unknown", "its metrics ended five days ago"),
    "valueless-active-nodes": cluster("idle", "its Active Nodes have no value, its nodes are all idle", "proven"),
    "valueless-since-last-week": cluster("idle", "active up to six days ago, its Active Nodes have no value since", "proven"),
    "valueless-but-not-resting": cluster("unknown", "its Active Nodes have no value, and half of its nodes are not idle"),
    "valueless-nodes": cluster("unknown", "no point of any of its metrics has a value"),
    "cluster-tags-null": cluster("idle", "idle, its tags are null, which is none", "proven"),
    "kept-until-typo": cluster("exempt", "its reaper:keep-until cannot be read, and that protects"),
}


def settle(vision: Workspace, forecasting: Workspace, now: datetime) -> None:
    """Puts most clusters into `vision`, two into `forecasting`."""
    long_ago = now - timedelta(days=20)
    _idle(vision, long_ago)
    _used(vision, long_ago, now)
    _unclear(vision, long_ago, now)
    signals.nodes(forecasting.cluster("cluster-tags-null", size="STANDARD_DS3_V2").tagged(None), active=0, idle=1, since=long_ago)
    cluster = forecasting.cluster("kept-until-typo", nodes=(1, 2)).tagged({"reaper:keep-until": "after the conference"})
    signals.nodes(cluster, active=0, idle=1, since=long_ago)
    _job_history(vision, now)


def _idle(vision: Workspace, since: datetime) -> None:
    idle = [
        vision.cluster("idle-min-nodes", nodes=(2, 4)).tagged({"owner": "ada@example.com"}),
        vision.cluster("no-node-counts", size="STANDARD_DS4_V2").without("properties.properties.nodeStateCounts"),
        vision.cluster("low-priority-idle").set("properties.properties.vmPriority", "LowPriority"),
        vision.cluster("Mixed-Case", size="Standard_NC4as_T4_v3").tagged({"Team": "speech"}),
    ]
    for one in idle:
        signals.nodes(one, active=0, idle=one.body["properties"]["properties"]["scaleSettings"]["minNodeCount"], since=since)
    vision.cluster("min-zero", nodes=(0, 8))


def _used(vision: Workspace, since: datetime, now: datetime) -> None:
    signals.nodes(vision.cluster("busy", nodes=(1, 4)), active=3, idle=0, since=since)
    for name, end in {"busy-last-night": now - timedelta(hours=10), "busy-last-week": now - timedelta(days=6)}.items():
        one = vision.cluster(name)
        signals.nodes(one, active=2, idle=0, since=since, until=end)
        signals.nodes(one, active=0, idle=1, since=end)
    resizing = vision.cluster("resizing").set("properties.properties.allocationState", "Resizing")
    for one in (
        resizing,
        *(vision.cluster(name) for name in ("queued-run", "archived-experiment", "pipeline-step", "pipeline-default")),
    ):
        signals.nodes(one, active=0, idle=1, since=since)
    vision.job("waits-for-a-node", status="Queued", on="queued-run", created=now - timedelta(days=2))
    archived = vision.job("of-an-old-paper", status="Running", on="archived-experiment", created=now - timedelta(days=3))
    jobs.archive_experiment(archived.body)
    vision.pipeline(
        "nightly", {"prepare": None, "train": "pipeline-step"}, default="pipeline-default", created=now - timedelta(hours=30)
    )


def _unclear(vision: Workspace, since: datetime, now: datetime) -> None:
    absent = ("scaleSettings", "nodeStateCounts", "currentNodeCount", "targetNodeCount", "allocationState")
    for name, state in {"creating-cluster": "Creating", "failed-cluster": "Failed"}.items():
        one = vision.cluster(name, created=now - timedelta(minutes=10) if state == "Creating" else None)
        one.set("properties.provisioningState", state)
        one.without(*(f"properties.properties.{key}" for key in absent), "properties.properties.allocationStateTransitionTime")
    young = vision.cluster("born-today", created=now - timedelta(hours=3))
    signals.nodes(young, active=0, idle=1, since=now - timedelta(hours=3))
    vision.cluster("never-metered")
    _valueless(vision, since, now)
    signals.nodes(vision.cluster("heartbeat-stopped"), active=0, idle=1, since=since, until=now - timedelta(days=5))


def _valueless(vision: Workspace, since: datetime, now: datetime) -> None:
    quiet, last, half, none = (
        vision.cluster(f"valueless-{name}", size="STANDARD_DS3_V2", nodes=(2, 4))
        for name in ("active-nodes", "since-last-week", "but-not-resting", "nodes")
    )
    ended = now - timedelta(days=6)
    signals.nodes(last, active=2, idle=0, since=since, until=ended)
    signals.resting_nodes(last, 2, total=2, since=ended)
    for one, resting in ((quiet, 2), (half, 1)):
        signals.valueless_nodes(one)
        signals.resting_nodes(one, resting, total=2, since=since)
    signals.valueless_nodes(none, "Active Nodes", "Idle Nodes", "Total Nodes")


def _job_history(vision: Workspace, now: datetime) -> None:
    """Sixty finished jobs, so that an older one that still counts is pages away."""
    for n in range(60):
        vision.job(f"done-{n:02}", status="Completed", on="idle-min-nodes", created=now - timedelta(days=15, hours=n))
