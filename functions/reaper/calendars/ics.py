"""iCalendar files (RFC 5545) as the stretches of time that their events name: whole days in the calendar's zone, or from an instant to another.

The structure is checked before the library reads the values, since it takes a page of HTML, half a file or nested events for fewer events, or none. Zones that
the file defines itself are dropped: only names that are known everywhere count. What is transparent or free counts, too: holidays usually are.

Recurrences are expanded month by month by dateutil's `rrule`. One that never matches, such as one for 30 February, would run for many seconds, whatever its
UNTIL. So it is refused before it runs, and each step of the others is counted. Rules within a day, parts of rules that days don't need, and what counts days
of a week or year but not of a month, are refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

from reaper.calendars.freezes import DAY, LONGEST, Stretch
from reaper.errors import ODD_REPLY_ERRORS
from reaper.text import short_repr

MAX_BYTES = 2**20
MAX_EVENTS, MAX_DEPTH = 2_000, 4
LOOK_BACK, LOOK_AHEAD = timedelta(days=400), timedelta(days=731)
"""The time around now in which events are read."""
EVENT = ["VCALENDAR", "VEVENT"]
READ = re.compile(
    r"(BEGIN|END|UID|DTSTART|DTEND|DURATION|RRULE|RDATE|EXDATE|EXRULE|RECURRENCE-ID|SUMMARY|STATUS)\b(?!-)", re.IGNORECASE
)
"""The lines of an event that are read."""
DATES = re.compile(r"(DTSTART|DTEND|RDATE|EXDATE|RECURRENCE-ID)\b(?!-)(.*):([^:]*)", re.IGNORECASE)
ZONE = re.compile(r';TZID=(?:"([^"]*)"|([^;]*))', re.IGNORECASE)
ZONELESS = re.compile(r"\d{8}|.*Z", re.IGNORECASE | re.ASCII)
"""A day, or a time in UTC: neither is in a zone, whatever its TZID says."""
When = date | datetime
"""A whole day, or an instant in its own zone."""


def parse_ics(content: bytes) -> tuple[str, str]:
    """The file with nothing but its events, and its X-CALENDAR-TYPE, which Change Calendars have.

    Raises ValueError if it isn't a whole iCalendar file, or is too large.
    """
    if len(content) > MAX_BYTES:
        raise ValueError("it is larger than 1 MiB; export fewer events")
    try:
        text = re.sub(rb"\r?\n[ \t]", b"", content).decode("utf-8-sig")  # a fold may be inside a letter
    except UnicodeDecodeError as error:
        raise ValueError(f"it isn't UTF-8 text (byte 0x{error.object[error.start]:02X}); export it as UTF-8") from error
    lines = [line.rstrip() for line in re.split(r"\r?\n", text) if line.strip()]
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
        if (inside == EVENT and READ.match(line)) or (len(inside) == 1 and name.startswith("X-WR-TIMEZONE")):
            kept += _date_lines(line)
        if name == "X-CALENDAR-TYPE" and len(inside) == 1:
            kind = value
        if name == "END" and (not inside or inside.pop() != value):
            raise ValueError(f"it is damaged: END:{value[:40]} ends nothing")
    if inside:
        raise ValueError(f"it is cut off: END:{inside[-1][:40]} is missing")
    return "\r\n".join(["BEGIN:VCALENDAR", *kept, "END:VCALENDAR", ""]), kind


def _date_lines(line: str) -> list[str]:
    """A line of dates or times as one for what has no zone, and one for what is in its zone. Any other line as it is."""
    match = DATES.fullmatch(line)
    if match is None:
        return [line]
    values = [value.strip() for value in match[3].split(",") if value.strip()] or [""]
    zoneless, zoned = ([each for each in values if bool(ZONELESS.fullmatch(each)) is wanted] for wanted in (True, False))
    heads = ((ZONE.sub("", match[2]), zoneless), (ZONE.sub(r';TZID="\1\2"', match[2]), zoned))
    return [f"{match[1]}{parameters}:{','.join(some)}" for parameters, some in heads if some]


def read_stretches(text: str, titles: Iterable[str] | None, tz: str, now: datetime) -> list[Stretch]:
    """When the events are, from LOOK_BACK before now to LOOK_AHEAD after it. `titles`: globs on the titles of those that count.

    `tz`: the zone of whole days, and of times that name no zone. Raises ValueError for an event that counts and can't be read as what it says,
    and ImportError without the library. Single events far from now don't count.
    """
    from icalendar import Calendar as Parsed
    from icalendar.timezone import tzp

    zone, steps, stretches = ZoneInfo(tz), Steps(), list[Stretch]()
    try:
        parsed = Parsed.from_ical(text)
        utc = tzp.timezone(str(parsed.get("X-WR-TIMEZONE"))) or zone
    except OSError as error:  # a folder of zones, such as Europe, or a name that is too long for a file
        raise _unknown_zone(PurePath(str(error.filename)).name) from error
    events, moved = parsed.walk("VEVENT"), defaultdict[str, list[Any]](list)
    for event in events:
        if "RECURRENCE-ID" in event and "UID" in event:
            moved[str(event["UID"])].append(event)
    for event in events:
        title, start = str(event.get("SUMMARY", "")), _readable(event, "DTSTART")
        fits = titles is None or any(fnmatchcase(title.casefold(), glob.casefold()) for glob in titles)
        if not fits or str(event.get("STATUS", "")).upper() == "CANCELLED" or _is_far(event, start, now):
            continue
        try:
            replaced = () if "RECURRENCE-ID" in event else moved[str(event.get("UID"))]
            stretches += _stretches_of(event, replaced, (zone, utc), now, steps)
        except ODD_REPLY_ERRORS as error:
            because = error if isinstance(error, ValueError) else f"it can't be understood ({type(error).__name__})"
            day = f" on {start:%Y-%m-%d}" if isinstance(start, date) else ""
            raise ValueError(f"event {short_repr(title)}{day}: {because}") from error
    return stretches


def _readable(event: Any, name: str) -> Any:
    """The one value of that name; None if there is none, or none that can be read."""
    try:
        return event[name].dt
    except ODD_REPLY_ERRORS:
        return None


def _is_far(event: Any, start: Any, now: datetime) -> bool:
    """Whether it is a single event that is over, or far ahead, for so long that it needn't be readable. Zones may move it by a day."""
    if not isinstance(start, date) or "RRULE" in event or "RDATE" in event:
        return False
    first, end, lasts = _day(start), _readable(event, "DTEND"), _readable(event, "DURATION")
    if isinstance(end, date):
        lasts = _day(end) - first
    elif not isinstance(lasts, timedelta):
        lasts = LONGEST if "DTEND" in event or "DURATION" in event else timedelta(0)
    return first > (now + LOOK_AHEAD).date() + DAY or lasts < (now - LOOK_BACK).date() - DAY - first


