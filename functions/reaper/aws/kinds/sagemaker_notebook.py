"""SageMaker notebook instances. AWS publishes no metric of their use, so proof needs our `Busy` signal; the jupyter log only shows use.

States: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeNotebookInstance.html
Logs: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.aws import busy, metrics, tags
from reaper.errors import CloudError, Trouble
from reaper.evidence import settled
from reaper.model import Bar, Deed, Hint, Kind, Move, Observation, Part, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.session import Cloud

NAME = "sagemaker-notebook"
LOGS = "/aws/sagemaker/NotebookInstances"
NAMED = "NotebookInstanceName"
UNSETTLED = {"Pending", "Stopping", "Updating", "Deleting", "PendingMaintenance", "InMaintenance"}
"""In none of these can it be stopped: StopNotebookInstance wants InService."""
LATE = timedelta(hours=1)
"""How late the time of a log stream's last event may be known: "typically updates in less than an hour"
(https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html)."""
AHEAD = timedelta(days=1)
"""CloudWatch Logs takes events up to two hours ahead; a time beyond this is none."""
BROKEN = {"Failed"}
FRESH = ("sagemaker:DescribeNotebookInstance", "sagemaker:ListTags")
"""What the look right before an act reads."""


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every notebook instance of the region, stopped ones too."""
    rows = list(cloud.listed("ListNotebookInstances", "NotebookInstances", "NotebookInstanceArn"))
    found = tags.tagged(cloud, "notebook-instance") if rows else {}
    for row in rows:
        yield resource(cloud, {NAMED: None, **row}, tags.of(found, row["NotebookInstanceArn"]))


def resource(cloud: Cloud, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    instance = row.get("InstanceType", "")
    running = row.get("NotebookInstanceStatus") != "Stopped"
    return Resource(
        kind=NAME,
        id=row["NotebookInstanceArn"],
        name=row["NotebookInstanceName"],
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        changed=row.get("LastModifiedTime"),
        status=row.get("NotebookInstanceStatus", ""),
        size=instance,
        parts=(Part(component="Notebook", instance=instance),) if instance and running else None if running else (),
        tags=found,
    )


def able(resource: Resource) -> Mapping[Move, Bar | None]:
    """Only what runs can be stopped, and only what is stopped can be started."""
    under_way = Bar(because=f"its status is {resource.status or 'missing'}")
    stopped, runs = Bar(because="it is stopped already", done=True), Bar(because="it is running already", done=True)
    return {
        Move.STOP: {"InService": None, "Stopped": stopped}.get(resource.status, under_way),
        Move.START: {"Stopped": None, "InService": runs}.get(resource.status, under_way),
    }


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run, in bulk; the log of each that was silent."""
    running = [r for r in resources if r.status == "InService"]
    found = busy.readings(cloud, running, window)
    seen = [Observation(resource=r, readings=found.get(r.id, ())) for r in resources]
    yield from cloud.each(lambda one: _closer(cloud, one, window), seen)


def _closer(cloud: Cloud, seen: Observation, window: Window) -> Observation:
    resource = seen.resource
    if resource.status == "Stopped":
        return replace(seen, free="it is stopped; only its volume is billed")
    if resource.status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {resource.status}")
    if resource.status != "InService":
        return replace(
            seen,
            blind=f"its status is {resource.status or 'missing'}{'' if resource.status in BROKEN else ', which we do not know'}",
        )
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return _with_log(cloud, seen, window)


def _with_log(cloud: Cloud, seen: Observation, window: Window) -> Observation:
    """Its log counts from an hour after what is known of it, since a later event may not be known yet."""
    resource = seen.resource
    try:
        event = _last_event(cloud, resource.name, window.end + AHEAD)
    except CloudError as error:
        cloud.note(error)
        return replace(seen, blind=f"its log could not be read: {error}")
    log = Reading(signal="jupyter.log", role=Role.ACTIVITY, at=max(event, min(event + LATE, window.end)) if event else None)
    since = max(t for t in (event, resource.changed, resource.created) if t) + LATE if resource.created else None
    quiet = "its jupyter log has been silent" if event else "it has written no jupyter log"
    because = (
        f"it has been up since {resource.changed:%Y-%m-%d %H:%M} UTC and {quiet}; no Busy signal proves it"
        if resource.changed
        else ""
    )
    return replace(seen, readings=(*seen.readings, log), hint=Hint(since=since, because=because) if since and because else None)


def _last_event(cloud: Cloud, name: str, latest: datetime) -> datetime | None:
    """When the notebook's jupyter log last grew, as far as is known; None without such a log. Raises CloudError, also for a time after `latest`."""
    prefix = f"{name}/jupyter.log"
    try:
        streams = list(
            cloud.pages(
                "logs", "DescribeLogStreams", "logStreams", token="nextToken", logGroupName=LOGS, logStreamNamePrefix=prefix
            )
        )
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return None
        raise
    stamps = [s.get(key) for s in streams for key in ("lastEventTimestamp", "lastIngestionTime")]
    return max((_moment(stamp, latest) for stamp in stamps if stamp is not None), default=None)


def _moment(stamp: Any, latest: datetime) -> datetime:
    """A time in milliseconds since 1970. Raises CloudError for what is none."""
    if isinstance(stamp, int) and not isinstance(stamp, bool) and 0 <= stamp <= latest.timestamp() * 1000:
        return datetime.fromtimestamp(stamp / 1000, UTC)
    raise CloudError(Trouble.GARBLED, "logs:DescribeLogStreams", f"{str(stamp)[:40]!r} is no time of an event")


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker notebook instance",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/nbi.html",
    permissions=("sagemaker:ListNotebookInstances", "logs:DescribeLogStreams", tags.PERMISSION, *metrics.PERMISSIONS),
    activity="Busy above 0; a fresh event in the notebook's jupyter log",
    heartbeat="points of Busy",
    otherwise="likely once up, unmodified and log-silent (counted from an hour after the last event known, since a later one may not be known yet) for longer than idle_after where nobody published Busy within the look-back; exempt when stopped",
    discover=discover,
    observe=observe,
    able=able,
    deeds={
        Move.STOP: Deed(
            verb="stopped",
            what="stops the instance; its volume stays and is still billed",
            undo="starts it again; kernels, memory and whatever was installed outside /home/ec2-user/SageMaker are lost",
            permissions=(*FRESH, "sagemaker:StopNotebookInstance"),
        ),
        Move.START: Deed(
            verb="started",
            what="starts the instance for its office hours",
            undo="is not undone, since somebody may be at work on it by then; it is stopped at the end of its hours",
            permissions=(*FRESH, "sagemaker:StartNotebookInstance"),
        ),
    },
    needs="Busy (docs/busy.md)",
)
