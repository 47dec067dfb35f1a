"""SageMaker notebook instances. AWS publishes no metric of their use, so proof needs our `Busy` signal; the jupyter log only shows use.

Platforms, of which AWS no longer starts those before Amazon Linux 2023: https://docs.aws.amazon.com/sagemaker/latest/dg/nbi-al2.html
States: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeNotebookInstance.html
Logs: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.aws import sagemaker
from reaper.aws.reader import Batch, Listing, Row, Table, completed, each
from reaper.errors import CloudError, Reason
from reaper.kind import StartStop, Undo, none_of, status_rule
from reaper.model import Resource, Role, StepName
from reaper.observation import CachedDescription, IndirectEvidence, Observation, Reading
from reaper.observing.cache import revision_of

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

PLATFORM_KEY, PLATFORM = "PlatformIdentifier", "notebook-al2023-v1"
OLD_PLATFORM = re.compile("(notebook-al[12]-.*)?")
OLD_FAMILIES = ("ml.p2.", "ml.p3.", "ml.p3dn.", "ml.inf1.", "ml.g3.")
"""Instance types that Amazon Linux 2023 doesn't support."""
LOG_GROUP, LOG, LOG_PERMISSION = "/aws/sagemaker/NotebookInstances", "jupyter.log", "logs:DescribeLogStreams"
MAX_LOG_DELAY = timedelta(hours=1)
"""How late the time of a log stream's last event may be known."""
MAX_EVENT_AHEAD = timedelta(days=1)
"""CloudWatch Logs takes events up to two hours ahead; a time beyond this is none."""


def with_details(cloud: CloudSession, resource: Resource, row: Row) -> Resource:
    """The notebook with its platform as its details, empty if it has none, which no list has. `row`: a description, or what an earlier sweep kept of one."""
    return replace(resource, details=str(row.get(PLATFORM_KEY) or ""))


def with_platforms(observations: Sequence[Observation], batch: Batch) -> Iterable[Observation]:
    """The platform of all that run, as office hours may stop what is in use: read just now, or by an earlier sweep of this very revision."""
    cached = batch.window.read_cached([one.resource.id for one in observations])

    def with_platform(observation: Observation) -> Observation:
        resource = observation.resource
        if resource.details is not None:
            return observation
        kept = cached.get(resource.id)
        known = kept.body if kept and kept.revision == revision_of(resource.created, resource.changed) else None
        ask = ("DescribeNotebookInstance", "NotebookInstanceStatus")
        row = known or batch.cloud.describe(*ask, NotebookInstanceName=resource.name)
        if isinstance(row, CloudError):
            return observation
        seen, revision = (
            with_details(batch.cloud, resource, row),
            revision_of(row.get("CreationTime"), row.get("LastModifiedTime")),
        )
        to_cache = CachedDescription(revision=revision, body={PLATFORM_KEY: seen.details}) if revision else None
        return replace(observation, resource=seen, to_cache=to_cache)

    return batch.cloud.map_concurrently(with_platform, observations)


@each
def with_log(observation: Observation, batch: Batch) -> Observation:
    """The jupyter log. It counts from an hour after what is known of it, since a later event may not be known yet."""
    cloud, resource, end = batch.cloud, observation.resource, batch.window.end
    event = cloud.attempt(LOG_PERMISSION, lambda: _last_event_at(cloud, resource.name, end + MAX_EVENT_AHEAD))
    if isinstance(event, CloudError):
        return replace(observation, unknown_because=f"its log couldn't be read: {event}")
    log = Reading(signal=LOG, role=Role.ACTIVITY, event_at=max(event, min(event + MAX_LOG_DELAY, end)) if event else None)
    evidence = None
    if resource.created and resource.changed:
        since = max(t for t in (event, resource.changed, resource.created) if t) + MAX_LOG_DELAY
        quiet = "no new Jupyter log events" if event else "no Jupyter log"
        because = f"running since {resource.changed:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
        evidence = IndirectEvidence(since=since, because=because)
    return replace(observation, readings=(*observation.readings, log), indirect_evidence=evidence)


def _last_event_at(cloud: CloudSession, name: str, latest: datetime) -> datetime | None:
    """When the log last grew, as far as is known; None without such a log. Raises CloudError, also for a time after `latest`."""
    stream = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{name}/{LOG}"}
    try:
        streams = list(cloud.paged_rows("logs", "DescribeLogStreams", "logStreams", token_key="nextToken", **stream))
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
    raise CloudError(Reason.UNREADABLE, LOG_PERMISSION, f"{str(stamp)[:40]!r} is not the time of an event")


