"""The rows of a SQLite ledger as they are stored: `reaper.ledger.stored_rows.StoredRows`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reaper.ledger.sqlite_file import SqliteFile
from reaper.ledger.stored_rows import RowSort, StoredRow

QUERIES = {
    RowSort.MEMORY: "SELECT id, row, key, version FROM memory",
    RowSort.OPEN: "SELECT key, row, place, key FROM open",
    RowSort.HISTORY: "SELECT key, row, key, touched, digest FROM history",
    RowSort.STATE: "SELECT name, row, name, version FROM state",
}
"""Of each sort what the row is about, the row itself, and what finds it again."""
UPDATES = {
    RowSort.MEMORY: "UPDATE memory SET row = ?, version = version + 1 WHERE key = ? AND version = ? AND row = ?",
    RowSort.OPEN: "UPDATE open SET row = ? WHERE place = ? AND key = ? AND row = ?",
    RowSort.STATE: "UPDATE state SET row = ?, version = version + 1 WHERE name = ? AND version = ? AND row = ?",
}


class SqliteRows:
    """`StoredRows` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def scan(self, word: str) -> Iterator[StoredRow]:
        for sort, query in QUERIES.items():
            for name, text, *place in self._file.read("Scan", f"{query} WHERE instr(lower(row), ?) > 0", word.lower()):
                yield StoredRow(sort=sort, id=name, columns=_text_columns(text), stored=(text, place))

    def replace(self, row: StoredRow, columns: Mapping[str, str]) -> bool:
        text, place = row.stored
        others = {name: value for name, value in json.loads(text).items() if name not in row.columns}
        return bool(self._file.write("Replace", UPDATES[row.sort], json.dumps({**others, **columns}), *place, text))

    def remove(self, row: StoredRow) -> None:
        _, place = row.stored
        self._file.write("Remove", "DELETE FROM history WHERE key = ? AND touched = ? AND digest = ?", *place)


def _text_columns(text: str) -> dict[str, str]:
    """The columns that are strings; none of a row that isn't readable, which is left alone."""
    try:
        row: Any = json.loads(text)
    except ValueError:
        return {}
    return {name: value for name, value in row.items() if isinstance(value, str)} if isinstance(row, dict) else {}
