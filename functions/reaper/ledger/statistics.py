"""The statistics of a run in the ledger: one row per target and kind, and one for a kind over several
places, from which the breaker knows the usual idle share.

A run records no row for a place that it couldn't read, of which more than half is unknown, or whose idle share jumped: such a run shows
nothing about what is usual.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from reaper import limits
from reaper.case import Case, Coverage
from reaper.ledger.ledger import Ledger, target_from_text
from reaper.ledger.rows import RunStatistics
from reaper.model import Run, State
from reaper.pending.holds import KindInTarget, PlaceCount, kind_in_target_of, read_places, run_place
from reaper.planning import possible_actions


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
    counts, read = limits.count_places(cases), read_places(coverage)
    over_run = limits.counts_over_run(counts, unusual)
    for place in sorted(over_run):
        cases_by_place[place] = [c for p in counts if run_place(p) == place and p not in unusual for c in cases_by_place[p]]
    counts = {**counts, **over_run}
    for place in sorted(limits.places_with_known_share(counts, {*read, *over_run}) - {*unusual}):
        share = limits.idle_share(counts.get(place, PlaceCount()))
        if not share.seen:
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
