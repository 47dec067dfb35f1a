"""The ledger in one table of Table Storage; what must not be lost is written under the ETag it was read with.

`table://account/table`. A connection string of the same account in AZURE_STORAGE_CONNECTION_STRING is used (Azurite has no other way
in), otherwise DefaultAzureCredential. Table Storage has no time-to-live: `forget_before` reads the whole table, once a day at most.
https://learn.microsoft.com/en-us/azure/storage/tables/table-storage-design-guide
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from reaper.azure.table_keys import encode_key, partition_key, row_key
from reaper.azure.table_storage import Table, connect_table
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
from reaper.ledger.stored_text import microseconds, sortable_time, target_text
from reaper.model import Memory, Target

MAX_SINGLE_READS = 12
"""Up to this many memories of one partition are read one by one; for more the partition is read as a whole, 1,000 to a page."""
NEWEST_FIRST_BASE = 10**19
"""Keys are read in ascending order only, so summaries count down from here."""

VALUE_PREFIX, MAX_PROPERTY_CHARS = "v_", 15_000
"""What the properties of a named row begin with, and how many letters each is given (it takes 64 KiB of UTF-16):
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""
NEVER_FORGOTTEN = "9999-12-31T23:59:59.999999+00:00"
LAST_CLEANUP_KEY = ("tidied", "-")
"""Where it stands up to which moment was forgotten last."""
CLEANUP_INTERVAL = timedelta(days=1)

Entity = Mapping[str, Any]


