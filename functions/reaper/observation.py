"""What a sweep reads of a resource: windows, series, readings, and the observation they add up to. Frozen data, no I/O, no decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from reaper.model import BilledPart, Resource, Role, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSince:
    """Since when one resource must have been silent to count as idle.

    `under_some_rule`: silence since then is enough under some rule that may apply to it. `under_every_rule`: it is enough under each of them.
    They differ only if a rule asks for a price or a size that is still unknown.
    """

    under_some_rule: datetime
    under_every_rule: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedDescription:
    """What a sweep stores of a resource for later ones, valid only while the resource has this `revision`.

    `body`: what never changes, as JSON. `parts` and `size`: what it ran at `described_at`; they may save a closer look, but never decide a
    verdict. `described_at` is the clock of the run that wrote it, None until then.
    """

    revision: str
    described_at: Time | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[BilledPart, ...] | None = None
    size: str = ""


def nothing_cached(ids: Iterable[str]) -> Mapping[str, CachedDescription]:
    """An empty cache."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time range over which signals are read, and by resource ID how long each must have been silent.

    What was busy, created or changed after `RecentSince.under_some_rule` needs no closer look: no rule calls it idle. `recent_since` is that
    time for resources that aren't in `recent_since_by_id`. `reads_in_full`: the first look, too, reads the whole range; `in_full`: that of
    these IDs does. `read_cached(ids)`
    has what earlier sweeps stored. `known`: the readings of what needs no first look, by ID: a use that an earlier sweep saw and that still
    makes it active, or none if it was silent then and needs its whole window at once. `recent_since_of(resource)` is that time for a resource whose price and size were listed as unknown and are
    described by now; None if its rule can't be found.
    """

    start: datetime
    end: datetime
    recent_since: datetime
    recent_since_by_id: Mapping[str, RecentSince] = field(default_factory=dict)
    reads_in_full: bool = False
    in_full: frozenset[str] = frozenset()
    read_cached: Callable[[Iterable[str]], Mapping[str, CachedDescription]] = nothing_cached
    known: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    recent_since_of: Callable[[Resource], RecentSince | None] = lambda described: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Evenly spaced buckets, the first at `start`. A bucket without a point is NaN; `values` is empty if none has one.

    `end`: nothing after it was read, so the last bucket may be cut short there; None if all are whole.
    """

    start: datetime
    step: timedelta
    values: Sequence[float] = ()
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one signal showed. `subject` is the part it is about (a variant), empty for the whole resource. `event_at` is for single events.

    `seen_at`: when an earlier sweep read it; None if this one did.
    """

    signal: str
    role: Role
    subject: str = ""
    series: Series | None = None
    event_at: datetime | None = None
    busy_above: float = 0.0
    complete: bool = True
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndirectEvidence:
    """Indirect evidence that nothing happened since `since`; enough for a `likely` verdict at most."""

    since: datetime
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observed resource with its readings, and what the control plane itself says about it (each a clause for people).

    `in_use_because`: it is working right now. `free_because`: it costs nothing while idle. `changing_because`: it is being created or changed.
    `unknown_because`: why nothing can be proven. `is_gone`: it was deleted since it was listed, or an outdated list still named it.
    `to_cache`: what later sweeps need not read again.
    """

    resource: Resource
    readings: tuple[Reading, ...] = ()
    indirect_evidence: IndirectEvidence | None = None
    in_use_because: str | None = None
    free_because: str | None = None
    changing_because: str | None = None
    unknown_because: str | None = None
    is_gone: bool = False
    to_cache: CachedDescription | None = None
