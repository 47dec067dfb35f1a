"""What the policy would do now with each judged resource, given its record. Pure: `act` carries the plan out.

One idle period, one warning, then a reminder every `remind_every`, however often a sweep runs.

An action is due once the time that a warning of the same idle period promised has passed. Actions of a rule's office hours rest on an
enrolment notice instead."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from reaper.calendars import office_hours
from reaper.case import is_stopped_by_hours, may_act, may_keep_hours
from reaper.duration import format_duration
from reaper.finding import Step, View
from reaper.model import State, StepName
from reaper.planning import idle_period
from reaper.planning.dates import (
    action_due_at,
    enrolled_since,
    forced_stop_at,
    next_reminder_at,
    next_summary_at,
    valid_notice_at,
    without_void_notice,
)
from reaper.planning.possible_actions import (
    is_forced,
    is_unconfirmed,
    manual_start_at,
    may_start,
    strongest_action,
    was_stopped_by_reaper,
)
from reaper.record import dated_ahead_because, is_about_hours, is_snoozed, last_notice_at, snooze_sentence, without_void_times
from reaper.words import ago_text, frozen_because, plain_participle


def nothing_to_do_because(view: View) -> str:
    """Why there is no step: it is as the reaper left it, or its state needs none."""
    case, act = view.case, view.record.act
    blocked = case.blocked.get(act.action) if act else None
    if act and blocked and blocked.already_done:
        return f"it is unchanged since the reaper's action on {act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {blocked.because}"
    return f"nothing to do: it is {case.verdict.state}"


def unconfirmed_because(view: View) -> str:
    """Why an action that was just requested is left to finish."""
    act = view.record.act
    return f"{act.action if act else StepName.STOP} requested; the next sweep checks the result"


def manual_start_because(view: View) -> str | None:
    """Why it is left running outside its hours: a person started it there recently."""
    started, hours = manual_start_at(view), view.case.rule.hours
    if started is None or hours is None:
        return None
    return (
        f"it was started outside its office hours {ago_text(started, view.now)}, and such a start keeps it running for "
        f"{format_duration(hours.override)}"
    )


def outside_hours_because(view: View) -> str | None:
    """Why its silence is no reason for a notice: it can't be started again, so its hours only protect, and it was silent in none of them."""
    rule, since = view.case.rule, idle_period.proven_idle_since(view)
    if rule.hours is None or StepName.START in view.case.blocked or view.now - since >= rule.remind_every:
        return None
    return (
        None if office_hours.were_open_between(rule.hours, since, view.now) else "it hasn't been silent through its office hours"
    )


def plan_step(view: View) -> Step:
    """The step of one case. An empty record: it was never warned about.

    If the run announces nothing, owners get notices and no action is planned. Actions that another run has announced are left to runs that do. The reason names what keeps an idle resource from every action: `enforce_only`, or a place where nothing may be changed.
    """
    case, step, blocked = view.case, _planned_step(view), view.case.resource.target.blocked_because
    if case.verdict.state is not State.IDLE:
        return step
    canary = case.rule.notes[-1] if case.rule.only_notices and case.rule.notes else ""
    if canary not in step.because:
        step = replace(step, because=f"{step.because}; {canary}")
    return replace(step, because=f"{step.because}; it isn't stopped or deleted: {blocked}") if blocked else step


def _planned_step(view: View) -> Step:
    if because := dated_ahead_because(view.record, view.now):
        return _no_step(because)
    view = without_void_notice(replace(view, record=without_void_times(view.record, view.now)))
    case, act = view.case, view.record.act
    if view.announces and may_start(view):
        if act and act.action is StepName.START and is_unconfirmed(view):
            return _no_step(unconfirmed_because(view))
        why = (
            "the reaper had stopped it"
            if was_stopped_by_reaper(view)
            else f"{case.rule.name} starts everything that has office hours"
        )
        return Step(name=StepName.START, because=f"its office hours have begun, and {why}")
    if because := _no_step_because(view):
        return _no_step(because)
    if view.announces and follows_hours(view):
        return _hours_step(view)
    step = _due_step(view) if view.announces else None
    if step and step.because != frozen_because(case.rule, view.now):
        return step
    notice = _notice_step(view)
    return notice if step is None or notice.name is not StepName.NONE else step


def _no_step_because(view: View) -> str | None:
    """Why neither a notice nor an action is considered at all."""
    if not may_act(view.case) and not (view.announces and (is_forced(view) or _is_enrolled(view))):
        return nothing_to_do_because(view)
    if is_snoozed(view.snoozes.own, view.case.resource.created, view.now):
        return snooze_sentence(view.snoozes.own)
    if not view.announces and has_announced_action(view):
        return "the owner already has a notice that announces an action, and this run announces none"
    return unconfirmed_because(view) if view.announces and is_unconfirmed(view) else None


