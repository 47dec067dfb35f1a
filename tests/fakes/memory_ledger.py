"""A ledger that lasts as long as the test, for subclasses whose operations fail, wait or count."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fakes.in_memory_store import InMemoryStore
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Category, Key, NamedRow, Recalled


class InMemoryLedger(Ledger):
    """A ledger over a store of its own."""

    def __init__(self) -> None:
        self.memory_store = InMemoryStore()
        super().__init__(self.memory_store)

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        """Through the two operations that a subclass may replace."""
        return self.recall(ids, now), self.read_row(name)

    @property
    def named_rows(self) -> dict[str, NamedRow]:
        """Every named row."""
        names = [key.name for key in self.memory_store.rows if key.category is Category.STATE]
        return {name: Ledger.read_row(self, name) for name in names}

    def stored_key(self, resource_id: str) -> Key:
        """Where the record of this resource is."""
        [key] = [key for key in self.memory_store.rows if key.category is Category.RECORD and key.name == resource_id]
        return key
