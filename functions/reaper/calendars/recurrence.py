"""The days of a recurring event near now, by RFC 5545, section 3.3.10, as dateutil's `rrule` expands it month by month. Pure.

An rrule that never matches, such as one for 30 February, runs for many seconds, whatever its UNTIL. So it is refused before it runs, and each step of
the others is counted. Rules within a day, parts of rules that days don't need, and what counts days of a week or year but not of a month, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
PARTS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"})
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_STEPS = 300_000
LAST_YEARS = datetime(9972, 1, 1)  # noqa: DTZ001 - a day
"""The last 28 years there are: they have every month with every weekday as its first, and rrule ends after them."""


@dataclass(slots=True)
class Steps:
    """The months and days that may still be examined, over all events of one file."""

    left: int = MAX_STEPS

    def take(self, number: int = 1) -> None:
        """Raises ValueError once none is left."""
        self.left -= number
        if self.left < 0:
            raise ValueError(
                "it and the events before it recur too often or for too long; export fewer of them, or a shorter time"
            )


def recurring_days(rule: Mapping[str, Any], start: date, near: tuple[date, date], steps: Steps) -> Iterator[date]:
    """The days that the rule of an event from `start` on means, from the first to the last of `near`, both included.

    Raises ValueError if the rule isn't of days, isn't understood, or never matches, and once it has examined too many months and days.
    """
    from dateutil.rrule import MONTHLY, rrule

    parts = {str(key).upper(): value if isinstance(value, list) else [value] for key, value in rule.items()}
    frequency = str(parts.get("FREQ", [""])[0]).upper()
    if frequency not in FREQUENCIES:
        raise ValueError(f"it recurs {frequency or 'without FREQ'}; only {', '.join(FREQUENCIES)} are read")
    if unknown := sorted(parts.keys() - PARTS):
        raise ValueError(f"it recurs by {', '.join(unknown)}, which isn't read")
    interval, count = _numbers(parts, "INTERVAL"), _numbers(parts, "COUNT")
    if min(interval | count, default=1) < 1:
        raise ValueError("it recurs with an INTERVAL or COUNT below 1, which means nothing")
    days_before = (start.weekday() - WEEKDAYS.index(str(parts.get("WKST", ["MO"])[0]).upper())) % 7
    left, (first, last) = max(count, default=None), near
    since = (start if left is not None else max(first, start)).replace(day=1)
    for when in rrule(MONTHLY, dtstart=datetime(since.year, since.month, 1), **_days_of_months(parts, frequency, start)):  # noqa: DTZ001 - a day
        day = when.date()
        steps.take(1 + (day.year - since.year) * 12 + day.month - since.month)
        since = day
        if day > last or left == 0:
            return
        years, days = day.year - start.year, (day - start).days
        months = years * 12 + day.month - start.month
        apart = {"DAILY": days, "WEEKLY": (days + days_before) // 7, "MONTHLY": months, "YEARLY": years}[frequency]
        if days >= 0 and apart % max(interval, default=1) == 0:
            left = None if left is None else left - 1
            if first <= day:
                yield day


def _days_of_months(parts: Mapping[str, list[object]], frequency: str, start: date) -> dict[str, object]:
    """The days of months that the parts mean, if it weren't for their interval, as rrule has them. Raises ValueError if there is no such day."""
    from dateutil.rrule import MONTHLY, rrule, weekday

    months, month_days, positions = (_numbers(parts, key) for key in ("BYMONTH", "BYMONTHDAY", "BYSETPOS"))
    weekdays = {(WEEKDAYS.index(str(text)[-2:].upper()), int(str(text)[:-2] or 0)) for text in parts.get("BYDAY", ())}
    is_numbered = any(which for _, which in weekdays)
    if (positions or is_numbered) and frequency != "MONTHLY" and (frequency != "YEARLY" or len(months) != 1):
        raise ValueError("it recurs on a numbered day (BYSETPOS, or BYDAY such as 2MO) of no one month, which isn't read")
    if not month_days and not weekdays:
        month_days = {start.day} if frequency in ("MONTHLY", "YEARLY") else set()
        months = months or {start.month} if frequency == "YEARLY" else months
        weekdays = {(day, 0) for day in ([start.weekday()] if frequency == "WEEKLY" else range(7)) if not month_days}
    # rrule takes only days that fit both a weekday and a numbered one, RFC 5545 either: a weekday is its first to its fifth.
    each = range(1, 6) if is_numbered else (None,)
    by: dict[str, object] = {
        "bymonth": sorted(months) or None,
        "bymonthday": sorted(month_days) or None,
        "byweekday": [weekday(day, n) for day, which in sorted(weekdays) for n in ([which] if which else each)] or None,
        "bysetpos": sorted(positions) or None,
    }
    if 0 in month_days | positions or next(iter(rrule(MONTHLY, dtstart=LAST_YEARS, **by)), None) is None:
        named = {
            "BYMONTH": sorted(months),
            "BYMONTHDAY": sorted(month_days),
            "BYDAY": parts.get("BYDAY"),
            "BYSETPOS": sorted(positions),
        }
        written = ";".join(f"{key}={','.join(map(str, values))}" for key, values in named.items() if values)
        fix = "correct these parts of its RRULE, or remove the RRULE"
        raise ValueError(f"it recurs by {written}, and no day is ever that; {fix}")
    return by


def _numbers(parts: Mapping[str, list[object]], key: str) -> set[int]:
    return {int(str(value)) for value in parts.get(key, ())}
