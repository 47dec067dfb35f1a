"""The days of a recurring event near now, by RFC 5545, section 3.3.10. Pure.

dateutil's own expansion doesn't end if a rule never matches, such as one for 30 February. So the days that a rule may mean are examined one by one, and
counted. Rules within a day, and parts of rules that days don't need, are refused.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
PARTS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"})
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_STEPS = 200_000


@dataclass(slots=True)
class Steps:
    """The days that may still be examined, over all events of one file."""

    left: int = MAX_STEPS

    def take(self) -> None:
        """Raises ValueError once none is left."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("its recurring events are too many or too long; export fewer of them, or a shorter time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A rule of an event that starts on `start`. `weekdays`: a weekday (Monday 0), and which one of the month or year, 0 for each."""

    start: date
    frequency: str
    interval: int
    count: int | None
    months: frozenset[int]
    month_days: frozenset[int]
    weekdays: frozenset[tuple[int, int]]
    positions: frozenset[int]
    week_start: int


def parse_recurrence(rule: Mapping[str, Any], start: date) -> Recurrence:
    """Raises ValueError if the rule isn't of days, or isn't understood."""
    parts = {str(key).upper(): value if isinstance(value, list) else [value] for key, value in rule.items()}
    frequency = str(parts.get("FREQ", [""])[0]).upper()
    if frequency not in FREQUENCIES:
        raise ValueError(f"an event recurs {frequency or 'without FREQ'}; only {', '.join(FREQUENCIES)} are read")
    if unknown := sorted(parts.keys() - PARTS):
        raise ValueError(f"an event recurs by {', '.join(unknown)}, which isn't read")
    months, month_days, positions, interval, count = (
        frozenset(int(str(value)) for value in parts.get(key, ()))
        for key in ("BYMONTH", "BYMONTHDAY", "BYSETPOS", "INTERVAL", "COUNT")
    )
    weekdays = frozenset((WEEKDAYS.index(str(text)[-2:].upper()), int(str(text)[:-2] or 0)) for text in parts.get("BYDAY", ()))
    if min(interval | count, default=1) < 1 or (frequency in ("DAILY", "WEEKLY") and any(which for _, which in weekdays)):
        raise ValueError("an event recurs with an INTERVAL or COUNT below 1, or on a numbered day of a week, which means nothing")
    if not month_days and not weekdays:
        month_days = frozenset({start.day}) if frequency in ("MONTHLY", "YEARLY") else month_days
        months = months or frozenset({start.month}) if frequency == "YEARLY" else months
        weekdays = frozenset({(start.weekday(), 0)}) if frequency == "WEEKLY" else weekdays
    return Recurrence(
        start=start,
        frequency=frequency,
        interval=max(interval, default=1),
        count=max(count, default=None),
        months=months,
        month_days=month_days,
        weekdays=weekdays,
        positions=positions,
        week_start=WEEKDAYS.index(str(parts.get("WKST", ["MO"])[0]).upper()),
    )


def recurring_days(rule: Recurrence, first: date, last: date, steps: Steps) -> Iterator[date]:
    """The days of the rule from first to last, both included. Raises ValueError once it has examined too many days."""
    left = rule.count
    for period in _periods(rule, rule.start if left is not None else max(first, rule.start), last):
        steps.take()
        found = []
        for day in period:
            steps.take()
            if _fits(rule, day):
                found.append(day)
        if rule.positions:
            found = [day for n, day in enumerate(found) if n + 1 in rule.positions or n - len(found) in rule.positions]
        for day in (day for day in found if day >= rule.start):
            if left == 0:
                return
            left = None if left is None else left - 1
            if first <= day <= last:
                yield day


def _periods(rule: Recurrence, first: date, last: date) -> Iterator[Iterable[date]]:
    """The days of each day, week, month or year of the rule, from the one around `first` or before it until `last`."""
    start = rule.start
    if rule.frequency in ("DAILY", "WEEKLY"):
        days = 7 if rule.frequency == "WEEKLY" else 1
        origin = start - timedelta(days=(start.weekday() - rule.week_start) % days)
        for number in range((first - origin).days // days // rule.interval, (last - origin).days // days // rule.interval + 1):
            begin = origin + timedelta(days=number * rule.interval * days)
            yield [begin + timedelta(days=n) for n in range(days)]
        return
    months = 12 if rule.frequency == "YEARLY" else 1
    around, end = (day.year * 12 + day.month - 1 for day in (first, last))
    origin_month = (start.year * 12 + start.month - 1) // months * months
    for month in range(around - (around - origin_month) % (months * rule.interval), end + 1, months * rule.interval):
        yield (day for n in range(month, month + months) for day in _days_of_month(rule, *divmod(n, 12)))


def _days_of_month(rule: Recurrence, year: int, month: int) -> Iterator[date]:
    """The days of a month (January 0) that the rule may mean."""
    if not rule.months or month + 1 in rule.months:
        length = monthrange(year, month + 1)[1]
        numbers = {n if n > 0 else length + 1 + n for n in rule.month_days} or range(1, length + 1)
        yield from (date(year, month + 1, n) for n in sorted(numbers) if 1 <= n <= length)


def _fits(rule: Recurrence, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    if rule.months and day.month not in rule.months:
        return False
    if rule.month_days and rule.month_days.isdisjoint((day.day, day.day - length - 1)):
        return False
    index = day.day - 1
    if rule.frequency == "YEARLY" and not rule.months:
        index, length = day.timetuple().tm_yday - 1, 365 + isleap(day.year)
    which = (0, index // 7 + 1, -((length - index - 1) // 7) - 1)
    return not rule.weekdays or not rule.weekdays.isdisjoint((day.weekday(), n) for n in which)