def not_startable_because(resource: Resource) -> str | None:
    """The clause for what AWS wouldn't start again, with the way out; None for what it would, and if its platform wasn't read."""
    platform = PLATFORM if resource.details is None else resource.details
    if not OLD_PLATFORM.fullmatch(platform):
        return None
    can_move = platform.startswith("notebook-al2-") and not resource.size.startswith(OLD_FAMILIES)
    remedy = f"moved to {PLATFORM} (`aws sagemaker update-notebook-instance`)" if can_move else f"recreated on {PLATFORM}"
    return f"AWS doesn't start it again: {platform or 'its platform'} is older than Amazon Linux 2023, so it has to be {remedy}"


def not_stoppable_because(resource: Resource) -> str | None:
    """The same before a stop, which also needs its platform to be read. Right before a start, it always is."""
    unread = "its platform wasn't read, and AWS may not start it again"
    return unread if resource.details is None else not_startable_because(resource)


KIND = completed(
    Table(
        name="sagemaker-notebook",
        cloud="aws",
        title="SageMaker notebook instance",
        docs="https://docs.aws.amazon.com/sagemaker/latest/dg/nbi.html",
        activity="Busy above 0; a fresh event in the notebook's jupyter log",
        heartbeat="points of Busy",
        without_proof="likely if it has been running, unmodified and without log events for longer than idle_after, and Busy was never published "
        "within the look-back; a log event counts as one hour later, because AWS may report it late; exempt when stopped",
        listing=Listing(
            list="ListNotebookInstances",
            rows="NotebookInstances",
            prefix="NotebookInstance",
            describe="DescribeNotebookInstance",
            want="NotebookInstanceStatus",
            tag_types=("sagemaker:notebook-instance",),
        ),
        states=(
            status_rule("free", {"Stopped"}, "it is stopped; only its volume is billed"),
            status_rule("changing", {"Pending", "Stopping", "Updating", "Deleting", "PendingMaintenance", "InMaintenance"}),
            status_rule("unknown", {"Failed"}),
            status_rule("unknown", none_of("InService"), "this version doesn't recognize its status {status}"),
        ),
        details=str,
        as_now=with_details,
        size="InstanceType",
        component="Notebook",
        price_keys=("Notebook",),
        is_busy_published=True,
        needs_setup="Busy (docs/busy.md)",
        always=(with_platforms,),
        closer_looks=(with_log,),
        look_permissions=("sagemaker:DescribeNotebookInstance", LOG_PERMISSION),
        actions={
            StepName.STOP: StartStop(
                call="StopNotebookInstance",
                because="it is stopping; its volume stays",
                allowed={"InService"},
                done={"Stopped": "it is stopped already", "Stopping": "it is stopping already"},
                left_because=not_stoppable_because,
                label="Stop it now",
                participle="stopped",
                effect="stops the instance; its volume stays and is still billed, at a price that reports don't have (price unknown). One on "
                "Amazon Linux 1 or 2 is left running, because AWS doesn't start it again",
                undo="starts it again; kernels, memory and whatever was installed outside /home/ec2-user/SageMaker are lost. "
                "One on Amazon Linux 1 or 2 has to run on notebook-al2023-v1 first",
                undo_call=Undo(
                    call="StartNotebookInstance",
                    because="it is starting",
                    needs={"Stopped"},
                    done={"Pending", "InService"},
                    left_because=not_startable_because,
                    lost=("What was in memory, and what was installed outside its volume, is lost.",),
                ),
            ),
            StepName.START: StartStop(
                call="StartNotebookInstance",
                because="it is starting",
                allowed={"Stopped"},
                done={"InService": "it is running already", "Pending": "it is starting already"},
                left_because=not_startable_because,
                participle="started",
                effect="starts the instance for its office hours",
                undo="isn't possible, because it may be in use by then; it is stopped at the end of its hours",
            ),
        },
        same=("CreationTime", "InstanceType"),
        same_text="instance type",
        saved=("NotebookInstanceStatus", "VolumeSizeInGB", "NotebookInstanceLifecycleConfigName"),
        id_below="notebook-instance/(?P<name>.+)",
        page="notebook-instances",
        keep_line=sagemaker.keep_line,
    )
)
