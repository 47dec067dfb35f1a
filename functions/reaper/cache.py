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

from reaper.errors import ODD, ReaperError
from reaper.ledger import port as book
from reaper.ledger.codec import place
from reaper.ledger.port import Ledger, State
from reaper.model import Kept, Part, Resource, Target

ROWS = 16
"""Among so many rows the resources of one target and kind are shared out."""
MOST, LONGEST = 500, 200_000
"""Entries in one row, and letters of what they are packed into."""
UNPACKED = 8 * 1024 * 1024
"""Bytes that a row may take unpacked."""
LASTS = timedelta(hours=30)
"""So long the size of what was not changed since is taken to be the same: autoscaling may change it, and nothing says that a time tells of it.

A daily sweep that starts some hours late, or after the clocks went back, still has what the one before it kept; two days are never spared.
"""
VALUE = "packed"
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Health:
    """How the ledger fares in this run. `off`: it failed once. `ready`: it has a format that this version writes."""

    off: bool = False
    ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What is kept in `ledger`. Nothing is written unless it `writes`; `tell` hears of a ledger that fails. `now` is the clock of every entry."""

    ledger: Ledger
    now: datetime
    writes: bool
    tell: Callable[[str], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    health: Health = field(default_factory=Health)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The cache as one sweep of one target and kind sees it: each of its `rows` is read once. For one thread."""

    cache: Cache
    target: Target
    kind: str
    rows: dict[str, tuple[dict[str, Kept], int | None]] = field(default_factory=dict)


def stamp(created: datetime | None, changed: datetime | None) -> str | None:
    """By what a resource is known as the one that was described: no two lives and no two changes of it have the same; None where that is not known."""
    try:
        return f"{created.astimezone(UTC).isoformat()} {changed.astimezone(UTC).isoformat()}" if created and changed else None
    except OverflowError:  # of the first or last day of the calendar
        return None


def as_kept(resource: Resource, kept: Kept | None, now: datetime) -> Resource | None:
    """The resource as it ran when it was last described, where that is known, is not long ago and it was not changed since."""
    if kept is None or kept.parts is None or kept.stamp != stamp(resource.created, resource.changed) or not _fresh(kept, now):
        return None
    return replace(resource, parts=kept.parts, size=kept.size)


def _fresh(kept: Kept, now: datetime) -> bool:
    return kept.at is not None and timedelta() <= now - kept.at <= LASTS


def opened(ledger: Ledger, now: datetime, tell: Callable[[str], None], *, writes: bool) -> Cache:
    """The cache in that ledger, safe to use from several threads."""
    return Cache(ledger=ledger, now=now, writes=writes, tell=tell)


def shelf(cache: Cache, target: Target, kind: str) -> Shelf:
    """What is kept of resources of that kind there."""
    return Shelf(cache=cache, target=target, kind=kind)


def read(shelf: Shelf, ids: Iterable[str]) -> dict[str, Kept]:
    """What is kept of those ids; nothing of those that have nothing, or whose row cannot be read."""
    found: dict[str, Kept] = {}
    try:
        for name, wanted in _shared_out(shelf, ids).items():
            held, _ = _row(shelf, name)
            found |= {id: held[id] for id in wanted if id in held}
    except (ReaperError, *ODD) as error:
        _give_up(shelf.cache, f"what earlier sweeps kept could not be read: {error}")
    return found


def write(shelf: Shelf, fresh: Mapping[str, Kept], listed: Collection[str]) -> None:
    """Keep `fresh`, described just now, and of what is kept already what is still `listed`; what stands there and is not old stays as it is.

    Does nothing where another sweep writes at the same time.
    """
    try:
        for name, ids in _shared_out(shelf, fresh).items() if shelf.cache.writes else ():
            held, version = _row(shelf, name)
            news = {id: replace(fresh[id], at=shelf.cache.now) for id in ids}
            if version is None or all(_stands(held.get(id), kept) for id, kept in news.items()) or not _ready(shelf.cache):
                continue
            stays = {id: kept for id, kept in held.items() if id in listed and id not in fresh}
            _put(shelf.cache, name, news | stays, version)
    except (ReaperError, *ODD) as error:
        _give_up(shelf.cache, f"what was described is not kept for later sweeps: {error}")


