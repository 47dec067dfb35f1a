"""The online deployments of all workspaces with their endpoints: in bulk through Resource Graph, and one by one if it doesn't show them.

Resource Graph leaves out what the identity may not read, so a workspace without a single endpoint there is asked directly:
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
An endpoint divides its traffic in whole percents by name, 0 or 100 in total:
https://learn.microsoft.com/azure/machine-learning/concept-online-deployment-model
Azure Monitor's autoscale restores the instances that its settings keep:
https://learn.microsoft.com/rest/api/monitor/autoscalesettings/list-by-subscription
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.azure import workspaces
from reaper.azure.requests import ArmRequest, Json, inherited_tags, parse_time, read_tags, reading, region_key, valid_count
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace, comparable_id, last_segment, workspace_id, workspace_request
from reaper.errors import CloudError, Reason, gone_as_partial
from reaper.kind import no_line
from reaper.model import BilledPart, Resource

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


NAME = "azureml-online-deployment"
ENDPOINT_ROOT = f"{PROVIDER}/workspaces/onlineEndpoints"
DEPLOYMENT_ROOT = f"{ENDPOINT_ROOT}/deployments"
ASSIGN_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
"""Needed on each user-assigned identity of an endpoint that is written, though nothing about it changes."""
READ_ENDPOINTS, READ_DEPLOYMENTS = f"{ENDPOINT_ROOT}/read", f"{DEPLOYMENT_ROOT}/read"
WRITE_ENDPOINT, WRITE, DELETE = f"{ENDPOINT_ROOT}/write", f"{DEPLOYMENT_ROOT}/write", f"{DEPLOYMENT_ROOT}/delete"
PERMISSIONS = (*workspaces.PERMISSIONS, READ_ENDPOINTS, READ_DEPLOYMENTS)
GRAPH_TYPES = (f"{TYPE}/onlineEndpoints", f"{TYPE}/onlineEndpoints/deployments")
REQUIRED_KEYS = ("id", "name", "properties")
Requests = Callable[[str], ArmRequest]
"""A request for each ID."""
PAGE_LENGTH = 30
"""The number of rows that a page of a list is expected to have. It only decides how something is read."""
READ_AUTOSCALE, AUTOSCALE_VERSION = "Microsoft.Insights/autoscaleSettings/read", "2022-10-01"
AUTOSCALE = "its Azure Monitor autoscale, which might undo a scale-in,"
TRAFFIC_KEY, MIRROR_KEY = "traffic", "mirrorTraffic"
CHANGING_STATES, BROKEN_STATES = {"Creating", "Updating", "Scaling"}, {"Failed", "Canceled"}
READ_ONLY_PROPERTIES = {"provisioningState", "scoringUri", "swaggerUri"}
"""Properties of endpoints and deployments that Azure fills in."""
LAST_OPERATION_PROPERTY = "azureasyncoperationuri"
"""A free property of endpoints and deployments in which Azure notes the operation that last changed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """As Azure returned each. `endpoint`: empty if it wasn't listed. `siblings`: the names of the endpoint's other deployments."""

    row: Json
    endpoint: Json
    workspace: Workspace
    siblings: frozenset[str] = frozenset()

    @property
    def state(self) -> dict[str, Json]:
        """The two replies, as they are stored before an action."""
        return {"deployment": self.row, "endpoint": self.endpoint}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDetails:
    """One deployment with what its endpoint says of it.

    `instances`: None if unknown. `states_instances`: Azure returned a number at all. `siblings`: the names of the endpoint's other
    deployments, sorted. `scale_settings`: as Azure returned them. `traffic_percent`, `mirrored_percent`: None if unknown. `endpoint_state`: empty if the endpoint wasn't listed.
    `unclear_asset_because`: why it might not be possible to recreate it. `autoscale_because`: why autoscale would undo a scale-in, or that
    nothing is known of it; None if it wouldn't. `settings_digest`, `endpoint_digest`: of everything that people can set about it, and about its
    endpoint but for its own share of the traffic; None unless it was read for an action.
    """

    provisioning_state: str
    instances: int | None
    states_instances: bool
    on_kubernetes: bool
    workspace: Workspace
    siblings: tuple[str, ...] = ()
    scale_settings: Any = None
    traffic_percent: int | None = None
    mirrored_percent: int | None = None
    endpoint_state: str = ""
    endpoint_created: datetime | None = None
    unclear_asset_because: str | None = None
    autoscale_because: str | None = f"{AUTOSCALE} wasn't read"
    settings_digest: str | None = None
    endpoint_digest: str | None = None


