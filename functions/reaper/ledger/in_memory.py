"""A ledger that lasts as long as the process: for trying things out, for the demo and for tests."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reaper.ledger.codec import (
    history_columns,
    memory_from_row,
    merge_row,
    retained_from,
    unfinished_columns,
    unfinished_from_row,
)
from reaper.ledger.port import RETENTION, HistoryEntry, NamedRow, Recalled, RunStatistics, Unfinished, memories_from_rows
from reaper.ledger.stored_rows import RowSort, StoredRow
from reaper.ledger.stored_text import comparable_id, sortable_time, target_text
from reaper.model import Memory, Target


class InMemoryLedger:
    """`reaper.ledger.port.Ledger` in dictionaries, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memories: dict[str, tuple[str, int, dict[str, Any]]] = {}
        self._leases: dict[str, tuple[str, datetime]] = {}
        self._statistics: dict[tuple[str, str, str, str], RunStatistics] = {}
        self._history: dict[HistoryEntry, None] = {}
        self._unfinished: dict[tuple[Target, str], Unfinished] = {}
        self._rows: dict[str, NamedRow] = {}

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        with self._lock:
            rows = {resource_id: row for resource_id in ids if (row := self._stored(resource_id, now))}
        return memories_from_rows(rows, lambda resource_id, row: memory_from_row(row[2], row[1], resource_id))

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        return self.recall(ids, now), self.read_row(name)

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        with self._lock:
            stored = self._stored(resource_id, now)
            if (stored[1] if stored else 0) != expected_version:
                return False
            row = merge_row(stored[2] if stored else {}, replace(memory, written_at=now), fields)
            self._memories[comparable_id(resource_id)] = (sortable_time(retained_from(memory, now)), expected_version + 1, row)
            return True

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        with self._lock:
            entries = [entry for entry in self._unfinished.values() if entry.target == target and entry.at >= now - RETENTION]
        return sorted(entries, key=lambda entry: (entry.at, entry.id))

    def unfinished_targets(self, now: datetime) -> list[Target]:
        with self._lock:
            targets = {entry.target for entry in self._unfinished.values() if entry.at >= now - RETENTION}
        return sorted(targets, key=target_text)

    def add_unfinished(self, entry: Unfinished) -> None:
        with self._lock:
            self._unfinished[(entry.target, comparable_id(entry.id))] = entry

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        with self._lock:
            self._unfinished.pop((target, comparable_id(resource_id)), None)

    def read_row(self, name: str) -> NamedRow:
        with self._lock:
            return self._rows.get(name, NamedRow())

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        with self._lock:
            return {name: self._rows.get(name, NamedRow()) for name in names}

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        with self._lock:
            if self._rows.get(name, NamedRow()).version != expected_version:
                return False
            self._rows[name] = NamedRow(values=dict(values), version=expected_version + 1)
            return True

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        with self._lock:
            lease = self._leases.get(target_text(target))
            if lease and lease[0] != holder and lease[1] > now:
                return False
            self._leases[target_text(target)] = (holder, now + ttl)
            return True

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        with self._lock:
            holder, until = self._leases.get(target_text(target), ("", now))
        return holder if until > now else None

    def give_back_lease(self, target: Target, holder: str) -> None:
        with self._lock:
            if self._leases.get(target_text(target), ("",))[0] == holder:
                del self._leases[target_text(target)]

    def record_statistics(self, summary: RunStatistics) -> None:
        with self._lock:
            self._statistics[(target_text(summary.target), summary.kind, sortable_time(summary.started), summary.run)] = summary

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        with self._lock:
            rows = sorted((key, s) for key, s in self._statistics.items() if key[:2] == (target_text(target), kind))
        return [summary for _, summary in rows[::-1][:limit]]

    def add_history(self, entry: HistoryEntry) -> None:
        with self._lock:
            self._history[entry] = None

    def history(self, resource_id: str, since: datetime, limit: int) -> list[HistoryEntry]:
        key = comparable_id(resource_id)
        with self._lock:
            entries = sorted((e for e in self._history if comparable_id(e.id) == key and e.when >= since), key=lambda e: e.when)
        return entries[-limit:]

    def forget_before(self, moment: datetime) -> int:
        with self._lock:
            before = self._entry_count()
            self._memories = {k: v for k, v in self._memories.items() if v[0] >= sortable_time(moment)}
            self._leases = {k: v for k, v in self._leases.items() if v[1] >= moment}
            self._statistics = {k: v for k, v in self._statistics.items() if v.started >= moment}
            self._history = {e: None for e in self._history if e.when >= moment}
            self._unfinished = {k: v for k, v in self._unfinished.items() if v.at >= moment}
            return before - self._entry_count()

    def stored_rows(self) -> InMemoryLedger:
        return self

    def scan(self, word: str) -> Iterator[StoredRow]:
        with self._lock:
            rows = [
                *(StoredRow(sort=RowSort.MEMORY, id=k, columns=row, stored=(k, v)) for k, (_, v, row) in self._memories.items()),
                *(
                    StoredRow(sort=RowSort.OPEN, id=e.id, columns=unfinished_columns(e), stored=e)
                    for e in self._unfinished.values()
                ),
                *(StoredRow(sort=RowSort.HISTORY, id=e.id, columns=history_columns(e), stored=e) for e in self._history),
                *(StoredRow(sort=RowSort.STATE, id=k, columns=r.values, stored=(k, r.version)) for k, r in self._rows.items()),
            ]
        yield from rows

    def replace(self, row: StoredRow, columns: Mapping[str, str]) -> bool:
        with self._lock:
            if row.sort is RowSort.OPEN:
                return self._replace_unfinished(row.stored, columns)
            key, version = row.stored
            if row.sort is RowSort.STATE:
                unchanged = bool(self._rows[key].version == version)
                self._rows |= {key: NamedRow(values=dict(columns), version=version + 1)} if unchanged else {}
                return unchanged
            touched, stored_version, _ = self._memories[key]
            self._memories |= {key: (touched, version + 1, dict(columns))} if stored_version == version else {}
            return bool(stored_version == version)

    def _replace_unfinished(self, entry: Unfinished, columns: Mapping[str, str]) -> bool:
        key = (entry.target, comparable_id(entry.id))
        unchanged = self._unfinished.get(key) == entry
        self._unfinished |= {key: unfinished_from_row(columns, entry.target)} if unchanged else {}
        return unchanged

    def remove(self, row: StoredRow) -> None:
        with self._lock:
            self._history.pop(row.stored, None)

    def close(self) -> None:
        """Nothing to close."""

    def _stored(self, resource_id: str, now: datetime) -> tuple[str, int, dict[str, Any]] | None:
        row = self._memories.get(comparable_id(resource_id))
        return row if row and row[0] >= sortable_time(now - RETENTION) else None

    def _entry_count(self) -> int:
        return len(self._memories) + len(self._leases) + len(self._statistics) + len(self._history) + len(self._unfinished)


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> InMemoryLedger:
    """A new, empty ledger. Ignores its arguments."""
    return InMemoryLedger()
