"""How a memory changes: after a notice, before and after an action, after an undo, and once a verdict is known. Pure.

`plan` only reads memories. The callers of these functions write the results to the ledger.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper import idle_period
from reaper.case import Case, Step
from reaper.model import AnnouncedAction, Memory, Result, State, StepName
from reaper.planning import dates, enrolment, possible_actions, snoozed_cases


def after_host_snooze(memory: Memory, host: Memory | None) -> Memory:
    """The memory once a snooze of its host has answered its notice, as its own snooze would."""
    last = memory.warned_at if idle_period.notice_was_about_hours(memory) else idle_period.last_notice_at(memory)
    until = host.snoozed_until if host else None
    return idle_period.after_answered_notice(memory) if last and until and last < until else memory


def after_notice(case: Case, memory: Memory, step: Step, receipt: str, now: datetime, *, acting: bool = True) -> Memory:
    """The memory once a channel has accepted a warning or a reminder, with the action it announced. A reminder never moves the date."""
    if step.name is StepName.WARN:
        return _after_warning(case, memory, receipt, now, acting)
    if step.name is not StepName.REMIND:
        return memory
    action = possible_actions.strongest_action(case, now) if acting else None
    is_enrolled = enrolment.enrolled_since(case, memory, now) is not None
    announced = AnnouncedAction.HOURS if is_enrolled else AnnouncedAction(action) if action else None
    fingerprint = memory.notified_fingerprint if is_enrolled else case.resource.fingerprint
    return replace(
        memory,
        reminded_at=now,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        announced_action=announced,
        notified_fingerprint=fingerprint,
    )


def _after_warning(case: Case, memory: Memory, receipt: str, now: datetime, acting: bool) -> Memory:
    action, hours = possible_actions.strongest_action(case, now) if acting else None, case.rule.hours
    enrols = action is not None and hours is not None and enrolment.is_stopped_by_hours(case)
    return replace(
        memory,
        warned_at=now,
        reminded_at=None,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        notified_fingerprint=case.resource.fingerprint,
        announced_action=AnnouncedAction.HOURS if enrols else AnnouncedAction(action) if action else None,
        act_not_before=dates.earliest_action_at(case, now) if action else None,
        enrolment_digest=enrolment.hours_digest(hours) if enrols and hours else None,
        held_at=None,
    )


def after_part_notice(case: Case, memory: Memory, receipt: str, now: datetime) -> Memory:
    """The memory once a channel has accepted the mail about the first part of an action: it is the notice for the rest."""
    return replace(
        idle_period.without_notice(memory),
        warned_at=now,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        announced_action=AnnouncedAction(memory.last_action or StepName.STOP),
        act_not_before=dates.earliest_action_at(case, now),
        last_action_told_at=now,
    )


def before_action(memory: Memory, action: StepName, manifest: str | None, run: str, now: datetime) -> Memory:
    """The memory just before an action, so that later runs know that it may have been carried out. A start keeps the manifest of its stop."""
    return replace(
        memory,
        last_action=action,
        last_action_at=now,
        manifest_address=manifest or memory.manifest_address,
        last_action_run=run,
        last_action_result=None,
        last_action_because=None,
        last_action_part=None,
        last_action_told_at=None,
    )


def without_intent(memory: Memory, before: Memory) -> Memory:
    """The memory without an intent that led to no call: what it recorded about the previous action."""
    return replace(
        memory,
        last_action=before.last_action,
        last_action_at=before.last_action_at,
        manifest_address=before.manifest_address,
        last_action_run=before.last_action_run,
        last_action_result=before.last_action_result,
        last_action_because=before.last_action_because,
        last_action_part=before.last_action_part,
        last_action_told_at=before.last_action_told_at,
    )


def with_result(memory: Memory, result: Result, because: str, part: str | None = None) -> Memory:
    """The memory once the result of an action is known, or can't be known: its notice is used up."""
    return replace(after_action(memory), last_action_result=result, last_action_because=because, last_action_part=part)


