"""The enrolment notice: one mail saying that office hours are kept from now on, instead of one before every stop. Pure.

It names the action, the hours and their time zone. It counts for the owner who got it until one of these changes, the resource is recreated,
or its owner snoozes it. Use, stops and starts don't affect it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from reaper import idle_period
from reaper.case import Case
from reaper.model import Ceiling, Hours, Memory, StepName

CLOCK_JITTER = timedelta(hours=1)
"""Daily schedules aren't exact to the minute: a reminder comes up to this much early rather than a day late."""


def is_stopped_by_hours(case: Case) -> bool:
    """Whether the rule's office hours, and not idleness alone, cause its stops."""
    return case.rule.hours is not None and case.rule.hours.by_rule


def hours_digest(hours: Hours) -> str:
    """A digest of what the mail named: the action, the hours and their time zone."""
    calendars = [hours, hours.also] if hours.also else [hours]
    named = "|".join([StepName.STOP, *(f"{sorted(one.days)}|{one.start}|{one.end}|{one.tz}" for one in calendars)])
    return sha256(named.encode()).hexdigest()[:16]


def enrolled_since(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When its present owner was first notified of the present hours; None if no enrolment counts."""
    hours, notified_at, created = case.rule.hours, memory.warned_at, case.resource.created
    if (
        hours is None
        or not is_stopped_by_hours(case)
        or case.rule.action.rank < Ceiling.STOP.rank
        or not idle_period.notice_was_about_hours(memory)
        or memory.enrolment_digest != hours_digest(hours)
    ):
        return None
    if notified_at is None or notified_at > now + idle_period.MAX_CLOCK_SKEW or (created is not None and created > notified_at):
        return None
    is_void = (
        idle_period.notice_lapsed(case, memory, now)
        or idle_period.has_new_owner(case, memory)
        or idle_period.notice_led_to_snooze(memory, now)
    )
    return None if is_void else notified_at


def next_summary_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When the weekly summary is due, or a void enrolment may be replaced; None if there was no enrolment, or a wrong clock dated it far
    ahead.
    """
    last = idle_period.last_notice_at(memory)
    if last is None or last > now + case.rule.remind_every or not idle_period.notice_was_about_hours(memory):
        return None
    return next_reminder_at(case, last)


def next_reminder_at(case: Case, last: datetime) -> datetime:
    """When a reminder after a notice at `last` is due: up to `CLOCK_JITTER` early."""
    return last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)


def is_summary_due(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether the weekly summary of a valid enrolment is due and no snooze is in effect."""
    summary_at = next_summary_at(case, memory, now)
    is_snoozed = memory.snoozed_until is not None and memory.snoozed_until > now
    return not is_snoozed and summary_at is not None and now >= summary_at and enrolled_since(case, memory, now) is not None
