"""The stop switch: one named row of the ledger. While it is on, nothing is stopped, deleted or started; restore, undo and notices go on.

A person sets it with `reaper pause` and ends it with `reaper resume`. A row that can't be read or understood counts as on.
"""

from __future__ import annotations

from datetime import UTC, datetime

from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import NamedRow, parse_time, sortable_time
from reaper.model import UNTIL_RESUMED, Pause

PAUSE_ROW = "pause"
"""The row of the ledger. Its column `state` is `on` or `off`; without `until`, a pause lasts until it is ended."""
ON, OFF = "on", "off"


def read_pause(ledger: Ledger, now: datetime) -> Pause | None:
    """The pause at `now`; None if the switch is off or was never used. Never raises ReaperError: an unreadable switch is on."""
    try:
        row = ledger.read_row(PAUSE_ROW)
    except ReaperError as error:
        return Pause(unreadable_because=str(error))
    return pause_in_row(row, now)


def pause_in_row(row: NamedRow, now: datetime) -> Pause | None:
    """The pause in the row, unless it is over. Only an empty row and `off` are no pause."""
    state = row.values.get("state")
    if not row.version or state == OFF:
        return None
    try:
        if state != ON:
            raise ValueError(f"its state is {state!r}")
        until = parse_time(row.values["until"]).astimezone(UTC) if "until" in row.values else UNTIL_RESUMED
        at = parse_time(row.values["at"]) if "at" in row.values else None
        pause = Pause(until=until, by=row.values.get("by", ""), at=at)
    except (ValueError, TypeError, OverflowError) as error:
        return Pause(unreadable_because=f"its row can't be understood ({error})")
    return pause if pause.until > now else None


def set_pause(ledger: Ledger, pause: Pause, now: datetime) -> Pause | None:
    """Turn the switch on, and return what the ledger then has. Raises CloudError if that fails."""
    end = {} if pause.until == UNTIL_RESUMED else {"until": sortable_time(pause.until)}
    values = {"state": ON, "by": pause.by, "at": sortable_time(now), **end}
    update_row(ledger, PAUSE_ROW, lambda row: values)
    return pause_in_row(ledger.read_row(PAUSE_ROW), now)


def end_pause(ledger: Ledger, by: str, now: datetime) -> Pause | None:
    """Turn the switch off, and return what the ledger then has: None. Raises CloudError if that fails."""
    update_row(ledger, PAUSE_ROW, lambda row: {"state": OFF, "by": by, "at": sortable_time(now)})
    return pause_in_row(ledger.read_row(PAUSE_ROW), now)


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
