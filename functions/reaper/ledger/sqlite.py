"""The ledger in one SQLite file: the command line's default. Several processes may use it at once.

Write-ahead log: https://sqlite.org/wal.html; upsert with a condition: https://sqlite.org/lang_upsert.html
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reaper.errors import CloudError, Reason, SettingsError
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
from reaper.ledger.stored_text import comparable_id, sortable_time, target_text
from reaper.model import Memory, Target

TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""
MAX_IDS_PER_QUERY = 500
"""IDs in one statement."""
SCHEMA_STEPS = (
    """
    CREATE TABLE memory (key TEXT PRIMARY KEY, id TEXT NOT NULL, version INTEGER NOT NULL, touched TEXT NOT NULL, row TEXT NOT NULL);
    CREATE TABLE lease (place TEXT PRIMARY KEY, holder TEXT NOT NULL, touched TEXT NOT NULL);
    CREATE TABLE summary (
        place TEXT, kind TEXT, touched TEXT, run TEXT, row TEXT NOT NULL, PRIMARY KEY (place, kind, touched, run)
    ) WITHOUT ROWID;
    CREATE TABLE history (key TEXT, touched TEXT, digest TEXT, row TEXT NOT NULL, PRIMARY KEY (key, touched, digest)) WITHOUT ROWID;
    """,
    """
    CREATE TABLE open (place TEXT, key TEXT, touched TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (place, key)) WITHOUT ROWID;
    CREATE TABLE state (name TEXT PRIMARY KEY, version INTEGER NOT NULL, row TEXT NOT NULL) WITHOUT ROWID;
    """,
)
"""The statements that turn each version of the schema into the next. The file's user_version counts the steps already applied."""


class SqliteLedger:
    """`reaper.ledger.port.Ledger` in a file, safe to use from several threads and processes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        key_by_id = {resource_id: comparable_id(resource_id) for resource_id in ids}
        keys = list(dict.fromkeys(key_by_id.values()))
        rows: dict[str, tuple[Any, Any]] = {}
        for chunk in (keys[at : at + MAX_IDS_PER_QUERY] for at in range(0, len(keys), MAX_IDS_PER_QUERY)):
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT key, row, version FROM memory WHERE touched >= ? AND key IN ({marks})"
            for key, row, version in self._read("Recall", sql, sortable_time(now - RETENTION), *chunk):
                rows[key] = row, version
        stored = {resource_id: rows[key] for resource_id, key in key_by_id.items() if key in rows}
        return memories_from_rows(stored, lambda resource_id, row: memory_from_row(_parse_row(row[0]), row[1], resource_id))

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key = comparable_id(resource_id)
        with self._transaction("Remember") as run:
            sql = "SELECT version, row FROM memory WHERE key = ? AND touched >= ?"
            stored = run(sql, (key, sortable_time(now - RETENTION))).fetchone()
            if (stored[0] if stored else 0) != expected_version:
                return False
            row = json.dumps(merge_row(_parse_row(stored[1]) if stored else {}, memory, fields))
            sql = "INSERT OR REPLACE INTO memory (key, id, version, touched, row) VALUES (?, ?, ?, ?, ?)"
            run(sql, (key, resource_id, expected_version + 1, sortable_time(retained_from(memory, now)), row))
            return True

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        sql = "SELECT row FROM open WHERE place = ? AND touched >= ? ORDER BY touched, key"
        return [
            unfinished_from_row(_parse_row(row), target)
            for (row,) in self._read("Unfinished", sql, target_text(target), sortable_time(now - RETENTION))
        ]

    def add_unfinished(self, entry: Unfinished) -> None:
        row = (target_text(entry.target), comparable_id(entry.id), sortable_time(entry.at), json.dumps(unfinished_columns(entry)))
        self._write("Begin", "INSERT OR REPLACE INTO open VALUES (?, ?, ?, ?)", *row)

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        self._write("End", "DELETE FROM open WHERE place = ? AND key = ?", target_text(target), comparable_id(resource_id))

    def read_row(self, name: str) -> NamedRow:
        rows = self._read("State", "SELECT row, version FROM state WHERE name = ?", name)
        return NamedRow(values=_parse_row(rows[0][0]), version=rows[0][1]) if rows else NamedRow()

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        row = (json.dumps(dict(values)), expected_version + 1)
        if expected_version:
            sql = "UPDATE state SET row = ?, version = ? WHERE name = ? AND version = ?"
            return bool(self._write("WriteState", sql, *row, name, expected_version))
        sql = "INSERT OR IGNORE INTO state (row, version, name) VALUES (?, ?, ?)"
        return bool(self._write("WriteState", sql, *row, name))

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        sql = (
            "INSERT INTO lease VALUES (?, ?, ?) ON CONFLICT (place) DO UPDATE SET holder = excluded.holder, touched = excluded.touched"
            " WHERE lease.holder = excluded.holder OR lease.touched <= ?"
        )
        return bool(self._write("Lease", sql, target_text(target), holder, sortable_time(now + ttl), sortable_time(now)))

    def give_back_lease(self, target: Target, holder: str) -> None:
        self._write("Release", "DELETE FROM lease WHERE place = ? AND holder = ?", target_text(target), holder)

    def record_statistics(self, summary: RunStatistics) -> None:
        key = (target_text(summary.target), summary.kind, sortable_time(summary.started), summary.run)
        self._write(
            "Record", "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?)", *key, json.dumps(statistics_columns(summary))
        )

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        sql = "SELECT row FROM summary WHERE place = ? AND kind = ? ORDER BY touched DESC, run DESC LIMIT ?"
        return [statistics_from_row(_parse_row(row)) for (row,) in self._read("Summaries", sql, target_text(target), kind, limit)]

    def add_history(self, entry: HistoryEntry) -> None:
        key = (comparable_id(entry.id), sortable_time(entry.when), entry_digest(entry))
        self._write("Note", "INSERT OR IGNORE INTO history VALUES (?, ?, ?, ?)", *key, json.dumps(history_columns(entry)))

    def history(self, resource_id: str) -> list[HistoryEntry]:
        sql = "SELECT row FROM history WHERE key = ? ORDER BY touched"
        return [history_from_row(_parse_row(row)) for (row,) in self._read("History", sql, comparable_id(resource_id))]

    def forget_before(self, moment: datetime) -> int:
        tables = ("memory", "lease", "summary", "history", "open")
        return sum(self._write("Forget", f"DELETE FROM {table} WHERE touched < ?", sortable_time(moment)) for table in tables)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, operation: str) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A function that runs statements. They take effect together, or not at all if one fails."""
        with self._lock, _translated_errors(operation):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _read(self, operation: str, sql: str, *values: str | int) -> list[Any]:
        """Every row of one SELECT."""
        with self._lock, _translated_errors(operation):
            return self._connection.execute(sql, values).fetchall()

    def _write(self, operation: str, sql: str, *values: str | int) -> int:
        """Run one statement as one transaction. Returns how many rows it changed."""
        with self._lock, _translated_errors(operation):
            return self._connection.execute(sql, values).rowcount


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> SqliteLedger:
    """The ledger in the file, created with its folder if missing. With `read_only`, a copy in memory that refuses writes.

    Raises SettingsError if the file can't be used.
    """
    path = _file_path(address)
    try:
        connection = _copy_to_memory(path) if read_only else _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be opened: {error}") from error
    try:
        _upgrade_schema(connection, address)
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
    except sqlite3.Error as error:
        connection.close()
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be used: {error}") from error
    except SettingsError:
        connection.close()
        raise
    return SqliteLedger(connection)


