"""Removes a person's address from a ledger, row by row. Nothing else about a resource is lost: its snooze, its manifest and its history stay.

A redacted history entry is added before the old one is removed, and every other row is replaced by its version, so a run that breaks off
has lost nothing, and running it again finishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import (
    DOCUMENT,
    VALUE_PREFIX,
    AtVersion,
    Category,
    HistoryEntry,
    Row,
    Visit,
    document_of,
    parse_document,
    valid_version,
)
from reaper.limits.holds import HOLD_ROW, HoldRow
from reaper.model import Pause
from reaper.pending.stop_switch import PAUSE_ROW
from reaper.record import Record, Snooze

CATEGORIES = frozenset(Category) - {Category.LEASE, Category.STATISTICS, Category.TREND}
"""The rows that may name a person. Leases, statistics and the trend never do."""
FORGOTTEN = "(forgotten)"
"""Replaces an address. No owner has it, so a notice that went to the address no longer counts and the next run sends another one."""
FORMS: Mapping[Category, Any] = {
    Category.RECORD: Record,
    Category.SNOOZE: Snooze,
    Category.HISTORY: HistoryEntry,
    Category.VISIT: Visit,
}
ROW_FORMS: Mapping[str, Any] = {PAUSE_ROW: Pause, HOLD_ROW: HoldRow}
"""Of named rows, by the first word of their name. Others have columns."""
PERSON_FIELDS = frozenset(
    {
        "notice.to",
        "notice.receipt",
        "notice.escalated_to",
        "claim.to",
        "correction.to",
        "act.owner",
        "act.because",
        "address",
        "because",
        "by",
        "reason",
        "disowned_by",
        "release.by",
    }
)
"""The fields of a document that name a person, or are free text."""
PERSON_COLUMN = "by"
"""A column or field that names a person in more words than the address: it is replaced as a whole."""
RECIPIENT_FIELD = "act.owner"
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
    # Before it is read, a document has a backslash and a letter for a line's end, so only the address itself can be looked for.
    mentioned = re.compile(re.escape(address), re.IGNORECASE)
    for number in range(MAX_PASSES):
        lost = []
        for row in ledger.store.scan():
            may_name = row.key.category in CATEGORIES and any(mentioned.search(text) for text in row.texts.values())
            outcome = _forget_in_row(row, pattern, ledger) if may_name else None
            if outcome and outcome.error == CHANGED and number < MAX_PASSES - 1:
                lost.append(outcome)
            elif outcome:
                yield outcome
        if not lost:
            return


def _forget_in_row(row: Row, pattern: re.Pattern[str], ledger: Ledger) -> ForgottenRow | None:
    """The row once it is done; None if it hasn't the address. Of a document only what names a person or is free text is changed."""
    category, names, new = row.key.category, list[str](), None
    outcome = ForgottenRow(sort=category, id=row.texts.get("id", row.key.name), columns=())
    try:
        if form := ROW_FORMS.get(row.key.name.partition(" ")[0]) if category is Category.STATE else FORMS.get(category):
            column = f"{VALUE_PREFIX}{DOCUMENT}" if category in {Category.VISIT, Category.STATE} else DOCUMENT
            noun = parse_document(form, row.columns.get(column), f"the {category} of {outcome.id}")
            new = _redacted_noun(noun, pattern, names)
            changed = {column: document_of(new)}
        else:
            texts = {name: _without_address(name, text, pattern) or "" for name, text in row.texts.items()}
            changed = {name: text for name, text in texts.items() if row.texts[name] != text}
            names = [name.removeprefix(VALUE_PREFIX) for name in changed]
        if not names:
            return None
        outcome = replace(outcome, columns=tuple(sorted(names)))
        if not isinstance(new, HistoryEntry):
            return outcome if _is_replaced(row, changed, ledger) else replace(outcome, error=CHANGED)
        ledger.add_history(new)
        ledger.store.delete(row.key)
        return outcome
    except CloudError as failure:
        if failure.reason is not Reason.UNREADABLE:
            raise
        return replace(outcome, error=str(failure))


def _redacted_noun(noun: Any, pattern: re.Pattern[str], changed: list[str], path: str = "") -> Any:
    """The noun without the address. The names of the fields that had it are added to `changed`."""
    new = {}
    for field in fields(noun):
        value, name = getattr(noun, field.name), f"{path}{field.name}"
        if is_dataclass(value):
            new[field.name] = _redacted_noun(value, pattern, changed, f"{name}.")
            continue
        if name not in PERSON_FIELDS or value is None:
            continue
        redact = partial(_without_address, name, pattern=pattern)
        new[field.name] = tuple(map(redact, value)) if isinstance(value, tuple) else redact(value)
        if new[field.name] != value:
            changed.append(name)
    return replace(noun, **new)


def _without_address(name: str, text: str, pattern: re.Pattern[str]) -> str | None:
    """The text of a field or column without the address."""
    if name in FIXED_COLUMNS or not pattern.search(text):
        return text
    if name == RECIPIENT_FIELD:
        return None
    is_person = name.removeprefix(VALUE_PREFIX).rpartition(".")[2] == PERSON_COLUMN
    return FORGOTTEN if is_person else pattern.sub(FORGOTTEN, text)


def _is_replaced(row: Row, changed: dict[str, str], ledger: Ledger) -> bool:
    """Write what changed, and leave the row's retention as it is. Returns False if another writer came first."""
    if len(row.texts) != len(row.columns):
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"{row.key.name} has a value that isn't a string")
    condition = AtVersion(version=valid_version(row.version, f"the {row.key.category} of {row.key.name}"))
    return ledger.store.put(row.key, row.texts | changed, row.touched, condition)
