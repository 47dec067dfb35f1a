"""A ledger in one DynamoDB table: partition key `pk`, sort key `sk` (both strings), time-to-live attribute `expires`.

Conditional writes: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
Expired items stay readable for days, hence the filters: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reaper.aws.session import CloudSession, new_session
from reaper.aws.stores.dynamodb_rows import VALUE_PREFIX, DynamoRows
from reaper.aws.stores.dynamodb_table import DynamoTable, Item
from reaper.errors import SettingsError
from reaper.ledger.codec import (
    entry_digest,
    history_columns,
    history_from_row,
    is_retained,
    memory_columns,
    memory_from_row,
    retained_from,
    statistics_columns,
    statistics_from_row,
    unfinished_columns,
    unfinished_from_row,
    valid_version,
    written_columns,
)
from reaper.ledger.port import RETENTION, HistoryEntry, NamedRow, Recalled, RunStatistics, Unfinished, memories_from_rows
from reaper.ledger.stored_text import comparable_id, microseconds, shorten_key, sortable_time, target_from_text, target_text
from reaper.model import Memory, Target

PERMISSIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:Query",
)
"""The permissions that the ledger needs on its table."""
TARGETS_PARTITION = "open-targets"
"""The partition that lists the targets with hints: an item for each, since the partitions of a table can't be listed."""
MAX_KEY_BYTES = 1800
"""For an ID in a partition key, which may have 2,048 bytes."""
MAX_SORT_KEY_BYTES = 900
"""For an ID in a sort key, which may have 1,024 bytes."""
BOOKKEEPING_ATTRIBUTES = frozenset({"pk", "sk", "id", "expires", "touched", "version", "writer"})
"""The attributes that every write of a memory sets besides its columns. The snooze page's role may write these and its own columns only."""


