"""The ledger that is gone when the process ends: for trying things out, for the demo and for tests."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reaper.ledger.codec import merged, place, same, stamp, to_memory, touched
from reaper.ledger.port import KEEP, History, Recalled, State, Summary, Unfinished, readable
from reaper.model import Memory, Target


class Fleeting:
    """`reaper.ledger.port.Ledger` in dictionaries, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memories: dict[str, tuple[str, int, dict[str, Any]]] = {}
        self._leases: dict[str, tuple[str, datetime]] = {}
        self._summaries: dict[tuple[str, str, str, str], Summary] = {}
        self._history: dict[History, None] = {}
        self._open: dict[tuple[Target, str], Unfinished] = {}
        self._states: dict[str, State] = {}

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        with self._lock:
            held = {id: row for id in ids if (row := self._held(id, now))}
        return readable(held, lambda id, row: to_memory(row[2], row[1], id))

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        with self._lock:
            held = self._held(id, now)
            if (held[1] if held else 0) != expected_version:
                return False
            row = merged(held[2] if held else {}, memory, fields)
            self._memories[same(id)] = (stamp(touched(memory, now)), expected_version + 1, row)
            return True

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        with self._lock:
            found = [entry for entry in self._open.values() if entry.target == target and entry.at >= now - KEEP]
        return sorted(found, key=lambda entry: (entry.at, entry.id))

    def begin(self, entry: Unfinished) -> None:
        with self._lock:
            self._open[(entry.target, same(entry.id))] = entry

    def end(self, target: Target, id: str) -> None:
        with self._lock:
            self._open.pop((target, same(id)), None)

    def state(self, name: str) -> State:
        with self._lock:
            return self._states.get(name, State())

    def write_state(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        with self._lock:
            if self._states.get(name, State()).version != expected_version:
                return False
            self._states[name] = State(values=dict(values), version=expected_version + 1)
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
            self._open = {k: v for k, v in self._open.items() if v.at >= moment}
            return before - self._size()

    def close(self) -> None:
        """There is nothing to let go of."""

    def _held(self, id: str, now: datetime) -> tuple[str, int, dict[str, Any]] | None:
        held = self._memories.get(same(id))
        return held if held and held[0] >= stamp(now - KEEP) else None

    def _size(self) -> int:
        return len(self._memories) + len(self._leases) + len(self._summaries) + len(self._history) + len(self._open)


def open(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> Fleeting:
    """A new, empty one; nothing is read from the arguments."""
    return Fleeting()
