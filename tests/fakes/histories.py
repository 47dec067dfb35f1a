"""The history of a resource as tests look at it: the whole of it."""

from __future__ import annotations

from datetime import UTC, datetime

from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import HistoryEntry


def history_of(ledger: Ledger, resource_id: str) -> list[HistoryEntry]:
    """Every entry, oldest first."""
    return ledger.history(resource_id, datetime(2000, 1, 1, tzinfo=UTC), 10_000)
