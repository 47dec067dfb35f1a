"""What sweeps keep of descriptions that never change, so that later ones need not ask for them again: a few named rows of the ledger.

It spares calls and nothing else. What cannot be read, or is not there, is asked for as ever; the look before an action knows nothing of it.
After the first failure of the ledger a run does without: it says so once, and waits for it no more.
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
from reaper.ledger.port import Ledger, NamedRow
from reaper.ledger.stored_text import target_text
from reaper.model import BilledPart, CachedDescription, Resource, Target

ROWS_PER_KIND = 16
"""Among so many rows the resources of one target and kind are shared out."""
MAX_ENTRIES, MAX_PACKED_LENGTH = 500, 200_000
"""Entries in one row, and letters of what they are packed into."""
MAX_UNPACKED_BYTES = 8 * 1024 * 1024
"""Bytes that a row may take unpacked."""
SIZE_VALID_FOR = timedelta(hours=30)
"""So long the size of what was not changed since is taken to be the same: autoscaling may change it, and nothing says that a time tells of it.

A daily sweep that starts some hours late, or after the clocks went back, still has what the one before it kept; two days are never spared.
"""
PACKED_COLUMN = "packed"
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class LedgerHealth:
    """How the ledger fares in this run. `off`: it failed once. `ready`: it has a format that this version writes."""

    is_off: bool = False
    is_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationCache:
    """What is kept in `ledger`. Nothing is written unless it `writes`; `tell` hears of a ledger that fails. `now` is the clock of every entry."""

    ledger: Ledger
    now: datetime
    may_write: bool
    report_failure: Callable[[str], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    health: LedgerHealth = field(default_factory=LedgerHealth)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCache:
    """The cache as one sweep of one target and kind sees it: each of its `rows` is read once. For one thread."""

    cache: ConfigurationCache
    target: Target
    kind: str
    rows: dict[str, tuple[dict[str, CachedDescription], int | None]] = field(default_factory=dict)


def revision_of(created: datetime | None, changed: datetime | None) -> str | None:
    """By what a resource is known as the one that was described: no two lives and no two changes of it have the same; None where that is not known."""
    try:
        return f"{created.astimezone(UTC).isoformat()} {changed.astimezone(UTC).isoformat()}" if created and changed else None
    except OverflowError:  # of the first or last day of the calendar
        return None


def as_last_described(resource: Resource, kept: CachedDescription | None, now: datetime) -> Resource | None:
    """The resource as it ran when it was last described, where that is known, is not long ago and it was not changed since."""
    if (
        kept is None
        or kept.parts is None
        or kept.revision != revision_of(resource.created, resource.changed)
        or not _is_fresh(kept, now)
    ):
        return None
    return replace(resource, parts=kept.parts, size=kept.size)


def _is_fresh(kept: CachedDescription, now: datetime) -> bool:
    return kept.described_at is not None and timedelta() <= now - kept.described_at <= SIZE_VALID_FOR


def open_cache(ledger: Ledger, now: datetime, report_failure: Callable[[str], None], *, may_write: bool) -> ConfigurationCache:
    """The cache in that ledger, safe to use from several threads."""
    return ConfigurationCache(ledger=ledger, now=now, may_write=may_write, report_failure=report_failure)


def kind_cache(cache: ConfigurationCache, target: Target, kind: str) -> KindCache:
    """What is kept of resources of that kind there."""
    return KindCache(cache=cache, target=target, kind=kind)


def read_cached(shelf: KindCache, ids: Iterable[str]) -> dict[str, CachedDescription]:
    """What is kept of those ids; nothing of those that have nothing, or whose row cannot be read."""
    found: dict[str, CachedDescription] = {}
    try:
        for name, wanted in _ids_by_row(shelf, ids).items():
            held, _ = _read_row(shelf, name)
            found |= {id: held[id] for id in wanted if id in held}
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        _turn_off(shelf.cache, f"what earlier sweeps kept could not be read: {error}")
    return found


def write_cached(shelf: KindCache, fresh: Mapping[str, CachedDescription], listed: Collection[str]) -> None:
    """Keep `fresh`, described just now, and of what is kept already what is still `listed`; what stands there and is not old stays as it is.

    Does nothing where another sweep writes at the same time.
    """
    try:
        for name, ids in _ids_by_row(shelf, fresh).items() if shelf.cache.may_write else ():
            held, version = _read_row(shelf, name)
            news = {id: replace(fresh[id], described_at=shelf.cache.now) for id in ids}
            if (
                version is None
                or all(_is_stored_already(held.get(id), kept) for id, kept in news.items())
                or not _is_format_ready(shelf.cache)
            ):
                continue
            stays = {id: kept for id, kept in held.items() if id in listed and id not in fresh}
            _write_row(shelf.cache, name, news | stays, version)
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        _turn_off(shelf.cache, f"what was described is not kept for later sweeps: {error}")


def _is_stored_already(held: CachedDescription | None, fresh: CachedDescription) -> bool:
    """Whether the same is there already, and can still be used at the moment of `fresh`."""
    return (
        held is not None
        and fresh.described_at is not None
        and _is_fresh(held, fresh.described_at)
        and replace(held, described_at=fresh.described_at) == fresh
    )


def _write_row(cache: ConfigurationCache, name: str, rows: dict[str, CachedDescription], version: int) -> None:
    rows = dict(list(rows.items())[:MAX_ENTRIES])
    while len(packed := _pack(rows)) > MAX_PACKED_LENGTH:
        rows = dict(list(rows.items())[: len(rows) // 2])
    # False: another sweep's row stands, which is as good
    _ask_ledger(cache, lambda: cache.ledger.write_row(name, {PACKED_COLUMN: packed}, version, cache.now))


def _is_format_ready(cache: ConfigurationCache) -> bool:
    """Whether the ledger has a format that this version writes; else the run says so when it comes to its first own write."""
    if not cache.health.is_ready:
        _ask_ledger(cache, lambda: opening.ensure_format(cache.ledger, cache.now))
        cache.health.is_ready = not cache.health.is_off
    return cache.health.is_ready


def _read_row(shelf: KindCache, name: str) -> tuple[dict[str, CachedDescription], int | None]:
    """What a row has, and its version, None where it cannot be read. One that cannot be understood has nothing, and is replaced."""
    if name not in shelf.rows:
        held = _ask_ledger(shelf.cache, lambda: shelf.cache.ledger.read_row(name))
        shelf.rows[name] = (_unpack(held), held.version) if held else ({}, None)
    return shelf.rows[name]


def _ask_ledger(cache: ConfigurationCache, question: Callable[[], T]) -> T | None:
    """What the ledger says; None once it has failed, so that of many threads only one waits for it in vain."""
    with cache.lock:
        if cache.health.is_off:
            return None
        try:
            return question()
        except (ReaperError, *ODD_REPLY_ERRORS):
            cache.health.is_off = True
            raise


def _turn_off(cache: ConfigurationCache, text: str) -> None:
    cache.health.is_off = True
    cache.report_failure(text)


def _ids_by_row(shelf: KindCache, ids: Iterable[str]) -> dict[str, list[str]]:
    """The ids by the name of the row that has them."""
    found: dict[str, list[str]] = {}
    for id in ids:
        number = int(sha256(id.encode()).hexdigest()[:8], 16) % ROWS_PER_KIND
        found.setdefault(f"cache {shelf.kind} {target_text(shelf.target)} {number}", []).append(id)
    return found


def _pack(rows: Mapping[str, CachedDescription]) -> str:
    text = json.dumps({id: _to_json(kept) for id, kept in rows.items()})
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpack(held: NamedRow) -> dict[str, CachedDescription]:
    """The entries of a row; one that makes no sense is as if it were not there."""
    try:
        rows: dict[str, Any] = json.loads(_decompress(held.values[PACKED_COLUMN])) if held.values else {}
        return {id: kept for id, row in rows.items() if (kept := _from_json(row))}
    except (*ODD_REPLY_ERRORS, zlib.error):
        return {}


def _decompress(packed: str) -> bytes:
    """Cut at `UNPACKED`, so that no row that somebody else wrote can use up the memory of a sweep."""
    return zlib.decompressobj().decompress(base64.b64decode(packed), MAX_UNPACKED_BYTES)


def _to_json(kept: CachedDescription) -> dict[str, Any]:
    parts = None if kept.parts is None else [[p.component, p.instance, p.count] for p in kept.parts]
    at = kept.described_at.isoformat() if kept.described_at else None
    return {"stamp": kept.revision, "at": at, "body": dict(kept.body), "parts": parts, "size": kept.size}


def _from_json(row: Any) -> CachedDescription | None:
    """An entry, with every field of the type that it is used as; None for one that nobody of this version wrote."""
    try:
        mark, body, size, at = row["stamp"], row["body"], row["size"], datetime.fromisoformat(row["at"])
        parts = None if row["parts"] is None else tuple(_part_from_json(*part) for part in row["parts"])
    except ODD_REPLY_ERRORS:
        return None
    if not (isinstance(mark, str) and isinstance(body, dict) and isinstance(size, str)) or at.tzinfo is None:
        return None
    return CachedDescription(revision=mark, described_at=at, body=body, parts=parts, size=size)


def _part_from_json(component: Any, instance: Any, count: Any) -> BilledPart:
    """Raises TypeError or ValueError where that is no part."""
    if not (isinstance(component, str) and isinstance(instance, str)) or isinstance(count, bool):
        raise TypeError("neither a component nor an instance")
    if not math.isfinite(count) or count <= 0:
        raise ValueError("no count")
    return BilledPart(component=component, instance=instance, count=count)
