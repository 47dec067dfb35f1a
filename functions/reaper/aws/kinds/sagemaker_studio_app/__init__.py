"""SageMaker Studio apps of users and spaces, of every app type.

`LastUserActivityTimestamp` is bumped by health checks, and then equals `LastHealthCheckTimestamp`; only another value tells of a person:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.aws import metrics, sagemaker, tags
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent
from reaper.kind import ActionSpec, Command, Kind, is_pasteable
from reaper.model import BilledPart, Resource, Role, StepName
from reaper.observation import IndirectEvidence, Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


NAME = "sagemaker-studio-app"
REQUIRED_KEYS = ("DomainId", "AppType", "AppName")
PRICE_COMPONENTS = {"KernelGateway": "Studio-Notebook", "JupyterServer": "Studio-Notebook"}
IDENTITY_KEYS = ("DomainId", "AppType", "AppName", "SpaceName", "UserProfileName")
TAG_TYPES = ("sagemaker:app", "sagemaker:space", "sagemaker:user-profile", "sagemaker:domain")
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
"""Billed by session or license, not by the instance that the app names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioAppDetails:
    """What names an app. `is_private_space`: whether its space is one person's own; None if that couldn't be read or it is in no space.

    `used_at`: when a person last used it, from its description, if that says so.
    """

    domain_id: str
    app_type: str
    app_name: str
    space_name: str | None = None
    user_profile: str | None = None
    is_private_space: bool | None = None
    used_at: datetime | None = None


def details_from_row(row: Mapping[str, Any]) -> StudioAppDetails:
    """From a row of the list, or a description."""
    return StudioAppDetails(
        domain_id=row["DomainId"],
        app_type=row["AppType"],
        app_name=row["AppName"],
        space_name=row.get("SpaceName") or None,
        user_profile=row.get("UserProfileName") or None,
        used_at=used_by_person_at(row),
    )


def used_by_person_at(row: Mapping[str, Any]) -> datetime | None:
    """The time of the last use, if it isn't that of a health check."""
    used_at, checked_at = row.get("LastUserActivityTimestamp"), row.get("LastHealthCheckTimestamp")
    return used_at if used_at and checked_at and used_at != checked_at else None


def app_parameters(names: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that name an app: of a space or of a user profile, never of both."""
    parameters = {key: names[key] for key in IDENTITY_KEYS if names.get(key)}
    if "SpaceName" in parameters:
        parameters.pop("UserProfileName", None)
    return parameters


def names_of(details: StudioAppDetails) -> dict[str, str | None]:
    """Its names as a reply spells them."""
    values = (details.domain_id, details.app_type, details.app_name, details.space_name, details.user_profile)
    return dict(zip(IDENTITY_KEYS, values, strict=True))


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every app that is not deleted. ListApps gives no ARN, and lists deleted apps for a while."""
    every = cloud.paged_rows("sagemaker", "ListApps", "Apps", MaxResults=100)
    rows = [row for row in every if row.get("Status") != "Deleted"]
    by_arn = tags.tags_by_arn(cloud, *TAG_TYPES) if rows else {}

    def parse(row: Mapping[str, Any]) -> Resource:
        names = [row[key] for key in REQUIRED_KEYS]
        if not all(names) or not all(isinstance(name, str) for name in (*names, *(row.get(key, "") for key in IDENTITY_KEYS))):
            raise CloudError(Reason.UNREADABLE, "sagemaker:ListApps", f"the names of app {row['AppName']} can't be read")
        arn, parents = app_and_parent_arns(cloud, row)
        return resource_from_row(cloud, row, tags.tags_of(by_arn, arn, *parents))

    return cloud.each("sagemaker:ListApps", rows, parse)


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], own_tags: Mapping[str, str] | None) -> Resource:
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
        tags=own_tags,
        people={"Studio user profile": row["UserProfileName"]} if row.get("UserProfileName") else {},
        details=details_from_row(row),
    )


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run, in bulk; a description of each that was silent."""
    running = [r for r in resources if r.status == "InService" and r.size != "system" and not window.known.get(r.id)]
    readings = sagemaker.busy_readings(cloud, running, window)
    observations = [Observation(resource=r, readings=window.known.get(r.id) or readings.get(r.id, ())) for r in resources]
    closer = list(cloud.map_concurrently(lambda observation: _look_closer(cloud, observation, window), observations))
    owners = _space_owners(cloud) if any(o.indirect_evidence and o.resource.details.space_name for o in closer) else {}
    yield from (replace(observation, resource=with_space_owner(observation.resource, owners)) for observation in closer)


def _space_owners(cloud: CloudSession) -> SpaceOwners | None:
    """Every space; None, and noted, when they can't be listed."""
    return cloud.read_or_none("sagemaker:ListSpaces", lambda: _list_space_owners(cloud))


def read_space_owners(cloud: CloudSession, domain: str, space: str | None) -> SpaceOwners:
    """That space, right before an action; empty if there is no space. Raises CloudError."""
    return _list_space_owners(cloud, DomainIdEquals=domain, SpaceNameContains=space) if space else {}


def _list_space_owners(cloud: CloudSession, **filters: Any) -> SpaceOwners:
    owners: SpaceOwners = {}
    for row in cloud.paged_rows("sagemaker", "ListSpaces", "Spaces", "DomainId", "SpaceName", MaxResults=100, **filters):
        owner = (row.get("OwnershipSettingsSummary") or {}).get("OwnerUserProfileName") or ""
        sharing = (row.get("SpaceSharingSettingsSummary") or {}).get("SharingType")
        owners[row["DomainId"], row["SpaceName"]] = owner, bool(owner) and sharing in (None, "Private")
    return owners


