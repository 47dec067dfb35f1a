"""Office hours as people write them: `mon-fri 07:00-21:00` with an IANA time zone. Pure.

Hours are wall time. When clocks go forward, a time that doesn't exist becomes the first instant after the gap. When they go back, hours
open at the first and close at the last occurrence of a time that comes twice: open too long is better than closed too early.
Days are local dates; hours that touch (`mon-tue 00:00-24:00`) don't close in between. All results are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from reaper.calendars.freezes import DAY, Stretch, joined
from reaper.text import did_you_mean, short_repr

SECOND = timedelta(seconds=1)
MIDNIGHT = 24 * 60
ALWAYS, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SEARCH_RANGE = 22 * DAY
"""The search range each way: a weekly day may be missing once, if a clock change swallows its hours or the whole date."""
DAYS_OFF_RANGE = 60 * DAY
"""How much further to search if days are off: rules carry them for that time around the run (`policy.rules`)."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED_HOURS = "days and times such as `mon-fri 07:00-21:00`"
_HOURS_PATTERN = re.compile(r"([a-z,-]+)\s+([0-2]?\d):([0-5]\d)\s*-\s*([0-2]?\d):([0-5]\d)", re.IGNORECASE)


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


def parse_hours(on: str, tz: str) -> Hours:
    """The hours `on` in the zone `tz`. Raises ValueError that names the problem: days, times, their order, or the zone."""
    match = _HOURS_PATTERN.fullmatch(on.strip())
    if not match:
        raise ValueError(f"expected {EXPECTED_HOURS}")
    start, end = int(match[2]) * 60 + int(match[3]), int(match[4]) * 60 + int(match[5])
    if not start < end <= MIDNIGHT:
        raise ValueError(
            f"{short_repr(on)}: expected a start before an end at 24:00 at the latest; hours over midnight aren't possible, so end them at 24:00"
        )
    return Hours(days=parse_days(match[1].lower()), start=start, end=end, tz=time_zone(tz).key)


def protecting(hours: Hours) -> Hours:
    """The hours as a mere protection: nothing is forced, started or judged sooner because of them."""
    return replace(hours, restart="ours", force=False, by_rule=False)


def with_tag_hours(hours: Hours | None, of_tag: Hours | None, *, may_narrow: bool) -> Hours | None:
    """The tag sets the times, the rule what happens outside them. If the rule has no hours, a tag's hours only protect.

    A rule with `force` stops what is in use, and a tag must not make that happen sooner: the rule's own hours stay open, too, unless it says
    that tags `may_narrow` them.
    """
    if hours is None or of_tag is None:
        return protecting(of_tag) if of_tag else hours
    chosen = replace(hours, days=of_tag.days, start=of_tag.start, end=of_tag.end, tz=of_tag.tz, also=of_tag.also)
    if not hours.force or may_narrow or _covers(chosen, hours):
        return chosen
    if _covers(hours, chosen):
        return replace(chosen, days=hours.days, start=hours.start, end=hours.end, days_off=hours.days_off)
    return replace(chosen, also=hours)


def gentlest(of_rules: Sequence[Hours | None], now: datetime) -> Hours | None:
    """Any hours protect: the first that are open now, else the first. They stop, force and have days off only as all rules say."""
    present = [hours for hours in of_rules if hours]
    if not present:
        return None
    is_shared = len(present) == len(of_rules)
    days_off = frozenset.intersection(*(hours.days_off for hours in present)) if is_shared else frozenset()
    named = set.intersection(*(set(hours.calendars) for hours in present)) if is_shared else set()
    present = [
        replace(each, days_off=days_off, calendars=tuple(name for name in each.calendars if name in named)) for each in present
    ]
    chosen = next((hours for hours in present if is_open(hours, now)), present[0])
    is_shared = is_shared and len({(each.days, each.start, each.end, each.tz) for each in present}) == 1
    return replace(
        chosen,
        restart="all" if is_shared and all(hours.restart == "all" for hours in present) else "ours",
        force=is_shared and all(hours.force for hours in present),
        override=max(hours.override for hours in present),
        by_rule=is_shared,
    )


