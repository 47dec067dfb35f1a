"""The intent of one action in the ledger: what stands there before its first call, leave for each call, and what became of it.

A crash at any point leaves an intent without a result and a hint that leads to it (`ledger.unfinished`); the next run closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reaper import memory_updates
from reaper.errors import ActionWithdrawn, CloudError
from reaper.ledger.port import Ledger, Recalled, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import Case, Memory, Resource

LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What was remembered `before` an action was meant, what then stood in the ledger, and the hint that leads there."""

    before: Memory
    written: Memory
    hint: Unfinished


@dataclass(slots=True, kw_only=True)
class CallPermit:
    """Leave to make the next changing call of an action; `given` counts how often it was asked for and given."""

    resource: Resource
    own_intent: Intent
    ledger: Ledger
    clock: Callable[[], datetime]
    times_given: int = 0

    def require_unchanged(self) -> None:
        """One consistent read of its row, its host's row and the rows inside. Raises Withdrawn where no further call may be made."""
        now = self.clock()
        try:
            found = self.ledger.recall(remembered_ids(self.resource), now)
        except CloudError as error:
            raise ActionWithdrawn(f"the ledger could not be read before the call: {error}") from error
        if found.errors:
            raise ActionWithdrawn(f"the ledger could not be read before the call: {found.errors[0]}") from found.errors[0]
        if found.get(self.resource.id, Memory()).version != self.own_intent.before.version + 1:
            raise ActionWithdrawn("what is remembered of it changed a moment ago: somebody may have kept it")
        for id_, memory in found.items():
            if id_ != self.resource.id and memory.snoozed_until and memory.snoozed_until > now:
                raise ActionWithdrawn(
                    f"{id_} is kept by {memory.snoozed_by or 'somebody'} since a moment ago, and it goes with it"
                )
        self.times_given += 1


def remembered_ids(resource: Resource) -> Sequence[str]:
    """The ids under which something may be remembered that keeps it: its own, its host's, and those of everything inside."""
    return [resource.id, *host_ids(resource), *(inner.id for inner in resource.contained)]


def host_ids(resource: Resource) -> Sequence[str]:
    """The ids under which its host may be remembered: some old ARNs are in lower case although the name in them is not."""
    host = resource.host_id
    return list(dict.fromkeys([host, host.lower()])) if host else []


def ids_with_hosts(cases: Iterable[Case]) -> list[str]:
    """The ids of the cases and of what they live in, each once."""
    return list(dict.fromkeys(id_ for case in cases for id_ in (case.resource.id, *host_ids(case.resource))))


def is_unreadable(resource: Resource, memories: Recalled) -> bool:
    """Whether what is remembered of it, or of what it lives in, can't be read."""
    return not memories.unreadable.isdisjoint({resource.id, *host_ids(resource)})


def host_memory(resource: Resource, memories: Mapping[str, Memory]) -> Memory | None:
    """What is remembered of the resource that it lives in; of two forms of its id, the one that keeps it longer."""
    found = [memories[id_] for id_ in host_ids(resource) if id_ in memories]
    return max(found, key=lambda memory: memory.snoozed_until or LONG_AGO, default=None)


def update_intent(ledger: Ledger, mine: Intent, change: Callable[[Memory], Memory], now: datetime) -> None:
    """Change the row on whatever version stands, as long as the intent in it is still this one.

    Raises CloudError where the ledger cannot be written.
    """
    _update_row(ledger, mine.hint, change, now)


def take_back_intent(ledger: Ledger, own_intent: Intent, now: datetime, *, gone: bool) -> None:
    """Remove an intent of which no call was made; without a notice if the resource is `gone`. Raises CloudError."""

    def without_intent(memory: Memory) -> Memory:
        before = memory_updates.without_intent(memory, own_intent.before)
        return memory_updates.after_action(before) if gone else before

    update_intent(ledger, own_intent, without_intent, now)
    _restore_earlier_hint(ledger, own_intent)


def _restore_earlier_hint(ledger: Ledger, own_intent: Intent) -> None:
    """Remove its own hint; that of an earlier action whose owner was not told yet, which it replaced, stands again."""
    before, hint = own_intent.before, own_intent.hint
    untold = before.last_action_result and not before.last_action_told_at
    if untold and before.last_action_run and before.last_action and before.last_action_at:
        ledger.add_unfinished(replace(hint, run=before.last_action_run, action=before.last_action, at=before.last_action_at))
    else:
        ledger.remove_unfinished(hint.target, hint.id)


def record_owner_told(
    ledger: Ledger, hint: Unfinished, now: datetime, change: Callable[[Memory], Memory] = lambda memory: memory
) -> None:
    """Its owner knows what became of it: write that down with whatever else `change` makes of the row, and remove the hint.

    Raises CloudError where the ledger cannot be written.
    """
    memory = _update_row(ledger, hint, lambda memory: replace(change(memory), last_action_told_at=now), now)
    if is_same_intent(memory, hint):  # else the hint there is by now that of another action
        ledger.remove_unfinished(hint.target, hint.id)


def is_same_intent(memory: Memory, hint: Unfinished) -> bool:
    """Whether the hint is about the very intent that the row has."""
    return (memory.last_action_run or "", memory.last_action) == (hint.run, hint.action)


def _update_row(ledger: Ledger, hint: Unfinished, change: Callable[[Memory], Memory], now: datetime) -> Memory:
    return update_memory(ledger, hint.id, lambda memory: change(memory) if is_same_intent(memory, hint) else memory, now)


def close_unfinished(ledger: Ledger, resource_id: str, memory: Memory, now: datetime) -> Memory:
    """The memory with an open action closed as not known, written on whatever version stands as long as it is still open.

    Raises CloudError.
    """
    return update_memory(
        ledger,
        resource_id,
        lambda m: memory_updates.with_unknown_result(m) if memory_updates.is_unfinished(m) else m,
        now,
        memory,
    )
