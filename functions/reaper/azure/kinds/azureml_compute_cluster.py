"""Azure ML compute clusters that keep nodes up. Nodes above the minimum go by themselves; those below it cost money whether used or not.

Metrics and their dimensions: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Scaling: https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.azure import computes, jobs, metrics, readings
from reaper.azure.computes import Compute
from reaper.azure.count import count
from reaper.azure.metrics import Answers, Place, Query
from reaper.evidence import either, settled
from reaper.model import Bar, Deed, Kind, Move, Observation, Part, Reading, Resource, Window

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

NAME, TYPE = "azureml-compute-cluster", "AmlCompute"
NODES = Query(
    namespace="Microsoft.MachineLearningServices/workspaces",
    metrics=("Active Nodes", "Total Nodes", "Idle Nodes"),
    aggregation="Maximum",
    split="ClusterName",
)
STAND_IN = "Active Nodes (or as many Idle as Total Nodes)"
AT_WORK = {"runningNodeCount": "running", "preparingNodeCount": "being prepared for a job"}


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every AmlCompute cluster of the subscription, those that scale to zero too."""
    for one in computes.computes(cloud, TYPE):
        yield cluster(cloud, one)


def cluster(cloud: Cloud, one: Compute) -> Resource:
    """The cluster as a resource."""
    status = str(one.inner.get("allocationState") or "") if one.state == "Succeeded" else one.state
    found = computes.resource(cloud, NAME, one, status, _parts(one))
    return replace(found, facts={**found.facts, "shape": _shape(one)})


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """What the control plane says settles most; nodes of the others in bulk, then the jobs of what was silent."""
    seen = [_settled(resource) for resource in resources]
    spaces = [one.resource.facts["workspace"] for one in seen if not _is_settled(one)]
    found = metrics.answers(cloud, [Place(id=space.id, region=space.region) for space in spaces], NODES, window)
    yield from cloud.each(lambda one: one if _is_settled(one) else _closer(cloud, one, found, window), seen)


def _shape(one: Compute) -> str:
    """What a notice is about. A change of scaling leaves no time at a cluster that could be compared with the notice's."""
    scale = one.inner["scaleSettings"]
    return f"min {scale.get('minNodeCount')} of {scale.get('maxNodeCount')} {str(one.inner.get('vmSize')).upper()}"


def _parts(one: Compute) -> tuple[Part, ...] | None:
    """The minimum nodes. Low-priority ones have a price of their own, which the snapshot may not know."""
    least = count(one.inner["scaleSettings"].get("minNodeCount"))
    size = one.inner.get("vmSize")
    if least == 0:
        return ()
    if least is None or not size:
        return None
    component = "LowPriority" if str(one.inner.get("vmPriority")).lower() == "lowpriority" else "Linux"
    return (Part(component=component, instance=size, count=least),)


def _settled(resource: Resource) -> Observation:
    """What needs no metric: at work by its own account, costing nothing, or in a state that says it all."""
    seen, inner, status = Observation(resource=resource), resource.facts["inner"], resource.status
    working = [
        f"{inner['nodeStateCounts'][key]} of its nodes are {doing}"
        for key, doing in AT_WORK.items()
        if inner["nodeStateCounts"].get(key)
    ]
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if working:
        return replace(seen, in_use=working[0])
    if status == "Resizing":
        return replace(seen, in_use="it is resizing")
    if status in {"Creating", "Updating"}:
        return replace(seen, unsettled=f"its state is {status}")
    if resource.parts == ():
        return replace(seen, free="its minimum is 0 nodes, so it costs nothing while idle")
    if status != "Steady":
        return replace(seen, blind=f"its state is {status or 'missing'}")
    if count(inner["scaleSettings"].get("minNodeCount")) is None:
        return replace(seen, blind="how many nodes it keeps is not known")
    return seen


def _is_settled(seen: Observation) -> bool:
    return bool(seen.in_use or seen.free or seen.unsettled or seen.blind)


def _closer(cloud: Cloud, seen: Observation, found: Answers, window: Window) -> Observation:
    seen = replace(seen, readings=_readings(seen.resource, found))
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return computes.within_sight(jobs.with_jobs(cloud, seen))


def _readings(resource: Resource, found: Answers) -> tuple[Reading, ...]:
    active, total, idle = (found.of(resource.facts["workspace"].id, metric, resource.name) for metric in NODES.metrics)
    heart = either(readings.heartbeat("Total Nodes", total), readings.heartbeat("Idle Nodes", idle))
    instead = readings.stand_in(STAND_IN, active, total, idle)
    return (readings.activity("Active Nodes", active), heart, *([instead] if instead else []))


def able(resource: Resource) -> dict[Move, Bar | None]:
    """What keeps its minimum from being set to 0 nodes."""
    return {Move.STOP: _stoppable(resource)}


def _stoppable(resource: Resource) -> Bar | None:
    scale = resource.facts.get("inner", {}).get("scaleSettings", {})
    least, most = (count(scale.get(key)) for key in ("minNodeCount", "maxNodeCount"))
    if resource.status == "Deleting":
        return Bar(because="it is being deleted")
    if least == 0:
        return Bar(because="its minimum is 0 nodes already", done=True)
    if resource.status != "Steady":
        return Bar(because=f"its state is {resource.status or 'missing'}")
    if least is None or most is None:
        return Bar(because="how many nodes it keeps is not known")
    return None


DEEDS = {
    Move.STOP: Deed(
        verb="set to a minimum of 0 nodes",
        what="sets its minimum to 0 nodes, so that idle ones go by themselves; its maximum and idle time stay, and the next job starts nodes",
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
    otherwise="unknown; exempt where the minimum is 0 nodes. The waste is the minimum nodes' price",
    discover=discover,
    observe=observe,
    able=able,
    deeds=DEEDS,
)
