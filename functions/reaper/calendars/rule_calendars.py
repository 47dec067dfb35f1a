"""What a rule has of the policy's calendars near a run: its freezes, its days off and its business days. Pure.

It is the same for every resource of a rule, so it is computed once for each combination of calendars and day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from reaper.calendars.calendar import Calendar
from reaper.calendars.freezes import BusinessDays, Freeze, add_length, merged
from reaper.model import Rule
from reaper.policy.schema import Policy, RuleSpec
from reaper.policy.values import BusinessDayCount

PAST, COMING = timedelta(days=60), timedelta(days=60)
"""The freezes that a rule carries: of this past, and of so much unfrozen time to come. The length that an action waits comes on top, twice ahead."""
MAX_AHEAD = timedelta(days=732)
DAYS_OFF_BEFORE, DAYS_OFF_AFTER = timedelta(days=45), timedelta(days=60)
"""The same for days off of office hours."""


class RuleCalendars(NamedTuple):
    """The calendars that a rule names, its grace in business days, for how long its actions may wait, and the day of the run."""

    freezes: tuple[str, ...]
    days_off: tuple[str, ...]
    business: str | None
    days: int
    waits_for: timedelta
    today: date


def with_calendar_terms(rule: Rule, policy: Policy, spec: RuleSpec | None, now: datetime) -> Rule:
    """The rule of `spec`, None for the defaults, with what its calendars say near `now`."""
    if not policy.calendars:
        return rule
    grace = spec.grace if spec and spec.grace is not None else policy.defaults.grace
    names = RuleCalendars(
        freezes=tuple(spec.freeze if spec and spec.freeze is not None else policy.defaults.freeze),
        days_off=rule.hours.calendars if rule.hours else (),
        business=(spec.business_days if spec else None) or policy.defaults.business_days,
        days=grace.count if isinstance(grace, BusinessDayCount) else 0,
        waits_for=max(rule.grace, rule.delete_after or timedelta()),
        today=now.astimezone(UTC).date(),
    )
    if names not in policy.known_terms:
        policy.known_terms[names] = _terms_near(names, policy)
    days_off, terms = policy.known_terms[names]
    return replace(rule, hours=replace(rule.hours, days_off=days_off) if rule.hours else None, **terms)


def _terms_near(names: RuleCalendars, policy: Policy) -> tuple[frozenset[date], dict[str, Any]]:
    """The days off of its hours, and the fields of the rule that come from calendars."""
    named = {name: _calendar(policy, name) for name in (*names.freezes, *names.days_off, names.business) if name}
    frozen = {name: named[name] for name in names.freezes}
    needed = [("freeze", each) for each in frozen.values()]
    business = None
    if names.business and names.days:
        counted = named[names.business]
        needed.append(("business-day", counted))
        # Of a calendar that can't be read, the weekend alone: a date by it is the earliest, and nothing is done by it.
        off = frozenset(day for day in counted.days if -2 * PAST <= day - names.today <= MAX_AHEAD)
        business = BusinessDays(count=names.days, calendar=counted.name, tz=counted.tz, weekend=counted.weekend, days_off=off)
    unreadable = [
        f"the {what} calendar {c.name!r} can't be read: {c.unreadable_because}" for what, c in needed if c.unreadable_because
    ]
    days_off = (day for name in names.days_off for day in named[name].days)
    near = frozenset(day for day in days_off if -DAYS_OFF_BEFORE <= day - names.today <= DAYS_OFF_AFTER)
    because = " and ".join(unreadable) or None
    return near, {"freezes": _freezes_near(frozen, names), "business_days": business, "waits_because": because}


def _freezes_near(calendars: Mapping[str, Calendar], names: RuleCalendars) -> tuple[Freeze, ...]:
    midnight = datetime.combine(names.today, time(), UTC)
    since, until = midnight - PAST - names.waits_for, midnight + MAX_AHEAD
    stretches = [(name, stretch) for name, calendar in calendars.items() for stretch in calendar.stretches]
    known = merged(
        Freeze(calendar=name, start=start, end=end) for name, (start, end) in stretches if since < end and start < until
    )
    last = add_length(midnight, 2 * names.waits_for + COMING, known)
    return tuple(freeze for freeze in known if freeze.start < last)


def _calendar(policy: Policy, name: str) -> Calendar:
    """The calendar as this run has read it. One that can't be relied on has no days off, and one that wasn't read can't."""
    tz = policy.calendars[name].tz or policy.owners.tz
    read = policy.resolved.get(name) or Calendar(name=name, tz=tz, unreadable_because="this run hasn't read it")
    return replace(read, days=frozenset()) if read.unreadable_because else read
