"""Compute instances: stop, start, restart and idle shutdown.

https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
"""

from __future__ import annotations

import re
from datetime import datetime

from reaper_sandbox.azure import accepted
from reaper_sandbox.azure.computes import envelope
from reaper_sandbox.azure.moment import text
from reaper_sandbox.azure.place import child
from reaper_sandbox.azure.refusal import bad, conflict
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import COMPUTE, MLS_VERSIONS, C, ml_route
from reaper_sandbox.azure.world import World

FROM = {"stop": ("Running", "JobRunning", "Unusable"), "start": ("Stopped",), "restart": ("Running", "JobRunning", "Unusable")}
MEANWHILE = {"stop": "Stopping", "start": "Starting", "restart": "Restarting"}
AFTER = {"stop": "Stopped", "start": "Running", "restart": "Running"}
SHORTEST, LONGEST = 15, 3 * 24 * 60
"""Bounds of idle shutdown, in minutes."""


def body(parent: Json, name: str, size: str, created: datetime) -> Json:
    """A running instance of the VM size `size`, as a current API version shows it."""
    url = f"https://{name}.{parent['location']}.instances.azureml.ms"
    applications = [{"displayName": n, "endpointUri": f"{url}/{n.lower()}"} for n in ("Jupyter", "Jupyter Lab", "VS Code")]
    person = {"userId": "0f9c1b5e-6a0d-4f57-8a3b-7cf4e4d0f7aa", "userOrgId": "5b7c5a51-2f1b-4a43-9d1c-3f6f0a7d8e10"}
    inner: Json = {
        "vmSize": size.upper(),
        "subnet": None,
        "applicationSharingPolicy": "Personal",
        "computeInstanceAuthorizationType": "personal",
        "sshSettings": {"sshPublicAccess": "Disabled", "adminUserName": "azureuser", "sshPort": 22},
        "personalComputeInstanceSettings": {"assignedUser": {"objectId": person["userId"], "tenantId": person["userOrgId"]}},
        "applications": applications,
        "connectivityEndpoints": {"publicIpAddress": None, "privateIpAddress": "10.0.0.4"},
        "createdBy": person,
        "errors": [],
        "state": "Running",
        "lastOperation": operation("Create", created),
        "schedules": {"computeStartStop": []},
        "idleTimeBeforeShutdown": None,
        "enableNodePublicIp": True,
        "versions": {"runtime": "3.0.02716.0001-abc"},
        "osImageMetadata": {"currentImageVersion": "25.10.1", "latestImageVersion": "25.10.1", "isLatestOsImageVersion": True},
        "enableSSO": True,
        "releaseQuotaOnStop": False,
    }
    return envelope(parent, name, "ComputeInstance", created, inner)


def operation(name: str, at: datetime, trigger: str = "User") -> Json:
    """A `lastOperation`."""
    return {"operationName": name, "operationTime": text(at), "operationStatus": "Succeeded", "operationTrigger": trigger}


def turn(world: World, request: Request) -> Reply:
    """`stop`, `start` or `restart`: 202, a state in between, and the new state when the operation ends."""
    verb = request.names["verb"].lower()
    instance = _instance(world, request)
    inner = instance["properties"]["properties"]
    if inner["state"] not in FROM[verb]:
        raise conflict(f"Cannot {verb} compute instance {instance['name']} while it is in the state {inner['state']}.")
    before = inner["state"]
    inner["state"] = MEANWHILE[verb]
    inner["lastOperation"] = operation(verb.title(), world.now) | {"operationStatus": "InProgress"}

    def finish(at: datetime) -> None:
        inner["state"] = AFTER[verb]
        inner["lastOperation"] = operation(verb.title(), at)

    def fail() -> None:
        inner["state"] = before
        inner["lastOperation"] |= {"operationStatus": f"{verb.title()}Failed"}

    return Reply(status=202, headers=accepted.begun(world, request, accepted.COMPUTE, finish, fail))


def idle_shutdown(world: World, request: Request) -> Reply:
    """`updateIdleShutdownSetting`: 200 without a body. Null turns it off."""
    instance = _instance(world, request)
    if not isinstance(request.body, dict) or set(request.body) != {"idleTimeBeforeShutdown"}:
        raise bad("The body must have idleTimeBeforeShutdown and nothing else.")
    wanted = request.body["idleTimeBeforeShutdown"]
    if wanted is not None and not SHORTEST <= _minutes(wanted) <= LONGEST:
        raise bad("IdleTimeBeforeShutdown must be between 15 minutes and 3 days.")
    instance["properties"]["properties"]["idleTimeBeforeShutdown"] = wanted
    return Reply(body=None)


def _instance(world: World, request: Request) -> Json:
    instance = child(world, request, ("computes", "compute"))
    if instance["properties"]["computeType"] != "ComputeInstance" or not instance["properties"].get("properties"):
        raise bad(f"Compute {instance['name']} is not a compute instance that can do this.")
    return instance


def _minutes(written: object) -> float:
    parts = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", str(written))
    if not parts or not any(parts.groups()):
        raise bad(f"IdleTimeBeforeShutdown {written} is not an ISO 8601 duration.")
    days, hours, minutes, seconds = (int(p or 0) for p in parts.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60


SETTING_VERSION = "2021-07-01"
"""The version that the documentation of idle shutdown names."""
ROUTES = (
    ml_route("POST", COMPUTE + "/(?P<verb>start|stop|restart)", turn, C + "/{verb}/action"),
    ml_route(
        "POST",
        COMPUTE + "/updateIdleShutdownSetting",
        idle_shutdown,
        f"{C}/updateIdleShutdownSetting/action",
        (SETTING_VERSION, *MLS_VERSIONS),
    ),
)
