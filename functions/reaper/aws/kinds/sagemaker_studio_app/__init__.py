"""SageMaker Studio apps of users and spaces, of every app type.

`LastUserActivityTimestamp` is bumped by health checks, and then equals `LastHealthCheckTimestamp`; only another value tells of a person:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
An app is stopped by deleting it; the space, the home directory and every file in them stay:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteApp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.aws import sagemaker
from reaper.aws.reader import Batch, Deletion, Listing, Row, Table, Tags, completed, each
from reaper.errors import CloudError, Reason
from reaper.kind import block, by_status, is_decided, is_pasteable, none_of, status_rule
from reaper.model import BilledPart, Resource, Role, StepName
from reaper.observation import IndirectEvidence, Observation, Reading

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAME = "sagemaker-studio-app"
IDENTITY_KEYS = ("DomainId", "AppType", "AppName", "SpaceName", "UserProfileName")
PRICE_COMPONENTS = {"KernelGateway": "Studio-Notebook", "JupyterServer": "Studio-Notebook"}
PERSONAL_APP_TYPES = {"JupyterLab", "CodeEditor", "KernelGateway", "JupyterServer"}
"""Types that serve one person or space and come back by CreateApp as they were."""
SEPARATELY_BILLED_TYPES = {"Canvas", "RStudioServerPro"}
"""Billed by session or license, not by the instance that the app names."""
SpaceOwners = dict[tuple[str, str], tuple[str, bool]]
"""By domain and name: the owner's user profile, and whether it is that person's own."""


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


def used_by_person_at(row: Row) -> datetime | None:
    """The time of the last use, if it isn't that of a health check."""
    used_at, checked_at = row.get("LastUserActivityTimestamp"), row.get("LastHealthCheckTimestamp")
    return used_at if used_at and checked_at and used_at != checked_at else None


