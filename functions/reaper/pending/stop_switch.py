"""The stop switch: one named row of the ledger. While it is on, nothing is stopped, deleted or started; restore, undo and notices go on.

A person sets it with `reaper pause` and ends it with `reaper resume`. A row that can't be read or understood counts as on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import DOCUMENT, LONG_AGO, NamedRow, document_of, parse_document
from reaper.model import UNTIL_RESUMED, Pause

PAUSE_ROW = "pause"
"""The row of the ledger, with the last pause. One that was ended lasts until `LONG_AGO`."""


def read_pause(ledger: Ledger, now: datetime) -> Pause | None:
    """The pause at `now`; None if the switch is off or was never used. Never raises ReaperError: an unreadable switch is on."""
    try:
        row = ledger.read_row(PAUSE_ROW)
    except ReaperError as error:
        return Pause(unreadable_because=str(error))
    return pause_in_row(row, now)


def pause_in_row(row: NamedRow, now: datetime) -> Pause | None:
    """The pause in the row, unless it is over. Only a row that was never written is none."""
    if not row.version:
        return None
    try:
        pause = parse_document(Pause, row.values.get(DOCUMENT), "its row")
    except ReaperError as error:
        return Pause(unreadable_because=str(error))
    return replace(pause, until=min(pause.until, UNTIL_RESUMED)) if pause.until > now else None


def set_pause(ledger: Ledger, pause: Pause, now: datetime) -> Pause | None:
    """Turn the switch on, and return what the ledger then has. Raises CloudError if that fails."""
    values = {DOCUMENT: document_of(replace(pause, at=now))}
    update_row(ledger, PAUSE_ROW, lambda row: values)
    return pause_in_row(ledger.read_row(PAUSE_ROW), now)


def end_pause(ledger: Ledger, by: str, now: datetime) -> Pause | None:
    """Turn the switch off, and return what the ledger then has: None. Raises CloudError if that fails."""
    return set_pause(ledger, Pause(until=LONG_AGO, by=by), now)


def paused_because(pause: Pause) -> str:
    """Why nothing is carried out, as a clause."""
    if pause.unreadable_because:
        return f"the stop switch can't be read, so it counts as on: {pause.unreadable_because}"
    by = f", set by {pause.by}" if pause.by else ""
    is_open = pause.until == UNTIL_RESUMED
    until = "`reaper resume`" if is_open else f"{pause.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"the stop switch is on until {until}{by}"


def paused_sentence(pause: Pause | None) -> str:
    """The pause as a sentence for reports; empty if there is none."""
    if pause is None:
        return ""
    clause = paused_because(pause)
    return f"{clause[:1].upper()}{clause[1:]}. Nothing is stopped, deleted or started."
