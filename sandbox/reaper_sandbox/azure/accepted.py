"""The 202 of a long-running operation, and the status documents it points to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from reaper_sandbox.azure.operations import SIGNATURE
from reaper_sandbox.azure.place import PROVIDER
from reaper_sandbox.azure.refusal import refused
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import OPERATION, ml_route
from reaper_sandbox.azure.world import World

COMPUTE, MFE = "computeOperationsStatus", "mfeOperationsStatus"


def begun(
    world: World, request: Request, place: str, finish: Callable[[datetime], None], fail: Callable[[], None]
) -> dict[str, str]:
    """Starts an operation that ends with `finish` (or with `fail`) and gives the headers of its reply. `place` is `COMPUTE` or `MFE`.

    Compute operations have no Location and no Retry-After; those of endpoints and deployments have a Location.
    """
    operation = world.operations.start(world.now, finish, fail)
    region = world.estate.region(request.path) or "westeurope"
    start = f"{world.url}/subscriptions/{request.names['sub']}/providers/{PROVIDER}/locations/{region}"
    version = f"api-version={request.api_version}"
    if place == COMPUTE:
        return {"Azure-AsyncOperation": f"{start}/{COMPUTE}/{operation}?{version}&service=new&t=638999&{SIGNATURE}"}
    status = f"{start}/{MFE}/od:{operation}?{version}"
    return {
        "Azure-AsyncOperation": status,
        "Location": status.replace(MFE, "mfeOperationResults"),
        "x-ms-async-operation-timeout": "PT1H",
    }


def status(world: World, request: Request) -> Reply:
    """The status document of an operation."""
    return Reply(body=_poll(world, request))


def result(world: World, request: Request) -> Reply:
    """What Location points to: 202 while under way, then 200, both without a body."""
    document = _poll(world, request)
    return Reply(status=202 if document["status"] == "InProgress" else 200, body=None)


def _poll(world: World, request: Request) -> Json:
    document = world.operations.poll(request.names["operation"].removeprefix("od:"), world.now)
    if document is None:
        raise refused(404, "NotFound", f"The operation {request.names['operation']} was not found.")
    return document


ROUTES = (
    ml_route(
        "GET", OPERATION + "/computeOperationsStatus/(?P<operation>[^/]+)", status, "locations/computeoperationsstatus/read"
    ),
    ml_route("GET", OPERATION + "/mfeOperationsStatus/(?P<operation>[^/]+)", status, "locations/mfeOperationsStatus/read"),
    ml_route("GET", OPERATION + "/mfeOperationResults/(?P<operation>[^/]+)", result, "locations/mfeOperationResults/read"),
)
