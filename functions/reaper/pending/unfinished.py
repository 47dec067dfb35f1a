"""Actions that earlier runs began and didn't report: each is closed if its result is unknown, and its owner gets a mail about it.

An action leaves a hint before its first call, which is removed once its owner knows. The hints that remain show where a run ended early.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from reaper import idle_period, memory_updates
from reaper.case import Case, Finding, Outcome, Owner, Step
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger, comparable_id
from reaper.ledger.rows import HistoryEntry, Recalled, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import Ceiling, Memory, Resource, Result, Rule, State, StepName, Target, Verdict
from reaper.pending import intents
from reaper.planning import possible_actions

AND_THE_REST = ", and the rest was announced"
TOLD_ENTRY = "told"
"""In the history: a channel accepted the mail about an action."""
MAX_ENTRIES = 50
"""The last entries of a resource's history among which the mail about an action is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoldAction:
    """An action of an earlier run whose owner has no mail about it yet: the hint that led to it, and its outcome.

    `is_open`: it was interrupted and is still to be put back.
    """

    hint: Unfinished
    outcome: Outcome
    is_open: bool = False


def hint_of(case: Case, action: StepName, run: str, at: datetime) -> Unfinished:
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
) -> tuple[Recalled, list[Unfinished], tuple[Unfinished, ...], list[Unfinished]]:
    """Close every open action of a resource that is listed or has a hint. Returns the current memories and the hints: of what is settled, of what
    may be half done, and of what was closed just now.

    Those of run `run_id` stay open, and so do interrupted ones, until what they changed is put back. A host's row alone leads to no mail: its
    action is closed when the host is listed. Raises CloudError.
    """
    own_ids = {*cases, *(hint.id for hint in hints)}
    unfinished_ids = [
        id_
        for id_, memory in memories.items()
        if id_ in own_ids
        and memory_updates.is_unfinished(memory, run_id)
        and not memory_updates.is_interrupted(memory)
        and not idle_period.dated_ahead_because(memory, now)
    ]
    for resource_id in unfinished_ids:
        update_memory(ledger, resource_id, memory_updates.closed_unknown, now, memories[resource_id])
    if unfinished_ids:
        memories = memories.with_newer(ledger.recall(unfinished_ids, now))
    lost = list(_lost_hints(hints, cases, memories, run_id))
    for hint in lost:
        ledger.add_unfinished(hint)
    hints = [*hints, *lost]
    interrupted = tuple(hint for hint in hints if _is_interrupted(hint, memories, now))
    closed = [hint for hint in hints if hint.id in unfinished_ids]
    return memories, [hint for hint in hints if hint not in interrupted], interrupted, closed


def _is_interrupted(hint: Unfinished, memories: Recalled, now: datetime) -> bool:
    """Whether the hint leads to an action that may be half done. Nothing is done about one that is dated ahead, until that is past."""
    if hint.id in memories.unreadable:
        return False
    memory = memories.get(hint.id, Memory())
    is_open = intents.is_same_intent(memory, hint) and memory_updates.is_interrupted(memory)
    return is_open and not idle_period.dated_ahead_because(memory, now)


def _lost_hints(hints: Iterable[Unfinished], cases: Mapping[str, Case], memories: Recalled, run_id: str) -> Iterator[Unfinished]:
    """The hints of listed resources whose action may be half done, but to which no hint leads any more: they would stay blocked for ever."""
    known, readable = {hint.id for hint in hints}, dict(memories)
    for resource_id in cases.keys() - known:
        memory = readable.get(resource_id, Memory())
        if memory_updates.is_interrupted(memory, run_id) and memory.last_action and memory.last_action_at:
            yield hint_of(cases[resource_id], memory.last_action, memory.last_action_run or "", memory.last_action_at)


def open_actions(hints: Iterable[Unfinished], memories: Recalled) -> list[UntoldAction]:
    """The interrupted actions whose owners don't know of them yet."""
    rows = [(hint, memories.get(hint.id, Memory())) for hint in hints]
    failed = Outcome(result=Result.FAILED, begun=True)
    return [
        UntoldAction(hint=hint, outcome=replace(failed, error=interrupted_because(memory)), is_open=True)
        for hint, memory in rows
        if not memory.last_action_told_at
    ]


def interrupted_because(memory: Memory) -> str:
    """Why nothing is done to the resource of an interrupted action."""
    when = f" on {memory.last_action_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if memory.last_action_at else ""
    return f"an action on it was interrupted{when}, and what it had changed isn't put back yet"


