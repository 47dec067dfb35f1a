"""Coverage rows: failures in the reaper itself (the ledger, a channel, an action), and how the phases' rows are combined. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reaper.case import OWN, Coverage
from reaper.errors import ReaperError, Reason
from reaper.model import Account, Status, Target

RUNS = "runs"
"""The kind of rows about runs as such: a start that was skipped, a run that was ended or could do nothing."""
SKIPPED = "this run was skipped: another sweep is processing every target that it wanted"
NOT_REACHED = "not read, because the run's time was over; the next run reads it first"
UNKNOWN_ACCOUNT = "unknown"
"""The account in the rows of a cloud that couldn't even be opened."""
PlaceName = tuple[str, str, str | None, str]
"""Cloud, account, region and kind of a row."""


def own_row(kind: str, error: str, missing: str | None = None, status: Status = Status.FAILED) -> Coverage:
    """A row about the reaper itself."""
    return Coverage(cloud=OWN, account="", region=None, kind=kind, status=status, missing=missing, error=error)


def failure_row(what: str, error: ReaperError, more: int = 0) -> Coverage:
    """The row for `what`, with the number of further errors of that sort."""
    return own_row(what, f"{error}" + (f" (and {more} more)" if more else ""), getattr(error, "missing", None))


def is_skipped(rows: Iterable[Coverage]) -> bool:
    """Whether the run did nothing, because another one has every target that it wanted."""
    return any((row.kind, row.error) == (RUNS, SKIPPED) for row in rows)


def unopened_rows(account: Account, kinds: Iterable[str], error: ReaperError, region: str | None = None) -> list[Coverage]:
    """A row per kind for an account, or one region of it, that couldn't be opened."""
    return [
        Coverage(
            cloud=account.cloud,
            account=account.id,
            account_name=account.name,
            region=region,
            kind=kind,
            status=Status.DENIED if getattr(error, "reason", None) is Reason.DENIED else Status.FAILED,
            missing=getattr(error, "missing", None),
            error=str(error),
        )
        for kind in kinds
    ]


def add_failure_row(rows: list[Coverage], row: Coverage) -> None:
    """Add the row unless that kind has one already."""
    if all(existing.kind != row.kind for existing in rows):
        rows.append(row)


def summed_failures(rows: Sequence[Coverage]) -> list[Coverage]:
    """One row for all of these: the first that names a missing permission, else the first, with the number of the others."""
    if not rows:
        return []
    first = next((row for row in rows if row.missing), rows[0])
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return [replace(first, error=f"{first.error}{more}")]


def with_replaced_rows(rows: Sequence[Coverage], newer: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """The rows, those of the same place replaced by the newer ones, and the other newer ones after them."""
    by_place = {place_name(row): row for row in newer if not row.is_own}
    own = [row for row in newer if row.is_own]
    merged = [by_place.pop(place_name(row), row) if not row.is_own else row for row in rows]
    return (*merged, *by_place.values(), *own)


def place_name(row: Coverage) -> PlaceName:
    """The place that a row is about."""
    return row.cloud, row.account, row.region, row.kind


def target_of_row(row: Coverage) -> Target:
    """The target of a row about a cloud."""
    return Target(cloud=row.cloud, account=row.account, region=row.region)
