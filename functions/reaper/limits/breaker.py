"""The breaker: a jump of the idle share of a place, or of a kind over a run of several places, is likelier a broken signal than an empty office.

A sweep adds a row for each place that it could read, of which at most half is unknown, and without a jump, there or over the run: what shows
what is usual. However often sweeps run, a day counts once, by its lowest share: a signal that breaks hour by hour is compared with the days
before. With fewer than three days the caps alone protect.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

from reaper.case import Case, Coverage, is_stopped_by_hours
from reaper.ledger.ledger import Ledger, target_from_text
from reaper.ledger.rows import RunStatistics
from reaper.limits import holds
from reaper.limits.holds import ActedOn, Breaker, HoldRow, HoldRows, KindInTarget, PlaceCount, RunScope, Shares, Usual, acted_on
from reaper.model import Run, State
from reaper.policy.rules import effective_rule
from reaper.record import Snooze, snooze_sentence

if TYPE_CHECKING:
    from reaper.policy.schema import Limits, Policy

MIN_FOR_JUMP = 3
"""This many more idle resources are never a jump, however small the fleet. A jump needs as many earlier days to compare with."""
USUAL_DAYS = 10
"""So many of the newest days show what is usual."""
MAX_ROWS = 1000
"""The most rows of a place that are read: three weeks of a sweep every half-hour."""
RECENTLY = timedelta(hours=48)
"""A jump names the protections that ended so shortly before it."""
PlaceCounts = Mapping[KindInTarget, PlaceCount]


def rows_with_jumps(counts: PlaceCounts, policy: Policy, shares: Shares, rows: HoldRows, scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the places, and the kinds over the whole run, in which many more resources are idle than in earlier days."""
    sound = places_with_known_share(counts, scope.read_places)
    after_places = _rows_with_breakers(rows, idle_jumps(counts, policy.limits, shares), sound, policy, scope)
    jumping = {breaker.place for row in after_places.values() for breaker in row.jumps}
    over_run, run_counts = _shares_over_run(counts, shares, jumping), counts_over_run(counts, jumping)
    sudden = idle_jumps(run_counts, policy.limits, over_run, " in this run")
    return _rows_with_breakers(after_places, sudden, places_with_known_share(run_counts, run_counts), policy, scope)


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


def ended_before(cases: Iterable[Case], acted: Iterable[ActedOn], rows: HoldRows) -> tuple[ActedOn, ...]:
    """What runs ended in the last hours, or before a jump that still stands: not what office hours asked for, was judged since, or is protected."""
    stood = (each for row in rows.values() for jump in row.jumps for each in jump.acted)
    there = {
        acted_on(case).digest
        for case in cases
        if case.verdict.state in {State.IDLE, State.ACTIVE}
        or is_stopped_by_hours(case)
        or (case.rule.protected_because and not case.rule.in_doubt)  # a protection in doubt, as by an unknown price, is none
    }
    left = {each.digest: each for each in (*stood, *acted) if not each.by_hours and each.digest not in there}
    return tuple(left.values())


def with_ended(counts: PlaceCounts, ended: Iterable[ActedOn], cases: Iterable[Case]) -> PlaceCounts:
    """The counts of the places that were read with what runs ended there: a fast schedule may never see as much idle at once.

    Among the `cases` is what was scaled in, and is young since: it is counted already.
    """
    sums, listed = dict(counts), {acted_on(case).digest for case in cases if case.verdict.state is State.YOUNG}
    for each in ended:
        if (place := (each.target, each.kind)) in counts:
            add_counts(sums, {place: PlaceCount(total=each.digest not in listed, idle=1, acted=1)})
    return sums


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
        usual = shares.get(place) or Usual(share=count.idle / max(1, count.seen), idle=count.idle)
        if place not in jumping:
            sums[holds.run_place(place)].append((count.seen, usual.share * count.seen, min(usual.idle, count.seen)))
    totals = {place: [sum(column) for column in zip(*each, strict=True)] for place, each in sums.items()}
    return {place: Usual(share=share / max(1, seen), idle=idle) for place, (seen, share, idle) in totals.items()}


def idle_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, where: str = "") -> dict[KindInTarget, str]:
    """The places where many more resources are idle than in earlier days, with the reason."""
    jumps = {}
    for place, now in counts.items():
        usual = shares.get(place)
        if usual and now.idle > usual.idle + MIN_FOR_JUMP and now.idle / now.seen > usual.share + limits.max_jump:
            what = f"{place[1]} resources{where} are idle{' or were acted on' if now.acted else ''}"
            jumps[place] = f"{now.idle} of {now.seen} {what}, up from {usual.share:.0%}; max_jump is {limits.max_jump:.0%}"
    return jumps


def places_that_may_jump(counts: PlaceCounts, limits: Limits, rows: HoldRows) -> list[KindInTarget]:
    """The places in which so many resources are idle, there or over the run, that it may be a jump, whatever was usual."""
    standing = {breaker.place for row in rows.values() for breaker in row.jumps}
    sums = [*counts.items(), *counts_over_run(counts).items(), *counts_over_run(counts, standing).items()]
    high = {place for place, n in sums if n.idle > MIN_FOR_JUMP and n.idle / n.seen > limits.max_jump}
    return [place for place in counts if not high.isdisjoint({place, holds.run_place(place)})]


