"""Deployments of managed online endpoints, each by itself: leftovers of a blue/green change cost as much as the one that serves.

Metrics, Average only where so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.azure import deployments, series, signs, tags
from reaper.azure.call import UNREADABLE
from reaper.azure.deployments import Deployment
from reaper.azure.moment import moment
from reaper.azure.series import Answers, Place, Query
from reaper.azure.workspaces import region
from reaper.errors import CloudError, Trouble
from reaper.evidence import either, settled
from reaper.model import Kind, Observation, Part, Reading, Resource, Window

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

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
            yield _resource(cloud, one)
        except UNREADABLE as error:
            text = f"{one.row.get('id')} cannot be read ({error!r})"
            cloud.note(CloudError(Trouble.GARBLED, deployments.DEPLOYMENTS, text))


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic and life signs of all in bulk; only what was silent is looked at once more, at the source."""
    seen = [_settled(Observation(resource=r)) for r in resources]
    asked = [Place(id=one.resource.id, region=one.resource.region) for one in seen if not one.free]
    found = series.answers(cloud, asked, TRAFFIC, window)
    yield from cloud.each(lambda one: one if one.free else _closer(cloud, one, found, window), seen)


def _resource(cloud: Cloud, one: Deployment) -> Resource:
    row, properties, system = one.row, one.row["properties"], one.row.get("systemData") or {}
    endpoint = one.endpoint.get("name") or row["id"].split("/")[-3]
    capacity = (row.get("sku") or {}).get("capacity")
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
        status=f"{state}, 0 % of the traffic" if _share(one) == 0 else state,
        size=f"{size} x{capacity}" if size and capacity is not None else size or "",
        parts=() if kubernetes or capacity == 0 else _parts(size, capacity),
        tags=tags.inherited(*(tags.read(layer.get("tags")) for layer in (row, one.endpoint)), one.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        facts={"state": state, "capacity": capacity, "kubernetes": kubernetes, "workspace": one.workspace},
    )


def _share(one: Deployment) -> int | None:
    """Its percentage of the endpoint's traffic; None where the endpoint is not known."""
    if not one.endpoint:
        return None
    shares = {name.lower(): share for name, share in (one.endpoint["properties"].get("traffic") or {}).items()}
    return int(shares.get(one.row["name"].lower(), 0))


def _parts(size: Any, capacity: Any) -> tuple[Part, ...] | None:
    return (
        (Part(component="Linux", instance=size, count=capacity),) if isinstance(size, str) and size and _count(capacity) else None
    )


def _count(capacity: Any) -> bool:
    return isinstance(capacity, int) and not isinstance(capacity, bool) and 0 < capacity < 100_000


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
    if capacity == 0 or (state in BROKEN and capacity is None):
        return replace(seen, free=f"its state is {state} and it runs no machines, so it costs nothing")
    if state not in {"Succeeded", *BROKEN}:
        return replace(seen, blind=f"its state is {state or 'missing'}")
    return seen


def _closer(cloud: Cloud, seen: Observation, found: Answers, window: Window) -> Observation:
    resource = seen.resource
    seen = replace(seen, readings=_readings(resource, found))
    if seen.unsettled or seen.blind:
        return seen
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    try:
        row, endpoint = deployments.again(cloud, resource.id)
        fresh = _resource(cloud, Deployment(row=row, endpoint=endpoint, workspace=resource.facts["workspace"]))
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return replace(seen, blind=f"it could not be looked at: {error}")
    except UNREADABLE as error:
        cloud.note(CloudError(Trouble.GARBLED, deployments.DEPLOYMENTS, f"{resource.id} cannot be read ({error!r})"))
        return replace(seen, blind="its description cannot be read")
    return _settled(replace(seen, resource=replace(fresh, id=resource.id, name=resource.name)))


def _readings(resource: Resource, found: Answers) -> tuple[Reading, ...]:
    traffic, cpu, capacity = (found.of(resource.id, metric) for metric in TRAFFIC.metrics)
    heart = either(signs.heartbeat("CpuUtilizationPercentage", cpu), signs.heartbeat("DeploymentCapacity", capacity))
    return (*signs.silence("RequestsPerMinute", traffic), heart)


KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML managed online deployment",
    docs="https://learn.microsoft.com/azure/machine-learning/concept-endpoints-online",
    permissions=(*deployments.PERMISSIONS, series.PERMISSION),
    activity="RequestsPerMinute (Average) above 0",
    heartbeat="points of CpuUtilizationPercentage or DeploymentCapacity",
    otherwise="unknown; exempt on Kubernetes, whose nodes Azure ML does not bill, and where it runs no machines",
    discover=discover,
    observe=observe,
)
