"""Deployments of managed online endpoints, each by itself: leftovers of a blue/green change cost as much as the one that serves.

Metrics, Average only where so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.azure import assets, autoscale, deployments, metrics, readings, tags, traffic
from reaper.azure.arm_values import moment
from reaper.azure.count import count
from reaper.azure.deployments import Deployment
from reaper.azure.metrics import Answers, Place, Query
from reaper.azure.request import UNREADABLE
from reaper.azure.workspaces import region
from reaper.errors import CloudError, Trouble
from reaper.evidence import either, settled
from reaper.model import Bar, Deed, Kind, Move, Observation, Part, Reading, Resource, Window

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import Cloud

NAME = "azureml-online-deployment"
TRAFFIC = Query(
    namespace="Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments",
    metrics=("RequestsPerMinute", "CpuUtilizationPercentage", "DeploymentCapacity"),
    aggregation="Average",
)
UNSETTLED = {"Creating", "Updating", "Scaling"}
BROKEN = {"Failed", "Canceled"}


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every deployment of every online endpoint, whatever its share of the traffic."""
    for one in deployments.deployments(cloud):
        try:
            yield deployment(cloud, one)
        except UNREADABLE as error:
            text = f"{one.row.get('id')} cannot be read ({error!r})"
            cloud.note(CloudError(Trouble.GARBLED, deployments.DEPLOYMENTS, text))


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic and life signs of all in bulk; only what was silent is looked at once more, at the source."""
    seen = [_settled(Observation(resource=r)) for r in resources]
    asked = [Place(id=one.resource.id, region=one.resource.region) for one in seen if not one.free]
    found = metrics.answers(cloud, asked, TRAFFIC, window, gone=lambda id_: deployments.gone(cloud, id_))
    looked = cloud.each(lambda one: one if one.free else _closer(cloud, one, found, window), seen)
    yield from (one if one.gone else replace(one, resource=with_autoscale(cloud, one.resource)) for one in looked)


def deployment(cloud: Cloud, one: Deployment) -> Resource:
    """The deployment as a resource. Raises what reading an unexpected shape raises."""
    row, properties, system = one.row, one.row["properties"], one.row.get("systemData") or {}
    endpoint = one.endpoint.get("name") or row["id"].split("/")[-3]
    given = (row.get("sku") or {}).get("capacity")
    capacity = count(given)
    size = properties.get("instanceType")
    state = str(properties.get("provisioningState") or "")
    kubernetes = str(properties.get("endpointComputeType")).lower() == "kubernetes"
    return Resource(
        kind=NAME,
        id=row["id"],
        name=f"{endpoint}/{row['name']}",
        target=cloud.target,
        region=region(row.get("location") or one.workspace.region),
        created=moment(system.get("createdAt")),
        changed=moment(system.get("lastModifiedAt")),
        status=f"{state}, 0 % of the traffic" if traffic.share(one.endpoint, row["name"]) == 0 else state,
        size=f"{size} x{capacity}" if size and capacity is not None else size or "",
        parts=() if kubernetes or capacity == 0 else _parts(size, capacity),
        tags=tags.inherited(*(tags.read(layer.get("tags")) for layer in (row, one.endpoint)), one.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        facts={
            "state": state,
            "capacity": capacity,
            # What a notice is about. Resource Graph spells sizes otherwise than the source itself.
            "shape": f"{capacity} x {str(size).upper()}",
            "machines": given is not None,
            "kubernetes": kubernetes,
            "workspace": one.workspace,
            "beside": one.beside,
            "unclear": assets.unclear(row, one.workspace),
            "scale": properties.get("scaleSettings"),
            "share": traffic.share(one.endpoint, row["name"]),
            "mirrored": traffic.share(one.endpoint, row["name"], traffic.MIRROR),
            "endpoint": str((one.endpoint.get("properties") or {}).get("provisioningState") or ""),
            "endpoint_made": _made(one.endpoint),
        },
    )


def _made(endpoint: Mapping[str, Any]) -> datetime | None:
    """When the endpoint was made; None where that is not known."""
    try:
        return moment((endpoint.get("systemData") or {}).get("createdAt"))
    except UNREADABLE:
        return None


def with_autoscale(cloud: Cloud, resource: Resource) -> Resource:
    """The same, with what Azure Monitor's autoscale keeps it from: None where nothing. Asked of those only that could be scaled in."""
    facts = resource.facts
    if facts["kubernetes"] or (facts["capacity"] or 0) <= 1:
        return resource
    try:
        least = autoscale.kept(cloud, resource.id)
        because = f"Azure Monitor's autoscale keeps at least {least} instances, and would undo it" if least > 1 else None
    except CloudError as error:
        because = f"whether Azure Monitor's autoscale would undo it could not be read: {error}"
    return replace(resource, facts={**facts, "autoscale": because})