def reopen_left_stopped(
    cases: Mapping[str, Case], memories: Recalled, ledger: Ledger, now: datetime
) -> tuple[Recalled, list[Unfinished]]:
    """The memories, and the hints of what office hours stopped and no longer start: a summary isn't enough for its owner. Raises CloudError."""
    hints = []
    for id_, memory in memories.items():
        if id_ in cases and memory.last_action_at and possible_actions.is_left_stopped(cases[id_], memory):
            hints.append(hint_of(cases[id_], StepName.STOP, memory.last_action_run or "", memory.last_action_at))
            ledger.add_unfinished(hints[-1])
            intents.update_intent(ledger, hints[-1], memory_updates.left_stopped, now)
    return memories.with_newer(ledger.recall([hint.id for hint in hints], now)) if hints else memories, hints


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
        if idle_period.dated_ahead_because(memory, now):
            continue
        # The weekly summary is enough for the owner of what was started. A stop by office hours leaves no hint, so one with a hint gets a mail.
        is_started = (memory.last_action, memory.last_action_result) == (StepName.START, Result.DONE)
        is_settled = memory.last_action_result is not None and not is_started
        if not (intents.is_same_intent(memory, hint) and is_settled and not memory.last_action_told_at):
            ledger.remove_unfinished(hint.target, hint.id)
            continue
        action = UntoldAction(hint=hint, outcome=intents.outcome_in(memory))
        mail = accepted_mail(hint, ledger)
        if mail is None:
            untold.append(action)
            continue
        announced = mail.because.endswith(AND_THE_REST)
        finding = untold_finding(action, cases.get(hint.id))
        change = change_after_mail(finding, mail.by, mail.when) if announced else intents.unchanged
        intents.record_owner_told(ledger, hint, mail.when, change)
        memories = memories.with_newer(ledger.recall([hint.id], now))
    return memories, untold


def change_after_mail(finding: Finding, receipt: str, when: datetime) -> Callable[[Memory], Memory]:
    """How a mail about an action, accepted at `when`, changes its row: it is the notice of what follows."""
    action, case = possible_actions.announced_by_mail(finding), finding.case
    return lambda memory: memory_updates.after_action_mail(case, memory, action, receipt, when) if action else memory


def history_reason(entry: Unfinished, *, rest: bool = False) -> str:
    """The reason in the history entry of a mail about that action, and whether the mail announced the rest."""
    return f"of run {entry.run}: {entry.action}{AND_THE_REST if rest else ''}"


def closed_actions_error(closed: Sequence[Unfinished], memories: Mapping[str, Memory]) -> CloudError | None:
    """The error in the report about the actions that were closed just now, or that are interrupted."""
    if not closed:
        return None
    more = f" (and {len(closed) - 1} more)" if len(closed) > 1 else ""
    resource_id = closed[0].id
    memory = dict(memories).get(resource_id, Memory())  # a plain copy: reading an unreadable row raises
    is_open = memory_updates.is_interrupted(memory)
    because = interrupted_because(memory) if is_open else memory.last_action_because or "its ledger record can't be read"
    return CloudError(Reason.PARTIAL, "act", f"{resource_id}: {because}; `reaper restore {resource_id}` undoes it{more}")


def accepted_mail(entry: Unfinished, ledger: Ledger) -> HistoryEntry | None:
    """The history entry of the mail about it that a channel accepted before its run ended; None if there is none."""
    texts = {history_reason(entry), history_reason(entry, rest=True)}
    entries = ledger.history(entry.id, entry.at - idle_period.MAX_CLOCK_SKEW, MAX_ENTRIES)
    return next((e for e in entries if e.what == TOLD_ENTRY and e.because in texts), None)


def untold_finding(action: UntoldAction, listed: Case | None) -> Finding:
    """The action as a finding to mail about. The mail goes to the owner at that time, and never counts as a notice to a new owner."""
    hint, zero = action.hint, timedelta()
    unsure = action.outcome.result is Result.FAILED
    because = "an earlier run may have changed it" if unsure else "it is unchanged since an earlier run"
    verdict = Verdict(state=State.EXEMPT, because=because)
    owner = Owner(address=hint.owner, source="its owner at the time of the action")
    no_rule = Rule(name="no rule", action=Ceiling.IGNORE, idle_after=zero, grace=zero, remind_every=zero)
    case = listed or Case(resource=unlisted_resource(hint), rule=no_rule, verdict=verdict, owner=owner)
    owner = owner if hint.owner else case.owner
    hours = case.rule.hours and replace(case.rule.hours, by_rule=False)  # a weekly summary isn't enough
    return Finding(
        case=replace(case, verdict=verdict, owner=owner, rule=replace(case.rule, hours=hours)),
        step=Step(name=hint.action, because="an earlier run carried it out, and its owner has no mail about it yet"),
        outcome=action.outcome,
        owner=owner,
        price=case.price,
        wasted_usd=None,
        evidence=(),
    )


def unlisted_resource(hint: Unfinished) -> Resource:
    """What a hint says of its resource."""
    return Resource(kind=hint.kind, id=hint.id, name=hint.name, target=hint.target, region=hint.region, created=None)
