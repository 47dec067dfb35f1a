"""How freezes and business days move a date: a length is added over unfrozen time alone, business days are counted. Pure.

Freezes are in order and without overlaps, as `merged` returns them. A moment at the end of a freeze isn't frozen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from reaper.calendars.terms import BusinessDays, Freeze

DAY, MOMENT = timedelta(days=1), timedelta(microseconds=1)
AND = " and "
MAX_DAYS = 732
"""Business days are sought for that long: a calendar may have none left."""


def merged(freezes: Iterable[Freeze]) -> tuple[Freeze, ...]:
    """The freezes in order. Those that overlap or touch are one, under the names of all of their calendars."""
    joined: list[Freeze] = []
    for freeze in sorted(freezes, key=lambda each: (each.start, each.end, each.calendar)):
        if joined and freeze.start <= joined[-1].end:
            last = joined.pop()
            names = dict.fromkeys([*last.calendar.split(AND), *freeze.calendar.split(AND)])
            freeze = Freeze(calendar=AND.join(names), start=last.start, end=max(last.end, freeze.end))
        joined.append(freeze)
    return tuple(joined)


def freeze_at(freezes: Sequence[Freeze], at: datetime) -> Freeze | None:
    """The freeze around `at`; None if it isn't frozen."""
    return next((freeze for freeze in _not_over(freezes, at)[:1] if freeze.start <= at), None)


def _not_over(freezes: Sequence[Freeze], at: datetime) -> Sequence[Freeze]:
    """Those that end after `at`. A calendar may have thousands, and each resource asks."""
    return freezes[bisect_right(freezes, at, key=lambda freeze: freeze.end) :]


def add_length(start: datetime, length: timedelta, freezes: Sequence[Freeze]) -> datetime:
    """The first unfrozen moment after that much unfrozen time since `start`. If the length is zero, `start` itself unless it is frozen."""
    for freeze in _not_over(freezes, start):
        unfrozen = max(freeze.start - start, timedelta())
        if unfrozen > length:
            break
        start, length = freeze.end, length - unfrozen
    return start + length


def add_business_days(start: datetime, business: BusinessDays, freezes: Sequence[Freeze]) -> datetime:
    """The same wall time on the last of so many business days after the local date of `start`. No day that is frozen in part is one.

    A time that comes twice is the later one, and one that a clock change leaves out is as much later as clocks went forward.
    """
    zone = ZoneInfo(business.tz)
    local = start.astimezone(zone)
    day, left = local.date(), business.count
    for _ in range(MAX_DAYS):
        if not left:
            break
        day += DAY
        is_off = day.weekday() in business.weekend or day in business.days_off
        begin, end = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + DAY))
        left -= not (is_off or any(freeze.start < end for freeze in _not_over(freezes, begin)[:1]))
    wall = datetime.combine(day, local.time())
    return max(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
