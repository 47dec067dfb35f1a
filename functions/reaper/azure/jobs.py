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

from reaper.azure.arm_values import latest, moment
from reaper.azure.request import UNREADABLE
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError, Trouble
from reaper.model import Observation, Reading, Role

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

PERMISSION = f"{PROVIDER}/workspaces/jobs/read"
PARTS: dict[str, type] = {"computeId": str, "settings": dict, "jobs": dict, "properties": dict}
"""What may name a compute: of a job itself, of all steps of a pipeline, of a single step, and of where it was run."""
NAMES = {"computeid", "default_compute", "defaultcompute"}
"""What holds the name or id of a compute, in a job and in each step of a pipeline."""
OVER = {"completed", "failed", "canceled", "cancelled"}
TIMES = ("starttimeutc", "endtimeutc")
"""Free properties in which Azure ML notes when a job was at work, in lower case."""


@dataclass(slots=True, kw_only=True)
class Uses:
    """By lower-cased name of a compute: a job that is not over, in words; when a job that is over was last heard of; and a job of which
    that cannot be read.
    """

    open: dict[str, str] = field(default_factory=dict)
    over: dict[str, datetime] = field(default_factory=dict)
    odd: dict[str, CloudError] = field(default_factory=dict)


def with_jobs(cloud: Cloud, seen: Observation) -> Observation:
    """What was seen of a compute, with its jobs: in use by one that is not over, blind where they cannot be read."""
    name = seen.resource.name.lower()
    times: list[datetime | None] = []
    lost = ""
    for space in seen.resource.facts["spaces"]:
        try:
            uses = cloud.once(("jobs", space.lower()), partial(_uses, cloud, space))
        except CloudError as error:
            cloud.note(error)
            lost = f"its jobs could not be read: {error}"
            continue
        if name in uses.open:
            return replace(seen, in_use=uses.open[name])
        if name in uses.odd:
            cloud.note(uses.odd[name])
            lost = f"a job on it could not be read: {uses.odd[name]}"
        times.append(uses.over.get(name))
    seen = replace(seen, readings=(*seen.readings, Reading(signal="jobs", role=Role.ACTIVITY, at=latest(*times))))
    return replace(seen, blind=lost) if lost else seen


def _uses(cloud: Cloud, space: str) -> Uses:
    """Every job is looked at: the oldest may be the one that is still paused.

    Raises CloudError where one cannot be read and may be on any compute. One that plainly names its computes is only odd for those.
    """
    uses = Uses()
    for row in cloud.pages(PERMISSION, f"{space}/jobs", {"listViewType": "All"}, has=("id", "name", "properties")):
        try:
            _add(uses, row, _computes(row["properties"]))
        except UNREADABLE as error:
            raise CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})") from error
    return uses


def _computes(properties: dict[str, Any]) -> set[str]:
    """The computes that a job names. Raises TypeError where a part that may name one is of another type than documented."""
    if any(not isinstance(properties.get(part), kind | None) for part, kind in PARTS.items()):
        raise TypeError("its compute, settings or steps are of another type than documented")
    free = properties.get("properties") or {}
    if any(_speaks_of_one(key.lower()) and not _is_text(value) for key, value in free.items()):
        raise TypeError("one of its properties that speak of a compute is no text")
    return set(_named(properties))


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _add(uses: Uses, row: dict[str, Any], names: set[str]) -> None:
    status = str(row["properties"].get("status") or "of unknown status")
    if status.lower() not in OVER:
        uses.open |= {name: f"job {row['name']} on it is {status}" for name in names if name not in uses.open}
        return
    try:
        heard = _heard(row, row["properties"].get("properties") or {} if names else {})
        if heard is None and names:
            raise ValueError("it has no time at all")
    except UNREADABLE as error:
        if not names:
            raise
        odd = CloudError(Trouble.GARBLED, PERMISSION, f"when {row['id']} was at work cannot be read ({error!r})")
        uses.odd |= dict.fromkeys(names, odd)
        return
    uses.over |= {name: max(heard, uses.over.get(name, heard)) for name in names if heard}


def _heard(row: dict[str, Any], free: dict[str, Any]) -> datetime | None:
    """When a job that is over was last heard of: the latest time that anything of it gives. Raises ValueError for one that cannot be read.

    That may be before its end: the list says that only where a run noted it among its `free` properties, as `EndTimeUtc`, or where the job
    was modified since. Of one that says no more than when it was created, the end is not known, and it counts from there.
    """
    system = row.get("systemData") or {}
    noted = (value for key, value in free.items() if key.lower() in TIMES)
    return latest(*(moment(text) for text in (system.get("createdAt"), system.get("lastModifiedAt"), *noted)))


def _named(value: object, key: str = "") -> Iterator[str]:
    """The computes that a job names anywhere: by ARM id, or by plain name under a key that speaks of one, such as `_azureml.ClusterName`.

    Raises TypeError where what is documented as the name of one is no text.
    """
    if key in NAMES and not _is_text(value):
        raise TypeError(f"its {key} is no text")
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _named(inner, str(inner_key).lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, key)
    elif isinstance(value, str) and value and (_speaks_of_one(key) or "/computes/" in value.lower()):
        yield value.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()


def _speaks_of_one(key: str) -> bool:
    return "compute" in key or "cluster" in key or key == "target"
