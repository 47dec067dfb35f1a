"""Removes a person's address from a ledger, row by row. Nothing else about a resource is lost: its snooze, its manifest and its history stay.

A redacted history entry is added before the old one is removed, and every other row is replaced by its version, so a run that breaks off
has lost nothing, and running it again finishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import VALUE_PREFIX, history_from_row, valid_version
from reaper.ledger.store import AtVersion, Category, Having, Row

CATEGORIES = frozenset(Category) - {Category.LEASE, Category.STATISTICS, Category.TREND}
"""The rows that may name a person. Leases, statistics and the trend never do."""
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

    sort: Category
    id: str
    columns: tuple[str, ...]
    error: str = ""


def forget_address(ledger: Ledger, address: str) -> Iterator[ForgottenRow]:
    """Remove the address from every row. Yields each row once it is done, and those that couldn't be changed. Raises CloudError."""
    # The address as a whole: not as a part of a longer one, but also as the beginning of a file that a folder of mails has.
    pattern = re.compile(rf"(?<![\w.+-]){re.escape(address)}(?!\w|\.\w|-(?!{MAIL_FILE_ENDING}))", re.IGNORECASE)
    for number in range(MAX_PASSES):
        lost = []
        for row in ledger.store.scan():
            outcome = _forget_in_row(row, pattern, ledger) if row.key.category in CATEGORIES else None
            if outcome and outcome.error == CHANGED and number < MAX_PASSES - 1:
                lost.append(outcome)
            elif outcome:
                yield outcome
        if not lost:
            return


def _forget_in_row(row: Row, pattern: re.Pattern[str], ledger: Ledger) -> ForgottenRow | None:
    new = {name: _redacted(name, text, row.key.category, pattern) for name, text in row.texts.items()}
    changed = {name: text for name, text in new.items() if row.texts[name] != text}
    if not changed:
        return None
    outcome = ForgottenRow(
        sort=row.key.category,
        id=row.texts.get("id", row.key.name),
        columns=tuple(sorted(name.removeprefix(VALUE_PREFIX) for name in changed)),
    )
    try:
        return outcome if _write_row(row, changed, ledger) else replace(outcome, error=CHANGED)
    except CloudError as failure:
        if failure.reason is not Reason.UNREADABLE:
            raise
        return replace(outcome, error=str(failure))


def _write_row(row: Row, changed: Mapping[str, str | None], ledger: Ledger) -> bool:
    """Write what changed, and leave the row's retention as it is. Returns False if another writer came first."""
    if row.key.category is Category.HISTORY:
        ledger.add_history(history_from_row({**row.texts, **changed}))
        ledger.store.delete(row.key)
        return True
    condition: AtVersion | Having = Having(column="at", text=row.texts.get("at", ""))
    if row.key.category is not Category.OPEN:
        condition = AtVersion(version=valid_version(row.version, f"the {row.key.category} of {row.key.name}"))
    return ledger.store.change(row.key, changed, None, condition)


def _redacted(name: str, text: str, category: Category, pattern: re.Pattern[str]) -> str | None:
    """The text without the address; None if the column goes."""
    if name in FIXED_COLUMNS or not pattern.search(text):
        return text
    if category is Category.OPEN and name == RECIPIENT_COLUMN:
        return None
    return FORGOTTEN if name.removeprefix(VALUE_PREFIX) in PERSON_COLUMNS else pattern.sub(FORGOTTEN, text)
