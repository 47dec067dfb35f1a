"""The ledger that is gone when the process ends: for trying things out, for the demo and for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from reaper.ledger import KEEP, History, Recalled, Summary, readable
from reaper.model import Memory, Target
from reaper.row import from_memory, place, same, stamp, to_memory, touched


class Fleeting:
    """`reaper.ledger.Ledger` in dictionaries, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memories: dict[str, tuple[str, int, dict[str, str]]] = {}
        self._leases: dict[str, tuple[str, datetime]] = {}
        self._summaries: dict[tuple[str, str, str, str], Summary] = {}
        self._history: dict[History, None] = {}

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        with self._lock:
            held = {id: row for id in ids if (row := self._held(id, now))}
        return readable(held, lambda id, row: to_memory(row[2], row[1], id))

    def remember(self, id: str, memory: Memory, expected_version: int, now: datetime) -> bool:
        with self._lock:
            held = self._held(id, now)
            if (held[1] if held else 0) != expected_version:
                return False
            self._memories[same(id)] = (stamp(touched(memory, now)), expected_version + 1, from_memory(memory))
            return True

    def lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        with self._lock:
            found = self._leases.get(place(target))
            if found and found[0] != holder and found[1] > now:
                return False
            self._leases[place(target)] = (holder, now + ttl)
            return True

    def release(self, target: Target, holder: str) -> None:
        with self._lock:
            if self._leases.get(place(target), ("",))[0] == holder:
                del self._leases[place(target)]

    def record(self, summary: Summary) -> None:
        with self._lock:
            self._summaries[(place(summary.target), summary.kind, stamp(summary.started), summary.run)] = summary

    def summaries(self, target: Target, kind: str, limit: int) -> list[Summary]:
        with self._lock:
            found = sorted((key, s) for key, s in self._summaries.items() if key[:2] == (place(target), kind))
        return [summary for _, summary in found[::-1][:limit]]

    def note(self, entry: History) -> None:
        with self._lock:
            self._history[entry] = None

    def history(self, id: str) -> list[History]:
        with self._lock:
            return sorted((e for e in self._history if same(e.id) == same(id)), key=lambda e: e.when)

    def forget_before(self, moment: datetime) -> int:
        with self._lock:
            before = self._size()
            self._memories = {k: v for k, v in self._memories.items() if v[0] >= stamp(moment)}
            self._leases = {k: v for k, v in self._leases.items() if v[1] >= moment}
            self._summaries = {k: v for k, v in self._summaries.items() if v.started >= moment}
            self._history = {e: None for e in self._history if e.when >= moment}
            return before - self._size()

    def close(self) -> None:
        """There is nothing to let go of."""

    def _held(self, id: str, now: datetime) -> tuple[str, int, dict[str, str]] | None:
        held = self._memories.get(same(id))
        return held if held and held[0] >= stamp(now - KEEP) else None

    def _size(self) -> int:
        return len(self._memories) + len(self._leases) + len(self._summaries) + len(self._history)


def open(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> Fleeting:
    """A new, empty one; nothing is read from the arguments."""
    return Fleeting()
