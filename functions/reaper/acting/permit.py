"""The permit for each changing call of an action: the resource as it was, then one read of the ledger, then the call, sent once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime

from reaper.acting.contract import OwnChanges, unchanged
from reaper.errors import ActionWithdrawn, CloudError, Reason, errors_as_withdrawal
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import remembered_ids
from reaper.model import Resource
from reaper.pending import intents, stop_switch
from reaper.record import Act, Record, Snoozes

DIFFERENT_FIELDS = {
    "created": "creation time",
    "changed": "last change",
    "details": "settings",
    "fingerprint": "settings",
    "parts": "size",
    "people": "owner",
}
"""What people call a field of a resource, if not by its name."""


@dataclass(slots=True, kw_only=True)
class CallPermit:
    """Permission for the calls of one action: `contract.Permit`. `calls_made` counts those that were made, or may have been.

    `resource`, `snoozes`, `before`: what was read before the intent, which is `act`. `read` reads the resource again, `look_again` everything.
    """

    resource: Resource
    snoozes: Snoozes
    before: Record
    act: Act
    ledger: Ledger
    clock: Callable[[], datetime]
    read: Callable[[], Resource]
    look_again: Callable[[Resource], None]
    require_lease: Callable[[], None]
    calls_made: int = 0

    @contextmanager
    def __call__(self, own_changes: OwnChanges = unchanged, *, may_be_gone: bool = False) -> Iterator[None]:
        """One call. Raises ActionWithdrawn if it may not be made, or CloudError with Reason.GONE if the resource is gone before the first."""
        self._require_same_resource(own_changes, may_be_gone)
        self._require_unchanged_rows()
        was_made = True
        try:
            yield
        except CloudError as error:
            was_made = error.may_have_been_made
            raise
        finally:
            self.calls_made += was_made

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """Repeat the whole look: `contract.Permit.after_wait`."""
        self.look_again(self._require_same_resource(own_changes))

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
            if now.tags != self.resource.tags and not self.calls_made:
                self.look_again(now)  # a tag that takes the action away takes its notice away, too
            raise ActionWithdrawn(because)
        return now

    def _require_unchanged_rows(self) -> None:
        """One read of the stop switch, and of what the ledger has on it and its host. Raises ActionWithdrawn if no further call may be made."""
        now, resource = self.clock(), self.resource
        with errors_as_withdrawal("the ledger couldn't be read before the call"):
            recalled, switch = self.ledger.recall_with_row(remembered_ids(resource), stop_switch.PAUSE_ROW, now)
        if pause := stop_switch.pause_in_row(switch, now):
            raise ActionWithdrawn(stop_switch.paused_because(pause))
        if recalled.errors:
            raise ActionWithdrawn(f"the ledger couldn't be read before the call: {recalled.errors[0]}") from recalled.errors[0]
        if because := intents.changed_because(resource, recalled, self.before.version + 1, self.snoozes, now):
            raise ActionWithdrawn(because)
        if because := intents.open_on_host_because(resource, recalled):
            raise ActionWithdrawn(because)


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
