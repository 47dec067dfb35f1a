"""What owners' mails say of freezes, business days and days off, beside the date that these move. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from reaper.calendars.adding import MOMENT
from reaper.calendars.terms import Freeze, Hours
from reaper.model import Rule
from reaper.text import format_day, format_time

DAYS_OFF_WITHIN = timedelta(days=28)
"""The next days off that are listed."""
MAX_SHOWN = 6


def freeze_sentence(rule: Rule, now: datetime, until: datetime, tz: str) -> str:
    """` Nothing is stopped from Sat 19 Dec to Sun 3 Jan (year-end).` for the freezes between these times; empty if there are none."""
    if rule.waits_because:
        return f" Nothing is stopped or deleted while {rule.waits_because.partition(': ')[0]}."
    spans = [_span(freeze, tz) for freeze in rule.freezes if freeze.start <= until and now < freeze.end]
    return f" Nothing is stopped or deleted {', '.join(spans[:MAX_SHOWN])}." if spans else ""


def days_off_sentence(hours: Hours, now: datetime) -> str:
    """` Next days off: Fri 25 Dec, Fri 1 Jan.`: those that would otherwise be open, in the next weeks; empty if there are none."""
    today = now.astimezone(ZoneInfo(hours.tz)).date()
    days = sorted(day for day in hours.days_off if today <= day <= today + DAYS_OFF_WITHIN and day.weekday() in hours.days)
    return f" Next days off: {', '.join(f'{day:%a} {day.day} {day:%b}' for day in days[:MAX_SHOWN])}." if days else ""


def _span(freeze: Freeze, tz: str) -> str:
    """`from Sat 19 Dec to Sun 3 Jan (year-end)`, with times unless these are whole days in that zone."""
    ends = [moment.astimezone(ZoneInfo(tz)).time() for moment in (freeze.start, freeze.end)]
    if ends == [time(), time()]:
        return f"from {format_day(freeze.start, tz)} to {format_day(freeze.end - MOMENT, tz)} ({freeze.calendar})"
    return f"from {format_time(freeze.start, tz)} until {format_time(freeze.end, tz)} ({freeze.calendar})"
