"""What sweeps keep of descriptions that never change, so that later ones need not ask for them again: a few named rows of the ledger.

It spares calls and nothing else. What cannot be read, or is not there, is asked for as ever; the look before an action knows nothing of it.
A row takes 400 KB in DynamoDB and 1 MiB in Table Storage: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from reaper import ledger as book
from reaper.errors import ODD, ReaperError
from reaper.ledger import Ledger, State
from reaper.model import Kept, Part, Resource, Target
from reaper.row import place

ROWS = 16
"""Among so many rows the resources of one target and kind are shared out."""
MOST, LONGEST = 500, 200_000
"""Entries in one row, and letters of what they are packed into."""
UNPACKED = 8 * 1024 * 1024
"""Bytes that a row may take unpacked."""
LASTS = timedelta(days=1)
"""So long the size of what was not changed since is taken to be the same: autoscaling may change it, and nothing says that a time tells of it."""
VALUE = "packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What is kept in `ledger`. Nothing is written unless it `writes`; `tell` hears of a ledger that fails."""

    ledger: Ledger
    now: datetime
    writes: bool
    tell: Callable[[str], None]
    lock: threading.Lock


def stamp(created: datetime | None, changed: datetime | None) -> str | None:
    """By what a resource is known as the one that was described: no two lives and no two changes of it have the same; None where that is not known."""
    return f"{created.isoformat()} {changed.isoformat()}" if created and changed else None


def as_kept(resource: Resource, kept: Kept | None, now: datetime) -> Resource | None:
    """The resource as it ran when it was last described, where that is not long ago and it was not changed since."""
    if kept is None or kept.stamp != stamp(resource.created, resource.changed) or not timedelta() <= now - kept.at <= LASTS:
        return None
    return replace(resource, parts=kept.parts, size=kept.size)


def opened(ledger: Ledger, now: datetime, tell: Callable[[str], None], *, writes: bool) -> Cache:
    """The cache in that ledger, safe to use from several threads."""
    return Cache(ledger=ledger, now=now, writes=writes, tell=tell, lock=threading.Lock())


def read(cache: Cache, target: Target, kind: str, ids: Iterable[str]) -> dict[str, Kept]:
    """What is kept of those ids; nothing of those that have nothing, or whose row cannot be read."""
    found: dict[str, Kept] = {}
    for name, wanted in _shared_out(target, kind, ids).items():
        held, _ = _row(cache, name)
        found |= {id: held[id] for id in wanted if id in held}
    return found


def write(cache: Cache, target: Target, kind: str, fresh: Mapping[str, Kept], listed: Collection[str]) -> None:
    """Keep `fresh`, and of what is kept already what is still `listed`. Does nothing where another sweep writes at the same time."""
    if not cache.writes or not fresh or not _may_write(cache):
        return
    for name, ids in _shared_out(target, kind, fresh).items():
        held, version = _row(cache, name)
        if version is None:
            continue
        stays = {id: kept for id, kept in held.items() if id in listed and id not in fresh}
        _put(cache, name, {id: fresh[id] for id in ids} | stays, version)


def _put(cache: Cache, name: str, rows: dict[str, Kept], version: int) -> None:
    rows = dict(list(rows.items())[:MOST])
    while len(packed := _packed(rows)) > LONGEST:
        rows = dict(list(rows.items())[: len(rows) // 2])
    try:
        with cache.lock:
            cache.ledger.write_state(
                name, {VALUE: packed}, version, cache.now
            )  # False: another sweep's row stands, which is as good
    except (ReaperError, *ODD) as error:
        cache.tell(f"what was described could not be kept for later sweeps: {error}")


def _may_write(cache: Cache) -> bool:
    """Whether the ledger has a format that this version writes; else the run says so when it comes to its first own write."""
    try:
        with cache.lock:
            book.ready(cache.ledger, cache.now)
    except (ReaperError, *ODD) as error:
        cache.tell(f"what was described is not kept for later sweeps: {error}")
        return False
    return True


def _row(cache: Cache, name: str) -> tuple[dict[str, Kept], int | None]:
    """What a row has, and its version, None where it cannot be read. One that cannot be understood has nothing, and is replaced."""
    try:
        with cache.lock:
            held = cache.ledger.state(name)
    except (ReaperError, *ODD) as error:
        cache.tell(f"what earlier sweeps kept could not be read: {error}")
        return {}, None
    return _unpacked(held), held.version


def _shared_out(target: Target, kind: str, ids: Iterable[str]) -> dict[str, list[str]]:
    """The ids by the name of the row that has them."""
    found: dict[str, list[str]] = {}
    for id in ids:
        number = int(sha256(id.encode()).hexdigest()[:8], 16) % ROWS
        found.setdefault(f"cache {kind} {place(target)} {number}", []).append(id)
    return found


def _packed(rows: Mapping[str, Kept]) -> str:
    text = json.dumps({id: _written(kept) for id, kept in rows.items()})
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _unpacked(held: State) -> dict[str, Kept]:
    try:
        rows: dict[str, Any] = json.loads(_text(held.values[VALUE])) if held.values else {}
        return {id: _read(row) for id, row in rows.items()}
    except (*ODD, zlib.error):
        return {}


def _text(packed: str) -> bytes:
    """Cut at `UNPACKED`, so that no row that somebody else wrote can use up the memory of a sweep."""
    return zlib.decompressobj().decompress(base64.b64decode(packed), UNPACKED)


def _written(kept: Kept) -> dict[str, Any]:
    parts = None if kept.parts is None else [[p.component, p.instance, p.count] for p in kept.parts]
    return {"stamp": kept.stamp, "at": kept.at.isoformat(), "body": dict(kept.body), "parts": parts, "size": kept.size}


def _read(row: Mapping[str, Any]) -> Kept:
    parts = None if row["parts"] is None else tuple(Part(component=c, instance=i, count=n) for c, i, n in row["parts"])
    at = datetime.fromisoformat(row["at"])
    return Kept(stamp=str(row["stamp"]), at=at, body=dict(row["body"]), parts=parts, size=str(row["size"]))