def _parts(size: Any, capacity: int | None) -> tuple[Part, ...] | None:
    return (Part(component="Linux", instance=size, count=capacity),) if isinstance(size, str) and size and capacity else None


def _settled(seen: Observation) -> Observation:
    """What its state alone says."""
    facts = seen.resource.facts
    state, capacity = facts["state"], facts["capacity"]
    if facts["kubernetes"]:
        return replace(seen, free="it runs on Kubernetes nodes of your own, which Azure ML does not bill")
    if state == "Deleting":
        return replace(seen, free="it is being deleted")
    if state in UNSETTLED:
        return replace(seen, unsettled=f"its state is {state}")
    if capacity == 0 or (state in BROKEN and not facts["machines"]):
        return replace(seen, free=f"its state is {state} and it runs no machines, so it costs nothing")
    if state not in {"Succeeded", *BROKEN}:
        return replace(seen, blind=f"its state is {state or 'missing'}")
    return seen


def _closer(cloud: Cloud, seen: Observation, found: Answers, window: Window) -> Observation:
    resource = seen.resource
    if resource.id.lower() in found.gone:
        return replace(seen, gone=True)
    seen = replace(seen, readings=_readings(resource, found))
    if seen.unsettled or seen.blind:
        return seen
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    try:
        row, endpoint = deployments.again(cloud, resource.id)
        space, beside = resource.facts["workspace"], resource.facts["beside"]
        fresh = deployment(cloud, Deployment(row=row, endpoint=endpoint, workspace=space, beside=beside))
    except CloudError as error:
        if error.operation == deployments.DEPLOYMENTS and error.trouble is Trouble.GONE:
            return replace(seen, gone=True)
        cloud.note(error)
        return replace(seen, blind=f"it could not be looked at: {error}")
    except UNREADABLE as error:
        cloud.note(CloudError(Trouble.GARBLED, deployments.DEPLOYMENTS, f"{resource.id} cannot be read ({error!r})"))
        return replace(seen, blind="its description cannot be read")
    return _with_endpoint(_settled(replace(seen, resource=replace(fresh, id=resource.id, name=resource.name))))


def _with_endpoint(seen: Observation) -> Observation:
    """The same, with what the state of its endpoint says: one that is being changed may move its traffic at this very moment."""
    state = seen.resource.facts["endpoint"]
    if seen.free or seen.unsettled or seen.blind or state in {"Succeeded", *BROKEN}:
        return seen
    if state == "Deleting":
        return replace(seen, free="its endpoint is being deleted")
    if state in UNSETTLED:
        return replace(seen, unsettled=f"its endpoint's state is {state}")
    return replace(seen, blind=f"its endpoint's state is {state or 'missing'}")


def _readings(resource: Resource, found: Answers) -> tuple[Reading, ...]:
    traffic, cpu, capacity = (found.of(resource.id, metric) for metric in TRAFFIC.metrics)
    heart = either(readings.heartbeat("CpuUtilizationPercentage", cpu), readings.heartbeat("DeploymentCapacity", capacity))
    return (readings.activity("RequestsPerMinute", traffic), heart)


def left(resource: Resource, move: Move) -> tuple[Part, ...] | None:
    """Scaled to one instance it still costs that one."""
    if move is not Move.STOP or resource.parts is None:
        return ()
    return tuple(replace(part, count=min(part.count, 1)) for part in resource.parts)


