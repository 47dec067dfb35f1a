"""`notices.send`: the hours in which notices go out, when they open next, and the stops by `force` that could never be announced. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reaper.calendars.terms import Hours
from reaper.policy import office_hours
from reaper.policy.yaml_lines import KeyPath

if TYPE_CHECKING:
    from reaper.policy.schema import Policy, RuleSpec

MIN_WINDOW = 60
"""Minutes a day. Schedules aren't exact to the minute, so a sweep could miss anything shorter."""
SAMPLE_YEAR = [datetime(2024, 1, 1) + timedelta(days=day) for day in range(366)]  # noqa: DTZ001 - local dates, with every clock change
"""The days on which the hours of two time zones are compared."""


def checked_send(text: str) -> str:
    """The times as written. Raises ValueError if they can't be read, or if a sweep could easily miss them."""
    hours = office_hours.parse_hours(text, "UTC")
    if hours.end - hours.start < MIN_WINDOW:
        raise ValueError("expected an hour or more on each day, such as `mon-fri 09:00-17:00`, because a sweep could miss less")
    return text


def send_hours(policy: Policy) -> Hours | None:
    """When notices go out; None if they go out at any time."""
    send, tz = policy.notices.send, policy.notices.tz or policy.owners.tz
    return office_hours.parse_hours(send, tz) if send else None


def opens_at(policy: Policy, now: datetime) -> datetime | None:
    """When notices go out next; None if they go out now."""
    hours = send_hours(policy)
    return office_hours.next_open(hours, now) if hours and not office_hours.is_open(hours, now) else None


def send_problems(policy: Policy) -> Iterator[tuple[KeyPath, str]]:
    """The rules whose `force` needs a notice of the same day at a time when none is sent."""
    window = send_hours(policy)
    for index, spec in enumerate(policy.rules):
        if window and spec.hours and spec.hours.force and (day := _day_without_notice(spec, window)):
            hours = spec.hours.to_hours
            end = f"{hours.end // 60:02}:{hours.end % 60:02} {hours.tz}"
            sent = f"notices.send is {office_hours.hours_text(window)} {window.tz}"
            fix = "end the hours an hour before notices.send, send notices for longer, or remove force"
            yield ("rules", index, "hours"), f"force needs a notice in the hour after {end} on {day}, and {sent}; {fix}"


def _day_without_notice(spec: RuleSpec, window: Hours) -> str | None:
    """The first day of its hours whose end, or the hour after it, lies outside the window."""
    hours = spec.hours.to_hours if spec.hours else window
    zone, sent_in = office_hours.time_zone(hours.tz), office_hours.time_zone(window.tz)
    for day in (day for day in SAMPLE_YEAR if day.weekday() in hours.days):
        end = (day + timedelta(minutes=hours.end)).replace(tzinfo=zone).astimezone(sent_in)
        minute = end.hour * 60 + end.minute
        if end.weekday() not in window.days or not window.start <= minute <= window.end - 60:
            return office_hours.DAYS[day.weekday()]
    return None
