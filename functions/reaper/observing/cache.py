"""What sweeps store for later ones: descriptions that never change, and when each resource was last used (`observing.uses`).

Both are in one named row of the ledger for a place and kind, and in further ones if it has more than 10,000 resources. It saves requests and
nothing else. What is missing or unreadable is requested as usual, and the re-check before an action doesn't use it.
After the first failure of the ledger a run goes on without the cache: it reports that once and doesn't wait for the ledger again.
A row takes 400 KB in DynamoDB and 1 MiB in Table Storage: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

from __future__ import annotations

import base64
import math
import re
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TypeVar

from reaper.errors import ReaperError
from reaper.evidence import is_recent, last_busy
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger, target_text
from reaper.ledger.rows import NamedRow, document_of, parse_document
from reaper.model import Resource, Role, Target
from reaper.observation import CachedDescription, Observation, Reading, RecentSince, Window

RECORD = struct.Struct(">5s3sII")
"""The key of the ID, the revision, and when it was last used and asked about, in seconds since 1970."""
HOUR, DAY = 3600, 24 * 3600
EARLIER_SWEEP = "an earlier sweep"
"""The signal of a remembered use, as reasons and reports name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastUse:
    """What a sweep saw of a resource with that `revision`. `used` and `asked` are seconds since 1970, both 0 if it showed no use at all."""

    revision: bytes
    used: int = 0
    asked: int = 0


LastUses = Mapping[bytes, LastUse]
"""By the key of the resource's ID."""


def key_of(resource_id: str) -> bytes:
    """Two IDs with one key would still have different revisions."""
    return sha256(resource_id.encode()).digest()[:5]


def packed_uses(uses: LastUses) -> bytes:
    """The uses in the order of their keys, 16 bytes each."""
    return b"".join(
        RECORD.pack(key, use.revision, use.used, use.asked) for key, use in sorted(uses.items(), key=lambda pair: pair[0])
    )


def uses_in(packed: bytes) -> dict[bytes, LastUse]:
    """The inverse of `packed_uses`. Raises struct.error for another length."""
    records = RECORD.iter_unpack(packed)
    return {key: LastUse(revision=revision, used=used, asked=asked) for key, revision, used, asked in records}


def known_readings(
    resources: Iterable[Resource], stored: LastUses, recent: Mapping[str, RecentSince], in_full: frozenset[str], now: datetime
) -> dict[str, tuple[Reading, ...]]:
    """What needs no first look, by ID: its remembered use as a reading, or nothing if it was silent and needs its whole window at once.

    `in_full`: the IDs of what is always asked about.
    """
    resources, known = list(resources), dict[str, tuple[Reading, ...]]()
    counts, seconds = Counter(resource.id for resource in resources), int(now.timestamp())
    for resource in resources if stored else ():
        key = key_of(resource.id)
        use = stored.get(key)
        if use is None or counts[resource.id] > 1 or use.revision != _revision(resource):
            continue
        since = int(recent[resource.id].under_some_rule.timestamp()) + 1
        if not use.used or use.asked - use.used >= seconds - since:
            known[resource.id] = ()
        elif use.used > since and resource.id not in in_full and _is_of_today(use, key, seconds):
            used, asked = (datetime.fromtimestamp(at, UTC) for at in (use.used, use.asked))
            known[resource.id] = (Reading(signal=EARLIER_SWEEP, role=Role.ACTIVITY, event_at=used, seen_at=asked),)
    return known


def seen_use(observation: Observation, listed: Resource, before: LastUse | None, window: Window, now: datetime) -> LastUse | None:
    """What to remember of a resource as `listed`, which may be what it was `before`; None if it must be asked about.

    Only complete replies count: a point at an odd time may be taken for a later use than it was.
    """
    revision, since = _revision(listed), window.recent_since_by_id.get(listed.id)
    if revision is None or since is None or observation.changing_because:
        return None
    same = before if before and before.revision == revision else None
    readings = [reading for reading in observation.readings if reading.series is not None]
    if not readings or not all(reading.complete for reading in observation.readings):
        return same
    used = max((busy for r in readings if r.role is Role.ACTIVITY and (busy := last_busy(r))), default=None)
    is_silent = not used or used <= since.under_some_rule
    if is_silent and is_recent(observation, window):
        return None
    if used is None:
        return LastUse(revision=revision)
    last = int(used.timestamp())
    return same if same and same.used == last and is_silent else LastUse(revision=revision, used=last, asked=int(now.timestamp()))


