"""Deployments of managed online endpoints, each on its own: leftovers of a blue/green change cost as much as the serving deployment.

Metrics, Average only if so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
Changes: https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reaper.azure import assets, deployments, lines, metrics
from reaper.azure.deployments import BROKEN_STATES, CHANGING_STATES, Deployment, DeploymentDetails, deployment_request
from reaper.azure.metrics import MetricQuery, MetricResults, MetricSource, activity_reading, heartbeat_reading
from reaper.azure.reader import Deletion, Scaling, State, Table, kind_of, needs_closer_look, state_in, state_not_in
from reaper.azure.requests import (
    ArmChange,
    ArmRequest,
    Json,
    inherited_tags,
    parse_row,
    parse_time,
    read_tags,
    reading,
    region_key,
    valid_count,
)
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.evidence import first_read_from, is_recent, merge_heartbeats
from reaper.kind import Command, by_status, is_decided, status_rule
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
ON_KUBERNETES = "it runs on your own Kubernetes nodes, which Azure ML doesn't bill"
WRITE, DELETE = f"{deployments.DEPLOYMENT_ROOT}/write", f"{deployments.DEPLOYMENT_ROOT}/delete"
WRITE_ENDPOINT = f"{deployments.ENDPOINT_ROOT}/write"
PERCENT = "percent"
ONE_DEPLOYMENT = "--name {deployments} --endpoint-name {onlineendpoints}" + lines.IN_WORKSPACE


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags and settings, its traffic, siblings and autoscale as they are now."""
    deployments.with_autoscale(cloud, resource)  # so that nothing is read after the deployment
    deployment = deployments.read_deployment_now(cloud, resource.id, resource.details.workspace)
    with reading(deployments.READ_DEPLOYMENTS, deployment.row["id"]):
        fresh = deployment_resource(cloud, deployment)
        own_details = deployments.with_digests(fresh.details, deployment.row, deployment.endpoint)
    return deployments.with_autoscale(cloud, replace(fresh, id=resource.id, name=resource.name, details=own_details))


