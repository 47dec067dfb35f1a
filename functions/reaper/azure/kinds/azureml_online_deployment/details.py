"""What the kind `azureml-online-deployment` needs to know of one deployment: its endpoint, its traffic, its assets and its autoscale.

An endpoint divides its traffic in whole percents by name, 0 or 100 in total:
https://learn.microsoft.com/azure/machine-learning/concept-online-deployment-model
A deployment names a version of a model, an environment and code, each in one of several spellings. Azure deletes it without checking whether these
still exist, and then it couldn't be recreated:
https://learn.microsoft.com/azure/templates/microsoft.machinelearningservices/workspaces/onlineendpoints/deployments and, for the spellings,
https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax#referencing-an-azure-ml-resource
Azure Monitor's autoscale restores the instances that its settings keep:
https://learn.microsoft.com/rest/api/monitor/autoscalesettings/list-by-subscription
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.azure.kinds.azureml_online_deployment.listing import Deployment
from reaper.azure.requests import ArmRequest, Json, parse_time, reading, valid_count
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace
from reaper.errors import CloudError, Reason
from reaper.model import Resource

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


PERMISSION, API_VERSION = "Microsoft.Insights/autoscaleSettings/read", "2022-10-01"
TRAFFIC_KEY, MIRROR_KEY = "traffic", "mirrorTraffic"
COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
EXISTS = "it exists"
ASSUMED_THERE = "it is in a registry, which these permissions can't read: it is assumed to exist"
SEGMENT_PATTERN = r"[^/?#:@\s]+"
WORKSPACE_PATTERN = rf"(?P<group>subscriptions/{SEGMENT_PATTERN}/resourceGroups/{SEGMENT_PATTERN})/(?:providers/{re.escape(PROVIDER)}/)?workspaces/(?P<space>{SEGMENT_PATTERN})"
VERSION_PATTERN = (
    rf"(?P<collection>models|environments|codes)/(?P<name>{SEGMENT_PATTERN})/versions/(?P<version>{SEGMENT_PATTERN})"
)
SPELLINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:azureml:)?/{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://locations/{SEGMENT_PATTERN}/workspaces/(?P<guid>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml://registries/(?P<registry>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml:(?P<name>{SEGMENT_PATTERN}):(?P<version>{SEGMENT_PATTERN})",
    )
)
AUTOSCALE_NOT_READ = "its Azure Monitor autoscale, which might undo a scale-in, wasn't read"

READ_ONLY_PROPERTIES = {"provisioningState", "scoringUri", "swaggerUri"}
"""Properties of endpoints and deployments that Azure fills in."""
LAST_OPERATION_PROPERTY = "azureasyncoperationuri"
"""A free property of endpoints and deployments in which Azure notes the operation that last changed them."""


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
    autoscale_because: str | None = AUTOSCALE_NOT_READ
    settings_digest: str | None = None
    endpoint_digest: str | None = None


def deployment_details(deployment: Deployment) -> DeploymentDetails:
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
        traffic_percent=traffic_percent(endpoint, row["name"]),
        mirrored_percent=traffic_percent(endpoint, row["name"], MIRROR_KEY),
        endpoint_state=str((endpoint.get("properties") or {}).get("provisioningState") or ""),
        endpoint_created=_created_at(endpoint),
        unclear_asset_because=unclear_asset_because(row, deployment.workspace),
    )


def with_digests(details: DeploymentDetails, row: Json, endpoint: Json) -> DeploymentDetails:
    """The same with the digests of the deployment's settings and its endpoint's."""
    own = settings_digest(chosen_settings(row))
    return replace(details, settings_digest=own, endpoint_digest=endpoint_digest(endpoint, row["name"]))


def endpoint_digest(endpoint: Json, name: str) -> str:
    """The digest of everything that people can set about an endpoint, but for the traffic that the deployment `name` gets."""
    settings = chosen_settings(endpoint)
    properties = {**settings["properties"], TRAFFIC_KEY: other_shares(endpoint, name)}
    return settings_digest({**settings, "properties": properties})


def with_autoscale(cloud: CloudSession, resource: Resource) -> Resource:
    """The same, with what Azure Monitor's autoscale would undo. Autoscale is only read for a deployment that could be scaled in."""
    details: DeploymentDetails = resource.details
    if details.on_kubernetes or (details.instances or 0) <= 1:
        return resource
    try:
        minimum = minimum_instances(cloud, resource.id)
        because = (
            f"its Azure Monitor autoscale keeps at least {minimum} instances and would undo a scale-in" if minimum > 1 else None
        )
    except CloudError as error:
        because = f"its Azure Monitor autoscale, which might undo a scale-in, couldn't be read: {error}"
    return replace(resource, details=replace(details, autoscale_because=because))


