"""A ledger that fails when it is told to: `blunder` may raise before an operation, and again after it took effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from reaper.errors import CloudError, Reason
from reaper.ledger.in_memory import InMemoryLedger
from reaper.ledger.port import HistoryEntry, Recalled, RunStatistics, Unfinished
from reaper.model import Memory, Target


class Frail(InMemoryLedger):
    """`reaper.ledger.port.Ledger`. What is remembered of the ids in `garbled` cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.blunder: Callable[[str, str], None] = lambda call, id: None
        self.garbled: set[str] = set()

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        self.blunder("recall", "")
        found = super().recall(ids, now)
        spoilt = {id: CloudError(Reason.UNREADABLE, "ledger", f"{id} cannot be read") for id in found if id in self.garbled}
        return Recalled({id: memory for id, memory in found.items() if id not in spoilt}, spoilt)

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        self.blunder("remember", id)
        written = super().remember(id, memory, expected_version, now)
        self.blunder("remembered", id)
        return written

    def add_unfinished(self, entry: Unfinished) -> None:
        self.blunder("begin", entry.id)
        super().add_unfinished(entry)
        self.blunder("began", entry.id)

    def remove_unfinished(self, target: Target, id: str) -> None:
        self.blunder("end", id)
        super().remove_unfinished(target, id)
        self.blunder("ended", id)

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        self.blunder("unfinished", "")
        return super().unfinished(target, now)

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        self.blunder("lease", holder)
        return super().take_lease(target, holder, now, ttl)

    def give_back_lease(self, target: Target, holder: str) -> None:
        self.blunder("release", holder)
        super().give_back_lease(target, holder)

    def record_statistics(self, summary: RunStatistics) -> None:
        self.blunder("summary", "")
        super().record_statistics(summary)

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        self.blunder("summaries", "")
        return super().statistics(target, kind, limit)

    def add_history(self, entry: HistoryEntry) -> None:
        self.blunder("note", entry.id)
        super().add_history(entry)
        self.blunder("noted", entry.id)

    def history(self, id: str) -> list[HistoryEntry]:
        self.blunder("history", id)
        return super().history(id)
