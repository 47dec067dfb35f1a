"""SageMaker Studio apps of users and spaces, of every app type.

`LastUserActivityTimestamp` is bumped by health checks, and then equals `LastHealthCheckTimestamp`; only another value tells of a person:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.aws import busy, metrics, tags
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Blocked, IndirectEvidence, Observation, Reading, Resource, Role, StepName, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAME = "sagemaker-studio-app"
REQUIRED_KEYS = ("DomainId", "AppType", "AppName")
PRICE_COMPONENTS = {"KernelGateway": "Studio-Notebook", "JupyterServer": "Studio-Notebook"}
IDENTITY_KEYS = ("DomainId", "AppType", "AppName", "SpaceName", "UserProfileName")
SpaceOwners = dict[tuple[str, str], tuple[str, bool]]
"""By domain and name: the owner's user profile, and whether it is that person's own."""
FREE_STATUSES = {
    "Deleting": "it is being deleted",
    "Deleted": "it has been deleted",
    "Failed": "its status is Failed, so no instance runs in it",
}
PERSONAL_APP_TYPES = {"JupyterLab", "CodeEditor", "KernelGateway", "JupyterServer"}
"""Types that serve one person or space and come back by CreateApp as they were."""
SEPARATELY_BILLED_TYPES = {"Canvas", "RStudioServerPro"}
"""Billed by session or licence, not by the instance that the app names."""


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every app that is not deleted. ListApps gives no ARN, and lists deleted apps for a while."""
    listed = [row for row in cloud.sagemaker_rows("ListApps", "Apps", *REQUIRED_KEYS) if row.get("Status") != "Deleted"]
    rows = [row for row in listed if _has_valid_identity(cloud, row)]
    found = tags.tags_by_arn(cloud, "app", "space", "user-profile", "domain") if rows else {}
    for row in rows:
        arn, homes = app_and_parent_arns(cloud, row)
        yield resource_from_row(cloud, row, tags.tags_of(found, arn, *homes))


def _has_valid_identity(cloud: CloudSession, row: Mapping[str, Any]) -> bool:
    """Whether it can be told whose it is; else that is noted."""
    placed = all(isinstance(row.get(key, ""), str) for key in IDENTITY_KEYS)
    if not placed:
        cloud.add_error(CloudError(Reason.UNREADABLE, "sagemaker:ListApps", f"whose the app {row['AppName']} is cannot be read"))
    return placed


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    instance = (row.get("ResourceSpec") or {}).get("InstanceType") or ""
    return Resource(
        kind=NAME,
        id=app_and_parent_arns(cloud, row)[0],
        name=f"{row.get('SpaceName') or row.get('UserProfileName')}/{row['AppType']}/{row['AppName']}",
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        status=row.get("Status", ""),
        size=instance,
        parts=_billed_parts(row["AppType"], instance),
        tags=found,
        people={"Studio user profile": row["UserProfileName"]} if row.get("UserProfileName") else {},
        facts={key: row[key] for key in IDENTITY_KEYS if row.get(key)},
    )


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run, in bulk; a description of each that was silent."""
    running = [r for r in resources if r.status == "InService" and r.size != "system"]
    found = busy.busy_readings(cloud, running, window)
    seen = [Observation(resource=r, readings=found.get(r.id, ())) for r in resources]
    closer = list(cloud.map_concurrently(lambda one: _look_closer(cloud, one, window), seen))
    spaces = _space_owners(cloud) if any(o.indirect_evidence and "SpaceName" in o.resource.facts for o in closer) else {}
    yield from (_with_space_owner(one, spaces) for one in closer)


def _space_owners(cloud: CloudSession) -> SpaceOwners | None:
    """Every space; None, and noted, when they cannot be listed."""
    found: SpaceOwners = {}
    try:
        for row in cloud.paged_rows("sagemaker", "ListSpaces", "Spaces", "DomainId", "SpaceName", MaxResults=100):
            owner = (row.get("OwnershipSettingsSummary") or {}).get("OwnerUserProfileName") or ""
            sharing = (row.get("SpaceSharingSettingsSummary") or {}).get("SharingType")
            found[row["DomainId"], row["SpaceName"]] = owner, bool(owner) and sharing in (None, "Private")
    except CloudError as error:
        cloud.add_error(error)
        return None
    return found


def _with_space_owner(seen: Observation, spaces: SpaceOwners | None) -> Observation:
    """With the space's owner, and what `able` needs: whether it is one person's own. Left out where that is not known."""
    facts = seen.resource.facts
    space = (spaces or {}).get((facts["DomainId"], facts.get("SpaceName", "")))
    if space is None:
        return seen
    people = {"Studio space owner": space[0], **seen.resource.people} if space[0] else seen.resource.people
    return replace(seen, resource=replace(seen.resource, people=people, facts={**facts, "private": space[1]}))


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Only an app of one person, on an instance of its own, that runs."""
    return {StepName.STOP: _blocked_by_sharing(resource) or _blocked_by_state(resource)}