def _created_at(endpoint: Mapping[str, Any]) -> datetime | None:
    """When the endpoint was created; None if unknown, which only blocks a delete."""
    try:
        with reading(f"{TYPE}/onlineEndpoints/read", "its endpoint"):
            return parse_time((endpoint.get("systemData") or {}).get("createdAt"))
    except CloudError:
        return None


def chosen_settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: equal before and after an operation that changes none of it."""
    settings = writable_body(body)
    free = settings["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION_PROPERTY} if isinstance(free, dict) else free
    return {**settings, "tags": settings.get("tags") or {}, "properties": {**settings["properties"], "properties": chosen or {}}}


def settings_digest(settings: Mapping[str, Any]) -> str:
    """The same for equal settings, and as good as never for others."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def writable_body(body: Mapping[str, Any]) -> Json:
    """What PUT accepts of an endpoint or deployment as it was read: all but what Azure fills in."""
    outer = {key: body[key] for key in ("location", "kind", "tags", "sku") if body.get(key) is not None}
    properties = {key: value for key, value in body["properties"].items() if key not in READ_ONLY_PROPERTIES}
    identity = body.get("identity")
    return {**outer, "properties": properties} | ({"identity": _identity_to_write(identity)} if identity else {})


def _identity_to_write(identity: Mapping[str, Any]) -> Json:
    """Identities by type and name. Azure assigns their object IDs."""
    users = identity.get("userAssignedIdentities")
    return {"type": identity["type"]} | ({"userAssignedIdentities": {user: {} for user in users}} if users else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One asset of a deployment. `path`: its path in Resource Manager; None if it is in a registry or not understood."""

    asset_type: str
    reference: object
    path: str | None = None
    is_in_registry: bool = False


def deployment_assets(row: Mapping[str, Any], space: Workspace) -> Iterator[Asset]:
    """The assets that a deployment of the workspace `space` names."""
    properties = row["properties"]
    code = properties.get("codeConfiguration") or {}
    written = {
        "model": properties.get("model"),
        "environment": properties.get("environmentId"),
        "code": code.get("codeId") if isinstance(code, dict) else code,
    }
    for asset_type, reference in written.items():
        if reference not in (None, ""):
            yield _parse_asset(asset_type, reference, space)


def unclear_asset_because(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why the deployment alone doesn't say what it would be recreated from; None if it does."""
    for asset in deployment_assets(row, space):
        if asset.path is None and not asset.is_in_registry:
            return f"its {asset.asset_type} isn't understood ({asset.reference}), so it might not be possible to recreate it"
    return None


def require_assets(cloud: CloudSession, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What the deployment would be recreated from, and how each is known to exist. Archived versions count: they can be used.

    Raises CloudError if an asset doesn't exist, can't be read or isn't understood.
    """
    return [
        {"what": asset.asset_type, "id": asset.reference, "because": _require_asset(cloud, asset)}
        for asset in deployment_assets(row, space)
    ]


def _require_asset(cloud: CloudSession, asset: Asset) -> str:
    if asset.is_in_registry:
        return ASSUMED_THERE
    permission = f"{TYPE}/{COLLECTIONS[asset.asset_type]}/versions/read"
    if asset.path is None:
        raise CloudError(Reason.REFUSED, permission, f"its {asset.asset_type} isn't understood ({asset.reference})")
    try:
        cloud.call(ArmRequest(permission=permission, path=asset.path, required_keys=("id", "properties")))
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        text = f"its {asset.asset_type} {asset.reference} no longer exists, so it couldn't be recreated"
        raise CloudError(Reason.REFUSED, permission, text, code=error.code) from error
    return EXISTS


def _parse_asset(asset_type: str, reference: object, space: Workspace) -> Asset:
    matches = (spelling.fullmatch(reference) for spelling in SPELLINGS) if isinstance(reference, str) else iter(())
    match = next(filter(None, matches), None)
    parts = match.groupdict() if match else {}
    if not parts or parts.get("collection", COLLECTIONS[asset_type]).lower() != COLLECTIONS[asset_type]:
        return Asset(asset_type=asset_type, reference=reference)
    if parts.get("registry"):
        return Asset(asset_type=asset_type, reference=reference, is_in_registry=True)
    home = _workspace_id(parts, space)
    below = f"{COLLECTIONS[asset_type]}/{parts['name']}/versions/{parts['version']}"
    return Asset(asset_type=asset_type, reference=reference, path=home and f"{home}/{below}")


def _workspace_id(parts: Mapping[str, str], space: Workspace) -> str | None:
    """The ID of the workspace that has it: the one named, or the deployment's own; None if it is another, named by its number."""
    if "group" in parts:
        return f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    if guid := parts.get("guid"):
        return space.id if space.guid and guid.lower() == space.guid.lower() else None
    return space.id


def minimum_instances(cloud: CloudSession, resource_id: str) -> int:
    """The most instances that any profile of its autoscale keeps; 0 if it has none. Raises CloudError.

    The settings of the whole subscription are read, once for all: one may be in another resource group than what it scales.
    """
    settings = cloud.read_once("autoscale", lambda: _settings_by_target(cloud))
    with reading(PERMISSION, "an autoscale setting"):
        return max((minimum for row in settings.get(resource_id.lower(), ()) for minimum in _profile_minimums(row)), default=0)


def _settings_by_target(cloud: CloudSession) -> dict[str, list[Json]]:
    path = f"/subscriptions/{cloud.target.account}/providers/Microsoft.Insights/autoscalesettings?api-version={API_VERSION}"
    settings: dict[str, list[Json]] = {}
    with reading(PERMISSION, "an autoscale setting"):
        for row in cloud.paged_rows(PERMISSION, path, required_keys=("id", "properties")):
            settings.setdefault(str(row["properties"].get("targetResourceUri")).lower(), []).append(row)
    return settings


def _profile_minimums(row: Json) -> Iterator[int]:
    """The minimum of each profile, and its default, which applies while metrics are missing."""
    if row["properties"].get("enabled"):
        for profile in row["properties"]["profiles"]:
            yield from (int(profile["capacity"][bound]) for bound in ("minimum", "default"))


def traffic_by_name(endpoint: Mapping[str, Any], map_key: str = TRAFFIC_KEY) -> dict[str, Any] | None:
    """The percentages as Azure writes them; None if the endpoint is unknown or its map can't be read."""
    properties = endpoint.get("properties")
    shares = properties.get(map_key) if isinstance(properties, dict) else ()
    return {} if shares is None else shares if isinstance(shares, dict) else None


def traffic_percent(endpoint: Mapping[str, Any], name: str, map_key: str = TRAFFIC_KEY) -> int | None:
    """The percentage that the deployment `name` gets, 0 if it isn't named; None if unknown."""
    shares = traffic_by_name(endpoint, map_key)
    if shares is None:
        return None
    own = [value for key, value in shares.items() if key.lower() == name.lower()] or [0]
    are_valid = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100 for value in own)
    return sum(own) if are_valid else None


def with_traffic_percent(endpoint: Mapping[str, Any], name: str, percent: int) -> dict[str, Any]:
    """The map with this deployment's percentage set and all others unchanged."""
    shares = traffic_by_name(endpoint) or {}
    return {key: value for key, value in shares.items() if key.lower() != name.lower()} | {name: percent}


def other_shares(endpoint: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The shares of all deployments but this one that have one."""
    shares = traffic_by_name(endpoint) or {}
    return {other: percent for other, percent in shares.items() if other.lower() != name.lower() and percent}
