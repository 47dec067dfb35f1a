"""Freezes and business days, and how they move a date: a length is added over unfrozen time alone, business days are counted. Pure.

Freezes are in order and without overlaps, as `merged` returns them. A moment at the end of a freeze isn't frozen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAY, MOMENT = timedelta(days=1), timedelta(microseconds=1)
LONGEST = timedelta(days=731)
"""The longest entry of a calendar. As a freeze, a longer one would never end."""
AND = " and "
MAX_DAYS = 732
"""Business days are sought for that long: a calendar may have none left."""
Stretch = tuple[datetime, datetime]
"""From its first instant to before its end, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A stretch from `start` until before `end` (UTC) in which nothing is stopped or deleted, and the calendar that says so."""

    calendar: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BusinessDays:
    """A grace of `count` business days: the days in the zone `tz` that are neither in `weekend` (Monday 0) nor days off of `calendar`.

    `days_off`: those near the run, as local dates.
    """

    count: int
    calendar: str
    tz: str
    weekend: frozenset[int] = frozenset({5, 6})
    days_off: frozenset[date] = frozenset()


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


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches in order; what overlaps or touches is one."""
    return [(each.start, each.end) for each in merged(Freeze(calendar="", start=start, end=end) for start, end in stretches)]


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


def most_business_days(graces: Sequence[BusinessDays]) -> BusinessDays | None:
    """The most of them, and only days that are business days in all. If their zones differ, a date may be the next one elsewhere."""
    if not graces:
        return None
    return replace(
        graces[0],
        count=max(grace.count for grace in graces) + (len({grace.tz for grace in graces}) > 1),
        calendar=AND.join(dict.fromkeys(grace.calendar for grace in graces)),
        weekend=frozenset.union(*(grace.weekend for grace in graces)),
        days_off=frozenset.union(*(grace.days_off for grace in graces)),
    )