def _stretches_of(
    event: Any, moved: Iterable[Any], zones: tuple[tzinfo, tzinfo], now: datetime, steps: Steps
) -> Iterator[Stretch]:
    """When one event is, without its exceptions and the occurrences that `moved` replaces. `zones`: that of days and of times that name none,
    and the one in which a time in UTC names a day.
    """
    zone, utc = zones
    start = _start(event, zone)
    length = _length(event, start)
    if not timedelta(0) <= length <= LONGEST:
        raise ValueError("it ends before it begins, or lasts longer than two years")
    written = [*_written(event, "EXDATE"), *(each for one in moved for each in _written(one, "RECURRENCE-ID"))]
    gone = {_key(_beside(start, each, utc)) for each in written}
    for when in _occurrences(event, (start, length), utc, now, steps):
        begins, ends = instant(when, zone), instant(when + length, zone)
        if "DURATION" in event and isinstance(when, datetime):
            ends = max(ends, begins + length)  # no clock change shortens it
        local = when.astimezone(start.tzinfo) if isinstance(when, datetime) and isinstance(start, datetime) else when
        if gone.isdisjoint((_key(when), _day(local))) and begins < ends:
            yield begins, ends


def _start(event: Any, zone: tzinfo) -> When:
    """When it begins. Raises ValueError for an event that isn't read: the library keeps what it can't read as broken, and reads on."""
    if event.errors:
        raise ValueError(f"it can't be read ({event.errors[0][0]}: {event.errors[0][1]})")
    starts, _ = list(_written(event, "DTSTART")), list(_written(event, "RECURRENCE-ID"))
    if isinstance(event.get("RRULE"), list) or "EXRULE" in event or len(starts) != 1:
        raise ValueError("it needs a DTSTART and at most one RRULE, and EXRULE isn't read")
    start = starts[0][0]
    return start.replace(tzinfo=zone) if isinstance(start, datetime) and start.tzinfo is None else start


