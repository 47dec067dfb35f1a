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

from reaper.errors import CloudError, SettingsError, Trouble
from reaper.ledger.codec import (
    digest,
    from_history,
    from_summary,
    from_unfinished,
    merged,
    place,
    same,
    stamp,
    to_history,
    to_memory,
    to_summary,
    to_unfinished,
    touched,
)
from reaper.ledger.port import KEEP, History, Recalled, State, Summary, Unfinished, readable
from reaper.model import Memory, Target

PATIENCE = 10.0
"""Seconds to wait for another process that is writing."""
AT_ONCE = 500
"""Ids asked for in one statement."""
STEPS = (
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
"""What turns each version of the schema into the next; the file's user_version counts the steps it has seen."""


class Sqlite:
    """`reaper.ledger.port.Ledger` in a file, safe to use from several threads and processes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        asked = {id: same(id) for id in ids}
        keys = list(dict.fromkeys(asked.values()))
        found: dict[str, tuple[Any, Any]] = {}
        for chunk in (keys[at : at + AT_ONCE] for at in range(0, len(keys), AT_ONCE)):
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT key, row, version FROM memory WHERE touched >= ? AND key IN ({marks})"
            for key, row, version in self._read("Recall", sql, stamp(now - KEEP), *chunk):
                found[key] = row, version
        held = {id: found[key] for id, key in asked.items() if key in found}
        return readable(held, lambda id, row: to_memory(_loads(row[0]), row[1], id))

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key = same(id)
        with self._transaction("Remember") as run:
            sql = "SELECT version, row FROM memory WHERE key = ? AND touched >= ?"
            held = run(sql, (key, stamp(now - KEEP))).fetchone()
            if (held[0] if held else 0) != expected_version:
                return False
            row = json.dumps(merged(_loads(held[1]) if held else {}, memory, fields))
            sql = "INSERT OR REPLACE INTO memory (key, id, version, touched, row) VALUES (?, ?, ?, ?, ?)"
            run(sql, (key, id, expected_version + 1, stamp(touched(memory, now)), row))
            return True

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        sql = "SELECT row FROM open WHERE place = ? AND touched >= ? ORDER BY touched, key"
        return [to_unfinished(_loads(row), target) for (row,) in self._read("Unfinished", sql, place(target), stamp(now - KEEP))]

    def begin(self, entry: Unfinished) -> None:
        row = (place(entry.target), same(entry.id), stamp(entry.at), json.dumps(from_unfinished(entry)))
        self._write("Begin", "INSERT OR REPLACE INTO open VALUES (?, ?, ?, ?)", *row)

    def end(self, target: Target, id: str) -> None:
        self._write("End", "DELETE FROM open WHERE place = ? AND key = ?", place(target), same(id))

    def state(self, name: str) -> State:
        rows = self._read("State", "SELECT row, version FROM state WHERE name = ?", name)
        return State(values=_loads(rows[0][0]), version=rows[0][1]) if rows else State()

    def write_state(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        row = (json.dumps(dict(values)), expected_version + 1)
        if expected_version:
            sql = "UPDATE state SET row = ?, version = ? WHERE name = ? AND version = ?"
            return bool(self._write("WriteState", sql, *row, name, expected_version))
        sql = "INSERT OR IGNORE INTO state (row, version, name) VALUES (?, ?, ?)"
        return bool(self._write("WriteState", sql, *row, name))

    def lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        sql = (
            "INSERT INTO lease VALUES (?, ?, ?) ON CONFLICT (place) DO UPDATE SET holder = excluded.holder, touched = excluded.touched"
            " WHERE lease.holder = excluded.holder OR lease.touched <= ?"
        )
        return bool(self._write("Lease", sql, place(target), holder, stamp(now + ttl), stamp(now)))

    def release(self, target: Target, holder: str) -> None:
        self._write("Release", "DELETE FROM lease WHERE place = ? AND holder = ?", place(target), holder)

    def record(self, summary: Summary) -> None:
        key = (place(summary.target), summary.kind, stamp(summary.started), summary.run)
        self._write("Record", "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?)", *key, json.dumps(from_summary(summary)))

    def summaries(self, target: Target, kind: str, limit: int) -> list[Summary]:
        sql = "SELECT row FROM summary WHERE place = ? AND kind = ? ORDER BY touched DESC, run DESC LIMIT ?"
        return [to_summary(_loads(row)) for (row,) in self._read("Summaries", sql, place(target), kind, limit)]

    def note(self, entry: History) -> None:
        key = (same(entry.id), stamp(entry.when), digest(entry))
        self._write("Note", "INSERT OR IGNORE INTO history VALUES (?, ?, ?, ?)", *key, json.dumps(from_history(entry)))

    def history(self, id: str) -> list[History]:
        sql = "SELECT row FROM history WHERE key = ? ORDER BY touched"
        return [to_history(_loads(row)) for (row,) in self._read("History", sql, same(id))]

    def forget_before(self, moment: datetime) -> int:
        tables = ("memory", "lease", "summary", "history", "open")
        return sum(self._write("Forget", f"DELETE FROM {table} WHERE touched < ?", stamp(moment)) for table in tables)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, what: str) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """What runs statements that take effect together, and none of them where one fails."""
        with self._lock, _told(what):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _read(self, what: str, sql: str, *values: str | int) -> list[Any]:
        """Every row of one SELECT."""
        with self._lock, _told(what):
            return self._connection.execute(sql, values).fetchall()

    def _write(self, what: str, sql: str, *values: str | int) -> int:
        """One statement, which is one transaction, and how many rows it changed."""
        with self._lock, _told(what):
            return self._connection.execute(sql, values).rowcount


def open(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> Sqlite:
    """The ledger in the file, made with its folder where there is none; only to read, a copy of it in memory that takes no writes.

    Raises SettingsError where the file cannot be used.
    """
    path = _path(address)
    try:
        connection = _copied(path) if read_only else _made(path)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file cannot be opened: {error}") from error
    try:
        _upgrade(connection, address)
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
    except sqlite3.Error as error:
        connection.close()
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file cannot be used: {error}") from error
    except SettingsError:
        connection.close()
        raise
    return Sqlite(connection)


def _path(address: str) -> Path:
    """Everything after `sqlite://`; on Windows a slash may stand before the drive's letter."""
    plain = address[1:] if re.match(r"/[A-Za-z]:[\\/]", address) else address
    if not plain.strip("/\\"):
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: expected a file, such as sqlite:///var/lib/reaper/ledger.db")
    return Path(plain).expanduser()


def _made(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _copied(path: Path) -> sqlite3.Connection:
    """What the file holds, in memory; nothing where there is none. Neither the file nor its folder is changed.

    Even a reader makes the files of the write-ahead log where there are none (https://sqlite.org/wal.html#read_only_databases); without
    them nobody is writing, and the file can be read as one that does not change.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if path.stat().st_size if path.exists() else 0:
        log = path.with_name(f"{path.name}-wal")
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if log.exists() else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as file:
            file.backup(memory)
    return memory


def _upgrade(connection: sqlite3.Connection, address: str) -> None:
    """Bring the schema up to date, each step once, even when two processes begin at the same moment."""
    connection.execute("PRAGMA journal_mode = WAL")
    if _version(connection) == len(STEPS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        at = _version(connection)
        if at > len(STEPS):
            raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: written by a newer version of this product (schema {at})")
        for statement in (part for step in STEPS[at:] for part in step.split(";") if part.strip()):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(STEPS)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CloudError(
            Trouble.UNREACHABLE, f"sqlite:{what}", str(error), code=getattr(error, "sqlite_errorname", "")
        ) from error


def _loads(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, TypeError) as error:
        raise CloudError(Trouble.GARBLED, "sqlite:Read", f"a row is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise CloudError(Trouble.GARBLED, "sqlite:Read", "a row is not an object")
    return row
