"""What the kind `azureml-online-deployment` needs to know of one deployment, its endpoint and its autoscale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.azure import assets, autoscale, traffic
from reaper.azure.arm_values import parse_time, valid_count
from reaper.azure.deployments import Deployment
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, Json
from reaper.azure.workspaces import Workspace
from reaper.azure.writes import chosen_settings, settings_digest
from reaper.errors import CloudError
from reaper.model import Resource

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

AUTOSCALE_NOT_READ = "its Azure Monitor autoscale, which might undo a scale-in, wasn't read"


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
        traffic_percent=traffic.traffic_percent(endpoint, row["name"]),
        mirrored_percent=traffic.traffic_percent(endpoint, row["name"], traffic.MIRROR_KEY),
        endpoint_state=str((endpoint.get("properties") or {}).get("provisioningState") or ""),
        endpoint_created=_created_at(endpoint),
        unclear_asset_because=assets.unclear_asset_because(row, deployment.workspace),
    )


def with_digests(details: DeploymentDetails, row: Json, endpoint: Json) -> DeploymentDetails:
    """The same with the digests of the deployment's settings and its endpoint's."""
    own = settings_digest(chosen_settings(row))
    return replace(details, settings_digest=own, endpoint_digest=endpoint_digest(endpoint, row["name"]))


def endpoint_digest(endpoint: Json, name: str) -> str:
    """The digest of everything that people can set about an endpoint, but for the traffic that the deployment `name` gets."""
    settings = chosen_settings(endpoint)
    properties = {**settings["properties"], traffic.TRAFFIC_KEY: traffic.other_shares(endpoint, name)}
    return settings_digest({**settings, "properties": properties})


def with_autoscale(cloud: CloudSession, resource: Resource) -> Resource:
    """The same, with what Azure Monitor's autoscale would undo. Autoscale is only read for a deployment that could be scaled in."""
    details: DeploymentDetails = resource.details
    if details.on_kubernetes or (details.instances or 0) <= 1:
        return resource
    try:
        minimum = autoscale.minimum_instances(cloud, resource.id)
        because = (
            f"its Azure Monitor autoscale keeps at least {minimum} instances and would undo a scale-in" if minimum > 1 else None
        )
    except CloudError as error:
        because = f"its Azure Monitor autoscale, which might undo a scale-in, couldn't be read: {error}"
    return replace(resource, details=replace(details, autoscale_because=because))


def _created_at(endpoint: Mapping[str, Any]) -> datetime | None:
    """When the endpoint was created; None if unknown."""
    try:
        return parse_time((endpoint.get("systemData") or {}).get("createdAt"))
    except UNREADABLE_REPLY_ERRORS:
        return None
