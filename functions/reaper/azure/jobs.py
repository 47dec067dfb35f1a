"""What the jobs of a workspace say of the computes they name. Listed only where a verdict needs it: the API has no filter for us.

Every status that is not final counts as use, and so do archived jobs, pipeline steps and default computes:
https://learn.microsoft.com/rest/api/azureml/jobs/list
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.azure.arm_values import latest_known, parse_time
from reaper.azure.request import UNREADABLE_REPLY_ERRORS
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError, Reason
from reaper.model import Observation, Reading, Role

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PERMISSION = f"{PROVIDER}/workspaces/jobs/read"
NAMING_PARTS: dict[str, type] = {"computeId": str, "settings": dict, "jobs": dict, "properties": dict}
"""What may name a compute: of a job itself, of all steps of a pipeline, of a single step, and of where it was run."""
COMPUTE_KEYS = {"computeid", "default_compute", "defaultcompute"}
"""What holds the name or id of a compute, in a job and in each step of a pipeline."""
FINAL_STATUSES = {"completed", "failed", "canceled", "cancelled"}
TIME_PROPERTIES = ("starttimeutc", "endtimeutc")
"""Free properties in which Azure ML notes when a job was at work, in lower case."""


@dataclass(slots=True, kw_only=True)
class JobsByCompute:
    """By lower-cased name of a compute: a job that is not over, in words; when a job that is over was last heard of; and a job of which
    that cannot be read.
    """

    unfinished: dict[str, str] = field(default_factory=dict)
    finished_at: dict[str, datetime] = field(default_factory=dict)
    unreadable: dict[str, CloudError] = field(default_factory=dict)


def with_jobs(cloud: CloudSession, seen: Observation) -> Observation:
    """What was seen of a compute, with its jobs: in use by one that is not over, blind where they cannot be read."""
    name = seen.resource.name.lower()
    times: list[datetime | None] = []
    lost = ""
    for space in seen.resource.details.job_workspaces:
        try:
            uses = cloud.read_once(("jobs", space.lower()), partial(_read_jobs, cloud, space))
        except CloudError as error:
            cloud.add_error(error)
            lost = f"its jobs could not be read: {error}"
            continue
        if name in uses.unfinished:
            return replace(seen, in_use_because=uses.unfinished[name])
        if name in uses.unreadable:
            cloud.add_error(uses.unreadable[name])
            lost = f"a job on it could not be read: {uses.unreadable[name]}"
        times.append(uses.finished_at.get(name))
    seen = replace(seen, readings=(*seen.readings, Reading(signal="jobs", role=Role.ACTIVITY, event_at=latest_known(*times))))
    return replace(seen, unknown_because=lost) if lost else seen


def _read_jobs(cloud: CloudSession, space: str) -> JobsByCompute:
    """Every job is looked at: the oldest may be the one that is still paused.

    Raises CloudError where one cannot be read and may be on any compute. One that plainly names its computes is only odd for those.
    """
    uses = JobsByCompute()
    for row in cloud.paged_rows(PERMISSION, f"{space}/jobs", {"listViewType": "All"}, required_keys=("id", "name", "properties")):
        try:
            _add_job(uses, row, _computes_of_job(row["properties"]))
        except UNREADABLE_REPLY_ERRORS as error:
            raise CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} cannot be read ({error!r})") from error
    return uses


def _computes_of_job(properties: dict[str, Any]) -> set[str]:
    """The computes that a job names. Raises TypeError where a part that may name one is of another type than documented."""
    if any(not isinstance(properties.get(part), kind | None) for part, kind in NAMING_PARTS.items()):
        raise TypeError("its compute, settings or steps are of another type than documented")
    free = properties.get("properties") or {}
    if any(_is_compute_key(key.lower()) and not _is_text_or_list(value) for key, value in free.items()):
        raise TypeError("one of its properties that speak of a compute is no text")
    return set(_named_computes(properties))


def _is_text_or_list(value: object) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _add_job(uses: JobsByCompute, row: dict[str, Any], names: set[str]) -> None:
    status = str(row["properties"].get("status") or "of unknown status")
    if status.lower() not in FINAL_STATUSES:
        uses.unfinished |= {name: f"job {row['name']} on it is {status}" for name in names if name not in uses.unfinished}
        return
    try:
        heard = _last_heard_at(row, row["properties"].get("properties") or {} if names else {})
        if heard is None and names:
            raise ValueError("it has no time at all")
    except UNREADABLE_REPLY_ERRORS as error:
        if not names:
            raise
        odd = CloudError(Reason.UNREADABLE, PERMISSION, f"when {row['id']} was at work cannot be read ({error!r})")
        uses.unreadable |= dict.fromkeys(names, odd)
        return
    uses.finished_at |= {name: max(heard, uses.finished_at.get(name, heard)) for name in names if heard}


def _last_heard_at(row: dict[str, Any], free: dict[str, Any]) -> datetime | None:
    """When a job that is over was last heard of: the latest time that anything of it gives. Raises ValueError for one that cannot be read.

    That may be before its end: the list says that only where a run noted it among its `free` properties, as `EndTimeUtc`, or where the job
    was modified since. Of one that says no more than when it was created, the end is not known, and it counts from there.
    """
    system = row.get("systemData") or {}
    noted = (value for key, value in free.items() if key.lower() in TIME_PROPERTIES)
    return latest_known(*(parse_time(text) for text in (system.get("createdAt"), system.get("lastModifiedAt"), *noted)))


def _named_computes(value: object, key: str = "") -> Iterator[str]:
    """The computes that a job names anywhere: by ARM id, or by plain name under a key that speaks of one, such as `_azureml.ClusterName`.

    Raises TypeError where what is documented as the name of one is no text.
    """
    if key in COMPUTE_KEYS and not _is_text_or_list(value):
        raise TypeError(f"its {key} is no text")
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
