"""Reads the ledger for `decide`: leases targets, recalls what is recorded there, and closes the actions that earlier runs left open.

Each function adds what fails to `rows`, the rows of the coverage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from reaper.case import Case, Coverage
from reaper.coverage import add_failure_row, failure_row, target_of_row
from reaper.errors import CloudError, ReaperError
from reaper.handover import Observed
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import NamedRow, Recalled, comparable_id, remembered_ids
from reaper.ledger.runs import RunLeases
from reaper.model import Target
from reaper.pending import unfinished
from reaper.pending.unfinished import Settled

RESOURCE = "resource"
"""The cloud of the lease of a single resource, whose account is the resource's ID."""


def open_targets_in(row: NamedRow, rows: list[Coverage]) -> frozenset[Target]:
    """The targets that may have an unfinished action; none if the row can't be read."""
    try:
        return frozenset(unfinished.targets_in(row))
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return frozenset()


def take_leases(part: Observed, open_targets: Collection[Target], leases: RunLeases, rows: list[Coverage]) -> set[Target]:
    """Lease the targets that have a resource, or an action that no mail has reported yet. Returns those that this run got."""
    swept = {target_of_row(row) for row in part.coverage if not row.is_own}
    wanted = {case.resource.target for case in part.cases} | swept.intersection(open_targets)
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
    """What is recorded about single resources and their hosts, or, for an audit, about any; None if the ledger can't be read."""
    try:
        recalled = ledger.recall(remembered_ids(*(case.resource for case in cases)), now)
    except ReaperError as error:
        add_failure_row(rows, failure_row("ledger", error))
        return None
    _add_unreadable(recalled.errors, rows)
    return recalled


def recall_and_settle(
    cases: Sequence[Case],
    targets: Collection[Target],
    stored: Sequence[str],
    leases: RunLeases,
    now: datetime,
    rows: list[Coverage],
) -> tuple[Recalled, Sequence[Settled]] | None:
    """What is recorded in the targets, with the open actions of earlier runs closed, and each target as it was settled. None if that fails.

    Actions that the ledger doesn't know, by the addresses of the manifests that are `stored`, are in the records too; a row reports them until they are settled.
    """
    ledger, run_id = leases.ledger, leases.run_id
    recalled, settled = Recalled(), list[Settled]()
    try:
        for target in sorted(targets, key=str):
            there = [case for case in cases if case.resource.target == target]
            listed = {comparable_id(case.resource.id): case for case in there}
            stored_there = ledger.recall_target(target, now, remembered_ids(*(case.resource for case in there)))
            settled.append(unfinished.settle_target(target, listed, stored_there, ledger, run_id, now))
            recalled = recalled.with_newer(settled[-1].recalled)
        recalled = unfinished.note_lost_actions(cases, recalled, stored, ledger, now)
    except ReaperError as error:
        rows.append(failure_row("ledger", error))
        return None
    _add_unreadable(recalled.errors, rows)
    if failed := unfinished.closed_actions_error([each for one in settled for each in one.closed]):
        add_failure_row(rows, failure_row("acts", failed))
    if unsettled := unfinished.lost_actions_error(remembered_ids(*(case.resource for case in cases)), recalled):
        rows.append(failure_row("acts", unsettled))
    return recalled, settled


def recall_left_targets(
    coverage: Iterable[Coverage], open_targets: Collection[Target], leases: RunLeases, now: datetime, rows: list[Coverage]
) -> Sequence[Settled]:
    """The open targets outside this run's coverage, which it leases, such as those of an account that left; each as it was settled."""
    swept = {target_of_row(row) for row in coverage if not row.is_own}
    left = {target for target in open_targets if target not in swept and leases.take(target)}
    settling = recall_and_settle([], left, (), leases, now, rows) if left else None
    if settling is None:
        leases.give_back(left)
        return ()
    return settling[1]


def _add_unreadable(errors: Sequence[CloudError], rows: list[Coverage]) -> None:
    rows += [failure_row("ledger", error, len(errors) - 1) for error in errors[:1]]
