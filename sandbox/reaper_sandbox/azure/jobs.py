"""Jobs of a workspace, newest first. A job is left out of the active view when it or its experiment was archived.

https://learn.microsoft.com/rest/api/azureml/jobs/list
"""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.place import PROVIDER, child, workspace
from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import WORKSPACE, W, ml_route
from reaper_sandbox.azure.workspaces import system_data
from reaper_sandbox.azure.world import World

STATUSES = (
    "NotStarted", "Starting", "Provisioning", "Preparing", "Queued", "Running", "Finalizing", "CancelRequested",
    "Completed", "Failed", "Canceled", "NotResponding", "Paused", "Unknown",
)  # fmt: skip
VIEWS = ("ActiveOnly", "ArchivedOnly", "All")


def body(parent: Json, name: str, status: str, compute_id: str | None, created: datetime) -> Json:
    """A command job on the compute with the id `compute_id`, None for serverless compute."""
    if status not in STATUSES:
        raise ValueError(f"no job status {status!r}, expected one of {', '.join(STATUSES)}")
    return {
        "id": f"{parent['id']}/jobs/{name}",
        "name": name,
        "type": f"{PROVIDER}/workspaces/jobs",
        "systemData": system_data(created),
        "properties": {
            "jobType": "Command",
            "status": status,
            "computeId": compute_id,
            "displayName": name,
            "experimentName": "experiments",
            "isArchived": False,
            "description": None,
            "tags": {},
            "properties": {},
            "services": {},
            "command": "python train.py",
            "environmentId": f"{parent['id']}/environments/train/versions/1",
        },
    }


def pipeline(job: Json, steps: dict[str, str | None], default: str | None = None) -> Json:
    """Turns a job into a pipeline whose `steps` name their own compute (None: the default one), as ids."""
    job["properties"] |= {
        "jobType": "Pipeline",
        "settings": {"default_compute": default, "continue_on_step_failure": False},
        "jobs": {name: {"type": "command", "computeId": compute, "componentId": None} for name, compute in steps.items()},
    }
    del job["properties"]["command"], job["properties"]["environmentId"]
    return job


def several(world: World, request: Request) -> Reply:
    """The jobs of a workspace by `listViewType` (default: ActiveOnly) and `jobType`; no other filter exists on the server."""
    view = request.query.get("listViewType", "ActiveOnly")
    if view not in VIEWS:
        raise bad(f"listViewType must be one of {', '.join(VIEWS)}, got {view}.")
    kind = request.query.get("jobType", "").lower()
    jobs = [
        job
        for job in world.estate.children(workspace(world, request)["id"], "jobs")
        if _in_view(job, view) and kind in ("", job["properties"]["jobType"].lower())
    ]
    jobs.sort(key=lambda job: str(job["systemData"]["createdAt"]), reverse=True)
    return page(world, request, [shown(job) for job in jobs])


def one(world: World, request: Request) -> Reply:
    """One job."""
    return Reply(body=shown(child(world, request, ("jobs", "job"))))


def archive_experiment(job: Json) -> None:
    """Archives the job's experiment: the job itself does not say so, but only the archived view and `All` still list it."""
    job["_experimentArchived"] = True


def shown(job: Json) -> Json:
    """The job without the sandbox's own marks."""
    return {key: value for key, value in job.items() if not key.startswith("_")}


def _in_view(job: Json, view: str) -> bool:
    archived = bool(job["properties"]["isArchived"] or job.get("_experimentArchived"))
    return view == "All" or archived == (view == "ArchivedOnly")


ROUTES = (
    ml_route("GET", WORKSPACE + "/jobs", several, f"{W}/jobs/read"),
    ml_route("GET", WORKSPACE + "/jobs/(?P<job>[^/]+)", one, f"{W}/jobs/read"),
)
