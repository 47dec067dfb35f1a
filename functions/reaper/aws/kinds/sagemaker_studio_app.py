"""SageMaker Studio apps of users and spaces, of every app type.

`LastUserActivityTimestamp` is bumped by health checks, and then equals `LastHealthCheckTimestamp`; only another value tells of a person:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.aws import busy, series, tags
from reaper.errors import CloudError, Trouble
from reaper.evidence import settled
from reaper.model import Hint, Kind, Observation, Part, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.cloud import Cloud

NAME = "sagemaker-studio-app"
KEYS = ("DomainId", "AppType", "AppName", "Status")
COMPONENTS = {"KernelGateway": "Studio-Notebook", "JupyterServer": "Studio-Notebook"}
OWN_BILLING = {"Canvas", "RStudioServerPro"}
"""Billed by session or licence, not by the instance that the app names."""


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every app that is not deleted. ListApps gives no ARN, and lists deleted apps for a while."""
    rows = [row for row in cloud.pages("sagemaker", "ListApps", "Apps", *KEYS, MaxResults=100) if row["Status"] != "Deleted"]
    found = tags.tagged(cloud, "app", "space", "user-profile", "domain") if rows else {}
    for row in rows:
        arn, homes = _arns(cloud, row)
        instance = (row.get("ResourceSpec") or {}).get("InstanceType") or ""
        yield Resource(
            kind=NAME,
            id=arn,
            name=f"{row.get('SpaceName') or row.get('UserProfileName')}/{row['AppType']}/{row['AppName']}",
            target=cloud.target,
            region=cloud.region,
            created=row.get("CreationTime"),
            status=row["Status"],
            size=instance,
            parts=_parts(row["AppType"], instance),
            tags=tags.of(found, arn, *homes),
            people={"Studio user profile": row["UserProfileName"]} if row.get("UserProfileName") else {},
            facts={key: row[key] for key in (*KEYS, "SpaceName", "UserProfileName") if row.get(key)},
        )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run, in bulk; a description of each that was silent."""
    running = [r for r in resources if r.status == "InService" and r.size != "system"]
    found = busy.readings(cloud, running, window)
    seen = [Observation(resource=r, readings=found.get(r.id, ())) for r in resources]
    yield from cloud.each(lambda one: _closer(cloud, one, window), seen)


def _arns(cloud: Cloud, row: dict[str, Any]) -> tuple[str, list[str]]:
    """The app's ARN, and those of the space or user and the domain it lives in, whose tags it inherits."""
    stem = f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:"
    domain, home = row["DomainId"], row.get("SpaceName") or row.get("UserProfileName")
    kind = "space" if row.get("SpaceName") else "user-profile"
    app = f"{stem}app/{domain}/{home}/{row['AppType'].lower()}/{row['AppName']}"
    return app, [f"{stem}{kind}/{domain}/{home}", f"{stem}domain/{domain}"]


def _parts(app_type: str, instance: str) -> tuple[Part, ...] | None:
    if not instance or app_type in OWN_BILLING:
        return None
    if instance == "system":
        return ()
    return (Part(component=COMPONENTS.get(app_type, f"Studio-{app_type}"), instance=instance),)


def _closer(cloud: Cloud, seen: Observation, window: Window) -> Observation:
    resource = seen.resource
    if resource.size == "system" and resource.facts["AppType"] not in OWN_BILLING:
        return replace(seen, free="it runs on a system instance, which is free")
    if resource.status == "Deleting":
        return replace(seen, free="it is being deleted")
    if resource.status == "Pending":
        return replace(seen, unsettled="its status is Pending")
    if resource.status != "InService":
        return replace(seen, blind=f"its status is {resource.status}")
    if settled(seen, window):
        return replace(seen, blind="it was used or started too recently for a closer look")
    return _described(cloud, seen)


def _described(cloud: Cloud, seen: Observation) -> Observation:
    facts = seen.resource.facts
    names = {key: facts[key] for key in ("DomainId", "AppType", "AppName", "SpaceName", "UserProfileName") if key in facts}
    if "SpaceName" in names:
        names.pop("UserProfileName", None)
    try:
        row = cloud.call("sagemaker", "DescribeApp", "Status", **names)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return replace(seen, blind=f"it could not be described: {error}")
    if row["Status"] != "InService":
        return replace(seen, unsettled=f"its status is now {row['Status']}")
    return _with_activity(seen, row.get("LastUserActivityTimestamp"), row.get("LastHealthCheckTimestamp"))


def _with_activity(seen: Observation, used: datetime | None, checked: datetime | None) -> Observation:
    created = seen.resource.created
    person = used if used and checked and used != checked else None
    if person:
        reading = Reading(signal="LastUserActivityTimestamp", role=Role.ACTIVITY, at=person)
        seen = replace(seen, readings=(*seen.readings, reading))
    if created is None:
        return seen
    quiet = "its last user activity is old" if person else "nothing tells whether anybody uses it"
    because = f"it has been running since {created:%Y-%m-%d %H:%M} UTC and {quiet}; no Busy signal proves it"
    return replace(seen, hint=Hint(since=max(created, person) if person else created, because=because))


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker Studio app",
    docs="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html",
    permissions=("sagemaker:ListApps", "sagemaker:DescribeApp", tags.PERMISSION, *series.PERMISSIONS),
    activity="Busy above 0; LastUserActivityTimestamp, only where it differs from LastHealthCheckTimestamp",
    heartbeat="points of Busy",
    otherwise="likely by age where nobody published Busy within the look-back; system instances are exempt",
    discover=discover,
    observe=observe,
)
