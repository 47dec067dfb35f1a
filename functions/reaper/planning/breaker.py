"""The breaker: a jump of the idle share of a place, or of a kind over a run of several places, is likelier a broken signal than an empty office. Pure.

What is usual are the ten newest days before today on which a sweep read the place, however old, each with its lowest share: however often
sweeps run, one that sees a signal break hour by hour compares with the days before. With fewer than three days the caps alone protect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

from reaper.case import Case
from reaper.ledger.rows import RunStatistics
from reaper.model import Memory, State
from reaper.pending import holds
from reaper.pending.holds import (
    ALL_ACCOUNTS,
    Breaker,
    HoldRow,
    HoldRows,
    IdleShare,
    KindInTarget,
    PlaceCount,
    RunScope,
    Shares,
    Usual,
)
from reaper.planning.possible_actions import is_stopped_by_hours
from reaper.policy import tags
from reaper.policy.accepted import ended_acceptances

if TYPE_CHECKING:
    from reaper.policy.schema import Limits, Policy

MIN_FOR_JUMP = 3
"""This many more idle resources are never a jump, however small the fleet. A jump needs as many earlier days to compare with."""
USUAL_DAYS = 10
"""The newest days that show what is usual."""
RECENTLY = timedelta(hours=48)
"""A jump names the protections that ended so shortly before it."""
PlaceCounts = Mapping[KindInTarget, PlaceCount]


def rows_with_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, rows: HoldRows, scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the places, and the kinds over the whole run, in which many more resources are idle than in earlier days."""
    sound = places_with_known_share(counts, scope.read_places)
    after_places = _rows_with_breakers(rows, idle_jumps(counts, limits, shares), sound, scope)
    jumping = {breaker.place for row in after_places.values() for breaker in row.jumps}
    over_run, run_counts = _shares_over_run(counts, shares, jumping), counts_over_run(counts, jumping)
    sudden = idle_jumps(run_counts, limits, over_run, " in this run")
    return _rows_with_breakers(after_places, sudden, places_with_known_share(run_counts, run_counts), scope)


def count_places(cases: Iterable[Case]) -> dict[KindInTarget, PlaceCount]:
    """How many resources there are by place: see `PlaceCount`."""
    counted: dict[KindInTarget, list[Case]] = defaultdict(list)
    for case in cases:
        is_left_out = is_stopped_by_hours(case) or case.verdict.state is State.EXEMPT
        counted[holds.kind_in_target_of(case)] += [] if is_left_out else [case]
    return {
        place: PlaceCount(
            total=len(there), unknown=sum(case.verdict.state is State.UNKNOWN for case in there), spared=sum(case.was_spared for case in there),
            idle=sum(case.verdict.state is State.IDLE for case in there), unanswered=sum(case.lacks_reply for case in there),
            asked=sum(bool(case.evidence) and not case.was_spared for case in there),
        )
        for place, there in counted.items()
    }  # fmt: skip


def add_counts(sums: dict[KindInTarget, PlaceCount], more: PlaceCounts) -> None:
    """Add `more` to the sums, place by place: a run over an organization has thousands of places, and each part only a few."""
    for place, count in more.items():
        before = sums.get(place, PlaceCount())
        sums[place] = PlaceCount(**{f.name: getattr(before, f.name) + getattr(count, f.name) for f in fields(PlaceCount)})


def counts_over_run(counts: PlaceCounts, jumping: Collection[KindInTarget] = ()) -> dict[KindInTarget, PlaceCount]:
    """Each kind over the run, if it has several places, without those in `jumping`: their own breaker holds them."""
    sums: dict[KindInTarget, PlaceCount] = {}
    places: Counter[KindInTarget] = Counter()
    for place, count in counts.items():
        if place not in jumping:
            places[holds.run_place(place)] += 1
            add_counts(sums, {holds.run_place(place): count})
    return {place: count for place, count in sums.items() if places[place] > 1}


def _shares_over_run(counts: PlaceCounts, shares: Shares, jumping: Collection[KindInTarget]) -> Shares:
    """What is usual of each kind over the run: the sum of what is usual in each of its places, as large as these are now.

    A place of which too few days are known adds what it shows now, and so no jump.
    """
    sums: dict[KindInTarget, list[tuple[int, float, float]]] = defaultdict(list)
    for place, count in counts.items():
        now = idle_share(count)
        usual = shares.get(place) or Usual(share=now.idle / max(1, now.seen), idle=now.idle)
        if place not in jumping:
            sums[holds.run_place(place)].append((now.seen, usual.share * now.seen, min(usual.idle, now.seen)))
    totals = {place: [sum(column) for column in zip(*each, strict=True)] for place, each in sums.items()}
    return {place: Usual(share=share / max(1, seen), idle=idle) for place, (seen, share, idle) in totals.items()}


def idle_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, where: str = "") -> dict[KindInTarget, str]:
    """The places where many more resources are idle than in earlier days, with the reason."""
    jumps = {
        place: _jump_because(f"{place[1]} resources{where}", idle_share(count), shares[place], limits)
        for place, count in counts.items()
        if place in shares
    }
    return {place: because for place, because in jumps.items() if because}


