"""The jobs on computes: an unfinished one proves use, and one of unreadable times leaves a compute unknown.

They are listed only if a verdict needs them, because the API has no filter for computes. Every status that isn't final counts as use, and so do
archived jobs, pipeline steps and default computes: https://learn.microsoft.com/rest/api/azureml/jobs/list
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from reaper.azure.reader import each
from reaper.azure.requests import Json, latest_known, parse_row, parse_time, reading
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError
from reaper.model import Role
from reaper.observation import Observation, Reading

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


PERMISSION = f"{PROVIDER}/workspaces/jobs/read"
NAMING_PARTS: dict[str, type] = {"computeId": str, "settings": dict, "jobs": dict, "properties": dict}
"""The parts that may name a compute: of a job, of all steps of a pipeline, of a single step, and of the place it ran."""
COMPUTE_KEYS = {"computeid", "default_compute", "defaultcompute"}
"""The keys of a compute's name or ID, in a job and in each step of a pipeline."""
FINAL_STATUSES = {"completed", "failed", "canceled", "cancelled"}
TIME_PROPERTIES = ("starttimeutc", "endtimeutc")
"""Free properties, in lower case, in which Azure ML notes when a job was at work."""


@dataclass(slots=True, kw_only=True)
class JobsByCompute:
    """By a compute's name in lower case: an unfinished job, as a clause; the last time of a finished job; and the error of a finished job
    whose times can't be read.
    """

    unfinished: dict[str, str] = field(default_factory=dict)
    finished_at: dict[str, datetime] = field(default_factory=dict)
    unreadable: dict[str, CloudError] = field(default_factory=dict)


@each
def with_jobs(cloud: CloudSession, observation: Observation) -> Observation:
    """In use because of an unfinished job. Unknown if jobs can't be read, or may be those of projects that this identity can't see."""
    name = observation.resource.name.lower()
    times: list[datetime | None] = []
    unknown = ""
    for workspace_id in observation.resource.details.job_workspaces:
        try:
            jobs = cloud.read_once(("jobs", workspace_id.lower()), partial(_read_jobs, cloud, workspace_id))
        except CloudError as error:
            cloud.add_error(error)
            unknown = f"its jobs couldn't be read: {error}"
            continue
        if name in jobs.unfinished:
            return replace(observation, in_use_because=jobs.unfinished[name])
        if name in jobs.unreadable:
            cloud.add_error(jobs.unreadable[name])
            unknown = f"a job on it couldn't be read: {jobs.unreadable[name]}"
        times.append(jobs.finished_at.get(name))
    reading = Reading(signal="jobs", role=Role.ACTIVITY, event_at=latest_known(*times))
    observation = replace(observation, readings=(*observation.readings, reading))
    unknown = observation.resource.details.unseen_because or unknown
    return replace(observation, unknown_because=unknown) if unknown else observation


def _read_jobs(cloud: CloudSession, workspace_id: str) -> JobsByCompute:
    """Every job: the oldest may be the one that is still paused. Raises CloudError if one can't be read and may be on any compute."""
    jobs = JobsByCompute()
    query, required_keys = {"listViewType": "All"}, ("id", "name", "properties")
    for row in cloud.paged_rows(PERMISSION, f"{workspace_id}/jobs", query, required_keys=required_keys):
        parse_row(PERMISSION, row, partial(_add_job, jobs))
    return jobs


def _computes_of_job(properties: Json) -> set[str]:
    """The computes that a job names. Raises TypeError if a part that may name one is of another type than documented."""
    if any(not isinstance(properties.get(part), part_type | None) for part, part_type in NAMING_PARTS.items()):
        raise TypeError("its compute, settings or steps are of another type than documented")
    free = properties.get("properties") or {}
    if any(_is_compute_key(key.lower()) and not _is_text_or_list(value) for key, value in free.items()):
        raise TypeError("one of its properties about a compute isn't a string")
    return set(_named_computes(properties))


def _is_text_or_list(value: object) -> bool:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str) or is_list


def _add_job(jobs: JobsByCompute, row: Json) -> None:
    computes = _computes_of_job(row["properties"])
    status = str(row["properties"].get("status") or "of unknown status")
    if status.lower() not in FINAL_STATUSES:
        because = f"job {row['name']} on it is {status}"
        jobs.unfinished |= {name: because for name in computes if name not in jobs.unfinished}
        return
    try:
        with reading(PERMISSION, f"the times of {row['id']}"):
            last_seen_at = _last_seen_at(row, row["properties"].get("properties") or {} if computes else {})
            if last_seen_at is None and computes:
                raise ValueError("it has no timestamps")
    except CloudError as error:
        if not computes:
            raise
        jobs.unreadable |= dict.fromkeys(computes, error)
        return
    if last_seen_at:
        jobs.finished_at |= {name: max(last_seen_at, jobs.finished_at.get(name, last_seen_at)) for name in computes}


def _last_seen_at(row: Json, free: Json) -> datetime | None:
    """The latest time that anything about a finished job shows. Raises ValueError if one can't be read.

    It may be before the job's end: the list only has that if a run noted it among its `free` properties, as `EndTimeUtc`, or if the job was
    modified since. If a job has no more than its creation time, its end is unknown, and it counts from its creation.
    """
    system = row.get("systemData") or {}
    noted = (value for key, value in free.items() if key.lower() in TIME_PROPERTIES)
    return latest_known(*(parse_time(text) for text in (system.get("createdAt"), system.get("lastModifiedAt"), *noted)))


def _named_computes(value: object, key: str = "") -> Iterator[str]:
    """Those named anywhere: by ARM ID, or under a key such as `_azureml.ClusterName`. Raises TypeError if a documented name isn't a string."""
    if key in COMPUTE_KEYS and not _is_text_or_list(value):
        raise TypeError(f"its {key} isn't a string")
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _named_computes(inner, str(inner_key).lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _named_computes(inner, key)
    elif isinstance(value, str) and value and (_is_compute_key(key) or "/computes/" in value.lower()):
        yield value.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()


def _is_compute_key(key: str) -> bool:
    return "compute" in key or "cluster" in key or key == "target"
