"""The ledger in one SQLite file: the command line's default. Several processes may use it at once.

Upsert with a condition: https://sqlite.org/lang_upsert.html
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reaper.errors import CloudError, Reason
from reaper.ledger.codec import (
    entry_digest,
    history_columns,
    history_from_row,
    memory_from_row,
    merge_row,
    retained_from,
    statistics_columns,
    statistics_from_row,
    unfinished_columns,
    unfinished_from_row,
)
from reaper.ledger.port import RETENTION, HistoryEntry, NamedRow, Recalled, RunStatistics, Unfinished, memories_from_rows
from reaper.ledger.sqlite_file import SqliteFile, open_file
from reaper.ledger.sqlite_rows import SqliteRows
from reaper.ledger.stored_text import comparable_id, sortable_time, target_from_text, target_text
from reaper.model import Memory, Target

MAX_IDS_PER_QUERY = 500
"""IDs in one statement."""


class SqliteLedger:
    """`reaper.ledger.port.Ledger` in a file, safe to use from several threads and processes."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        key_by_id = {resource_id: comparable_id(resource_id) for resource_id in ids}
        keys = list(dict.fromkeys(key_by_id.values()))
        rows: dict[str, tuple[Any, Any]] = {}
        for chunk in (keys[at : at + MAX_IDS_PER_QUERY] for at in range(0, len(keys), MAX_IDS_PER_QUERY)):
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT key, row, version FROM memory WHERE touched >= ? AND key IN ({marks})"
            for key, row, version in self._file.read("Recall", sql, sortable_time(now - RETENTION), *chunk):
                rows[key] = row, version
        stored = {resource_id: rows[key] for resource_id, key in key_by_id.items() if key in rows}
        return memories_from_rows(stored, lambda resource_id, row: memory_from_row(_parse_row(row[0]), row[1], resource_id))

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        return self.recall(ids, now), self.read_row(name)

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key = comparable_id(resource_id)
        with self._file.transaction("Remember") as run:
            sql = "SELECT version, row FROM memory WHERE key = ? AND touched >= ?"
            stored = run(sql, (key, sortable_time(now - RETENTION))).fetchone()
            if (stored[0] if stored else 0) != expected_version:
                return False
            row = json.dumps(merge_row(_parse_row(stored[1]) if stored else {}, replace(memory, written_at=now), fields))
            sql = "INSERT OR REPLACE INTO memory (key, id, version, touched, row) VALUES (?, ?, ?, ?, ?)"
            run(sql, (key, resource_id, expected_version + 1, sortable_time(retained_from(memory, now)), row))
            return True

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        sql = "SELECT row FROM open WHERE place = ? AND touched >= ? ORDER BY touched, key"
        return [
            unfinished_from_row(_parse_row(row), target)
            for (row,) in self._file.read("Unfinished", sql, target_text(target), sortable_time(now - RETENTION))
        ]

    def unfinished_targets(self, now: datetime) -> list[Target]:
        sql = "SELECT DISTINCT place FROM open WHERE touched >= ? ORDER BY place"
        return [target_from_text(place) for (place,) in self._file.read("Unfinished", sql, sortable_time(now - RETENTION))]

    def add_unfinished(self, entry: Unfinished) -> None:
        row = (target_text(entry.target), comparable_id(entry.id), sortable_time(entry.at), json.dumps(unfinished_columns(entry)))
        self._file.write("Begin", "INSERT OR REPLACE INTO open VALUES (?, ?, ?, ?)", *row)

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        self._file.write("End", "DELETE FROM open WHERE place = ? AND key = ?", target_text(target), comparable_id(resource_id))

    def read_row(self, name: str) -> NamedRow:
        return self.read_rows([name])[name]

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        rows = {name: NamedRow() for name in names}
        known = list(rows)
        for chunk in (known[at : at + MAX_IDS_PER_QUERY] for at in range(0, len(known), MAX_IDS_PER_QUERY)):
            sql = f"SELECT name, row, version FROM state WHERE name IN ({','.join('?' * len(chunk))})"
            for name, row, version in self._file.read("State", sql, *chunk):
                rows[name] = NamedRow(values=_parse_texts(row), version=version)
        return rows

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        row = (json.dumps(dict(values)), expected_version + 1)
        if expected_version:
            sql = "UPDATE state SET row = ?, version = ? WHERE name = ? AND version = ?"
            return bool(self._file.write("WriteState", sql, *row, name, expected_version))
        sql = "INSERT OR IGNORE INTO state (row, version, name) VALUES (?, ?, ?)"
        return bool(self._file.write("WriteState", sql, *row, name))

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        sql = (
            "INSERT INTO lease VALUES (?, ?, ?) ON CONFLICT (place) DO UPDATE SET holder = excluded.holder, touched = excluded.touched"
            " WHERE lease.holder = excluded.holder OR lease.touched <= ?"
        )
        return bool(self._file.write("Lease", sql, target_text(target), holder, sortable_time(now + ttl), sortable_time(now)))

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        sql = "SELECT holder FROM lease WHERE place = ? AND touched > ?"
        rows = self._file.read("Lease", sql, target_text(target), sortable_time(now))
        return str(rows[0][0]) if rows else None

    def give_back_lease(self, target: Target, holder: str) -> None:
        self._file.write("Release", "DELETE FROM lease WHERE place = ? AND holder = ?", target_text(target), holder)

    def record_statistics(self, summary: RunStatistics) -> None:
        key = (target_text(summary.target), summary.kind, sortable_time(summary.started), summary.run)
        self._file.write(
            "Record", "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?)", *key, json.dumps(statistics_columns(summary))
        )

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        sql = "SELECT row FROM summary WHERE place = ? AND kind = ? ORDER BY touched DESC, run DESC LIMIT ?"
        return [
            statistics_from_row(_parse_row(row)) for (row,) in self._file.read("Summaries", sql, target_text(target), kind, limit)
        ]

    def add_history(self, entry: HistoryEntry) -> None:
        key = (comparable_id(entry.id), sortable_time(entry.when), entry_digest(entry))
        self._file.write("Note", "INSERT OR IGNORE INTO history VALUES (?, ?, ?, ?)", *key, json.dumps(history_columns(entry)))

    def history(self, resource_id: str, since: datetime, limit: int) -> list[HistoryEntry]:
        sql = "SELECT row FROM history WHERE key = ? AND touched >= ? ORDER BY touched DESC, digest DESC LIMIT ?"
        rows = self._file.read("History", sql, comparable_id(resource_id), sortable_time(since), limit)
        return [history_from_row(_parse_row(row)) for (row,) in reversed(rows)]

    def forget_before(self, moment: datetime) -> int:
        tables = ("memory", "lease", "summary", "history", "open")
        return sum(
            self._file.write("Forget", f"DELETE FROM {table} WHERE touched < ?", sortable_time(moment)) for table in tables
        )

    def stored_rows(self) -> SqliteRows:
        return SqliteRows(self._file)

    def close(self) -> None:
        self._file.close()


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> SqliteLedger:
    """The ledger in the file, created if missing. With `read_only`, a copy that refuses writes. Raises SettingsError."""
    return SqliteLedger(open_file(address, read_only=read_only))


def _parse_texts(stored: str) -> dict[str, str]:
    row = _parse_row(stored)
    if not all(isinstance(value, str) for value in row.values()):
        raise CloudError(Reason.UNREADABLE, "sqlite:Read", "a named row has a value that is not a string")
    return row


def _parse_row(stored: str) -> dict[str, Any]:
    try:
        row = json.loads(stored)
    except (ValueError, TypeError) as error:
        raise CloudError(Reason.UNREADABLE, "sqlite:Read", f"a row is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise CloudError(Reason.UNREADABLE, "sqlite:Read", "a row is not an object")
    return row
