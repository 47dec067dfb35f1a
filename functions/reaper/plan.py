"""What the policy would do now with each judged resource, given its record. Pure: `act` carries the plan out.

One idle period, one warning, then a reminder every `remind_every`, however often a sweep runs.

An action is due once the time that a warning of the same idle period promised has passed. Actions of a rule's office hours rest on an
enrolment notice instead.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper import idle_period
from reaper.calendars import office_hours
from reaper.case import Case, is_stopped_by_hours, may_act, may_keep_hours
from reaper.duration import format_duration
from reaper.finding import Step
from reaper.model import State, StepName
from reaper.planning import reasons
from reaper.planning.dates import (
    action_due_at,
    enrolled_since,
    forced_stop_at,
    next_reminder_at,
    next_summary_at,
    valid_notice_at,
)
from reaper.planning.possible_actions import is_forced, is_unconfirmed, may_start, strongest_action, was_stopped_by_reaper
from reaper.planning.valid_notice import without_void_notice
from reaper.record import Notice, Record, Snoozes, is_about_hours, is_snoozed, snooze_sentence
from reaper.words import ago_text, frozen_because, plain_participle


def plan_step(case: Case, record: Record, snoozes: Snoozes, now: datetime, *, acting: bool = True) -> Step:
    """The step of one case. An empty record: it was never warned about.

    Without `acting` owners get notices and no action is planned or announced. Actions that another run has announced are left to runs
    that announce. The reason names what keeps an idle resource from every action: `enforce_only`, or a place where nothing may be changed.
    """
    step, blocked = _planned_step(case, record, snoozes, now, acting), case.resource.target.blocked_because
    if case.verdict.state is not State.IDLE:
        return step
    canary = case.rule.notes[-1] if case.rule.only_notices and case.rule.notes else ""
    if canary not in step.because:
        step = replace(step, because=f"{step.because}; {canary}")
    return replace(step, because=f"{step.because}; it isn't stopped or deleted: {blocked}") if blocked else step


def _planned_step(case: Case, record: Record, snoozes: Snoozes, now: datetime, acting: bool) -> Step:
    if because := idle_period.dated_ahead_because(record, now):
        return _no_step(because)
    record = without_void_notice(case, idle_period.without_void_times(record, now), snoozes, now, announces=acting)
    if acting and may_start(case, record, now):
        if record.act and record.act.action is StepName.START and is_unconfirmed(record.act, now):
            return _no_step(reasons.unconfirmed_because(record.act))
        by_reaper = was_stopped_by_reaper(case, record.act)
        why = "the reaper had stopped it" if by_reaper else f"{case.rule.name} starts everything that has office hours"
        return Step(name=StepName.START, because=f"its office hours have begun, and {why}")
    if because := _no_step_because(case, record, snoozes, now, acting):
        return _no_step(because)
    if acting and follows_hours(case, record.notice, now):
        return _hours_step(case, record, now)
    step = _due_step(case, record, now) if acting else None
    if step and step.because != frozen_because(case.rule, now):
        return step
    notice = _notice_step(case, record, now, acting)
    return notice if step is None or notice.name is not StepName.NONE else step


def _no_step_because(case: Case, record: Record, snoozes: Snoozes, now: datetime, acting: bool) -> str | None:
    """Why neither a notice nor an action is considered at all."""
    if not may_act(case) and not (acting and (is_forced(case, now) or _is_enrolled(case, record.notice))):
        return reasons.nothing_to_do_because(case, record.act)
    if is_snoozed(snoozes.own, case.resource.created, now):
        return snooze_sentence(snoozes.own)
    if not acting and has_announced_action(case, record, now):
        return "the owner already has a notice that announces an action, and this run announces none"
    return reasons.unconfirmed_because(record.act) if acting and is_unconfirmed(record.act, now) else None


def _is_enrolled(case: Case, notice: Notice | None) -> bool:
    """Whether its office hours may be kept, and its owner has a valid enrolment notice."""
    return may_keep_hours(case) and enrolled_since(case, notice) is not None


def has_announced_action(case: Case, record: Record, now: datetime) -> bool:
    """Whether a notice that still counts announced an action."""
    notice, notified_at = record.notice, valid_notice_at(case, record, now) or enrolled_since(case, record.notice)
    return (
        notice is not None
        and notified_at is not None
        and notice.action is not None
        and notice.hours != idle_period.VOID_ENROLMENT
    )


def follows_hours(case: Case, notice: Notice | None, now: datetime) -> bool:
    """Whether its office hours, and not idleness alone, decide about it."""
    can_enrol = is_stopped_by_hours(case) and strongest_action(case, now) is not None
    return can_enrol or _is_enrolled(case, notice)


def _hours_step(case: Case, record: Record, now: datetime) -> Step:
    """The step of a rule's office hours: first an enrolment notice, then a stop after each day, and a summary every week."""
    summary_at = next_summary_at(case, record.notice, now)
    if enrolled_since(case, record.notice) is None:
        if summary_at and now < summary_at:  # the last notice was too recent to replace it
            wait = format_duration(summary_at - now)
            void = "the notice about its office hours is no longer valid"
            return _no_step(f"{void}, and nothing is stopped before the next one in {wait}")
        return Step(name=StepName.WARN, because=f"{case.rule.name} sets office hours, and the owner has not been notified")
    step = _due_step(case, record, now)
    if step and step.name is not StepName.NONE:
        return step
    last = ago_text(idle_period.last_notice_at(record.notice) or now, now)
    kept = f"office hours apply to it, and the owner was last notified {last}"
    if summary_at and now >= summary_at and case.verdict.state is not State.UNKNOWN:
        return Step(name=StepName.REMIND, because=kept)
    no_step = step or _no_step(kept if may_act(case) else reasons.nothing_to_do_because(case, record.act))
    return _forced_notice_step(case, record, now) or no_step