def places_with_known_share(counts: PlaceCounts, read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and at most half of which is unknown or would be if asked about: their idle share means something."""
    counted = ((place, counts.get(place, PlaceCount())) for place in read)
    return frozenset(place for place, count in counted if 2 * count.in_doubt <= count.total)


def usual_shares(ledger: Ledger, places: Iterable[KindInTarget], rows: HoldRows, now: datetime) -> Shares:
    """What is usual in these places since the last release of a jump there, or of their kind over a run. Raises CloudError."""
    since = {b.place: b.usual_since for row in rows.values() for b in row.breakers if b.usual_since}
    shares = {}
    for place in places:
        begin = max(since.get(each, holds.LONG_AGO) for each in (place, holds.run_place(place)))
        known = ledger.statistics(target_from_text(place[0]), place[1], MAX_ROWS)
        if usual := usual_share((row for row in known if row.started > begin), now):
            shares[place] = usual
    return shares


def usual_share(rows: Iterable[RunStatistics], now: datetime) -> Usual | None:
    """What is usual by the newest days before today, however old; None if too few are known."""
    days: dict[date, list[RunStatistics]] = defaultdict(list)
    for row in rows:
        if row.seen and (day := row.started.astimezone(UTC).date()) < now.astimezone(UTC).date():
            days[day].append(row)
    newest = [days[day] for day in sorted(days, reverse=True)[:USUAL_DAYS]]
    if len(newest) < MIN_FOR_JUMP:
        return None
    lowest = median(min(row.idle / row.seen for row in day) for day in newest)
    return Usual(share=lowest, idle=median(min(row.idle for row in day) for day in newest))


def record_statistics(
    ledger: Ledger, run: Run, cases: Sequence[Case], coverage: Sequence[Coverage], unusual: Collection[KindInTarget]
) -> None:
    """Record a row for each place whose `cases` show what is usual, except the `unusual` ones. Raises CloudError."""
    counts = count_places(cases)
    known = places_with_known_share(counts, holds.read_places(coverage))
    for place in sorted(place for place in known & counts.keys() if {place, holds.run_place(place)}.isdisjoint(unusual)):
        if seen := counts[place].seen:
            target, idle = target_from_text(place[0]), counts[place].idle
            row = RunStatistics(run=run.id, target=target, kind=place[1], started=run.started_at, seen=seen, idle=idle)
            ledger.record_statistics(row)


def _rows_with_breakers(
    rows: HoldRows, jumped: Mapping[KindInTarget, str], sound: Collection[KindInTarget], policy: Policy, scope: RunScope
) -> dict[str, HoldRow]:
    """The rows with the jumps of this run. `sound`: the places that show their share: a jump there that isn't in `jumped` any more is over."""
    updated = dict(rows)
    for key, row in rows.items():
        known = {breaker.place: breaker for breaker in row.breakers}
        for place, because in jumped.items():
            if holds.key_of_place(place) == key:
                known[place] = _tripped(known.get(place, Breaker(target=place[0], kind=place[1])), because, policy, scope)
        for place, breaker in known.items():
            reads = {p for p in row.places if holds.run_place(p) == place} if key == holds.ALL_ACCOUNTS else {place}
            if breaker.since and place not in jumped and place in sound and reads <= scope.read_places:
                known[place] = holds.ended_breaker(breaker, scope.now)
        updated[key] = replace(row, breakers=tuple(known.values()))
        if key == holds.ALL_ACCOUNTS and jumped.keys() & known.keys():
            kinds = {kind for place, kind in jumped if (place, kind) in known}
            updated[key] = holds.with_places(updated[key], {p for p in scope.read_places if p[1] in kinds})
    return updated


def _tripped(breaker: Breaker, because: str, policy: Policy, scope: RunScope) -> Breaker:
    """The breaker while there is a jump. If protections ended shortly before it, its reason counts them: `8 of them were accepted until 26 Nov`."""
    since = breaker.since or scope.now
    cases = (each for p, there in scope.idle.items() if breaker.place in {p, holds.run_place(p)} for each in there)
    idle = [each for each in cases if not is_stopped_by_hours(each[0])]
    ends = Counter(filter(None, (_protected_until(*each, policy, since - RECENTLY) for each in idle)))
    protections = "; ".join(f"{n} of them {'was' if n == 1 else 'were'} {text}" for text, n in ends.most_common(3))
    because = f"{because}; {protections}" if protections else because
    acted = tuple(a for a in scope.ended if breaker.place in {(place := (a.target, a.kind)), holds.run_place(place)})
    return replace(breaker, because=because, since=since, run=breaker.run or scope.run, protections=protections, acted=acted)


def _protected_until(case: Case, snooze: Snooze, policy: Policy, then: datetime) -> str | None:
    """How and until which day an idle resource was protected `then`, as far as its tags, the policy and its snooze say."""
    because = effective_rule(policy, case.resource, case.usd_per_hour, then).protected_because or ""
    if snooze.until and snooze.until > then:
        because = snooze_sentence(snooze)
    found = re.search(r"(accepted|kept by tag|snoozed) until (\d{4}-\d\d-\d\d)", because)
    return f"{found[1]} until {(day := date.fromisoformat(found[2])).day} {day:%b}" if found else None
