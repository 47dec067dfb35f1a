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

from reaper.azure.call import UNREADABLE
from reaper.azure.moment import latest, moment
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError, Trouble
from reaper.model import Observation, Reading, Role

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

PERMISSION = f"{PROVIDER}/workspaces/jobs/read"
OVER = {"completed", "failed", "canceled", "cancelled"}


@dataclass(slots=True, kw_only=True)
class Uses:
    """By lower-cased name of a compute: a job that is not over, in words; and when a job that is over was last heard of."""

    open: dict[str, str] = field(default_factory=dict)
    over: dict[str, datetime] = field(default_factory=dict)


def with_jobs(cloud: Cloud, seen: Observation) -> Observation:
    """What was seen of a compute, with its jobs: in use by one that is not over, blind where they cannot be read."""
    name = seen.resource.name.lower()
    times: list[datetime | None] = []
    for space in seen.resource.facts["spaces"]:
        try:
            uses = cloud.once(("jobs", space.lower()), partial(_uses, cloud, space))
        except CloudError as error:
            cloud.note(error)
            return replace(seen, blind=f"its jobs could not be read: {error}")
        if name in uses.open:
            return replace(seen, in_use=uses.open[name])
        times.append(uses.over.get(name))
    return replace(seen, readings=(*seen.readings, Reading(signal="jobs", role=Role.ACTIVITY, at=latest(*times))))


def _uses(cloud: Cloud, space: str) -> Uses:
    """Every job is looked at: the oldest may be the one that is still paused."""
    uses = Uses()
    for row in cloud.pages(PERMISSION, f"{space}/jobs", {"listViewType": "All"}, has=("id", "name", "properties")):
        try:
            _add(uses, row)
        except UNREADABLE as error:
            raise CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})") from error
    return uses


def _add(uses: Uses, row: dict[str, Any]) -> None:
    status = str(row["properties"].get("status") or "of unknown status")
    if not isinstance(row["properties"].get("computeId"), str | None):
        raise TypeError("its compute is no text")
    system = row.get("systemData") or {}
    heard = latest(moment(system.get("createdAt")), moment(system.get("lastModifiedAt")))
    for name in set(_named(row["properties"])):
        if status.lower() not in OVER:
            uses.open.setdefault(name, f"job {row['name']} on it is {status}")
        elif heard:
            uses.over[name] = max(heard, uses.over.get(name, heard))


def _named(value: object, key: str = "") -> Iterator[str]:
    """The computes that a job names anywhere: by ARM id, or by plain name under a key that speaks of a compute."""
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _named(inner, str(inner_key).lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, key)
    elif isinstance(value, str) and value and ("compute" in key or key == "target" or "/computes/" in value.lower()):
        yield value.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()
