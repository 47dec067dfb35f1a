"""Online endpoints: traffic is changed by PUT, PATCH takes tags and identity only, and they cannot be stopped.

https://learn.microsoft.com/rest/api/azureml/online-endpoints
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime

from reaper_sandbox.azure import accepted
from reaper_sandbox.azure.computes import failed
from reaper_sandbox.azure.moment import zulu
from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.place import PROVIDER, child, workspace
from reaper_sandbox.azure.refusal import bad, conflict, unlinked
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.rights import refuses
from reaper_sandbox.azure.route import ENDPOINT, WORKSPACE, E, ml_route
from reaper_sandbox.azure.workspaces import system_data
from reaper_sandbox.azure.world import World

ASSIGN = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
WRITTEN = ("authMode", "description", "compute", "publicNetworkAccess", "properties")
AT_WORK = ("Creating", "Updating", "Deleting", "Scaling")


def body(parent: Json, name: str, created: datetime, compute: str | None = None) -> Json:
    """An endpoint without deployments; `compute` is the id of an attached Kubernetes cluster, None for a managed one."""
    return {
        "id": f"{parent['id']}/onlineEndpoints/{name}",
        "name": name,
        "type": f"{PROVIDER}/workspaces/onlineEndpoints",
        "location": parent["location"],
        "kind": "K8S" if compute else "Managed",
        "tags": {},
        "identity": {"type": "SystemAssigned", "principalId": "9a7f8f0e-88a5-4f8a-9f0c-5a8d0c2f7b11"},
        "sku": None,
        "systemData": system_data(created),
        "properties": {
            "authMode": "Key",
            "description": "",
            "compute": compute,
            "traffic": {},
            "mirrorTraffic": {},
            "provisioningState": "Succeeded",
            "publicNetworkAccess": "Enabled",
            "scoringUri": f"https://{name}.{parent['location']}.inference.ml.azure.com/score",
            "swaggerUri": f"https://{name}.{parent['location']}.inference.ml.azure.com/swagger.json",
            "properties": {},
        },
    }


def several(world: World, request: Request) -> Reply:
    """The endpoints of a workspace, by `name` and `computeType` where asked for."""
    name, kind = request.query.get("name"), request.query.get("computeType")
    endpoints = [
        one
        for one in world.estate.children(workspace(world, request)["id"], "onlineEndpoints")
        if name in (None, one["name"]) and (kind is None or kind == ("Kubernetes" if one["properties"]["compute"] else "Managed"))
    ]
    count = request.query.get("count", "")
    return page(world, request, endpoints, int(count) if count.isdigit() and count != "0" else None)


def one(world: World, request: Request) -> Reply:
    """One endpoint."""
    return Reply(body=child(world, request, ("onlineEndpoints", "endpoint")))


def patch(world: World, request: Request) -> Reply:
    """Tags and identity; anything else is refused."""
    endpoint = idle(child(world, request, ("onlineEndpoints", "endpoint")))
    if not isinstance(request.body, dict) or set(request.body) - {"tags", "identity"}:
        raise bad("Only tags and identity of an online endpoint can be patched.")
    endpoint.update(request.body)
    return changing(world, request, endpoint, 202)


def put(world: World, request: Request) -> Reply:
    """Creates or replaces: `location` is needed, traffic adds up to 0 or 100 and names deployments that are there."""
    parent = workspace(world, request)
    name = request.names["endpoint"]
    wanted = request.body
    if not isinstance(wanted, dict) or not wanted.get("location") or not isinstance(wanted.get("properties"), dict):
        raise bad("location and properties are required.")
    _check_identities(world, request, wanted)
    before = world.estate.find(f"{parent['id']}/onlineEndpoints/{name}")
    fresh = deepcopy(idle(before)) if before else body(parent, name, world.now)
    fresh["properties"] |= {key: wanted["properties"].get(key) or {} for key in ("traffic", "mirrorTraffic")}
    # What a PUT leaves out is gone afterwards.
    blank = body(parent, name, world.now)["properties"]
    fresh["properties"] |= {key: wanted["properties"].get(key, blank[key]) for key in WRITTEN}
    fresh |= {"tags": wanted.get("tags") or {}, "identity": _identity(wanted.get("identity"), fresh["identity"])}
    _check_traffic(world, fresh)
    endpoint = before if before is not None else world.estate.put(fresh)
    endpoint.update(fresh)
    return changing(world, request, endpoint, 200 if before else 201)


def delete(world: World, request: Request) -> Reply:
    """Deletes an endpoint with its deployments."""
    endpoint = idle(child(world, request, ("onlineEndpoints", "endpoint")))
    endpoint["properties"]["provisioningState"] = "Deleting"
    headers = accepted.begun(world, request, accepted.MFE, lambda at: world.estate.drop(endpoint["id"]), lambda: failed(endpoint))
    return Reply(status=202, headers=headers)


def changing(world: World, request: Request, resource: Json, status: int) -> Reply:
    """The reply to a change: `Updating` until the operation ends, then `Succeeded`. 202 carries no body."""
    resource["properties"]["provisioningState"] = "Creating" if status == 201 else "Updating"
    resource["systemData"] |= {"lastModifiedAt": zulu(world.now)}

    def finish(at: datetime) -> None:
        resource["properties"]["provisioningState"] = "Succeeded"

    headers = accepted.begun(world, request, accepted.MFE, finish, lambda: failed(resource))
    return Reply(status=status, body=None if status == 202 else resource, headers=headers)


def idle(resource: Json) -> Json:
    """The endpoint or deployment itself. Raises Refused (409) while an operation is at work on it."""
    if resource["properties"]["provisioningState"] in AT_WORK:
        raise conflict(
            f"{resource['name']} is {resource['properties']['provisioningState']}; another operation is at work on it."
        )
    return resource


def _identity(wanted: Json | None, before: Json | None) -> Json | None:
    """The identity as written; a system-assigned one that stays keeps its object id."""
    principal = {"principalId": before["principalId"]} if before and "principalId" in before else {}
    return wanted and {**wanted, **(principal if "SystemAssigned" in wanted["type"] else {})}


def _check_identities(world: World, request: Request, wanted: Json) -> None:
    """Anyone who writes an endpoint must be allowed to assign each identity in it, new there or not."""
    for id_ in (wanted.get("identity") or {}).get("userAssignedIdentities") or {}:
        if refuses(world.rules, ASSIGN, id_):
            raise unlinked(request.action, request.scope, ASSIGN, id_)


def _check_traffic(world: World, endpoint: Json) -> None:
    traffic = endpoint["properties"]["traffic"]
    names = {d["name"] for d in world.estate.children(endpoint["id"], "deployments")}
    if missing := set(traffic) - names:
        raise bad(f"Traffic names deployments that are not there: {', '.join(sorted(missing))}.")
    if sum(traffic.values()) not in (0, 100):
        raise bad(f"Traffic adds up to {sum(traffic.values())}, but must to 0 or 100.")


ROUTES = (
    ml_route("GET", WORKSPACE + "/onlineEndpoints", several, f"{E}/read"),
    ml_route("GET", ENDPOINT, one, f"{E}/read"),
    ml_route("PATCH", ENDPOINT, patch, f"{E}/write"),
    ml_route("PUT", ENDPOINT, put, f"{E}/write"),
    ml_route("DELETE", ENDPOINT, delete, f"{E}/delete"),
)
