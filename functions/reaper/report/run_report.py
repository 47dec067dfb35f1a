"""The report of a run and its coverage, put together from what the phases handed over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reaper.actions import stop_switch
from reaper.case import Coverage, Finding, FinishedRun, Report
from reaper.coverage import (
    OWN,
    PlaceName,
    add_failure_row,
    failure_row,
    place_name,
    summed_failures,
    with_calls,
    with_replaced_rows,
)
from reaper.errors import CloudError, Reason
from reaper.handover import Acted, Decided, Observed
from reaper.notices.context import ConcludeContext


def run_coverage(
    parts: Sequence[Observed], decided: Decided, acted: Sequence[Acted]
) -> tuple[tuple[Coverage, ...], list[Coverage]]:
    """The rows about clouds, with the calls of acting in them, and those about failures in the reaper itself."""
    observed = _without_repeated_rows(row for part in parts for row in part.coverage)
    calls = {
        (target_acted.target.cloud, target_acted.target.account, target_acted.target.region, kind.kind): kind.calls
        for target_acted in acted
        for kind in target_acted.calls
    }
    cloud_rows = with_calls(with_replaced_rows(observed, [row for row in decided.coverage if row.cloud != OWN]), calls)
    rows = [row for row in decided.coverage if row.cloud == OWN]
    rows += summed_failures([row for target_acted in acted for row in target_acted.coverage if row.kind == "acts"])
    for row in (row for target_acted in acted for row in target_acted.coverage if row.kind != "acts"):
        add_failure_row(rows, row)
    return cloud_rows, rows


def _without_repeated_rows(rows: Iterable[Coverage]) -> list[Coverage]:
    """The rows, equal ones once: each step of a workflow that can't open an account says so about all of it."""
    rows_by_place: dict[PlaceName, list[Coverage]] = {}
    for row in rows:
        same_place = rows_by_place.setdefault(place_name(row), [])
        if row not in same_place:
            same_place.append(row)
    return [row for same_place in rows_by_place.values() for row in same_place]


def run_report(findings: Iterable[Finding], coverage: Iterable[Coverage], decided: Decided, context: ConcludeContext) -> Report:
    """The report of the run, finished now. An unreadable stop switch is a row, unless the ledger has one already."""
    run, rows = decided.run, list(coverage)
    pause = stop_switch.read_pause(context.ledger, context.clock()) if context.ledger else None
    if pause and pause.unreadable_because:
        add_failure_row(rows, failure_row("ledger", CloudError(Reason.UNREADABLE, "pause", pause.unreadable_because)))
    finished = FinishedRun(
        id=run.id,
        started_at=run.started_at,
        finished_at=context.clock(),
        mode=run.mode,
        version=run.version,
        policy_sha256=run.policy_sha256,
        pause=pause,
    )
    return Report(run=finished, coverage=tuple(rows), findings=tuple(findings))
