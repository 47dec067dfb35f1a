"""When a notice counts, and when an action may be carried out: after that notice, its grace, and outside office hours. Pure.

An enrolment notice says that office hours are kept from now on, instead of a mail before every stop. It names the action, the hours, their
time zone and the calendars of their days off. It counts for the owner who got it until one of these changes, the resource is recreated, or its owner snoozes it. Use, stops and
starts don't affect it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from reaper import idle_period
from reaper.calendars import office_hours
from reaper.calendars.freezes import add_business_days, add_length
from reaper.calendars.office_hours import Hours
from reaper.case import Case, is_stopped_by_hours, may_act
from reaper.model import Ceiling, StepName
from reaper.planning.possible_actions import ACTION_STRENGTH, is_forced, is_proven_enough, manual_start_at, strongest_action
from reaper.record import Notice, Record, Snoozes, is_about_hours
from reaper.words import notice_length

FORCED_NOTICE = timedelta(hours=1)
"""How long before `force` stops a resource in use its owner gets one more notice; the grace instead if that is shorter."""
CLOCK_JITTER = timedelta(hours=1)
"""Daily schedules aren't exact to the minute: a reminder comes up to this much early rather than a day late."""


def earliest_action_at(case: Case, notified_at: datetime, action: StepName) -> datetime:
    """The earliest time for an action after a notice at `notified_at`: once its unfrozen grace is over, outside freezes and office hours."""
    rule = case.rule
    grace_end = add_length(notified_at, notice_length(case, action), rule.freezes)
    if rule.business_days:
        grace_end = max(grace_end, add_business_days(notified_at, rule.business_days, rule.freezes))
    return first_allowed_at(case, grace_end)


def first_allowed_at(case: Case, at: datetime) -> datetime:
    """`at`, or the first moment after it that is neither frozen nor within its office hours."""
    hours = case.rule.hours
    while True:
        at = add_length(at, timedelta(), case.rule.freezes)
        closing = office_hours.next_close(hours, at) if hours and office_hours.is_open(hours, at) else None
        if closing is None:
            return at
        at = closing


def valid_notice_at(case: Case, record: Record, now: datetime) -> datetime | None:
    """The time of the warning about the present idle period, from which a grace period counts. None if no warning counts, or if a gap in the
    proof leaves open whether it was about this period. The record is one without void notices (`valid_notice`), here and in the rest.
    """
    warned = record.notice.warned_at if record.notice else None
    if warned is None or not may_act(case):
        return None
    changed_at = idle_period.own_change_at(case, record) or warned
    return warned if max(warned, changed_at) >= idle_period.idle_period_start(case, record, now) else None


def action_due_at(case: Case, record: Record, now: datetime) -> datetime | None:
    """When `strongest_action(case)` falls due; None if no notice of this idle period announced it or a stronger one."""
    action = strongest_action(case, now)
    if action is None:
        return None
    if is_stopped_by_hours(case):
        return _hours_due_at(case, record.notice, now)
    warned, notice = valid_notice_at(case, record, now), record.notice
    if warned is None or notice is None:
        return None
    more = ACTION_STRENGTH.get(notice.action or "", 0) - ACTION_STRENGTH[action]
    has_grown = more > 0 and case.rule.delete_after is not None  # since the notice of its delete
    if more < 0 or has_grown:
        return None
    return max(earliest_action_at(case, warned, action), notice.not_before or warned)


def reminded_at(case: Case, notice: Notice | None, now: datetime, action: StepName) -> datetime | None:
    """The date that a reminder names; None without a first notice. An action never comes before it, even if a freeze is lifted since."""
    if notice is None or notice.warned_at is None:
        return None
    announced = max(notice.not_before or notice.warned_at, earliest_action_at(case, notice.warned_at, action))
    return add_length(max(announced, now), timedelta(), case.rule.freezes)


def forced_stop_at(case: Case, notice: Notice | None, now: datetime) -> datetime | None:
    """When it is stopped although it is in use, if its owner is notified now; None if not today, which needs another notice."""
    hours, enrolled_at = case.rule.hours, enrolled_since(case, notice)
    if hours is None or notice is None or enrolled_at is None or is_proven_enough(case):
        return None
    if not is_forced(case, now) or manual_start_at(case, now) or case.rule.waits_because:
        return None
    due = first_allowed_at(case, max(_enrolled_due_at(case, notice, enrolled_at), now + min(case.rule.grace, FORCED_NOTICE)))
    return due if office_hours.is_same_day(hours, due, now) else None


def hours_digest(hours: Hours) -> str:
    """A digest of what the mail named: the action, the hours, their time zone and the names of their calendars."""
    calendars = [hours, hours.also] if hours.also else [hours]
    parts = [f"{sorted(one.days)}|{one.start}|{one.end}|{one.tz}" for one in calendars]
    named = "|".join([StepName.STOP, *parts, *sorted(hours.calendars)])
    return sha256(named.encode()).hexdigest()[:16]


def enrolled_since(case: Case, notice: Notice | None) -> datetime | None:
    """When its present owner was first notified of the present hours; None if no enrolment counts."""
    hours = case.rule.hours
    if notice is None or hours is None or not is_stopped_by_hours(case) or case.rule.action.rank < Ceiling.STOP.rank:
        return None
    is_enrolled = is_about_hours(notice) and notice.hours == hours_digest(hours)
    return notice.warned_at if is_enrolled else None


def next_summary_at(case: Case, notice: Notice | None, now: datetime) -> datetime | None:
    """When the weekly summary is due, or a void enrolment may be replaced; None without an enrolment, or if a wrong clock dated it far ahead."""
    last = idle_period.last_notice_at(notice)
    if last is None or last > now + case.rule.remind_every or not is_about_hours(notice):
        return None
    return next_reminder_at(case, last)


def next_reminder_at(case: Case, last: datetime) -> datetime:
    """When a reminder after a notice at `last` is due: up to `CLOCK_JITTER` early."""
    return last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)


def is_summary_due(case: Case, notice: Notice | None, snoozes: Snoozes, now: datetime) -> bool:
    """Whether the weekly summary of a valid enrolment is due and no snooze is in effect."""
    summary_at, until = next_summary_at(case, notice, now), snoozes.own.until
    is_snoozed = until is not None and until > now
    return not is_snoozed and summary_at is not None and now >= summary_at and enrolled_since(case, notice) is not None


def _hours_due_at(case: Case, notice: Notice | None, now: datetime) -> datetime | None:
    """When office hours stop it: after its enrolment's grace, and while it is in use also after a notice of the same day."""
    hours, last = case.rule.hours, idle_period.last_notice_at(notice)
    enrolled_at = enrolled_since(case, notice)
    if hours is None or notice is None or enrolled_at is None or last is None:
        return None
    due = _enrolled_due_at(case, notice, enrolled_at)
    if is_proven_enough(case):
        return due
    # A weekly summary in the daytime doesn't say that it is stopped even while in use.
    closed = office_hours.closed_since(hours, now)
    was_told = last == enrolled_at or (closed is not None and last >= closed)
    return (
        max(due, last + min(case.rule.grace, FORCED_NOTICE)) if was_told and office_hours.is_same_day(hours, last, now) else None
    )


def _enrolled_due_at(case: Case, notice: Notice, enrolled_at: datetime) -> datetime:
    return max(earliest_action_at(case, enrolled_at, StepName.STOP), notice.not_before or enrolled_at)
