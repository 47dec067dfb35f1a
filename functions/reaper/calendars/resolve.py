"""Reads a policy's calendars. One that can't be read hides no other: it says why, and what uses it takes the safe side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

from reaper.calendars import ics
from reaper.calendars.calendar import Calendar, CalendarSpec
from reaper.calendars.freezes import DAY, Stretch, joined
from reaper.calendars.holidays import holidays_near
from reaper.case import Coverage
from reaper.coverage import own_row
from reaper.errors import ODD_REPLY_ERRORS, CloudError, ReaperError, named_permission
from reaper.extras import install_command
from reaper.policy.file import folder_of, read_location
from reaper.policy.schema import Policy
from reaper.text import clean_line, first_few

FREEZE, USES = ("freeze",), ("freeze", "except", "business_days")
"""The keys of rules, defaults and hours that name a calendar."""
MAX_BECAUSE = 400
FRESH_FOR = timedelta(seconds=60)
"""How long freezes that were read right before an action are relied on by the next one."""
MAX_STRETCHES = 5_000


def resolve_calendars(
    policy: Policy, where: str | None, now: datetime, only: Collection[str] | None = None
) -> dict[str, Calendar]:
    """The policy's calendars, or those named in `only`, by name. `where`: the policy's own address. Never raises ReaperError."""
    return {
        name: _read_calendar(
            Calendar(name=name, tz=spec.tz or policy.owners.tz, weekend=spec.weekend), spec, folder_of(where), now
        )
        for name, spec in policy.calendars.items()
        if only is None or name in only
    }


def with_calendars(policy: Policy, where: str | None, now: datetime) -> Policy:
    """The policy with its calendars as they are now. A policy without any costs nothing."""
    return policy.with_calendars(resolve_calendars(policy, where, now)) if policy.calendars else policy


def with_fresh_freezes(policy: Policy, where: str | None, now: datetime) -> Policy:
    """The policy with its freezes read once more, right before an action: frozen is what either reading says is frozen."""
    fresh = resolve_calendars(policy, where, now, names_used(policy, FREEZE)) if policy.calendars else {}
    return policy.with_calendars({**policy.resolved, **{name: _either(policy.calendar(name), fresh[name]) for name in fresh}})


@dataclass(slots=True, kw_only=True)
class FreshFreezes:
    """A policy whose freezes are read again before an action, unless that was done within the last minute. `where`: the policy's address."""

    policy: Policy
    where: str | None
    current: Policy | None = None
    read_at: datetime | None = None

    def policy_at(self, now: datetime, *, after_wait: bool = False) -> Policy:
        """The policy with its freezes as they are now, read in any case `after_wait`. Never raises ReaperError."""
        is_fresh = self.read_at is not None and self.read_at <= now <= self.read_at + FRESH_FOR
        if self.current is None or after_wait or not is_fresh:
            self.current, self.read_at = with_fresh_freezes(self.policy, self.where, now), now
        return self.current


def _either(stored: Calendar, fresh: Calendar) -> Calendar:
    return replace(
        fresh,
        days=stored.days | fresh.days,
        stretches=tuple(joined([*stored.stretches, *fresh.stretches])),
        unreadable_because=fresh.unreadable_because or stored.unreadable_because,
    )


def names_used(policy: Policy, keys: Sequence[str] = USES) -> set[str]:
    """The calendars that the defaults, the rules and their hours name under these keys."""
    data = policy.model_dump(by_alias=True, include={"defaults", "rules"})
    sections = [data["defaults"], *data["rules"]]
    sections += [section["hours"] for section in sections if section.get("hours")]
    named = [section[key] for section in sections for key in keys if section.get(key)]
    return {name for names in named for name in ([names] if isinstance(names, str) else names)}


def unreadable_texts(policy: Policy) -> dict[str, str]:
    """A sentence for each calendar of the policy that can't be relied on, by name."""
    problems = {name: policy.calendar(name).unreadable_because for name in policy.calendars}
    return {name: f"calendar {name!r} can't be relied on: {because}" for name, because in problems.items() if because}


def calendar_rows(policy: Policy) -> Iterator[Coverage]:
    """A row for each calendar that can't be relied on: the run isn't complete."""
    for because in unreadable_texts(policy).values():
        yield own_row("calendars", because, named_permission(because))


