"""Removes a person's address from a ledger, row by row. Nothing else about a resource is lost: its snooze, its manifest and its history stay.

A redacted history entry is added before the old one is removed, and every other row is replaced by its version, so a run that breaks off
has lost nothing, and running it again finishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reaper.errors import CloudError, Reason
from reaper.ledger.codec import history_from_row
from reaper.ledger.port import Ledger
from reaper.ledger.stored_rows import RowSort, StoredRow, StoredRows

FORGOTTEN = "(forgotten)"
"""Replaces an address. No owner has it, so a notice that went to the address no longer counts and the next run sends another one."""
PERSON_COLUMNS = frozenset({"snoozed_by", "by"})
"""Columns that name a person in more words than the address: they are replaced as a whole."""
RECIPIENT_COLUMN = "owner"
"""The recipient of a mail that is still to be sent: it is removed, so that nothing is sent there."""
FIXED_COLUMNS = frozenset({"id", "when", "kind", "name", "region", "run", "action", "at"})
"""Columns that say what a row is about."""
MAIL_FILE_ENDING = r"[0-9a-f]{8}\.eml\b"
"""How the names of files continue that `notices.channels.folder` writes, and that its receipts contain."""
CHANGED = "it changed at the same moment"
MAX_PASSES = 4
"""How often rows that changed meanwhile are read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenRow:
    """A row that had the address, and the columns that did. `error`: why it still has it."""

    sort: RowSort
    id: str
    columns: tuple[str, ...]
    error: str = ""


def forget_address(ledger: Ledger, address: str) -> Iterator[ForgottenRow]:
    """Remove the address from every row. Yields each row once it is done, and those that couldn't be changed. Raises CloudError."""
    rows, pattern = ledger.stored_rows(), _address_pattern(address)
    for number in range(MAX_PASSES):
        lost = []
        for row in rows.scan(address):
            outcome = _forget_in_row(row, pattern, rows, ledger)
            if outcome and outcome.error == CHANGED and number < MAX_PASSES - 1:
                lost.append(outcome)
            elif outcome:
                yield outcome
        if not lost:
            return


def _forget_in_row(row: StoredRow, pattern: re.Pattern[str], rows: StoredRows, ledger: Ledger) -> ForgottenRow | None:
    columns = {name: new for name, text in row.columns.items() if (new := _redacted(name, text, row.sort, pattern)) is not None}
    changed = tuple(sorted(name for name, text in row.columns.items() if columns.get(name) != text))
    if not changed:
        return None
    try:
        is_written = _write_row(row, columns, rows, ledger)
        return ForgottenRow(sort=row.sort, id=row.id, columns=changed, error="" if is_written else CHANGED)
    except CloudError as failure:
        if failure.reason is not Reason.UNREADABLE:
            raise
        return ForgottenRow(sort=row.sort, id=row.id, columns=changed, error=str(failure))


def _write_row(row: StoredRow, columns: Mapping[str, str], rows: StoredRows, ledger: Ledger) -> bool:
    if row.sort is not RowSort.HISTORY:
        return rows.replace(row, columns)
    ledger.add_history(history_from_row(columns))
    rows.remove(row)
    return True


def _redacted(name: str, text: str, sort: RowSort, pattern: re.Pattern[str]) -> str | None:
    """The text without the address; None if the column goes."""
    if name in FIXED_COLUMNS or not pattern.search(text):
        return text
    if sort is RowSort.OPEN and name == RECIPIENT_COLUMN:
        return None
    return FORGOTTEN if name in PERSON_COLUMNS else pattern.sub(FORGOTTEN, text)


def _address_pattern(address: str) -> re.Pattern[str]:
    """The address as a whole: not as a part of a longer one, but also as the beginning of a file that a folder of mails has."""
    return re.compile(rf"(?<![\w.+-]){re.escape(address)}(?!\w|\.\w|-(?!{MAIL_FILE_ENDING}))", re.IGNORECASE)
