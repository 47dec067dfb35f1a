"""What a calendar names, as data: its stretches joined, the whole days among them, and as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from reaper.calendars.adding import merged
from reaper.calendars.calendar import Calendar, Stretch
from reaper.calendars.ics import LOOK_AHEAD, LOOK_BACK, instant
from reaper.calendars.terms import Freeze
from reaper.text import first_few

DAY = timedelta(days=1)
MAX_STRETCHES = 5_000


def stretches_of(ranges: Iterable[tuple[date, date]], tz: str) -> list[Stretch]:
    """The days from first to last, both included, in that zone."""
    zone = ZoneInfo(tz)
    return [(instant(first, zone), instant(last + DAY, zone)) for first, last in ranges]


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches in order; what overlaps or touches is one."""
    return [(each.start, each.end) for each in merged(Freeze(calendar="", start=start, end=end) for start, end in stretches)]


def entries_near(stretches: Iterable[Stretch], now: datetime) -> list[Stretch]:
    """Those near now, joined. Raises ValueError if there are none or too many, or if the last one is over."""
    near = joined((start, end) for start, end in stretches if end > now - LOOK_BACK and start < now + LOOK_AHEAD)
    if not near:
        raise ValueError("it has no entry from 400 days ago to two years ahead; add some")
    if len(near) > MAX_STRETCHES:
        raise ValueError(f"it has more than {MAX_STRETCHES:,} entries near now; export fewer")
    if near[-1][1] <= now:
        raise ValueError(f"its last entry ended on {near[-1][1] - DAY / 86_400:%Y-%m-%d}; add the coming ones")
    return near


def outside(stretches: Sequence[Stretch], now: datetime) -> list[Stretch]:
    """All time near now that isn't in the stretches."""
    ends = [now - LOOK_BACK, *(end for _, end in stretches)]
    starts = [*(start for start, _ in stretches), now + LOOK_AHEAD]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]


def whole_days(stretches: Iterable[Stretch], tz: str) -> frozenset[date]:
    """The local dates that the stretches cover from midnight to midnight."""
    zone, days = ZoneInfo(tz), set()
    for start, end in stretches:
        day = start.astimezone(zone).date()
        day += DAY * (instant(day, zone) < start)
        while instant(day + DAY, zone) <= end:
            days.add(day)
            day += DAY
    return frozenset(days)


def next_entries(calendar: Calendar, now: datetime) -> str:
    """`2026-12-24/2027-01-03, 2027-04-02 and 7 more (Europe/Berlin)`: those that aren't over, as a policy spells days."""
    zone = ZoneInfo(calendar.tz)
    coming = [_text(start.astimezone(zone), end.astimezone(zone)) for start, end in calendar.stretches if end > now]
    return f"{first_few(coming)} ({calendar.tz})"


def _text(start: datetime, end: datetime) -> str:
    if (start.hour, start.minute, end.hour, end.minute) != (0, 0, 0, 0):
        return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    last = end.date() - DAY
    return f"{start:%Y-%m-%d}" if last == start.date() else f"{start:%Y-%m-%d}/{last}"