def _read_calendar(calendar: Calendar, spec: CalendarSpec, folder: Path, now: datetime) -> Calendar:
    try:
        stretches = _read_stretches(calendar, spec, folder, now)
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        is_ours = isinstance(error, ReaperError) or type(error) is ValueError
        because = str(error) if is_ours else f"it can't be understood ({type(error).__name__})"  # never its content
    except ImportError as error:
        because = f"it needs an extra: {install_command('aws' if spec.change_calendar else 'calendars')} ({error})"
    else:
        return replace(calendar, stretches=tuple(stretches), days=whole_days(stretches, calendar.tz))
    return replace(calendar, unreadable_because=clean_line(because, MAX_BECAUSE))


def _read_stretches(calendar: Calendar, spec: CalendarSpec, folder: Path, now: datetime) -> list[Stretch]:
    if spec.change_calendar is not None:
        return _read_change_calendar(calendar, spec.change_calendar, now)
    if spec.ics is not None:
        name, content = read_location(spec.ics, ics.MAX_BYTES + 1, "iCalendar file", folder)
        try:
            return entries_near(ics.read_stretches(ics.parse_ics(content)[0], spec.match, calendar.tz, now), now)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    days = spec.dates if spec.dates is not None else holidays_near(spec.country or "", spec.subdiv, now)
    zone = ZoneInfo(calendar.tz)
    return entries_near([(ics.instant(first, zone), ics.instant(last + DAY, zone)) for first, last in days], now)


def _read_change_calendar(calendar: Calendar, name: str, now: datetime) -> list[Stretch]:
    """When a Change Calendar is closed. Raises ImportError without its SDK, and ValueError if its events say something else of now than AWS does."""
    reader = import_module("reaper.aws.stores.texts")
    try:
        content, is_closed = reader.read_change_calendar(name)
    except CloudError as error:
        fix = f"; grant {error.missing} on it" if error.missing else "; check its name, account and region"
        raise ValueError(f"{error}{fix}") from error
    text, kind = ics.parse_ics(content)
    if kind not in ("DEFAULT_OPEN", "DEFAULT_CLOSED"):
        raise ValueError(f"{name} isn't a Change Calendar: it has no X-CALENDAR-TYPE of DEFAULT_OPEN or DEFAULT_CLOSED")
    events = entries_near(ics.read_stretches(text, None, calendar.tz, now), now)
    closed = events if kind == "DEFAULT_OPEN" else outside(events, now)
    if any(start <= now < end for start, end in closed) is not is_closed:
        said = ("closed", "open") if is_closed else ("open", "closed")
        raise ValueError(f"AWS says that {name} is {said[0]} now, and its events say {said[1]}; compare them in Systems Manager")
    return closed


def entries_near(stretches: Iterable[Stretch], now: datetime) -> list[Stretch]:
    """Those near now, joined. Raises ValueError if there are none or too many, or if the last one is over."""
    near = joined((start, end) for start, end in stretches if end > now - ics.LOOK_BACK and start < now + ics.LOOK_AHEAD)
    if not near:
        raise ValueError("it has no entry from 400 days ago to two years ahead; add some")
    if len(near) > MAX_STRETCHES:
        raise ValueError(f"it has more than {MAX_STRETCHES:,} entries near now; export fewer")
    if near[-1][1] <= now:
        raise ValueError(f"its last entry ended on {near[-1][1] - DAY / 86_400:%Y-%m-%d}; add the coming ones")
    return near


def outside(stretches: Sequence[Stretch], now: datetime) -> list[Stretch]:
    """All time near now that isn't in the stretches."""
    ends = [now - ics.LOOK_BACK, *(end for _, end in stretches)]
    starts = [*(start for start, _ in stretches), now + ics.LOOK_AHEAD]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]


def whole_days(stretches: Iterable[Stretch], tz: str) -> frozenset[date]:
    """The local dates that the stretches cover from midnight to midnight."""
    zone, days = ZoneInfo(tz), set()
    for start, end in stretches:
        day = start.astimezone(zone).date()
        day += DAY * (ics.instant(day, zone) < start)
        while ics.instant(day + DAY, zone) <= end:
            days.add(day)
            day += DAY
    return frozenset(days)


def next_entries(calendar: Calendar, now: datetime) -> str:
    """`2026-12-24/2027-01-03, 2027-04-02 and 7 more (Europe/Berlin)`: those that aren't over, as a policy spells days."""
    zone = ZoneInfo(calendar.tz)
    coming = [_text(start.astimezone(zone), end.astimezone(zone)) for start, end in calendar.stretches if end > now]
    return f"{first_few(coming)} ({calendar.tz})"


def _text(start: datetime, end: datetime) -> str:
    if (start.hour, start.minute, end.hour, end.minute) != (0, 0, 0, 0):
        return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    last = end.date() - DAY
    return f"{start:%Y-%m-%d}" if last == start.date() else f"{start:%Y-%m-%d}/{last}"
