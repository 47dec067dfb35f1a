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

from reaper.azure.table_keys import encoded, partition, row_key
from reaper.azure.table_storage import Table, connect
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.ledger.codec import (
    digest,
    fresh,
    from_history,
    from_summary,
    from_unfinished,
    merged,
    micros,
    place,
    stamp,
    to_history,
    to_memory,
    to_summary,
    to_unfinished,
    touched,
)
from reaper.ledger.port import History, Recalled, State, Summary, Unfinished, readable
from reaper.model import Memory, Target

FEW = 12
"""Up to this many memories of one partition are read one by one; for more the partition is read as a whole, 1,000 to a page."""
NEWEST_FIRST = 10**19
"""Keys are read in ascending order only, so summaries count down from here."""

VALUE, LONGEST_TEXT = "v_", 15_000
"""What the properties of a named row begin with, and how many letters each is given (it takes 64 KiB of UTF-16):
https://learn.microsoft.com/en-us/rest/api/storageservices/understanding-the-table-service-data-model
"""
NEVER_FORGOTTEN = "9999-12-31T23:59:59.999999+00:00"
TIDIED = ("tidied", "-")
"""Where it stands up to which moment was forgotten last."""
A_DAY = timedelta(days=1)

Entity = Mapping[str, Any]


class Tables:
    """`reaper.ledger.port.Ledger` in a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        asked = {id: (partition(id), row_key(id)) for id in ids}
        wanted: dict[str, set[str]] = defaultdict(set)
        for lot, key in asked.values():
            wanted[lot].add(key)
        found = {(e["PartitionKey"], e["RowKey"]): e for lot, keys in wanted.items() for e in self._lot(lot, keys, now)}
        held = {id: found[key] for id, key in asked.items() if key in found}
        return readable(held, lambda id, entity: to_memory(entity, entity.get("version"), id))

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        key, writer = (partition(id), row_key(id)), uuid.uuid4().hex
        found = self._table.get(*key)
        held = found if found and _fresh(found, now) else None
        if (_version(held) if held else 0) != expected_version:
            return False
        # Merging cannot remove a property, so what others wrote goes with ours under the ETag that it was read with.
        row = merged(_properties(held) if held else {}, memory, fields)
        more = {"id": id, "writer": writer, "version": expected_version + 1}
        return self._swapped(found, _entity(key, row, touched(memory, now)) | more, "writer")

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        rows = [row for row in self._table.query("PartitionKey eq @lot", lot=_open_lot(target)) if _fresh(row, now)]
        return sorted((to_unfinished(_texts(row), target) for row in rows), key=lambda entry: (entry.at, entry.id))

    def begin(self, entry: Unfinished) -> None:
        self._table.put(_entity((_open_lot(entry.target), row_key(entry.id)), from_unfinished(entry), entry.at))

    def end(self, target: Target, id: str) -> None:
        held = self._table.get(_open_lot(target), row_key(id))
        if held:
            self._table.delete(held)

    def state(self, name: str) -> State:
        held = self._table.get("state", encoded(name))
        return State(values=_joined(_texts(held)), version=_version(held)) if held else State()

    def write_state(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        key, writer = ("state", encoded(name)), uuid.uuid4().hex
        held = self._table.get(*key)
        if (_version(held) if held else 0) != expected_version:
            return False
        more = {"writer": writer, "version": expected_version + 1, "touched": NEVER_FORGOTTEN}
        return self._swapped(held, {"PartitionKey": key[0], "RowKey": key[1], **_split(values), **more}, "writer")

    def lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        key = ("lease", encoded(place(target)))
        held = self._table.get(*key)
        if held and held["holder"] != holder and held["touched"] > stamp(now):
            return False
        return self._swapped(held, _entity(key, {"holder": holder}, now + ttl), "holder")

    def release(self, target: Target, holder: str) -> None:
        held = self._table.get("lease", encoded(place(target)))
        if held and held["holder"] == holder:
            self._table.delete(held)

    def record(self, summary: Summary) -> None:
        key = (_series(summary.target, summary.kind), f"{NEWEST_FIRST - micros(summary.started):020d} {encoded(summary.run)}")
        self._table.put(_entity(key, from_summary(summary), summary.started))

    def summaries(self, target: Target, kind: str, limit: int) -> list[Summary]:
        rows = self._table.query("PartitionKey eq @lot", page=limit, lot=_series(target, kind))
        return [to_summary(_texts(row)) for row in islice(rows, limit)]

    def note(self, entry: History) -> None:
        key = (f"history {row_key(entry.id)}", f"{micros(entry.when):020d} {digest(entry)}")
        self._table.put(_entity(key, from_history(entry), entry.when))

    def history(self, id: str) -> list[History]:
        return [to_history(_texts(row)) for row in self._table.query("PartitionKey eq @lot", lot=f"history {row_key(id)}")]

    def forget_before(self, moment: datetime) -> int:
        if not self._due(moment):
            return 0
        old = list(self._table.query("touched lt @moment", moment=stamp(moment)))
        return sum(self._forget(row["PartitionKey"], row["RowKey"], moment) for row in old)

    def close(self) -> None:
        self._table.close()

    def _swapped(self, held: Any, entity: dict[str, Any], mark: str) -> bool:
        """Whether the entity is there now. A reply may get lost after the write: then it is our own mark that stands in the way."""
        try:
            won = self._table.swap(held, entity)
        except CloudError as error:
            if error.trouble is not Trouble.UNREACHABLE or not self._bears(entity, mark):
                raise
            return True
        return won or self._bears(entity, mark)

    def _bears(self, entity: Entity, mark: str) -> bool:
        held = self._table.get(entity["PartitionKey"], entity["RowKey"])
        return held is not None and held.get(mark) == entity[mark]

    def _due(self, moment: datetime) -> bool:
        """Whether the last tidying up was of another day; of several sweeps at once, one does it."""
        held = self._table.get(*TIDIED)
        if held and stamp(moment - A_DAY) < str(held.get("touched", "")) < stamp(moment + A_DAY):
            return False
        return self._table.swap(held, _entity(TIDIED, {}, moment))

    def _forget(self, lot: str, key: str, moment: datetime) -> bool:
        """Whether it was removed: what somebody has written in the meantime stays."""
        held = self._table.get(lot, key)
        return held is not None and held["touched"] < stamp(moment) and self._table.delete(held)

    def _lot(self, lot: str, keys: set[str], now: datetime) -> Iterator[Entity]:
        """Those memories of one partition that are not forgotten."""
        if len(keys) <= FEW:
            found = (entity for key in sorted(keys) if (entity := self._table.get(lot, key)))
            yield from (entity for entity in found if _fresh(entity, now))
            return
        rows = self._table.query("PartitionKey eq @lot", lot=lot)
        yield from (row for row in rows if row["RowKey"] in keys and _fresh(row, now))


def open(address: str, environ: Mapping[str, str], *, read_only: bool = False) -> Tables:
    """The ledger in `account/table`. Nothing is asked of Azure yet. Raises SettingsError for an address that cannot be meant."""
    found = re.fullmatch(r"([a-z0-9]{3,24}(?:\.[a-z0-9.-]+)?)/([A-Za-z][A-Za-z0-9]{2,62})", address)
    if not found:
        raise SettingsError(
            f"REAPER_LEDGER=table://{address}: expected table://account/table, a table's name of letters and digits"
        )
    return Tables(connect(found[1], found[2], environ.get("AZURE_STORAGE_CONNECTION_STRING")))


def _open_lot(target: Target) -> str:
    return f"open {encoded(place(target))}"


def _properties(entity: Entity) -> dict[str, Any]:
    """What an entity says besides its keys."""
    return {name: value for name, value in entity.items() if name not in {"PartitionKey", "RowKey"}}


def _split(values: Mapping[str, str]) -> dict[str, str]:
    """Texts of any length as properties, none longer than it may be: `v_name_0`, `v_name_1` and so on."""
    return {
        f"{VALUE}{name}_{n}": value[at : at + LONGEST_TEXT]
        for name, value in values.items()
        for n, at in enumerate(range(0, max(len(value), 1), LONGEST_TEXT))
    }


def _joined(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts that `_split` took apart."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for key, text in texts.items():
        name, _, number = key.removeprefix(VALUE).rpartition("_")
        if key.startswith(VALUE):
            found[name][int(number)] = text
    return {name: "".join(parts[n] for n in sorted(parts)) for name, parts in found.items()}


def _entity(key: tuple[str, str], row: Mapping[str, str], at: datetime) -> dict[str, Any]:
    """A row with its keys and the moment its time to live counts from."""
    return {"PartitionKey": key[0], "RowKey": key[1], **row, "touched": stamp(at)}


def _series(target: Target, kind: str) -> str:
    return f"summary {encoded(f'{place(target)}/{kind}')}"


def _texts(entity: Entity) -> dict[str, str]:
    return {name: value for name, value in entity.items() if isinstance(value, str)}


def _fresh(entity: Entity, now: datetime) -> bool:
    return fresh(entity.get("touched"), now)


def _version(entity: Entity) -> int:
    try:
        return int(entity["version"])
    except (KeyError, ValueError, TypeError) as error:
        raise CloudError(Trouble.GARBLED, "ledger:Read", f"the memory at {entity['RowKey']} has no version") from error