def places_that_may_jump(counts: PlaceCounts, limits: Limits, rows: HoldRows) -> list[KindInTarget]:
    """The places in which so many resources are idle, there or over the run, that it may be a jump, whatever was usual."""
    standing = {breaker.place for row in rows.values() for breaker in row.jumps}
    over_run = [counts_over_run(counts), counts_over_run(counts, standing)]
    kinds = {place for sums in over_run for place, count in sums.items() if _may_jump(count, limits)}
    return [place for place, count in counts.items() if _may_jump(count, limits) or holds.run_place(place) in kinds]


def _may_jump(count: PlaceCount, limits: Limits) -> bool:
    now = idle_share(count)
    return now.idle > MIN_FOR_JUMP and now.idle / now.seen > limits.max_jump


def idle_share(count: PlaceCount) -> IdleShare:
    """The idle share of one place, without its unknown resources."""
    return IdleShare(seen=count.total - count.in_doubt, idle=count.idle)


def places_with_known_share(counts: PlaceCounts, read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and at most half of which is unknown or would be if asked about: their idle share means something."""
    counted = ((place, counts.get(place, PlaceCount())) for place in read)
    return frozenset(place for place, count in counted if 2 * count.in_doubt <= count.total)


def usual_share(rows: Iterable[RunStatistics], now: datetime) -> Usual | None:
    """What is usual by the sweeps of earlier days, the newest days first; None if too few are known."""
    days: dict[date, list[RunStatistics]] = defaultdict(list)
    for row in rows:
        if row.seen and (day := row.started.astimezone(UTC).date()) < now.astimezone(UTC).date():
            days[day].append(row)
    newest = [days[day] for day in sorted(days, reverse=True)[:USUAL_DAYS]]
    if len(newest) < MIN_FOR_JUMP:
        return None
    lowest = median(min(row.idle / row.seen for row in day) for day in newest)
    return Usual(share=lowest, idle=median(min(row.idle for row in day) for day in newest))


def ended_protection(case: Case, memory: Memory, policy: Policy, now: datetime) -> tuple[datetime, str] | None:
    """When the last protection of an idle resource ended, and which one it was, as far as its row, its tags and the policy say; else None."""
    if case.verdict.state is not State.IDLE or is_stopped_by_hours(case):
        return None
    ends = [(end, "accepted", last) for end, last in ended_acceptances(policy, case.resource, case.usd_per_hour, now)]
    ends += [(end, "kept by a tag", end.date()) for end in tags.keeping_ends(case.resource.tags or {})]
    ends += [(end, "snoozed", end.date()) for end in (memory.snoozed_until,) if end]
    end, word, day = max((each for each in ends if each[0] <= now), default=(None, "", None))
    return (end, f"{word} until {day.day} {day:%b}") if end and day else None


def _jump_because(subject: str, now: IdleShare, usual: Usual, limits: Limits) -> str | None:
    if not now.seen or now.idle - usual.idle <= MIN_FOR_JUMP or now.idle / now.seen - usual.share <= limits.max_jump:
        return None
    return f"{now.idle} of {now.seen} {subject} are idle, up from {usual.share:.0%}; max_jump is {limits.max_jump:.0%}"


def _rows_with_breakers(
    rows: HoldRows, jumped: Mapping[KindInTarget, str], sound: Collection[KindInTarget], scope: RunScope
) -> dict[str, HoldRow]:
    """The rows with the jumps of this run. `sound`: the places that show their share: a jump there that isn't in `jumped` any more is over."""
    updated = dict(rows)
    for key, row in rows.items():
        known = {breaker.place: breaker for breaker in row.breakers}
        for place, because in jumped.items():
            if holds.key_of_place(place) == key:
                known[place] = _tripped(known.get(place, Breaker(target=place[0], kind=place[1])), because, scope)
        for place, breaker in known.items():
            if breaker.since and place not in jumped and place in sound and _read_kind(row, place, scope):
                known[place] = holds.ended_breaker(breaker, scope.now)
        updated[key] = replace(row, breakers=tuple(known.values()))
        if key == ALL_ACCOUNTS and jumped.keys() & known.keys():
            kinds = {kind for place, kind in jumped if (place, kind) in known}
            updated[key] = holds.with_places(updated[key], {p for p in scope.read_places if p[1] in kinds})
    return updated


def _tripped(breaker: Breaker, because: str, scope: RunScope) -> Breaker:
    """The breaker while there is a jump. If protections ended shortly before it, its reason counts them."""
    since, ended = breaker.since or scope.now, "; ".join(_ended_texts(breaker.place, breaker.since or scope.now, scope))
    because = f"{because}; {ended}" if ended else because
    return replace(breaker, because=because, since=since, run=breaker.run or scope.run, ended=ended)


def _ended_texts(place: KindInTarget, jumped_at: datetime, scope: RunScope) -> Iterator[str]:
    """How many of what is idle there was protected, until when and how: `8 of them were accepted until 26 Nov`."""
    ended = (each for p, those in scope.ended.items() if place in {p, holds.run_place(p)} for each in those)
    counts = Counter(text for end, text in ended if jumped_at - RECENTLY < end <= scope.now)
    for text, count in counts.most_common(3):
        yield f"{count} of them {'was' if count == 1 else 'were'} {text}"


def _read_kind(row: HoldRow, place: KindInTarget, scope: RunScope) -> bool:
    """Whether the run read the place; for a kind over whole runs, every place of that kind which the row names."""
    if holds.key_of_place(place) != ALL_ACCOUNTS:
        return place in scope.read_places
    return {p for p in row.places if holds.run_place(p) == place} <= scope.read_places