def after_going_with_host(memory: Memory, action: StepName, because: str, run: str, now: datetime) -> Memory:
    """The memory of a resource that was stopped or deleted with its host: done, and its owner not yet notified."""
    return with_result(before_action(memory, action, None, run, now), Result.DONE, because)


def with_unknown_result(memory: Memory) -> Memory:
    """The memory once an action of an earlier run is closed with an unknown result."""
    when = memory.last_action_at.astimezone(UTC) if memory.last_action_at else None
    run = f"run {memory.last_action_run}" if memory.last_action_run else "a run of an earlier version"
    because = (
        f"it isn't known whether the action was carried out: {run} started it on {when:%Y-%m-%d %H:%M} UTC and stopped before "
        "recording the result"
    )
    return with_result(memory, Result.FAILED, because)


def is_unfinished(memory: Memory, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action whose result is unknown.

    Version 49f8b6c stored no result. Its action is open if the notice that it used up is still there.
    """
    if memory.last_action is None or memory.last_action_at is None or memory.last_action_result is not None:
        return False
    if memory.last_action_run is not None:
        return memory.last_action_run != run
    return (
        memory.warned_at is not None
        and memory.warned_at <= memory.last_action_at
        and memory.last_action in possible_actions.ACTION_STRENGTH
    )


def after_action(memory: Memory) -> Memory:
    """The memory after an action: its notice is used up, and another action needs another notice. An enrolment lasts."""
    base = memory if idle_period.notice_was_about_hours(memory) else idle_period.without_notice(memory)
    return replace(base, idle_since=None, last_seen_idle_at=None)


def after_undo(memory: Memory) -> Memory:
    """The memory after an undo: it has no trace of the action, and another action needs a new notice."""
    return without_intent(after_action(memory), Memory())


def after_judging(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory once this verdict is known; equal to `memory` if nothing needs to be written.

    Use, change and protection end the idle period. `unknown` and free resources leave it as it was. Pass the case as judged, before
    `with_snooze`, so that an idle period lasts through a snooze. Snoozes, actions and manifests are only touched once they are over, or if
    a snooze was for an earlier resource with this ID.
    """
    if memory.snoozed_until and not snoozed_cases.is_snoozed(case, memory, now):
        memory = _without_ended_snooze(
            case, idle_period.after_answered_notice(memory) if idle_period.notice_led_to_snooze(memory, now) else memory, now
        )
    if case.verdict.state in {State.ACTIVE, State.YOUNG} or case.rule.protected_because:
        return replace(
            memory if _notice_goes_on(case, memory, now) else idle_period.without_notice(memory),
            idle_since=None,
            last_seen_idle_at=None,
        )
    return idle_period.seen_idle(case, memory, now) if possible_actions.may_act(case) else memory


def _without_ended_snooze(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory without a snooze that is over. If other resources live inside, the snooze stays while a notice about them could still count: it
    answers that notice too, and their rows may not be read today.
    """
    counts = memory.snoozed_until is not None and now <= memory.snoozed_until + idle_period.notice_valid_for(case)
    stays = counts and case.resource.contained and not snoozed_cases.is_recreated(case, memory)
    return memory if stays else idle_period.without_snooze(memory)


def _notice_goes_on(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a notice lasts although the resource isn't idle now: a notice of office hours, or of the rest of an action that made it young.

    A notice of office hours lasts even while the hours only protect, for example under a rule with a price condition while the price is
    unknown. `enrolment.enrolled_since` decides each time whether the enrolment counts.
    """
    if idle_period.notice_outlasts_use(case, memory):
        return case.rule.hours is not None
    rest = case.verdict.state is State.YOUNG and idle_period.notice_was_for_part(memory) and not case.rule.protected_because
    return rest and not idle_period.notice_expired(case, memory, now)
