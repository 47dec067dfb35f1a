"""What the page of a snooze link writes: for each chosen resource a snooze or a "not mine" in its memory, and an entry in its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper.errors import ReaperError
from reaper.ledger.ledger import SNOOZE_FIELDS, Ledger
from reaper.ledger.rows import HistoryEntry, Visit, VisitResource
from reaper.ledger.update import update_memory
from reaper.model import Memory
from reaper.notices.message import is_plain_address
from reaper.snooze import pages
from reaper.snooze.request import SnoozeForm
from reaper.text import format_time

HOLDER = "the holder of the link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result for one chosen resource: its memory afterwards and whether it `changed`, or the `error`. `problem`: its history failed."""

    resource: VisitResource
    memory: Memory
    changed: bool = False
    error: str = ""
    problem: str = ""

    @property
    def log_text(self) -> str:
        """Its result, for the log."""
        snoozed = f"snoozed until {self.memory.snoozed_until} by {self.memory.snoozed_by}" if self.memory.snoozed_until else ""
        disowned = f"not theirs, says {self.memory.disowned_by}" if self.memory.disowned_by else ""
        return "; ".join(filter(None, (self.error or ("" if self.changed else "unchanged"), snoozed, disowned, self.problem)))


def write_choices(
    form: SnoozeForm, visit: Visit, chosen: Sequence[VisitResource], ledger: Ledger, now: datetime
) -> list[Written]:
    """Write each choice; one that fails doesn't affect the others. Raises CloudError if the ledger can't be read at all."""
    known = dict(ledger.recall([resource.id for resource in chosen], now))
    return [_write_choice(form, visit, resource, ledger, now, known.get(resource.id)) for resource in chosen]


def _write_choice(
    form: SnoozeForm, visit: Visit, resource: VisitResource, ledger: Ledger, now: datetime, known: Memory | None
) -> Written:
    changed = False

    def choose(memory: Memory) -> Memory:
        nonlocal changed
        new = with_disowned(memory, visit, now) if form.disowns else with_snooze(memory, form, resource, visit, now)
        changed = new is not memory
        return new

    try:
        memory = update_memory(ledger, resource.id, choose, now, known, fields=SNOOZE_FIELDS)
    except ReaperError as error:
        return Written(resource=resource, memory=known or Memory(), error=str(error))
    problem = _record_history(form, resource.id, memory, ledger, now) if changed else ""
    return Written(resource=resource, memory=memory, changed=changed, problem=problem)


def with_snooze(memory: Memory, form: SnoozeForm, resource: VisitResource, visit: Visit, now: datetime) -> Memory:
    """The memory with the snooze, and without a "not mine" of the same person, who has thought better of it.

    A longer snooze stays, unless the person gave it and the form asks to shorten it.
    """
    until, current = pages.snooze_end(now, pages.days_for(form.days or 1, resource)), memory.snoozed_until
    if is_disowned_by(memory, visit.address):
        memory = replace(memory, disowned_by=None, disowned_at=None)
    if current and (current == until or (current > until and not (form.shorten and may_shorten(memory, visit, now)))):
        return memory
    # A name in the form proves nothing, so it's only added. An address that was removed from the ledger isn't written again.
    owner = visit.address if is_plain_address(visit.address) else HOLDER
    by = f"{form.name} ({owner})" if form.name else owner
    return replace(memory, snoozed_until=until, snoozed_at=now, snoozed_by=by, snooze_reason=form.reason or None)


def with_disowned(memory: Memory, visit: Visit, now: datetime) -> Memory:
    """The memory with the owner's "not mine". The mail to an earlier owner doesn't replace that of the present one."""
    is_present_owner = (memory.notified_owner or "").casefold() == visit.address.casefold()
    if is_disowned_by(memory, visit.address) or (memory.disowned_by and not is_present_owner):
        return memory
    return replace(memory, disowned_by=visit.address, disowned_at=now)


def is_disowned_by(memory: Memory, address: str) -> bool:
    """Whether it was this address that said that it isn't theirs."""
    return (memory.disowned_by or "").casefold() == address.casefold()


def may_shorten(memory: Memory, visit: Visit, now: datetime) -> bool:
    """Whether the person who got the mail gave the present snooze."""
    if memory.snoozed_until is None or memory.snoozed_until <= now:
        return False
    by, owner = (memory.snoozed_by or "").casefold(), visit.address.casefold()
    return is_plain_address(owner) and (by == owner or by.endswith(f" ({owner})"))


def may_disown(visit: Visit) -> bool:
    """Whether the mail went to an owner, whose address is known still."""
    return visit.is_owner and is_plain_address(visit.address)


def _record_history(form: SnoozeForm, resource_id: str, memory: Memory, ledger: Ledger, now: datetime) -> str:
    """Write the history. Returns the problem if that fails: the choice itself is valid all the same."""
    until = format_time(memory.snoozed_until) if memory.snoozed_until else ""
    because = f"snoozed by its link until {until}" + (f": {memory.snooze_reason}" if memory.snooze_reason else "")
    entry = HistoryEntry(id=resource_id, when=now, what="kept", by=memory.snoozed_by or "", because=because)
    if form.disowns:
        because = "its owner said that it isn't theirs" + (f": {form.reason}" if form.reason else "")
        entry = replace(entry, what="disowned", by=memory.disowned_by or "", because=because)
    try:
        ledger.add_history(entry)
    except ReaperError as error:
        return f"its history couldn't be written: {error}"
    return ""
