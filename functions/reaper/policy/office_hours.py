"""Office hours as people write them: `mon-fri 07:00-21:00` with an IANA time zone. Pure.

Hours are wall time. Where clocks are put forward, a time that does not exist is the first instant after the gap. Where they are put
back, a time that comes twice opens at its first and closes at its last occurrence: rather open too long than closed too early.
Days are local dates; hours that touch (`mon-tue 00:00-24:00`) do not close in between. Every answer is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from reaper.echo import nearest, shown
from reaper.model import Hours

Stretch = tuple[datetime, datetime]
"""From the first open instant to the first closed one, in UTC."""

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
MIDNIGHT = 24 * 60
ALWAYS, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SIGHT = 22 * DAY
"""How far to look each way: a weekly day may be missing once, when a clock change swallows its hours or the whole date."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED = "days and times such as `mon-fri 07:00-21:00`"
_SHAPE = re.compile(r"([a-z,-]+)\s+([0-2]?\d):([0-5]\d)\s*-\s*([0-2]?\d):([0-5]\d)", re.IGNORECASE)


def parse(on: str, tz: str) -> Hours:
    """The hours that `on` names in the zone `tz`. Raises ValueError naming what is wrong: days, times, their order, or the zone."""
    match = _SHAPE.fullmatch(on.strip())
    if not match:
        raise ValueError(f"expected {EXPECTED}")
    start, end = int(match[2]) * 60 + int(match[3]), int(match[4]) * 60 + int(match[5])
    if not start < end <= MIDNIGHT:
        raise ValueError("expected a start before an end, both on the same day (at most 24:00)")
    return Hours(days=_days(match[1].lower()), start=start, end=end, tz=zone(tz).key)


def written(hours: Hours) -> str:
    """The hours as a policy spells them: `mon-fri 07:00-21:00`."""
    days = sorted(hours.days)
    runs = [[day for day in days if day - days.index(day) == key] for key in dict.fromkeys(d - days.index(d) for d in days)]
    named = ",".join(DAYS[run[0]] if len(run) == 1 else f"{DAYS[run[0]]}-{DAYS[run[-1]]}" for run in runs)
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (hours.start, hours.end))
    return f"{named} {start}-{end}"


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises ValueError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = _alike(name) or " such as Europe/Berlin"
        raise ValueError(f"{shown(name)} is not known: expected an IANA time zone{near}") from error


@lru_cache(maxsize=64)
def _alike(name: str) -> str:
    """The zone that was meant. Kept, since thousands of tags may say the same."""
    zones = available_timezones()
    city = min((zone for zone in zones if zone.lower().endswith(f"/{name.lower()}")), default=None)
    return f", did you mean {city}?" if city else nearest(name, zones)


def is_open(hours: Hours, at: datetime) -> bool:
    """Whether `at` (aware) is inside the hours: their start is, their end is not."""
    return any(start <= _utc(at) < end for start, end in _near(hours, at))


def closed_since(hours: Hours, at: datetime) -> datetime | None:
    """When the closed stretch that `at` is in began, at the latest `at` itself. None when the hours are open, or know no time at all."""
    if is_open(hours, at):
        return None
    return max((end for _, end in _near(hours, at) if end <= _utc(at)), default=None)


def opened_today(hours: Hours, at: datetime) -> datetime | None:
    """When the hours that `at` is in opened, at the earliest when its day began: some never close. None when they are closed then."""
    opened = next((start for start, end in _near(hours, at) if start <= _utc(at) < end), None)
    midnight = datetime.combine(_local_date(hours, at), datetime.min.time())
    return None if opened is None else max(opened, _instant(midnight, zone(hours.tz), fold=0))


def next_open(hours: Hours, at: datetime) -> datetime | None:
    """The first opening after `at`. None when there is none, because the hours never close."""
    return min((start for start, _ in _near(hours, at) if start > _utc(at)), default=None)


def next_close(hours: Hours, at: datetime) -> datetime | None:
    """The first closing after `at`, be it open or closed then. None when the hours never close."""
    return min((end for _, end in _near(hours, at) if _utc(at) < end < NEVER), default=None)


def same_day(hours: Hours, a: datetime, b: datetime) -> bool:
    """Whether both instants (aware) are on the same calendar date where the hours are kept."""
    return _local_date(hours, a) == _local_date(hours, b)


def _near(hours: Hours, at: datetime) -> tuple[Stretch, ...]:
    return _stretches(hours, _local_date(hours, at))


@lru_cache(maxsize=512)  # one sweep asks for many resources with the same hours at the same moment
def _stretches(hours: Hours, day: date) -> tuple[Stretch, ...]:
    """The open stretches around that local date, in order; those that touch are one."""
    if len(hours.days) == len(DAYS) and (hours.start, hours.end) == (0, MIDNIGHT):
        return ((ALWAYS, NEVER),)
    joined: list[Stretch] = []
    for start, end in _single(hours, day):
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(joined.pop()[1], end)
        joined.append((start, end))
    return tuple(joined)


def _single(hours: Hours, day: date) -> Iterator[Stretch]:
    """Every open day around that local date by itself; none for a day whose hours fall into a gap altogether."""
    zoned = zone(hours.tz)
    for offset in range(-SIGHT.days, SIGHT.days + 1):
        midnight = datetime.combine(day + offset * DAY, datetime.min.time())
        if midnight.weekday() in hours.days:
            start = _instant(midnight + timedelta(minutes=hours.start), zoned, fold=0)
            end = _instant(midnight + timedelta(minutes=hours.end), zoned, fold=1)
            if start < end:
                yield start, end


def _instant(wall: datetime, zoned: ZoneInfo, *, fold: int) -> datetime:
    """When clocks there show `wall` (naive); which of two times says `fold`. In a gap: the first instant after it."""
    found = wall.replace(tzinfo=zoned, fold=fold).astimezone(UTC)
    if found.astimezone(zoned).replace(tzinfo=None) == wall:
        return found
    early, late = (wall.replace(tzinfo=zoned, fold=side).astimezone(UTC) for side in (1, 0))
    while late - early > SECOND:  # the change is after `early` and at or before `late`; changes are on whole seconds
        middle = early + (late - early) // (2 * SECOND) * SECOND
        early, late = (early, middle) if _offset(middle, zoned) == _offset(late, zoned) else (middle, late)
    return late


def _offset(at: datetime, zoned: ZoneInfo) -> timedelta | None:
    return at.astimezone(zoned).utcoffset()


def _local_date(hours: Hours, at: datetime) -> date:
    return _utc(at).astimezone(zone(hours.tz)).date()


def _utc(at: datetime) -> datetime:
    """Raises ValueError for a naive time, which would be taken for this machine's."""
    if at.tzinfo is None:
        raise ValueError("expected a time with a zone")
    return at.astimezone(UTC)


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"expected days out of {', '.join(DAYS)}, not {part!r}")
        a, b = DAYS.index(first), DAYS.index(last or first)
        days.update(range(a, b + 1) if a <= b else [*range(a, 7), *range(b + 1)])
    return frozenset(days)
