"""Workspaces: default ones, hubs, projects and feature stores in the same list.

https://learn.microsoft.com/rest/api/azureml/workspaces
"""

from __future__ import annotations

from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

from reaper_sandbox.azure.moment import zulu
from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.place import PROVIDER, group_id, workspace
from reaper_sandbox.azure.refusal import no_group, no_subscription
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import GROUP, SUB, WORKSPACE, W, ml_route
from reaper_sandbox.azure.world import World


def body(group: str, name: str, region: str, kind: str, created: datetime) -> Json:
    """A workspace in the resource group with the id `group`; `kind` is Default, Hub, Project or FeatureStore."""
    resource_id = f"{group}/providers/{PROVIDER}/workspaces/{name}"
    return {
        "id": resource_id,
        "name": name,
        "type": f"{PROVIDER}/workspaces",
        "location": region,
        "tags": {},
        "kind": kind,
        "etag": None,
        "sku": {"name": "Basic", "tier": "Basic"},
        "identity": {"type": "SystemAssigned", "principalId": str(uuid5(NAMESPACE_URL, f"principal{resource_id}"))},
        "systemData": system_data(created),
        "properties": {
            "friendlyName": name,
            "description": "",
            "workspaceId": str(uuid5(NAMESPACE_URL, resource_id.lower())),
            "provisioningState": "Succeeded",
            "creationTime": zulu(created),
            "hbiWorkspace": False,
            "publicNetworkAccess": "Enabled",
            "v1LegacyMode": False,
            **({"associatedWorkspaces": []} if kind == "Hub" else {}),
        },
    }


def join(hub: Json, project: Json) -> None:
    """Makes `project` one of the projects of `hub`: each names the other."""
    project["properties"]["hubResourceId"] = hub["id"]
    hub["properties"].setdefault("associatedWorkspaces", []).append(project["id"])


def system_data(created: datetime, changed: datetime | None = None, by: str = "ada@example.com") -> Json:
    """Who made a resource and when."""
    person = {"createdBy": by, "createdByType": "User", "createdAt": zulu(created)}
    return {**person, "lastModifiedAt": zulu(changed or created), "lastModifiedBy": by, "lastModifiedByType": "User"}


def of_subscription(world: World, request: Request) -> Reply:
    """All workspaces of a subscription."""
    subscription = request.names["sub"]
    if subscription.lower() not in world.estate.subscriptions:
        raise no_subscription(subscription)
    return page(world, request, world.estate.workspaces(subscription))


def of_group(world: World, request: Request) -> Reply:
    """All workspaces of a resource group."""
    if (request.names["sub"].lower(), request.names["group"].lower()) not in world.estate.groups:
        raise no_group(request.names["group"])
    return page(world, request, world.estate.children(f"{group_id(request)}/providers/{PROVIDER}", "workspaces"))


def one(world: World, request: Request) -> Reply:
    """One workspace."""
    return Reply(body=workspace(world, request))


ROUTES = (
    ml_route("GET", SUB + rf"/providers/{PROVIDER}/workspaces", of_subscription, f"{W}/read"),
    ml_route("GET", GROUP + rf"/providers/{PROVIDER}/workspaces", of_group, f"{W}/read"),
    ml_route("GET", WORKSPACE, one, f"{W}/read"),
)
