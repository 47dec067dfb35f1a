"""iCalendar files (RFC 5545) as the stretches of time that their events name: whole days in the calendar's zone, or from an instant to another.

The structure is checked before the library reads the values, since it takes a page of HTML, half a file or nested events for fewer events, or none. Zones that
the file defines itself are dropped: only names that are known everywhere count. What is transparent or free counts, too: holidays usually are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo

from reaper.calendars.calendar import Stretch
from reaper.calendars.recurrence import Steps, parse_recurrence, recurring_days
from reaper.text import short_repr

MAX_BYTES = 2**20
MAX_EVENTS, MAX_DEPTH = 2_000, 4
LOOK_BACK, LOOK_AHEAD = timedelta(days=400), timedelta(days=731)
"""The time around now in which events are read."""
DAY, LONGEST = timedelta(days=1), timedelta(days=731)
EVENT = ["VCALENDAR", "VEVENT"]
READ = re.compile(
    r"(BEGIN|END|UID|DTSTART|DTEND|DURATION|RRULE|RDATE|EXDATE|EXRULE|RECURRENCE-ID|SUMMARY|STATUS)\b(?!-)", re.IGNORECASE
)
"""The lines of an event that are read."""
When = date | datetime
"""A whole day, or an instant in its own zone."""


def parse_ics(content: bytes) -> tuple[str, str]:
    """The file with nothing but its events, and its X-CALENDAR-TYPE, which Change Calendars have.

    Raises ValueError if it isn't a whole iCalendar file, or is too large.
    """
    if len(content) > MAX_BYTES:
        raise ValueError("it is larger than 1 MiB; export fewer events")
    lines = [line for line in re.sub(r"\r?\n[ \t]", "", content.decode("utf-8-sig")).splitlines() if line.strip()]
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        # Not what it begins with: a policy's author may not read every file that the reaper may.
        looks = (
            "it is empty" if not lines else "it is a web page" if lines[0].lstrip().startswith("<") else "it doesn't begin as one"
        )
        raise ValueError(f"it isn't an iCalendar file: {looks}")
    kept, kind, events, inside = list[str](), "", 0, list[str]()
    for line in lines:
        name, _, value = (part.strip().upper() for part in line.partition(":"))
        if name == "BEGIN":
            inside.append(value)
            events += value == "VEVENT"
        if len(inside) > MAX_DEPTH or events > MAX_EVENTS:
            raise ValueError(f"it has more than {MAX_EVENTS:,} events, or events in events; export fewer")
        if inside == EVENT and READ.match(line):
            kept.append(line)
        if name == "X-CALENDAR-TYPE" and len(inside) == 1:
            kind = value
        if name == "END" and (not inside or inside.pop() != value):
            raise ValueError(f"it is damaged: END:{value[:40]} ends nothing")
    if inside:
        raise ValueError(f"it is cut off: END:{inside[-1][:40]} is missing")
    return "\r\n".join(["BEGIN:VCALENDAR", *kept, "END:VCALENDAR", ""]), kind


def read_stretches(text: str, titles: Iterable[str] | None, tz: str, now: datetime) -> list[Stretch]:
    """When the events are, from LOOK_BACK before now to LOOK_AHEAD after it. `titles`: globs on the titles of those that count.

    `tz`: the zone of whole days, and of times that name no zone. Raises ValueError for an event that can't be read as what it says, and
    ImportError without the library.
    """
    from icalendar import Calendar as Parsed

    zone, steps, stretches = ZoneInfo(tz), Steps(), list[Stretch]()
    events = Parsed.from_ical(text).walk("VEVENT")
    for event in events:
        _require_readable(event)
    replaced = {(str(e.get("UID")), _key(_when(e["RECURRENCE-ID"], zone))) for e in events if "RECURRENCE-ID" in e}
    for event in events:
        title, uid, start = str(event.get("SUMMARY", "")), str(event.get("UID")), _when(event["DTSTART"], zone)
        length = _length(event, start, zone)
        if not timedelta(0) <= length <= LONGEST:
            raise ValueError(f"event {short_repr(title)} ends before it begins, or lasts longer than two years")
        fits = titles is None or any(fnmatchcase(title.casefold(), glob.casefold()) for glob in titles)
        if not fits or str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        excluded = {_key(_when(each, zone)) for each in _dates(event, "EXDATE")}
        for when in _occurrences(event, (start, length), zone, now, steps):
            is_replaced = "RECURRENCE-ID" not in event and (uid, _key(when)) in replaced
            begins, ends = instant(when, zone), instant(when + length, zone)
            if "DURATION" in event and isinstance(when, datetime):
                ends = max(ends, begins + length)  # no clock change shortens it
            if not is_replaced and excluded.isdisjoint((_key(when), begins.astimezone(zone).date())) and begins < ends:
                stretches.append((begins, ends))
    return stretches


def _require_readable(event: Any) -> None:
    """Raises ValueError. The library keeps what it can't read as broken, and reads on."""
    title = short_repr(str(event.get("SUMMARY", "")))
    if event.errors:
        raise ValueError(f"event {title} can't be read ({event.errors[0][0]}: {event.errors[0][1]})")
    if "DTSTART" not in event or "EXRULE" in event or isinstance(event.get("RRULE"), list):
        raise ValueError(f"event {title} needs a DTSTART and at most one RRULE, and EXRULE isn't read")
    if "RANGE" in getattr(event.get("RECURRENCE-ID"), "params", ()):
        raise ValueError(f"event {title} changes all later occurrences (RANGE), which isn't read; export it as events of its own")


