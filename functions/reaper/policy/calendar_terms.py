"""What a rule has of the policy's calendars near a run: its freezes, its days off and its business days. Pure.

It is the same for every resource of a rule, so it is computed once for each combination of calendars and day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from reaper.calendars.adding import add_length, merged
from reaper.calendars.calendar import Calendar
from reaper.calendars.terms import BusinessDays, Freeze
from reaper.model import Rule
from reaper.policy.schema import Policy, RuleSpec
from reaper.policy.values import BusinessDayCount

PAST, COMING = timedelta(days=60), timedelta(days=60)
"""How far back freezes are carried, and how much unfrozen time ahead. The length that an action waits comes on top, twice ahead."""
MAX_AHEAD = timedelta(days=732)
DAYS_OFF_BEFORE, DAYS_OFF_AFTER = timedelta(days=45), timedelta(days=60)
"""The same for days off of office hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarNames:
    """The calendars that a rule names, and for how long an action of it may wait. `count`: its grace in business days."""

    freezes: tuple[str, ...]
    days_off: tuple[str, ...]
    business: str | None
    count: int
    waits_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarTerms:
    """What these calendars say near one day. `waits_because`: why no action may be made."""

    freezes: tuple[Freeze, ...] = ()
    days_off: frozenset[date] = frozenset()
    business_days: BusinessDays | None = None
    waits_because: str | None = None


def with_calendar_terms(rule: Rule, policy: Policy, spec: RuleSpec | None, now: datetime) -> Rule:
    """The rule of `spec`, None for the defaults, with what its calendars say near `now`."""
    if not policy.calendars:
        return rule
    grace = spec.grace if spec and spec.grace is not None else policy.defaults.grace
    freezes = spec.freeze if spec and spec.freeze is not None else policy.defaults.freeze
    names = CalendarNames(
        freezes=tuple(freezes),
        days_off=rule.hours.calendars if rule.hours else (),
        business=(spec.business_days if spec else None) or policy.defaults.business_days,
        count=grace.count if isinstance(grace, BusinessDayCount) else 0,
        waits_for=max(rule.grace, rule.delete_after or timedelta()),
    )
    key, known = (names, now.astimezone(UTC).date()), policy.known_terms
    if key not in known:
        known[key] = _terms_near(names, policy, key[1])
    terms: CalendarTerms = known[key]
    hours = replace(rule.hours, days_off=terms.days_off) if rule.hours and terms.days_off else rule.hours
    return replace(rule, hours=hours, freezes=terms.freezes, business_days=terms.business_days, waits_because=terms.waits_because)


def _terms_near(names: CalendarNames, policy: Policy, today: date) -> CalendarTerms:
    business = _calendar(policy, names.business) if names.business and names.count else None
    frozen = [_calendar(policy, name) for name in names.freezes]
    unreadable = [_unreadable_text("freeze", each) for each in frozen if each.unreadable_because]
    if business and business.unreadable_because:
        unreadable.append(_unreadable_text("business-day", business))
    days_off = {day for name in names.days_off for day in _readable_days(_calendar(policy, name))}
    first, last = today - DAYS_OFF_BEFORE, today + DAYS_OFF_AFTER
    return CalendarTerms(
        freezes=_freezes_near({each.name: each for each in frozen}, names.waits_for, today),
        days_off=frozenset(day for day in days_off if first <= day <= last),
        business_days=_business_days(business, names.count, today) if business else None,
        waits_because=" and ".join(unreadable) or None,
    )


def _freezes_near(calendars: Mapping[str, Calendar], waits_for: timedelta, today: date) -> tuple[Freeze, ...]:
    midnight = datetime.combine(today, time(), UTC)
    since, until = midnight - PAST - waits_for, midnight + MAX_AHEAD
    named = [(name, stretch) for name, calendar in calendars.items() for stretch in calendar.stretches]
    known = merged(Freeze(calendar=name, start=start, end=end) for name, (start, end) in named if since < end and start < until)
    last = add_length(midnight, 2 * waits_for + COMING, known)
    return tuple(freeze for freeze in known if freeze.start < last)


def _business_days(calendar: Calendar, count: int, today: date) -> BusinessDays:
    """Of a calendar that can't be read, the weekend alone: a date by it is the earliest, and nothing is done by it."""
    near = (day for day in _readable_days(calendar) if today - 2 * PAST <= day <= today + MAX_AHEAD)
    return BusinessDays(count=count, calendar=calendar.name, tz=calendar.tz, weekend=calendar.weekend, days_off=frozenset(near))


def _readable_days(calendar: Calendar) -> frozenset[date]:
    """Its days off; none if it can't be read, so that each day is a working day."""
    return frozenset() if calendar.unreadable_because else calendar.days


def _calendar(policy: Policy, name: str) -> Calendar:
    """The calendar as this run has read it. One that it hasn't read is unreadable."""
    spec = policy.calendars.get(name)
    tz = (spec.tz if spec else None) or policy.owners.tz
    return policy.resolved.get(name) or Calendar(name=name, tz=tz, unreadable_because="this run hasn't read it")


def _unreadable_text(what: str, calendar: Calendar) -> str:
    return f"the {what} calendar {calendar.name!r} can't be read: {calendar.unreadable_because}"
