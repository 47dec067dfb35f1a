"""The days of a recurring event near now, by RFC 5545, section 3.3.10. Pure.

Every day that is looked at is counted, so that no rule, however it is written, takes long. dateutil's own expansion doesn't end if a rule never matches,
such as one for 30 February. Rules within a day, and parts of rules that calendars of days don't need, are refused.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from typing import Any

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
PARTS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"})
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_STEPS = 200_000
MAX_INTERVAL = 1000


@dataclass(slots=True)
class Steps:
    """The days that may still be looked at, over all events of one file."""

    left: int = MAX_STEPS

    def take(self) -> None:
        """Raises ValueError once none is left."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("its recurring events are too many or too long; export fewer of them, or a shorter time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A rule. `weekdays`: a weekday (Monday 0) and which of them, 0 for each."""

    frequency: str
    interval: int
    count: int | None
    months: frozenset[int]
    month_days: frozenset[int]
    weekdays: frozenset[tuple[int, int]]
    positions: frozenset[int]
    week_start: int


def parse_recurrence(rule: Mapping[str, Any], start: date) -> Recurrence:
    """The rule of an event that starts on that day. Raises ValueError if it isn't of days or isn't understood."""
    parts = {str(key).upper(): value if isinstance(value, list) else [value] for key, value in rule.items()}
    frequency = str(parts.get("FREQ", [""])[0]).upper()
    if frequency not in FREQUENCIES:
        raise ValueError(f"an event recurs {frequency or 'without FREQ'}; only {', '.join(FREQUENCIES)} are read")
    if unknown := sorted(parts.keys() - PARTS):
        raise ValueError(f"an event recurs by {', '.join(unknown)}, which isn't read")
    months, month_days = (frozenset(int(str(value)) for value in parts.get(key, ())) for key in ("BYMONTH", "BYMONTHDAY"))
    weekdays = frozenset(_weekday(str(value)) for value in parts.get("BYDAY", ()))
    if any(which for _, which in weekdays) and frequency in ("DAILY", "WEEKLY"):
        raise ValueError(f"an event recurs {frequency} on a numbered weekday, which means nothing")
    if not month_days and not weekdays:
        month_days = frozenset({start.day}) if frequency in ("MONTHLY", "YEARLY") else month_days
        months = months or frozenset({start.month}) if frequency == "YEARLY" else months
        weekdays = frozenset({(start.weekday(), 0)}) if frequency == "WEEKLY" else weekdays
    interval = int(parts.get("INTERVAL", [1])[0])
    if not 1 <= interval <= MAX_INTERVAL:
        raise ValueError(f"an event recurs with INTERVAL={interval}; 1 to {MAX_INTERVAL} is read")
    return Recurrence(
        frequency=frequency,
        interval=interval,
        count=int(parts["COUNT"][0]) if "COUNT" in parts else None,
        months=months,
        month_days=month_days,
        weekdays=weekdays,
        positions=frozenset(int(value) for value in parts.get("BYSETPOS", ())),
        week_start=WEEKDAYS.index(str(parts.get("WKST", ["MO"])[0]).upper()),
    )


def _weekday(text: str) -> tuple[int, int]:
    """`-1FR`: the last Friday."""
    return WEEKDAYS.index(text[-2:].upper()), int(text[:-2] or 0)


def recurring_days(rule: Recurrence, start: date, window: tuple[date, date], steps: Steps) -> Iterator[date]:
    """The days of the rule in the window, both its ends included. Raises ValueError once too many days were looked at."""
    first, last = window
    left = rule.count
    for days in _periods(rule, start, start if left is not None else max(first, start), last):
        found = []
        steps.take()
        for day in days:
            steps.take()
            if _fits(rule, day):
                found.append(day)
        if rule.positions:
            found = [day for n, day in enumerate(found) if n + 1 in rule.positions or n - len(found) in rule.positions]
        for day in (day for day in found if day >= start):
            if left is not None:
                left -= 1
                if left < 0:
                    return
            if first <= day <= last:
                yield day


def _periods(rule: Recurrence, start: date, first: date, last: date) -> Iterator[Iterable[date]]:
    """The days of each day, week, month or year of the rule, from the one before `first` until `last`."""
    if rule.frequency in ("DAILY", "WEEKLY"):
        length = 1 if rule.frequency == "DAILY" else 7
        origin = start if length == 1 else start - timedelta(days=(start.weekday() - rule.week_start) % 7)
        step = length * rule.interval
        day = origin + timedelta(days=max(0, (first - origin).days // step) * step)
        while day <= last:
            yield [day + timedelta(days=n) for n in range(length)]
            day += timedelta(days=step)
        return
    months = 1 if rule.frequency == "MONTHLY" else 12
    begin = start.year * 12 + (start.month - 1 if months == 1 else 0)
    step = months * rule.interval
    for number in count(max(0, (first.year * 12 + first.month - 1 - begin) // step)):
        month = begin + number * step
        if month > last.year * 12 + last.month - 1:
            return
        yield (day for n in range(month, month + months) for day in _days_of_month(rule, *divmod(n, 12)))


def _days_of_month(rule: Recurrence, year: int, month: int) -> Iterator[date]:
    """The days of a month (January 0) that the rule may mean."""
    length = calendar.monthrange(year, month + 1)[1]
    if not rule.months or month + 1 in rule.months:
        numbers = {n if n > 0 else length + 1 + n for n in rule.month_days} if rule.month_days else range(1, length + 1)
        yield from (date(year, month + 1, n) for n in sorted(numbers) if 1 <= n <= length)


def _fits(rule: Recurrence, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if rule.months and day.month not in rule.months:
        return False
    if rule.month_days and not rule.month_days & {day.day, day.day - length - 1}:
        return False
    if not rule.weekdays:
        return True
    index = day.day - 1
    if rule.frequency == "YEARLY" and not rule.months:
        index, length = day.timetuple().tm_yday - 1, 365 + calendar.isleap(day.year)
    return not rule.weekdays.isdisjoint(
        {(day.weekday(), 0), (day.weekday(), index // 7 + 1), (day.weekday(), -((length - index - 1) // 7) - 1)}
    )
