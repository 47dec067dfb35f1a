"""iCalendar files (RFC 5545) as the stretches of time that their events name: whole days in the calendar's zone, or from an instant to another.

The structure is checked before the library reads the values, since it takes a page of HTML, half a file or nested events for fewer events, or none. Zones that
the file defines itself are dropped: only names that are known everywhere count. What is transparent or free counts, too: holidays usually are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo

from reaper.calendars.calendar import Stretch
from reaper.calendars.recurrence import Steps, parse_recurrence, recurring_days
from reaper.extras import install_command
from reaper.text import count_noun, short_repr

MAX_BYTES = 2**20
MAX_EVENTS = 2_000
MAX_DEPTH = 4
LOOK_BACK, LOOK_AHEAD = timedelta(days=400), timedelta(days=731)
"""How far around now events are read."""
LONGEST = timedelta(days=731)
KEPT = frozenset(
    ["UID", "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID", "SUMMARY", "STATUS"]
)
NAME = re.compile(r"[A-Za-z0-9-]*")
When = date | datetime
"""A whole day, or an instant in its own zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcsFile:
    """`text`: its events only, with the properties that are read. `kind`: X-CALENDAR-TYPE, which Change Calendars have."""

    text: str
    events: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """`rule`: RRULE. `added`: RDATE, with the length of each. `excluded`: EXDATE. `instead_of`: RECURRENCE-ID, the occurrence that it replaces."""

    uid: str
    start: When
    length: timedelta
    rule: Any
    added: tuple[tuple[When, timedelta], ...]
    excluded: frozenset[When]
    instead_of: When | None
    counts: bool


def parse_ics(content: bytes) -> IcsFile:
    """The events of a file, unread. Raises ValueError if it isn't a whole iCalendar file, or is too large."""
    if len(content) > MAX_BYTES:
        raise ValueError("it is larger than 1 MiB; export fewer events")
    text = re.sub(r"\r?\n[ \t]", "", content.decode("utf-8-sig"))
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        begins = f"begins with {short_repr(lines[0].strip())}" if lines else "is empty"
        raise ValueError(f"it isn't an iCalendar file: it {begins}")
    open_parts: list[str] = []
    kept, kind, events = [], "", 0
    for line in lines:
        name, value = (NAME.match(line) or [""])[0].upper(), line.partition(":")[2].strip().upper()
        if name == "BEGIN":
            open_parts.append(value)
            events += value == "VEVENT"
            if len(open_parts) > MAX_DEPTH or events > MAX_EVENTS:
                raise ValueError(f"it has more than {MAX_EVENTS} events, or parts in parts; export fewer events")
        elif name == "END" and (not open_parts or open_parts[-1] != value):
            raise ValueError(f"it is damaged: END:{value[:40]} ends nothing")
        is_event = open_parts[:2] == ["VCALENDAR", "VEVENT"] and len(open_parts) == 2
        if is_event and (name in KEPT or name in ("BEGIN", "END")):
            kept.append(line)
        if name == "X-CALENDAR-TYPE" and len(open_parts) == 1:
            kind = value
        if name == "END":
            open_parts.pop()
    if open_parts:
        raise ValueError(f"it is cut off: END:{open_parts[-1][:40]} is missing")
    return IcsFile(text="\r\n".join(["BEGIN:VCALENDAR", *kept, "END:VCALENDAR", ""]), events=events, kind=kind)


def read_stretches(file: IcsFile, titles: Iterable[str] | None, tz: str, now: datetime) -> list[Stretch]:
    """When its events are, from LOOK_BACK before now to LOOK_AHEAD after it. `titles`: globs on the titles of those that count.

    `tz`: the zone of whole days and of times without one. Raises ValueError for an event that can't be read as what it says.
    """
    try:
        from icalendar import Calendar as Parsed
    except ImportError as error:
        raise ValueError(
            f"iCalendar files need the library icalendar, which isn't installed: {install_command('calendars')}"
        ) from error
    zone, steps = ZoneInfo(tz), Steps()
    events = [_parse_event(event, titles, zone) for event in Parsed.from_ical(file.text).walk("VEVENT")]
    if len(events) != file.events:
        raise ValueError(f"only {len(events)} of {count_noun(file.events, 'event')} can be understood")
    replaced: dict[str, set[When]] = {}
    for event in events:
        if event.instead_of is not None:
            replaced.setdefault(event.uid, set()).add(event.instead_of)
    stretches = []
    for event in (event for event in events if event.counts):
        gone = event.excluded if event.instead_of is not None else event.excluded | replaced.get(event.uid, set())
        for start, length in _occurrences(event, zone, now, steps):
            if _key(start) in gone or (isinstance(start, datetime) and start.astimezone(zone).date() in gone):
                continue
            stretch = _instant(start, zone), _instant(start + length, zone)
            if stretch[0] < stretch[1] and stretch[0] < now + LOOK_AHEAD and stretch[1] > now - LOOK_BACK:
                stretches.append(stretch)
    return stretches


