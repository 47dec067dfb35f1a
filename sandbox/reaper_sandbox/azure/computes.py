"""Computes of a workspace: the envelope that all types share, list, get and delete.

https://learn.microsoft.com/rest/api/azureml/compute
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any

from reaper_sandbox.azure import accepted
from reaper_sandbox.azure.moment import text
from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.place import PROVIDER, child, workspace
from reaper_sandbox.azure.refusal import bad, conflict
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import COMPUTE, WORKSPACE, C, ml_route
from reaper_sandbox.azure.world import World

IDLE_SHUTDOWN_SINCE = "2026-03-01"
"""`idleTimeBeforeShutdown` is not in the replies of older versions."""


def envelope(parent: Json, name: str, compute_type: str, created: datetime, special: Json | None) -> Json:
    """A compute of any type below the workspace `parent`; `special` is the inner `properties`, None where there is none yet.

    No recorded compute carries `systemData`.
    """
    properties: Json = {
        "createdOn": text(created),
        "modifiedOn": text(created),
        "disableLocalAuth": True,
        "description": None,
        "resourceId": None,
        "computeType": compute_type,
        "computeLocation": parent["location"],
        "provisioningState": "Succeeded",
        "provisioningErrors": None,
        "isAttachedCompute": False,
    }
    if special is not None:
        properties["properties"] = special
    return {
        "id": f"{parent['id']}/computes/{name}",
        "name": name,
        "type": f"{PROVIDER}/workspaces/computes",
        "location": parent["location"],
        "tags": {},
        "properties": properties,
    }


def kubernetes(parent: Json, name: str, created: datetime) -> Json:
    """An attached Kubernetes cluster: its nodes belong to the customer's own AKS or Arc cluster."""
    inner = {"namespace": "ml", "defaultInstanceType": "defaultinstancetype", "instanceTypes": {"defaultinstancetype": {}}}
    body = envelope(parent, name, "Kubernetes", created, inner)
    group = parent["id"].partition("/providers/")[0]
    body["properties"] |= {
        "isAttachedCompute": True,
        "resourceId": f"{group}/providers/Microsoft.ContainerService/managedClusters/{name}",
    }
    return body


def several(world: World, request: Request) -> Reply:
    """The computes of a workspace, page by page."""
    computes = world.estate.children(workspace(world, request)["id"], "computes")
    return page(world, request, [shown(one, request) for one in computes])


def one(world: World, request: Request) -> Reply:
    """One compute."""
    return Reply(body=shown(child(world, request, ("computes", "compute")), request))


def delete(world: World, request: Request) -> Reply:
    """Deletes or detaches a compute; the query must say which. Busy ones are refused."""
    body = child(world, request, ("computes", "compute"))
    how = request.query.get("underlyingResourceAction")
    if how not in ("Delete", "Detach"):
        raise bad(f"underlyingResourceAction must be Delete or Detach, got {how}")
    if how == "Detach" and not body["properties"]["isAttachedCompute"]:
        raise bad(f"Compute {body['name']} was not attached and cannot be detached.")
    if body["properties"]["provisioningState"] == "Deleting":
        raise conflict(f"Compute {body['name']} is being deleted already.")
    body["properties"]["provisioningState"] = "Deleting"
    headers = accepted.begun(world, request, accepted.COMPUTE, lambda at: world.estate.drop(body["id"]), lambda: failed(body))
    return Reply(status=202, headers=headers)


def failed(body: Json) -> None:
    """What a failed operation leaves behind."""
    body["properties"]["provisioningState"] = "Failed"


def shown(body: Json, request: Request) -> Json:
    """The compute as the asked-for API version knows it."""
    inner: Any = body["properties"].get("properties")
    if (request.api_version or "") >= IDLE_SHUTDOWN_SINCE or not inner or "idleTimeBeforeShutdown" not in inner:
        return body
    older = deepcopy(body)
    del older["properties"]["properties"]["idleTimeBeforeShutdown"]
    return older


ROUTES = (
    ml_route("GET", WORKSPACE + "/computes", several, f"{C}/read"),
    ml_route("GET", COMPUTE, one, f"{C}/read"),
    ml_route("DELETE", COMPUTE, delete, f"{C}/delete"),
)
