"""Deployments of managed online endpoints, each by itself: leftovers of a blue/green change cost as much as the one that serves.

Metrics, Average only where so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.azure import assets, autoscale, deployments, metrics, owner_lines, readings, tags, traffic
from reaper.azure.arm_values import parse_time
from reaper.azure.count import valid_count
from reaper.azure.deployments import Deployment
from reaper.azure.metrics import MetricQuery, MetricResults, MetricSource
from reaper.azure.request import UNREADABLE_REPLY_ERRORS
from reaper.azure.workspaces import region_key
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, merge_heartbeats
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Blocked, Observation, Reading, Resource, StepName, Window

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import CloudSession

NAME = "azureml-online-deployment"
TRAFFIC_QUERY = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments",
    metrics=("RequestsPerMinute", "CpuUtilizationPercentage", "DeploymentCapacity"),
    aggregation="Average",
)
CHANGING_STATES = {"Creating", "Updating", "Scaling"}
BROKEN_STATES = {"Failed", "Canceled"}


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every deployment of every online endpoint, whatever its share of the traffic."""
    for one in deployments.list_deployments(cloud):
        try:
            yield deployment_resource(cloud, one)
        except UNREADABLE_REPLY_ERRORS as error:
            text = f"{one.row.get('id')} cannot be read ({error!r})"
            cloud.add_error(CloudError(Reason.UNREADABLE, deployments.READ_DEPLOYMENTS, text))


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic and life signs of all in bulk; only what was silent is looked at once more, at the source."""
    seen = [_settled_by_state(Observation(resource=r)) for r in resources]
    asked = [MetricSource(id=one.resource.id, region=one.resource.region) for one in seen if not one.free_because]
    found = metrics.fetch_metrics(cloud, asked, TRAFFIC_QUERY, window, is_gone=lambda id_: deployments.is_gone(cloud, id_))
    looked = cloud.map_concurrently(lambda one: one if one.free_because else _look_closer(cloud, one, found, window), seen)
    yield from (one if one.is_gone else replace(one, resource=with_autoscale(cloud, one.resource)) for one in looked)


def deployment_resource(cloud: CloudSession, one: Deployment) -> Resource:
    """The deployment as a resource. Raises what reading an unexpected shape raises."""
    row, properties, system = one.row, one.row["properties"], one.row.get("systemData") or {}
    endpoint = one.endpoint.get("name") or row["id"].split("/")[-3]
    given = (row.get("sku") or {}).get("capacity")
    capacity = valid_count(given)
    size = properties.get("instanceType")
    state = str(properties.get("provisioningState") or "")
    kubernetes = str(properties.get("endpointComputeType")).lower() == "kubernetes"
    return Resource(
        kind=NAME,
        id=row["id"],
        name=f"{endpoint}/{row['name']}",
        target=cloud.target,
        region=region_key(row.get("location") or one.workspace.region),
        created=parse_time(system.get("createdAt")),
        changed=parse_time(system.get("lastModifiedAt")),
        status=f"{state}, 0 % of the traffic" if traffic.traffic_percent(one.endpoint, row["name"]) == 0 else state,
        size=f"{size} x{capacity}" if size and capacity is not None else size or "",
        parts=() if kubernetes or capacity == 0 else _billed_parts(size, capacity),
        tags=tags.inherited_tags(*(tags.read_tags(layer.get("tags")) for layer in (row, one.endpoint)), one.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        facts={
            "state": state,
            "capacity": capacity,
            # What a notice is about. Resource Graph spells sizes otherwise than the source itself.
            "shape": f"{capacity} x {str(size).upper()}",
            "machines": given is not None,
            "kubernetes": kubernetes,
            "workspace": one.workspace,
            "beside": one.siblings,
            "unclear": assets.unclear_asset_because(row, one.workspace),
            "scale": properties.get("scaleSettings"),
            "share": traffic.traffic_percent(one.endpoint, row["name"]),
            "mirrored": traffic.traffic_percent(one.endpoint, row["name"], traffic.MIRROR_KEY),
            "endpoint": str((one.endpoint.get("properties") or {}).get("provisioningState") or ""),
            "endpoint_made": _endpoint_created_at(one.endpoint),
        },
    )


def _endpoint_created_at(endpoint: Mapping[str, Any]) -> datetime | None:
    """When the endpoint was made; None where that is not known."""
    try:
        return parse_time((endpoint.get("systemData") or {}).get("createdAt"))
    except UNREADABLE_REPLY_ERRORS:
        return None


def with_autoscale(cloud: CloudSession, resource: Resource) -> Resource:
    """The same, with what Azure Monitor's autoscale keeps it from: None where nothing. Asked of those only that could be scaled in."""
    facts = resource.facts
    if facts["kubernetes"] or (facts["capacity"] or 0) <= 1:
        return resource
    try:
        least = autoscale.minimum_instances(cloud, resource.id)
        because = f"Azure Monitor's autoscale keeps at least {least} instances, and would undo it" if least > 1 else None
    except CloudError as error:
        because = f"whether Azure Monitor's autoscale would undo it could not be read: {error}"
    return replace(resource, facts={**facts, "autoscale": because})