def details_of(deployment: Deployment) -> DeploymentDetails:
    """The details of a deployment as Azure returned it. Raises one of the reading errors if its shape is unexpected."""
    row, endpoint, properties = deployment.row, deployment.endpoint, deployment.row["properties"]
    capacity = (row.get("sku") or {}).get("capacity")
    return DeploymentDetails(
        provisioning_state=str(properties.get("provisioningState") or ""),
        instances=valid_count(capacity),
        states_instances=capacity is not None,
        on_kubernetes=str(properties.get("endpointComputeType")).lower() == "kubernetes",
        workspace=deployment.workspace,
        siblings=tuple(sorted(deployment.siblings)),
        scale_settings=properties.get("scaleSettings"),
        traffic_percent=traffic_of(deployment.state)[0],
        mirrored_percent=traffic_of(deployment.state, MIRROR_KEY)[0],
        endpoint_state=str((endpoint.get("properties") or {}).get("provisioningState") or ""),
        endpoint_created=_created_at(endpoint),
        unclear_asset_because=workspaces.unclear_because(row, deployment.workspace),
    )


def status_text(details: DeploymentDetails) -> str:
    """Its state, and that it gets no traffic."""
    return f"{details.provisioning_state}{', 0% of the traffic' if details.traffic_percent == 0 else ''}"


def _created_at(endpoint: Mapping[str, Any]) -> datetime | None:
    """When the endpoint was created; None if unknown, which only blocks a delete."""
    with suppress(CloudError), reading(READ_ENDPOINTS, "its endpoint"):
        return parse_time((endpoint.get("systemData") or {}).get("createdAt"))
    return None


def deployment_resource(cloud: CloudSession, deployment: Deployment) -> Resource:
    """The deployment as a resource. Raises one of the reading errors if its shape is unexpected."""
    row, endpoint, details = deployment.row, deployment.endpoint, details_of(deployment)
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
        status=status_text(details),
        size=f"{size} x{count}" if size and count is not None else size or "",
        parts=() if details.on_kubernetes or count == 0 else parts,
        tags=inherited_tags(own_tags, endpoint_tags, deployment.workspace.tags),
        people={"created by": str(system["createdBy"])} if system.get("createdBy") else {},
        details=details,
        # Resource Graph spells sizes differently from the source itself.
        fingerprint=f"{count} x {str(size).upper()}",
    )


def list_deployments(cloud: CloudSession) -> Iterator[Resource]:
    """`Kind.discover`: every deployment of every online endpoint, whatever its share of the traffic, and once, even if Azure lists it in several
    spellings. What can't be read of a workspace or an endpoint is an error of the session. Raises CloudError if the workspaces can't be listed.
    """
    spaces = {space.key: space for space in workspaces.list_workspaces(cloud).workspaces}
    endpoints, deployments = _rows_from_graph(cloud) if spaces else ({}, {})
    shown = {workspace_id(key) for key in (*endpoints, *deployments)}
    hidden = [space.id for key, space in spaces.items() if key not in shown]
    endpoints |= _list_below(cloud, READ_ENDPOINTS, "onlineEndpoints", workspace_request, hidden)
    filled = {endpoint_id(key) for key in deployments}
    known = {key: row for key, row in endpoints.items() if workspace_id(key) in spaces}
    bare = [row["id"] for key, row in known.items() if key not in filled]
    deployments |= _list_below(cloud, READ_DEPLOYMENTS, "deployments", endpoint_request, bare)
    names: dict[str, set[str]] = defaultdict(set)
    for key in deployments:
        names[endpoint_id(key)].add(last_segment(key))
    listed = [
        Deployment(
            row=row, endpoint=endpoints.get(above, {}), workspace=space, siblings=frozenset(names[above] - {last_segment(key)})
        )
        for key, row in deployments.items()
        if (above := endpoint_id(key)) and (space := spaces.get(workspace_id(key)))
    ]
    yield from cloud.each(READ_DEPLOYMENTS, listed, partial(deployment_resource, cloud), lambda one: one.row["id"])


def _rows_from_graph(cloud: CloudSession) -> tuple[dict[str, Json], dict[str, Json]]:
    """Those that Resource Graph shows, by ID in lower case. None if it fails: then each workspace is asked, which costs calls and loses nothing."""
    by_type: dict[str, dict[str, Json]] = {name.lower(): {} for name in GRAPH_TYPES}
    with suppress(CloudError):
        for row in list(workspaces.list_resources(cloud, *GRAPH_TYPES)):
            by_type[row["type"].lower()].setdefault(row["id"].lower(), row)
    endpoints, deployments = by_type.values()
    return endpoints, deployments


