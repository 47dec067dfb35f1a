"""The days of a recurring event near now, by RFC 5545, section 3.3.10. Pure.

dateutil's own expansion doesn't end if a rule never matches, such as one for 30 February. So the days that a rule may mean are examined one by one, and
counted. Rules within a day, parts of rules that days don't need, and what counts days of a week or year but not of a month, are refused.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
PARTS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"})
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_STEPS = 300_000
DAY = timedelta(days=1)


@dataclass(slots=True)
class Steps:
    """The days that may still be examined, over all events of one file."""

    left: int = MAX_STEPS

    def take(self, number: int = 1) -> None:
        """Raises ValueError once none is left."""
        self.left -= number
        if self.left < 0:
            raise ValueError(
                "it and the events before it recur too often or for too long; export fewer of them, or a shorter time"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A rule of an event that starts on `start`. `weekdays`: a weekday (Monday 0), and which one of the month, 0 for each."""

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
        raise ValueError(f"it recurs {frequency or 'without FREQ'}; only {', '.join(FREQUENCIES)} are read")
    if unknown := sorted(parts.keys() - PARTS):
        raise ValueError(f"it recurs by {', '.join(unknown)}, which isn't read")
    months, month_days, positions, interval, count = (
        frozenset(int(str(value)) for value in parts.get(key, ()))
        for key in ("BYMONTH", "BYMONTHDAY", "BYSETPOS", "INTERVAL", "COUNT")
    )
    weekdays = frozenset((WEEKDAYS.index(str(text)[-2:].upper()), int(str(text)[:-2] or 0)) for text in parts.get("BYDAY", ()))
    if min(interval | count, default=1) < 1:
        raise ValueError("it recurs with an INTERVAL or COUNT below 1, which means nothing")
    is_numbered = bool(positions) or any(which for _, which in weekdays)
    if is_numbered and frequency != "MONTHLY" and (frequency != "YEARLY" or len(months) != 1):
        raise ValueError("it recurs on a numbered day (BYSETPOS, or BYDAY such as 2MO) of no one month, which isn't read")
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
    month = (rule.start if left is not None else max(first, rule.start)).replace(day=1)
    while month <= last:
        length = monthrange(month.year, month.month)[1]
        days = [month + n * DAY for n in range(length)] if not rule.months or month.month in rule.months else []
        steps.take(1 + len(days))
        found = [day for day in days if _fits(rule, day, length)]
        if rule.positions:
            found = [day for n, day in enumerate(found) if n + 1 in rule.positions or n - len(found) in rule.positions]
        for day in (day for day in found if day >= rule.start):
            if left == 0:
                return
            left = None if left is None else left - 1
            if first <= day <= last:
                yield day
        month += length * DAY


def _fits(rule: Recurrence, day: date, length: int) -> bool:
    """Whether the rule means a day of a month of that length, if it weren't for positions."""
    if rule.month_days and rule.month_days.isdisjoint((day.day, day.day - length - 1)):
        return False
    which = (0, (day.day - 1) // 7 + 1, -((length - day.day) // 7) - 1)
    if rule.weekdays and rule.weekdays.isdisjoint((day.weekday(), n) for n in which):
        return False
    years, days = day.year - rule.start.year, (day - rule.start).days
    apart = {
        "DAILY": days,
        "WEEKLY": (days + (rule.start.weekday() - rule.week_start) % 7) // 7,
        "MONTHLY": years * 12 + day.month - rule.start.month,
        "YEARLY": years,
    }
    return apart[rule.frequency] % rule.interval == 0
