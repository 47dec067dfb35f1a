"""Office hours as people write them: `mon-fri 07:00-21:00` with an IANA time zone. Pure."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from reaper.model import Hours

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED = "days and times such as `mon-fri 07:00-21:00`"
_SHAPE = re.compile(r"([a-z,-]+)\s+([0-2]?\d):([0-5]\d)\s*-\s*([0-2]?\d):([0-5]\d)", re.IGNORECASE)


def parse(on: str, tz: str) -> Hours:
    """The hours that `on` names in the zone `tz`. Raises ValueError naming what is wrong: days, times, their order, or the zone."""
    match = _SHAPE.fullmatch(on.strip())
    if not match:
        raise ValueError(f"expected {EXPECTED}")
    start, end = int(match[2]) * 60 + int(match[3]), int(match[4]) * 60 + int(match[5])
    if not start < end <= 24 * 60:
        raise ValueError("expected a start before an end, both on the same day (at most 24:00)")
    return Hours(days=_days(match[1].lower()), start=start, end=end, tz=zone(tz).key)


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises ValueError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("expected an IANA time zone such as Europe/Berlin") from error


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"expected days out of {', '.join(DAYS)}, not {part!r}")
        a, b = DAYS.index(first), DAYS.index(last or first)
        days.update(range(a, b + 1) if a <= b else [*range(a, 7), *range(b + 1)])
    return frozenset(days)
