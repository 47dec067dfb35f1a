"""When an action may be carried out: after a notice of the present idle period, its grace, and outside office hours. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper import idle_period
from reaper.case import Case
from reaper.model import Hours, Memory
from reaper.planning import enrolment
from reaper.planning.possible_actions import (
    ACTION_STRENGTH,
    is_forced,
    is_proven_enough,
    manual_start_at,
    may_act,
    strongest_action,
)
from reaper.policy import office_hours

FORCED_NOTICE = timedelta(hours=1)
"""How long before `force` stops a resource in use its owner gets one more notice; the grace instead if that is shorter."""


def earliest_action_at(case: Case, notified_at: datetime) -> datetime:
    """The earliest time for an action after a notice at `notified_at`: once its grace is over, and outside its office hours."""
    grace_end = notified_at + case.rule.grace
    if case.rule.hours and office_hours.is_open(case.rule.hours, grace_end):
        return office_hours.next_close(case.rule.hours, grace_end) or grace_end
    return grace_end


def valid_notice_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """The time of the warning about the present idle period, from which a grace period counts. None if no warning counts."""
    warned = memory.warned_at
    if warned is None or warned > now + idle_period.MAX_CLOCK_SKEW or idle_period.notice_was_for_another(case, memory):
        return None
    if case.resource.created and case.resource.created > warned:
        return None
    if not may_act(case) or idle_period.notice_expired(case, memory, now):
        return None
    part_done_at = case.resource.changed if idle_period.notice_was_for_part(memory) else None
    return warned if max(warned, part_done_at or warned) >= idle_period.idle_period_start(case, memory, now) else None


def action_due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When `strongest_action(case)` falls due; None if no notice of this idle period announced it or a stronger one."""
    action = strongest_action(case, now)
    if action is None:
        return None
    if enrolment.is_stopped_by_hours(case):
        return _hours_due_at(case, memory, now)
    warned = valid_notice_at(case, memory, now)
    if warned is None or ACTION_STRENGTH.get(memory.announced_action or "", 0) < ACTION_STRENGTH[action]:
        return None
    return max(earliest_action_at(case, warned), memory.act_not_before or warned)


def forced_stop_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When it is stopped although it is in use, if its owner is notified now; None if not today, which needs another notice."""
    hours, enrolled_at = case.rule.hours, enrolment.enrolled_since(case, memory, now)
    if hours is None or enrolled_at is None or is_proven_enough(case):
        return None
    if not is_forced(case, now) or manual_start_at(case, now):
        return None
    due = max(_enrolled_due_at(case, memory, enrolled_at), now + forced_notice_for(case))
    return due if office_hours.is_same_day(hours, due, now) else None


def forced_notice_for(case: Case) -> timedelta:
    """How long before a forced stop its owner gets the notice of the same day."""
    return min(case.rule.grace, FORCED_NOTICE)


def _hours_due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When office hours stop it: after its enrolment's grace, and while it is in use also after a notice of the same day."""
    hours, last = case.rule.hours, idle_period.last_notice_at(memory)
    enrolled_at = enrolment.enrolled_since(case, memory, now)
    if hours is None or enrolled_at is None or last is None:
        return None
    due = _enrolled_due_at(case, memory, enrolled_at)
    if is_proven_enough(case):
        return due
    return max(due, last + forced_notice_for(case)) if _was_notified_today(hours, enrolled_at, last, now) else None


def _enrolled_due_at(case: Case, memory: Memory, enrolled_at: datetime) -> datetime:
    return max(earliest_action_at(case, enrolled_at), memory.act_not_before or enrolled_at)


def _was_notified_today(hours: Hours, enrolled_at: datetime, last: datetime, now: datetime) -> bool:
    """Whether a notice of today said that it is stopped even while in use: the enrolment, or one since its hours ended. A weekly summary
    in the daytime doesn't say so.
    """
    closed = office_hours.closed_since(hours, now)
    return office_hours.is_same_day(hours, last, now) and (last == enrolled_at or (closed is not None and last >= closed))
