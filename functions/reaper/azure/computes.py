"""The computes of all workspaces, of whatever type, read once for all kinds that need them.

https://learn.microsoft.com/rest/api/azureml/compute/list
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure import tags
from reaper.azure.moment import latest, moment
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, Workspace, region, workspaces
from reaper.errors import CloudError, Trouble
from reaper.model import Part, Resource

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.cloud import Cloud

PERMISSION = f"{PROVIDER}/workspaces/computes/read"
PERMISSIONS = (*UPPER, PERMISSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """One compute. `inner` is what only its type has, empty while there is none; `spaces` are the workspaces whose jobs can use it."""

    id: str
    name: str
    workspace: Workspace
    spaces: tuple[str, ...]
    region: str
    created: datetime | None
    changed: datetime | None
    tags: tags.Tags
    people: Mapping[str, str]
    state: str
    inner: Mapping[str, Any]


def computes(cloud: Cloud, wanted: str) -> Iterator[Compute]:
    """Every compute of the type `wanted`. A workspace that cannot be read is noted, and the others are given.

    Raises CloudError when the workspaces cannot be listed.
    """
    spaces = workspaces(cloud)
    hubs_first = sorted(spaces, key=lambda space: space.hub is not None)
    found = cloud.each(lambda space: (space, _rows(cloud, space)), hubs_first)
    seen: set[tuple[Any, ...]] = set()
    for space, rows in found:
        for row in rows:
            one = _read(cloud, row, space, spaces, wanted)
            # A project lists the computes of its hub as well.
            key = one and (space.hub or space.id.lower(), one.name.lower(), one.created)
            if one and key and key not in seen:
                seen.add(key)
                yield one


def resource(cloud: Cloud, kind: str, one: Compute, status: str, parts: tuple[Part, ...] | None) -> Resource:
    """The compute as a resource of `kind`; what it costs is given by `parts`."""
    nodes = f" x{parts[0].count:g}" if parts and parts[0].count != 1 else ""
    return Resource(
        kind=kind,
        id=one.id,
        name=one.name,
        target=cloud.target,
        region=one.region,
        created=one.created,
        changed=one.changed,
        status=status,
        size=f"{one.inner['vmSize']}{nodes}" if one.inner.get("vmSize") else "",
        parts=parts,
        tags=one.tags,
        people=one.people,
        facts={"workspace": one.workspace, "spaces": one.spaces, "inner": one.inner},
    )


def _rows(cloud: Cloud, space: Workspace) -> list[dict[str, Any]]:
    try:
        return cloud.once(
            ("computes", space.id.lower()),
            lambda: list(cloud.pages(PERMISSION, f"{space.id}/computes", has=("id", "name", "properties"))),
        )
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return []


def _read(cloud: Cloud, row: dict[str, Any], space: Workspace, spaces: list[Workspace], wanted: str) -> Compute | None:
    """The compute in `row`; None when it is of another type, or, noted, when it cannot be read."""
    try:
        if str(row["properties"]["computeType"]).lower() != wanted.lower():
            return None
        return _compute(row, space, _users(space, spaces))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        cloud.note(CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return None


def _users(space: Workspace, spaces: list[Workspace]) -> tuple[str, ...]:
    """The workspace itself, and the projects of a hub, whose jobs run on the hub's computes."""
    return (space.id, *(other.id for other in spaces if other.hub == space.id.lower()))


def _compute(row: dict[str, Any], space: Workspace, spaces: tuple[str, ...]) -> Compute:
    outer = row["properties"]
    inner = outer.get("properties") or {}
    operation = inner.get("lastOperation") or {}
    times = (outer.get("modifiedOn"), inner.get("allocationStateTransitionTime"), operation.get("operationTime"))
    system = row.get("systemData") or {}
    return Compute(
        id=row["id"],
        name=row["name"],
        workspace=space,
        spaces=spaces,
        region=region(outer.get("computeLocation") or row.get("location") or space.region),
        created=moment(outer.get("createdOn")) or moment(system.get("createdAt")),
        changed=latest(*(moment(t) for t in times)),
        tags=tags.inherited(tags.read(row.get("tags")), space.tags),
        people=_people(inner, system),
        state=str(outer.get("provisioningState") or ""),
        inner=inner,
    )


def _people(inner: dict[str, Any], system: dict[str, Any]) -> dict[str, str]:
    assigned = ((inner.get("personalComputeInstanceSettings") or {}).get("assignedUser") or {}).get("objectId")
    people = {"assigned user": assigned, "created by": system.get("createdBy")}
    return {role: str(who) for role, who in people.items() if who}
