"""How a memory changes: after a notice, before and after an action, after an undo, and once a verdict is known. Pure.

`plan` only reads memories. The callers of these functions write the results to the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reaper import idle_period, registry
from reaper.case import Case, Step
from reaper.model import AnnouncedAction, ManifestReference, Memory, Result, SideChange, State, StepName
from reaper.planning import dates, possible_actions
from reaper.planning.valid_notice import valid_until, without_void_notice
from reaper.policy import owners


def after_notice(case: Case, memory: Memory, step: Step, receipt: str, now: datetime, *, acting: bool = True) -> Memory:
    """The memory once a channel has accepted a warning or a reminder, with the action it announced.

    A reminder moves no date, except that a later one that it named, because of a freeze or of a stop in use, stands.
    """
    if step.name is StepName.WARN:
        return _after_warning(case, memory, receipt, now, acting)
    if step.name is not StepName.REMIND:
        return memory
    action = possible_actions.strongest_action(case, now) if acting else None
    is_enrolled = dates.enrolled_since(case, memory) is not None
    announced = AnnouncedAction.HOURS if is_enrolled else AnnouncedAction(action) if action else None
    fingerprint = memory.notified_fingerprint if is_enrolled else idle_period.shape(case.resource)
    # Summaries of office hours don't count. A write whose reply was lost is repeated, and counts once.
    is_new = not is_enrolled and memory.reminded_at != now
    named = dates.forced_stop_at(case, memory, now) if is_enrolled else action and dates.reminded_at(case, memory, now, action)
    reminded = replace(
        memory,
        reminded_at=now,
        reminders=(memory.reminders or 0) + 1 if is_new else memory.reminders,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        announced_action=announced,
        notified_fingerprint=fingerprint,
        act_not_before=named if named and named > now else memory.act_not_before,
    )
    return idle_period.without_claim(reminded) if is_enrolled else _with_claim(case, reminded, now)


def _with_claim(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory with the time that a notice at `now` calls idle. Late metrics may yet prove it wrong."""
    if case.verdict.state is not State.IDLE:
        return idle_period.without_claim(memory)
    return replace(
        memory, claimed_since=idle_period.proven_idle_since(case, now), claimed_until=now, claimed_to=case.owner.address
    )


def _after_warning(case: Case, memory: Memory, receipt: str, now: datetime, acting: bool) -> Memory:
    action, hours = possible_actions.strongest_action(case, now) if acting else None, case.rule.hours
    enrols = action is not None and hours is not None and possible_actions.is_stopped_by_hours(case)
    warned = replace(
        idle_period.without_reminders(memory),
        warned_at=now,
        reminded_at=None,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        notified_fingerprint=idle_period.shape(case.resource),
        announced_action=AnnouncedAction.HOURS if enrols else AnnouncedAction(action) if action else None,
        act_not_before=dates.earliest_action_at(case, now, action) if action else None,
        enrolment_digest=dates.hours_digest(hours) if enrols and hours else None,
    )
    return idle_period.without_claim(warned) if enrols else _with_claim(case, warned, now)


def after_take_back(memory: Memory, hour: datetime | None) -> Memory:
    """The memory once the addressee of a wrong notice has the message about that hour."""
    return replace(memory, wrong_hour=None, wrong_notice_at=None, wrong_notice_to=None) if memory.wrong_hour == hour else memory


