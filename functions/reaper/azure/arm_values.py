"""Values as Resource Manager writes them: times, durations, counts of machines, tags and regions.

Times are ISO 8601 with up to seven fractional digits, and an offset or a Z. Tag names are case-insensitive:
https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

Tags = dict[str, str] | None
"""A resource's tags; None if they couldn't be read."""
DURATION_PATTERN = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
UNIT_SECONDS = (86400, 3600, 60, 1)
MAX_COUNT = 100_000


def parse_time(text: object) -> datetime | None:
    """The time in UTC. None for an empty value and for the year 1, which is .NET's empty value. Raises ValueError for anything but a time."""
    if text in (None, ""):
        return None
    if not isinstance(text, str):
        raise ValueError(f"{text!r} isn't a time")
    moment = datetime.fromisoformat(text.strip())
    if moment.year == 1:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def query_time(moment: datetime) -> str:
    """The time as metric queries expect it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def latest_known(*times: datetime | None) -> datetime | None:
    """The latest of the known times."""
    return max((time for time in times if time), default=None)


def duration_seconds(value: object) -> object:
    """A duration in seconds, so that `PT2M` and `PT120S` are equal. Anything but a duration is returned unchanged."""
    match = DURATION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    return sum(int(number or 0) * unit for number, unit in zip(match.groups(), UNIT_SECONDS, strict=True)) if match else value


def valid_count(value: object) -> int | None:
    """A number of machines; None for a boolean, a fraction, a string, or anything negative or absurd.

    It must never be guessed: a price and an action depend on it.
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else None


def read_tags(value: object) -> Tags:
    """The tags of one resource: none for `null`; None for anything but an object, which protects the resource."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    return {str(key): "" if text is None else str(text) for key, text in value.items()}


def inherited_tags(*layers: Tags) -> Tags:
    """A resource's own tags, passed first, over those of its containers; None if any layer couldn't be read."""
    merged: dict[str, str] = {}
    for layer in layers:
        if layer is None:
            return None
        known = {key.lower() for key in merged}
        merged |= {key: text for key, text in layer.items() if key.lower() not in known}
    return merged


def region_key(text: object) -> str:
    """A region's name as prices and metrics hosts write it: `East US` is `eastus`."""
    return str(text or "").replace(" ", "").lower()
