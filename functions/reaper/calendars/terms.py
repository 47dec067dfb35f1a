"""A calendar as one run has read it, and what a rule carries of it: office hours, freezes and business days. Frozen data, no I/O.

A run resolves its calendars once. A rule carries only what lies near the run, so that dates are computed from the rule alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

Stretch = tuple[datetime, datetime]
"""From its first instant to before its end, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """`days`: the local dates in the zone `tz` that it names as a whole. `stretches`: all that it names, such days too, in order and
    without overlaps. `weekend`: weekdays (Monday 0) that are no business days.

    `unreadable_because`: why nothing of it may be relied on: it couldn't be read, has no entries, or is past its last one.
    """

    name: str
    tz: str
    days: frozenset[date] = frozenset()
    stretches: tuple[Stretch, ...] = ()
    weekend: frozenset[int] = frozenset({5, 6})
    unreadable_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Office hours: on these weekdays (Monday 0) from `start` to `end`, minutes after midnight, in the IANA zone `tz`.

    `restart`: which resources are started when they begin, `ours` or `all`. `force`: busy resources are stopped too. `override`: how long a
    manual start outside them is respected. `by_rule`: the policy's rule asks for them, and for this kind. Otherwise they only protect it
    inside office hours, and neither shorten nor force anything. `also`: further hours in which it is open, too; only their times count.
    `calendars`: the names of the calendars whose days off are closed all day, and `days_off` those near the run, as local dates.
    """

    days: frozenset[int]
    start: int
    end: int
    tz: str
    restart: str = "ours"
    force: bool = False
    override: timedelta = timedelta(hours=4)
    by_rule: bool = True
    also: Hours | None = None
    calendars: tuple[str, ...] = ()
    days_off: frozenset[date] = frozenset()


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
