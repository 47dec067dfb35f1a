"""The rows of a ledger as they are stored, for what goes through all of them: today only `reaper forget`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class RowSort(StrEnum):
    """The rows that may name a person. Leases and statistics never do."""

    MEMORY = "memory"
    OPEN = "open"
    HISTORY = "history"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """One row: its sort, the resource or the name that it is about, and its columns.

    `stored`: what its ledger needs to find it again and to see that it is unchanged.
    """

    sort: RowSort
    id: str
    columns: Mapping[str, str]
    stored: Any


class StoredRows(Protocol):
    """What a ledger can do with its rows as stored. Raises CloudError if the store fails."""

    def scan(self, word: str) -> Iterator[StoredRow]:
        """Every row that may contain `word`, in whatever case. A store that can't search returns all of them."""
        ...

    def replace(self, row: StoredRow, columns: Mapping[str, str]) -> bool:
        """Set the row's columns, and remove the others that it had; raises the version of a memory and of a named row.

        Returns False if the row has changed since it was read. Its retention stays as it is.
        """
        ...

    def remove(self, row: StoredRow) -> None:
        """Remove a history entry, if it is still there."""
        ...


def column_changes(row: StoredRow, columns: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """The columns to set and those to remove."""
    changed = {name: text for name, text in columns.items() if row.columns.get(name) != text}
    return changed, row.columns.keys() - columns.keys()