def _list_below(
    cloud: CloudSession, permission: str, collection: str, request: Requests, parents: Sequence[str], *, quietly: bool = False
) -> dict[str, Json]:
    """What the `parents` (IDs), each read by `request`, have in that collection, by ID in lower case. What can't be read is an error of the session, unless it is
    read `quietly`; of a parent that is gone, there is nothing.
    """
    report = no_line if quietly else cloud.add_error

    def list_one(above: str) -> dict[str, Json]:
        rows: dict[str, Json] = {}
        path = f"{above}/{collection}"
        try:
            for row in cloud.paged_rows(permission, path, required_keys=REQUIRED_KEYS, on_bad_row=report):
                if row["id"].lower().startswith(f"{comparable_id(path)}/"):
                    rows.setdefault(row["id"].lower(), row)
                else:
                    report(CloudError(Reason.UNREADABLE, permission, f"{row['id']} isn't below {above}"))
        except CloudError as error:
            if not quietly and not cloud.failed_as_gone(error, request(above)):
                report(error)
            return {}
        return rows

    return {key: row for rows in cloud.map_concurrently(list_one, parents) for key, row in rows.items()}


def list_current_rows(cloud: CloudSession, silent: Iterable[str], listed: Iterable[str]) -> dict[str, Json]:
    """The `silent` deployments and their endpoints as they are now, by ID in lower case, as far as lists take fewer calls than reading each.

    `listed`: the IDs of all deployments. What a list doesn't show, or what fails, is left out: it is read alone, which reports the failure.
    """
    rows: dict[str, Json] = {}
    wanted, known = {one.lower(): one for one in silent}, {one.lower() for one in listed}
    for permission, collection, above, request in (
        (READ_DEPLOYMENTS, "deployments", endpoint_id, endpoint_request),
        (READ_ENDPOINTS, "onlineEndpoints", workspace_id, workspace_request),
    ):
        counts, lengths, parents = Counter(map(above, wanted)), Counter(map(above, known)), map(above, wanted.values())
        by_key = {parent.lower(): parent for parent in parents}
        # Those whose collection takes fewer calls to list than its wanted members take to read.
        shorter = [parent for key, parent in by_key.items() if counts[key] > math.ceil(lengths[key] / PAGE_LENGTH)]
        found = _list_below(cloud, permission, collection, request, shorter, quietly=True)
        rows |= {key: row for key, row in found.items() if key in wanted}
        wanted, known = by_key, set(map(above, known))
    return rows


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """`Table.read_now`: the deployment with its own, its endpoint's and its workspace's tags and settings, its traffic, siblings and autoscale as they
    are now, and the subscription's state. Raises CloudError.

    The deployment comes last, after its endpoint: a call before it may wait for minutes, and what it shows must be as of now.
    """
    with_autoscale(cloud, resource)  # so that nothing is read after the deployment
    space, above, own = resource.details.workspace, endpoint_request(resource.id), deployment_request(resource.id)
    workspaces.require_inside(cloud, resource.id, space)
    try:
        with gone_as_partial():
            workspaces.read_subscription(cloud, again=True)
            space = workspaces.read_workspace_now(cloud, space)
            rows = cloud.paged_rows(READ_DEPLOYMENTS, f"{above.path}/deployments", required_keys=REQUIRED_KEYS)
            names = frozenset(last_segment(other["id"].lower()) for other in rows)
            endpoint = cloud.call(above)
    except CloudError:
        cloud.call(own)  # if it is gone itself, that is the reason
        raise
    row, siblings = cloud.call(own), names - {last_segment(resource.id.lower())}
    deployment = Deployment(row=row, endpoint=endpoint, workspace=space, siblings=siblings)
    with reading(READ_DEPLOYMENTS, row["id"]):
        fresh = deployment_resource(cloud, deployment)
        details = with_digests(fresh.details, deployment.state)
    return with_autoscale(cloud, replace(fresh, id=resource.id, name=resource.name, details=details))


