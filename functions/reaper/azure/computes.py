"""The computes of all workspaces, of every type, read once for all kinds that need them; which workspaces' jobs may run on them; and those jobs.

A hub and its projects share computes, each naming the other, in one of several spellings or not at all:
https://learn.microsoft.com/azure/machine-learning/concept-hub-workspace
https://learn.microsoft.com/rest/api/azureml/compute/list
An unfinished job proves use, and one of unreadable times leaves a compute unknown. Jobs are listed only if a verdict needs them, because the API has
no filter for computes. Every status that isn't final counts as use, and so do archived jobs, pipeline steps and default computes:
https://learn.microsoft.com/rest/api/azureml/jobs/list
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.azure import workspaces
from reaper.azure.reader import each
from reaper.azure.requests import (
    ArmRequest,
    Json,
    inherited_tags,
    latest_known,
    parse_row,
    parse_time,
    read_tags,
    reading,
    region_key,
)
from reaper.azure.workspaces import (
    PROVIDER,
    STANDALONE_KINDS,
    Workspace,
    WorkspaceList,
    comparable_id,
    last_segment,
    workspace_request,
)
from reaper.errors import CloudError, Reason, gone_as_partial
from reaper.model import BilledPart, Resource, Role
from reaper.observation import Observation, Reading

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

ROOT = f"{PROVIDER}/workspaces/computes"
PERMISSION = f"{ROOT}/read"
PERMISSIONS = (*workspaces.PERMISSIONS, PERMISSION)
OPTIONAL_PARTS = ("lastOperation", "nodeStateCounts", "personalComputeInstanceSettings", "scaleSettings")
REQUIRED_KEYS = ("id", "name", "properties")
HUB, PROJECT = "hub", "project"
CHANGING_STATES = {"Creating", "Updating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDetails:
    """What both kinds of computes need to know of one.

    `properties`: what only its type has, with optional parts that are missing as empty ones. `job_workspaces`: the IDs of the workspaces
    whose jobs can use it. `unseen_because`: why jobs of workspaces that this identity can't see may run on it too. `may_lack_settings`: read
    at an older API version, so that a setting that isn't there may be on.
    """

    workspace: Workspace
    job_workspaces: tuple[str, ...]
    properties: Json
    provisioning_state: str
    has_identity: bool = False
    may_lack_settings: bool = False
    unseen_because: str | None = None


Family = tuple[str, tuple[str, ...], str | None]
"""A key that is the same for all workspaces that share computes, whose lists repeat each other's; the IDs of those whose jobs may run on them; and
why jobs of others may too.
"""


def list_computes(compute_type: str, complete: Callable[[Resource], Resource], cloud: CloudSession) -> Iterator[Resource]:
    """`Kind.discover`: every compute of that type; `complete` makes a resource of its kind of it. A workspace that can't be read is an error of the
    session, and hides no other. Raises CloudError if the workspaces can't be listed.
    """
    listed = workspaces.list_workspaces(cloud)
    families = Families(listed)
    hubs_first = sorted(listed.workspaces, key=lambda space: (space.kind == PROJECT, space.hub is not None))
    known: set[tuple[Any, ...]] = set()
    for space, rows in zip(hubs_first, cloud.map_concurrently(partial(_list_rows, cloud), hubs_first), strict=True):
        kin = families.family_of(space)
        parse = partial(_parse_if_type, cloud, compute_type, space, kin)
        for compute in filter(None, cloud.each(PERMISSION, rows, parse)):
            # A project lists the computes of its hub as well, and a list may have a compute under two spellings.
            keys = {(kin[0], compute.name.lower(), compute.created), (compute.id.lower(),)}
            if not keys & known:
                yield complete(compute)
            known |= keys


def complete(compute: Resource, kind: str, status: str, parts: tuple[BilledPart, ...] | None) -> Resource:
    """The compute as a resource of `kind`; `parts` is what it is billed for."""
    vm_size = compute.details.properties.get("vmSize")
    nodes = f" x{parts[0].count:g}" if parts and parts[0].count != 1 else ""
    return replace(compute, kind=kind, status=status, size=f"{vm_size}{nodes}" if vm_size else "", parts=parts)


def read_compute_now(
    compute_type: str, complete: Callable[[Resource], Resource], cloud: CloudSession, resource: Resource
) -> Resource:
    """`Table.read_now`: a compute of that type, with its own and its workspace's tags as they are now, from the source itself. Raises CloudError.

    The compute comes last: a call before it may wait for minutes, and what it shows must be as of now.
    """
    if resource.name.lower() != last_segment(resource.id).lower():  # in a workflow, both come from what was handed over
        text = f"{resource.id} isn't named {resource.name}, whose metrics and jobs would be read"
        raise CloudError(Reason.REFUSED, PERMISSION, text)
    workspaces.require_inside(cloud, resource.id, resource.details.workspace)
    try:
        with gone_as_partial():
            space = workspaces.read_workspace_now(cloud, resource.details.workspace)
            listed = workspaces.list_workspaces(cloud, quietly=True)  # errors in other workspaces don't fail this look
    except CloudError:
        cloud.call(compute_request(resource.id))  # if it is gone itself, that is the reason
        raise
    others = [other for other in listed.workspaces if other.key != space.key]
    kin = Families(replace(listed, workspaces=[space, *others])).family_of(space)
    row = cloud.call(ArmRequest(permission=PERMISSION, path=resource.id, required_keys=REQUIRED_KEYS))
    compute = parse_row(PERMISSION, row, partial(_parse_if_type, cloud, compute_type, space, kin))
    if compute is None:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{resource.id} is no longer of type {compute_type}")
    return replace(complete(compute), id=resource.id, name=resource.name, stop_by=resource.stop_by)


def compute_request(compute_id: str) -> ArmRequest:
    """Reads one compute."""
    return ArmRequest(permission=PERMISSION, path=compute_id, required_keys=("id", "properties"))


def properties_of(row: Json) -> Json:
    """What only the type of the compute has, with missing optional parts as empty ones. Raises CloudError for a part of another type."""
    with reading(PERMISSION, str(row.get("id"))):
        properties = row["properties"].get("properties") or {}
        parts = {name: properties.get(name) or {} for name in OPTIONAL_PARTS}
        if not all(isinstance(part, dict) for part in parts.values()) or not isinstance(properties.get("vmSize", ""), str | None):
            raise TypeError("a part is of another type than documented")
        return {**properties, **parts}


def _list_rows(cloud: CloudSession, space: Workspace) -> list[Json]:
    try:
        rows, errors = cloud.list_once(PERMISSION, f"{space.id}/computes", REQUIRED_KEYS)
    except CloudError as error:
        rows, errors = [], [] if cloud.failed_as_gone(error, workspace_request(space.id)) else [error]
    for bad_row in errors:
        cloud.add_error(bad_row)
    return rows


def _parse_if_type(cloud: CloudSession, compute_type: str, space: Workspace, kin: Family, row: Json) -> Resource | None:
    """The compute in the row; None if it is of another type. Raises TypeError if it names no type: it may be of any."""
    outer = row["properties"]
    written = outer["computeType"]
    if not isinstance(written, str) or not written:
        raise TypeError("its computeType is missing")
    if written.lower() != compute_type.lower():
        return None
    properties, (_, job_workspaces, unseen_because) = properties_of(row), kin
    last_operation = properties["lastOperation"].get("operationTime")
    times = (outer.get("modifiedOn"), properties.get("allocationStateTransitionTime"), last_operation)
    system = row.get("systemData") or {}
    return Resource(
        kind=written,
        id=row["id"],
        name=row["name"],
        target=cloud.target,
        region=region_key(outer.get("computeLocation") or row.get("location") or space.region),
        created=parse_time(outer.get("createdOn")) or parse_time(system.get("createdAt")),
        changed=latest_known(*(parse_time(time) for time in times)),
        tags=inherited_tags(read_tags(row.get("tags")), space.tags),
        people=_people_of(properties, system),
        details=ComputeDetails(
            workspace=space,
            job_workspaces=job_workspaces,
            unseen_because=unseen_because,
            properties=properties,
            provisioning_state=str(outer.get("provisioningState") or ""),
            has_identity=bool(row.get("identity")),
            may_lack_settings=PERMISSION in cloud.clients.older_versions,
        ),
    )


def _people_of(properties: Json, system: Json) -> dict[str, str]:
    """The people it may belong to. No recorded compute carries `systemData`: its creator is in its properties, often as an object ID only."""
    assigned = (properties["personalComputeInstanceSettings"].get("assignedUser") or {}).get("objectId")
    creator = properties.get("createdBy")
    name = str((creator.get("userName") if isinstance(creator, dict) else None) or "")
    people = {"created by": name if "@" in name else system.get("createdBy"), "assigned user": assigned}
    return {role: str(person) for role, person in people.items() if person}


class Families:
    """Which workspaces share their computes.

    `links`: by key, the visible workspaces that one names or is named by. `hub_of`: the visible hub that it names. `missing`: the projects it names that
    aren't visible. `strays` may belong to any hub: unreadable ones, and possible projects without a known hub. `unsorted`: of an unknown kind, so any
    hub may be theirs.
    """

    def __init__(self, listed: WorkspaceList) -> None:
        self.listed, self.spaces = listed, {space.key: space for space in listed.workspaces}
        self.links: dict[str, set[str]] = defaultdict(set)
        self.hub_of: dict[str, str] = {}
        self.missing: dict[str, list[str]] = {}
        for key, space in self.spaces.items():
            projects = {text: self._key_of(text, key) for text in space.projects}
            self.missing[key] = [text for text, project in projects.items() if project is None]
            if hub := self._key_of(space.hub):
                self.hub_of[key] = hub
            for other in filter(None, (*projects.values(), hub)):
                self.links[key].add(other)
                self.links[other].add(key)
        known_kinds = {HUB, PROJECT, *STANDALONE_KINDS}
        self.strays = [key for key, space in self.spaces.items() if self._is_stray(space)]
        self.unsorted = [k for k, one in self.spaces.items() if not (self.links[k] or one.hub or one.kind in known_kinds)]

    def family_of(self, space: Workspace) -> Family:
        """All workspaces that the visible `space` shares its computes with, as far as links lead. Any doubt is a reason to judge none of them."""
        members, to_visit = {space.key: space}, [space.key]
        while to_visit:
            for other in sorted(self.links.get(to_visit.pop(), set()) - members.keys()):
                members[other] = self.spaces[other]
                to_visit.append(other)
        if not space.shares_computes and len(members) == 1:
            return space.key, (space.id,), None
        is_hub = any(member.kind == HUB or member.projects for member in members.values())
        users = dict.fromkeys([*members, *self.strays, *(self.unsorted if is_hub else ())])
        return min(members), tuple(self.spaces[key].id for key in users), self._unseen_because(space, list(members.values()))

    def _key_of(self, text: str | None, hub: str = "") -> str | None:
        """The key of the visible workspace that another one names by `text`; None if there isn't just one.

        An ID or a workspace's number is unambiguous. A mere name, which a `hub` may give for its project, may be another workspace's, unless that one
        names the hub too.
        """
        if text is None or text in self.spaces:
            return text
        matches = [
            key
            for key, other in self.spaces.items()
            if (other.guid and comparable_id(other.guid) == text) or (hub and (other.name.lower(), other.hub) == (text, hub))
        ]
        return matches[0] if len(matches) == 1 else None

    def _is_stray(self, space: Workspace) -> bool:
        """Whether it may be a project of any visible hub: it names no hub, or one that isn't in its own subscription's list."""
        if space.is_unreadable or space.key in self.hub_of:
            return space.is_unreadable
        if space.hub:
            home = "/".join(space.key.split("/")[:3]) + "/"
            return not space.hub.startswith("/subscriptions/") or space.hub.startswith(home)
        return not self.links[space.key] and space.kind == PROJECT

    def _unseen_because(self, space: Workspace, members: Sequence[Workspace]) -> str | None:
        """Why there may be workspaces that this identity can't see and whose jobs run on the computes of `space` and the other members."""
        if self.listed.has_hidden_rows:
            return "a workspace can't be read at all, and may be a project whose jobs run on it"
        if space.key in self.strays and (space.is_unreadable or space.kind == PROJECT):
            return f"the hub of its workspace {space.name} is unknown, so other projects' jobs may run on it"
        # A hub names its projects, a project only its hub: if the hub isn't visible, any of its projects may not be either.
        for member in members:
            hub = self.hub_of.get(member.key)
            if member.hub and (hub is None or self.spaces[hub].is_unreadable):
                return f"its hub {last_segment(member.hub)} isn't visible, and neither may be projects whose jobs run on it"
        if missing := [last_segment(project) for member in members for project in self.missing[member.key]]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            return f"its hub's projects {', '.join(missing[:3])}{more} aren't visible, and neither are their jobs"
        # If other resource groups may not be read, only a hub that names its projects shows that there are no others.
        silent = [member.name for member in members if member.kind != PROJECT and not member.projects]
        if self.listed.is_restricted and silent:
            return f"its workspace {silent[0]} names no projects, and resource groups that may have some can't be read"
        return None


READ_JOBS = f"{PROVIDER}/workspaces/jobs/read"
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
    for row in cloud.paged_rows(READ_JOBS, f"{workspace_id}/jobs", query, required_keys=required_keys):
        parse_row(READ_JOBS, row, partial(_add_job, jobs))
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
        # The latest time that anything shows. It may be before the job's end: the list only has that if a run noted it among its free properties, as
        # `EndTimeUtc`, or if the job was modified since. A job that has no more than its creation time counts from its creation.
        with reading(READ_JOBS, f"the times of {row['id']}"):
            system, free = row.get("systemData") or {}, row["properties"].get("properties") or {} if computes else {}
            noted = [value for key, value in free.items() if key.lower() in TIME_PROPERTIES]
            last_seen_at = latest_known(*map(parse_time, (system.get("createdAt"), system.get("lastModifiedAt"), *noted)))
            if last_seen_at is None and computes:
                raise ValueError("it has no timestamps")
    except CloudError as error:
        if not computes:
            raise
        jobs.unreadable |= dict.fromkeys(computes, error)
        return
    if last_seen_at:
        jobs.finished_at |= {name: max(last_seen_at, jobs.finished_at.get(name, last_seen_at)) for name in computes}


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
