"""A log stream as a sign of use: a fresh event proves use, silence only hints.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogStream.html ("typically updates in less than an hour")
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.aws.reader import each
from reaper.errors import CloudError, Reason
from reaper.model import Role
from reaper.observation import IndirectEvidence, Observation, Reading

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession
    from reaper.aws.table import Batch, Look

PERMISSION = "logs:DescribeLogStreams"
MAX_LOG_DELAY = timedelta(hours=1)
"""How late the time of a log stream's last event may be known."""
MAX_EVENT_AHEAD = timedelta(days=1)
"""CloudWatch Logs takes events up to two hours ahead; a time beyond this is none."""


def with_log(signal: str, group: str, name: str) -> Look:
    """The stream `{resource}/{signal}` of the log `group`, which people know by `name`.

    It counts from an hour after what is known of it, since a later event may not be known yet.
    """

    @each
    def look(cloud: CloudSession, observation: Observation, batch: Batch) -> Observation:
        resource, end = observation.resource, batch.window.end
        stream = {"logGroupName": group, "logStreamNamePrefix": f"{resource.name}/{signal}"}
        event = cloud.attempt(PERMISSION, lambda: _last_event_at(cloud, stream, end + MAX_EVENT_AHEAD))
        if isinstance(event, CloudError):
            return replace(observation, unknown_because=f"its log couldn't be read: {event}")
        event_at = max(event, min(event + MAX_LOG_DELAY, end)) if event else None
        log = Reading(signal=signal, role=Role.ACTIVITY, event_at=event_at)
        evidence = None
        if resource.created and resource.changed:
            since = max(t for t in (event, resource.changed, resource.created) if t) + MAX_LOG_DELAY
            quiet = f"no new {name} log events" if event else f"no {name} log"
            because = f"running since {resource.changed:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
            evidence = IndirectEvidence(since=since, because=because)
        return replace(observation, readings=(*observation.readings, log), indirect_evidence=evidence)

    return look


def _last_event_at(cloud: CloudSession, stream: dict[str, str], latest: datetime) -> datetime | None:
    """When the log last grew, as far as is known; None without such a log. Raises CloudError, also for a time after `latest`."""
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
    raise CloudError(Reason.UNREADABLE, PERMISSION, f"{str(stamp)[:40]!r} is not the time of an event")
