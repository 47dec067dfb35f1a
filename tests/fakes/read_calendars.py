"""Calendars as a run would have read them, and freezes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

from reaper.calendars.calendar import Calendar
from reaper.calendars.freezes import Freeze

DAY = timedelta(days=1)


def days_of(*spans: str) -> list[list[date]]:
    """The days of `2026-12-24/2026-12-26`, and of single days."""
    ends = [[date.fromisoformat(end) for end in span.split("/")] for span in spans]
    return [[one[0] + n * DAY for n in range((one[-1] - one[0]).days + 1)] for one in ends]


def calendar(name: str, *spans: str, tz: str = "UTC", **fields: Any) -> Calendar:
    """A calendar of these whole days."""
    days, zone = days_of(*spans), ZoneInfo(tz)
    midnight = lambda day: datetime.combine(day, time(), zone).astimezone(UTC)  # noqa: E731
    stretches = sorted((midnight(each[0]), midnight(each[-1] + DAY)) for each in days)
    return Calendar(name=name, tz=tz, days=frozenset(chain(*days)), stretches=tuple(stretches), **fields)


def unreadable(name: str, because: str = "no such file") -> Calendar:
    """A calendar that can't be read."""
    return Calendar(name=name, tz="UTC", unreadable_because=because)


def frozen(first: str, last: str, name: str = "year-end") -> Freeze:
    """A freeze from and to these days, in UTC."""
    [(start, end)] = calendar(name, f"{first}/{last}").stretches
    return Freeze(calendar=name, start=start, end=end)
