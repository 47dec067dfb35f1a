"""The reasons of planned steps, as sentences for people: lower case, without a full stop. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from reaper import idle_period
from reaper.calendars import office_hours
from reaper.case import Case
from reaper.duration import format_duration
from reaper.model import StepName
from reaper.planning.possible_actions import manual_start_at
from reaper.record import Act
from reaper.words import ago_text


def nothing_to_do_because(case: Case, act: Act | None) -> str:
    """Why there is no step: it is as the reaper left it, or its state needs none."""
    blocked = case.blocked.get(act.action) if act else None
    if act and blocked and blocked.already_done:
        return f"it is unchanged since the reaper's action on {act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {blocked.because}"
    return f"nothing to do: it is {case.verdict.state}"


def unconfirmed_because(act: Act | None) -> str:
    """Why an action that was just requested is left to finish."""
    return f"{act.action if act else StepName.STOP} requested; the next sweep checks the result"


def manual_start_because(case: Case, now: datetime) -> str | None:
    """Why it is left running outside its hours: a person started it there recently."""
    started, hours = manual_start_at(case, now), case.rule.hours
    if started is None or hours is None:
        return None
    return (
        f"it was started outside its office hours {ago_text(started, now)}, and such a start keeps it running for "
        f"{format_duration(hours.override)}"
    )


def outside_hours_because(case: Case, now: datetime) -> str | None:
    """Why its silence is no reason for a notice: it can't be started again, so its hours only protect, and it was silent in none of them."""
    hours, since = case.rule.hours, idle_period.proven_idle_since(case, now)
    if hours is None or StepName.START in case.blocked or now - since >= case.rule.remind_every:
        return None
    return None if office_hours.were_open_between(hours, since, now) else "it hasn't been silent through its office hours"