def deployment_resource(cloud: CloudSession, deployment: Deployment) -> Resource:
    """The deployment as a resource. Raises one of the reading errors if its shape is unexpected."""
    row, endpoint, details = deployment.row, deployment.endpoint, deployments.details_of(deployment)
    system, size, count = row.get("systemData") or {}, row["properties"].get("instanceType"), details.instances
    parts = (BilledPart(component="Linux", instance=size, count=count),) if isinstance(size, str) and size and count else None
    own_tags, endpoint_tags = read_tags(row.get("tags")), read_tags(endpoint.get("tags"))
    return Resource(
        kind=NAME,
        id=row["id"],
        name=f"{endpoint.get('name') or row['id'].split('/')[-3]}/{row['name']}",
        target=cloud.target,
        region=region_key(row.get("location") or deployment.workspace.region),
        created=parse_time(system.get("createdAt")),
        changed=parse_time(system.get("lastModifiedAt")),
        status=deployments.status_text(details),
        size=f"{size} x{count}" if size and count is not None else size or "",
        parts=() if details.on_kubernetes or count == 0 else parts,
        tags=inherited_tags(own_tags, endpoint_tags, deployment.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        details=details,
        # Resource Graph spells sizes differently from the source itself.
        fingerprint=f"{count} x {str(size).upper()}",
    )


def with_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> list[Observation]:
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
    whole = [one for one in first if all(reading.complete for reading in one.readings)]
    silent = [one for one in whole if needs_closer_look(one) and not is_recent(one, window)]
    read = {one.resource.id: one for one in (*first, *_with_readings(cloud, [*in_full, *silent], window))}
    return [read.get(one.resource.id, one) for one in observations]


def _with_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterator[Observation]:
    sources = [MetricSource(id=one.resource.id, region=one.resource.region) for one in observations]
    results = metrics.fetch_metrics(cloud, sources, TRAFFIC_QUERY, window, is_gone=partial(deployments.is_gone, cloud))
    for one in observations:
        is_gone = one.resource.id.lower() in results.gone_ids
        yield replace(one, is_gone=True) if is_gone else replace(one, readings=_to_readings(one.resource, results))


def _to_readings(resource: Resource, results: MetricResults) -> tuple[Reading, ...]:
    requests, cpu, capacity = (results.result_of(resource.id, metric) for metric in TRAFFIC_QUERY.metrics)
    heartbeat = merge_heartbeats(
        heartbeat_reading("CpuUtilizationPercentage", cpu), heartbeat_reading("DeploymentCapacity", capacity)
    )
    return (activity_reading("RequestsPerMinute", requests), heartbeat)


def as_it_is_now(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterable[Observation]:
    """Those that were silent, as the source itself describes them now."""
    silent = [one.resource.id for one in observations if needs_closer_look(one)]
    current = deployments.list_current_rows(cloud, silent, [one.resource.id for one in observations])
    return cloud.map_concurrently(partial(_as_it_is_now, cloud, current), observations)


def _as_it_is_now(cloud: CloudSession, current: Mapping[str, Json], observation: Observation) -> Observation:
    if not needs_closer_look(observation):
        return observation
    try:
        fresh = _resource_now(cloud, observation.resource, current)
    except CloudError as error:
        if error.operation == deployments.READ_DEPLOYMENTS and error.reason is Reason.GONE:
            return replace(observation, is_gone=True)
        cloud.add_error(error)
        is_odd = error.reason is Reason.UNREADABLE
        because = "its description can't be read" if is_odd else f"it couldn't be read again: {error}"
        return replace(observation, unknown_because=because)
    return by_status(replace(observation, resource=fresh), (*STATES, *ENDPOINT_STATES))


def _resource_now(cloud: CloudSession, listed: Resource, current: Mapping[str, Json]) -> Resource:
    row, endpoint = deployments.read_row_and_endpoint(cloud, listed.id, current)
    siblings = frozenset(listed.details.siblings)
    deployment = Deployment(row=row, endpoint=endpoint, workspace=listed.details.workspace, siblings=siblings)
    fresh = parse_row(deployments.READ_DEPLOYMENTS, row, lambda row: deployment_resource(cloud, deployment))
    return replace(fresh, id=listed.id, name=listed.name)


def with_autoscale_of_all(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterable[Observation]:
    """All that are still there, whatever was decided: their autoscale may block a scale-in."""
    return (
        one if one.is_gone else replace(one, resource=deployments.with_autoscale(cloud, one.resource)) for one in observations
    )


def state_without_instances(resource: Resource) -> str | None:
    details: DeploymentDetails = resource.details
    is_empty = details.provisioning_state in BROKEN_STATES and not details.states_instances
    return details.provisioning_state or "missing" if details.instances == 0 or is_empty else None


OWN, ENDPOINTS, SOUND = "provisioning_state", "endpoint_state", {"Succeeded", *BROKEN_STATES}
STATES = (
    status_rule("free", lambda resource: resource.details.on_kubernetes, ON_KUBERNETES),
    status_rule("free", partial(state_in, {"Deleting"}, OWN), "it is being deleted"),
    status_rule("changing", partial(state_in, CHANGING_STATES, OWN), "its state is {0}"),
    status_rule("free", state_without_instances, "its state is {0} and it has no instances, so it costs nothing"),
    status_rule("unknown", partial(state_not_in, SOUND, OWN), "its state is {0}"),
)
ENDPOINT_STATES = (
    status_rule("free", partial(state_in, {"Deleting"}, ENDPOINTS), "its endpoint is being deleted"),
    status_rule("changing", partial(state_in, CHANGING_STATES, ENDPOINTS), "its endpoint's state is {0}"),
    status_rule("unknown", partial(state_not_in, SOUND, ENDPOINTS), "its endpoint's state is {0}"),
)
"""An endpoint that is being changed may be moving its traffic at this very moment."""


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """Scaled to one instance it still costs that instance."""
    if action is not StepName.STOP or resource.parts is None:
        return ()
    return tuple(replace(part, count=min(part.count, 1)) for part in resource.parts)


def state_guard(resource: Resource, action: StepName) -> Blocked | None:
    """Its own state and its endpoint's. A state that the action led to says that it was carried out."""
    details: DeploymentDetails = resource.details
    state = details.provisioning_state
    if details.on_kubernetes:
        return Blocked(because=ON_KUBERNETES)
    if state not in SOUND:
        is_scaled_in = state in CHANGING_STATES and details.instances == 1
        is_done = is_scaled_in if action is StepName.STOP else state == "Deleting"
        return Blocked(because=f"its state is {state or 'missing'}", already_done=is_done)
    if details.endpoint_state in {*CHANGING_STATES, "Deleting"}:
        return Blocked(because=f"its endpoint's state is {details.endpoint_state}")
    return None


def scale_in_guard(resource: Resource) -> Blocked | None:
    """What keeps it from being scaled to one instance."""
    if blocked := state_guard(resource, StepName.STOP):
        return blocked
    details: DeploymentDetails = resource.details
    instances, scale = details.instances, details.scale_settings or {}
    if instances is None:
        return Blocked(because="its instance count is unknown")
    if instances <= 1:
        count = "one instance" if instances else "no instance"
        return Blocked(because=f"it already has {count}, and Azure allows no fewer", already_done=True)
    if str(scale.get("scaleType")).lower() == "targetutilization" and scale.get("minInstances") not in (None, 0, 1):
        return Blocked(because=f"its autoscaling keeps at least {scale['minInstances']} instances and would undo a scale-in")
    return Blocked(because=details.autoscale_because) if details.autoscale_because else None


def delete_guard(resource: Resource) -> Blocked | None:
    """What keeps it from being deleted."""
    details: DeploymentDetails = resource.details
    share, mirrored = details.traffic_percent, details.mirrored_percent
    if blocked := state_guard(resource, StepName.DELETE):
        return blocked
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


def sku(state: State) -> Json:
    """Raises CloudError if its instance count is unknown."""
    row = state["deployment"]
    if valid_count((row.get("sku") or {}).get("capacity")) is None:
        raise CloudError(Reason.UNREADABLE, deployments.READ_DEPLOYMENTS, f"the instance count of {row['name']} is unknown")
    return dict(row["sku"])


def set_sku(deployment_id: str, state: State, sku: Json) -> ArmChange:
    """Tags aren't sent along: as they were read they might undo one that was set just now."""
    return ArmChange(permission=WRITE, path=deployment_id, body={"sku": sku}, method="PATCH")


def its_endpoint(deployment_id: str) -> ArmRequest:
    return deployments.endpoint_request(deployments.endpoint_id(deployment_id))


def share(state: State) -> Json:
    """Raises CloudError if it can't be read."""
    percent = deployments.traffic_percent(state["endpoint"], state["deployment"]["name"])
    if percent is None:
        text = "its share of its endpoint's traffic can't be read"
        raise CloudError(Reason.UNREADABLE, deployments.READ_ENDPOINTS, text)
    return {PERCENT: percent}


def set_share(deployment_id: str, state: State, share: Json) -> ArmChange:
    """The whole endpoint, as it was read just before."""
    body, endpoint = deployments.writable_body(state["endpoint"]), state["endpoint"]
    shares = deployments.with_traffic_percent(endpoint, state["deployment"]["name"], share[PERCENT])
    body["properties"] = {**body["properties"], deployments.TRAFFIC_KEY: shares}
    return ArmChange(permission=WRITE_ENDPOINT, path=deployments.endpoint_id(deployment_id), body=body, method="PUT")


def delete_line(resource: Resource) -> Command | None:
    """Not while it gets traffic: then Azure refuses."""
    gets_none = resource.details is not None and resource.details.traffic_percent == 0
    line = "az ml online-deployment delete " + ONE_DEPLOYMENT
    return lines.command("Delete it now", line, resource) if gets_none else None


TABLE = Table(
    name=NAME,
    title="Azure ML managed online deployment",
    docs="https://learn.microsoft.com/azure/machine-learning/concept-endpoints-online",
    permissions=(*deployments.PERMISSIONS, metrics.PERMISSION, deployments.READ_AUTOSCALE),
    activity="RequestsPerMinute (Average) above 0",
    heartbeat="points of CpuUtilizationPercentage or DeploymentCapacity",
    without_proof="unknown; exempt on Kubernetes, whose nodes Azure ML doesn't bill, and if it has no instances",
    discover=partial(deployments.list_deployments, deployment_resource),
    read_now=read_now,
    states=STATES,
    signals=with_readings,
    closer_looks=(as_it_is_now, with_autoscale_of_all),
    undo_permissions=(WRITE, WRITE_ENDPOINT, deployments.ASSIGN_IDENTITY),
    actions={
        StepName.STOP: Scaling(
            participle="scaled to one instance",
            noun="scale-in",
            effect="scales it to one instance, because Azure can't stop it. Not if Azure Monitor's autoscale keeps more; and an autoscale "
            "that adds instances under load will undo it",
            undo="scales it back to as many instances as it had",
            permissions=(WRITE,),
            no_effect_where="a deployment with one instance stays as it is and costs the same, because Azure allows no fewer; "
            "`then: {action: delete, after: 14d}` or `action: delete` ends that",
            still_billed="that instance",
            what="capacity",
            text="{} instances".format,
            to=1,
            number="capacity",
            of=deployment_request,
            section=sku,
            change=set_sku,
            guard=scale_in_guard,
            outcome="scaling it from {capacity} instances to one has started; the next sweep checks the result",
            is_checked=False,
        ),
        StepName.DELETE: Deletion(
            participle="deleted",
            effect="deletes it if it gets no traffic, or if it is its endpoint's only deployment, whose traffic is set to 0% first. Refused if its "
            "model, environment or code version no longer exists; those in a registry are assumed to exist. Setting the traffic of an endpoint "
            "with user-assigned identities takes the permission to assign each of them. Its settings are stored first, environment variables "
            "included, and those may contain secrets: keep the store of manifests private",
            undo="recreates it with its model, settings, tags, instances and, once it is ready, its traffic",
            permissions=(DELETE, WRITE_ENDPOINT, deployments.ASSIGN_IDENTITY, *assets.PERMISSIONS),
            guard=delete_guard,
            first=Scaling(
                permissions=(WRITE_ENDPOINT,),
                what="traffic",
                to=0,
                number=PERCENT,
                of=its_endpoint,
                section=share,
                change=set_share,
                text="{}%".format,
            ),
        ),
    },
    parts_after=parts_after,
    commands={
        StepName.STOP: partial(
            lines.command,
            "Scale it to one instance now",
            f"az ml online-deployment update {ONE_DEPLOYMENT} --set instance_count=1",
        ),
        StepName.DELETE: delete_line,
    },
    keep_line=lines.keep_line,
    price_keys=("Linux",),
    details=DeploymentDetails,
)
KIND = kind_of(TABLE)
