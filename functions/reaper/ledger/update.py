"""Writes by compare and swap: read, change, write under the version that was read, and start over if another writer came first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TypeVar

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import NamedRow
from reaper.model import Memory

MAX_TRIES = 8
"""How often a write is tried before it counts as failed."""
Written = TypeVar("Written")


def write_until_accepted(attempt: Callable[[], Written | None], subject: str) -> Written:
    """The first result of `attempt` that isn't None. An attempt reads, decides and writes; None means that another writer came first.

    Raises CloudError if the ledger fails or another writer came first MAX_TRIES times. `subject` names the row in that error.
    """
    for _ in range(MAX_TRIES):
        written = attempt()
        if written is not None:
            return written
    raise CloudError(Reason.REFUSED, "ledger", f"{subject}: other writers came first {MAX_TRIES} times in a row")


def update_memory(
    ledger: Ledger,
    resource_id: str,
    change: Callable[[Memory], Memory],
    now: datetime,
    known: Memory | None = None,
    fields: Collection[str] | None = None,
) -> Memory:
    """Apply `change` to whatever memory is stored. Returns the memory as written; an unchanged memory isn't written.

    `known` is the memory as read before, which saves a read; `fields` are the only ones to write. Raises CloudError if the ledger fails or other writers always come first.
    """
    first = [known] if known is not None else []

    def attempt() -> Memory | None:
        memory = first.pop() if first else ledger.memory(resource_id, now)
        new = change(memory)
        return new if new == memory or ledger.remember(resource_id, new, memory.version, now, fields) else None

    return write_until_accepted(attempt, resource_id)


def update_row(
    ledger: Ledger, name: str, change: Callable[[NamedRow], Mapping[str, str] | None], subject: str | None = None
) -> Mapping[str, str]:
    """Replace a named row by what `change` makes of it; None writes nothing. Returns its values. Raises CloudError about `subject`."""

    def attempt() -> Mapping[str, str] | None:
        row = ledger.read_row(name)
        values = change(row)
        if values is None:
            return row.values
        return values if ledger.write_row(name, values, row.version) else None

    return write_until_accepted(attempt, subject or f"the row {name!r}")
