"""The look before an action ends with the resource: whatever changes between any two requests of a run, nothing is done to it.

Whole runs in mode enforce over TLS. The change comes right before each request of the action in turn, up to the last that shows it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from on_azure.conftest import DEPLOYMENT, SUB
from on_azure.enforcing import Scene, idle_cluster, idle_deployment, idle_instance, once, to_stop_natively
from reaper_sandbox.azure import autoscale
from reaper_sandbox.azure.fault import error
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

Change = Callable[[Scene], object]
AUTOSCALE = f"/subscriptions/{SUB}/providers/Microsoft.Insights/autoscalesettings"
SCALE = "properties.properties.scaleSettings"


def keep(scene: Scene) -> None:
    scene.thing.tagged({**scene.thing.body["tags"], "reaper:keep": "true"})


def keep_above(scene: Scene) -> None:
    scene.above.tagged({**(scene.above.body["tags"] or {}), "reaper:keep": "true"})


def job_running(scene: Scene) -> None:
    scene.thing.set("properties.properties.state", "JobRunning")


def restarted(scene: Scene) -> None:
    scene.thing.set("properties.properties.lastOperation.operationTime", "2026-11-24T10:00:00Z")


def compute_recreated(scene: Scene) -> None:
    scene.thing.set("properties.createdOn", "2026-11-24T10:00:00Z")


def resized(scene: Scene) -> None:
    scene.thing.set(f"{SCALE}.maxNodeCount", 20)


def idle_time_set(scene: Scene) -> None:
    scene.thing.set(f"{SCALE}.nodeIdleTimeBeforeScaleDown", "PT8H")


def nodes_at_work(scene: Scene) -> None:
    scene.thing.set("properties.properties.allocationState", "Resizing")


def scaled(scene: Scene) -> None:
    scene.thing.set("sku.capacity", 5)


def autoscaled(scene: Scene) -> None:
    scene.one.server.world.autoscale.append(autoscale.body(scene.thing.id, "keeps", "westeurope", 2, 9))


def model_changed(scene: Scene) -> None:
    scene.thing.set("properties.environmentVariables", {"LEVEL": "3"})


def deployment_recreated(scene: Scene) -> None:
    scene.thing.set("systemData.createdAt", "2026-11-24T10:00:00Z")


def traffic_shared(scene: Scene) -> None:
    scene.above.set("properties.traffic", {"blue": 50, "green": 50})


def mirrored(scene: Scene) -> None:
    scene.above.set("properties.mirrorTraffic", {"blue": 10})


def to_delete(server: Server, vision: Workspace) -> Scene:
    return idle_deployment(server, vision, "delete")


def to_delete_without_traffic(server: Server, vision: Workspace) -> Scene:
    scene = idle_deployment(server, vision, "delete")
    scene.above.set("properties.traffic", {})
    return scene


ABOVE = {keep_above, traffic_shared, mirrored}
"""What changes the workspace of a compute or the endpoint of a deployment."""
CASES: list[tuple[Callable[[Server, Workspace], Scene], Change]] = [
    *((idle_instance, change) for change in (keep, keep_above, job_running, restarted, compute_recreated)),
    (to_stop_natively, job_running),
    *((idle_cluster, change) for change in (keep, keep_above, resized, idle_time_set, nodes_at_work, compute_recreated)),
    *((idle_deployment, change) for change in (keep, keep_above, scaled, autoscaled, model_changed, deployment_recreated)),
    *((to_delete, change) for change in (keep, keep_above, traffic_shared, mirrored, model_changed)),
    *((to_delete_without_traffic, change) for change in (keep, keep_above, mirrored, deployment_recreated)),
]


IN_FULL = {(idle_instance, job_running), (idle_cluster, resized), (to_delete, keep_above)}
"""Of these, the change comes before every request; of the others, before each fourth and the last."""


def requests_of_run(scene: Scene) -> list[Request]:
    """The requests of a run up to its first change, which is refused, so that nothing changes."""
    server = scene.one.server
    first = len(server.requests)
    refuse = lambda request: error(400, "BadRequest", "not now") if request.mutation else None  # noqa: E731
    server.rules.append(refuse)
    scene.one.sweep()
    server.rules.remove(refuse)
    made = server.requests[first:]
    return made[: next(at for at, request in enumerate(made) if request.mutation)]


def moments(scene: Scene, change: Change) -> range:
    """The numbers of the requests from the end of the action's first look to the last request that shows the change."""
    restore = scene.saved()
    requests = requests_of_run(scene)
    restore()
    reads = [at for at, request in enumerate(requests) if request.path == scene.thing.id]
    looks = reads[1:] if scene.one.kind == DEPLOYMENT else reads  # a sweep reads a silent deployment, too
    subject = {autoscaled: AUTOSCALE}.get(change, scene.above.id if change in ABOVE else scene.thing.id)
    return range(looks[0] + 1, max(at for at, request in enumerate(requests) if request.path == subject) + 1)


@pytest.mark.parametrize(("scene_of", "change"), CASES, ids=lambda value: value.__name__)
def test_a_change_between_any_two_requests_refuses_the_action(
    server: Server, vision: Workspace, scene_of: Callable[[Server, Workspace], Scene], change: Change
):
    scene = scene_of(server, vision)
    scene.one.due()
    restore = scene.saved()
    every = moments(scene, change)
    step = 1 if (scene_of, change) in IN_FULL else 4
    for at in sorted({*every[::step], every[-1]}):
        restore()
        server.world.autoscale.clear()
        server.rules[:] = []
        first, changes = len(server.requests), len(server.mutations)
        once(server, lambda request, at=at, first=first: len(server.requests) == first + at + 1, lambda: change(scene))
        [finding] = scene.one.sweep().findings
        assert len(server.mutations) == changes, f"request {at}: {finding.outcome}"
        assert finding.outcome.result != "done"