class DynamoLedger:
    """`reaper.ledger.port.Ledger` in a table."""

    def __init__(self, table: DynamoTable) -> None:
        self._table = table

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        return self._recall_items(ids, [], now)[0]

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        key = _item_key("state", name)
        memories, items = self._recall_items(ids, [key], now)
        return memories, _named_row(items.get(key["pk"]["S"], {}))

    def _recall_items(self, ids: Iterable[str], more: list[Item], now: datetime) -> tuple[Recalled, Mapping[str, Item]]:
        """The memories, and every item by its partition key, that of `more` included."""
        key_by_id = {resource_id: _item_key("memory", resource_id) for resource_id in ids}
        keys = {key["pk"]["S"]: key for key in [*more, *key_by_id.values()]}
        items = {item["pk"]["S"]: item for item in self._table.batch_get(list(keys.values())) if _is_fresh(item, now)}
        stored = {resource_id: items[key["pk"]["S"]] for resource_id, key in key_by_id.items() if key["pk"]["S"] in items}
        return memories_from_rows(stored, _memory_of_item), items

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key, writer = _item_key("memory", resource_id), uuid.uuid4().hex
        item = _item_of_row(
            memory_columns(replace(memory, written_at=now), fields), retained_from(memory, now), id=resource_id, writer=writer
        )
        item["version"] = {"N": str(expected_version + 1)}
        condition, values = _unchanged_condition(expected_version, now, whole=fields is None)
        if self._table.update(key, item, written_columns(fields) - item.keys(), condition, values):
            return True
        # The SDK repeats a call whose reply was lost. The version may then have changed by this very write.
        return self._table.get(key).get("writer", {}).get("S") == writer

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        rows = [row for row in self._table.query(_item_key("open", target_text(target))["pk"]) if _is_fresh(row, now)]
        return sorted(
            (unfinished_from_row(_text_attributes(row), target) for row in rows), key=lambda entry: (entry.at, entry.id)
        )

    def unfinished_targets(self, now: datetime) -> list[Target]:
        rows = [row for row in self._table.query({"S": TARGETS_PARTITION}) if _is_fresh(row, now)]
        return [target_from_text(row["sk"]["S"]) for row in rows]

    def add_unfinished(self, entry: Unfinished) -> None:
        self._table.put(_unfinished_key(entry.target, entry.id) | _item_of_row(unfinished_columns(entry), entry.at))
        # After the hint: a run that finds no hint removes the target only if no other run has written it since.
        self._table.put(_target_key(entry.target) | _item_of_row({"writer": uuid.uuid4().hex}, entry.at))

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        self._table.delete(_unfinished_key(target, resource_id))
        listed = self._table.get(_target_key(target))
        if listed and not self._table.query(_item_key("open", target_text(target))["pk"], limit=1):
            self._table.delete(_target_key(target), "writer = :writer", {":writer": listed["writer"]})

    def read_row(self, name: str) -> NamedRow:
        return _named_row(self._table.get(_item_key("state", name)))

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        keys = {name: _item_key("state", name) for name in names}
        items = {item["pk"]["S"]: item for item in self._table.batch_get(list(keys.values()))}
        return {name: _named_row(items.get(key["pk"]["S"], {})) for name, key in keys.items()}

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        key, writer = _item_key("state", name), uuid.uuid4().hex
        texts = {f"{VALUE_PREFIX}{field}": value for field, value in values.items()} | {
            "writer": writer,
            "touched": sortable_time(now),
        }
        item = key | {field: {"S": value} for field, value in texts.items()} | {"version": {"N": str(expected_version + 1)}}
        condition, known = "attribute_not_exists(pk)", {}
        if expected_version:
            condition, known = "version = :version", {":version": {"N": str(expected_version)}}
        return self._table.put(item, condition, known) or self._table.get(key).get("writer", {}).get("S") == writer

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        item = _item_key("lease", target_text(target)) | _item_of_row({"holder": holder}, now + ttl)
        condition = "attribute_not_exists(pk) OR holder = :holder OR touched <= :now"
        return self._table.put(item, condition, {":holder": {"S": holder}, ":now": {"S": sortable_time(now)}})

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        lease = self._table.get(_item_key("lease", target_text(target)))
        return lease["holder"]["S"] if lease and lease["touched"]["S"] > sortable_time(now) else None

    def give_back_lease(self, target: Target, holder: str) -> None:
        self._table.delete(_item_key("lease", target_text(target)), "holder = :holder", {":holder": {"S": holder}})

    def record_statistics(self, summary: RunStatistics) -> None:
        sort = f"{microseconds(summary.started):020d}#{summary.run}"
        self._table.put(
            _item_key(*_statistics_key(summary.target, summary.kind), sort)
            | _item_of_row(statistics_columns(summary), summary.started)
        )

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        rows = self._table.query(_item_key(*_statistics_key(target, kind))["pk"], newest_first=True, limit=limit)
        return [statistics_from_row(_text_attributes(row)) for row in rows]

    def add_history(self, entry: HistoryEntry) -> None:
        sort = f"{microseconds(entry.when):020d}#{entry_digest(entry)}"
        self._table.put(_item_key("history", entry.id, sort) | _item_of_row(history_columns(entry), entry.when))

    def history(self, resource_id: str, since: datetime, limit: int) -> list[HistoryEntry]:
        pk, first = _item_key("history", resource_id)["pk"], f"{microseconds(since):020d}"
        rows = self._table.query(pk, newest_first=True, limit=limit, first=first)
        return [history_from_row(_text_attributes(row)) for row in reversed(rows)]

    def forget_before(self, moment: datetime) -> int:
        """Does nothing: the table's time to live deletes old items at no cost."""
        return 0

    def stored_rows(self) -> DynamoRows:
        return DynamoRows(self._table)

    def close(self) -> None:
        """Nothing to close: the SDK's connections end with the process."""


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> DynamoLedger:
    """The ledger in a table of the session's own region. Makes no call yet. Raises SettingsError for an invalid name or no region."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", address):
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: expected the name of a table")
    session = new_session()
    if not session.region_name:
        raise SettingsError(f"REAPER_LEDGER=dynamodb://{address}: no AWS region; set AWS_REGION")
    cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=session.region_name))
    return DynamoLedger(DynamoTable(cloud, address))


def _item_key(category: str, name: str, sort: str = "-") -> Item:
    return {"pk": {"S": f"{category}#{shorten_key(comparable_id(name), MAX_KEY_BYTES)}"}, "sk": {"S": sort}}


def _unfinished_key(target: Target, resource_id: str) -> Item:
    return {**_item_key("open", target_text(target)), "sk": {"S": shorten_key(comparable_id(resource_id), MAX_SORT_KEY_BYTES)}}


def _target_key(target: Target) -> Item:
    return {"pk": {"S": TARGETS_PARTITION}, "sk": {"S": target_text(target)}}


def _unchanged_condition(expected_version: int, now: datetime, *, whole: bool) -> tuple[str, dict[str, Any]]:
    """The condition under which a memory is still the one that was read. A forgotten memory that is still stored is only replaced as a whole."""
    if not expected_version and not whole:
        return "attribute_not_exists(pk)", {}
    forgotten = {":forgotten": {"S": sortable_time(now - RETENTION)}}
    if not expected_version:
        return "attribute_not_exists(pk) OR touched < :forgotten", forgotten
    return "version = :version AND touched >= :forgotten", {":version": {"N": str(expected_version)}, **forgotten}


def _statistics_key(target: Target, kind: str) -> tuple[str, str]:
    return "summary", f"{target_text(target)}/{kind}"


def _item_of_row(row: Mapping[str, str], at: datetime, **more: str) -> Item:
    """A row with the start of its retention as `touched`, and the epoch second at which DynamoDB may delete it as `expires`."""
    expires = (microseconds(at) + RETENTION // timedelta(microseconds=1)) // 1_000_000
    texts = {name: {"S": value} for name, value in {**row, **more, "touched": sortable_time(at)}.items()}
    return {**texts, "expires": {"N": str(expires)}}


def _text_attributes(item: Item) -> dict[str, str]:
    return {name: value["S"] for name, value in item.items() if "S" in value}


def _is_fresh(item: Item, now: datetime) -> bool:
    return is_retained(item.get("touched", {}).get("S"), now)


def _named_row(item: Item) -> NamedRow:
    """The named row in an item; an empty one if there is none. Raises CloudError if it has no valid version."""
    if not item:
        return NamedRow()
    texts = {
        key.removeprefix(VALUE_PREFIX): value for key, value in _text_attributes(item).items() if key.startswith(VALUE_PREFIX)
    }
    return NamedRow(values=texts, version=valid_version(item.get("version", {}).get("N"), "a named row"))


def _memory_of_item(resource_id: str, item: Item) -> Memory:
    """An attribute of another type than string stays in the row as None, so that it counts as unreadable, not as missing."""
    return memory_from_row({name: value.get("S") for name, value in item.items()}, item.get("version", {}).get("N"), resource_id)
