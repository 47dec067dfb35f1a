"""Descriptions that never change, stored in a few named rows of the ledger so that later sweeps don't request them again.

It saves calls and nothing else. What is missing or unreadable is requested as usual, and the re-check before an action doesn't use it.
After the first failure of the ledger a run goes on without the cache: it reports that once and doesn't wait for the ledger again.
A row takes 400 KB in DynamoDB and 1 MiB in Table Storage: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""

from __future__ import annotations

import base64
import json
import math
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar

from reaper.errors import ODD_REPLY_ERRORS, ReaperError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger, target_text
from reaper.ledger.rows import NamedRow
from reaper.model import BilledPart, Resource, Target
from reaper.observation import CachedDescription

ROWS_PER_KIND = 16
"""The number of rows that the resources of one target and kind are spread over."""
MAX_ENTRIES, MAX_PACKED_LENGTH = 500, 200_000
"""Entries in one row, and characters of their packed text."""
MAX_UNPACKED_BYTES = 8 * 1024 * 1024
"""Bytes that a row may have unpacked."""
SIZE_VALID_FOR = timedelta(hours=30)
"""How long the size of an unchanged resource is trusted: autoscaling may change it without a new time of change.

A daily sweep that starts some hours late, or after the clocks went back, can still use the entries of the one before. Two days later they
are never used.
"""
PACKED_COLUMN = "packed"
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class LedgerHealth:
    """The state of the ledger in this run. `is_off`: it failed once. `is_ready`: it has a format that this version writes."""

    is_off: bool = False
    is_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationCache:
    """The entries in `ledger`, safe to use from several threads. Nothing is written unless it `may_write`; `report_failure` gets the failure of a ledger. `now` dates every entry."""

    ledger: Ledger
    now: datetime
    may_write: bool
    report_failure: Callable[[str], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    health: LedgerHealth = field(default_factory=LedgerHealth)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCache:
    """The cache of one sweep for one target and kind. Each of its `rows` is read once. For one thread."""

    cache: ConfigurationCache
    target: Target
    kind: str
    rows: dict[str, tuple[dict[str, CachedDescription], int | None]] = field(default_factory=dict)


def revision_of(created: datetime | None, changed: datetime | None) -> str | None:
    """What identifies a resource as the one that was described: every recreation and every change has its own. None if unknown."""
    try:
        return f"{created.astimezone(UTC).isoformat()} {changed.astimezone(UTC).isoformat()}" if created and changed else None
    except OverflowError:  # of the first or last day of the calendar
        return None


def as_last_described(resource: Resource, entry: CachedDescription | None, now: datetime) -> Resource | None:
    """The resource as last described, if that is stored, recent, and unchanged since."""
    if (
        entry is None
        or entry.parts is None
        or entry.revision != revision_of(resource.created, resource.changed)
        or not _is_fresh(entry, now)
    ):
        return None
    return replace(resource, parts=entry.parts, size=entry.size)


def _is_fresh(entry: CachedDescription, now: datetime) -> bool:
    return entry.described_at is not None and timedelta() <= now - entry.described_at <= SIZE_VALID_FOR


def read_cached(shelf: KindCache, ids: Iterable[str]) -> dict[str, CachedDescription]:
    """The entries of those IDs that have one in a readable row."""
    entries: dict[str, CachedDescription] = {}
    try:
        for name, wanted in _ids_by_row(shelf, ids).items():
            row, _ = _read_row(shelf, name)
            entries |= {resource_id: row[resource_id] for resource_id in wanted if resource_id in row}
    except ReaperError as error:
        _turn_off(shelf.cache, f"the cache of earlier sweeps can't be read: {error}")
    return entries


def write_cached(shelf: KindCache, fresh: Mapping[str, CachedDescription], listed: Collection[str]) -> None:
    """Store `fresh`, described just now, and keep the entries of resources that are still `listed`. Equal entries that aren't old stay.

    Does nothing if another sweep writes at the same time.
    """
    try:
        for name, ids in _ids_by_row(shelf, fresh).items() if shelf.cache.may_write else ():
            stored, version = _read_row(shelf, name)
            news = {resource_id: replace(fresh[resource_id], described_at=shelf.cache.now) for resource_id in ids}
            if (
                version is None
                or all(_is_stored_already(stored.get(resource_id), entry) for resource_id, entry in news.items())
                or not _is_format_ready(shelf.cache)
            ):
                continue
            stays = {key: entry for key, entry in stored.items() if key in listed and key not in fresh}
            _write_row(shelf.cache, name, news | stays, version)
    except (ReaperError, TypeError, ValueError) as error:
        _turn_off(shelf.cache, f"the cache for later sweeps can't be written: {error}")


def _is_stored_already(stored: CachedDescription | None, fresh: CachedDescription) -> bool:
    """Whether an equal entry is stored, and can still be used at the time of `fresh`."""
    return (
        stored is not None
        and fresh.described_at is not None
        and _is_fresh(stored, fresh.described_at)
        and replace(stored, described_at=fresh.described_at) == fresh
    )


def _write_row(cache: ConfigurationCache, name: str, rows: dict[str, CachedDescription], version: int) -> None:
    rows = dict(list(rows.items())[:MAX_ENTRIES])
    while len(packed := _pack(rows)) > MAX_PACKED_LENGTH:
        rows = dict(list(rows.items())[: len(rows) // 2])
    # False: another sweep's row stands, which is as good
    _ask_ledger(cache, lambda: cache.ledger.write_row(name, {PACKED_COLUMN: packed}, version, cache.now))


def _is_format_ready(cache: ConfigurationCache) -> bool:
    """Whether the ledger has a format that this version writes. If not, the run reports it at its first write."""
    if not cache.health.is_ready:
        _ask_ledger(cache, lambda: opening.ensure_format(cache.ledger, cache.now))
        cache.health.is_ready = not cache.health.is_off
    return cache.health.is_ready


def _read_row(shelf: KindCache, name: str) -> tuple[dict[str, CachedDescription], int | None]:
    """The entries of a row, and its version, None if it can't be read. A row that makes no sense has no entries and is replaced."""
    if name not in shelf.rows:
        row = _ask_ledger(shelf.cache, lambda: shelf.cache.ledger.read_row(name))
        shelf.rows[name] = (_unpack(row), row.version) if row else ({}, None)
    return shelf.rows[name]


