"""Rows in one SQLite file: the command line's default. Several processes may use it at once.

Write-ahead log: https://sqlite.org/wal.html. Overwriting what is deleted: https://sqlite.org/pragma.html#pragma_secure_delete
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.rows import (
    FIRST_NAME,
    LAST_NAME,
    AtVersion,
    Category,
    FreeFor,
    Having,
    Key,
    Row,
    is_met,
)

TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""
MAX_KEYS_PER_QUERY = 300
"""Keys in one statement, of three values each; older libraries take 999 values."""
SCHEMA = 3
"""The file's user_version."""
CREATE = """
    CREATE TABLE rows (
        category TEXT, place TEXT, name TEXT, version INTEGER, touched TEXT NOT NULL, row TEXT NOT NULL,
        PRIMARY KEY (category, place, name)
    ) WITHOUT ROWID
"""
SELECT = "SELECT category, place, name, version, touched, row FROM rows"
BY_KEY = "WHERE category = ? AND place = ? AND name = ?"


class SqliteStore:
    """`reaper.ledger.rows.RowStore` in a file, through a connection that several threads may use."""

    clock_skew = timedelta(0)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def get(self, key: Key) -> Row | None:
        return next(iter(self._read(BY_KEY, *key)), None)

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        found: dict[Key, Row] = {}
        wanted = list(keys)
        for part in (wanted[at : at + MAX_KEYS_PER_QUERY] for at in range(0, len(wanted), MAX_KEYS_PER_QUERY)):
            marks = ",".join(["(?,?,?)"] * len(part))
            same = "category = column1 AND place = column2 AND name = column3"
            rows = self._read(f"JOIN (VALUES {marks}) ON {same}", *(text for key in part for text in key))
            found |= {row.key: row for row in rows}
        return found

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        where = "WHERE category = ? AND place = ? AND name BETWEEN ? AND ? ORDER BY name LIMIT ?"
        return self._read(where, category, place, first, last, -1 if limit is None else limit)

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        with self._transaction() as run:
            if not is_met(condition, _row_in(run, key)):
                return False
            version = condition.version + 1 if isinstance(condition, AtVersion) else None
            run("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?)", (*key, version, touched, json.dumps(dict(columns))))
            return True

    def delete(self, key: Key, having: Having | None = None) -> None:
        with self._transaction() as run:
            if having is None or is_met(having, _row_in(run, key)):
                run(f"DELETE FROM rows {BY_KEY}", key)

    def forget_before(self, moment: str) -> int:
        with self._transaction() as run:
            return run("DELETE FROM rows WHERE touched < ?", (moment,)).rowcount

    def scan(self) -> Iterator[Row]:
        for category in Category:
            yield from self._read("WHERE category = ? ORDER BY place, name", category)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self, where: str, *values: str | int) -> list[Row]:
        with self._lock, _translated_errors("Read"):
            return [_row_of(*stored) for stored in self._connection.execute(f"{SELECT} {where}", values)]

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A function that runs statements. They take effect together, or not at all if one fails."""
        with self._lock, _translated_errors("Write"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


def open_store(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> SqliteStore:
    """The file, created with its folder if missing; if `read_only`, a copy in memory that refuses writes. Raises SettingsError."""
    path = file_path(address)
    try:
        if read_only:
            connection = _copy_to_memory(path)
        else:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be opened: {error}") from error
    try:
        _create_schema(connection, address)
        connection.execute("PRAGMA secure_delete = ON")  # what `reaper forget` removes is overwritten in the file, too
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
    except sqlite3.Error as error:
        connection.close()
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be used: {error}") from error
    except SettingsError:
        connection.close()
        raise
    return SqliteStore(connection)


def open_in_memory() -> SqliteStore:
    """A new, empty store that lasts as long as the process: for trying things out."""
    connection = _connect(":memory:")
    connection.execute(CREATE)
    return SqliteStore(connection)


def file_path(address: str) -> Path:
    """The path after `sqlite://`. On Windows a slash may precede the drive letter."""
    plain = address[1:] if re.match(r"/[A-Za-z]:[\\/]", address) else address
    if not plain.strip("/\\"):
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: expected a file, such as sqlite:///var/lib/reaper/ledger.db")
    return Path(plain).expanduser()


def _connect(place: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(place, timeout=TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _copy_to_memory(path: Path) -> sqlite3.Connection:
    """A copy of the file in memory, empty if there is no file. Changes neither the file nor its folder.

    Even a reader creates the files of the write-ahead log if they are missing (https://sqlite.org/wal.html#read_only_databases). Without
    them no process is writing, so the file can be opened as immutable.
    """
    memory = _connect(":memory:")
    if path.exists() and path.stat().st_size:
        log = path.with_name(f"{path.name}-wal")
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if log.exists() else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=TIMEOUT_S)) as file:
            file.backup(memory)
    return memory


def _create_schema(connection: sqlite3.Connection, address: str) -> None:
    """Create the table once, even if two processes start at the same moment."""
    _use_write_ahead_log(connection)
    if _schema_version(connection) == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        at = _schema_version(connection)
        if at not in {0, SCHEMA}:
            age = "a newer" if at > SCHEMA else "an unreleased"
            raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: written by {age} version of ML Idle Reaper (schema {at})")
        if at == 0:
            connection.execute(CREATE)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
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


def _row_in(run: Callable[..., sqlite3.Cursor], key: Key) -> Row | None:
    stored = run(f"{SELECT} {BY_KEY}", key).fetchone()
    return _row_of(*stored) if stored else None


def _row_of(category: str, place: str, name: str, version: object, touched: str, text: Any) -> Row:
    """A stored row. One whose columns aren't JSON has no version, so that it can't be read as anything."""
    key = Key(Category(category), place, name)
    try:
        columns = json.loads(text)
    except (ValueError, TypeError):
        columns = None
    if not isinstance(columns, dict):
        return Row(key=key, columns={}, touched=touched)
    return Row(key=key, columns=columns, version=version, touched=touched)
