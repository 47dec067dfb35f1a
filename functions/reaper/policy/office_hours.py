"""Office hours as people write them: `mon-fri 07:00-21:00` with an IANA time zone. Pure.

Hours are wall time. When clocks go forward, a time that doesn't exist becomes the first instant after the gap. When they go back, hours
open at the first and close at the last occurrence of a time that comes twice: open too long is better than closed too early.
Days are local dates; hours that touch (`mon-tue 00:00-24:00`) don't close in between. All results are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from reaper.calendars.terms import Hours
from reaper.text import did_you_mean, short_repr

Stretch = tuple[datetime, datetime]
"""From the first open instant to the first closed one, in UTC."""

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
MIDNIGHT = 24 * 60
ALWAYS, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SEARCH_RANGE = 22 * DAY
"""The search range each way: a weekly day may be missing once, if a clock change swallows its hours or the whole date."""
DAYS_OFF_RANGE = 60 * DAY
"""How much further to search if days are off: rules carry them for that time around the run (`calendar_terms`)."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED_HOURS = "days and times such as `mon-fri 07:00-21:00`"
_HOURS_PATTERN = re.compile(r"([a-z,-]+)\s+([0-2]?\d):([0-5]\d)\s*-\s*([0-2]?\d):([0-5]\d)", re.IGNORECASE)


def parse_hours(on: str, tz: str) -> Hours:
    """The hours `on` in the zone `tz`. Raises ValueError that names the problem: days, times, their order, or the zone."""
    match = _HOURS_PATTERN.fullmatch(on.strip())
    if not match:
        raise ValueError(f"expected {EXPECTED_HOURS}")
    start, end = int(match[2]) * 60 + int(match[3]), int(match[4]) * 60 + int(match[5])
    if not start < end <= MIDNIGHT:
        raise ValueError(
            f"{short_repr(on)}: expected a start before an end at 24:00 at the latest; hours over midnight aren't possible, so end them at 24:00"
        )
    return Hours(days=_parse_days(match[1].lower()), start=start, end=end, tz=time_zone(tz).key)


def joined_hours(hours: Hours, others: Hours) -> Hours:
    """Hours that are open whenever either of them is, and otherwise as `hours`."""
    if _covers(hours, others):
        return hours
    if _covers(others, hours):
        return replace(hours, days=others.days, start=others.start, end=others.end, days_off=others.days_off)
    return replace(hours, also=others)


def _covers(wide: Hours, narrow: Hours) -> bool:
    """Whether `wide` is open whenever `narrow` is, as far as the same zone shows it."""
    is_wider = wide.days >= narrow.days and wide.start <= narrow.start and wide.end >= narrow.end
    return wide.tz == narrow.tz and is_wider and wide.days_off <= narrow.days_off


def hours_text(hours: Hours) -> str:
    """The hours as a policy spells them: `mon-fri 07:00-21:00`. Their zone isn't in it, but that of other hours is."""
    if hours.also:
        zone = "" if hours.also.tz == hours.tz else f" {hours.also.tz}"
        return f"{hours_text(hours.also)}{zone} and {hours_text(replace(hours, also=None))}"
    days = sorted(hours.days)
    runs = [[day for day in days if day - days.index(day) == key] for key in dict.fromkeys(d - days.index(d) for d in days)]
    named = ",".join(DAYS[run[0]] if len(run) == 1 else f"{DAYS[run[0]]}-{DAYS[run[-1]]}" for run in runs)
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (hours.start, hours.end))
    return f"{named} {start}-{end}"


