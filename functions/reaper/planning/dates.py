"""Whether the last notice counts, when it does, and when an action may be carried out: after that notice, its grace, and outside office hours. Pure.

Whatever takes the announced action away uses up its notice, even if no run saw it: the owner believes that nothing is coming. What merely delays
the action, or can't be read, doesn't.

An enrolment notice says that office hours are kept from now on, instead of a mail before every stop. It names the action, the hours, their
time zone and the calendars of their days off. It counts for the owner who got it until one of these changes, the resource is recreated, or its owner snoozes it. Use, stops and
starts don't affect it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper.calendars import office_hours
from reaper.calendars.freezes import add_business_days, add_length
from reaper.calendars.office_hours import Hours
from reaper.case import Case, is_stopped_by_hours, may_act
from reaper.finding import View, with_notice
from reaper.model import AnnouncedAction, Ceiling, State, StepName
from reaper.planning import idle_period, possible_actions
from reaper.planning.possible_actions import ACTION_STRENGTH, is_forced, is_proven_enough, manual_start_at, strongest_action
from reaper.record import MAX_CLOCK_SKEW, Notice, Snooze, dated_ahead_because, is_about_hours, is_recreated, last_notice_at
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


def valid_notice_at(view: View) -> datetime | None:
    """The time of the warning about the present idle period, from which a grace period counts. None if no warning counts, or if a gap in the
    proof leaves open whether it was about this period. The view is one without void notices (`valid_notice`), here and in the rest.
    """
    warned = view.record.notice.warned_at if view.record.notice else None
    if warned is None or not may_act(view.case):
        return None
    changed_at = idle_period.own_change_at(view) or warned
    return warned if max(warned, changed_at) >= idle_period.idle_period_start(view) else None


def action_due_at(view: View) -> datetime | None:
    """When `strongest_action` falls due; None if no notice of this idle period announced it or a stronger one."""
    case, action = view.case, strongest_action(view)
    if action is None:
        return None
    if is_stopped_by_hours(case):
        return _hours_due_at(view)
    warned, notice = valid_notice_at(view), view.record.notice
    if warned is None or notice is None:
        return None
    more = ACTION_STRENGTH.get(notice.action or "", 0) - ACTION_STRENGTH[action]
    has_grown = more > 0 and case.rule.delete_after is not None  # since the notice of its delete
    if more < 0 or has_grown:
        return None
    return max(earliest_action_at(case, warned, action), notice.not_before or warned)


def reminded_at(view: View, action: StepName) -> datetime | None:
    """The date that a reminder names; None without a first notice. An action never comes before it, even if a freeze is lifted since."""
    notice = view.record.notice
    if notice is None or notice.warned_at is None:
        return None
    announced = max(notice.not_before or notice.warned_at, earliest_action_at(view.case, notice.warned_at, action))
    return add_length(max(announced, view.now), timedelta(), view.case.rule.freezes)


def forced_stop_at(view: View) -> datetime | None:
    """When it is stopped although it is in use, if its owner is notified now; None if not today, which needs another notice."""
    rule, enrolled_due = view.case.rule, _enrolled_due_at(view)
    if rule.hours is None or enrolled_due is None or is_proven_enough(view.case):
        return None
    if not is_forced(view) or manual_start_at(view) or rule.waits_because:
        return None
    due = first_allowed_at(view.case, max(enrolled_due, view.now + min(rule.grace, FORCED_NOTICE)))
    return due if office_hours.is_same_day(rule.hours, due, view.now) else None


def hours_digest(hours: Hours) -> str:
    """A digest of what the mail named: the action, the hours, their time zone and the names of their calendars."""
    calendars = [hours, hours.also] if hours.also else [hours]
    parts = [f"{sorted(one.days)}|{one.start}|{one.end}|{one.tz}" for one in calendars]
    named = "|".join([StepName.STOP, *parts, *sorted(hours.calendars)])
    return sha256(named.encode()).hexdigest()[:16]


def enrolled_since(view: View) -> datetime | None:
    """When its present owner was first notified of the present hours; None if no enrolment counts."""
    notice, hours = view.record.notice, view.case.rule.hours
    if notice is None or hours is None or not is_stopped_by_hours(view.case) or view.case.rule.action.rank < Ceiling.STOP.rank:
        return None
    is_enrolled = is_about_hours(notice) and notice.hours == hours_digest(hours)
    return notice.warned_at if is_enrolled else None


def next_summary_at(view: View) -> datetime | None:
    """When the weekly summary is due, or a void enrolment may be replaced; None without an enrolment, or if a wrong clock dated it far ahead."""
    last = last_notice_at(view.record.notice)
    if last is None or last > view.now + view.case.rule.remind_every or not is_about_hours(view.record.notice):
        return None
    return next_reminder_at(view.case, last)


def next_reminder_at(case: Case, last: datetime) -> datetime:
    """When a reminder after a notice at `last` is due: up to `CLOCK_JITTER` early."""
    return last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)


def is_summary_due(view: View) -> bool:
    """Whether the weekly summary of a valid enrolment is due and no snooze is in effect."""
    summary_at, until = next_summary_at(view), view.snoozes.own.until
    is_snoozed = until is not None and until > view.now
    return not is_snoozed and summary_at is not None and view.now >= summary_at and enrolled_since(view) is not None


def _hours_due_at(view: View) -> datetime | None:
    """When office hours stop it: after its enrolment's grace, and while it is in use also after a notice of the same day."""
    hours, last, due = view.case.rule.hours, last_notice_at(view.record.notice), _enrolled_due_at(view)
    if hours is None or due is None or last is None:
        return None
    if is_proven_enough(view.case):
        return due
    # A weekly summary in the daytime doesn't say that it is stopped even while in use.
    closed = office_hours.closed_since(hours, view.now)
    was_notified = last == enrolled_since(view) or (closed is not None and last >= closed)
    is_of_today = was_notified and office_hours.is_same_day(hours, last, view.now)
    return max(due, last + min(view.case.rule.grace, FORCED_NOTICE)) if is_of_today else None


