"""Rows that last as long as the test, for tests that look at them or change them behind the ledger's back."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

from reaper.ledger.rows import (
    FIRST_NAME,
    LAST_NAME,
    AtVersion,
    Category,
    Condition,
    FreeFor,
    Having,
    Key,
    Row,
    is_met,
)


class InMemoryStore:
    """`reaper.ledger.rows.RowStore` in a dictionary, safe to use from several threads."""

    clock_skew = timedelta(0)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: dict[Key, Row] = {}
        self._partitions: dict[tuple[Category, str], set[Key]] = defaultdict(set)

    def get(self, key: Key) -> Row | None:
        with self._lock:
            return self.rows.get(key)

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        with self._lock:
            return {key: self.rows[key] for key in keys if key in self.rows}

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        with self._lock:
            keys = sorted(key for key in self._partitions[category, place] if key in self.rows and first <= key.name <= last)
            return [self.rows[key] for key in keys[:limit]]

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        with self._lock:
            return self._write(Row(key=key, columns=dict(columns), touched=touched), condition)

    def delete(self, key: Key, having: Having | None = None) -> None:
        with self._lock:
            if is_met(having, self.rows.get(key)):
                self.rows.pop(key, None)

    def forget_before(self, moment: str) -> int:
        with self._lock:
            old = [key for key, row in self.rows.items() if row.is_lapsed(moment)]
            for key in old:
                del self.rows[key]
            return len(old)

    def scan(self) -> Iterator[Row]:
        with self._lock:
            rows = list(self.rows.values())
        yield from rows

    def close(self) -> None:
        """Nothing to close."""

    def _write(self, row: Row, condition: Condition | None) -> bool:
        if not is_met(condition, self.rows.get(row.key)):
            return False
        version = condition.version + 1 if isinstance(condition, AtVersion) else None
        self._partitions[row.key.category, row.key.place].add(row.key)
        self.rows[row.key] = Row(key=row.key, columns=row.columns, version=version, touched=row.touched)
        return True
