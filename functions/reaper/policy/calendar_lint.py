"""Warnings about a policy's calendars: what can't be read, what ends soon, what covers too much or too little, and what nothing uses. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from reaper.calendars.calendar import Calendar
from reaper.calendars.resolve import FREEZE, names_used, unreadable_texts
from reaper.policy.schema import Policy
from reaper.policy.yaml_lines import KeyPath

ENDS_SOON, YEAR = timedelta(days=60), timedelta(days=365)
MOST_OF_IT = 0.5
"""The share of the next year from which a freeze is probably a mistake, such as a Change Calendar that is closed by default."""
REGIONAL = frozenset({"AU", "CA", "CH", "DE", "ES", "GB", "IN", "MY"})
"""Countries whose regions have many holidays of their own."""


def calendar_problems(policy: Policy, now: datetime) -> Iterator[tuple[KeyPath, str]]:
    """The warnings, as far as the calendars were read."""
    used, freezes = (names_used(policy), names_used(policy, FREEZE)) if policy.calendars else (set(), set())
    unreadable = unreadable_texts(policy) if policy.resolved else {}
    for name, spec in policy.calendars.items():
        path: KeyPath = ("calendars", name)
        if name not in used:
            yield path, f"calendar {name!r} has no effect: name it in freeze, hours.except or business_days, or remove it"
        if spec.country in REGIONAL and not spec.subdiv:
            more = "its states or regions have more; add subdiv"
            yield path, f"calendar {name!r} has only the holidays of all of {spec.country}, and {more}"
        if because := unreadable.get(name):
            yield path, f"{because}. Until then its freezes hold, its days off are working days, and its business days don't end"
        elif calendar := policy.resolved.get(name):
            yield from ((path, f"calendar {name!r} {problem}") for problem in _problems_of(calendar, name in freezes, now))


def _problems_of(calendar: Calendar, is_freeze: bool, now: datetime) -> Iterator[str]:
    last = calendar.stretches[-1][1]
    if last < now + ENDS_SOON:
        yield f"has no entry after {last:%Y-%m-%d}; once that is over it can't be relied on, so add the coming ones"
    covered = sum((max(timedelta(), min(end, now + YEAR) - max(start, now)) for start, end in calendar.stretches), timedelta())
    if is_freeze and covered > MOST_OF_IT * YEAR:
        yield f"covers {covered / YEAR:.0%} of the next year, so as a freeze it allows almost no stop or delete"
