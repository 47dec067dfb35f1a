"""Deployments of managed online endpoints, each on its own: leftovers of a blue/green change cost as much as the serving deployment.

Metrics, Average only if so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.azure import lines, metrics, reader
from reaper.azure.kinds.azureml_online_deployment import listing
from reaper.azure.kinds.azureml_online_deployment.details import PERMISSION as READ_AUTOSCALE
from reaper.azure.kinds.azureml_online_deployment.details import PERMISSIONS as READ_ASSETS
from reaper.azure.kinds.azureml_online_deployment.details import DeploymentDetails, deployment_details, with_autoscale
from reaper.azure.kinds.azureml_online_deployment.listing import Deployment
from reaper.azure.metrics import PERMISSION as METRICS_PERMISSION
from reaper.azure.metrics import MetricQuery, MetricResults, MetricSource, activity_reading, heartbeat_reading
from reaper.azure.requests import Json, inherited_tags, parse_row, parse_time, read_tags, region_key
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.evidence import first_read_from, is_recent, merge_heartbeats
from reaper.kind import ActionSpec, Command, Kind, is_decided
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


NAME = "azureml-online-deployment"
TRAFFIC_QUERY = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments",
    metrics=("RequestsPerMinute", "CpuUtilizationPercentage", "DeploymentCapacity"),
    aggregation="Average",
)
CHANGING_STATES = {"Creating", "Updating", "Scaling"}
BROKEN_STATES = {"Failed", "Canceled"}
_DEPLOYMENT = "--name {deployments} --endpoint-name {onlineendpoints}" + lines.IN_WORKSPACE
SCALE_DEPLOYMENT = f"az ml online-deployment update {_DEPLOYMENT} --set instance_count=1"
DELETE_DEPLOYMENT = f"az ml online-deployment delete {_DEPLOYMENT}"
ON_KUBERNETES = "it runs on your own Kubernetes nodes, which Azure ML doesn't bill"


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every deployment of every online endpoint, whatever its share of the traffic."""
    listed = listing.list_deployments(cloud)
    yield from cloud.each(
        listing.READ_DEPLOYMENTS, listed, partial(deployment_resource, cloud), lambda deployment: deployment.row["id"]
    )


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Reads the last hours of all in bulk. What was silent in them is read again, at the source, and its metrics over the whole window."""
    observations = _with_all_readings(
        cloud, [_settled_by_state(Observation(resource=resource)) for resource in resources], window
    )
    silent = [observation.resource.id for observation in observations if _needs_closer_look(observation, window)]
    current = listing.list_current_rows(cloud, silent, [resource.id for resource in resources])
    for observation in cloud.map_concurrently(lambda before: _look_closer(cloud, before, current, window), observations):
        is_gone = observation.is_gone
        yield observation if is_gone else replace(observation, resource=with_autoscale(cloud, observation.resource))


def _with_all_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> list[Observation]:
    """The observations with their readings, those that are free apart. Of what was used in the last hours, the readings begin there, unless
    all of its region fits into one call.
    """
    billed = [one for one in observations if not one.free_because]
    large = {region for region, count in Counter(one.resource.region for one in billed).items() if count > metrics.MAX_RESOURCES}
    starts = {
        one.resource.id: first_read_from(one.resource, window)
        if one.resource.region in large and not is_decided(one)
        else window.start
        for one in billed
    }
    in_full = [one for one in observations if starts.get(one.resource.id) == window.start]
    others = [one for one in observations if starts.get(one.resource.id, window.start) > window.start]
    since = min((starts[one.resource.id] for one in others), default=window.start)
    first = list(_with_readings(cloud, others, replace(window, start=since)))
    # An incomplete reply proves nothing, and a second one wouldn't make it whole.
    silent = [one for one in first if _needs_closer_look(one, window) and all(reading.complete for reading in one.readings)]
    read = {one.resource.id: one for one in (*first, *_with_readings(cloud, [*in_full, *silent], window))}
    return [read.get(one.resource.id, one) for one in observations]


def _with_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterator[Observation]:
    sources = [MetricSource(id=one.resource.id, region=one.resource.region) for one in observations]
    results = metrics.fetch_metrics(
        cloud, sources, TRAFFIC_QUERY, window, is_gone=lambda resource_id: listing.is_gone(cloud, resource_id)
    )
    for one in observations:
        is_gone = one.resource.id.lower() in results.gone_ids
        yield replace(one, is_gone=True) if is_gone else replace(one, readings=_to_readings(one.resource, results))


def deployment_resource(cloud: CloudSession, deployment: Deployment) -> Resource:
    """The deployment as a resource. Raises one of the reading errors if its shape is unexpected."""
    row, endpoint, details = deployment.row, deployment.endpoint, deployment_details(deployment)
    system, size, count = row.get("systemData") or {}, row["properties"].get("instanceType"), details.instances
    own_tags, endpoint_tags = read_tags(row.get("tags")), read_tags(endpoint.get("tags"))
    return Resource(
        kind=NAME,
        id=row["id"],
        name=f"{endpoint.get('name') or row['id'].split('/')[-3]}/{row['name']}",
        target=cloud.target,
        region=region_key(row.get("location") or deployment.workspace.region),
        created=parse_time(system.get("createdAt")),
        changed=parse_time(system.get("lastModifiedAt")),
        status=status_text(details),
        size=f"{size} x{count}" if size and count is not None else size or "",
        parts=() if details.on_kubernetes or count == 0 else _billed_parts(size, count),
        tags=inherited_tags(own_tags, endpoint_tags, deployment.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        details=details,
        # Resource Graph spells sizes differently from the source itself.
        fingerprint=f"{count} x {str(size).upper()}",
    )


def status_text(details: DeploymentDetails) -> str:
    """Its state, and that it gets no traffic."""
    return f"{details.provisioning_state}{', 0% of the traffic' if details.traffic_percent == 0 else ''}"


def _billed_parts(size: Any, count: int | None) -> tuple[BilledPart, ...] | None:
    return (BilledPart(component="Linux", instance=size, count=count),) if isinstance(size, str) and size and count else None


def _settled_by_state(observation: Observation) -> Observation:
    """What its state alone says."""
    details: DeploymentDetails = observation.resource.details
    state = details.provisioning_state
    if details.on_kubernetes:
        return replace(observation, free_because=ON_KUBERNETES)
    if state == "Deleting":
        return replace(observation, free_because="it is being deleted")
    if state in CHANGING_STATES:
        return replace(observation, changing_because=f"its state is {state}")
    if details.instances == 0 or (state in BROKEN_STATES and not details.states_instances):
        return replace(observation, free_because=f"its state is {state} and it has no instances, so it costs nothing")
    if state not in {"Succeeded", *BROKEN_STATES}:
        return replace(observation, unknown_because=f"its state is {state or 'missing'}")
    return observation


def _needs_closer_look(observation: Observation, window: Window) -> bool:
    return not (observation.is_gone or is_decided(observation) or is_recent(observation, window))


def _look_closer(cloud: CloudSession, observation: Observation, current: Mapping[str, Json], window: Window) -> Observation:
    if _needs_closer_look(observation, window):
        return _read_again(cloud, observation, current)
    if observation.is_gone or is_decided(observation):
        return observation
    return replace(observation, unknown_because=reader.TOO_RECENT)


def _read_again(cloud: CloudSession, observation: Observation, current: Mapping[str, Json]) -> Observation:
    """The same about the deployment as the source itself describes it now."""
    listed = observation.resource
    try:
        fresh = _resource_now(cloud, listed, current)
    except CloudError as error:
        if error.operation == listing.READ_DEPLOYMENTS and error.reason is Reason.GONE:
            return replace(observation, is_gone=True)
        cloud.add_error(error)
        is_odd = error.reason is Reason.UNREADABLE
        return replace(
            observation, unknown_because="its description can't be read" if is_odd else f"it couldn't be read again: {error}"
        )
    return _with_endpoint_state(_settled_by_state(replace(observation, resource=replace(fresh, id=listed.id, name=listed.name))))


def _resource_now(cloud: CloudSession, listed: Resource, current: Mapping[str, Json]) -> Resource:
    row, endpoint = listing.read_deployment_and_endpoint(cloud, listed.id, current)
    siblings = frozenset(listed.details.siblings)
    deployment = Deployment(row=row, endpoint=endpoint, workspace=listed.details.workspace, siblings=siblings)
    return parse_row(listing.READ_DEPLOYMENTS, row, lambda row: deployment_resource(cloud, deployment))


def _with_endpoint_state(observation: Observation) -> Observation:
    """The same with the state of its endpoint: an endpoint that is being changed may be moving its traffic at this very moment."""
    state = observation.resource.details.endpoint_state
    if is_decided(observation) or state in {"Succeeded", *BROKEN_STATES}:
        return observation
    if state == "Deleting":
        return replace(observation, free_because="its endpoint is being deleted")
    if state in CHANGING_STATES:
        return replace(observation, changing_because=f"its endpoint's state is {state}")
    return replace(observation, unknown_because=f"its endpoint's state is {state or 'missing'}")


def _to_readings(resource: Resource, results: MetricResults) -> tuple[Reading, ...]:
    requests, cpu, capacity = (results.result_of(resource.id, metric) for metric in TRAFFIC_QUERY.metrics)
    heartbeat = merge_heartbeats(
        heartbeat_reading("CpuUtilizationPercentage", cpu), heartbeat_reading("DeploymentCapacity", capacity)
    )
    return (activity_reading("RequestsPerMinute", requests), heartbeat)


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """Scaled to one instance it still costs that instance."""
    if action is not StepName.STOP or resource.parts is None:
        return ()
    return tuple(replace(part, count=min(part.count, 1)) for part in resource.parts)


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps it from being scaled to one instance, and from being deleted."""
    details: DeploymentDetails | None = resource.details
    if details is None:
        not_observed = Blocked(because="it couldn't be observed")
        return {StepName.STOP: not_observed, StepName.DELETE: not_observed}
    return {
        StepName.STOP: _blocked_by_state(details, StepName.STOP) or _scale_in_blocked(details),
        StepName.DELETE: _blocked_by_state(details, StepName.DELETE) or _delete_blocked(details),
    }


