"""What earlier runs began and didn't get to report: closed if its result is unknown, and reported to its owner.

An action leaves a hint before its first call, which is removed once its owner knows. The hints that remain show where a run ended early.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper import memory_updates
from reaper.actions import intent
from reaper.case import Case, Finding, Outcome, Owner, Step
from reaper.errors import CloudError, Reason
from reaper.ledger.port import HistoryEntry, Ledger, Recalled, Unfinished
from reaper.ledger.stored_text import comparable_id
from reaper.model import Ceiling, Memory, Resource, Result, Rule, State, StepName, Target, Verdict
from reaper.planning import possible_actions

AND_THE_REST = ", and the rest was announced"
TOLD_ENTRY = "told"
"""In the history: a channel accepted the mail about an action."""
WENT_ENTRY = "went"
"""In the history: it was stopped or deleted with its host, whose ID the entry has as `because`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedActions:
    """After closing: the current memories, every hint, and the hints of what was closed just now."""

    memories: Recalled
    hints: tuple[Unfinished, ...]
    closed: tuple[Unfinished, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoldAction:
    """An action of an earlier run whose owner has no mail about it yet: the hint that led to it, and its outcome."""

    hint: Unfinished
    outcome: Outcome


def unfinished_entry(case: Case, action: StepName, run: str, at: datetime) -> Unfinished:
    """The hint of an action of that run."""
    resource = case.resource
    return Unfinished(
        target=resource.target,
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        region=resource.region,
        owner=case.owner.address,
        action=action,
        run=run,
        at=at,
    )


def read_unfinished(
    ledger: Ledger, targets: Iterable[Target], now: datetime, listed: Collection[str]
) -> tuple[list[Unfinished], list[CloudError]]:
    """Every hint in those targets, and the errors of hints that can't be understood; these stay.

    Their IDs are written as in `listed`, the way the services write them today. Raises CloudError if the ledger does not answer.
    """
    hints: list[Unfinished] = []
    errors: list[CloudError] = []
    for target in sorted(targets, key=str):
        try:
            hints += ledger.unfinished(target, now)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            errors.append(error)
    spelled = {comparable_id(resource_id): resource_id for resource_id in listed}
    return [replace(hint, id=spelled.get(comparable_id(hint.id), hint.id)) for hint in hints], errors


def close_unfinished_actions(
    hints: Sequence[Unfinished], cases: Mapping[str, Case], memories: Recalled, ledger: Ledger, run_id: str, now: datetime
) -> ClosedActions:
    """Close every open action of a resource that is listed or has a hint, and add a hint for those that have none.

    Those of run `run_id` stay open.

    A host's row alone leads to no mail: its action is closed when the host is listed. Raises CloudError.
    """
    own_ids = {*cases, *(hint.id for hint in hints)}
    unfinished_ids = [
        id_
        for id_, memory in memories.items()
        if id_ in own_ids and memory_updates.is_unfinished(memory) and memory.last_action_run != run_id
    ]
    for resource_id in unfinished_ids:
        intent.close_unfinished(ledger, resource_id, memories[resource_id], now)
    memories = _with_rows_read_again(memories, unfinished_ids, ledger, now)
    every_hint = [*hints, *_add_missing_hints(unfinished_ids, hints, cases, memories, ledger)]
    closed = tuple(hint for hint in every_hint if hint.id in unfinished_ids)
    return ClosedActions(memories=memories, hints=tuple(every_hint), closed=closed)


def settle_told_actions(
    hints: Sequence[Unfinished], cases: Mapping[str, Case], memories: Recalled, ledger: Ledger, now: datetime
) -> tuple[Recalled, list[UntoldAction]]:
    """The memories, and the actions whose owners have no mail about them yet.

    Hints that lead nowhere are removed. If a channel accepted the mail before its run ended, that is recorded now. Raises CloudError.
    """
    untold: list[UntoldAction] = []
    for hint in hints:
        if hint.id in memories.unreadable:
            continue
        memory = memories.get(hint.id, Memory())
        if not _awaits_mail(memory, hint):
            ledger.remove_unfinished(hint.target, hint.id)
            continue
        action = UntoldAction(hint=hint, outcome=_outcome_in(memory))
        mail = accepted_mail(hint, ledger)
        if mail is None:
            untold.append(action)
            continue
        announced = mail.because.endswith(AND_THE_REST)
        finding = untold_finding(action, cases.get(hint.id))
        change = change_after_mail(finding, mail.by, mail.when) if announced else unchanged
        intent.record_owner_told(ledger, hint, mail.when, change)
        memories = _with_rows_read_again(memories, [hint.id], ledger, now)
    return memories, untold


def _awaits_mail(memory: Memory, hint: Unfinished) -> bool:
    """Whether the row still has the hint's intent, with a result whose mail the owner hasn't got yet."""
    return (
        intent.is_same_intent(memory, hint)
        and not memory.last_action_told_at
        and memory.last_action_result is not None
        and not _is_in_weekly_summary(memory)
    )


def _with_rows_read_again(memories: Recalled, ids: Sequence[str], ledger: Ledger, now: datetime) -> Recalled:
    if not ids:
        return memories
    updated = ledger.recall(ids, now)
    errors = {resource_id: memories.error_of(resource_id) for resource_id in memories.unreadable} | {
        resource_id: updated.error_of(resource_id) for resource_id in updated.unreadable
    }
    return Recalled({**{resource_id: m for resource_id, m in memories.items() if resource_id not in errors}, **updated}, errors)


def change_after_mail(finding: Finding, receipt: str, when: datetime) -> Callable[[Memory], Memory]:
    """How a mail about an action, accepted at `when`, changes its row: if a part was done, the mail is the notice for the rest."""
    announces_rest = finding.outcome.part_done is not None and possible_actions.may_keep_hours(finding.case)
    return lambda memory: memory_updates.after_part_notice(finding.case, memory, receipt, when) if announces_rest else memory


def history_reason(entry: Unfinished, *, rest: bool = False) -> str:
    """The reason in the history entry of a mail about that action, and whether the mail announced the rest."""
    return f"of run {entry.run}: {entry.action}{AND_THE_REST if rest else ''}"


def closed_actions_error(closed: Sequence[Unfinished], memories: Mapping[str, Memory]) -> CloudError | None:
    """The error in the report about the actions that were closed just now."""
    if not closed:
        return None
    more = f" (and {len(closed) - 1} more)" if len(closed) > 1 else ""
    resource_id = closed[0].id
    memory = dict(memories).get(resource_id, Memory())  # a plain copy: reading an unreadable row raises
    because = memory.last_action_because or "its ledger record can't be read"
    return CloudError(Reason.PARTIAL, "act", f"{resource_id}: {because}; `reaper restore {resource_id}` undoes it{more}")


def _is_in_weekly_summary(memory: Memory) -> bool:
    """Whether the weekly summary is enough for its owner. A stop by office hours leaves no hint, so one with a hint gets a mail."""
    return memory.last_action is StepName.START and memory.last_action_result is Result.DONE


def accepted_mail(entry: Unfinished, ledger: Ledger) -> HistoryEntry | None:
    """The history entry of the mail about it that a channel accepted before its run ended; None if there is none."""
    texts = {history_reason(entry), history_reason(entry, rest=True)}
    return next((e for e in ledger.history(entry.id) if e.what == TOLD_ENTRY and e.because in texts), None)


def unchanged(memory: Memory) -> Memory:
    """The row unchanged, for a mail that announced nothing more."""
    return memory


def _add_missing_hints(
    closed: Iterable[str], hints: Sequence[Unfinished], cases: Mapping[str, Case], memories: Mapping[str, Memory], ledger: Ledger
) -> list[Unfinished]:
    """Add the hints that open actions of version 49f8b6c lack, so that a later run sends the mail if today's fails."""
    added = []
    for resource_id in sorted(set(closed) - {hint.id for hint in hints}):
        memory, case = memories.get(resource_id, Memory()), cases.get(resource_id)
        if case is None or memory.last_action is None or memory.last_action_at is None:
            continue
        added.append(unfinished_entry(case, memory.last_action, memory.last_action_run or "", memory.last_action_at))
        ledger.add_unfinished(added[-1])
    return added


def untold_finding(action: UntoldAction, listed: Case | None) -> Finding:
    """The action as a finding to mail about. The mail goes to the owner at that time, and never counts as a notice to a new owner."""
    hint = action.hint
    case = listed or _unlisted_case(hint)
    owner = Owner(address=hint.owner, source="its owner at the time of the action") if hint.owner else case.owner
    done = action.outcome.result is Result.DONE
    because = "it is unchanged since an earlier run" if done else "an earlier run may have changed it"
    verdict = Verdict(state=State.EXEMPT, because=because)
    return Finding(
        case=replace(case, verdict=verdict, owner=owner, rule=_rule_with_mail(case.rule)),
        step=Step(name=hint.action, because="an earlier run carried it out, but ended before its owner was notified"),
        outcome=action.outcome,
        owner=owner,
        price=case.price,
        wasted_usd=None,
        evidence=(),
    )


def _outcome_in(memory: Memory) -> Outcome:
    done, because = memory.last_action_result is Result.DONE, memory.last_action_because or ""
    return Outcome(
        result=memory.last_action_result or Result.FAILED,
        because=because if done else None,
        error=None if done else because,
        begun=True,
        part_done=memory.last_action_part,
    )


def _rule_with_mail(rule: Rule) -> Rule:
    """The rule, without the weekly summary being enough."""
    return replace(rule, hours=replace(rule.hours, by_rule=False)) if rule.hours else rule


def _unlisted_case(hint: Unfinished) -> Case:
    """The case of a resource that is no longer listed, from its hint alone."""
    resource = Resource(kind=hint.kind, id=hint.id, name=hint.name, target=hint.target, region=hint.region, created=None)
    zero = timedelta()
    rule = Rule(name="no rule", action=Ceiling.IGNORE, idle_after=zero, grace=zero, remind_every=zero)
    owner = Owner(address=hint.owner, source="its owner at the time of the action")
    return Case(resource=resource, rule=rule, verdict=Verdict(state=State.EXEMPT, because="it no longer exists"), owner=owner)
