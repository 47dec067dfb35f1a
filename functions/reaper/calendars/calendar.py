"""A calendar of the policy as one run has read it. Frozen data, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

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
