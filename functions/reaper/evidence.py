"""What readings prove: when a signal was last busy, and since when a heartbeat has been alive without a gap. Pure."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from reaper.case import Evidence
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, RecentSince, Series, Window

ARRIVAL_DELAY = timedelta(minutes=25)
"""Points younger than 20 minutes may not have arrived yet, and a heartbeat beats every five minutes: a bucket that began earlier has a point."""
HOUR = timedelta(hours=1)
SLOT_LENGTH = timedelta(hours=6)
MAX_SLOTS = 56
"""Two weeks in quarter days: what a small chart can show."""


def last_busy(reading: Reading) -> datetime | None:
    """The end of the last bucket above the reading's level, or its single event.

    A bucket counts as busy to its end, the last one to the end of the query.
    """
    series = reading.series
    if series is None or not series.values:
        return reading.event_at
    for index in range(len(series.values) - 1, -1, -1):
        if series.values[index] > reading.busy_above:
            busy = _bucket_end(series, index)
            return max(busy, reading.event_at) if reading.event_at else busy
    return reading.event_at


def _bucket_end(series: Series, index: int) -> datetime:
    """The end of a bucket or of the query, whichever comes first."""
    end = series.start + (index + 1) * series.step
    return min(end, series.end) if series.end else end


def last_used(observation: Observation) -> datetime | None:
    """The latest sign of use that any activity reading shows, partial replies included."""
    times = [busy for r in observation.readings if r.role is Role.ACTIVITY and (busy := last_busy(r))]
    return max(times, default=None)


def busy_hours(observation: Observation) -> tuple[datetime | None, int]:
    """The whole hours in which any activity series was busy, as bits, and when that of bit 0 began. None if a reply was incomplete.

    An hour in which the query ended is left out: it isn't over. So are single events, which may be recorded late.
    """
    series = [(r.series, r.busy_above) for r in observation.readings if r.role is Role.ACTIVITY and r.series and r.series.values]
    first = min((each.start for each, _ in series), default=None)
    if first is None or not all(reading.complete for reading in observation.readings):
        return None, 0
    bits = 0
    for each, busy_above in series:
        offset, rest = divmod(each.start - first, HOUR)
        if each.step == HOUR and not rest:
            whole = (each.end - each.start) // HOUR if each.end else len(each.values)
            for index, value in enumerate(each.values[:whole]):
                bits |= (value > busy_above) << offset + index
    return (first, bits) if bits else (None, 0)


def is_recent(observation: Observation, window: Window) -> bool:
    """Whether it was used, created or changed so recently that no rule that may match it, and no tag of its own, can call it idle.

    If the rules that may match differ, only a full read shows whether an earlier use makes a young resource active. What was silent in an earlier
    sweep isn't recent until it is read.
    """
    if not observation.readings and window.known.get(observation.resource.id) == ():
        return False
    quiet, used = _recent_since(observation.resource, window), last_used(observation)
    if used and used > quiet.under_some_rule:
        return True
    return _is_young(observation.resource, quiet) and not (used and used > quiet.under_every_rule)


def first_read_from(resource: Resource, window: Window) -> datetime:
    """The hour from which a first read has to start to find every use that may rule out idleness, also under a rule that a closer look finds.

    A young resource needs the whole window, because it isn't read again: its last use is the last one that the first signals show. Signals
    that only a full read covers (the queue of an asynchronous endpoint, the components of a host) aren't shown while it is young.
    """
    quiet = _recent_since(resource, window)
    if window.reads_in_full or resource.id in window.in_full or _is_young(resource, quiet):
        return window.start
    start = min(quiet.under_every_rule, window.end - timedelta(minutes=1)).replace(minute=0, second=0, microsecond=0)
    return max(window.start, start)


def _recent_since(resource: Resource, window: Window) -> RecentSince:
    usual = RecentSince(under_some_rule=window.recent_since, under_every_rule=window.recent_since)
    return window.recent_since_by_id.get(resource.id, usual)


def _is_young(resource: Resource, quiet: RecentSince) -> bool:
    return any(t and t > quiet.under_some_rule for t in (resource.created, resource.changed))


def alive_from(reading: Reading, until: datetime) -> datetime | None:
    """The start of the unbroken live buckets up to `until`; None if they end earlier.

    A point proves that its hour was watched, but not from which minute. So the first bucket after a gap proves nothing.
    """
    series = reading.series
    if series is None or not series.values:
        return None
    last = math.ceil((until - series.start) / series.step) - 1
    if last < 0 or last >= len(series.values):
        return None
    first = last + 1
    while first > 0 and series.values[first - 1] > reading.busy_above:
        first -= 1
    if first > last:
        return None
    return min(_bucket_end(series, first), until) if first else series.start


def watched_from(observation: Observation, until: datetime) -> datetime | None:
    """The time since which every activity reading was recorded and every heartbeat was alive, up to `until`; None if unknown.

    Each activity reading with a subject (a variant) needs a heartbeat of the same subject, or one of the whole resource.
    """
    activity = [r for r in observation.readings if r.role is Role.ACTIVITY and r.series is not None]
    hearts = [r for r in observation.readings if r.role is Role.HEARTBEAT]
    heard = {h.subject for h in hearts}
    if not activity or not hearts or any(a.subject and not heard & {a.subject, ""} for a in activity):
        return None
    starts = [_recorded_from(a.series, until) for a in activity if a.series] + [alive_from(h, until) for h in hearts]
    return None if any(s is None for s in starts) else max(s for s in starts if s)


def _recorded_from(series: Series, until: datetime) -> datetime | None:
    """The start of the query. An empty reply to a complete query still covers its time."""
    if not series.values:
        return None if series.end and series.end < until else series.start
    return series.start if _bucket_end(series, len(series.values) - 1) >= until else None


def merge_heartbeats(first: Reading, *others: Reading) -> Reading:
    """One heartbeat from several, any of which is enough: alive whenever one of them is, complete only if all are."""
    series = [r.series for r in (first, *others) if r.series and r.series.values]
    complete = all(r.complete for r in (first, *others))
    if not series:
        return replace(first, complete=complete)
    if len({(s.start, s.step, len(s.values)) for s in series}) > 1:
        return replace(first, series=series[0], complete=complete)
    lists = [s.values for s in series]
    merged = array("f", (max((v for v in at if not math.isnan(v)), default=math.nan) for at in zip(*lists, strict=True)))
    return replace(first, series=replace(series[0], values=merged), complete=complete)


def has_heartbeat(observation: Observation) -> bool:
    """Whether any heartbeat showed a live point at all in the window."""
    return any(point_count(r) for r in observation.readings if r.role is Role.HEARTBEAT)


def point_count(reading: Reading) -> int:
    """How many buckets have a point; a single event counts as one."""
    if reading.series is None:
        return int(reading.event_at is not None)
    return sum(1 for v in reading.series.values if not math.isnan(v))


def summarize(reading: Reading, *, with_slots: bool = False) -> Evidence:
    """A reading as the report shows it, with its slots only if a chart needs them, which keeps large reports small."""
    values = [v for v in reading.series.values if not math.isnan(v)] if reading.series else []
    return Evidence(
        signal=reading.signal,
        subject=reading.subject,
        role=reading.role,
        points=point_count(reading),
        last_busy=last_busy(reading) if reading.role is Role.ACTIVITY else None,
        peak=max(values, default=None),
        complete=reading.complete,
        slots=_shared_slots(_slots_of(reading)) if with_slots else (),
        busy_above=reading.busy_above if math.isfinite(reading.busy_above) else None,
        seen_at=reading.seen_at,
    )


def _slots_of(reading: Reading) -> tuple[int, ...]:
    """Slots count back from the end of the window, so that the slots of all findings cover the same six hours."""
    if reading.series is None or not len(reading.series.values):
        return ()
    values, wide = reading.series.values, max(1, SLOT_LENGTH // reading.series.step)
    edges = range(len(values), max(0, len(values) - MAX_SLOTS * wide), -wide)
    slots = [values[max(0, end - wide) : end] for end in edges]
    if reading.role is Role.HEARTBEAT:
        return tuple(int(all(v > reading.busy_above for v in slot)) for slot in reversed(slots))
    top = max((v for v in values if math.isfinite(v)), default=0.0)
    return tuple(max(_percent_of_peak(v, top, reading.busy_above) for v in slot) for slot in reversed(slots))


def _percent_of_peak(value: float, top: float, busy_above: float) -> int:
    """0 if there is no point or it isn't busy; the least use still shows."""
    if not value > busy_above:
        return 0
    return 100 if value >= top or top <= 0 else max(1, min(100, round(100 * value / top)))


@lru_cache(maxsize=1024)
def _shared_slots(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Idle resources look alike, so equal shapes are stored once."""
    return shape