def time_zone(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = _zone_suggestion(name) or " such as Europe/Berlin"
        raise ValueError(f"unknown time zone {short_repr(name)}: expected an IANA time zone{near}") from error


@lru_cache(maxsize=64)
def _zone_suggestion(name: str) -> str:
    """The zone that was probably meant. Cached, because thousands of tags may have the same value."""
    zones = available_timezones()
    city = min((zone for zone in zones if zone.lower().endswith(f"/{name.lower()}")), default=None)
    return f"; did you mean {city}?" if city else did_you_mean(name, zones)


def is_open(hours: Hours, at: datetime) -> bool:
    """Whether `at` (aware) is inside the hours, their start included, their end not."""
    return any(start <= _to_utc(at) < end for start, end in _nearby_stretches(hours, at))


def closed_since(hours: Hours, at: datetime) -> datetime | None:
    """The start of the closed stretch around `at`, at the latest `at` itself. None if the hours are open, or never were."""
    if is_open(hours, at):
        return None
    return max((end for _, end in _nearby_stretches(hours, at) if end <= _to_utc(at)), default=None)


def were_open_between(hours: Hours, since: datetime, until: datetime) -> bool:
    """Whether the hours opened and closed again in that time, or never close."""
    is_within = any(_to_utc(since) <= start and end <= _to_utc(until) for start, end in _nearby_stretches(hours, until))
    return is_within or next_close(hours, until) is None


def opened_today(hours: Hours, at: datetime) -> datetime | None:
    """The opening of the hours around `at`, at the earliest the start of its day: some hours never close. None if they are closed."""
    opened = next((start for start, end in _nearby_stretches(hours, at) if start <= _to_utc(at) < end), None)
    midnight = datetime.combine(_local_date(hours, at), datetime.min.time())
    return None if opened is None else max(opened, _utc_instant(midnight, time_zone(hours.tz), fold=0))


def next_close(hours: Hours, at: datetime) -> datetime | None:
    """The first closing after `at`, whether the hours are open then or not. None if the hours never close."""
    return min((end for _, end in _nearby_stretches(hours, at) if _to_utc(at) < end < NEVER), default=None)


def next_open(hours: Hours, at: datetime) -> datetime | None:
    """The first opening after `at`. None if the hours never close."""
    return min((start for start, _ in _nearby_stretches(hours, at) if start > _to_utc(at)), default=None)


def is_same_day(hours: Hours, a: datetime, b: datetime) -> bool:
    """Whether both instants (aware) are on the same calendar date in the zone of the hours."""
    return _local_date(hours, a) == _local_date(hours, b)


def _nearby_stretches(hours: Hours, at: datetime) -> tuple[Stretch, ...]:
    return _open_stretches(hours, _local_date(hours, at))


@lru_cache(maxsize=512)  # one sweep checks many resources with the same hours at the same moment
def _open_stretches(hours: Hours, day: date) -> tuple[Stretch, ...]:
    """The open stretches around that local date, in order; those that touch are one."""
    calendars = [hours, hours.also] if hours.also else [hours]
    if any(len(one.days) == len(DAYS) and (one.start, one.end) == (0, MIDNIGHT) and not one.days_off for one in calendars):
        return ((ALWAYS, NEVER),)
    joined: list[Stretch] = []
    for start, end in sorted(stretch for one in calendars for stretch in _day_stretches(one, day)):
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(joined.pop()[1], end)
        joined.append((start, end))
    almost_all = min(map(_search_range, calendars)) - 2 * DAY
    return tuple(_without_edges(stretch, day, almost_all) for stretch in joined)


def _search_range(hours: Hours) -> timedelta:
    return SEARCH_RANGE + DAYS_OFF_RANGE if hours.days_off else SEARCH_RANGE


def _without_edges(stretch: Stretch, day: date, almost_all: timedelta) -> Stretch:
    """Two calendars can leave no gap for weeks. What reaches the edge of the search range then hasn't opened or closed there."""
    (start, end), middle = stretch, datetime.combine(day, datetime.min.time(), UTC)
    if end - start <= almost_all:
        return stretch
    return (ALWAYS if middle - start > almost_all else start), (NEVER if end - middle > almost_all else end)


def _day_stretches(hours: Hours, day: date) -> Iterator[Stretch]:
    """The open stretch of each day around that local date. A day whose hours fall entirely into a gap has none, and so has a day off."""
    zoned, days = time_zone(hours.tz), _search_range(hours).days
    for offset in range(-days, days + 1):
        midnight = datetime.combine(day + offset * DAY, datetime.min.time())
        if midnight.weekday() in hours.days and midnight.date() not in hours.days_off:
            start = _utc_instant(midnight + timedelta(minutes=hours.start), zoned, fold=0)
            end = _utc_instant(midnight + timedelta(minutes=hours.end), zoned, fold=1)
            if start < end:
                yield start, end


def _utc_instant(wall: datetime, zoned: ZoneInfo, *, fold: int) -> datetime:
    """The instant when clocks show `wall` (naive); `fold` chooses between two. In a gap: the first instant after it."""
    instant = wall.replace(tzinfo=zoned, fold=fold).astimezone(UTC)
    if instant.astimezone(zoned).replace(tzinfo=None) == wall:
        return instant
    early, late = (wall.replace(tzinfo=zoned, fold=side).astimezone(UTC) for side in (1, 0))
    while late - early > SECOND:  # the change is after `early` and at or before `late`; changes are on whole seconds
        middle = early + (late - early) // (2 * SECOND) * SECOND
        early, late = (
            (early, middle) if middle.astimezone(zoned).utcoffset() == late.astimezone(zoned).utcoffset() else (middle, late)
        )
    return late


def _local_date(hours: Hours, at: datetime) -> date:
    return _to_utc(at).astimezone(time_zone(hours.tz)).date()


def _to_utc(at: datetime) -> datetime:
    """Raises ValueError for a naive time, which Python would take as this machine's local time."""
    if at.tzinfo is None:
        raise ValueError("expected a time with a zone")
    return at.astimezone(UTC)


def _parse_days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"expected days from {', '.join(DAYS)}, not {part!r}")
        a, b = DAYS.index(first), DAYS.index(last or first)
        days.update(range(a, b + 1) if a <= b else [*range(a, 7), *range(b + 1)])
    return frozenset(days)