def _billed_parts(size: Any, capacity: int | None) -> tuple[BilledPart, ...] | None:
    return (
        (BilledPart(component="Linux", instance=size, count=capacity),) if isinstance(size, str) and size and capacity else None
    )


def _settled_by_state(seen: Observation) -> Observation:
    """What its state alone says."""
    facts = seen.resource.facts
    state, capacity = facts["state"], facts["capacity"]
    if facts["kubernetes"]:
        return replace(seen, free_because="it runs on Kubernetes nodes of your own, which Azure ML does not bill")
    if state == "Deleting":
        return replace(seen, free_because="it is being deleted")
    if state in CHANGING_STATES:
        return replace(seen, changing_because=f"its state is {state}")
    if capacity == 0 or (state in BROKEN_STATES and not facts["machines"]):
        return replace(seen, free_because=f"its state is {state} and it runs no machines, so it costs nothing")
    if state not in {"Succeeded", *BROKEN_STATES}:
        return replace(seen, unknown_because=f"its state is {state or 'missing'}")
    return seen


def _look_closer(cloud: CloudSession, seen: Observation, found: MetricResults, window: Window) -> Observation:
    resource = seen.resource
    if resource.id.lower() in found.gone_ids:
        return replace(seen, is_gone=True)
    seen = replace(seen, readings=_to_readings(resource, found))
    if seen.changing_because or seen.unknown_because:
        return seen
    if is_recent(seen, window):
        return replace(seen, unknown_because="it was used or changed too recently for a closer look")
    try:
        row, endpoint = deployments.read_deployment_and_endpoint(cloud, resource.id)
        space, beside = resource.facts["workspace"], resource.facts["beside"]
        fresh = deployment_resource(cloud, Deployment(row=row, endpoint=endpoint, workspace=space, siblings=beside))
    except CloudError as error:
        if error.operation == deployments.READ_DEPLOYMENTS and error.reason is Reason.GONE:
            return replace(seen, is_gone=True)
        cloud.add_error(error)
        return replace(seen, unknown_because=f"it could not be looked at: {error}")
    except UNREADABLE_REPLY_ERRORS as error:
        cloud.add_error(CloudError(Reason.UNREADABLE, deployments.READ_DEPLOYMENTS, f"{resource.id} cannot be read ({error!r})"))
        return replace(seen, unknown_because="its description cannot be read")
    return _with_endpoint_state(_settled_by_state(replace(seen, resource=replace(fresh, id=resource.id, name=resource.name))))


def _with_endpoint_state(seen: Observation) -> Observation:
    """The same, with what the state of its endpoint says: one that is being changed may move its traffic at this very moment."""
    state = seen.resource.facts["endpoint"]
    if seen.free_because or seen.changing_because or seen.unknown_because or state in {"Succeeded", *BROKEN_STATES}:
        return seen
    if state == "Deleting":
        return replace(seen, free_because="its endpoint is being deleted")
    if state in CHANGING_STATES:
        return replace(seen, changing_because=f"its endpoint's state is {state}")
    return replace(seen, unknown_because=f"its endpoint's state is {state or 'missing'}")


def _to_readings(resource: Resource, found: MetricResults) -> tuple[Reading, ...]:
    traffic, cpu, capacity = (found.result_of(resource.id, metric) for metric in TRAFFIC_QUERY.metrics)
    heart = merge_heartbeats(
        readings.heartbeat_reading("CpuUtilizationPercentage", cpu), readings.heartbeat_reading("DeploymentCapacity", capacity)
    )
    return (readings.activity_reading("RequestsPerMinute", traffic), heart)


