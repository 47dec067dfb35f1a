"""SageMaker notebook instances. AWS publishes no metric of their use, so proof needs our `Busy` signal; the jupyter log only shows use.

Platforms, of which AWS no longer starts those before Amazon Linux 2023: https://docs.aws.amazon.com/sagemaker/latest/dg/nbi-al2.html
States: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeNotebookInstance.html
Logs: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.aws import metrics, sagemaker, tags
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent
from reaper.kind import ActionSpec, Command, Kind
from reaper.model import BilledPart, Resource, Role, StepName
from reaper.observation import CachedDescription, IndirectEvidence, Observation, Reading, Window
from reaper.observing.cache import revision_of

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


NAME = "sagemaker-notebook"
LOG_GROUP = "/aws/sagemaker/NotebookInstances"
NAME_KEY = "NotebookInstanceName"
CHANGING_STATUSES = {"Pending", "Stopping", "Updating", "Deleting", "PendingMaintenance", "InMaintenance"}
"""In none of these can it be stopped: StopNotebookInstance wants InService."""
MAX_LOG_DELAY = timedelta(hours=1)
"""How late the time of a log stream's last event may be known: "typically updates in less than an hour"
(https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html)."""
MAX_EVENT_AHEAD = timedelta(days=1)
"""CloudWatch Logs takes events up to two hours ahead; a time beyond this is none."""
PERMISSIONS = ("sagemaker:ListNotebookInstances", "sagemaker:DescribeNotebookInstance", "logs:DescribeLogStreams")
RECHECK_PERMISSIONS = ("sagemaker:ListTags",)
"""What the re-check right before an action reads beside."""
PLATFORM_KEY, PLATFORM = "PlatformIdentifier", "notebook-al2023-v1"
OLD_PLATFORM = re.compile("(notebook-al[12]-.*)?")
OLD_FAMILIES = ("ml.p2.", "ml.p3.", "ml.p3dn.", "ml.inf1.", "ml.g3.")
"""Instance types that Amazon Linux 2023 doesn't support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookDetails:
    """The identifier of its platform, empty if it has none."""

    platform: str


def details_from_row(row: Mapping[str, Any]) -> NotebookDetails:
    """From a description, or what an earlier sweep kept of one."""
    return NotebookDetails(platform=str(row.get(PLATFORM_KEY) or ""))


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every notebook instance of the region, stopped ones too."""
    rows = list(cloud.paged_rows("sagemaker", "ListNotebookInstances", "NotebookInstances", MaxResults=100))
    by_arn = tags.tags_by_arn(cloud, "sagemaker:notebook-instance") if rows else {}

    def parse(row: Mapping[str, Any]) -> Resource:
        return resource_from_row(cloud, {NAME_KEY: None, **row}, tags.tags_of(by_arn, row["NotebookInstanceArn"]))

    return cloud.each("sagemaker:ListNotebookInstances", rows, parse)


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], own_tags: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    instance = row.get("InstanceType", "")
    parts: tuple[BilledPart, ...] | None = (BilledPart(component="Notebook", instance=instance),) if instance else None
    listed = sagemaker.listed_resource(cloud, "NotebookInstance", row, own_tags, NAME)
    return replace(listed, size=instance, parts=() if listed.status == "Stopped" else parts)


def stop_command(resource: Resource) -> Command:
    """The line that stops it."""
    line = sagemaker.sagemaker_line(resource, "stop-notebook-instance", notebook_instance_name=resource.name)
    return Command(label=sagemaker.in_account(resource, "Stop it now"), line=line)


def start_line(resource: Resource) -> str:
    """The line that starts it again."""
    return sagemaker.sagemaker_line(resource, "start-notebook-instance", notebook_instance_name=resource.name)


def console_url(resource: Resource) -> str | None:
    """Its page in the SageMaker console."""
    return sagemaker.console_url(resource, "notebook-instances", resource.name)


def not_startable_because(resource: Resource) -> str | None:
    """The clause for what AWS wouldn't start again, with the way out; None for what it would, and if its platform wasn't read."""
    platform = resource.details.platform if resource.details else PLATFORM
    if not OLD_PLATFORM.fullmatch(platform):
        return None
    can_move = platform.startswith("notebook-al2-") and not resource.size.startswith(OLD_FAMILIES)
    remedy = f"moved to {PLATFORM} (`aws sagemaker update-notebook-instance`)" if can_move else f"recreated on {PLATFORM}"
    return f"AWS doesn't start it again: {platform or 'its platform'} is older than Amazon Linux 2023, so it has to be {remedy}"


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Only what runs can be stopped, and only what is stopped can be started, if AWS would start it."""
    under_way = Blocked(because=f"its status is {resource.status or 'missing'}")
    stopped = {"Stopped": "it is stopped already", "Stopping": "it is stopping already"}.get(resource.status)
    runs = {"InService": "it is running already", "Pending": "it is starting already"}.get(resource.status)
    can = {"InService": StepName.STOP, "Stopped": StepName.START}.get(resource.status)
    is_unread = can is StepName.STOP and resource.details is None  # a start is known to be possible right before it
    lost = "its platform wasn't read, and AWS may not start it again" if is_unread else not_startable_because(resource)
    open_ = Blocked(because=lost) if lost else None
    done = {StepName.STOP: stopped, StepName.START: runs}
    return {
        action: open_ if action is can else Blocked(because=because, already_done=True) if because else under_way
        for action, because in done.items()
    }


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """`Busy` of all that run, in bulk, and their platforms, as office hours may stop what is in use; the log of each that was silent."""
    running = [r for r in resources if r.status == "InService"]
    readings = sagemaker.busy_readings(cloud, running, window)
    cached = window.read_cached([r.id for r in running])
    observations = [Observation(resource=r, readings=readings.get(r.id, ())) for r in resources]
    yield from cloud.map_concurrently(lambda one: _look_closer(cloud, one, cached.get(one.resource.id), window), observations)