def _length(event: Any, start: When, zone: ZoneInfo) -> timedelta:
    """How long the event is by the clock on the wall. Its end doesn't count. If it has no end, a day lasts a day, and a time no time."""
    end = _when(event["DTEND"], zone) if "DTEND" in event else start
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise ValueError("an event begins with a day and ends with a time, or the other way round")
    if "DURATION" in event:
        length = timedelta(seconds=event["DURATION"].dt.total_seconds())
    elif isinstance(start, datetime) and isinstance(end, datetime):
        return end.astimezone(start.tzinfo) - start
    else:
        length = end - start
    return length if isinstance(start, datetime) or length < timedelta(0) else max(length, DAY)


def _occurrences(event: Any, first: tuple[When, timedelta], zone: ZoneInfo, now: datetime, steps: Steps) -> Iterator[When]:
    """The event's start, or the starts by its rule near now, and those that were added (RDATE)."""
    start, length = first
    for added in _dates(event, "RDATE"):
        steps.take()
        yield _when(added, zone)
    if "RRULE" not in event:
        yield start
        return
    begin, until = start.date() if isinstance(start, datetime) else start, event["RRULE"].get("UNTIL", [None])[0]
    rule, near = parse_recurrence(event["RRULE"], begin), (now - LOOK_BACK - length, now + LOOK_AHEAD)
    for day in recurring_days(rule, near[0].date() - DAY, near[1].date() + DAY, steps):
        when = datetime.combine(day, start.timetz()) if isinstance(start, datetime) else day
        if until is not None and _is_after(when, until, zone):
            return
        yield when


def _is_after(start: When, until: When, zone: ZoneInfo) -> bool:
    """Whether an occurrence comes after UNTIL, which counts itself. A day and a time are compared by their days."""
    if isinstance(start, datetime) and isinstance(until, datetime):
        return start > _aware(until, zone)
    if isinstance(until, datetime):
        until = max(until.date(), _aware(until, zone).astimezone(zone).date())  # programs disagree which day a time in UTC means
    return (start.date() if isinstance(start, datetime) else start) > until


def _dates(event: Any, name: str) -> Iterator[Any]:
    lists = event.get(name, [])
    for dates in lists if isinstance(lists, list) else [lists]:
        yield from dates.dts


def _when(value: Any, zone: ZoneInfo) -> When:
    """Raises ValueError for an unknown zone: the library takes such a time for one without any."""
    when = value.dt
    if not isinstance(when, date):
        raise ValueError("an event has a time without a day, or a period among its dates, which isn't read")
    if isinstance(when, datetime) and when.tzinfo is None and (name := value.params.get("TZID")):
        raise ValueError(f"unknown time zone {short_repr(str(name))}; export it with IANA time zones such as Europe/Berlin")
    return _aware(when, zone) if isinstance(when, datetime) else when


def _aware(when: datetime, zone: ZoneInfo) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=zone)


def _key(when: When) -> When:
    return when.astimezone(UTC) if isinstance(when, datetime) else when


def instant(when: When, zone: ZoneInfo) -> datetime:
    """In UTC; a day begins at midnight, or at the first instant after a gap in the clocks."""
    local = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day, tzinfo=zone)
    return local.astimezone(UTC)
