"""The port of a row store: rows of strings by key, which four stores keep and of which only `reaper.ledger.ledger` knows the meaning.

A store knows nothing of retention but the moment from which it counts: `touched`. Times are strings that sort in order of time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

FIRST_NAME, LAST_NAME = "-", "~"
"""No name of a row that is queried is before the one or after the other."""
NEVER = "9999-12-31T23:59:59.999999+00:00"
"""When a row was touched that is never forgotten."""


class Category(StrEnum):
    """What a row is about."""

    RECORD = "record"
    SNOOZE = "snooze"
    HISTORY = "history"
    STATE = "state"
    LEASE = "lease"
    STATISTICS = "summary"
    VISIT = "visit"
    SAVING = "saving"
    SAVED = "saved"
    TREND = "trend"


READ_BY_KEY = frozenset({Category.STATE, Category.LEASE, Category.VISIT})
"""The categories of which no partition is ever queried, so that a store may lay their rows where it likes."""


class Key(NamedTuple):
    """Rows of one category and place are one partition, in the order of their names."""

    category: Category
    place: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row as it is stored. A column that isn't a string stays in it, as whatever the store makes of it."""

    key: Key
    columns: Mapping[str, Any]
    version: Any = None
    touched: str = ""

    def is_lapsed(self, before: str | None) -> bool:
        """Whether its retention began before that. That of a row that doesn't say never did."""
        return before is not None and "" < self.touched < before

    @property
    def texts(self) -> dict[str, str]:
        """The columns that are strings."""
        return {name: value for name, value in self.columns.items() if isinstance(value, str)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AtVersion:
    """The row has this version and its retention didn't begin before `lapsed_before`; 0: there is no such row."""

    version: int
    lapsed_before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeFor:
    """There is no row, or its `holder` is this one, or it was touched at `now` or earlier."""

    holder: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Having:
    """The row still has this text in the column."""

    column: str
    text: str


Condition = AtVersion | FreeFor | Having


class RowStore(Protocol):
    """Every operation raises CloudError if the store fails. All reads are consistent. Writes of one row are atomic."""

    def get(self, key: Key) -> Row | None:
        """The row, in one request."""

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        """The rows that exist, in as few requests as the store can."""

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        """The rows of one partition from name `first` to `last`, in the order of their names. No more than `limit` are read."""

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        """Replace the row. Under AtVersion its version is raised, else it has none. Returns False if the condition isn't met."""

    def delete(self, key: Key, having: Having | None = None) -> None:
        """Delete the row if it exists and the condition is met."""

    def forget_before(self, moment: str) -> int:
        """Delete every row touched before `moment`, now or later. Returns how many now."""

    def scan(self) -> Iterator[Row]:
        """Every row. A run never reads a whole store: this is for a person with rights of their own."""

    def close(self) -> None:
        """Close files and connections."""


def is_met(condition: Condition | None, row: Row | None) -> bool:
    """Whether the row as read meets the condition. A version that can't be read is no version."""
    if isinstance(condition, AtVersion):
        if row is None or row.is_lapsed(condition.lapsed_before):
            return condition.version == 0
        return condition.version > 0 and str(row.version) == str(condition.version)
    if isinstance(condition, FreeFor):
        return row is None or row.columns.get("holder") == condition.holder or row.touched <= condition.now
    return condition is None or (row is not None and row.columns.get(condition.column) == condition.text)