def _stands(held: Kept | None, fresh: Kept) -> bool:
    """Whether the same is there already, and can still be used at the moment of `fresh`."""
    return held is not None and fresh.at is not None and _fresh(held, fresh.at) and replace(held, at=fresh.at) == fresh


def _put(cache: Cache, name: str, rows: dict[str, Kept], version: int) -> None:
    rows = dict(list(rows.items())[:MOST])
    while len(packed := _packed(rows)) > LONGEST:
        rows = dict(list(rows.items())[: len(rows) // 2])
    # False: another sweep's row stands, which is as good
    _ask(cache, lambda: cache.ledger.write_state(name, {VALUE: packed}, version, cache.now))


def _ready(cache: Cache) -> bool:
    """Whether the ledger has a format that this version writes; else the run says so when it comes to its first own write."""
    if not cache.health.ready:
        _ask(cache, lambda: book.ready(cache.ledger, cache.now))
        cache.health.ready = not cache.health.off
    return cache.health.ready


def _row(shelf: Shelf, name: str) -> tuple[dict[str, Kept], int | None]:
    """What a row has, and its version, None where it cannot be read. One that cannot be understood has nothing, and is replaced."""
    if name not in shelf.rows:
        held = _ask(shelf.cache, lambda: shelf.cache.ledger.state(name))
        shelf.rows[name] = (_unpacked(held), held.version) if held else ({}, None)
    return shelf.rows[name]


def _ask(cache: Cache, question: Callable[[], T]) -> T | None:
    """What the ledger says; None once it has failed, so that of many threads only one waits for it in vain."""
    with cache.lock:
        if cache.health.off:
            return None
        try:
            return question()
        except (ReaperError, *ODD):
            cache.health.off = True
            raise


def _give_up(cache: Cache, text: str) -> None:
    cache.health.off = True
    cache.tell(text)


def _shared_out(shelf: Shelf, ids: Iterable[str]) -> dict[str, list[str]]:
    """The ids by the name of the row that has them."""
    found: dict[str, list[str]] = {}
    for id in ids:
        number = int(sha256(id.encode()).hexdigest()[:8], 16) % ROWS
        found.setdefault(f"cache {shelf.kind} {place(shelf.target)} {number}", []).append(id)
    return found


def _packed(rows: Mapping[str, Kept]) -> str:
    text = json.dumps({id: _written(kept) for id, kept in rows.items()})
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpacked(held: State) -> dict[str, Kept]:
    """The entries of a row; one that makes no sense is as if it were not there."""
    try:
        rows: dict[str, Any] = json.loads(_text(held.values[VALUE])) if held.values else {}
        return {id: kept for id, row in rows.items() if (kept := _read(row))}
    except (*ODD, zlib.error):
        return {}


def _text(packed: str) -> bytes:
    """Cut at `UNPACKED`, so that no row that somebody else wrote can use up the memory of a sweep."""
    return zlib.decompressobj().decompress(base64.b64decode(packed), UNPACKED)


def _written(kept: Kept) -> dict[str, Any]:
    parts = None if kept.parts is None else [[p.component, p.instance, p.count] for p in kept.parts]
    at = kept.at.isoformat() if kept.at else None
    return {"stamp": kept.stamp, "at": at, "body": dict(kept.body), "parts": parts, "size": kept.size}


def _read(row: Any) -> Kept | None:
    """An entry, with every field of the type that it is used as; None for one that nobody of this version wrote."""
    try:
        mark, body, size, at = row["stamp"], row["body"], row["size"], datetime.fromisoformat(row["at"])
        parts = None if row["parts"] is None else tuple(_part(*part) for part in row["parts"])
    except ODD:
        return None
    if not (isinstance(mark, str) and isinstance(body, dict) and isinstance(size, str)) or at.tzinfo is None:
        return None
    return Kept(stamp=mark, at=at, body=body, parts=parts, size=size)


def _part(component: Any, instance: Any, count: Any) -> Part:
    """Raises TypeError or ValueError where that is no part."""
    if not (isinstance(component, str) and isinstance(instance, str)) or isinstance(count, bool):
        raise TypeError("neither a component nor an instance")
    if not math.isfinite(count) or count <= 0:
        raise ValueError("no count")
    return Part(component=component, instance=instance, count=count)