def _blocked_by_state(details: DeploymentDetails, action: StepName) -> Blocked | None:
    """Its own state and its endpoint's. A state that the action led to says that it was carried out."""
    state = details.provisioning_state
    if details.on_kubernetes:
        return Blocked(because=ON_KUBERNETES)
    if state not in {"Succeeded", *BROKEN_STATES}:
        is_scaled_in = state in CHANGING_STATES and details.instances == 1
        is_done = is_scaled_in if action is StepName.STOP else state == "Deleting"
        return Blocked(because=f"its state is {state or 'missing'}", already_done=is_done)
    if details.endpoint_state in {*CHANGING_STATES, "Deleting"}:
        return Blocked(because=f"its endpoint's state is {details.endpoint_state}")
    return None


def _scale_in_blocked(details: DeploymentDetails) -> Blocked | None:
    instances, scale = details.instances, details.scale_settings or {}
    if instances is None:
        return Blocked(because="its instance count is unknown")
    if instances <= 1:
        count = "one instance" if instances else "no instance"
        return Blocked(because=f"it already has {count}, and Azure allows no fewer", already_done=True)
    if str(scale.get("scaleType")).lower() == "targetutilization" and scale.get("minInstances") not in (None, 0, 1):
        return Blocked(because=f"its autoscaling keeps at least {scale['minInstances']} instances and would undo a scale-in")
    return Blocked(because=details.autoscale_because) if details.autoscale_because else None