class TableLedger:
    """`reaper.ledger.port.Ledger` in a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        asked = {id: (partition_key(id), row_key(id)) for id in ids}
        wanted: dict[str, set[str]] = defaultdict(set)
        for lot, key in asked.values():
            wanted[lot].add(key)
        found = {
            (e["PartitionKey"], e["RowKey"]): e for lot, keys in wanted.items() for e in self._partition_entities(lot, keys, now)
        }
        held = {id: found[key] for id, key in asked.items() if key in found}
        return memories_from_rows(held, lambda id, entity: memory_from_row(entity, entity.get("version"), id))

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key, writer = (partition_key(resource_id), row_key(resource_id)), uuid.uuid4().hex
        found = self._table.get(*key)
        held = found if found and _is_fresh(found, now) else None
        if (_version_of(held) if held else 0) != expected_version:
            return False
        # Merging cannot remove a property, so what others wrote goes with ours under the ETag that it was read with.
        row = merge_row(_without_keys(held) if held else {}, memory, fields)
        more = {"id": resource_id, "writer": writer, "version": expected_version + 1}
        return self._swap_entity(found, _to_entity(key, row, retained_from(memory, now)) | more, "writer")

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        rows = [
            row for row in self._table.query("PartitionKey eq @lot", lot=_unfinished_partition(target)) if _is_fresh(row, now)
        ]
        return sorted(
            (unfinished_from_row(_text_properties(row), target) for row in rows), key=lambda entry: (entry.at, entry.id)
        )

    def add_unfinished(self, entry: Unfinished) -> None:
        self._table.put(_to_entity((_unfinished_partition(entry.target), row_key(entry.id)), unfinished_columns(entry), entry.at))

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        held = self._table.get(_unfinished_partition(target), row_key(resource_id))
        if held:
            self._table.delete(held)

    def read_row(self, name: str) -> NamedRow:
        held = self._table.get("state", encode_key(name))
        return NamedRow(values=_join_texts(_text_properties(held)), version=_version_of(held)) if held else NamedRow()

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        key, writer = ("state", encode_key(name)), uuid.uuid4().hex
        held = self._table.get(*key)
        if (_version_of(held) if held else 0) != expected_version:
            return False
        more = {"writer": writer, "version": expected_version + 1, "touched": NEVER_FORGOTTEN}
        return self._swap_entity(held, {"PartitionKey": key[0], "RowKey": key[1], **_split_texts(values), **more}, "writer")

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        key = ("lease", encode_key(target_text(target)))
        held = self._table.get(*key)
        if held and held["holder"] != holder and held["touched"] > sortable_time(now):
            return False
        return self._swap_entity(held, _to_entity(key, {"holder": holder}, now + ttl), "holder")

    def give_back_lease(self, target: Target, holder: str) -> None:
        held = self._table.get("lease", encode_key(target_text(target)))
        if held and held["holder"] == holder:
            self._table.delete(held)

    def record_statistics(self, summary: RunStatistics) -> None:
        key = (
            _statistics_partition(summary.target, summary.kind),
            f"{NEWEST_FIRST_BASE - microseconds(summary.started):020d} {encode_key(summary.run)}",
        )
        self._table.put(_to_entity(key, statistics_columns(summary), summary.started))

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        rows = self._table.query("PartitionKey eq @lot", page=limit, lot=_statistics_partition(target, kind))
        return [statistics_from_row(_text_properties(row)) for row in islice(rows, limit)]

    def add_history(self, entry: HistoryEntry) -> None:
        key = (f"history {row_key(entry.id)}", f"{microseconds(entry.when):020d} {entry_digest(entry)}")
        self._table.put(_to_entity(key, history_columns(entry), entry.when))

    def history(self, resource_id: str) -> list[HistoryEntry]:
        return [
            history_from_row(_text_properties(row))
            for row in self._table.query("PartitionKey eq @lot", lot=f"history {row_key(resource_id)}")
        ]

    def forget_before(self, moment: datetime) -> int:
        if not self._claim_cleanup(moment):
            return 0
        old = list(self._table.query("touched lt @moment", moment=sortable_time(moment)))
        return sum(self._delete_if_older(row["PartitionKey"], row["RowKey"], moment) for row in old)

    def close(self) -> None:
        self._table.close()

    def _swap_entity(self, held: Any, entity: dict[str, Any], mark: str) -> bool:
        """Whether the entity is there now. A reply may get lost after the write: then it is our own mark that stands in the way."""
        try:
            won = self._table.swap(held, entity)
        except CloudError as error:
            if error.reason is not Reason.UNREACHABLE or not self._has_our_mark(entity, mark):
                raise
            return True
        return won or self._has_our_mark(entity, mark)

    def _has_our_mark(self, entity: Entity, mark: str) -> bool:
        held = self._table.get(entity["PartitionKey"], entity["RowKey"])
        return held is not None and held.get(mark) == entity[mark]

    def _claim_cleanup(self, moment: datetime) -> bool:
        """Whether the last tidying up was of another day; of several sweeps at once, one does it."""
        held = self._table.get(*LAST_CLEANUP_KEY)
        if held and sortable_time(moment - CLEANUP_INTERVAL) < str(held.get("touched", "")) < sortable_time(
            moment + CLEANUP_INTERVAL
        ):
            return False
        return self._table.swap(held, _to_entity(LAST_CLEANUP_KEY, {}, moment))

    def _delete_if_older(self, lot: str, key: str, moment: datetime) -> bool:
        """Whether it was removed: what somebody has written in the meantime stays."""
        held = self._table.get(lot, key)
        return held is not None and held["touched"] < sortable_time(moment) and self._table.delete(held)

    def _partition_entities(self, lot: str, keys: set[str], now: datetime) -> Iterator[Entity]:
        """Those memories of one partition that are not forgotten."""
        if len(keys) <= MAX_SINGLE_READS:
            found = (entity for key in sorted(keys) if (entity := self._table.get(lot, key)))
            yield from (entity for entity in found if _is_fresh(entity, now))
            return
        rows = self._table.query("PartitionKey eq @lot", lot=lot)
        yield from (row for row in rows if row["RowKey"] in keys and _is_fresh(row, now))


def open_ledger(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> TableLedger:
    """The ledger in `account/table`. Nothing is asked of Azure yet. Raises SettingsError for an address that cannot be meant."""
    found = re.fullmatch(r"([a-z0-9]{3,24}(?:\.[a-z0-9.-]+)?)/([A-Za-z][A-Za-z0-9]{2,62})", address)
    if not found:
        raise SettingsError(
            f"REAPER_LEDGER=table://{address}: expected table://account/table, a table's name of letters and digits"
        )
    return TableLedger(connect_table(found[1], found[2], environ.get("AZURE_STORAGE_CONNECTION_STRING")))


def _unfinished_partition(target: Target) -> str:
    return f"open {encode_key(target_text(target))}"


def _without_keys(entity: Entity) -> dict[str, Any]:
    """What an entity says besides its keys."""
    return {name: value for name, value in entity.items() if name not in {"PartitionKey", "RowKey"}}


def _split_texts(values: Mapping[str, str]) -> dict[str, str]:
    """Texts of any length as properties, none longer than it may be: `v_name_0`, `v_name_1` and so on."""
    return {
        f"{VALUE_PREFIX}{name}_{n}": value[at : at + MAX_PROPERTY_CHARS]
        for name, value in values.items()
        for n, at in enumerate(range(0, max(len(value), 1), MAX_PROPERTY_CHARS))
    }


def _join_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts that `_split` took apart."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for key, text in texts.items():
        name, _, number = key.removeprefix(VALUE_PREFIX).rpartition("_")
        if key.startswith(VALUE_PREFIX):
            found[name][int(number)] = text
    return {name: "".join(parts[n] for n in sorted(parts)) for name, parts in found.items()}


def _to_entity(key: tuple[str, str], row: Mapping[str, str], at: datetime) -> dict[str, Any]:
    """A row with its keys and the moment its time to live counts from."""
    return {"PartitionKey": key[0], "RowKey": key[1], **row, "touched": sortable_time(at)}


def _statistics_partition(target: Target, kind: str) -> str:
    return f"summary {encode_key(f'{target_text(target)}/{kind}')}"


def _text_properties(entity: Entity) -> dict[str, str]:
    return {name: value for name, value in entity.items() if isinstance(value, str)}


def _is_fresh(entity: Entity, now: datetime) -> bool:
    return is_retained(entity.get("touched"), now)


def _version_of(entity: Entity) -> int:
    try:
        return int(entity["version"])
    except (KeyError, ValueError, TypeError) as error:
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the memory at {entity['RowKey']} has no version") from error
