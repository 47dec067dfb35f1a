"""A ledger that fails when it is told to: `blunder` may raise before an operation, and again after it took effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from reaper.errors import CloudError, Trouble
from reaper.ledger.in_memory import Fleeting
from reaper.ledger.port import History, Recalled, Summary, Unfinished
from reaper.model import Memory, Target


class Frail(Fleeting):
    """`reaper.ledger.port.Ledger`. What is remembered of the ids in `garbled` cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.blunder: Callable[[str, str], None] = lambda call, id: None
        self.garbled: set[str] = set()

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        self.blunder("recall", "")
        found = super().recall(ids, now)
        spoilt = {id: CloudError(Trouble.GARBLED, "ledger", f"{id} cannot be read") for id in found if id in self.garbled}
        return Recalled({id: memory for id, memory in found.items() if id not in spoilt}, spoilt)

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        self.blunder("remember", id)
        written = super().remember(id, memory, expected_version, now)
        self.blunder("remembered", id)
        return written

    def begin(self, entry: Unfinished) -> None:
        self.blunder("begin", entry.id)
        super().begin(entry)
        self.blunder("began", entry.id)

    def end(self, target: Target, id: str) -> None:
        self.blunder("end", id)
        super().end(target, id)
        self.blunder("ended", id)

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        self.blunder("unfinished", "")
        return super().unfinished(target, now)

    def lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        self.blunder("lease", holder)
        return super().lease(target, holder, now, ttl)

    def release(self, target: Target, holder: str) -> None:
        self.blunder("release", holder)
        super().release(target, holder)

    def record(self, summary: Summary) -> None:
        self.blunder("summary", "")
        super().record(summary)

    def summaries(self, target: Target, kind: str, limit: int) -> list[Summary]:
        self.blunder("summaries", "")
        return super().summaries(target, kind, limit)

    def note(self, entry: History) -> None:
        self.blunder("note", entry.id)
        super().note(entry)
        self.blunder("noted", entry.id)

    def history(self, id: str) -> list[History]:
        self.blunder("history", id)
        return super().history(id)