def parts_after(resource: Resource, move: StepName) -> tuple[BilledPart, ...] | None:
    """Scaled to one instance it still costs that one."""
    if move is not StepName.STOP or resource.parts is None:
        return ()
    return tuple(replace(part, count=min(part.count, 1)) for part in resource.parts)


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps it from being scaled to one instance, and from being deleted."""
    if "state" not in resource.facts:
        unseen = Blocked(because="it could not be observed")
        return {StepName.STOP: unseen, StepName.DELETE: unseen}
    unfit = _blocked_by_state(resource)
    return {StepName.STOP: unfit or _scale_in_blocked(resource), StepName.DELETE: unfit or _delete_blocked(resource)}


def _blocked_by_state(resource: Resource) -> Blocked | None:
    """Its own state and its endpoint's. That of the endpoint is empty where the endpoint did not come along."""
    facts = resource.facts
    if facts["kubernetes"]:
        return Blocked(because="it runs on Kubernetes nodes of your own, which Azure ML does not bill")
    if facts["state"] not in {"Succeeded", *BROKEN_STATES}:
        return Blocked(because=f"its state is {facts['state'] or 'missing'}")
    if facts["endpoint"] in {*CHANGING_STATES, "Deleting"}:
        return Blocked(because=f"its endpoint's state is {facts['endpoint']}")
    return None


def _scale_in_blocked(resource: Resource) -> Blocked | None:
    capacity, scale = resource.facts["capacity"], resource.facts["scale"] or {}
    if capacity is None:
        return Blocked(because="how many instances it runs is not known")
    if capacity <= 1:
        return Blocked(
            because=f"it runs {'one' if capacity else 'no'} instance already, and Azure allows no fewer", already_done=True
        )
    if str(scale.get("scaleType")).lower() == "targetutilization" and scale.get("minInstances") not in (None, 0, 1):
        return Blocked(because=f"its own scaling keeps at least {scale['minInstances']} instances, and would undo it")
    if because := resource.facts.get("autoscale", "whether Azure Monitor's autoscale would undo it was not looked at"):
        return Blocked(because=because)
    return None


def _delete_blocked(resource: Resource) -> Blocked | None:
    share, mirrored = resource.facts["share"], resource.facts["mirrored"]
    if share is None or mirrored is None:
        return Blocked(because="how much of its endpoint's traffic it gets is not known")
    if resource.facts["endpoint_made"] is None:
        return Blocked(because="when its endpoint was made is not known, so neither is whether it would be the same one later")
    if resource.facts["unclear"]:
        return Blocked(because=resource.facts["unclear"])
    if mirrored:
        return Blocked(because=f"{mirrored} % of its endpoint's traffic is mirrored to it")
    if share and (resource.facts["beside"] or share != 100):
        beside = ", ".join(sorted(resource.facts["beside"])) or "another"
        return Blocked(because=f"it gets {share} % of its endpoint's traffic, which would have to move to {beside}")
    return None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="scaled to one instance",
        effect="scales it to one instance, because Azure cannot stop it; not where Azure Monitor's autoscale keeps more, and of no use "
        "against an autoscale that adds instances under load",
        undo="scales it back to as many instances as it had",
        permissions=(f"{deployments.DEPLOYMENT_ROOT}/write",),
        no_effect_where="one that runs one instance stays and costs as before, because Azure allows no fewer; only `action: delete` ends that",
    ),
    StepName.DELETE: ActionSpec(
        participle="deleted",
        effect="deletes it where it gets no traffic, or where it is its endpoint's only one, whose traffic is set to 0 % first; refused where its "
        "model, environment or code version is not there any more. What lies in a registry is taken to be there. Setting the traffic of an endpoint with user-assigned identities takes the right to assign each of them. What it was is stored before, environment variables included, and those may hold secrets: the store of manifests must be private",
        undo="creates it again with its model, settings, tags, instances and, once it is there, its traffic",
        permissions=(
            f"{deployments.DEPLOYMENT_ROOT}/delete",
            f"{deployments.ENDPOINT_ROOT}/write",
            deployments.ASSIGN_IDENTITY,
            *assets.PERMISSIONS,
        ),
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
    without_proof="unknown; exempt on Kubernetes, whose nodes Azure ML does not bill, and where it runs no machines",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    parts_after=parts_after,
    actions=ACTION_SPECS,
    commands={StepName.STOP: owner_lines.scale_deployment_command, StepName.DELETE: owner_lines.delete_deployment_command},
    keep_line=owner_lines.keep_line,
    console_url=owner_lines.console_url,
    place=owner_lines.place,
    price_keys=("Linux",),
)
