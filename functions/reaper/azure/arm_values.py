"""Times as Azure writes them: ISO 8601 with up to seven fractional digits, and an offset or a Z."""

from __future__ import annotations

import re
from datetime import UTC, datetime

DURATION_PATTERN = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
UNIT_SECONDS = (86400, 3600, 60, 1)


def parse_time(text: object) -> datetime | None:
    """The time that `text` names, in UTC; None for nothing, and for the year 1, which is .NET's nothing. Raises ValueError for what is no time."""
    if text in (None, ""):
        return None
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no time")
    found = datetime.fromisoformat(text.strip())
    if found.year == 1:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def query_time(when: datetime) -> str:
    """The time as metric queries want it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def latest_known(*times: datetime | None) -> datetime | None:
    """The latest of those that are known."""
    return max((t for t in times if t), default=None)


def duration_seconds(value: object) -> object:
    """A duration in seconds, so that `PT2M` and `PT120S` are the same; what is none as it is."""
    found = DURATION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), UNIT_SECONDS, strict=True)) if found else value
