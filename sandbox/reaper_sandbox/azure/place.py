"""Where a request points: finds the workspace, compute or endpoint that its path names, or refuses as Resource Manager would."""

from __future__ import annotations

from reaper_sandbox.azure.refusal import no_group, no_resource, no_subscription
from reaper_sandbox.azure.request import Json, Request
from reaper_sandbox.azure.world import World

PROVIDER = "Microsoft.MachineLearningServices"


def group_id(request: Request) -> str:
    """The id of the resource group in the path."""
    return f"/subscriptions/{request.names['sub']}/resourceGroups/{request.names['group']}"


def workspace(world: World, request: Request) -> Json:
    """The workspace in the path. Raises Refused (404) for a subscription, group or workspace that is not there."""
    subscription, group = request.names["sub"].lower(), request.names["group"]
    if subscription not in world.estate.subscriptions:
        raise no_subscription(request.names["sub"])
    if (subscription, group.lower()) not in world.estate.groups:
        raise no_group(group)
    name = request.names["workspace"]
    body = world.estate.find(f"{group_id(request)}/providers/{PROVIDER}/workspaces/{name}")
    if body is None:
        raise no_resource(f"{PROVIDER}/workspaces/{name}", group)
    return body


def child(world: World, request: Request, *steps: tuple[str, str]) -> Json:
    """What hangs below the workspace by `steps` of (collection, name in the path). Raises Refused (404) at the first that is not there."""
    body = workspace(world, request)
    path = ""
    for collection, key in steps:
        resource = world.estate.find(f"{body['id']}/{collection}/{request.names[key]}")
        path = f"{path}/{collection}/{request.names[key]}"
        if resource is None:
            raise no_resource(f"{PROVIDER}/workspaces/{request.names['workspace']}{path}", request.names["group"])
        body = resource
    return body
