"""A ledger in one table of Table Storage. Writes that must not be lost carry the ETag of the entity as read.

`table://account/table`. A connection string of the same account in AZURE_STORAGE_CONNECTION_STRING is used if there is one (Azurite
accepts nothing else), otherwise DefaultAzureCredential. Table Storage has no time to live, so `forget_before` reads the whole table, at
most once a day.
https://learn.microsoft.com/en-us/azure/storage/tables/table-storage-design-guide
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from reaper.azure.stores.table_keys import decode_key, encode_key, partition_key, row_key
from reaper.azure.stores.table_rows import TableRows
from reaper.azure.stores.table_storage import Table, connect_table
from reaper.azure.stores.table_texts import join_texts, split_texts
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.codec import (
    entry_digest,
    history_columns,
    history_from_row,
    is_retained,
    memory_from_row,
    merge_row,
    retained_from,
    statistics_columns,
    statistics_from_row,
    unfinished_columns,
    unfinished_from_row,
)
from reaper.ledger.port import HistoryEntry, NamedRow, Recalled, RunStatistics, Unfinished, memories_from_rows
from reaper.ledger.stored_text import microseconds, sortable_time, target_from_text, target_text
from reaper.model import Memory, Target

MAX_SINGLE_READS = 12
"""Up to this many memories of a partition are read one by one. For more, the whole partition is read, 1,000 to a page."""
NEWEST_FIRST_BASE = 10**19
"""Keys are only read in ascending order, so those of statistics and of the history count down from here."""

UNFINISHED_PREFIX = "open "
"""The beginning of every partition with hints of unfinished actions. The next character after the blank is `!`."""
NEVER_FORGOTTEN = "9999-12-31T23:59:59.999999+00:00"
LAST_CLEANUP_KEY = ("tidied", "-")
"""The entity that records the last cleanup."""
CLEANUP_INTERVAL = timedelta(days=1)
IN_PARTITION = "PartitionKey eq @partition"

Entity = Mapping[str, Any]


class TableLedger:
    """`reaper.ledger.port.Ledger` in a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        key_by_id = {resource_id: (partition_key(resource_id), row_key(resource_id)) for resource_id in ids}
        row_keys: dict[str, set[str]] = defaultdict(set)
        for partition, key in key_by_id.values():
            row_keys[partition].add(key)
        entities = {
            (entity["PartitionKey"], entity["RowKey"]): entity
            for partition, keys in row_keys.items()
            for entity in self._partition_entities(partition, keys, now)
        }
        stored = {resource_id: entities[key] for resource_id, key in key_by_id.items() if key in entities}
        return memories_from_rows(stored, lambda resource_id, entity: memory_from_row(entity, entity.get("version"), resource_id))

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        return self.recall(ids, now), self.read_row(name)

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key, writer = (partition_key(resource_id), row_key(resource_id)), uuid.uuid4().hex
        entity = self._table.get(*key)
        stored = entity if entity and _is_fresh(entity, now) else None
        if (_version_of(stored) if stored else 0) != expected_version:
            return False
        # A merge can't remove a property, so the whole entity is replaced under its ETag, other versions' columns included.
        row = merge_row(_without_keys(stored) if stored else {}, replace(memory, written_at=now), fields)
        more = {"id": resource_id, "writer": writer, "version": expected_version + 1}
        return self._swap_entity(entity, _to_entity(key, row, retained_from(memory, now)) | more, "writer")

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        rows = [row for row in self._table.query(IN_PARTITION, partition=_unfinished_partition(target)) if _is_fresh(row, now)]
        return sorted(
            (unfinished_from_row(_text_properties(row), target) for row in rows), key=lambda entry: (entry.at, entry.id)
        )

    def unfinished_targets(self, now: datetime) -> list[Target]:
        condition = "PartitionKey ge @first and PartitionKey lt @end"
        rows = self._table.query(condition, first=UNFINISHED_PREFIX, end=f"{UNFINISHED_PREFIX[:-1]}!")
        places = {row["PartitionKey"].removeprefix(UNFINISHED_PREFIX) for row in rows if _is_fresh(row, now)}
        return [target_from_text(place) for place in sorted(map(decode_key, places))]

    def add_unfinished(self, entry: Unfinished) -> None:
        self._table.put(_to_entity((_unfinished_partition(entry.target), row_key(entry.id)), unfinished_columns(entry), entry.at))

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        entity = self._table.get(_unfinished_partition(target), row_key(resource_id))
        if entity:
            self._table.delete(entity)

    def read_row(self, name: str) -> NamedRow:
        return self.read_rows([name])[name]

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        keys = {name: encode_key(name) for name in names}
        if len(keys) <= MAX_SINGLE_READS:
            found = [entity for key in keys.values() if (entity := self._table.get("state", key))]
        else:
            condition = f"{IN_PARTITION} and RowKey ge @first and RowKey le @last"
            found = list(self._table.query(condition, partition="state", first=min(keys.values()), last=max(keys.values())))
        entities = {entity["RowKey"]: entity for entity in found}
        return {name: _named_row(entities.get(key)) for name, key in keys.items()}

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        key, writer = ("state", encode_key(name)), uuid.uuid4().hex
        stored = self._table.get(*key)
        if (_version_of(stored) if stored else 0) != expected_version:
            return False
        more = {"writer": writer, "version": expected_version + 1, "touched": NEVER_FORGOTTEN}
        return self._swap_entity(stored, {"PartitionKey": key[0], "RowKey": key[1], **split_texts(values), **more}, "writer")

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        key = ("lease", encode_key(target_text(target)))
        lease = self._table.get(*key)
        if lease and lease["holder"] != holder and lease["touched"] > sortable_time(now):
            return False
        return self._swap_entity(lease, _to_entity(key, {"holder": holder}, now + ttl), "holder")

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        lease = self._table.get("lease", encode_key(target_text(target)))
        return str(lease["holder"]) if lease and lease["touched"] > sortable_time(now) else None

    def give_back_lease(self, target: Target, holder: str) -> None:
        lease = self._table.get("lease", encode_key(target_text(target)))
        if lease and lease["holder"] == holder:
            self._table.delete(lease)

    def record_statistics(self, summary: RunStatistics) -> None:
        key = (
            _statistics_partition(summary.target, summary.kind),
            f"{_newest_first(summary.started)} {encode_key(summary.run)}",
        )
        self._table.put(_to_entity(key, statistics_columns(summary), summary.started))

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        rows = self._table.query(IN_PARTITION, page=limit, partition=_statistics_partition(target, kind))
        return [statistics_from_row(_text_properties(row)) for row in islice(rows, limit)]

    def add_history(self, entry: HistoryEntry) -> None:
        key = (f"history {row_key(entry.id)}", f"{_newest_first(entry.when)} {entry_digest(entry)}")
        self._table.put(_to_entity(key, history_columns(entry), entry.when))

    def history(self, resource_id: str, since: datetime, limit: int) -> list[HistoryEntry]:
        condition, end = f"{IN_PARTITION} and RowKey lt @end", f"{_newest_first(since)}!"
        rows = self._table.query(condition, page=limit, partition=f"history {row_key(resource_id)}", end=end)
        return [history_from_row(_text_properties(row)) for row in islice(rows, limit)][::-1]

    def forget_before(self, moment: datetime) -> int:
        if not self._claim_cleanup(moment):
            return 0
        old = list(self._table.query("touched lt @moment", moment=sortable_time(moment)))
        return sum(self._delete_if_older(row["PartitionKey"], row["RowKey"], moment) for row in old)

    def stored_rows(self) -> TableRows:
        return TableRows(self._table)

    def close(self) -> None:
        self._table.close()

    def _swap_entity(self, stored: Any, entity: dict[str, Any], mark: str) -> bool:
        """Whether the entity is stored now. If the reply to the write was lost, the entity already has our own `mark`."""
        try:
            is_written = self._table.swap(stored, entity)
        except CloudError as error:
            if error.reason is not Reason.UNREACHABLE or not self._has_our_mark(entity, mark):
                raise
            return True
        return is_written or self._has_our_mark(entity, mark)

    def _has_our_mark(self, entity: Entity, mark: str) -> bool:
        stored = self._table.get(entity["PartitionKey"], entity["RowKey"])
        return stored is not None and stored.get(mark) == entity[mark]

    def _claim_cleanup(self, moment: datetime) -> bool:
        """Whether to clean up now: not within a day of the last cleanup, and only one of several sweeps at once."""
        last = self._table.get(*LAST_CLEANUP_KEY)
        first, end = (sortable_time(moment + days) for days in (-CLEANUP_INTERVAL, CLEANUP_INTERVAL))
        if last and first < str(last.get("touched", "")) < end:
            return False
        return self._table.swap(last, _to_entity(LAST_CLEANUP_KEY, {}, moment))

    def _delete_if_older(self, partition: str, key: str, moment: datetime) -> bool:
        """Delete the entity unless it was written since. Returns whether it was deleted."""
        entity = self._table.get(partition, key)
        return entity is not None and entity["touched"] < sortable_time(moment) and self._table.delete(entity)

    def _partition_entities(self, partition: str, keys: set[str], now: datetime) -> Iterator[Entity]:
        """The entities of these keys that are still retained."""
        if len(keys) <= MAX_SINGLE_READS:
            entities = (entity for key in sorted(keys) if (entity := self._table.get(partition, key)))
            yield from (entity for entity in entities if _is_fresh(entity, now))
            return
        rows = self._table.query(IN_PARTITION, partition=partition)
        yield from (row for row in rows if row["RowKey"] in keys and _is_fresh(row, now))


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> TableLedger:
    """The ledger in `account/table`. Makes no call yet. Raises SettingsError for an invalid address."""
    parts = re.fullmatch(r"([a-z0-9]{3,24}(?:\.[a-z0-9.-]+)?)/([A-Za-z][A-Za-z0-9]{2,62})", address)
    if not parts:
        raise SettingsError(
            f"REAPER_LEDGER=table://{address}: expected table://account/table, with only letters and digits in the name of the table"
        )
    return TableLedger(connect_table(parts[1], parts[2], environ.get("AZURE_STORAGE_CONNECTION_STRING")))


