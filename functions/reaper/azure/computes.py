"""The computes of all workspaces, of every type, read once for all kinds that need them.

https://learn.microsoft.com/rest/api/azureml/compute/list
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.azure import family, workspaces
from reaper.azure.family import Family
from reaper.azure.requests import (
    UNREADABLE_REPLY_ERRORS,
    ArmRequest,
    Json,
    Tags,
    inherited_tags,
    latest_known,
    parse_time,
    read_tags,
    region_key,
)
from reaper.azure.workspaces import PERMISSIONS as WORKSPACE_PERMISSIONS
from reaper.azure.workspaces import PROVIDER, Workspace, is_workspace_gone
from reaper.errors import CloudError, Reason, gone_as_partial
from reaper.model import BilledPart, Resource
from reaper.observation import Observation

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


ROOT = f"{PROVIDER}/workspaces/computes"
PERMISSION = f"{ROOT}/read"
PERMISSIONS = (*WORKSPACE_PERMISSIONS, PERMISSION)
OPTIONAL_PARTS = ("lastOperation", "nodeStateCounts", "personalComputeInstanceSettings", "scaleSettings")
REQUIRED_KEYS = ("id", "name", "properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDetails:
    """What both kinds of computes need to know of one.

    `properties`: what only its type has, with optional parts that are missing as empty ones. `job_workspaces`: the IDs of the workspaces
    whose jobs can use it. `unseen_because`: why jobs of workspaces that this identity can't see may run on it too.
    """

    workspace: Workspace
    job_workspaces: tuple[str, ...]
    properties: Json
    provisioning_state: str
    has_identity: bool = False
    unseen_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """One compute as Azure lists it."""

    id: str
    name: str
    region: str
    created: datetime | None
    changed: datetime | None
    tags: Tags
    people: Mapping[str, str]
    details: ComputeDetails


def list_computes(cloud: CloudSession, compute_type: str) -> Iterator[Compute]:
    """Every compute of that type. A workspace that can't be read is an error of the session, and the others are still listed.

    Raises CloudError if the workspaces can't be listed.
    """
    listed = workspaces.list_and_add_errors(cloud)
    visible = family.link_workspaces(
        listed.workspaces, has_hidden_rows=listed.has_hidden_rows, is_restricted=listed.is_restricted
    )
    hubs_first = sorted(listed.workspaces, key=lambda space: (space.kind == family.PROJECT, space.hub is not None))
    rows_by_workspace = cloud.map_concurrently(lambda space: (space, _rows_of_workspace(cloud, space)), hubs_first)
    known: set[tuple[Any, ...]] = set()
    for space, rows in rows_by_workspace:
        kin = family.family_of(space, visible)
        for compute in filter(None, (_compute_or_none(cloud, row, space, kin, compute_type) for row in rows)):
            # A project lists the computes of its hub as well, and a list may have a compute under two spellings.
            keys = {(kin.home, compute.name.lower(), compute.created), (compute.id.lower(),)}
            if not keys & known:
                yield compute
            known |= keys


def compute_resource(
    cloud: CloudSession, kind: str, compute: Compute, status: str, parts: tuple[BilledPart, ...] | None
) -> Resource:
    """The compute as a resource of `kind`; `parts` is what it is billed for."""
    vm_size = compute.details.properties.get("vmSize")
    nodes = f" x{parts[0].count:g}" if parts and parts[0].count != 1 else ""
    return Resource(
        kind=kind,
        id=compute.id,
        name=compute.name,
        target=cloud.target,
        region=compute.region,
        created=compute.created,
        changed=compute.changed,
        status=status,
        size=f"{vm_size}{nodes}" if vm_size else "",
        parts=parts,
        tags=compute.tags,
        people=compute.people,
        details=compute.details,
    )


def read_compute_now(cloud: CloudSession, resource: Resource, compute_type: str) -> Compute:
    """A compute of that type, with its workspace's tags, as they are now, from the source itself. Raises CloudError.

    The compute comes last: a call before it may wait for minutes, and what it shows must be as of now.
    """
    if resource.name.lower() != resource.id.rpartition("/")[2].lower():  # in a workflow, both come from what was handed over
        raise CloudError(
            Reason.REFUSED, PERMISSION, f"{resource.id} isn't named {resource.name}, whose metrics and jobs would be read"
        )
    workspaces.require_inside(cloud, resource.id, resource.details.workspace)
    try:
        with gone_as_partial():
            space = workspaces.read_workspace_now(cloud, resource.details.workspace)
            kin = _current_family(cloud, space)
    except CloudError:
        read_row(cloud, resource.id)  # if it is gone itself, that is the reason
        raise
    row = cloud.call(ArmRequest(permission=PERMISSION, path=resource.id, required_keys=REQUIRED_KEYS))
    try:
        if _compute_type(row) == compute_type.lower():
            return _parse_compute(row, space, kin)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{resource.id} can't be read ({error!r})") from error
    raise CloudError(Reason.UNREADABLE, PERMISSION, f"{resource.id} is no longer of type {compute_type}")


def _current_family(cloud: CloudSession, space: Workspace) -> Family:
    """The workspaces that the workspace, as just read, shares its computes with now. Errors in other workspaces don't fail this look."""
    listed = workspaces.read_workspace_list(cloud)
    others = [other for other in listed.workspaces if other.key != space.key]
    return family.family_of(
        space,
        family.link_workspaces([space, *others], has_hidden_rows=listed.has_hidden_rows, is_restricted=listed.is_restricted),
    )


