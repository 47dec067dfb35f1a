"""The statistics of sweeps in the ledger, a row per target and kind, from which the breaker knows the usual idle share.

A run records no row for a place that it couldn't read, of which more than half is unknown, or whose idle share jumped, there or over the
run: such a run shows nothing about what is usual.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from reaper.case import Case, Coverage
from reaper.ledger.ledger import Ledger, target_from_text
from reaper.ledger.rows import RunStatistics
from reaper.model import Run, State
from reaper.pending.holds import (
    LONG_AGO,
    HoldRows,
    KindInTarget,
    PlaceCount,
    RunScope,
    Shares,
    kind_in_target_of,
    read_places,
    run_place,
)
from reaper.planning import breaker, possible_actions

MAX_ROWS = 1000
"""The most rows of a place that are read: three weeks of a sweep every half-hour."""


def usual_shares(ledger: Ledger, places: Iterable[KindInTarget], rows: HoldRows, scope: RunScope) -> Shares:
    """What is usual in these places by the sweeps since the last release of a jump there, or of their kind over a run. Raises CloudError."""
    since = {b.place: b.usual_since for row in rows.values() for b in row.breakers if b.usual_since}
    shares = {}
    for place in places:
        begin = max(since.get(place, LONG_AGO), since.get(run_place(place), LONG_AGO))
        known = ledger.statistics(target_from_text(place[0]), place[1], MAX_ROWS)
        if usual := breaker.usual_share((row for row in known if row.started > begin), scope.now):
            shares[place] = usual
    return shares


def record_statistics(
    ledger: Ledger, run: Run, cases: Sequence[Case], coverage: Sequence[Coverage], unusual: Collection[KindInTarget]
) -> None:
    """Record a row for each place whose `cases` show what is usual, except the `unusual` ones. Raises CloudError."""
    for statistics in _statistics(run, cases, coverage, unusual):
        ledger.record_statistics(statistics)


def _statistics(
    run: Run, cases: Sequence[Case], coverage: Sequence[Coverage], unusual: Collection[KindInTarget]
) -> Iterator[RunStatistics]:
    cases_by_place: dict[KindInTarget, list[Case]] = defaultdict(list)
    for case in cases:
        cases_by_place[kind_in_target_of(case)].append(case)
    counts = breaker.count_places(cases)
    for place in sorted(breaker.places_with_known_share(counts, read_places(coverage))):
        share = breaker.idle_share(counts.get(place, PlaceCount()))
        if not share.seen or not {place, run_place(place)}.isdisjoint(unusual):
            continue
        idle = [c for c in cases_by_place[place] if c.verdict.state is State.IDLE and not possible_actions.is_stopped_by_hours(c)]
        yield RunStatistics(
            run=run.id,
            target=target_from_text(place[0]),
            kind=place[1],
            started=run.started_at,
            seen=share.seen,
            idle=share.idle,
            usd_per_hour=sum(case.price.usd_per_hour for case in idle if case.price),
            unpriced=sum(1 for case in idle if case.price is None),
        )