def _is_enrolled(view: View) -> bool:
    """Whether its office hours may be kept, and its owner has a valid enrolment notice."""
    return may_keep_hours(view.case) and enrolled_since(view) is not None


def has_announced_action(view: View) -> bool:
    """Whether a notice that still counts announced an action."""
    notice, notified_at = view.record.notice, valid_notice_at(view) or enrolled_since(view)
    return (
        notice is not None
        and notified_at is not None
        and notice.action is not None
        and notice.hours != idle_period.VOID_ENROLMENT
    )


def follows_hours(view: View) -> bool:
    """Whether its office hours, and not idleness alone, decide about it."""
    can_enrol = is_stopped_by_hours(view.case) and strongest_action(view) is not None
    return can_enrol or _is_enrolled(view)


def _hours_step(view: View) -> Step:
    """The step of a rule's office hours: first an enrolment notice, then a stop after each day, and a summary every week."""
    case, now, summary_at = view.case, view.now, next_summary_at(view)
    if enrolled_since(view) is None:
        if summary_at and now < summary_at:  # the last notice was too recent to replace it
            wait = format_duration(summary_at - now)
            void = "the notice about its office hours is no longer valid"
            return _no_step(f"{void}, and nothing is stopped before the next one in {wait}")
        return Step(name=StepName.WARN, because=f"{case.rule.name} sets office hours, and the owner has not been notified")
    step = _due_step(view)
    if step and step.name is not StepName.NONE:
        return step
    last = ago_text(last_notice_at(view.record.notice) or now, now)
    kept = f"office hours apply to it, and the owner was last notified {last}"
    if summary_at and now >= summary_at and case.verdict.state is not State.UNKNOWN:
        return Step(name=StepName.REMIND, because=kept)
    no_step = step or _no_step(kept if may_act(case) else nothing_to_do_because(view))
    return _forced_notice_step(view) or no_step


def _forced_notice_step(view: View) -> Step | None:
    """The notice of the day before a forced stop, unless a person started the resource outside its hours."""
    if strongest_action(view) is None or action_due_at(view) is not None:
        return None
    if because := manual_start_because(view):
        return _no_step(because)
    if forced_stop_at(view) is None:
        return None
    because = f"its office hours are over, and {view.case.rule.name} stops it even while it is in use"
    return Step(name=StepName.REMIND, because=because)


def _due_step(view: View) -> Step | None:
    """The action that is due, or why it waits for office hours or a freeze; None if a notice has to come first or the time hasn't come."""
    case, now, notice = view.case, view.now, view.record.notice
    action, due, hours = strongest_action(view), action_due_at(view), case.rule.hours
    if action is None or due is None:
        return None
    if because := manual_start_because(view):
        return _no_step(because)
    if hours and office_hours.is_open(hours, now):
        return _no_step("it is within its office hours, so it keeps running")
    if due > now:
        return None
    if because := frozen_because(case.rule, now):
        return _no_step(because)
    ago = ago_text((notice and notice.warned_at) or now, now)
    if is_stopped_by_hours(case):
        because = f"its office hours are over, and the owner was notified {ago} that they apply"
    else:
        because = (
            f"{case.verdict.because}; the owner was notified {ago} that it would be {plain_participle(case.resource, action)}"
        )
    return Step(name=action, because=because)


def _notice_step(view: View) -> Step:
    """The warning or reminder that is due, or why none is due yet. After a gap in the proof it is a warning: the earlier one is no grace."""
    case, now, notice = view.case, view.now, view.record.notice
    if because := outside_hours_because(view):
        return _no_step(because)
    action, last = strongest_action(view) if view.announces else None, last_notice_at(view.record.notice)
    idle_for = format_duration(case.rule.idle_after)
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(name=StepName.WARN, because=f"idle for more than {idle_for} under {case.rule.name}{notes}")
    reminder_at, so_far = next_reminder_at(case, last), f"the owner was notified {ago_text(last, now)}"
    is_daily = is_stopped_by_hours(case) and not is_about_hours(notice)  # idle every evening
    if action is None and is_daily and last <= now < reminder_at:
        return _no_step(f"{so_far} and will be notified again in {format_duration(reminder_at - now)}")
    what, due = plain_participle(case.resource, action) if action else "", action_due_at(view) if action else None
    if action and due is None:
        return Step(name=StepName.WARN, because=f"the owner has not been notified in this idle period that it will be {what}")
    if due and now < due <= reminder_at:
        return _no_step(f"{so_far} and it will be {what} in {format_duration(due - now)}")
    if now < reminder_at:
        return _no_step(f"{so_far} and gets a reminder in {format_duration(reminder_at - now)}")
    if valid_notice_at(view) is None:
        return Step(name=StepName.WARN, because=f"idle again for more than {idle_for} after a gap in the evidence")
    return Step(name=StepName.REMIND, because=f"still idle, and the owner was last notified {ago_text(last, now)}")


def _no_step(because: str) -> Step:
    return Step(name=StepName.NONE, because=because)