def read_properties(cloud: CloudSession, compute_id: str) -> Json:
    """What only the type of the compute has, as it is now. Raises CloudError."""
    return properties_of(read_row(cloud, compute_id))


def read_row(cloud: CloudSession, compute_id: str) -> Json:
    """A compute as Azure shows it now. Raises CloudError."""
    return cloud.call(ArmRequest(permission=PERMISSION, path=compute_id, required_keys=("id", "properties")))


def properties_of(row: Mapping[str, Any]) -> Json:
    """What only the type of the compute has. Raises CloudError."""
    try:
        return _checked_properties(row["properties"].get("properties") or {})
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{row.get('id')} can't be read ({error!r})") from error


def _rows_of_workspace(cloud: CloudSession, space: Workspace) -> list[Json]:
    try:
        rows, errors = cloud.read_once(("computes", space.id.lower()), lambda: _list_rows(cloud, space))
    except CloudError as error:
        rows, errors = [], [] if is_workspace_gone(cloud, space, error) else [error]
    for bad_row in errors:
        cloud.add_error(bad_row)
    return rows


def _list_rows(cloud: CloudSession, space: Workspace) -> tuple[list[Json], list[CloudError]]:
    """The rows of one workspace, and the errors of others: each kind must report those, because the row may be one of its own."""
    errors: list[CloudError] = []
    rows = cloud.paged_rows(PERMISSION, f"{space.id}/computes", required_keys=REQUIRED_KEYS, on_bad_row=errors.append)
    return list(rows), errors


def _compute_or_none(cloud: CloudSession, row: Json, space: Workspace, kin: Family, compute_type: str) -> Compute | None:
    """The compute in `row`; None if it is of another type or can't be read, which is then an error of the session."""
    try:
        if _compute_type(row) != compute_type.lower():
            return None
        return _parse_compute(row, space, kin)
    except UNREADABLE_REPLY_ERRORS as error:
        cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} can't be read ({error!r})"))
        return None


def _compute_type(row: Json) -> str:
    """Its type, in lower case. Raises TypeError if there is none: it may be of any type."""
    compute_type = row["properties"]["computeType"]
    if not isinstance(compute_type, str) or not compute_type:
        raise TypeError("its computeType is missing")
    return compute_type.lower()


def with_unseen_jobs(observation: Observation) -> Observation:
    """Unknown if it may serve projects that this identity can't see: their jobs would be invisible too."""
    because = observation.resource.details.unseen_because
    return replace(observation, unknown_because=because) if because and not observation.in_use_because else observation


def _parse_compute(row: Json, space: Workspace, kin: Family) -> Compute:
    outer = row["properties"]
    properties = _checked_properties(outer.get("properties") or {})
    last_operation = properties["lastOperation"].get("operationTime")
    times = (outer.get("modifiedOn"), properties.get("allocationStateTransitionTime"), last_operation)
    system = row.get("systemData") or {}
    return Compute(
        id=row["id"],
        name=row["name"],
        region=region_key(outer.get("computeLocation") or row.get("location") or space.region),
        created=parse_time(outer.get("createdOn")) or parse_time(system.get("createdAt")),
        changed=latest_known(*(parse_time(time) for time in times)),
        tags=inherited_tags(read_tags(row.get("tags")), space.tags),
        people=_people_of(properties, system),
        details=ComputeDetails(
            workspace=space,
            job_workspaces=kin.job_workspaces,
            unseen_because=kin.unseen_because,
            properties=properties,
            provisioning_state=str(outer.get("provisioningState") or ""),
            has_identity=bool(row.get("identity")),
        ),
    )


def _checked_properties(properties: Json) -> Json:
    """What only the type has, with missing optional parts as empty ones. Raises TypeError for a part of another type."""
    parts = {name: properties.get(name) or {} for name in OPTIONAL_PARTS}
    if not all(isinstance(part, dict) for part in parts.values()) or not isinstance(properties.get("vmSize", ""), str | None):
        raise TypeError("a part is of another type than documented")
    return {**properties, **parts}


def _people_of(properties: Json, system: Json) -> dict[str, str]:
    """The people it may belong to. No recorded compute carries `systemData`: its creator is in its properties, often as an object ID only."""
    assigned = (properties["personalComputeInstanceSettings"].get("assignedUser") or {}).get("objectId")
    creator = properties.get("createdBy")
    name = str((creator.get("userName") if isinstance(creator, dict) else None) or "")
    people = {"created by": name if "@" in name else system.get("createdBy"), "assigned user": assigned}
    return {role: str(person) for role, person in people.items() if person}
