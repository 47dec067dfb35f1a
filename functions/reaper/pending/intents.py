"""The intent of one action in the ledger: what is written there before its first call, and the result.

A crash at any point leaves an intent without a result and a hint that leads to it (`pending.unfinished`); the next run closes it. A workflow
may repeat a task that died right after its call, or start it twice, so the run's own intent is looked for before the resource is: what the own
call has changed would look as if a person had changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reaper import memory_updates
from reaper.case import PLANNED, Case, Outcome
from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Recalled, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import Memory, Resource, Result, StepName

NOT_KNOWN = "it isn't known whether the action was carried out"
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The ledger record `before` an action, the one `written` with its intent, and the hint that leads there."""

    before: Memory
    written: Memory
    hint: Unfinished


def unchanged(memory: Memory) -> Memory:
    """The row unchanged, for a mail that announced nothing more."""
    return memory


def remembered_ids(resource: Resource) -> Sequence[str]:
    """The IDs of all ledger records that may protect it: its own and its host's."""
    return [resource.id, *host_ids(resource)]


def host_ids(resource: Resource) -> Sequence[str]:
    """The IDs under which its host may be recorded: some old ARNs are in lower case, although the host's name isn't."""
    host = resource.host_id
    return list(dict.fromkeys([host, host.lower()])) if host else []


def ids_with_hosts(cases: Iterable[Case]) -> list[str]:
    """The IDs of the cases and of their hosts, each once."""
    return list(dict.fromkeys(resource_id for case in cases for resource_id in remembered_ids(case.resource)))


def is_unreadable(resource: Resource, memories: Recalled) -> bool:
    """Whether its ledger record, or its host's, can't be read."""
    return not memories.unreadable.isdisjoint(remembered_ids(resource))


def open_on_host_because(resource: Resource, memories: Mapping[str, Memory]) -> str | None:
    """Why it must wait: an action of any run on its host is open."""
    is_open = any(memory_updates.is_unfinished(memories[id_]) for id_ in host_ids(resource) if id_ in memories)
    return "an action on its host isn't settled yet" if is_open else None


def host_memory(resource: Resource, memories: Mapping[str, Memory]) -> Memory | None:
    """The memory of its host. If both forms of the host's ID have one, the one with the longer snooze."""
    host_memories = [memories[host_id] for host_id in host_ids(resource) if host_id in memories]
    return max(host_memories, key=lambda memory: memory.snoozed_until or LONG_AGO, default=None)


def update_intent(ledger: Ledger, hint: Unfinished, change: Callable[[Memory], Memory], now: datetime) -> Memory:
    """Change the row of the hint, whatever its version is, as long as it still has that intent. Returns the memory. Raises CloudError."""
    return update_memory(ledger, hint.id, lambda memory: change(memory) if is_same_intent(memory, hint) else memory, now)


def take_back_intent(ledger: Ledger, own_intent: Intent, now: datetime, *, gone: bool) -> None:
    """Remove an intent for which no call was made, and its notice too if the resource is `gone`. Raises CloudError.

    A workflow may have started this step twice. The other one's intent is the same but for its time; it stays, with its hint, because its call
    may have been made.
    """

    def without_intent(memory: Memory) -> Memory:
        if memory.last_action_at != own_intent.written.last_action_at:
            return memory
        before = memory_updates.without_intent(memory, own_intent.before)
        return memory_updates.after_action(before) if gone else before

    memory = update_intent(ledger, own_intent.hint, without_intent, now)
    before, hint = own_intent.before, own_intent.hint
    if is_same_intent(memory, hint) and memory.last_action_at != own_intent.written.last_action_at:
        return
    # Its hint may have replaced that of an earlier action whose owner has no mail yet.
    untold = before.last_action_result and not before.last_action_told_at
    if untold and before.last_action_run and before.last_action and before.last_action_at:
        ledger.add_unfinished(replace(hint, run=before.last_action_run, action=before.last_action, at=before.last_action_at))
    else:
        ledger.remove_unfinished(hint.target, hint.id)


def record_owner_told(ledger: Ledger, hint: Unfinished, now: datetime, change: Callable[[Memory], Memory] = unchanged) -> None:
    """Record that its owner got the result, with whatever else `change` does to the row, and remove the hint.

    The hint of an interrupted action stays until that is put back. Raises CloudError if the ledger can't be written.
    """
    memory = update_intent(ledger, hint, lambda memory: replace(change(memory), last_action_told_at=now), now)
    if is_same_intent(memory, hint) and not memory_updates.is_interrupted(memory):
        ledger.remove_unfinished(hint.target, hint.id)


def is_same_intent(memory: Memory, hint: Unfinished) -> bool:
    """Whether the hint is about the very intent that the row has."""
    return (memory.last_action_run or "", memory.last_action) == (hint.run, hint.action)


def own_outcome(memory: Memory, run_id: str, action: StepName) -> Outcome | None:
    """The outcome that the run's own intent shows; None if the row has no such intent."""
    return outcome_in(memory) if (memory.last_action_run, memory.last_action) == (run_id, action) else None


def outcome_in(memory: Memory) -> Outcome:
    """The outcome of the action in a row. Without a result it isn't known."""
    result, because = memory.last_action_result or Result.FAILED, memory.last_action_because
    if result is Result.FAILED:
        return Outcome(result=result, error=because or NOT_KNOWN, begun=True)
    return Outcome(result=result, because=because, begun=True, part_done=memory.last_action_part)


def earlier_attempt(resource_id: str, action: StepName, run_id: str, ledger: Ledger, now: datetime) -> Outcome | None:
    """The outcome of an earlier attempt of this run at the action, which makes no further call; None if there was none.

    While an attempt has no result, its outcome is only planned: another process may still be at it, and conclude looks again.
    """
    try:
        memory = ledger.memory(resource_id, now)
    except ReaperError as error:
        return Outcome(result=Result.REFUSED, because=f"the ledger couldn't be read before the action: {error}")
    outcome = own_outcome(memory, run_id, action)
    return PLANNED if outcome and memory.last_action_result is None else outcome
