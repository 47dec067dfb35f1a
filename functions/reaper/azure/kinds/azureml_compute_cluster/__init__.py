"""Azure ML compute clusters that keep nodes up. Azure removes idle nodes above the minimum; those below it cost money, used or not.

Metrics and their dimensions: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Scaling: https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reaper.azure import azureml, computes, metrics
from reaper.azure.azureml import activity_reading, heartbeat_reading, stand_in_reading
from reaper.azure.computes import ComputeDetails
from reaper.azure.metrics import PERMISSION as METRICS_PERMISSION
from reaper.azure.metrics import MetricQuery, MetricResults, MetricSource
from reaper.azure.requests import valid_count
from reaper.case import Blocked
from reaper.evidence import merge_heartbeats
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import Observation, Reading, Window

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
    yield from map(cluster_resource, computes.list_computes(cloud, TYPE))


def cluster_resource(compute: Resource) -> Resource:
    made = compute.details.provisioning_state
    status = str(compute.details.properties.get("allocationState") or "") if made == "Succeeded" else made
    resource = computes.complete(compute, NAME, status, _billed_parts(compute.details))
    return replace(resource, fingerprint=_fingerprint(compute.details))


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Reads the control plane's own state, then the metrics of the undecided in bulk, then the jobs of the silent."""
    observations = [_settled_without_metrics(resource) for resource in resources]
    undecided = azureml.undecided_resources(observations)
    sources = [MetricSource(id=space.id, region=space.region) for space in (one.details.workspace for one in undecided)]
    results = metrics.fetch_metrics(cloud, sources, NODES_QUERY, window)
    readings = {resource.id: _to_readings(resource, results) for resource in undecided}
    yield from azureml.look_closer(cloud, observations, readings, window)


def _fingerprint(details: ComputeDetails) -> str:
    """What a notice is about. A change of scaling leaves no time on a cluster that could be compared with the notice's."""
    scale = details.properties["scaleSettings"]
    return f"min {scale.get('minNodeCount')} of {scale.get('maxNodeCount')} {str(details.properties.get('vmSize')).upper()}"


def _billed_parts(details: ComputeDetails) -> tuple[BilledPart, ...] | None:
    """The minimum nodes. Low-priority ones have a price of their own, which the snapshot may not have."""
    minimum = valid_count(details.properties["scaleSettings"].get("minNodeCount"))
    size = details.properties.get("vmSize")
    if minimum == 0:
        return ()
    if minimum is None or not size:
        return None
    component = "LowPriority" if str(details.properties.get("vmPriority")).lower() == "lowpriority" else "Linux"
    return (BilledPart(component=component, instance=size, count=minimum),)


def _settled_without_metrics(resource: Resource) -> Observation:
    """The clusters that need no metric: at work by their own account, free, or in a state that decides."""
    observation, properties, status = Observation(resource=resource), resource.details.properties, resource.status
    working = [
        f"{properties['nodeStateCounts'][key]} of its nodes are {doing}"
        for key, doing in BUSY_NODE_COUNTS.items()
        if properties["nodeStateCounts"].get(key)
    ]
    if status == "Deleting":
        return replace(observation, free_because="it is being deleted")
    if working:
        return replace(observation, in_use_because=working[0])
    if status == "Resizing":
        return replace(observation, in_use_because="it is resizing")
    if status in {"Creating", "Updating"}:
        return replace(observation, changing_because=f"its state is {status}")
    if resource.parts == ():
        return replace(observation, free_because="its minimum is 0 nodes, so it costs nothing while idle")
    if status != "Steady":
        return replace(observation, unknown_because=f"its state is {status or 'missing'}")
    if valid_count(properties["scaleSettings"].get("minNodeCount")) is None:
        return replace(observation, unknown_because="its minimum node count is unknown")
    return observation


def _to_readings(resource: Resource, results: MetricResults) -> tuple[Reading, ...]:
    workspace_id = resource.details.workspace.id
    active, total, idle = (results.result_of(workspace_id, metric, resource.name) for metric in NODES_QUERY.metrics)
    heartbeat = merge_heartbeats(heartbeat_reading("Total Nodes", total), heartbeat_reading("Idle Nodes", idle))
    stand_in = stand_in_reading(STAND_IN_SIGNAL, active, total, idle)
    return (activity_reading("Active Nodes", active), heartbeat, *([stand_in] if stand_in else []))


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps its minimum from being set to 0 nodes."""
    return {StepName.STOP: _stop_blocked(resource)}


def _stop_blocked(resource: Resource) -> Blocked | None:
    scale = resource.details.properties["scaleSettings"] if resource.details else {}
    minimum, maximum = (valid_count(scale.get(key)) for key in ("minNodeCount", "maxNodeCount"))
    if resource.status == "Deleting":
        return Blocked(because="it is being deleted")
    if minimum == 0:
        return Blocked(because="its minimum is already 0 nodes", already_done=True)
    if resource.status != "Steady":
        return Blocked(because=f"its state is {resource.status or 'missing'}")
    if minimum is None or maximum is None:
        return Blocked(because="its minimum or maximum node count is unknown")
    return None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="set to a minimum of 0 nodes",
        noun="scale-in",
        effect="sets its minimum to 0 nodes, so that Azure removes idle ones. Its maximum and idle time stay, and the next job starts nodes",
        undo="sets its minimum back to what it was, but not above its current maximum",
        permissions=(f"{computes.ROOT}/write",),
    )
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML compute cluster",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster",
    permissions=(*computes.PERMISSIONS, azureml.PERMISSION, METRICS_PERMISSION),
    activity="Active Nodes above 0; an unfinished job or pipeline step on it; nodes running; allocation state Resizing",
    heartbeat="points of Total Nodes or Idle Nodes",
    without_proof="unknown; exempt if its minimum is 0 nodes. The waste is the price of the minimum nodes",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    actions=ACTION_SPECS,
    commands={StepName.STOP: partial(azureml.command, "Set its minimum to 0 nodes now", azureml.EMPTY_CLUSTER)},
    console_url=azureml.console_url,
    place=azureml.place,
    price_keys=("Linux", "LinuxSpot"),
    details=ComputeDetails,
)