def _look_closer(cloud: CloudSession, observation: Observation, cached: CachedDescription | None, window: Window) -> Observation:
    resource = observation.resource
    if resource.status == "Stopped":
        return replace(observation, free_because="it is stopped; only its volume is billed")
    if resource.status in CHANGING_STATUSES:
        return replace(observation, changing_because=f"its status is {resource.status}")
    if resource.status == "Failed":
        return replace(observation, unknown_because=f"its status is {resource.status}")
    if resource.status != "InService":
        because = f"this version doesn't recognize its status {resource.status or '(none)'}"
        return replace(observation, unknown_because=because)
    observation = _with_platform(cloud, observation, cached)
    if is_recent(observation, window):
        return replace(observation, unknown_because="it was used or changed too recently for a closer look")
    return _with_log_evidence(cloud, observation, window)


def _with_platform(cloud: CloudSession, observation: Observation, cached: CachedDescription | None) -> Observation:
    """With its platform: as just read, as an earlier sweep read it of this very revision, or as it is described now."""
    resource = observation.resource
    if resource.details is not None:
        return observation
    known = cached.body if cached and cached.revision == revision_of(resource.created, resource.changed) else None
    row = known or cloud.describe("DescribeNotebookInstance", "NotebookInstanceStatus", NotebookInstanceName=resource.name)
    if isinstance(row, CloudError):
        return observation
    details, revision = details_from_row(row), revision_of(row.get("CreationTime"), row.get("LastModifiedTime"))
    to_cache = CachedDescription(revision=revision, body={PLATFORM_KEY: details.platform}) if revision else None
    return replace(observation, resource=replace(resource, details=details), to_cache=to_cache)


def _with_log_evidence(cloud: CloudSession, observation: Observation, window: Window) -> Observation:
    """Its log counts from an hour after what is known of it, since a later event may not be known yet."""
    resource = observation.resource
    event = cloud.attempt(
        "logs:DescribeLogStreams", lambda: _last_log_event_at(cloud, resource.name, window.end + MAX_EVENT_AHEAD)
    )
    if isinstance(event, CloudError):
        return replace(observation, unknown_because=f"its log couldn't be read: {event}")
    event_at = max(event, min(event + MAX_LOG_DELAY, window.end)) if event else None
    log = Reading(signal="jupyter.log", role=Role.ACTIVITY, event_at=event_at)
    evidence = None
    if resource.created and resource.changed:
        since = max(t for t in (event, resource.changed, resource.created) if t) + MAX_LOG_DELAY
        quiet = "no new Jupyter log events" if event else "no Jupyter log"
        because = f"running since {resource.changed:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
        evidence = IndirectEvidence(since=since, because=because)
    return replace(observation, readings=(*observation.readings, log), indirect_evidence=evidence)


def _last_log_event_at(cloud: CloudSession, name: str, latest: datetime) -> datetime | None:
    """When the notebook's jupyter log last grew, as far as is known; None without such a log. Raises CloudError, also for a time after `latest`."""
    of_log = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{name}/jupyter.log"}
    try:
        streams = list(cloud.paged_rows("logs", "DescribeLogStreams", "logStreams", token_key="nextToken", **of_log))
    except CloudError as error:
        if error.reason is Reason.GONE:
            return None
        raise
    stamps = [s.get(key) for s in streams for key in ("lastEventTimestamp", "lastIngestionTime")]
    return max((_event_time(stamp, latest) for stamp in stamps if stamp is not None), default=None)


def _event_time(stamp: Any, latest: datetime) -> datetime:
    """A time in milliseconds since 1970. Raises CloudError for what is none."""
    if isinstance(stamp, int) and not isinstance(stamp, bool) and 0 <= stamp <= latest.timestamp() * 1000:
        return datetime.fromtimestamp(stamp / 1000, UTC)
    raise CloudError(Reason.UNREADABLE, "logs:DescribeLogStreams", f"{str(stamp)[:40]!r} is not the time of an event")


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker notebook instance",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/nbi.html",
    permissions=(*PERMISSIONS, tags.PERMISSION, *metrics.PERMISSIONS),
    activity="Busy above 0; a fresh event in the notebook's jupyter log",
    heartbeat="points of Busy",
    without_proof="likely if it has been running, unmodified and without log events for longer than idle_after, and Busy was never published within the look-back; a log event counts as one hour later, because AWS may report it late; exempt when stopped",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    details=NotebookDetails,
    actions={
        StepName.STOP: ActionSpec(
            participle="stopped",
            effect="stops the instance; its volume stays and is still billed, at a price that reports don't have (price unknown). One on "
            "Amazon Linux 1 or 2 is left running, because AWS doesn't start it again",
            undo="starts it again; kernels, memory and whatever was installed outside /home/ec2-user/SageMaker are lost. "
            "One on Amazon Linux 1 or 2 has to run on notebook-al2023-v1 first",
            permissions=(*RECHECK_PERMISSIONS, "sagemaker:StopNotebookInstance"),
        ),
        StepName.START: ActionSpec(
            participle="started",
            effect="starts the instance for its office hours",
            undo="isn't possible, because it may be in use by then; it is stopped at the end of its hours",
            permissions=(*RECHECK_PERMISSIONS, "sagemaker:StartNotebookInstance"),
        ),
    },
    commands={StepName.STOP: stop_command},
    undo_line=start_line,
    console_url=console_url,
    keep_line=sagemaker.keep_line,
    price_keys=("Notebook",),
    needs_setup="Busy (docs/busy.md)",
)