def _unfinished_partition(target: Target) -> str:
    return f"{UNFINISHED_PREFIX}{encode_key(target_text(target))}"


def _without_keys(entity: Entity) -> dict[str, Any]:
    """The properties of an entity without its keys."""
    return {name: value for name, value in entity.items() if name not in {"PartitionKey", "RowKey"}}


def _to_entity(key: tuple[str, str], row: Mapping[str, str], at: datetime) -> dict[str, Any]:
    """A row with its keys, and the start of its retention as `touched`."""
    return {"PartitionKey": key[0], "RowKey": key[1], **row, "touched": sortable_time(at)}


def _newest_first(when: datetime) -> str:
    """The beginning of a row key. A blank follows it, after which the next character is `!`."""
    return f"{NEWEST_FIRST_BASE - microseconds(when):020d}"


def _statistics_partition(target: Target, kind: str) -> str:
    return f"summary {encode_key(f'{target_text(target)}/{kind}')}"


def _text_properties(entity: Entity) -> dict[str, str]:
    return {name: value for name, value in entity.items() if isinstance(value, str)}


def _named_row(entity: Entity | None) -> NamedRow:
    """The named row in an entity; an empty one if there is none."""
    if entity is None:
        return NamedRow()
    return NamedRow(values=join_texts(_text_properties(entity)), version=_version_of(entity))


def _is_fresh(entity: Entity, now: datetime) -> bool:
    return is_retained(entity.get("touched"), now)


def _version_of(entity: Entity) -> int:
    try:
        return int(entity["version"])
    except (KeyError, ValueError, TypeError) as error:
        raise CloudError(
            Reason.UNREADABLE, "ledger:Read", f"the ledger record {entity['RowKey']} has no valid version"
        ) from error