def _file_path(address: str) -> Path:
    """The path after `sqlite://`. On Windows a slash may precede the drive letter."""
    plain = address[1:] if re.match(r"/[A-Za-z]:[\\/]", address) else address
    if not plain.strip("/\\"):
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: expected a file, such as sqlite:///var/lib/reaper/ledger.db")
    return Path(plain).expanduser()


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return sqlite3.connect(path, timeout=TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _copy_to_memory(path: Path) -> sqlite3.Connection:
    """A copy of the file in memory, empty if there is no file. Changes neither the file nor its folder.

    Even a reader creates the files of the write-ahead log if they are missing (https://sqlite.org/wal.html#read_only_databases). Without
    them no process is writing, so the file can be opened as immutable.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if path.exists() and path.stat().st_size:
        log = path.with_name(f"{path.name}-wal")
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if log.exists() else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=TIMEOUT_S)) as file:
            file.backup(memory)
    return memory


def _upgrade_schema(connection: sqlite3.Connection, address: str) -> None:
    """Apply the missing steps of the schema, each of them once, even if two processes start at the same moment."""
    _use_write_ahead_log(connection)
    if _schema_version(connection) == len(SCHEMA_STEPS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        at = _schema_version(connection)
        if at > len(SCHEMA_STEPS):
            raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: written by a newer version of ML Idle Reaper (schema {at})")
        for statement in (part for step in SCHEMA_STEPS[at:] for part in step.split(";") if part.strip()):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(SCHEMA_STEPS)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time, from now on in every process.

    SQLite doesn't wait for a process that is writing just then (https://sqlite.org/pragma.html#pragma_journal_mode). The file is as safe
    without the log, so the next process that opens it switches.
    """
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise


def _schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _translated_errors(operation: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CloudError(
            Reason.UNREACHABLE, f"sqlite:{operation}", str(error), code=getattr(error, "sqlite_errorname", "")
        ) from error


def _parse_row(stored: str) -> dict[str, Any]:
    try:
        row = json.loads(stored)
    except (ValueError, TypeError) as error:
        raise CloudError(Reason.UNREADABLE, "sqlite:Read", f"a row is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise CloudError(Reason.UNREADABLE, "sqlite:Read", "a row is not an object")
    return row
