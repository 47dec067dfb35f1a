"""Failures of our own means (the ledger, a channel, an act) as rows of the coverage: told as loudly as those of a cloud. Pure."""

from __future__ import annotations

from reaper.errors import ReaperError
from reaper.model import Coverage, Status


def failure_row(what: str, error: ReaperError, more: int = 0) -> Coverage:
    """The row for `what`, with how many more errors of the kind there were."""
    text = f"{error}" + (f" (and {more} more)" if more else "")
    return Coverage(
        cloud="reaper",
        account="",
        region=None,
        kind=what,
        status=Status.FAILED,
        missing=getattr(error, "missing", None),
        error=text,
    )


def add_failure_row(gaps: list[Coverage], row: Coverage) -> None:
    """One row per thing that fails, however often it does."""
    if all(known.kind != row.kind for known in gaps):
        gaps.append(row)
