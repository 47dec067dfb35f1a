"""The history of a resource as tests look at it: all of it but the entries before each manifest."""

from __future__ import annotations

from datetime import UTC, datetime

from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import HistoryEntry
from reaper.pending.unfinished import BEGAN


def history_of(ledger: Ledger, resource_id: str) -> list[HistoryEntry]:
    """Every entry but those of actions about to begin, oldest first."""
    entries = ledger.history(resource_id, datetime(2000, 1, 1, tzinfo=UTC), 10_000)
    return [entry for entry in entries if entry.what != BEGAN]
