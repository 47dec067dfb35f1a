"""AmlCompute clusters and the one thing that can be changed about them: their scale settings.

https://learn.microsoft.com/rest/api/azureml/compute/update
"""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.azure import accepted
from reaper_sandbox.azure.computes import envelope, failed, shown
from reaper_sandbox.azure.moment import text
from reaper_sandbox.azure.place import child
from reaper_sandbox.azure.refusal import bad, conflict
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import COMPUTE, C, ml_route
from reaper_sandbox.azure.world import World

NODE_STATES = ("preparing", "running", "idle", "unusable", "leaving", "preempted")


def body(parent: Json, name: str, size: str, nodes: tuple[int, int], created: datetime) -> Json:
    """A steady cluster that scales between the two numbers of `nodes`, with the minimum up and idle."""
    least, most = nodes
    inner: Json = {
        "vmSize": size.upper(),
        "vmPriority": "Dedicated",
        "osType": "Linux",
        "virtualMachineImage": None,
        "isolatedNetwork": False,
        "subnet": None,
        "scaleSettings": {"maxNodeCount": most, "minNodeCount": least, "nodeIdleTimeBeforeScaleDown": "PT120S"},
        "remoteLoginPortPublicAccess": "NotSpecified",
        "enableNodePublicIp": True,
        "errors": None,
        **settled(least, created),
    }
    return envelope(parent, name, "AmlCompute", created, inner)


def settled(nodes: int, since: datetime, busy: int = 0) -> Json:
    """The state of a cluster that has `nodes` nodes, `busy` of them at work, since `since`."""
    counts = {f"{state}NodeCount": 0 for state in NODE_STATES} | {"idleNodeCount": nodes - busy, "runningNodeCount": busy}
    return {
        "allocationState": "Steady",
        "allocationStateTransitionTime": text(since),
        "currentNodeCount": nodes,
        "targetNodeCount": nodes,
        "nodeStateCounts": counts,
    }


def resize(world: World, request: Request) -> Reply:
    """PATCH: takes `scaleSettings` and nothing else, all of it new, `maxNodeCount` always; Resizing until the operation ends."""
    cluster = child(world, request, ("computes", "compute"))
    if cluster["properties"]["computeType"] != "AmlCompute":
        raise bad(f"Compute {cluster['name']} is of the type {cluster['properties']['computeType']}, which cannot be updated.")
    if cluster["properties"]["provisioningState"] != "Succeeded":
        raise conflict(f"Compute {cluster['name']} is {cluster['properties']['provisioningState']} and cannot be updated now.")
    scale = _scale(request.body)
    inner = cluster["properties"]["properties"]
    inner["scaleSettings"] = scale
    inner["allocationState"], inner["allocationStateTransitionTime"] = "Resizing", text(world.now)
    cluster["properties"] |= {"provisioningState": "Updating", "modifiedOn": text(world.now)}

    def finish(at: datetime) -> None:
        busy = (inner.get("nodeStateCounts") or {}).get("runningNodeCount", 0)
        inner.update(settled(max(busy, scale["minNodeCount"]), at, busy))
        cluster["properties"]["provisioningState"] = "Succeeded"

    headers = accepted.begun(world, request, accepted.COMPUTE, finish, lambda: failed(cluster))
    return Reply(body=shown(cluster, request), headers=headers)


def _scale(body: object) -> Json:
    match body:
        case {"properties": {"properties": {"scaleSettings": dict(scale), **inner}, **middle}, **outer} if not (
            inner or middle or outer
        ):
            pass
        case _:
            raise bad("Only properties.properties.scaleSettings can be updated.")
    least, most = scale.get("minNodeCount") or 0, scale.get("maxNodeCount")
    if not isinstance(most, int):
        raise bad("scaleSettings.maxNodeCount is required.")
    if not isinstance(least, int) or not 0 <= least <= most:
        raise bad(f"scaleSettings: the minimum {least} must lie between 0 and the maximum {most}.")
    idle = scale.get("nodeIdleTimeBeforeScaleDown") or "PT120S"
    return {"maxNodeCount": most, "minNodeCount": least, "nodeIdleTimeBeforeScaleDown": idle}


ROUTES = (ml_route("PATCH", COMPUTE, resize, f"{C}/write"),)