def able(resource: Resource) -> dict[Move, Bar | None]:
    """What keeps it from being scaled to one instance, and from being deleted."""
    if "state" not in resource.facts:
        unseen = Bar(because="it could not be observed")
        return {Move.STOP: unseen, Move.DELETE: unseen}
    unfit = _unfit(resource)
    return {Move.STOP: unfit or _scalable(resource), Move.DELETE: unfit or _deletable(resource)}


def _unfit(resource: Resource) -> Bar | None:
    """Its own state and its endpoint's. That of the endpoint is empty where the endpoint did not come along."""
    facts = resource.facts
    if facts["kubernetes"]:
        return Bar(because="it runs on Kubernetes nodes of your own, which Azure ML does not bill")
    if facts["state"] not in {"Succeeded", *BROKEN}:
        return Bar(because=f"its state is {facts['state'] or 'missing'}")
    if facts["endpoint"] in {*UNSETTLED, "Deleting"}:
        return Bar(because=f"its endpoint's state is {facts['endpoint']}")
    return None


def _scalable(resource: Resource) -> Bar | None:
    capacity, scale = resource.facts["capacity"], resource.facts["scale"] or {}
    if capacity is None:
        return Bar(because="how many instances it runs is not known")
    if capacity <= 1:
        return Bar(because=f"it runs {'one' if capacity else 'no'} instance already, and Azure allows no fewer", done=True)
    if str(scale.get("scaleType")).lower() == "targetutilization" and scale.get("minInstances") not in (None, 0, 1):
        return Bar(because=f"its own scaling keeps at least {scale['minInstances']} instances, and would undo it")
    if because := resource.facts.get("autoscale", "whether Azure Monitor's autoscale would undo it was not looked at"):
        return Bar(because=because)
    return None


def _deletable(resource: Resource) -> Bar | None:
    share, mirrored = resource.facts["share"], resource.facts["mirrored"]
    if share is None or mirrored is None:
        return Bar(because="how much of its endpoint's traffic it gets is not known")
    if resource.facts["endpoint_made"] is None:
        return Bar(because="when its endpoint was made is not known, so neither is whether it would be the same one later")
    if resource.facts["unclear"]:
        return Bar(because=resource.facts["unclear"])
    if mirrored:
        return Bar(because=f"{mirrored} % of its endpoint's traffic is mirrored to it")
    if share and (resource.facts["beside"] or share != 100):
        beside = ", ".join(sorted(resource.facts["beside"])) or "another"
        return Bar(because=f"it gets {share} % of its endpoint's traffic, which would have to move to {beside}")
    return None


DEEDS = {
    Move.STOP: Deed(
        verb="scaled to one instance",
        what="scales it to one instance, because Azure cannot stop it; not where Azure Monitor's autoscale keeps more, and of no use "
        "against an autoscale that adds instances under load",
        undo="scales it back to as many instances as it had",
        permissions=(f"{deployments.ROOT}/write",),
        in_vain="one that runs one instance stays and costs as before, because Azure allows no fewer; only `action: delete` ends that",
    ),
    Move.DELETE: Deed(
        verb="deleted",
        what="deletes it where it gets no traffic, or where it is its endpoint's only one, whose traffic is set to 0 % first; refused where its "
        "model, environment or code version is not there any more. What lies in a registry is taken to be there. Setting the traffic of an endpoint with user-assigned identities takes the right to assign each of them. What it was is stored before, environment variables included, and those may hold secrets: the store of manifests must be private",
        undo="creates it again with its model, settings, tags, instances and, once it is there, its traffic",
        permissions=(f"{deployments.ROOT}/delete", f"{deployments.UPPER_ROOT}/write", deployments.ASSIGN, *assets.PERMISSIONS),
    ),
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML managed online deployment",
    docs="https://learn.microsoft.com/azure/machine-learning/concept-endpoints-online",
    permissions=(*deployments.PERMISSIONS, metrics.PERMISSION, autoscale.PERMISSION),
    activity="RequestsPerMinute (Average) above 0",
    heartbeat="points of CpuUtilizationPercentage or DeploymentCapacity",
    otherwise="unknown; exempt on Kubernetes, whose nodes Azure ML does not bill, and where it runs no machines",
    discover=discover,
    observe=observe,
    able=able,
    left=left,
    deeds=DEEDS,
)
