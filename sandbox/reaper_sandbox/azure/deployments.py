"""Deployments of online endpoints: `sku.capacity` is the number of machines that is billed.

https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime

from reaper_sandbox.azure import accepted, assets
from reaper_sandbox.azure.computes import failed
from reaper_sandbox.azure.endpoints import changing, idle
from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.place import PROVIDER, child
from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import DEPLOYMENT, ENDPOINT, D, ml_route
from reaper_sandbox.azure.workspaces import system_data
from reaper_sandbox.azure.world import World

PATCHABLE = {"tags", "sku"}


def body(endpoint: Json, name: str, size: str, capacity: int, created: datetime) -> Json:
    """A deployment of `capacity` machines; managed or Kubernetes as its endpoint is."""
    managed = endpoint["kind"] == "Managed"
    return {
        "id": f"{endpoint['id']}/deployments/{name}",
        "name": name,
        "type": f"{PROVIDER}/workspaces/onlineEndpoints/deployments",
        "location": endpoint["location"],
        "kind": endpoint["kind"],
        "tags": {},
        "sku": {"name": "Default", "tier": "Standard", "capacity": capacity},
        "identity": None,
        "systemData": system_data(created),
        "properties": {
            "endpointComputeType": "Managed" if managed else "Kubernetes",
            "instanceType": size,
            "provisioningState": "Succeeded",
            "scaleSettings": {"scaleType": "Default"},
            "model": None,
            "environmentId": None,
            "codeConfiguration": None,
            "appInsightsEnabled": False,
            "description": "",
            "properties": {},
            "requestSettings": {"maxConcurrentRequestsPerInstance": 1, "requestTimeout": "PT5S", "maxQueueWait": "PT0.5S"},
        },
    }


def several(world: World, request: Request) -> Reply:
    """The deployments of an endpoint."""
    endpoint = child(world, request, ("onlineEndpoints", "endpoint"))
    top = request.query.get("$top", "")
    deployments = world.estate.children(endpoint["id"], "deployments")
    return page(world, request, deployments, int(top) if top.isdigit() and top != "0" else None)


def one(world: World, request: Request) -> Reply:
    """One deployment."""
    return Reply(body=_found(world, request))


def patch(world: World, request: Request) -> Reply:
    """`tags` replace all tags; `sku.capacity` rescales, at least one machine. Anything else is refused."""
    deployment = idle(_found(world, request))
    wanted = request.body
    if not isinstance(wanted, dict) or set(wanted) - PATCHABLE:
        raise bad("Only tags and sku of an online deployment can be patched.")
    capacity = (wanted.get("sku") or {}).get("capacity", deployment["sku"]["capacity"])
    if not isinstance(capacity, int) or capacity < 1:
        raise bad(f"An online deployment needs at least one instance, got {capacity}.")
    deployment["sku"]["capacity"] = capacity
    if wanted.get("tags") is not None:
        deployment["tags"] = wanted["tags"]
    return changing(world, request, deployment, 202)


def put(world: World, request: Request) -> Reply:
    """Creates or replaces a deployment. Managed ones need `instanceType` and `sku.capacity`."""
    endpoint = idle(child(world, request, ("onlineEndpoints", "endpoint")))
    name, wanted = request.names["deployment"], request.body
    if not isinstance(wanted, dict) or not wanted.get("location") or not isinstance(wanted.get("properties"), dict):
        raise bad("location and properties are required.")
    size, capacity = wanted["properties"].get("instanceType"), (wanted.get("sku") or {}).get("capacity")
    if not size or not isinstance(capacity, int) or capacity < 1:
        raise bad("properties.instanceType and a sku.capacity of at least 1 are required.")
    if not wanted["properties"].get("endpointComputeType"):
        raise bad("properties.endpointComputeType is required.")
    before = world.estate.find(f"{endpoint['id']}/deployments/{name}")
    fresh = body(endpoint, name, size, capacity, world.now)
    assets.check(world, wanted["properties"])
    fresh["properties"] |= {
        k: v for k, v in wanted["properties"].items() if k not in ("provisioningState", "endpointComputeType")
    }
    fresh |= {"tags": wanted.get("tags") or {}, "sku": {**fresh["sku"], **wanted["sku"]}, "identity": wanted.get("identity")}
    deployment = world.estate.put(fresh) if before is None else idle(before)
    deployment.update({**fresh, "systemData": deepcopy(deployment["systemData"])})
    return changing(world, request, deployment, 200 if before else 201)


def delete(world: World, request: Request) -> Reply:
    """Deletes a deployment; refused while its endpoint still sends or mirrors traffic to it, or is being changed itself."""
    deployment = idle(_found(world, request))
    endpoint = idle(child(world, request, ("onlineEndpoints", "endpoint")))
    for kind, what in (("traffic", "traffic"), ("mirrorTraffic", "mirrored traffic")):
        if share := (endpoint["properties"].get(kind) or {}).get(deployment["name"], 0):
            raise bad(f"Deployment {deployment['name']} gets {share} % of the {what} and cannot be deleted; set it to 0 first.")
    deployment["properties"]["provisioningState"] = "Deleting"

    def finish(at: datetime) -> None:
        world.estate.drop(deployment["id"])
        endpoint["properties"]["traffic"].pop(deployment["name"], None)

    return Reply(status=202, headers=accepted.begun(world, request, accepted.MFE, finish, lambda: failed(deployment)))


def _found(world: World, request: Request) -> Json:
    return child(world, request, ("onlineEndpoints", "endpoint"), ("deployments", "deployment"))


ROUTES = (
    ml_route("GET", ENDPOINT + "/deployments", several, f"{D}/read"),
    ml_route("GET", DEPLOYMENT, one, f"{D}/read"),
    ml_route("PATCH", DEPLOYMENT, patch, f"{D}/write"),
    ml_route("PUT", DEPLOYMENT, put, f"{D}/write"),
    ml_route("DELETE", DEPLOYMENT, delete, f"{D}/delete"),
)
