"""The reasons of planned steps, as sentences for people: lower case, without a full stop. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from reaper import idle_period
from reaper.calendars.adding import freeze_at
from reaper.case import Case, Step
from reaper.duration import format_duration
from reaper.model import Memory, Resource, Rule, State, StepName
from reaper.planning.dates import action_due_at, next_reminder_at
from reaper.planning.possible_actions import is_native, is_stopped_by_hours, manual_start_at, was_stopped_by_reaper
from reaper.policy import office_hours
from reaper.text import count_noun

PARTICIPLES = {StepName.STOP: "stopped", StepName.DELETE: "deleted", StepName.START: "started"}
"""The participle of an action if the kind has none of its own."""
ANNOUNCED_BEFORE = "the owner already has a notice that announces an action, and this run announces none"


def participle(resource: Resource, action: StepName) -> str:
    """Completes `it was ...`, without the words of its kind."""
    return "switched to its own idle shutdown" if is_native(resource, action) else PARTICIPLES.get(action, action.value)


def nothing_to_do_because(case: Case, memory: Memory) -> str:
    """Why there is no step: it is as the reaper left it, or its state needs none."""
    blocked = case.blocked.get(memory.last_action) if memory.last_action else None
    if blocked and blocked.already_done and memory.last_action_at:
        return f"it is unchanged since the reaper's action on {memory.last_action_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {blocked.because}"
    return f"nothing to do: it is {case.verdict.state}"


def with_canary_reason(step: Step, case: Case) -> Step:
    """The step of an idle resource that `enforce_only` leaves out, with that reason."""
    because = case.rule.notes[-1] if case.rule.only_notices and case.rule.notes and case.verdict.state is State.IDLE else ""
    return replace(step, because=f"{step.because}; {because}") if because and because not in step.because else step


def with_blocked_target(step: Step, case: Case) -> Step:
    """The step of an idle resource in a place where nothing may be changed now, with that reason."""
    because = case.resource.target.blocked_because if case.verdict.state is State.IDLE else None
    return replace(step, because=f"{step.because}; it isn't stopped or deleted: {because}") if because else step


def unconfirmed_because(memory: Memory) -> str:
    """Why an action that was just requested is left to finish."""
    return f"{memory.last_action or StepName.STOP} requested; the next sweep checks the result"


def start_because(case: Case, memory: Memory) -> str:
    """Why office hours start it."""
    by_reaper = was_stopped_by_reaper(case, memory)
    why = "the reaper had stopped it" if by_reaper else f"{case.rule.name} starts everything that has office hours"
    return f"its office hours have begun, and {why}"


def due_because(case: Case, memory: Memory, action: StepName, now: datetime) -> str:
    """Why an action is due."""
    ago = _ago(memory.warned_at or now, now)
    if is_stopped_by_hours(case):
        return f"its office hours are over, and the owner was notified {ago} that they apply"
    return f"{case.verdict.because}; the owner was notified {ago} that it would be {participle(case.resource, action)}"


def frozen_because(rule: Rule, now: datetime) -> str | None:
    """Why nothing is stopped or deleted under the rule now: a freeze, or a calendar that can't be read."""
    if rule.waits_because:
        return f"nothing is stopped or deleted because {rule.waits_because}"
    freeze = freeze_at(rule.freezes, now)
    return f"frozen by {freeze.calendar} until {freeze.end.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if freeze else None


def grace_words(rule: Rule) -> str:
    """`3 days`, or `2 business days (germany)`."""
    days = rule.business_days
    return f"{count_noun(days.count, 'business day')} ({days.calendar})" if days else format_duration(rule.grace)


def left_running_because(case: Case, now: datetime) -> str | None:
    """Why an announced action isn't carried out now: a start outside its office hours, or the hours themselves."""
    hours = case.rule.hours
    within = "it is within its office hours, so it keeps running" if hours and office_hours.is_open(hours, now) else None
    return manual_start_because(case, now) or within


