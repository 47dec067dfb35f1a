"""One file of SQLite as the ledger uses it: opened or copied, its schema brought up to date, statements run one at a time.

Write-ahead log: https://sqlite.org/wal.html. Overwriting what is deleted: https://sqlite.org/pragma.html#pragma_secure_delete
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reaper.errors import CloudError, Reason, SettingsError

TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""
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


class SqliteFile:
    """A connection that several threads may use. Raises CloudError."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self, operation: str) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A function that runs statements. They take effect together, or not at all if one fails."""
        with self._lock, _translated_errors(operation):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def read(self, operation: str, sql: str, *values: str | int) -> list[Any]:
        """Every row of one SELECT."""
        with self._lock, _translated_errors(operation):
            return self._connection.execute(sql, values).fetchall()

    def write(self, operation: str, sql: str, *values: str | int) -> int:
        """Run one statement as one transaction. Returns how many rows it changed."""
        with self._lock, _translated_errors(operation):
            return self._connection.execute(sql, values).rowcount

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def open_file(address: str, *, read_only: bool) -> SqliteFile:
    """The file, created with its folder if missing. With `read_only`, a copy in memory that refuses writes.

    Raises SettingsError if the file can't be used.
    """
    path = file_path(address)
    try:
        connection = _copy_to_memory(path) if read_only else _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be opened: {error}") from error
    try:
        _upgrade_schema(connection, address)
        connection.execute("PRAGMA secure_delete = ON")  # what `reaper forget` removes is overwritten in the file, too
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
    except sqlite3.Error as error:
        connection.close()
        raise SettingsError(f"REAPER_LEDGER=sqlite://{address}: the file can't be used: {error}") from error
    except SettingsError:
        connection.close()
        raise
    return SqliteFile(connection)


def file_path(address: str) -> Path:
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
