"""The computes of all workspaces, of whatever type, read once for all kinds that need them.

https://learn.microsoft.com/rest/api/azureml/compute/list
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reaper.azure import family, tags, workspaces
from reaper.azure.arm_values import latest_known, parse_time
from reaper.azure.family import Family
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, ArmRequest
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, Workspace, is_workspace_gone, region_key
from reaper.errors import CloudError, Reason, gone_as_partial
from reaper.model import BilledPart, Observation, Resource

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import CloudSession

ROOT = f"{PROVIDER}/workspaces/computes"
PERMISSION = f"{ROOT}/read"
PERMISSIONS = (*UPPER, PERMISSION)
OPTIONAL_PARTS = ("lastOperation", "nodeStateCounts", "personalComputeInstanceSettings", "scaleSettings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """One compute. `inner` is what only its type has, its optional parts empty where left out; `spaces` are the workspaces whose jobs can use it.

    `identity`: it has a managed identity of its own. `unseen`: why jobs of workspaces out of sight may be at work on it, too.
    """

    id: str
    name: str
    workspace: Workspace
    job_workspaces: tuple[str, ...]
    region: str
    created: datetime | None
    changed: datetime | None
    tags: tags.Tags
    people: Mapping[str, str]
    provisioning_state: str
    properties: Mapping[str, Any]
    has_identity: bool = False
    unseen_because: str | None = None


def list_computes(cloud: CloudSession, wanted: str) -> Iterator[Compute]:
    """Every compute of the type `wanted`. A workspace that cannot be read is noted, and the others are given.

    Raises CloudError when the workspaces cannot be listed.
    """
    listed = workspaces.list_and_add_errors(cloud)
    sight = family.link_workspaces(listed.workspaces, has_hidden_rows=listed.has_hidden_rows, is_restricted=listed.is_restricted)
    hubs_first = sorted(listed.workspaces, key=lambda space: (space.kind == family.PROJECT, space.hub is not None))
    found = cloud.map_concurrently(lambda space: (space, _rows_of_workspace(cloud, space)), hubs_first)
    seen: set[tuple[Any, ...]] = set()
    for space, rows in found:
        kin = family.family_of(space, sight)
        for one in filter(None, (_compute_or_none(cloud, row, space, kin, wanted) for row in rows)):
            # A project lists the computes of its hub as well, and a list may have one under two spellings.
            keys = {(kin.home, one.name.lower(), one.created), (one.id.lower(),)}
            if not keys & seen:
                yield one
            seen |= keys


def compute_resource(cloud: CloudSession, kind: str, one: Compute, status: str, parts: tuple[BilledPart, ...] | None) -> Resource:
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
        size=f"{one.properties['vmSize']}{nodes}" if one.properties.get("vmSize") else "",
        parts=parts,
        tags=one.tags,
        people=one.people,
        facts={
            "workspace": one.workspace,
            "spaces": one.job_workspaces,
            "inner": one.properties,
            "state": one.provisioning_state,
            "identity": one.has_identity,
            "unseen": one.unseen_because,
        },
    )


def read_compute_now(cloud: CloudSession, resource: Resource, wanted: str) -> Compute:
    """A compute of the type `wanted` with its workspace's tags as they are now, from the source itself. Raises CloudError."""
    row = cloud.call(ArmRequest(permission=PERMISSION, path=resource.id, required_keys=("id", "name", "properties")))
    with gone_as_partial():
        space = workspaces.read_workspace_now(cloud, resource.facts["workspace"])
        kin = _current_family(cloud, space)
    try:
        if _compute_type(row) == wanted.lower():
            return _parse_compute(row, space, kin)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{resource.id} cannot be read ({error!r})") from error
    raise CloudError(Reason.UNREADABLE, PERMISSION, f"{resource.id} is no {wanted} any more")


def _current_family(cloud: CloudSession, space: Workspace) -> Family:
    """Whom the workspace, as it was just read, shares its computes with by now. What is wrong with other workspaces is no failure of this look."""
    listed = workspaces.read_workspace_list(cloud)
    others = [other for other in listed.workspaces if other.key != space.key]
    return family.family_of(
        space,
        family.link_workspaces([space, *others], has_hidden_rows=listed.has_hidden_rows, is_restricted=listed.is_restricted),
    )


def read_properties(cloud: CloudSession, id_: str) -> dict[str, Any]:
    """What only the type of the compute has, as it is now. Raises CloudError."""
    return properties_of(read_row(cloud, id_))


