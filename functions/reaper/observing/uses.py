"""What sweeps remember of each resource's use, so that later ones ask for the metrics of those only that may have fallen idle. Pure.

A use can't be undone: what was used an hour ago isn't idle for as long as the shortest `idle_after` that may apply to it. How long that is isn't
remembered. Each sweep works it out again, so a change of the policy, the tags, the hours or the price needs nothing to be forgotten.

A resource is asked about at least once a day, at an hour of its own, so that all of them together are spread over the day.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from reaper.evidence import is_recent, last_busy
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, RecentSince, Window

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


def pack(uses: LastUses) -> bytes:
    """The uses in the order of their keys, 16 bytes each."""
    return b"".join(
        RECORD.pack(key, use.revision, use.used, use.asked) for key, use in sorted(uses.items(), key=lambda pair: pair[0])
    )


def unpack(packed: bytes) -> dict[bytes, LastUse]:
    """The inverse of `pack`. Raises struct.error for another length."""
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