def _forced_notice_step(case: Case, record: Record, now: datetime) -> Step | None:
    """The notice of the day before a forced stop, unless a person started the resource outside its hours."""
    if strongest_action(case, now) is None or action_due_at(case, record, now) is not None:
        return None
    if because := reasons.manual_start_because(case, now):
        return _no_step(because)
    if forced_stop_at(case, record.notice, now) is None:
        return None
    because = f"its office hours are over, and {case.rule.name} stops it even while it is in use"
    return Step(name=StepName.REMIND, because=because)


def _due_step(case: Case, record: Record, now: datetime) -> Step | None:
    """The action that is due, or why it waits for office hours or a freeze; None if a notice has to come first or the time hasn't come."""
    action, due, hours = strongest_action(case, now), action_due_at(case, record, now), case.rule.hours
    if action is None or due is None:
        return None
    if because := reasons.manual_start_because(case, now):
        return _no_step(because)
    if hours and office_hours.is_open(hours, now):
        return _no_step("it is within its office hours, so it keeps running")
    if due > now:
        return None
    if because := frozen_because(case.rule, now):
        return _no_step(because)
    ago = ago_text((record.notice and record.notice.warned_at) or now, now)
    if is_stopped_by_hours(case):
        because = f"its office hours are over, and the owner was notified {ago} that they apply"
    else:
        because = (
            f"{case.verdict.because}; the owner was notified {ago} that it would be {plain_participle(case.resource, action)}"
        )
    return Step(name=action, because=because)


def _notice_step(case: Case, record: Record, now: datetime, acting: bool) -> Step:
    """The warning or reminder that is due, or why none is due yet. After a gap in the proof it is a warning: the earlier one is no grace."""
    if because := reasons.outside_hours_because(case, now):
        return _no_step(because)
    action, last = strongest_action(case, now) if acting else None, idle_period.last_notice_at(record.notice)
    idle_for = format_duration(case.rule.idle_after)
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(name=StepName.WARN, because=f"idle for more than {idle_for} under {case.rule.name}{notes}")
    reminder_at, told = next_reminder_at(case, last), f"the owner was notified {ago_text(last, now)}"
    is_daily = is_stopped_by_hours(case) and not is_about_hours(record.notice)  # idle every evening
    if action is None and is_daily and last <= now < reminder_at:
        return _no_step(f"{told} and will be notified again in {format_duration(reminder_at - now)}")
    what, due = plain_participle(case.resource, action) if action else "", action_due_at(case, record, now) if action else None
    if action and due is None:
        return Step(name=StepName.WARN, because=f"the owner has not been notified in this idle period that it will be {what}")
    if due and now < due <= reminder_at:
        return _no_step(f"{told} and it will be {what} in {format_duration(due - now)}")
    if now < reminder_at:
        return _no_step(f"{told} and gets a reminder in {format_duration(reminder_at - now)}")
    if valid_notice_at(case, record, now) is None:
        return Step(name=StepName.WARN, because=f"idle again for more than {idle_for} after a gap in the evidence")
    return Step(name=StepName.REMIND, because=f"still idle, and the owner was last notified {ago_text(last, now)}")


def _no_step(because: str) -> Step:
    return Step(name=StepName.NONE, because=because)