def _parse_event(event: Any, titles: Iterable[str] | None, zone: ZoneInfo) -> _Event:
    title = str(event.get("SUMMARY", ""))
    if problem := next((f"{name}: {because}" for name, because in event.errors), None):
        raise ValueError(f"event {short_repr(title)} can't be read ({problem})")
    if "DTSTART" not in event or "EXRULE" in event or isinstance(event.get("RRULE"), list):
        raise ValueError(f"event {short_repr(title)} needs a DTSTART and at most one RRULE, and EXRULE isn't read")
    start, replaces = _when(event["DTSTART"], zone), event.get("RECURRENCE-ID")
    if replaces is not None and "RANGE" in replaces.params:
        raise ValueError(f"event {short_repr(title)} changes all later occurrences (RANGE), which isn't read; export it anew")
    length = _length(event, start, zone)
    if not timedelta(0) <= length <= LONGEST:
        raise ValueError(f"event {short_repr(title)} ends before it begins, or lasts longer than two years")
    fits = titles is None or any(fnmatchcase(title.casefold(), glob.casefold()) for glob in titles)
    added = [_period(each, length, zone) for each in _dates_of(event, "RDATE")]
    return _Event(
        uid=str(event.get("UID", "")),
        start=start,
        length=length,
        rule=event.get("RRULE"),
        added=tuple(added),
        excluded=frozenset(_key(_when(each, zone)) for each in _dates_of(event, "EXDATE")),
        instead_of=None if replaces is None else _key(_when(replaces, zone)),
        counts=fits and str(event.get("STATUS", "")).upper() != "CANCELLED",
    )


def _length(event: Any, start: When, zone: ZoneInfo) -> timedelta:
    """How long the event is by the clock on the wall. Its end doesn't count; without one a day lasts a day, and a time no time."""
    end = _when(event["DTEND"], zone) if "DTEND" in event else start
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise ValueError("an event begins with a day and ends with a time, or the other way round")
    if "DURATION" in event:
        length = timedelta(seconds=event["DURATION"].dt.total_seconds())
    elif isinstance(start, datetime) and isinstance(end, datetime):
        return end.astimezone(start.tzinfo) - start
    else:
        length = end - start
    return max(length, timedelta(days=1)) if length >= timedelta(0) and not isinstance(start, datetime) else length


def _dates_of(event: Any, name: str) -> Iterator[Any]:
    for dates in event.get(name, []) if isinstance(event.get(name, []), list) else [event[name]]:
        yield from dates.dts


def _period(added: Any, length: timedelta, zone: ZoneInfo) -> tuple[When, timedelta]:
    """An RDATE, which may be a period with a length of its own."""
    if not isinstance(added.dt, tuple):
        return _when(added, zone), length
    start, end = added.dt
    return _aware(start, zone), end if isinstance(end, timedelta) else _aware(end, zone) - _aware(start, zone)


def _when(value: Any, zone: ZoneInfo) -> When:
    """Raises ValueError for an unknown zone: the library takes such a time for one without any."""
    when = value.dt
    if not isinstance(when, datetime):
        if not isinstance(when, date):
            raise ValueError("an event has a time without a day")
        return when
    if when.tzinfo is None and (name := value.params.get("TZID")):
        raise ValueError(f"unknown time zone {short_repr(str(name))}; export it with IANA time zones such as Europe/Berlin")
    return _aware(when, zone)


def _aware(when: datetime, zone: ZoneInfo) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=zone)


def _occurrences(event: _Event, zone: ZoneInfo, now: datetime, steps: Steps) -> Iterator[tuple[When, timedelta]]:
    """The event's start, or the days of its rule near now; and what was added."""
    for added in event.added:
        steps.take()
        yield added
    if event.rule is None:
        yield event.start, event.length
        return
    first_day = event.start.date() if isinstance(event.start, datetime) else event.start
    window = (now - LOOK_BACK - event.length).date() - timedelta(days=1), (now + LOOK_AHEAD).date() + timedelta(days=1)
    until = event.rule.get("UNTIL", [None])[0]
    for day in recurring_days(parse_recurrence(event.rule, first_day), first_day, window, steps):
        start = datetime.combine(day, event.start.timetz()) if isinstance(event.start, datetime) else day
        if until is not None and _is_after(start, until, zone):
            return
        yield start, event.length


def _is_after(start: When, until: When, zone: ZoneInfo) -> bool:
    """Whether an occurrence comes after UNTIL, which counts itself. A day and a time are compared by their days."""
    if isinstance(start, datetime) and isinstance(until, datetime):
        return start > _aware(until, zone)
    if isinstance(until, datetime):
        until = max(until.date(), _aware(until, zone).astimezone(zone).date())  # programs disagree which day a time in UTC means
    return (start.date() if isinstance(start, datetime) else start) > until


def _key(when: When) -> When:
    return when.astimezone(UTC) if isinstance(when, datetime) else when


def _instant(when: When, zone: ZoneInfo) -> datetime:
    """In UTC; a day begins at midnight, or at the first instant after a gap in the clocks."""
    local = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day, tzinfo=zone)
    return local.astimezone(UTC)
