"""What the policy would do now with each judged resource, given its memory. Pure: `act` carries the plan out.

One idle period, one warning, then a reminder every `remind_every`, however often a sweep runs.

An action is due once the time that a warning of the same idle period promised has passed. Actions of a rule's office hours rest on an
enrolment notice instead.
"""

from __future__ import annotations

from datetime import datetime

from reaper import idle_period
from reaper.case import Case, Step
from reaper.model import Memory, State, StepName
from reaper.planning import reasons
from reaper.planning.dates import (
    action_due_at,
    enrolled_since,
    forced_stop_at,
    next_reminder_at,
    next_summary_at,
    valid_notice_at,
)
from reaper.planning.possible_actions import (
    is_forced,
    is_snoozed,
    is_stopped_by_hours,
    is_unconfirmed,
    may_act,
    may_keep_hours,
    may_start,
    snooze_sentence,
    strongest_action,
)
from reaper.planning.valid_notice import without_void_notice


def plan_step(case: Case, memory: Memory, now: datetime, *, acting: bool = True) -> Step:
    """The step of one case. An empty memory: it was never warned about.

    Without `acting` owners get notices and no action is planned or announced. Actions that another run has announced are left to runs
    that announce.
    """
    step = _planned_step(case, memory, now, acting)
    return reasons.with_blocked_target(reasons.with_canary_reason(step, case), case)


def _planned_step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    if because := idle_period.dated_ahead_because(memory, now):
        return _no_step(because)
    memory = without_void_notice(case, idle_period.without_void_times(memory, now), now, announces=acting)
    if acting and may_start(case, memory, now):
        return _start_step(case, memory, now)
    if because := _no_step_because(case, memory, now, acting):
        return _no_step(because)
    if acting and follows_hours(case, memory, now):
        return _hours_step(case, memory, now)
    step = _due_step(case, memory, now) if acting else None
    if step and step.because != reasons.frozen_because(case.rule, now):
        return step
    notice = _notice_step(case, memory, now, acting)
    return notice if step is None or notice.name is not StepName.NONE else step


def _no_step_because(case: Case, memory: Memory, now: datetime, acting: bool) -> str | None:
    """Why neither a notice nor an action is considered at all."""
    if not may_act(case) and not (acting and (is_forced(case, now) or _is_enrolled(case, memory, now))):
        return reasons.nothing_to_do_because(case, memory)
    if is_snoozed(case, memory, now):
        return snooze_sentence(memory)
    if not acting and has_announced_action(case, memory, now):
        return reasons.ANNOUNCED_BEFORE
    return reasons.unconfirmed_because(memory) if acting and is_unconfirmed(memory, now) else None


def _is_enrolled(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether its office hours may be kept, and its owner has a valid enrolment notice."""
    return may_keep_hours(case) and enrolled_since(case, memory) is not None


def has_announced_action(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a notice that still counts announced an action."""
    notified_at = valid_notice_at(case, memory, now) or enrolled_since(case, memory)
    is_void = memory.enrolment_digest == idle_period.VOID_ENROLMENT
    return notified_at is not None and memory.announced_action is not None and not is_void


def follows_hours(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether its office hours, and not idleness alone, decide about it."""
    can_enrol = is_stopped_by_hours(case) and strongest_action(case, now) is not None
    return can_enrol or _is_enrolled(case, memory, now)


def _start_step(case: Case, memory: Memory, now: datetime) -> Step:
    if memory.last_action is StepName.START and is_unconfirmed(memory, now):
        return _no_step(reasons.unconfirmed_because(memory))
    return Step(name=StepName.START, because=reasons.start_because(case, memory))


def _hours_step(case: Case, memory: Memory, now: datetime) -> Step:
    """The step of a rule's office hours: first an enrolment notice, then a stop after each day, and a summary every week."""
    if enrolled_since(case, memory) is None:
        return _enrolment_step(case, memory, now)
    step = _due_step(case, memory, now)
    if step and step.name is not StepName.NONE:
        return step
    return (
        _summary_step(case, memory, now)
        or _forced_notice_step(case, memory, now)
        or step
        or _no_step(reasons.kept_hours_because(memory, now) if may_act(case) else reasons.nothing_to_do_because(case, memory))
    )


def _enrolment_step(case: Case, memory: Memory, now: datetime) -> Step:
    """The enrolment notice, unless the last notice was too recent to replace it."""
    next_notice_at = next_summary_at(case, memory, now)
    if next_notice_at and now < next_notice_at:
        return _no_step(reasons.void_enrolment_because(next_notice_at, now))
    return Step(name=StepName.WARN, because=reasons.not_enrolled_because(case))


def _summary_step(case: Case, memory: Memory, now: datetime) -> Step | None:
    """The weekly summary, if it is due."""
    summary_at = next_summary_at(case, memory, now)
    if summary_at is None or now < summary_at or case.verdict.state is State.UNKNOWN:
        return None
    return Step(name=StepName.REMIND, because=reasons.kept_hours_because(memory, now))


def _forced_notice_step(case: Case, memory: Memory, now: datetime) -> Step | None:
    """The notice of the day before a forced stop, unless a person started the resource outside its hours."""
    if strongest_action(case, now) is None or action_due_at(case, memory, now) is not None:
        return None
    if because := reasons.manual_start_because(case, now):
        return _no_step(because)
    if forced_stop_at(case, memory, now) is None:
        return None
    return Step(name=StepName.REMIND, because=reasons.forced_stop_because(case))


def _due_step(case: Case, memory: Memory, now: datetime) -> Step | None:
    """The action that is due, or why it waits for office hours or a freeze; None if a notice has to come first or the time hasn't come."""
    action, due = strongest_action(case, now), action_due_at(case, memory, now)
    if action is None or due is None:
        return None
    if because := reasons.left_running_because(case, now):
        return _no_step(because)
    if due > now:
        return None
    if because := reasons.frozen_because(case.rule, now):
        return _no_step(because)
    return Step(name=action, because=reasons.due_because(case, memory, action, now))


def _notice_step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    """The warning or reminder that is due, or why none is due yet."""
    if because := reasons.outside_hours_because(case, now):
        return _no_step(because)
    action = strongest_action(case, now) if acting else None
    if action is None and (because := reasons.recent_notice_because(case, memory, now)):
        return _no_step(because)
    last = idle_period.last_notice_at(memory)
    if last is None:
        return Step(name=StepName.WARN, because=reasons.first_notice_because(case))
    if action and action_due_at(case, memory, now) is None:
        return Step(name=StepName.WARN, because=reasons.unannounced_because(case, action))
    if now < next_reminder_at(case, last):
        return _no_step(reasons.waiting_because(case, memory, action, last, now))
    return _repeated_notice_step(case, memory, last, now)


def _repeated_notice_step(case: Case, memory: Memory, last: datetime, now: datetime) -> Step:
    """A reminder, or a new warning if the earlier one no longer counts as grace."""
    if valid_notice_at(case, memory, now) is None:
        return Step(name=StepName.WARN, because=reasons.idle_again_because(case))
    return Step(name=StepName.REMIND, because=reasons.still_idle_because(last, now))


def _no_step(because: str) -> Step:
    return Step(name=StepName.NONE, because=because)