def manual_start_because(case: Case, now: datetime) -> str | None:
    """Why it is left running outside its hours: a person started it there recently."""
    started, hours = manual_start_at(case, now), case.rule.hours
    if started is None or hours is None:
        return None
    return (
        f"it was started outside its office hours {_ago(started, now)}, and such a start keeps it running for "
        f"{format_duration(hours.override)}"
    )


def outside_hours_because(case: Case, now: datetime) -> str | None:
    """Why its silence is no reason for a notice: it can't be started again, so its hours only protect, and it was silent in none of them."""
    hours, since = case.rule.hours, idle_period.proven_idle_since(case, now)
    if hours is None or StepName.START in case.blocked or now - since >= case.rule.remind_every:
        return None
    return None if office_hours.were_open_between(hours, since, now) else "it hasn't been silent through its office hours"


def not_enrolled_because(case: Case) -> str:
    """Why an enrolment notice is due."""
    return f"{case.rule.name} sets office hours, and the owner has not been notified"


def void_enrolment_because(next_notice_at: datetime, now: datetime) -> str:
    """Why an enrolment that is no longer valid isn't replaced yet."""
    wait = format_duration(next_notice_at - now)
    return f"the notice about its office hours is no longer valid, and nothing is stopped before the next one in {wait}"


def kept_hours_because(memory: Memory, now: datetime) -> str:
    """Why there is no step, or the weekly summary, for a resource whose office hours are kept."""
    return f"office hours apply to it, and the owner was last notified {_ago(idle_period.last_notice_at(memory) or now, now)}"


def forced_stop_because(case: Case) -> str:
    """Why its owner gets a notice before a forced stop."""
    return f"its office hours are over, and {case.rule.name} stops it even while it is in use"


def first_notice_because(case: Case) -> str:
    """Why the first warning is due."""
    notes = "".join(f"; {note}" for note in case.rule.notes)
    return f"idle for more than {format_duration(case.rule.idle_after)} under {case.rule.name}{notes}"


def unannounced_because(case: Case, action: StepName) -> str:
    """Why a warning is due although its owner has had one: no notice announced this action."""
    return f"the owner has not been notified in this idle period that it will be {participle(case.resource, action)}"


def waiting_because(case: Case, memory: Memory, action: StepName | None, last: datetime, now: datetime) -> str:
    """Why there is no step between two notices, and what comes next."""
    reminder_at = next_reminder_at(case, last)
    due = action_due_at(case, memory, now) if action else None
    if action and due and now < due <= reminder_at:
        following = f"it will be {participle(case.resource, action)} in {format_duration(due - now)}"
    else:
        following = f"gets a reminder in {format_duration(reminder_at - now)}"
    return f"the owner was notified {_ago(last, now)} and {following}"


def idle_again_because(case: Case) -> str:
    """Why a warning is due after a gap in the proof."""
    return f"idle again for more than {format_duration(case.rule.idle_after)} after a gap in the evidence"


def still_idle_because(last: datetime, now: datetime) -> str:
    """Why a reminder is due."""
    return f"still idle, and the owner was last notified {_ago(last, now)}"


def recent_notice_because(case: Case, memory: Memory, now: datetime) -> str | None:
    """Why a resource that is idle every evening, and on which no action can be announced, gets no notice yet: the last one was recent."""
    last = idle_period.last_notice_at(memory)
    if last is None or not is_stopped_by_hours(case):
        return None
    if idle_period.notice_was_about_hours(memory):
        return None
    reminder_at = next_reminder_at(case, last)
    if not last <= now < reminder_at:
        return None
    return f"the owner was notified {_ago(last, now)} and will be notified again in {format_duration(reminder_at - now)}"


def _ago(when: datetime, now: datetime) -> str:
    length = max(now - when, timedelta())  # the other clock may be a little ahead
    return f"{format_duration(length)} ago"