def _enrolled_due_at(view: View) -> datetime | None:
    """When its enrolment lets office hours stop it; None if none counts."""
    notice, enrolled_at = view.record.notice, enrolled_since(view)
    if notice is None or enrolled_at is None:
        return None
    return max(earliest_action_at(view.case, enrolled_at, StepName.STOP), notice.not_before or enrolled_at)


DATED_AHEAD = "it is dated ahead of this run's clock"


def without_void_notice(view: View) -> View:
    """The view with its notice only if that counts.

    The time of a void enrolment stays, and decides when the next one may be sent. So does a notice that is merely dated ahead: it shows that a
    clock is wrong. Those who got a notice that is proven wrong are owed a message.
    """
    view = replace(view, record=idle_period.without_wrong_notice(view))
    because, notice = void_because(view), view.record.notice
    if not because or (because == DATED_AHEAD and dated_ahead_because(view.record, view.now)):
        return view
    is_enrolment = notice is not None and is_about_hours(notice)
    return with_notice(view, replace(notice, hours=idle_period.VOID_ENROLMENT) if notice and is_enrolment else None)


def void_because(view: View) -> str | None:
    """Why the last notice doesn't count for this case; None if it counts, or if there is none.

    It is void by what came after its last mail, an enrolment by what came after its first. Its rule matters if the run announces actions.
    """
    case, notice = view.case, view.record.notice
    last = last_notice_at(notice)
    sent = notice.warned_at if notice and is_about_hours(notice) else last
    if notice is None or last is None or sent is None:
        return None
    because = _taken_away_because(view, notice, sent)
    if not because and view.announces:
        because = _not_allowed_because(case, notice)
    # A resource with office hours is used every day, and one mail about it is enough for a while.
    by_hours = is_stopped_by_hours(case) and notice.action is None
    if not because and not by_hours and not is_about_hours(notice):
        because = _idle_period_over_because(view, notice, sent)
        if notice.action is not None and any(at and at > sent for at in view.lapsed):
            because = "an idle share that had jumped is usual again"
    return because or (DATED_AHEAD if last > view.now + MAX_CLOCK_SKEW else None)


def _taken_away_because(view: View, notice: Notice, sent: datetime) -> str | None:
    """What voids every notice: its age, another resource or owner, or a protection that began or ended."""
    case, snoozes, now = view.case, view.snoozes, view.now
    rule, last = case.rule, last_notice_at(notice) or sent
    if case.resource.created and case.resource.created > sent:
        return "it was about an earlier resource with this ID"
    # Without its tags and a whole look, another person may only seem to own it.
    if case.resource.tags is not None and case.verdict.state is not State.UNKNOWN and has_new_owner(case, notice, snoozes.own):
        return "it went to another owner"
    if rule.protected_because and not rule.in_doubt:
        return "it is protected now"
    own = None if is_recreated(snoozes.own, case.resource.created) else snoozes.own.until
    if any(until and sent < until <= now for until in (own, snoozes.host.until, rule.protection_ended_at)):
        return "a protection ended since"
    is_old = notice.action is not None and now > valid_until(case, max(last, notice.not_before or last))
    return "it is too old" if is_old else None


def _not_allowed_because(case: Case, notice: Notice) -> str | None:
    """Whether tag, rule or canary don't allow what it announced, whatever blocks that now. What can't be read proves nothing."""
    rule, hours, announced = case.rule, case.rule.hours, notice.action
    if announced is None or case.resource.tags is None or possible_actions.is_in_doubt(case):
        return None
    is_allowed = rule.action.rank >= Ceiling.STOP.rank
    if hours and hours.by_rule:
        is_allowed &= announced is AnnouncedAction.HOURS and notice.hours == hours_digest(hours)
    elif announced is AnnouncedAction.DELETE:
        is_allowed &= hours is None and (rule.action is Ceiling.DELETE or rule.delete_after is not None)
    else:
        is_allowed &= announced is not AnnouncedAction.HOURS
    return None if is_allowed else "its rule or tags don't allow what it announced"


def _idle_period_over_because(view: View, notice: Notice, sent: datetime) -> str | None:
    """What voids a notice of idleness, but no enrolment."""
    if view.case.verdict.state is State.ACTIVE or idle_period.has_ended(view, sent):
        return "it was used or changed since"
    noticed, present = notice.shape, idle_period.shape(view.case.resource)
    is_unread = present is None and noticed != idle_period.NATIVE
    return "its settings were others then" if noticed not in {None, present} and not is_unread else None


def valid_until(case: Case, since: datetime) -> datetime:
    """Until when a notice counts whose date or last mail was `since`: no notice lapses because a freeze moved its date."""
    return add_length(since, max(idle_period.MIN_VALID_FOR, 2 * case.rule.remind_every), case.rule.freezes)


def has_new_owner(case: Case, notice: Notice, snooze: Snooze) -> bool:
    """Whether the last notice went to an earlier owner, or out before an owner said that it isn't theirs, even if no one is found now."""
    notified, present = (notice.to or "").lower(), (case.owner.address or "").lower()
    by, at = (snooze.disowned_by or "").lower(), snooze.disowned_at
    is_older = bool(notice.warned_at and at and notice.warned_at <= at) and (case.owner.disowned_by is not None or notified == by)
    is_theirs = bool(notified) and notified == by and not present
    return is_older or is_theirs or (bool(notified) and bool(present) and notified != present)
