"""Notes about runs that happen outside any run: a start that was skipped, a run that was ended. They become rows of a run's report.

They are texts in the store of the run that reports them, so that every later step can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from reaper.case import Coverage, Report
from reaper.coverage import OWN, RUNS
from reaper.errors import CloudError
from reaper.model import Status
from reaper.workflow.store import RunStore

FOLDER = "notes/"


def write_note(store: RunStore, status: Status, because: str, now: datetime) -> None:
    """Leave a note for the report of the run in that store. Raises CloudError."""
    store.create(f"{FOLDER}{now.astimezone(UTC):%Y%m%dT%H%M%S%f}.json", json.dumps({"status": status, "because": because}))


def with_notes(report: Report, store: RunStore) -> Report:
    """The report, with a row for each note. What can't be read of them is a row too: it mustn't cost the report."""
    try:
        names = store.names(FOLDER)
    except CloudError as error:
        return replace(report, coverage=(*report.coverage, _row(Status.FAILED, f"notes about this run can't be read: {error}")))
    return replace(report, coverage=(*report.coverage, *(_noted_row(name, store) for name in names)))


def is_skipped_start(row: Coverage) -> bool:
    """Whether the row is about a start that was skipped. One of them is no reason for an alert."""
    return (row.cloud, row.kind, row.status) == (OWN, RUNS, Status.PARTIAL)


def _noted_row(name: str, store: RunStore) -> Coverage:
    try:
        note = json.loads(store.read(name) or "")
        return _row(Status(note["status"]), str(note["because"]))
    except (CloudError, ValueError, LookupError, TypeError) as error:
        return _row(Status.FAILED, f"a note about this run can't be read: {error!r}")


def _row(status: Status, because: str) -> Coverage:
    return Coverage(cloud=OWN, account="", region=None, kind=RUNS, status=status, missing=None, error=because)
