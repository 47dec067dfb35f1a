"""The permit for each changing call of an action: the resource as it was, then one read of the ledger, then the call, sent once.

What the action ends inside its resource is an action of its own in the ledger, with a hint, an intent and an outcome, because its owner may
be a different person and the rest of the action may never come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from reaper import memory_updates
from reaper.acting.contract import OwnChanges, unchanged
from reaper.case import Outcome
from reaper.errors import ActionWithdrawn, CloudError, Reason, errors_as_withdrawal
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import HistoryEntry, Unfinished
from reaper.memory_updates import BegunAction
from reaper.model import Memory, Resource, Result, StepName
from reaper.pending import intents, stop_switch, unfinished
from reaper.pending.intents import NOT_KNOWN, Intent
from reaper.planning import contained
from reaper.planning.reasons import PARTICIPLES
from reaper.policy.schema import Owners

DIFFERENT_FIELDS = {
    "created": "creation time",
    "changed": "last change",
    "details": "settings",
    "fingerprint": "settings",
    "parts": "size",
    "contained": "contents",
    "people": "owner",
}
"""What people call a field of a resource, if not by its name."""


@dataclass(slots=True, kw_only=True)
class CallPermit:
    """Permission for the calls of one action: `contract.Permit`. `calls_made` counts those that were made, or may have been.

    `resource` and `memories`: what was read before the intent. `read` reads the resource again, and `look_again` checks everything again.
    `inside`: for each contained resource, its hint. `ended`: the outcome of each that a call has ended.
    """

    resource: Resource
    memories: Mapping[str, Memory]
    own_intent: Intent
    ledger: Ledger
    clock: Callable[[], datetime]
    read: Callable[[], Resource]
    look_again: Callable[[Resource, Mapping[str, Memory]], None]
    require_lease: Callable[[], None]
    inside: Mapping[str, Unfinished] = field(default_factory=dict)
    calls_made: int = 0
    ended: dict[str, Outcome] = field(default_factory=dict)

    @contextmanager
    def __call__(
        self, own_changes: OwnChanges = unchanged, inside: str | None = None, *, may_be_gone: bool = False
    ) -> Iterator[None]:
        """One call. Raises ActionWithdrawn if it may not be made, or CloudError with Reason.GONE if the resource is gone before the first."""
        self._require_same_resource(own_changes, may_be_gone)
        guest = self._begin_inside(inside) if inside else None
        try:
            self._require_unchanged_rows()
        except ActionWithdrawn:
            if guest:
                self._take_back_inside(guest)
            raise
        was_made = True
        try:
            yield
        except CloudError as error:
            was_made = error.may_have_been_made
            if guest:
                self._end_inside(guest, error)
            raise
        finally:
            self.calls_made += was_made
        if guest:
            self._end_inside(guest, None)

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """Repeat the whole look: `contract.Permit.after_wait`."""
        now = self._require_same_resource(own_changes)
        before = {resource_id: self.memories.get(resource_id, Memory()) for resource_id in self.ended}
        self.look_again(now, {self.resource.id: self.own_intent.before, **before})

    def _require_same_resource(self, own_changes: OwnChanges, may_be_gone: bool = False) -> Resource:
        """The resource as it is now, without the action's own changes. Raises ActionWithdrawn unless it is unchanged."""
        self.require_lease()
        try:
            now = own_changes(self.read())
        except CloudError as error:
            if error.reason is Reason.GONE and not self.calls_made:
                raise
            if error.reason is Reason.GONE and may_be_gone:
                return self.resource
            raise ActionWithdrawn(f"it couldn't be read before the call: {error}") from error
        if because := changed_because(self.resource, now):
            raise ActionWithdrawn(because)
        return now

    def _require_unchanged_rows(self) -> None:
        """One read of the stop switch, its row, its host's row and the rows inside. Raises ActionWithdrawn if no further call may be made."""
        now, resource = self.clock(), self.resource
        with errors_as_withdrawal("the ledger couldn't be read before the call"):
            memories, switch = self.ledger.recall_with_row(intents.remembered_ids(resource), stop_switch.PAUSE_ROW, now)
        if pause := stop_switch.pause_in_row(switch, now):
            raise ActionWithdrawn(stop_switch.paused_because(pause))
        if memories.errors:
            raise ActionWithdrawn(f"the ledger couldn't be read before the call: {memories.errors[0]}") from memories.errors[0]
        if memories.get(resource.id, Memory()).version != self.own_intent.before.version + 1:
            raise ActionWithdrawn("its ledger record changed a moment ago, and it may be snoozed")
        for resource_id, memory in memories.items():
            if resource_id != resource.id and memory.snoozed_until and memory.snoozed_until > now:
                by = f" by {memory.snoozed_by}" if memory.snoozed_by else ""
                raise ActionWithdrawn(f"{resource_id} was snoozed{by} a moment ago, and the action would affect it too")

    def _begin_inside(self, resource_id: str) -> Intent:
        """The intent of ending something inside, once it is in the ledger. Raises ActionWithdrawn if it couldn't be written."""
        now, host = self.clock(), self.own_intent.hint
        hint, before = replace(self.inside[resource_id], at=now), self.memories.get(resource_id, Memory())
        written = memory_updates.before_action(before, BegunAction(action=hint.action, run=hint.run, at=now))
        guest = Intent(before=before, written=written, hint=hint)
        # Before the call: whatever ends the run, the row with this run then leads to the host, whose restore covers both.
        went = HistoryEntry(id=resource_id, when=now, what=unfinished.WENT_ENTRY, by=hint.run, because=self.resource.id)
        because = f"the ledger record of {resource_id} changed a moment ago, and {host.name} would take it along"
        try:
            if intents.write_intent(self.ledger, guest, now, went):
                return guest
        except CloudError as error:
            because = f"the ledger record of {resource_id} couldn't be written before the call: {error}"
        self._take_back_inside(guest)
        raise ActionWithdrawn(because)

    def _take_back_inside(self, guest: Intent) -> None:
        """Remove the intent of ending something inside for which no call was made. Raises ActionWithdrawn if that fails."""
        with errors_as_withdrawal(f"the ledger record of {guest.hint.id} couldn't be written before the call"):
            intents.take_back_intent(self.ledger, guest, self.clock(), gone=False)

    def _end_inside(self, guest: Intent, error: CloudError | None) -> None:
        """Record the outcome of a call that ends something inside. Raises ActionWithdrawn if the ledger can't be written: no further call."""
        hint, now = guest.hint, self.clock()
        with errors_as_withdrawal(f"the ledger record of {hint.id} couldn't be written after the call"):
            if error and not error.may_have_been_made:
                intents.take_back_intent(self.ledger, guest, now, gone=error.reason is Reason.GONE)
                return
            outcome = self.ended[hint.id] = self._outcome_inside(hint, error)
            text = outcome.because or outcome.error or ""
            intents.update_intent(self.ledger, hint, lambda memory: memory_updates.with_result(memory, outcome.result, text), now)

    def _outcome_inside(self, hint: Unfinished, error: CloudError | None) -> Outcome:
        resource = self.resource
        if error:
            return Outcome(result=Result.FAILED, error=f"{NOT_KNOWN}: {error}", begun=True, host_id=resource.id)
        because = f"it was {PARTICIPLES[hint.action]} with its host {resource.name}; restoring the host restores it"
        return Outcome(result=Result.DONE, because=because, already_done=True, host_id=resource.id)


def hints_inside(
    resource: Resource, memories: Mapping[str, Memory], chain: Owners, action: StepName, run: str, at: datetime
) -> dict[str, Unfinished]:
    """The hint of each resource inside, should the action end it, with its owner by the policy: its kind may not have been swept."""
    present = {inner.id: contained.inner_owner(inner, memories.get(inner.id), chain) for inner in resource.contained}
    return {inner.id: unfinished.unfinished_entry(inner, present[inner.id], action, run, at) for inner in resource.contained}


def changed_because(before: Resource, now: Resource) -> str | None:
    """Why a resource isn't as it was a moment ago; None if it is. Any difference counts, unreadable tags too."""
    if now.tags is None:
        return "its tags can't be read, and a tag may protect it"
    if now.target.blocked_because:
        return now.target.blocked_because
    if before == now:
        return None
    changed = [f.name for f in fields(Resource) if f.compare and getattr(before, f.name) != getattr(now, f.name)]
    return f"its {', '.join(dict.fromkeys(DIFFERENT_FIELDS.get(name, name) for name in changed))} changed a moment ago"
