"""Reads the ledger for `decide`: leases targets, recalls memories, and closes the actions that earlier runs left open.

Each function adds what fails to `rows`, the rows of the coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from reaper.case import Case, Coverage
from reaper.coverage import add_failure_row, failure_row, target_of_row
from reaper.errors import CloudError, ReaperError
from reaper.handover import Observed
from reaper.ledger.lease import RunLeases
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Recalled, Unfinished
from reaper.model import Target
from reaper.pending import intents, lost, unfinished
from reaper.pending.lost import StoredManifest
from reaper.pending.unfinished import UntoldAction

RESOURCE = "resource"
"""The cloud of the lease of a single resource, whose account is the resource's ID."""


def take_leases(part: Observed, leases: RunLeases, now: datetime, rows: list[Coverage]) -> set[Target]:
    """Lease the targets that have a resource, or an action that no mail has reported yet. Returns those that this run got."""
    wanted = {case.resource.target for case in part.cases}
    empty = {target_of_row(row) for row in part.coverage if not row.is_own} - wanted
    for target in sorted(empty, key=str):
        try:
            wanted |= {target} if leases.ledger.unfinished(target, now) else set()
        except ReaperError as error:
            add_failure_row(rows, failure_row("ledger", error))
    taken = {target for target in sorted(wanted, key=str) if leases.take(target)}
    for row in leases.failures:
        add_failure_row(rows, row)
    return taken


def take_resource_leases(cases: Sequence[Case], leases: RunLeases, now: datetime, rows: list[Coverage]) -> frozenset[str] | None:
    """Lease single resources. Returns the IDs of those that this run got: none in a target that another run has. None if that fails."""
    try:
        targets = {case.resource.target for case in cases}
        taken_targets = {target for target in targets if leases.ledger.lease_holder(target, now)}
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return None
    free = [case.resource.id for case in cases if case.resource.target not in taken_targets]
    taken = frozenset(resource_id for resource_id in free if leases.take(Target(cloud=RESOURCE, account=resource_id)))
    for row in leases.failures:
        add_failure_row(rows, row)
    return taken


def recall_to_read(cases: Sequence[Case], ledger: Ledger, now: datetime, rows: list[Coverage]) -> Recalled | None:
    """The memories for an audit; None if the ledger can't be read."""
    try:
        memories = ledger.recall(intents.ids_with_hosts(cases), now)
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return None
    _add_unreadable(memories.errors, rows)
    return memories


def recall_and_close(
    cases: Sequence[Case],
    targets: set[Target],
    stored: Sequence[StoredManifest],
    leases: RunLeases,
    now: datetime,
    rows: list[Coverage],
) -> tuple[Recalled, tuple[UntoldAction, ...], tuple[Unfinished, ...]] | None:
    """The memories of the cases, of their hosts and of open actions of earlier runs, which are closed here; the actions there that no mail has
    reported yet; and the hints of interrupted ones. None if that fails.

    The run's own actions stay open: if a workflow repeats decide, they may be under way. Actions that the ledger doesn't know, by the manifests
    that are `stored`, are in the memories too; a row reports them until they are settled.
    """
    ledger, run_id = leases.ledger, leases.run_id
    listed = {case.resource.id: case for case in cases}
    try:
        hints, errors = unfinished.read_unfinished(ledger, targets, now, listed)
        _add_unreadable(errors, rows)
        hints = [hint for hint in hints if hint.run != run_id]
        memories = ledger.recall(dict.fromkeys([*intents.ids_with_hosts(cases), *(hint.id for hint in hints)]), now)
        closing = unfinished.close_unfinished_actions(hints, listed, memories, ledger, run_id, now)
        memories, settled, interrupted, closed = closing
        memories, left = unfinished.reopen_left_stopped(listed, memories, ledger, now)
        memories, untold = unfinished.settle_told_actions([*settled, *left], listed, memories, ledger, now)
        memories = lost.note_lost_actions(cases, memories, stored, ledger, now)
    except ReaperError as error:
        rows.append(failure_row("ledger", error))
        return None
    _add_unreadable(memories.errors, rows)
    if failed := unfinished.closed_actions_error(closed, memories):
        add_failure_row(rows, failure_row("acts", failed))
    if unsettled := lost.lost_actions_error(memories):
        rows.append(failure_row("acts", unsettled))
    return memories, (*untold, *unfinished.open_actions(interrupted, memories)), interrupted


def recall_left_targets(
    coverage: Iterable[Coverage], leases: RunLeases, now: datetime, rows: list[Coverage]
) -> tuple[UntoldAction, ...]:
    """The actions that no mail has reported yet in targets outside this run's coverage, which it leases: an account that left, for example."""
    swept = {target_of_row(row) for row in coverage if not row.is_own}
    try:
        left = {target for target in leases.ledger.unfinished_targets(now) if target not in swept and leases.take(target)}
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return ()
    recalled = recall_and_close([], left, (), leases, now, rows) if left else None
    if recalled is None:
        leases.give_back(left)
        return ()
    return recalled[1]


def _add_unreadable(errors: Sequence[CloudError], rows: list[Coverage]) -> None:
    rows += [failure_row("ledger", error, len(errors) - 1) for error in errors[:1]]