def _is_of_today(use: LastUse, key: bytes, now: int) -> bool:
    """Whether it was asked about since its own hour last began. A time ahead of now was written by a wrong clock."""
    own_hour = key[-1] % 24 * HOUR
    return use.used <= use.asked <= now and (use.asked - own_hour) // DAY == (now - own_hour) // DAY


def _revision(resource: Resource) -> bytes | None:
    """What every recreation, change and change of status has of its own; None if its creation time is unknown."""
    if resource.created is None:
        return None
    times = [moment and moment.timestamp() for moment in (resource.created, resource.changed)]
    return sha256(f"{resource.id} {times} {resource.status}".encode()).digest()[:3]


MAX_ROWS = 50
MAX_USES = 10_000
"""Resources in one row: 213,000 characters."""
MAX_ENTRIES, MAX_PACKED_LENGTH = 2500, 180_000
"""Descriptions in one row, and characters of their packed text."""
MAX_UNPACKED_BYTES = 8 * 1024 * 1024
"""Bytes that the descriptions of a row may have unpacked."""
SIZE_VALID_FOR = timedelta(hours=30)
"""How long the size of an unchanged resource is trusted: autoscaling may change it without a new time of change.

A daily sweep that starts some hours late, or after the clocks went back, can still use the entries of the one before. Two days later they
are never used.
"""
PACKED_COLUMN, USES_COLUMN, ROWS_COLUMN = "packed", "uses", "rows"
"""The first row says how many there are."""
COUNT_PATTERN = re.compile("[0-9]{1,3}", re.ASCII)
DESCRIPTIONS = dict[str, CachedDescription]
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ConfigurationCache:
    """The entries in `ledger`, safe to use from several threads. Nothing is written unless it `may_write`; `report_failure` gets the failure of a ledger. `now` dates every entry.

    `is_off`: the ledger failed once in this run. `is_ready`: it has a format that this version writes.
    """

    ledger: Ledger
    now: datetime
    may_write: bool
    report_failure: Callable[[str], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_off: bool = False
    is_ready: bool = False

    def turn_off(self, text: str) -> None:
        """Ask the ledger nothing more in this run, and report that."""
        self.is_off = True
        self.report_failure(text)


@dataclass(slots=True, kw_only=True)
class KindCache:
    """The cache of one sweep for one target and kind. For one thread. Once it `is_read` it has the rows of earlier sweeps, in order, and what they hold."""

    cache: ConfigurationCache
    target: Target
    kind: str
    is_read: bool = False
    rows: Sequence[NamedRow] = ()
    descriptions: dict[str, CachedDescription] = field(default_factory=dict)
    uses: dict[bytes, LastUse] = field(default_factory=dict)

    def row_name(self, number: int) -> str:
        """The name of a row, from 0 on."""
        return f"cache {self.kind} {target_text(self.target)} {number}"


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
    """The descriptions of those IDs that have one in a readable row."""
    stored = read_stored(shelf).descriptions
    return {resource_id: stored[resource_id] for resource_id in ids if resource_id in stored}


def read_stored(shelf: KindCache) -> KindCache:
    """The same with what earlier sweeps stored; nothing if the ledger fails. A row that makes no sense has nothing and is replaced."""
    if not shelf.is_read:
        try:
            shelf.rows = _read_rows(shelf)
        except ReaperError as error:
            shelf.cache.turn_off(f"the cache of earlier sweeps can't be read: {error}")
        for row in shelf.rows:
            shelf.descriptions |= _unpack(row)
            shelf.uses |= _unpack_uses(row)
        shelf.is_read = True
    return shelf


def write_cached(
    shelf: KindCache, fresh: Mapping[str, CachedDescription], listed: Collection[str], uses: LastUses | None = None
) -> None:
    """Store `fresh`, described just now, and `uses`, and keep the descriptions of resources that are still `listed`.

    Descriptions that are equal and not old stay. Does nothing if that changes nothing, or if another sweep writes at the same time.
    """
    cache = shelf.cache
    if not cache.may_write or not (fresh or uses):
        return
    stored = read_stored(shelf)
    news = {}
    for resource_id, described in fresh.items():
        entry, old = replace(described, described_at=cache.now), stored.descriptions.get(resource_id)
        if old is None or not _is_fresh(old, cache.now) or replace(old, described_at=cache.now) != entry:
            news[resource_id] = entry
    kept = {resource_id: entry for resource_id, entry in stored.descriptions.items() if resource_id in listed}
    try:
        for number, columns in enumerate(_new_rows(dict(sorted((kept | news).items())), uses or {})):
            _write_row(shelf, number, columns)
    except (ReaperError, TypeError, ValueError, struct.error) as error:
        cache.turn_off(f"the cache for later sweeps can't be written: {error}")


def _new_rows(descriptions: Mapping[str, CachedDescription], uses: LastUses) -> list[dict[str, str]]:
    """The columns of every row. What doesn't fit into so many rows is left out."""
    entries, packed = list(descriptions.items()), packed_uses(uses)
    length = RECORD.size * MAX_USES
    count = min(MAX_ROWS, max(1, -(-len(entries) // MAX_ENTRIES), -(-len(packed) // length)))
    rows = [
        {
            PACKED_COLUMN: _pack(entries[number * MAX_ENTRIES : (number + 1) * MAX_ENTRIES]),
            USES_COLUMN: base64.b64encode(packed[number * length : (number + 1) * length]).decode(),
        }
        for number in range(count)
    ]
    rows[0][ROWS_COLUMN] = str(count)
    return rows


def _write_row(shelf: KindCache, number: int, columns: Mapping[str, str]) -> None:
    """Write the row if it differs and the ledger has a format that this version writes. If it hasn't, the run reports that at its first write.

    If another sweep has written the row meanwhile, that one stands, which is as good.
    """
    cache, rows, name = shelf.cache, read_stored(shelf).rows, shelf.row_name(number)
    row = rows[number] if number < len(rows) else _ask_ledger(cache, lambda: cache.ledger.read_row(name))
    if row is None or row.values == columns:
        return
    if not cache.is_ready:
        _ask_ledger(cache, lambda: opening.ensure_format(cache.ledger))
        cache.is_ready = not cache.is_off
    if cache.is_ready:
        _ask_ledger(cache, lambda: cache.ledger.write_row(name, columns, row.version))


def _read_rows(shelf: KindCache) -> Sequence[NamedRow]:
    """Every row: the first, and those that it speaks of in one request. Raises ReaperError."""
    ledger = shelf.cache.ledger
    first = _ask_ledger(shelf.cache, lambda: ledger.read_row(shelf.row_name(0)))
    if first is None:
        return ()
    count = first.values.get(ROWS_COLUMN, "")
    names = [shelf.row_name(number) for number in range(1, min(MAX_ROWS, int(count)))] if COUNT_PATTERN.fullmatch(count) else []
    others = _ask_ledger(shelf.cache, lambda: ledger.read_rows(names)) if names else {}
    return first, *(row for name in names if (row := (others or {}).get(name)))


def _ask_ledger(cache: ConfigurationCache, question: Callable[[], T]) -> T | None:
    """The ledger's reply; None once it has failed, so that only one of many threads waits for it in vain."""
    with cache.lock:
        if cache.is_off:
            return None
        try:
            return question()
        except ReaperError:
            cache.is_off = True
            raise


def _pack(entries: Sequence[tuple[str, CachedDescription]]) -> str:
    """The entries, or as many of the first as fit into a row."""
    while True:
        packed = base64.b64encode(zlib.compress(document_of(dict(entries), DESCRIPTIONS).encode())).decode()
        if len(packed) <= MAX_PACKED_LENGTH:
            return packed
        entries = entries[: len(entries) // 2]


def _unpack(named_row: NamedRow) -> dict[str, CachedDescription]:
    """The entries of a row, but for those without a time or with odd counts; none if it makes no sense."""
    try:
        entries = parse_document(DESCRIPTIONS, _decompress(named_row.values.get(PACKED_COLUMN, "")), "the row")
    except (ReaperError, ValueError, zlib.error):
        return {}
    return {id_: e for id_, e in entries.items() if e.described_at and all(0 < p.count < math.inf for p in e.parts or ())}


def _unpack_uses(named_row: NamedRow) -> dict[bytes, LastUse]:
    """The uses of a row; none if it makes no sense."""
    try:
        return uses_in(base64.b64decode(named_row.values.get(USES_COLUMN, ""), validate=True))
    except (ValueError, struct.error):
        return {}


def _decompress(packed: str) -> bytes:
    """Cut at `MAX_UNPACKED_BYTES`, so that no foreign row can use up the memory of a sweep."""
    return zlib.decompressobj().decompress(base64.b64decode(packed), MAX_UNPACKED_BYTES)