def after_action_mail(case: Case, memory: Memory, action: StepName, receipt: str, now: datetime) -> Memory:
    """The memory once a channel has accepted the mail about an action: it is the notice of what follows, the rest or a delete by `then`."""
    return replace(
        idle_period.without_notice(memory),
        warned_at=now,
        notice_receipt=receipt,
        notified_owner=case.owner.address,
        announced_action=AnnouncedAction(action),
        act_not_before=dates.earliest_action_at(case, now, action),
        last_action_told_at=now,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunAction:
    """What the intent of an action records before its first call."""

    action: StepName
    run: str
    at: datetime
    manifest: ManifestReference | None = None
    created: datetime | None = None
    changes: tuple[SideChange, ...] = ()


def before_action(memory: Memory, begun: BegunAction) -> Memory:
    """The memory just before an action, so that later runs know that it may have been carried out.

    A start keeps the manifest of its stop.
    """
    manifest = manifest_reference(memory) if begun.action is StepName.START else begun.manifest
    return replace(
        memory,
        last_action=begun.action,
        last_action_at=begun.at,
        manifest_address=manifest.address if manifest else None,
        manifest_sha256=manifest.sha256 if manifest else None,
        last_action_run=begun.run,
        last_action_result=None,
        last_action_because=None,
        last_action_part=None,
        last_action_told_at=None,
        last_action_changes=begun.changes or None,
        last_action_created=begun.created if begun.changes else None,
        last_call_at=begun.at,
    )


def manifest_reference(memory: Memory) -> ManifestReference | None:
    """The manifest that the row names with its hash; None if it names none."""
    if memory.manifest_address is None or memory.manifest_sha256 is None:
        return None
    return ManifestReference(address=memory.manifest_address, sha256=memory.manifest_sha256)


def without_intent(memory: Memory, before: Memory) -> Memory:
    """The memory without an intent that led to no call: what it recorded about the previous action."""
    fields = [name for name in Memory.__dataclass_fields__ if name.startswith(("last_action", "last_call", "manifest_"))]
    return replace(memory, **{name: getattr(before, name) for name in fields})


def with_result(memory: Memory, result: Result, because: str, part: str | None = None) -> Memory:
    """The memory once the result of an action is known, or can't be known: its notice is used up."""
    return replace(
        after_action(memory),
        last_action_result=result,
        last_action_because=because,
        last_action_part=part,
        last_action_told_at=None,
        last_action_changes=None,
        last_action_created=None,
    )


def after_call(memory: Memory, now: datetime) -> Memory:
    """The memory after a call that changed the resource: its idle time counts from here."""
    return replace(memory, last_call_at=now)


def with_unknown_result(memory: Memory) -> Memory:
    """The memory once an action of an earlier run is closed with an unknown result."""
    when = memory.last_action_at.astimezone(UTC) if memory.last_action_at else None
    because = (
        f"it isn't known whether the action was carried out: run {memory.last_action_run} started it on {when:%Y-%m-%d %H:%M} UTC "
        "and stopped before recording the result"
    )
    return with_result(memory, Result.FAILED, because)


def closed_unknown(memory: Memory) -> Memory:
    """The memory with an action that is still open closed with an unknown result."""
    return with_unknown_result(memory) if is_unfinished(memory) else memory


def left_stopped(memory: Memory) -> Memory:
    """The memory of what office hours stopped and don't start: its owner gets a mail, and other hours need a new notice."""
    because = f"{memory.last_action_because}; it is protected or its office hours no longer apply, so it isn't started for now"
    return replace(idle_period.without_notice(memory), last_action_told_at=None, last_action_because=because)


def is_unfinished(memory: Memory, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action whose result is unknown."""
    return memory.last_action is not None and memory.last_action_result is None and memory.last_action_run != run


def is_interrupted(memory: Memory, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action that may be half done. What is silent because of it proves nothing."""
    return is_unfinished(memory, run) and bool(memory.last_action_changes)


def is_unsettled(memory: Memory, run: str | None = None) -> bool:
    """Whether an action may be half done: an interrupted one, or one that the ledger doesn't know."""
    return is_interrupted(memory, run) or memory.lost_manifest is not None


def after_action(memory: Memory) -> Memory:
    """The memory after an action: its notice is used up, and another action needs another notice. An enrolment lasts."""
    base = memory if idle_period.notice_was_about_hours(memory) else idle_period.without_notice(memory)
    return replace(idle_period.without_claim(base), idle_since=None, last_seen_idle_at=None)


def after_undo(memory: Memory, now: datetime) -> Memory:
    """The memory after an undo: of the action it keeps only when the resource was last changed. Another action needs a new notice."""
    return after_call(without_intent(after_action(memory), Memory()), now)


def after_judging(case: Case, memory: Memory, now: datetime, host: Memory | None = None, *, announces: bool = True) -> Memory:
    """The memory once this verdict is known; equal to `memory` if nothing needs to be written. `host` and `announces`: see `void_because`.

    A notice that this look shows to be void is removed. Use, change and protection end the idle period. `unknown` and free resources leave it as
    it was. Pass the case as judged, before `with_snooze`, so that an idle period lasts through a snooze. Snoozes, actions and manifests are
    only touched once they are over, or if a snooze was for an earlier resource with this ID. "Not mine" ends once a whole look finds another
    owner. Otherwise a row that is dated ahead stays, so that later runs see it.
    """
    stored, memory = memory, without_void_notice(case, memory, now, host, announces=announces)
    if memory == stored and idle_period.dated_ahead_because(stored, now):
        return stored
    found = case.owner.disowned_by or case.owner.address
    is_whole = case.resource.tags is not None and case.verdict.state is not State.UNKNOWN
    if memory.disowned_by and is_whole and not owners.is_disowned(case.resource, memory, found):
        memory = replace(memory, disowned_by=None, disowned_at=None)
    if memory.snoozed_until and not possible_actions.is_snoozed(case, memory, now):
        memory = _without_ended_snooze(case, memory, now)
    is_in_use = case.verdict.state is State.ACTIVE or (case.rule.protected_because and not case.rule.in_doubt)
    case, since = idle_period.since_own_call(case, memory, now), memory.idle_since
    # What is merely too young for its rule is still idle, as far as the memory is concerned.
    if is_in_use or (since and case.verdict.state is State.YOUNG and idle_period.has_ended(case, memory, since, now)):
        return replace(idle_period.without_reminders(memory), idle_since=None, last_seen_idle_at=None)
    return idle_period.seen_idle(case, memory, now) if possible_actions.may_act(case) else memory


def _without_ended_snooze(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory without a snooze that is over. That of what may host others stays while a notice about them could still count."""
    counts = memory.snoozed_until is not None and now <= valid_until(case, memory.snoozed_until)
    may_host = any(kind.host == case.resource.kind for kind in registry.kinds())
    stays = counts and may_host and not possible_actions.is_recreated(case, memory)
    return memory if stays else replace(memory, snoozed_until=None, snoozed_at=None, snoozed_by=None, snooze_reason=None)
