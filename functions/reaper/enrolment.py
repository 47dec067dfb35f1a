"""The enrolment notice: one mail that says that office hours are kept from now on, instead of one before every stop. Pure.

It names the action, the hours and their zone, and counts for the owner who got it until one of these changes, the resource is made anew, or
its owner snoozes it. Use, stops and starts don't touch it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from reaper import idle_period
from reaper.model import Case, Ceiling, Hours, Memory, StepName

CLOCK_JITTER = timedelta(hours=1)
"""A daily clock does not tick to the minute: a reminder comes up to this much early rather than a day late."""


def is_stopped_by_hours(case: Case) -> bool:
    """Whether the rule's office hours, and not idleness alone, ask for its stops."""
    return case.rule.hours is not None and case.rule.hours.by_rule


def hours_digest(hours: Hours) -> str:
    """What the mail named, in short: the action, the hours and their zone."""
    named = f"{StepName.STOP}|{sorted(hours.days)}|{hours.start}|{hours.end}|{hours.tz}"
    return sha256(named.encode()).hexdigest()[:16]


def enrolled_since(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When its present owner was first told of the present hours; None where no enrolment counts."""
    hours, told, created = case.rule.hours, memory.warned_at, case.resource.created
    if (
        hours is None
        or not is_stopped_by_hours(case)
        or case.rule.action.rank < Ceiling.STOP.rank
        or not idle_period.notice_was_about_hours(memory)
        or memory.enrolment_digest != hours_digest(hours)
    ):
        return None
    if told is None or told > now + idle_period.MAX_CLOCK_SKEW or (created is not None and created > told):
        return None
    void = (
        idle_period.notice_lapsed(case, memory, now)
        or idle_period.has_new_owner(case, memory)
        or idle_period.notice_led_to_snooze(memory, now)
    )
    return None if void else told


def next_summary_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on the weekly summary is due, or an enrolment that is void may be replaced; None where there was none, or one so
    far ahead that a wrong clock dated it.
    """
    last = idle_period.last_notice_at(memory)
    if last is None or last > now + case.rule.remind_every or not idle_period.notice_was_about_hours(memory):
        return None
    return next_reminder_at(case, last)


def next_reminder_at(case: Case, last: datetime) -> datetime:
    """When a reminder after a notice at `last` is due: up to `CLOCK_JITTER` early."""
    return last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)


def is_summary_due(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether it is time for the weekly summary of an enrolment that counts, and no snooze keeps it."""
    mail = next_summary_at(case, memory, now)
    kept = memory.snoozed_until is not None and memory.snoozed_until > now
    return not kept and mail is not None and now >= mail and enrolled_since(case, memory, now) is not None
