"""How freezes and business days move a date: a length is added over unfrozen time alone, business days are counted. Pure.

Freezes are in order and without overlaps, as `merged` returns them. A moment at the end of a freeze isn't frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
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


def freeze_at(freezes: Iterable[Freeze], at: datetime) -> Freeze | None:
    """The freeze around `at`; None if it isn't frozen."""
    return next((freeze for freeze in freezes if freeze.start <= at < freeze.end), None)


def add_length(start: datetime, length: timedelta, freezes: Iterable[Freeze]) -> datetime:
    """The first unfrozen moment after that much unfrozen time since `start`. If the length is zero, `start` itself unless it is frozen."""
    for freeze in freezes:
        if freeze.end <= start:
            continue
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
    frozen = [(each.start.astimezone(zone).date(), (each.end - MOMENT).astimezone(zone).date()) for each in freezes]
    day, left = local.date(), business.count
    for _ in range(MAX_DAYS):
        if not left:
            break
        day += DAY
        is_off = day.weekday() in business.weekend or day in business.days_off
        left -= not (is_off or any(first <= day <= last for first, last in frozen))
    wall = datetime.combine(day, local.time())
    return max(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
