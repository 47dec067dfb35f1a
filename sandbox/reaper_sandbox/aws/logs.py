"""Log streams with times of one's choice, where the sandbox was given some; every other log group is moto's.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_DescribeLogStreams.html
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reaper_sandbox.aws import token
from reaper_sandbox.aws.records import Stream
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.world import Region

MAX_PAGE = 50


def describe_log_streams(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """By name; a prefix cannot be combined with ordering by event time."""
    group = str(params.get("logGroupName") or params.get("logGroupIdentifier") or "").removesuffix(":*").rpartition(":")[2]
    if group not in region.streams:
        return None
    prefix, order = params.get("logStreamNamePrefix", ""), params.get("orderBy", "LogStreamName")
    if prefix and order == "LastEventTime":
        raise invalid("Cannot order by LastEventTime with a logStreamNamePrefix.")
    limit = int(params.get("limit") or MAX_PAGE)
    if limit > MAX_PAGE:
        raise invalid(f"1 validation error detected: Value '{limit}' at 'limit' must be less than or equal to {MAX_PAGE}")
    streams = [s for name, s in region.streams[group].items() if name.startswith(prefix)]
    streams.sort(key=(lambda s: s.name) if order == "LogStreamName" else _event, reverse=bool(params.get("descending")))
    first = token.read(params.get("nextToken"), "DescribeLogStreams", invalid("The specified nextToken is invalid."))
    more = first + limit < len(streams)
    following = token.write("DescribeLogStreams", first + limit) if more else None
    return {"logStreams": [_shown(s) for s in streams[first : first + limit]], "nextToken": following}


def _event(stream: Stream) -> str:
    return f"{_millis(stream.last_event) or 0:020d}"


def _millis(moment: datetime | None) -> int | None:
    return int(moment.timestamp() * 1000) if moment else None


def _shown(stream: Stream) -> dict[str, Any]:
    return {
        "logStreamName": stream.name,
        "arn": stream.arn,
        "creationTime": _millis(stream.created),
        "firstEventTimestamp": _millis(stream.created) if stream.last_event else None,
        "lastEventTimestamp": _millis(stream.last_event),
        "lastIngestionTime": _millis(stream.last_ingestion),
        "storedBytes": 0,
    }


def invalid(message: str) -> Refusal:
    """The logs service's word for parameters it does not like."""
    return Refusal("InvalidParameterException", message)


OPERATIONS = {"DescribeLogStreams": describe_log_streams}
