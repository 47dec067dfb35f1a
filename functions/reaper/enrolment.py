"""The enrolment notice: one mail that says that office hours are kept from now on, instead of one before every stop. Pure.

It names the action, the hours and their zone, and counts for the owner who got it until one of these changes, the resource is made anew, or
its owner snoozes it. Use, stops and starts don't touch it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from reaper import idle_period
from reaper.model import Action, Case, Hours, Memory, Move

JITTER = timedelta(hours=1)
"""A daily clock does not tick to the minute: a reminder comes up to this much early rather than a day late."""


def asked(case: Case) -> bool:
    """Whether the rule's office hours, and not idleness alone, ask for its stops."""
    return case.rule.hours is not None and case.rule.hours.by_rule


def digest(hours: Hours) -> str:
    """What the mail named, in short: the action, the hours and their zone."""
    named = f"{Move.STOP}|{sorted(hours.days)}|{hours.start}|{hours.end}|{hours.tz}"
    return sha256(named.encode()).hexdigest()[:16]


def since(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When its present owner was first told of the present hours; None where no enrolment counts."""
    hours, told, created = case.rule.hours, memory.warned_at, case.resource.created
    if (
        hours is None
        or not asked(case)
        or case.rule.action.rank < Action.STOP.rank
        or not idle_period.enrolling(memory)
        or memory.enrolled != digest(hours)
    ):
        return None
    if told is None or told > now + idle_period.SKEW or (created is not None and created > told):
        return None
    void = idle_period.lapsed(case, memory, now) or idle_period.handed_over(case, memory) or idle_period.answered(memory, now)
    return None if void else told


def next_mail(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on the weekly summary is due, or an enrolment that is void may be replaced; None where there was none, or one so
    far ahead that a wrong clock dated it.
    """
    last = idle_period.last_notice(memory)
    if last is None or last > now + case.rule.remind_every or not idle_period.enrolling(memory):
        return None
    return last + case.rule.remind_every - min(JITTER, case.rule.remind_every / 10)


def summary_due(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether it is time for the weekly summary of an enrolment that counts, and no snooze keeps it."""
    mail = next_mail(case, memory, now)
    kept = memory.snoozed_until is not None and memory.snoozed_until > now
    return not kept and mail is not None and now >= mail and since(case, memory, now) is not None