def _covers(wide: Hours, narrow: Hours) -> bool:
    """Whether `wide` is open whenever `narrow` is, as far as the same zone shows it."""
    is_wider = wide.days >= narrow.days and wide.start <= narrow.start and wide.end >= narrow.end
    return wide.tz == narrow.tz and is_wider and wide.days_off <= narrow.days_off


def hours_text(hours: Hours) -> str:
    """The hours as a policy spells them: `mon-fri 07:00-21:00`. Their zone isn't in it, but that of other hours is."""
    if hours.also:
        zone = "" if hours.also.tz == hours.tz else f" {hours.also.tz}"
        return f"{hours_text(hours.also)}{zone} and {hours_text(replace(hours, also=None))}"
    days = sorted(hours.days)
    runs = [[day for day in days if day - days.index(day) == key] for key in dict.fromkeys(d - days.index(d) for d in days)]
    named = ",".join(DAYS[run[0]] if len(run) == 1 else f"{DAYS[run[0]]}-{DAYS[run[-1]]}" for run in runs)
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (hours.start, hours.end))
    return f"{named} {start}-{end}"


def time_zone(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = _zone_suggestion(name) or " such as Europe/Berlin"
        raise ValueError(f"unknown time zone {short_repr(name)}: expected an IANA time zone{near}") from error


@lru_cache(maxsize=64)
def _zone_suggestion(name: str) -> str:
    """The zone that was probably meant. Cached, because thousands of tags may have the same value."""
    zones = available_timezones()
    city = min((zone for zone in zones if zone.lower().endswith(f"/{name.lower()}")), default=None)
    return f"; did you mean {city}?" if city else did_you_mean(name, zones)


def is_open(hours: Hours, at: datetime) -> bool:
    """Whether `at` (aware) is inside the hours, their start included, their end not."""
    return any(start <= _to_utc(at) < end for start, end in _nearby_stretches(hours, at))


def closed_since(hours: Hours, at: datetime) -> datetime | None:
    """The start of the closed stretch around `at`, at the latest `at` itself. None if the hours are open, or never were."""
    if is_open(hours, at):
        return None
    return max((end for _, end in _nearby_stretches(hours, at) if end <= _to_utc(at)), default=None)


def were_open_between(hours: Hours, since: datetime, until: datetime) -> bool:
    """Whether the hours opened and closed again in that time, or never close."""
    is_within = any(_to_utc(since) <= start and end <= _to_utc(until) for start, end in _nearby_stretches(hours, until))
    return is_within or next_close(hours, until) is None


def opened_today(hours: Hours, at: datetime) -> datetime | None:
    """The opening of the hours around `at`, at the earliest the start of its day: some hours never close. None if they are closed."""
    opened = next((start for start, end in _nearby_stretches(hours, at) if start <= _to_utc(at) < end), None)
    midnight = datetime.combine(_local_date(hours, at), datetime.min.time())
    return None if opened is None else max(opened, _utc_instant(midnight, time_zone(hours.tz), fold=0))


def next_close(hours: Hours, at: datetime) -> datetime | None:
    """The first closing after `at`, whether the hours are open then or not. None if the hours never close."""
    return min((end for _, end in _nearby_stretches(hours, at) if _to_utc(at) < end < NEVER), default=None)


def next_open(hours: Hours, at: datetime) -> datetime | None:
    """The first opening after `at`. None if the hours never close."""
    return min((start for start, _ in _nearby_stretches(hours, at) if start > _to_utc(at)), default=None)


def opens_at(hours: Hours | None, at: datetime) -> datetime | None:
    """When they open next; None if they are open at `at`, or if there are none."""
    return next_open(hours, at) if hours and not is_open(hours, at) else None


def is_same_day(hours: Hours, a: datetime, b: datetime) -> bool:
    """Whether both instants (aware) are on the same calendar date in the zone of the hours."""
    return _local_date(hours, a) == _local_date(hours, b)


def _nearby_stretches(hours: Hours, at: datetime) -> tuple[Stretch, ...]:
    return _open_stretches(hours, _local_date(hours, at))


@lru_cache(maxsize=512)  # one sweep checks many resources with the same hours at the same moment
def _open_stretches(hours: Hours, day: date) -> tuple[Stretch, ...]:
    """The open stretches around that local date, in order; those that touch are one."""
    calendars = [hours, hours.also] if hours.also else [hours]
    if any(len(one.days) == len(DAYS) and (one.start, one.end) == (0, MIDNIGHT) and not one.days_off for one in calendars):
        return ((ALWAYS, NEVER),)
    stretches = joined(stretch for one in calendars for stretch in _day_stretches(one, day))
    almost_all = min(map(_search_range, calendars)) - 2 * DAY
    return tuple(_without_edges(stretch, day, almost_all) for stretch in stretches)


def _search_range(hours: Hours) -> timedelta:
    return SEARCH_RANGE + DAYS_OFF_RANGE if hours.days_off else SEARCH_RANGE


def _without_edges(stretch: Stretch, day: date, almost_all: timedelta) -> Stretch:
    """Two calendars can leave no gap for weeks. What reaches the edge of the search range then hasn't opened or closed there."""
    (start, end), middle = stretch, datetime.combine(day, datetime.min.time(), UTC)
    if end - start <= almost_all:
        return stretch
    return (ALWAYS if middle - start > almost_all else start), (NEVER if end - middle > almost_all else end)


def _day_stretches(hours: Hours, day: date) -> Iterator[Stretch]:
    """The open stretch of each day around that local date. A day whose hours fall entirely into a gap has none, and so has a day off."""
    zoned, days = time_zone(hours.tz), _search_range(hours).days
    for offset in range(-days, days + 1):
        midnight = datetime.combine(day + offset * DAY, datetime.min.time())
        if midnight.weekday() in hours.days and midnight.date() not in hours.days_off:
            start = _utc_instant(midnight + timedelta(minutes=hours.start), zoned, fold=0)
            end = _utc_instant(midnight + timedelta(minutes=hours.end), zoned, fold=1)
            if start < end:
                yield start, end


def _utc_instant(wall: datetime, zoned: ZoneInfo, *, fold: int) -> datetime:
    """The instant when clocks show `wall` (naive); `fold` chooses between two. In a gap: the first instant after it."""
    instant = wall.replace(tzinfo=zoned, fold=fold).astimezone(UTC)
    if instant.astimezone(zoned).replace(tzinfo=None) == wall:
        return instant
    early, late = (wall.replace(tzinfo=zoned, fold=side).astimezone(UTC) for side in (1, 0))
    while late - early > SECOND:  # the change is after `early` and at or before `late`; changes are on whole seconds
        middle = early + (late - early) // (2 * SECOND) * SECOND
        early, late = (
            (early, middle) if middle.astimezone(zoned).utcoffset() == late.astimezone(zoned).utcoffset() else (middle, late)
        )
    return late


def _local_date(hours: Hours, at: datetime) -> date:
    return _to_utc(at).astimezone(time_zone(hours.tz)).date()


def _to_utc(at: datetime) -> datetime:
    """Raises ValueError for a naive time, which Python would take as this machine's local time."""
    if at.tzinfo is None:
        raise ValueError("expected a time with a zone")
    return at.astimezone(UTC)


def parse_days(text: str) -> frozenset[int]:
    """The weekdays (Monday 0) of a list such as `mon-wed,sat`. Raises ValueError if there are others in it."""
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"expected days from {', '.join(DAYS)}, not {part!r}")
        a, b = DAYS.index(first), DAYS.index(last or first)
        days.update(range(a, b + 1) if a <= b else [*range(a, 7), *range(b + 1)])
    return frozenset(days)