def _delete_command(resource: Resource) -> Command | None:
    """Not while it gets traffic: then Azure refuses."""
    gets_none = resource.details is not None and resource.details.traffic_percent == 0
    return lines.command("Delete it now", DELETE_DEPLOYMENT, resource) if gets_none else None


def _delete_blocked(details: DeploymentDetails) -> Blocked | None:
    share, mirrored = details.traffic_percent, details.mirrored_percent
    if share is None or mirrored is None:
        return Blocked(because="its share of its endpoint's traffic is unknown")
    if details.endpoint_created is None:
        return Blocked(because="its endpoint's creation time is unknown, so the endpoint couldn't be recognized later")
    if details.unclear_asset_because:
        return Blocked(because=details.unclear_asset_because)
    if mirrored:
        return Blocked(because=f"it gets {mirrored}% of its endpoint's traffic mirrored")
    if share and (details.siblings or share != 100):
        others = ", ".join(details.siblings) or "another deployment"
        return Blocked(because=f"it gets {share}% of its endpoint's traffic; shift that to {others} first")
    return None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="scaled to one instance",
        noun="scale-in",
        effect="scales it to one instance, because Azure can't stop it. Not if Azure Monitor's autoscale keeps more; and an autoscale "
        "that adds instances under load will undo it",
        undo="scales it back to as many instances as it had",
        permissions=(f"{listing.DEPLOYMENT_ROOT}/write",),
        no_effect_where="a deployment with one instance stays as it is and costs the same, because Azure allows no fewer; "
        "`then: {action: delete, after: 14d}` or `action: delete` ends that",
        still_billed="that instance",
    ),
    StepName.DELETE: ActionSpec(
        participle="deleted",
        effect="deletes it if it gets no traffic, or if it is its endpoint's only deployment, whose traffic is set to 0% first. Refused if its "
        "model, environment or code version no longer exists; those in a registry are assumed to exist. Setting the traffic of an endpoint "
        "with user-assigned identities takes the permission to assign each of them. Its settings are stored first, environment variables "
        "included, and those may contain secrets: keep the store of manifests private",
        undo="recreates it with its model, settings, tags, instances and, once it is ready, its traffic",
        permissions=(
            f"{listing.DEPLOYMENT_ROOT}/delete",
            f"{listing.ENDPOINT_ROOT}/write",
            listing.ASSIGN_IDENTITY,
            *READ_ASSETS,
        ),
    ),
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML managed online deployment",
    docs="https://learn.microsoft.com/azure/machine-learning/concept-endpoints-online",
    permissions=(*listing.PERMISSIONS, METRICS_PERMISSION, READ_AUTOSCALE),
    activity="RequestsPerMinute (Average) above 0",
    heartbeat="points of CpuUtilizationPercentage or DeploymentCapacity",
    without_proof="unknown; exempt on Kubernetes, whose nodes Azure ML doesn't bill, and if it has no instances",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    parts_after=parts_after,
    actions=ACTION_SPECS,
    commands={
        StepName.STOP: partial(lines.command, "Scale it to one instance now", SCALE_DEPLOYMENT),
        StepName.DELETE: _delete_command,
    },
    keep_line=lines.keep_line,
    console_url=lines.console_url,
    place=lines.place,
    price_keys=("Linux",),
    details=DeploymentDetails,
)