def with_space_owner(resource: Resource, owners: SpaceOwners | None) -> Resource:
    """With the space's owner, and whether the space is that person's own, if that is known."""
    space = (owners or {}).get((resource.details.domain_id, resource.details.space_name or ""))
    if space is None:
        return resource
    people = {"Studio space owner": space[0], **resource.people} if space[0] else resource.people
    return replace(resource, people=people, details=replace(resource.details, is_private_space=space[1]))


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Only an app of one person, on an instance of its own, that runs."""
    return {StepName.STOP: _blocked_by_sharing(resource) or _blocked_by_state(resource)}


def _blocked_by_sharing(resource: Resource) -> Blocked | None:
    details = resource.details
    if not isinstance(details, StudioAppDetails):
        return Blocked(because="it wasn't checked closely")
    if details.app_type not in PERSONAL_APP_TYPES:
        because = f"apps of type {details.app_type} serve more than one person or can't be started again as they were"
        return Blocked(because=because)
    if resource.size in {"", "system"}:
        return Blocked(because="it has no instance of its own")
    if details.space_name is None:
        return None if details.user_profile else Blocked(because="it has no owner")
    if details.is_private_space is None:
        return Blocked(because="the owner of its space couldn't be read")
    because = "it is in a shared space, where anyone in the domain may be at work"
    return None if details.is_private_space else Blocked(because=because)


def _blocked_by_state(resource: Resource) -> Blocked | None:
    if resource.status in {"Deleting", "Deleted"}:
        return Blocked(because="it is being deleted already", already_done=True)
    return None if resource.status == "InService" else Blocked(because=f"its status is {resource.status}")


def shut_down_command(resource: Resource) -> Command | None:
    """The line that deletes the app, which is how a Studio app is stopped."""
    details = resource.details
    if not isinstance(details, StudioAppDetails):
        return None
    home = {"space_name": details.space_name} if details.space_name else {"user_profile_name": details.user_profile or ""}
    named = {"domain_id": details.domain_id, "app_type": details.app_type, "app_name": details.app_name, **home}
    if not all(named.values()) or not is_pasteable(*named.values()):
        return None
    line = sagemaker.sagemaker_line(resource, "delete-app", **named)
    return Command(label=f"{sagemaker.in_account(resource, 'Shut it down now')} (its files stay)", line=line)


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


def _look_closer(cloud: CloudSession, observation: Observation, window: Window) -> Observation:
    resource = observation.resource
    if resource.size == "system" and resource.details.app_type not in SEPARATELY_BILLED_TYPES:
        return replace(observation, free_because="it runs on a system instance, which is free")
    if settled := _settled_by_status(observation, resource.status):
        return settled
    if is_recent(observation, window):
        return replace(observation, unknown_because="it was used or started too recently for a closer look")
    return _with_description(cloud, observation)


def _settled_by_status(observation: Observation, status: str) -> Observation | None:
    """What a status alone decides; None for an app in service. An app that couldn't be started has no instance."""
    if status == "Pending":
        return replace(observation, changing_because="its status is Pending")
    if status in FREE_STATUSES:
        return replace(observation, free_because=FREE_STATUSES[status])
    if status == "InService":
        return None
    return replace(observation, unknown_because=f"this version doesn't recognize its status {status or '(none)'}")


def _with_description(cloud: CloudSession, observation: Observation) -> Observation:
    row = cloud.describe("DescribeApp", "Status", **app_parameters(names_of(observation.resource.details)))
    if isinstance(row, CloudError):
        return replace(observation, unknown_because=f"it couldn't be described: {row}")
    if settled := _settled_by_status(observation, str(row["Status"])):
        return replace(settled, resource=replace(settled.resource, status=str(row["Status"])))
    return _with_activity(observation, used_by_person_at(row))


def _with_activity(observation: Observation, by_person: datetime | None) -> Observation:
    created = observation.resource.created
    if by_person:
        reading = Reading(signal="LastUserActivityTimestamp", role=Role.ACTIVITY, event_at=by_person)
        observation = replace(observation, readings=(*observation.readings, reading))
    app_type = observation.resource.details.app_type
    if app_type not in PERSONAL_APP_TYPES:
        return replace(observation, unknown_because=f"AWS shows too little of the use of {app_type} apps")
    if created is None:
        return observation
    quiet = f"no user activity since {by_person:%Y-%m-%d %H:%M} UTC" if by_person else "no sign of use"
    because = f"running since {created:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
    since = max(created, by_person) if by_person else created
    return replace(observation, indirect_evidence=IndirectEvidence(since=since, because=because))


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker Studio app",
    docs="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html",
    permissions=("sagemaker:ListApps", "sagemaker:DescribeApp", "sagemaker:ListSpaces", tags.PERMISSION, *metrics.PERMISSIONS),
    activity="Busy above 0; LastUserActivityTimestamp, only where it differs from LastHealthCheckTimestamp",
    heartbeat="points of Busy",
    without_proof="likely by age if Busy was never published within the look-back, of types JupyterLab, CodeEditor, KernelGateway and "
    "JupyterServer; any other type is unknown; system instances are exempt",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    actions={
        StepName.STOP: ActionSpec(
            participle="shut down",
            effect="deletes this one app, which is how a Studio app is stopped; its space or home directory and all files in it stay",
            undo="recreates it with the same instance, image and tags; running kernels and unsaved work are lost",
            permissions=("sagemaker:ListTags", "sagemaker:DeleteApp"),
        ),
    },
    details=StudioAppDetails,
    commands={StepName.STOP: shut_down_command},
    keep_line=sagemaker.keep_line,
    price_keys=("Studio-Notebook", "Studio-JupyterLab", "Studio-CodeEditor"),
    spares_known=True,
    needs_setup="Busy (docs/busy.md)",
)
