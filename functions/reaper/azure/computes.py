"""The computes of all workspaces, of whatever type, read once for all kinds that need them.

https://learn.microsoft.com/rest/api/azureml/compute/list
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reaper.azure import family, tags, workspaces
from reaper.azure.arm_values import latest, moment
from reaper.azure.family import Family
from reaper.azure.request import UNREADABLE, Call
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, Workspace, region, vanished
from reaper.errors import CloudError, Trouble, aside
from reaper.model import Observation, Part, Resource

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import Cloud

ROOT = f"{PROVIDER}/workspaces/computes"
PERMISSION = f"{ROOT}/read"
PERMISSIONS = (*UPPER, PERMISSION)
PARTS = ("lastOperation", "nodeStateCounts", "personalComputeInstanceSettings", "scaleSettings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """One compute. `inner` is what only its type has, its optional parts empty where left out; `spaces` are the workspaces whose jobs can use it.

    `identity`: it has a managed identity of its own. `unseen`: why jobs of workspaces out of sight may be at work on it, too.
    """

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
    identity: bool = False
    unseen: str | None = None


def computes(cloud: Cloud, wanted: str) -> Iterator[Compute]:
    """Every compute of the type `wanted`. A workspace that cannot be read is noted, and the others are given.

    Raises CloudError when the workspaces cannot be listed.
    """
    listed = workspaces.noted(cloud)
    sight = family.sight(listed.spaces, hidden=listed.hidden, narrow=listed.narrow)
    hubs_first = sorted(listed.spaces, key=lambda space: (space.kind == family.PROJECT, space.hub is not None))
    found = cloud.each(lambda space: (space, _rows(cloud, space)), hubs_first)
    seen: set[tuple[Any, ...]] = set()
    for space, rows in found:
        kin = family.of(space, sight)
        for one in filter(None, (_read(cloud, row, space, kin, wanted) for row in rows)):
            # A project lists the computes of its hub as well, and a list may have one under two spellings.
            keys = {(kin.home, one.name.lower(), one.created), (one.id.lower(),)}
            if not keys & seen:
                yield one
            seen |= keys


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
        facts={
            "workspace": one.workspace,
            "spaces": one.spaces,
            "inner": one.inner,
            "state": one.state,
            "identity": one.identity,
            "unseen": one.unseen,
        },
    )


def again(cloud: Cloud, resource: Resource, wanted: str) -> Compute:
    """A compute of the type `wanted` with its workspace's tags as they are now, from the source itself. Raises CloudError."""
    row = cloud.call(Call(permission=PERMISSION, path=resource.id, has=("id", "name", "properties")))
    with aside():
        space = workspaces.again(cloud, resource.facts["workspace"])
        kin = _kin_by_now(cloud, space)
    try:
        if _type(row) == wanted.lower():
            return _compute(row, space, kin)
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, PERMISSION, f"{resource.id} cannot be read ({error!r})") from error
    raise CloudError(Trouble.GARBLED, PERMISSION, f"{resource.id} is no {wanted} any more")


def _kin_by_now(cloud: Cloud, space: Workspace) -> Family:
    """Whom the workspace, as it was just read, shares its computes with by now. What is wrong with other workspaces is no failure of this look."""
    listed = workspaces.listed(cloud)
    others = [other for other in listed.spaces if other.key != space.key]
    return family.of(space, family.sight([space, *others], hidden=listed.hidden, narrow=listed.narrow))


def inner(cloud: Cloud, id_: str) -> dict[str, Any]:
    """What only the type of the compute has, as it is now. Raises CloudError."""
    return inner_of(row(cloud, id_))


def row(cloud: Cloud, id_: str) -> dict[str, Any]:
    """A compute as Azure shows it now. Raises CloudError."""
    return cloud.call(Call(permission=PERMISSION, path=id_, has=("id", "properties")))


def inner_of(shown: Mapping[str, Any]) -> dict[str, Any]:
    """What only the type of the compute has, in what Azure showed of it. Raises CloudError."""
    try:
        return _inner(shown["properties"].get("properties") or {})
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, PERMISSION, f"{shown.get('id')} cannot be read ({error!r})") from error


def _rows(cloud: Cloud, space: Workspace) -> list[dict[str, Any]]:
    try:
        rows, odd = cloud.once(("computes", space.id.lower()), lambda: _listed(cloud, space))
    except CloudError as error:
        rows, odd = [], [] if vanished(cloud, space, error) else [error]
    for trouble in odd:
        cloud.note(trouble)
    return rows


def _listed(cloud: Cloud, space: Workspace) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows of one workspace, and what is wrong with others: each kind has to tell that, because it may be one of its own."""
    odd: list[CloudError] = []
    return list(cloud.pages(PERMISSION, f"{space.id}/computes", has=("id", "name", "properties"), odd=odd.append)), odd


def _read(cloud: Cloud, row: dict[str, Any], space: Workspace, kin: Family, wanted: str) -> Compute | None:
    """The compute in `row`; None when it is of another type, or, noted, when it cannot be read."""
    try:
        if _type(row) != wanted.lower():
            return None
        return _compute(row, space, kin)
    except UNREADABLE as error:
        cloud.note(CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return None


def _type(row: dict[str, Any]) -> str:
    """Its type, lower-cased. Raises TypeError where it says none: it may be any."""
    given = row["properties"]["computeType"]
    if not isinstance(given, str) or not given:
        raise TypeError("its computeType is missing")
    return given.lower()


def within_sight(seen: Observation) -> Observation:
    """Blind where it may serve projects that are out of sight: their jobs would be, too."""
    lost = seen.resource.facts["unseen"]
    return replace(seen, blind=lost) if lost and not seen.in_use else seen


def _compute(row: dict[str, Any], space: Workspace, kin: Family) -> Compute:
    outer = row["properties"]
    special = _inner(outer.get("properties") or {})
    times = (outer.get("modifiedOn"), special.get("allocationStateTransitionTime"), special["lastOperation"].get("operationTime"))
    system = row.get("systemData") or {}
    return Compute(
        id=row["id"],
        name=row["name"],
        workspace=space,
        spaces=kin.spaces,
        unseen=kin.unseen,
        region=region(outer.get("computeLocation") or row.get("location") or space.region),
        created=moment(outer.get("createdOn")) or moment(system.get("createdAt")),
        changed=latest(*(moment(t) for t in times)),
        tags=tags.inherited(tags.read(row.get("tags")), space.tags),
        people=_people(special, system),
        state=str(outer.get("provisioningState") or ""),
        inner=special,
        identity=bool(row.get("identity")),
    )


def _inner(given: dict[str, Any]) -> dict[str, Any]:
    """What only the type has, with an empty part where an optional one is left out. Raises TypeError for a part that is none."""
    parts = {name: given.get(name) or {} for name in PARTS}
    if not all(isinstance(part, dict) for part in parts.values()) or not isinstance(given.get("vmSize", ""), str | None):
        raise TypeError("a part is of another type than documented")
    return {**given, **parts}


def _people(special: dict[str, Any], system: dict[str, Any]) -> dict[str, str]:
    """Whom it may belong to. No recorded compute carries `systemData`; its maker is named beside its settings, often by an object id only."""
    assigned = (special["personalComputeInstanceSettings"].get("assignedUser") or {}).get("objectId")
    maker = special.get("createdBy")
    name = str((maker.get("userName") if isinstance(maker, dict) else None) or "")
    people = {"created by": name if "@" in name else system.get("createdBy"), "assigned user": assigned}
    return {role: str(who) for role, who in people.items() if who}