def _ask_ledger(cache: ConfigurationCache, question: Callable[[], T]) -> T | None:
    """The ledger's reply; None once it has failed, so that only one of many threads waits for it in vain."""
    with cache.lock:
        if cache.health.is_off:
            return None
        try:
            return question()
        except ReaperError:
            cache.health.is_off = True
            raise


def _turn_off(cache: ConfigurationCache, text: str) -> None:
    cache.health.is_off = True
    cache.report_failure(text)


def _ids_by_row(shelf: KindCache, ids: Iterable[str]) -> dict[str, list[str]]:
    """The IDs by the name of their row."""
    rows: dict[str, list[str]] = {}
    for resource_id in ids:
        number = int(sha256(resource_id.encode()).hexdigest()[:8], 16) % ROWS_PER_KIND
        rows.setdefault(f"cache {shelf.kind} {target_text(shelf.target)} {number}", []).append(resource_id)
    return rows


def _pack(rows: Mapping[str, CachedDescription]) -> str:
    text = json.dumps({resource_id: _to_json(entry) for resource_id, entry in rows.items()})
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpack(named_row: NamedRow) -> dict[str, CachedDescription]:
    """The entries of a row; none if it makes no sense."""
    try:
        rows: dict[str, Any] = json.loads(_decompress(named_row.values[PACKED_COLUMN])) if named_row.values else {}
        return {resource_id: entry for resource_id, row in rows.items() if (entry := _from_json(row))}
    except (*ODD_REPLY_ERRORS, zlib.error):
        return {}


def _decompress(packed: str) -> bytes:
    """Cut at `MAX_UNPACKED_BYTES`, so that no foreign row can use up the memory of a sweep."""
    return zlib.decompressobj().decompress(base64.b64decode(packed), MAX_UNPACKED_BYTES)


def _to_json(entry: CachedDescription) -> dict[str, Any]:
    parts = None if entry.parts is None else [[p.component, p.instance, p.count] for p in entry.parts]
    at = entry.described_at.isoformat() if entry.described_at else None
    return {"stamp": entry.revision, "at": at, "body": dict(entry.body), "parts": parts, "size": entry.size}


def _from_json(row: Any) -> CachedDescription | None:
    """An entry with every field checked; None if another version wrote it."""
    try:
        mark, body, size, at = row["stamp"], row["body"], row["size"], datetime.fromisoformat(row["at"])
        parts = None if row["parts"] is None else tuple(_part_from_json(*part) for part in row["parts"])
    except ODD_REPLY_ERRORS:
        return None
    if not (isinstance(mark, str) and isinstance(body, dict) and isinstance(size, str)) or at.tzinfo is None:
        return None
    return CachedDescription(revision=mark, described_at=at, body=body, parts=parts, size=size)


def _part_from_json(component: Any, instance: Any, count: Any) -> BilledPart:
    """Raises TypeError or ValueError if it isn't a part."""
    if not (isinstance(component, str) and isinstance(instance, str)) or isinstance(count, bool):
        raise TypeError("neither a component nor an instance")
    if not math.isfinite(count) or count <= 0:
        raise ValueError("no count")
    return BilledPart(component=component, instance=instance, count=count)