def app_parameters(names: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that name an app: of a space or of a user profile, never of both."""
    parameters = {key: names[key] for key in IDENTITY_KEYS if names.get(key)}
    if "SpaceName" in parameters:
        parameters.pop("UserProfileName", None)
    return parameters


def parameters_of(resource: Resource) -> dict[str, Any]:
    """The same of a resource."""
    details = resource.details
    values = (details.domain_id, details.app_type, details.app_name, details.space_name, details.user_profile)
    return app_parameters(dict(zip(IDENTITY_KEYS, values, strict=True)))


def arns_of(cloud: CloudSession, row: Row) -> tuple[str, ...]:
    """The app's ARN as DescribeApp spells it, since a list has none, and those of the space or user and the domain it lives in."""
    domain, home = row["DomainId"], row.get("SpaceName") or row.get("UserProfileName")
    kind = "space" if row.get("SpaceName") else "user-profile"
    app = row.get("AppArn") or cloud.sagemaker_arn("app", f"{domain}/{home}/{row['AppType']}/{row['AppName']}")
    return app, cloud.sagemaker_arn(kind, f"{domain}/{home}"), cloud.sagemaker_arn("domain", domain)


def app_resource(cloud: CloudSession, row: Row, own_tags: Tags) -> Resource:
    """A row of the list, or a description, with its tags. Raises CloudError if its names can't be read."""
    names = [row.get(key, "") for key in IDENTITY_KEYS]
    if not all(row[key] for key in IDENTITY_KEYS[:3]) or not all(isinstance(name, str) for name in names):
        raise CloudError(Reason.UNREADABLE, "sagemaker:ListApps", f"the names of app {row['AppName']} can't be read")
    domain, app_type, app_name, space, user = names
    instance = (row.get("ResourceSpec") or {}).get("InstanceType") or ""
    part = BilledPart(component=PRICE_COMPONENTS.get(app_type, f"Studio-{app_type}"), instance=instance)
    parts = None if not instance or app_type in SEPARATELY_BILLED_TYPES else () if instance == "system" else (part,)
    return Resource(
        kind=NAME,
        id=arns_of(cloud, {**row, "AppArn": None})[0],
        name=f"{space or user or None}/{app_type}/{app_name}",
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        status=row.get("Status", ""),
        size=instance,
        parts=parts,
        tags=own_tags,
        people={"Studio user profile": user} if user else {},
        details=StudioAppDetails(
            domain_id=domain,
            app_type=app_type,
            app_name=app_name,
            space_name=space or None,
            user_profile=user or None,
            used_at=used_by_person_at(row),
        ),
    )


def as_now(cloud: CloudSession, resource: Resource, row: Row) -> Resource:
    """With whose space it is in, right before an action. Raises CloudError if it is gone, which AWS shows for a while."""
    if row["Status"] == "Deleted":
        raise CloudError(Reason.GONE, "sagemaker:DescribeApp", f"{resource.name} has been deleted")
    if not row.get("AppArn"):
        raise CloudError(Reason.UNREADABLE, "sagemaker:DescribeApp", "the reply has no AppArn")
    space, domain = row.get("SpaceName"), row["DomainId"]
    return _with_space_owner(resource, _space_owners(cloud, DomainIdEquals=domain, SpaceNameContains=space) if space else {})


def _space_owners(cloud: CloudSession, **filters: Any) -> SpaceOwners:
    owners: SpaceOwners = {}
    for row in cloud.paged_rows("sagemaker", "ListSpaces", "Spaces", "DomainId", "SpaceName", MaxResults=100, **filters):
        owner = (row.get("OwnershipSettingsSummary") or {}).get("OwnerUserProfileName") or ""
        sharing = (row.get("SpaceSharingSettingsSummary") or {}).get("SharingType")
        owners[row["DomainId"], row["SpaceName"]] = owner, bool(owner) and sharing in (None, "Private")
    return owners


def _with_space_owner(resource: Resource, owners: SpaceOwners) -> Resource:
    """With the space's owner, and whether the space is that person's own, if that is known."""
    space = owners.get((resource.details.domain_id, resource.details.space_name or ""))
    if space is None:
        return resource
    people = {"Studio space owner": space[0], **resource.people} if space[0] else resource.people
    return replace(resource, people=people, details=replace(resource.details, is_private_space=space[1]))


@each
def with_description(observation: Observation, batch: Batch) -> Observation:
    """Its status of this moment, and when a person used it last: uptime since then is all that AWS shows."""
    resource = observation.resource
    row = batch.cloud.describe("DescribeApp", "Status", **parameters_of(resource))
    if isinstance(row, CloudError):
        return replace(observation, unknown_because=f"it couldn't be described: {row}")
    now = by_status(replace(observation, resource=replace(resource, status=str(row["Status"]))), STATES)
    if is_decided(now):
        return now
    used_at, created = used_by_person_at(row), resource.created
    if used_at:
        reading = Reading(signal="LastUserActivityTimestamp", role=Role.ACTIVITY, event_at=used_at)
        observation = replace(observation, readings=(*observation.readings, reading))
    if resource.details.app_type not in PERSONAL_APP_TYPES:
        return replace(observation, unknown_because=f"AWS shows too little of the use of {resource.details.app_type} apps")
    if created is None:
        return observation
    quiet = f"no user activity since {used_at:%Y-%m-%d %H:%M} UTC" if used_at else "no sign of use"
    because = f"running since {created:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
    since = max(created, used_at) if used_at else created
    return replace(observation, indirect_evidence=IndirectEvidence(since=since, because=because))


def with_owners(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """With the owners of their spaces, if all spaces can be listed."""
    is_needed = any(one.indirect_evidence and one.resource.details.space_name for one in observations)
    owners = batch.cloud.read_or_none("sagemaker:ListSpaces", lambda: _space_owners(batch.cloud)) if is_needed else {}
    yield from (replace(one, resource=_with_space_owner(one.resource, owners or {})) for one in observations)


def delete_arguments(resource: Resource) -> dict[str, str] | None:
    """Of the line that deletes the app."""
    details = resource.details
    if not isinstance(details, StudioAppDetails):
        return None
    home = {"space-name": details.space_name} if details.space_name else {"user-profile-name": details.user_profile or ""}
    named = {"domain-id": details.domain_id, "app-type": details.app_type, "app-name": details.app_name, **home}
    return named if all(named.values()) and is_pasteable(*named.values()) else None


def sharing_because(resource: Resource) -> str | None:
    """The clause for an app that isn't one person's own."""
    details = resource.details
    if details.space_name is None:
        return None if details.user_profile else "it has no owner"
    if details.is_private_space is None:
        return "the owner of its space couldn't be read"
    return None if details.is_private_space else "it is in a shared space, where anyone in the domain may be at work"


def other_type(resource: Resource) -> str | None:
    """Its type, if apps of that type aren't personal."""
    app_type: str = resource.details.app_type
    return None if app_type in PERSONAL_APP_TYPES else app_type


def is_on_system_instance(resource: Resource) -> bool:
    """Whether it runs on an instance that is free."""
    return resource.size == "system" and resource.details.app_type not in SEPARATELY_BILLED_TYPES


STATES = (
    status_rule("free", is_on_system_instance, "it runs on a system instance, which is free"),
    status_rule("changing", {"Pending"}),
    status_rule("free", {"Deleting"}, "it is being deleted"),
    status_rule("free", {"Deleted"}, "it has been deleted"),
    status_rule("free", {"Failed"}, "its status is Failed, so no instance runs in it"),
    status_rule("unknown", none_of("InService"), "this version doesn't recognize its status {status}"),
)
BLOCKS = (
    block(lambda r: not isinstance(r.details, StudioAppDetails), "it wasn't checked closely"),
    block(other_type, "apps of type {0} serve more than one person or can't be started again as they were"),
    block(lambda r: r.size in {"", "system"}, "it has no instance of its own"),
    block(sharing_because),
    block({"Deleting", "Deleted"}, "it is being deleted already", already_done=True),
    block(none_of("InService"), "its status is {status}"),
)
KIND = completed(
    Table(
        name=NAME,
        cloud="aws",
        title="SageMaker Studio app",
        docs="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html",
        activity="Busy above 0; LastUserActivityTimestamp, only where it differs from LastHealthCheckTimestamp",
        heartbeat="points of Busy",
        without_proof="likely by age if Busy was never published within the look-back, of types JupyterLab, CodeEditor, KernelGateway and "
        "JupyterServer; any other type is unknown; system instances are exempt",
        listing=Listing(
            list="ListApps",
            rows="Apps",
            prefix="App",
            describe="DescribeApp",
            want="Status",
            tag_types=("sagemaker:app", "sagemaker:space", "sagemaker:user-profile", "sagemaker:domain"),
        ),
        states=STATES,
        details=StudioAppDetails,
        keep_row=lambda row: row.get("Status") != "Deleted",  # AWS lists deleted apps for a while
        arns=arns_of,
        resource=app_resource,
        as_now=as_now,
        parameters=parameters_of,
        is_busy_published=True,
        needs_setup="Busy (docs/busy.md)",
        closer_looks=(with_description, with_owners),
        look_permissions=("sagemaker:DescribeApp", "sagemaker:ListSpaces"),
        blocks=BLOCKS,
        actions={
            StepName.STOP: Deletion(
                call="DeleteApp",
                because="its app is being deleted; the space and all files in it stay",
                recreated_by="reaper.aws.kinds.sagemaker_studio_app.recreation",
                label="Shut it down now",
                note=" (its files stay)",
                arguments=delete_arguments,
                participle="shut down",
                effect="deletes this one app, which is how a Studio app is stopped; its space or home directory and all files in it stay",
                undo="recreates it with the same instance, image and tags; running kernels and unsaved work are lost",
            ),
        },
        id_below="app/[^/]+/(?P<name>[^/]+/[^/]+/[^/]+)",
        keep_line=sagemaker.keep_line,
        price_keys=("Studio-Notebook", "Studio-JupyterLab", "Studio-CodeEditor"),
        spares_known=True,
    )
)