def _blocked_by_sharing(resource: Resource) -> Blocked | None:
    facts = resource.facts
    if facts.get("AppType") not in PERSONAL_APP_TYPES:
        return Blocked(
            because=f"apps of type {facts.get('AppType')} are more than one person's own, or cannot be started again as they were"
        )
    if resource.size in {"", "system"}:
        return Blocked(because="it has no instance of its own")
    if "SpaceName" not in facts:
        return None if facts.get("UserProfileName") else Blocked(because="it belongs to nobody")
    if "private" not in facts:
        return Blocked(because="whose space it is in could not be read")
    return None if facts["private"] else Blocked(because="it is in a shared space, where anybody of the domain may be at work")


def _blocked_by_state(resource: Resource) -> Blocked | None:
    if resource.status in {"Deleting", "Deleted"}:
        return Blocked(because="it is being deleted already", already_done=True)
    return None if resource.status == "InService" else Blocked(because=f"its status is {resource.status}")


def app_and_parent_arns(cloud: CloudSession, row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The app's ARN as DescribeApp spells it, and those of the space or user and the domain it lives in, whose tags it inherits."""
    stem = f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:"
    domain, home = row["DomainId"], row.get("SpaceName") or row.get("UserProfileName")
    kind = "space" if row.get("SpaceName") else "user-profile"
    app = f"{stem}app/{domain}/{home}/{row['AppType']}/{row['AppName']}"
    return app, [f"{stem}{kind}/{domain}/{home}", f"{stem}domain/{domain}"]


def _billed_parts(app_type: str, instance: str) -> tuple[BilledPart, ...] | None:
    if not instance or app_type in SEPARATELY_BILLED_TYPES:
        return None
    if instance == "system":
        return ()
    return (BilledPart(component=PRICE_COMPONENTS.get(app_type, f"Studio-{app_type}"), instance=instance),)


def _look_closer(cloud: CloudSession, seen: Observation, window: Window) -> Observation:
    resource = seen.resource
    if resource.size == "system" and resource.facts["AppType"] not in SEPARATELY_BILLED_TYPES:
        return replace(seen, free_because="it runs on a system instance, which is free")
    if odd := _judged_by_status(seen, resource.status):
        return odd
    if is_recent(seen, window):
        return replace(seen, unknown_because="it was used or started too recently for a closer look")
    return _with_description(cloud, seen)


def _judged_by_status(seen: Observation, status: str) -> Observation | None:
    """What a status says by itself; None for one in service. An app that could not be started has no instance."""
    if status == "Pending":
        return replace(seen, changing_because="its status is Pending")
    if status in FREE_STATUSES:
        return replace(seen, free_because=FREE_STATUSES[status])
    return (
        None
        if status == "InService"
        else replace(seen, unknown_because=f"its status is {status or 'missing'}, which we do not know")
    )


def _with_description(cloud: CloudSession, seen: Observation) -> Observation:
    facts = seen.resource.facts
    names = {key: facts[key] for key in IDENTITY_KEYS if key in facts}
    if "SpaceName" in names:
        names.pop("UserProfileName", None)
    try:
        row = cloud.call("sagemaker", "DescribeApp", "Status", **names)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            cloud.add_error(error)
        return replace(seen, unknown_because=f"it could not be described: {error}")
    if odd := _judged_by_status(seen, str(row["Status"])):
        return replace(odd, resource=replace(odd.resource, status=str(row["Status"])))
    return _with_activity(seen, row.get("LastUserActivityTimestamp"), row.get("LastHealthCheckTimestamp"))


def _with_activity(seen: Observation, used: datetime | None, checked: datetime | None) -> Observation:
    created = seen.resource.created
    person = used if used and checked and used != checked else None
    if person:
        reading = Reading(signal="LastUserActivityTimestamp", role=Role.ACTIVITY, event_at=person)
        seen = replace(seen, readings=(*seen.readings, reading))
    if created is None:
        return seen
    quiet = "its last user activity is old" if person else "nothing tells whether anybody uses it"
    because = f"it has been running since {created:%Y-%m-%d %H:%M} UTC and {quiet}; no Busy signal proves it"
    return replace(seen, indirect_evidence=IndirectEvidence(since=max(created, person) if person else created, because=because))


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker Studio app",
    docs="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html",
    permissions=("sagemaker:ListApps", "sagemaker:DescribeApp", "sagemaker:ListSpaces", tags.PERMISSION, *metrics.PERMISSIONS),
    activity="Busy above 0; LastUserActivityTimestamp, only where it differs from LastHealthCheckTimestamp",
    heartbeat="points of Busy",
    without_proof="likely by age where nobody published Busy within the look-back; system instances are exempt",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    actions={
        StepName.STOP: ActionSpec(
            participle="shut down",
            effect="deletes this one app, which is how a Studio app is stopped; its space or home directory and all files in it stay",
            undo="creates it again with the same instance, image and tags; running kernels and unsaved work are lost",
            permissions=("sagemaker:ListTags", "sagemaker:DeleteApp"),
        ),
    },
    needs_setup="Busy (docs/busy.md)",
)
