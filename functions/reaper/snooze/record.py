"""What a click on a snooze link writes: the snooze in the resource's memory, and an entry in its history."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper.errors import ReaperError
from reaper.ledger.ledger import SNOOZE_FIELDS, Ledger
from reaper.ledger.rows import HistoryEntry
from reaper.ledger.update import update_memory
from reaper.model import Memory
from reaper.snooze import pages
from reaper.snooze.request import SnoozeForm
from reaper.snooze.token import SnoozeLink
from reaper.text import format_time

HOLDER = "the holder of the link"


def record_snooze(form: SnoozeForm, link: SnoozeLink, ledger: Ledger, now: datetime) -> tuple[Memory, bool]:
    """Write the snooze. Returns the memory afterwards, and whether it changed. Raises CloudError if the ledger fails."""
    changed = False

    def snooze(memory: Memory) -> Memory:
        nonlocal changed
        snoozed = with_snooze(memory, form, link, now)
        changed = snoozed is not memory
        return snoozed

    memory = update_memory(ledger, link.resource, snooze, now, fields=SNOOZE_FIELDS)
    return memory, changed


def with_snooze(memory: Memory, form: SnoozeForm, link: SnoozeLink, now: datetime) -> Memory:
    """The memory with the snooze. A longer one stays, unless it is the link's owner's own and the form asks to shorten it."""
    until, current = pages.snooze_end(now, form.days or 1), memory.snoozed_until
    if current and (current == until or (current > until and not (form.shorten and may_shorten(memory, link)))):
        return memory
    by = _snoozed_by(form, link, memory)
    return replace(memory, snoozed_until=until, snoozed_at=now, snoozed_by=by, snooze_reason=form.reason or None)


def may_shorten(memory: Memory, link: SnoozeLink) -> bool:
    """Whether the link's owner gave the present snooze."""
    by, owner = (memory.snoozed_by or "").casefold(), link.owner.casefold()
    return bool(owner) and (by == owner or by.endswith(f" ({owner})"))


def record_history(resource_id: str, memory: Memory, ledger: Ledger, now: datetime) -> str | None:
    """Write the history. Returns the problem if that fails: the snooze itself is valid all the same."""
    entry = HistoryEntry(id=resource_id, when=now, what="kept", by=memory.snoozed_by or "", because=_history_reason(memory))
    try:
        ledger.add_history(entry)
    except ReaperError as error:
        return f"its history couldn't be written: {error}"
    return None


def _snoozed_by(form: SnoozeForm, link: SnoozeLink, memory: Memory) -> str:
    """The owner whose link it was. A name in the form proves nothing, so it's only added.

    An old mail may be to a person whose address was removed from the ledger: only an address that the row has is written there.
    """
    is_known = link.owner.casefold() == (memory.notified_owner or "").casefold() or may_shorten(memory, link)
    owner = link.owner if link.owner and is_known else HOLDER
    return f"{form.name} ({owner})" if form.name else owner


def _history_reason(memory: Memory) -> str:
    until = format_time(memory.snoozed_until) if memory.snoozed_until else ""
    return f"snoozed by its link until {until}" + (f": {memory.snooze_reason}" if memory.snooze_reason else "")
