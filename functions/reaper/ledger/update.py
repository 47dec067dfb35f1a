"""Writes by compare and swap: read, change, write under the version that was read, and start over if another writer came first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import NamedRow
from reaper.record import Record, Snooze

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


def update_record(
    ledger: Ledger, resource_id: str, change: Callable[[Record], Record], now: datetime, known: Record | None = None
) -> Record:
    """Apply `change` to whatever record is stored. Returns the record as written; an unchanged one isn't written.

    `known` is the record as read before, which saves a read. Raises CloudError if the ledger fails or other writers always come first.
    """
    first = [known] if known is not None else []

    def attempt() -> Record | None:
        record = first.pop() if first else ledger.record(resource_id, now)
        new = change(record)
        return new if new == record or ledger.write_record(resource_id, new, record.version, now) else None

    return write_until_accepted(attempt, resource_id)


def update_snooze(
    ledger: Ledger, resource_id: str, change: Callable[[Snooze], Snooze], now: datetime, known: Snooze | None = None
) -> Snooze:
    """Apply `change` to whatever a person said, as `update_record` does."""
    first = [known] if known is not None else []

    def attempt() -> Snooze | None:
        snooze = first.pop() if first else ledger.snooze(resource_id, now)
        new = change(snooze)
        return new if new == snooze or ledger.write_snooze(resource_id, new, snooze.version, now) else None

    return write_until_accepted(attempt, f"the snooze of {resource_id}")


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