def read_row_and_endpoint(
    cloud: CloudSession, deployment_id: str, current: Mapping[str, Json] | None = None
) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself unless `current` has them. Raises CloudError."""
    current, above = current or {}, endpoint_request(deployment_id)
    row, key = current.get(deployment_id.lower()) or cloud.call(deployment_request(deployment_id)), above.path.lower()
    return row, current.get(key) or cloud.read_once(("endpoint", key), partial(cloud.call, above))


def deployment_request(deployment_id: str) -> ArmRequest:
    """Reads one deployment."""
    return ArmRequest(permission=READ_DEPLOYMENTS, path=deployment_id, required_keys=REQUIRED_KEYS)


def endpoint_request(resource_id: str) -> ArmRequest:
    """Reads the endpoint with that ID, or that of the deployment."""
    return ArmRequest(permission=READ_ENDPOINTS, path=endpoint_id(resource_id), required_keys=("id", "properties"))


def endpoint_id(resource_id: str) -> str:
    """The ID of an endpoint from its own or that of a deployment of it."""
    return "/".join(resource_id.split("/")[:11])


def with_autoscale(cloud: CloudSession, resource: Resource) -> Resource:
    """The same, with what Azure Monitor's autoscale would undo: the most instances that a profile keeps, or its default, which applies while
    metrics are missing. Only read for a deployment that could be scaled in, and once for the whole subscription: a setting may be in another
    resource group than what it scales.
    """
    details: DeploymentDetails = resource.details
    if details.on_kubernetes or (details.instances or 0) <= 1:
        return resource
    try:
        settings = cloud.read_once("autoscale", partial(_autoscale_by_target, cloud))
        with reading(READ_AUTOSCALE, "an autoscale setting"):
            enabled = [row["properties"] for row in settings.get(resource.id.lower(), ()) if row["properties"].get("enabled")]
            capacities = [profile["capacity"] for properties in enabled for profile in properties["profiles"]]
            minimum = max((int(capacity[bound]) for capacity in capacities for bound in ("minimum", "default")), default=0)
        keeps = f"its Azure Monitor autoscale keeps at least {minimum} instances and would undo a scale-in"
        because = keeps if minimum > 1 else None
    except CloudError as error:
        because = f"{AUTOSCALE} couldn't be read: {error}"
    return replace(resource, details=replace(details, autoscale_because=because))


def autoscale_path(cloud: CloudSession) -> str:
    return f"{cloud.home}/providers/Microsoft.Insights/autoscalesettings?api-version={AUTOSCALE_VERSION}"


def _autoscale_by_target(cloud: CloudSession) -> dict[str, list[Json]]:
    settings: dict[str, list[Json]] = {}
    with reading(READ_AUTOSCALE, "an autoscale setting"):
        path = autoscale_path(cloud)
        for row in cloud.paged_rows(READ_AUTOSCALE, path, required_keys=("id", "properties")):
            settings.setdefault(str(row["properties"].get("targetResourceUri")).lower(), []).append(row)
    return settings


def traffic_of(state: Mapping[str, Any], map_key: str = TRAFFIC_KEY) -> tuple[int | None, dict[str, Any]]:
    """The percentage of its endpoint's traffic that a deployment gets, 0 if it isn't named, None if unknown; and the others', as Azure writes them."""
    properties, name = state["endpoint"].get("properties"), state["deployment"]["name"].lower()
    shares = properties.get(map_key) if isinstance(properties, dict) else ()
    if shares is not None and not isinstance(shares, dict):
        return None, {}
    own = [value for key, value in (shares or {}).items() if key.lower() == name]
    others = {key: value for key, value in (shares or {}).items() if key.lower() != name}
    are_valid = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100 for value in own)
    return sum(own) if are_valid else None, others


def others_with_traffic(state: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of all deployments but this one that have one."""
    return {other: percent for other, percent in traffic_of(state)[1].items() if percent}


def with_digests(details: DeploymentDetails, state: Mapping[str, Any]) -> DeploymentDetails:
    """The same with the digests of the deployment's settings and its endpoint's."""
    own = _digest(chosen_settings(state["deployment"]))
    return replace(details, settings_digest=own, endpoint_digest=endpoint_digest(state))


def endpoint_digest(state: Mapping[str, Any]) -> str:
    """The digest of everything that people can set about an endpoint, but for the traffic that the deployment gets."""
    settings = chosen_settings(state["endpoint"])
    return _digest({**settings, "properties": {**settings["properties"], TRAFFIC_KEY: others_with_traffic(state)}})


def _digest(settings: Mapping[str, Any]) -> str:
    """The same for equal settings, and as good as never for others."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def chosen_settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: equal before and after an operation that changes none of it."""
    settings = writable_body(body)
    free = settings["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION_PROPERTY} if isinstance(free, dict) else free
    return {**settings, "tags": settings.get("tags") or {}, "properties": {**settings["properties"], "properties": chosen or {}}}


def writable_body(body: Mapping[str, Any]) -> Json:
    """What PUT accepts of an endpoint or deployment as it was read: all but what Azure fills in."""
    outer = {key: body[key] for key in ("location", "kind", "tags", "sku") if body.get(key) is not None}
    properties = {key: value for key, value in body["properties"].items() if key not in READ_ONLY_PROPERTIES}
    if identity := body.get("identity"):  # by type and name: Azure assigns their object IDs
        users = identity.get("userAssignedIdentities")
        outer["identity"] = {"type": identity["type"]} | (
            {"userAssignedIdentities": {user: {} for user in users}} if users else {}
        )
    return {**outer, "properties": properties}
