"""The rows of a ledger in Table Storage as they are stored: `reaper.ledger.stored_rows.StoredRows`. A write carries the ETag that was read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from reaper.azure.stores.table_keys import decode_key
from reaper.azure.stores.table_storage import Table
from reaper.azure.stores.table_texts import VALUE_PREFIX, join_texts, split_texts
from reaper.ledger.codec import valid_version
from reaper.ledger.stored_rows import RowSort, StoredRow, column_changes

KEPT_PROPERTIES = frozenset({"PartitionKey", "RowKey", "touched", "writer"})
"""The properties of strings that belong to the table and not to a row."""


class TableRows:
    """`StoredRows` in a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def scan(self, word: str) -> Iterator[StoredRow]:
        for entity in self._table.query("touched ge @first", first=""):
            sort, _, place = decode_key(entity["PartitionKey"]).partition(" ")
            if sort in set(RowSort):
                columns = _columns(entity, RowSort(sort))
                name = columns.get("id") or entity.get("id") or (entity["RowKey"] if sort == RowSort.STATE else place)
                yield StoredRow(sort=RowSort(sort), id=str(name), columns=columns, stored=entity)

    def replace(self, row: StoredRow, columns: Mapping[str, str]) -> bool:
        changed, removed = column_changes(row, columns)
        entity: dict[str, Any] = dict(row.stored)
        if row.sort is RowSort.STATE:
            entity = {name: value for name, value in entity.items() if not name.startswith(VALUE_PREFIX)} | split_texts(columns)
        else:
            entity = {name: value for name, value in entity.items() if name not in removed} | changed
        if row.sort is not RowSort.OPEN:
            entity |= {
                "version": valid_version(entity.get("version"), f"the {row.sort} of {row.id}") + 1,
                "writer": uuid.uuid4().hex,
            }
        return self._table.swap(row.stored, entity)

    def remove(self, row: StoredRow) -> None:
        self._table.delete(row.stored)


def _columns(entity: Mapping[str, Any], sort: RowSort) -> dict[str, str]:
    texts = {name: value for name, value in entity.items() if isinstance(value, str)}
    if sort is RowSort.STATE:
        return join_texts(texts)
    return {name: text for name, text in texts.items() if name not in KEPT_PROPERTIES}