def _length(event: Any, start: When) -> timedelta:
    """How long the event is by the clock on the wall. Its end doesn't count. If it has no end, a day lasts a day, and a time no time. A part of a day counts as a day."""
    end = next(_written(event, "DTEND"), (start, ""))[0]
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise ValueError("it begins with a day and ends with a time, or the other way round")
    if "DURATION" in event:
        length = timedelta(seconds=event["DURATION"].dt.total_seconds())
    elif isinstance(start, datetime) and isinstance(end, datetime):
        return (end.astimezone(start.tzinfo) if end.tzinfo else end.replace(tzinfo=start.tzinfo)) - start
    else:
        length = end - start
    return length if isinstance(start, datetime) or length < timedelta(0) else max(-(-length // DAY) * DAY, DAY)


def _occurrences(event: Any, first: tuple[When, timedelta], utc: tzinfo, now: datetime, steps: Steps) -> Iterator[When]:
    """The event's start, those that were added (RDATE), and those by its rule; as far as they are near now."""
    start, length = first
    for written in _written(event, "RDATE"):
        steps.take()
        yield _like(start, _beside(start, written, utc))
    begin, near = _day(start), ((now - LOOK_BACK - length).date() - DAY, (now + LOOK_AHEAD).date() + DAY)
    if near[0] <= begin <= near[1]:
        yield start
    if "RRULE" not in event:
        return
    until = event["RRULE"].get("UNTIL", [None])[0]
    last = None if until is None else _beside(start, (until, ""), utc)
    for day in recurring_days(event["RRULE"], begin, near, steps):
        when = _like(start, day)
        if last is not None and (when if isinstance(last, datetime) else day) > last:
            return
        if day != begin:
            yield when


def _written(event: Any, name: str) -> Iterator[tuple[When, str]]:
    """Each date or time of that name as it is written, and its TZID. Raises ValueError for what isn't read, and for an unknown zone."""
    values = event.get(name, [])
    for value in values if isinstance(values, list) else [values]:
        zone = str(value.params.get("TZID", ""))
        if "RANGE" in value.params:
            raise ValueError("it changes all later occurrences (RANGE), which isn't read; export it as events of its own")
        for when in (each.dt for each in value.dts):
            if not isinstance(when, date):
                raise ValueError("it has a time without a day, or a period among its dates, which isn't read")
            if zone and isinstance(when, datetime) and when.tzinfo is None:  # the library takes such a time for one without any
                raise _unknown_zone(zone)
            yield when, zone


def _unknown_zone(name: str) -> ValueError:
    return ValueError(f"unknown time zone {short_repr(name)}; export it with IANA time zones such as Europe/Berlin")


def _beside(start: When, written: tuple[When, str], utc: tzinfo) -> When:
    """A date or time about an event that begins at `start`: a day beside a day; beside an instant, an instant in its own zone or that of the
    start, or a day. An instant beside a day is its date in the zone that it names, or as it is written.
    """
    when, zone = written
    if not isinstance(when, datetime):
        return when
    if isinstance(start, datetime):
        return when if when.tzinfo else when.replace(tzinfo=start.tzinfo)
    is_utc = when.tzinfo is not None and not zone and date.min.year < when.year < date.max.year
    return _day(when.astimezone(utc) if is_utc else when)


def _like(start: When, when: When) -> When:
    """A day of an event that begins at a time as that time on the day. Anything else as it is."""
    return datetime.combine(when, start.timetz()) if isinstance(start, datetime) and not isinstance(when, datetime) else when


def _day(when: When) -> date:
    return when.date() if isinstance(when, datetime) else when


def _key(when: When) -> When:
    return when.astimezone(UTC) if isinstance(when, datetime) else when


def instant(when: When, zone: tzinfo) -> datetime:
    """In UTC; a day begins at midnight, or at the first instant after a gap in the clocks."""
    local = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day, tzinfo=zone)
    return local.astimezone(UTC)


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
