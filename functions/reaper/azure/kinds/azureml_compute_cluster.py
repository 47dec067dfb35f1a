"""Azure ML compute clusters that keep nodes up. Nodes above the minimum go by themselves; those below it cost money whether used or not.

Metrics and their dimensions: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Scaling: https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.azure import computes, jobs, metrics, owner_lines, readings
from reaper.azure.computes import Compute
from reaper.azure.count import valid_count
from reaper.azure.metrics import MetricQuery, MetricResults, MetricSource
from reaper.evidence import is_recent, merge_heartbeats
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Blocked, Observation, Reading, Resource, StepName, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

NAME, TYPE = "azureml-compute-cluster", "AmlCompute"
NODES_QUERY = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces",
    metrics=("Active Nodes", "Total Nodes", "Idle Nodes"),
    aggregation="Maximum",
    split_by="ClusterName",
)
STAND_IN_SIGNAL = "Active Nodes (or as many Idle as Total Nodes)"
BUSY_NODE_COUNTS = {"runningNodeCount": "running", "preparingNodeCount": "being prepared for a job"}


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every AmlCompute cluster of the subscription, those that scale to zero too."""
    for one in computes.list_computes(cloud, TYPE):
        yield cluster_resource(cloud, one)


def cluster_resource(cloud: CloudSession, one: Compute) -> Resource:
    """The cluster as a resource."""
    status = str(one.properties.get("allocationState") or "") if one.provisioning_state == "Succeeded" else one.provisioning_state
    found = computes.compute_resource(cloud, NAME, one, status, _billed_parts(one))
    return replace(found, facts={**found.facts, "shape": _fingerprint(one)})


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """What the control plane says settles most; nodes of the others in bulk, then the jobs of what was silent."""
    seen = [_settled_without_metrics(resource) for resource in resources]
    spaces = [one.resource.facts["workspace"] for one in seen if not _is_settled(one)]
    found = metrics.fetch_metrics(
        cloud, [MetricSource(id=space.id, region=space.region) for space in spaces], NODES_QUERY, window
    )
    yield from cloud.map_concurrently(lambda one: one if _is_settled(one) else _look_closer(cloud, one, found, window), seen)


def _fingerprint(one: Compute) -> str:
    """What a notice is about. A change of scaling leaves no time at a cluster that could be compared with the notice's."""
    scale = one.properties["scaleSettings"]
    return f"min {scale.get('minNodeCount')} of {scale.get('maxNodeCount')} {str(one.properties.get('vmSize')).upper()}"


def _billed_parts(one: Compute) -> tuple[BilledPart, ...] | None:
    """The minimum nodes. Low-priority ones have a price of their own, which the snapshot may not know."""
    least = valid_count(one.properties["scaleSettings"].get("minNodeCount"))
    size = one.properties.get("vmSize")
    if least == 0:
        return ()
    if least is None or not size:
        return None
    component = "LowPriority" if str(one.properties.get("vmPriority")).lower() == "lowpriority" else "Linux"
    return (BilledPart(component=component, instance=size, count=least),)


def _settled_without_metrics(resource: Resource) -> Observation:
    """What needs no metric: at work by its own account, costing nothing, or in a state that says it all."""
    seen, inner, status = Observation(resource=resource), resource.facts["inner"], resource.status
    working = [
        f"{inner['nodeStateCounts'][key]} of its nodes are {doing}"
        for key, doing in BUSY_NODE_COUNTS.items()
        if inner["nodeStateCounts"].get(key)
    ]
    if status == "Deleting":
        return replace(seen, free_because="it is being deleted")
    if working:
        return replace(seen, in_use_because=working[0])
    if status == "Resizing":
        return replace(seen, in_use_because="it is resizing")
    if status in {"Creating", "Updating"}:
        return replace(seen, changing_because=f"its state is {status}")
    if resource.parts == ():
        return replace(seen, free_because="its minimum is 0 nodes, so it costs nothing while idle")
    if status != "Steady":
        return replace(seen, unknown_because=f"its state is {status or 'missing'}")
    if valid_count(inner["scaleSettings"].get("minNodeCount")) is None:
        return replace(seen, unknown_because="how many nodes it keeps is not known")
    return seen


def _is_settled(seen: Observation) -> bool:
    return bool(seen.in_use_because or seen.free_because or seen.changing_because or seen.unknown_because)


def _look_closer(cloud: CloudSession, seen: Observation, found: MetricResults, window: Window) -> Observation:
    seen = replace(seen, readings=_to_readings(seen.resource, found))
    if is_recent(seen, window):
        return replace(seen, unknown_because="it was used or changed too recently for a closer look")
    return computes.with_unseen_jobs(jobs.with_jobs(cloud, seen))


def _to_readings(resource: Resource, found: MetricResults) -> tuple[Reading, ...]:
    active, total, idle = (
        found.result_of(resource.facts["workspace"].id, metric, resource.name) for metric in NODES_QUERY.metrics
    )
    heart = merge_heartbeats(readings.heartbeat_reading("Total Nodes", total), readings.heartbeat_reading("Idle Nodes", idle))
    instead = readings.stand_in_reading(STAND_IN_SIGNAL, active, total, idle)
    return (readings.activity_reading("Active Nodes", active), heart, *([instead] if instead else []))


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps its minimum from being set to 0 nodes."""
    return {StepName.STOP: _stop_blocked(resource)}


def _stop_blocked(resource: Resource) -> Blocked | None:
    scale = resource.facts.get("inner", {}).get("scaleSettings", {})
    least, most = (valid_count(scale.get(key)) for key in ("minNodeCount", "maxNodeCount"))
    if resource.status == "Deleting":
        return Blocked(because="it is being deleted")
    if least == 0:
        return Blocked(because="its minimum is 0 nodes already", already_done=True)
    if resource.status != "Steady":
        return Blocked(because=f"its state is {resource.status or 'missing'}")
    if least is None or most is None:
        return Blocked(because="how many nodes it keeps is not known")
    return None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="set to a minimum of 0 nodes",
        effect="sets its minimum to 0 nodes, so that idle ones go by themselves; its maximum and idle time stay, and the next job starts nodes",
        undo="sets its minimum back to what it was, under the maximum of the day",
        permissions=(f"{computes.ROOT}/write",),
    )
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML compute cluster",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster",
    permissions=(*computes.PERMISSIONS, jobs.PERMISSION, metrics.PERMISSION),
    activity="Active Nodes above 0; a job or pipeline step on it that is not over; nodes running; allocation state Resizing",
    heartbeat="points of Total Nodes or Idle Nodes",
    without_proof="unknown; exempt where the minimum is 0 nodes. The waste is the minimum nodes' price",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    actions=ACTION_SPECS,
    commands={StepName.STOP: owner_lines.empty_cluster_command},
    console_url=owner_lines.console_url,
    place=owner_lines.place,
    price_keys=("Linux", "LinuxSpot"),
)