def read_row(cloud: CloudSession, id_: str) -> dict[str, Any]:
    """A compute as Azure shows it now. Raises CloudError."""
    return cloud.call(ArmRequest(permission=PERMISSION, path=id_, required_keys=("id", "properties")))


def properties_of(shown: Mapping[str, Any]) -> dict[str, Any]:
    """What only the type of the compute has, in what Azure showed of it. Raises CloudError."""
    try:
        return _checked_properties(shown["properties"].get("properties") or {})
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{shown.get('id')} cannot be read ({error!r})") from error


def _rows_of_workspace(cloud: CloudSession, space: Workspace) -> list[dict[str, Any]]:
    try:
        rows, odd = cloud.read_once(("computes", space.id.lower()), lambda: _list_rows(cloud, space))
    except CloudError as error:
        rows, odd = [], [] if is_workspace_gone(cloud, space, error) else [error]
    for trouble in odd:
        cloud.add_error(trouble)
    return rows


def _list_rows(cloud: CloudSession, space: Workspace) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows of one workspace, and what is wrong with others: each kind has to tell that, because it may be one of its own."""
    odd: list[CloudError] = []
    return list(
        cloud.paged_rows(PERMISSION, f"{space.id}/computes", required_keys=("id", "name", "properties"), on_bad_row=odd.append)
    ), odd


def _compute_or_none(cloud: CloudSession, row: dict[str, Any], space: Workspace, kin: Family, wanted: str) -> Compute | None:
    """The compute in `row`; None when it is of another type, or, noted, when it cannot be read."""
    try:
        if _compute_type(row) != wanted.lower():
            return None
        return _parse_compute(row, space, kin)
    except UNREADABLE_REPLY_ERRORS as error:
        cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return None


def _compute_type(row: dict[str, Any]) -> str:
    """Its type, lower-cased. Raises TypeError where it says none: it may be any."""
    given = row["properties"]["computeType"]
    if not isinstance(given, str) or not given:
        raise TypeError("its computeType is missing")
    return given.lower()


def with_unseen_jobs(seen: Observation) -> Observation:
    """Blind where it may serve projects that are out of sight: their jobs would be, too."""
    lost = seen.resource.facts["unseen"]
    return replace(seen, unknown_because=lost) if lost and not seen.in_use_because else seen


def _parse_compute(row: dict[str, Any], space: Workspace, kin: Family) -> Compute:
    outer = row["properties"]
    special = _checked_properties(outer.get("properties") or {})
    times = (outer.get("modifiedOn"), special.get("allocationStateTransitionTime"), special["lastOperation"].get("operationTime"))
    system = row.get("systemData") or {}
    return Compute(
        id=row["id"],
        name=row["name"],
        workspace=space,
        job_workspaces=kin.job_workspaces,
        unseen_because=kin.unseen_because,
        region=region_key(outer.get("computeLocation") or row.get("location") or space.region),
        created=parse_time(outer.get("createdOn")) or parse_time(system.get("createdAt")),
        changed=latest_known(*(parse_time(t) for t in times)),
        tags=tags.inherited_tags(tags.read_tags(row.get("tags")), space.tags),
        people=_people_of(special, system),
        provisioning_state=str(outer.get("provisioningState") or ""),
        properties=special,
        has_identity=bool(row.get("identity")),
    )


def _checked_properties(given: dict[str, Any]) -> dict[str, Any]:
    """What only the type has, with an empty part where an optional one is left out. Raises TypeError for a part that is none."""
    parts = {name: given.get(name) or {} for name in OPTIONAL_PARTS}
    if not all(isinstance(part, dict) for part in parts.values()) or not isinstance(given.get("vmSize", ""), str | None):
        raise TypeError("a part is of another type than documented")
    return {**given, **parts}


def _people_of(special: dict[str, Any], system: dict[str, Any]) -> dict[str, str]:
    """Whom it may belong to. No recorded compute carries `systemData`; its maker is named beside its settings, often by an object id only."""
    assigned = (special["personalComputeInstanceSettings"].get("assignedUser") or {}).get("objectId")
    maker = special.get("createdBy")
    name = str((maker.get("userName") if isinstance(maker, dict) else None) or "")
    people = {"created by": name if "@" in name else system.get("createdBy"), "assigned user": assigned}
    return {role: str(who) for role, who in people.items() if who}
