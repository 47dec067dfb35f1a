"""The rows of a DynamoDB ledger as they are stored: `reaper.ledger.stored_rows.StoredRows`.

Reading them all takes `dynamodb:Scan`, which the deployment's own roles don't have: the person who runs the command needs it.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Scan.html
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from reaper.aws.stores.dynamodb_table import DynamoTable, Item
from reaper.ledger.codec import valid_version
from reaper.ledger.stored_rows import RowSort, StoredRow, column_changes

VALUE_PREFIX = "v_"
"""The prefix of a named row's values, so that they can't clash with the table's own attributes."""
KEPT_ATTRIBUTES = frozenset({"pk", "sk", "touched", "writer"})
"""The attributes of strings that belong to the table and not to a row."""


class DynamoRows:
    """`StoredRows` in a table."""

    def __init__(self, table: DynamoTable) -> None:
        self._table = table

    def scan(self, word: str) -> Iterator[StoredRow]:
        for item in self._table.scan():
            sort, _, name = item["pk"]["S"].partition("#")
            if sort in set(RowSort):
                columns = _columns(item, RowSort(sort))
                yield StoredRow(sort=RowSort(sort), id=columns.get("id", name), columns=columns, stored=item)

    def replace(self, row: StoredRow, columns: Mapping[str, str]) -> bool:
        changed, removed = column_changes(row, columns)
        prefix = VALUE_PREFIX if row.sort is RowSort.STATE else ""
        item: Item = {f"{prefix}{name}": {"S": text} for name, text in changed.items()}
        condition, known = "touched = :touched", {":touched": row.stored["touched"]}
        if row.sort is not RowSort.OPEN:
            version = valid_version(row.stored.get("version", {}).get("N"), f"the {row.sort} of {row.id}")
            item |= {"version": {"N": str(version + 1)}, "writer": {"S": uuid.uuid4().hex}}
            condition, known = "version = :version", {":version": {"N": str(version)}}
        return self._table.update(_key(row.stored), item, {f"{prefix}{name}" for name in removed}, condition, known)

    def remove(self, row: StoredRow) -> None:
        self._table.delete(_key(row.stored))


def _key(item: Item) -> Item:
    return {name: item[name] for name in ("pk", "sk")}


def _columns(item: Item, sort: RowSort) -> dict[str, str]:
    texts = {name: value["S"] for name, value in item.items() if "S" in value}
    if sort is RowSort.STATE:
        return {name.removeprefix(VALUE_PREFIX): text for name, text in texts.items() if name.startswith(VALUE_PREFIX)}
    return {name: text for name, text in texts.items() if name not in KEPT_ATTRIBUTES}
