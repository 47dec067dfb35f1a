"""One round of notices: the run that sends them, what it remembers, and what of it failed so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError
from reaper.handover import Decision
from reaper.ledger.lease import RunLeases
from reaper.ledger.port import Ledger, Recalled
from reaper.model import Coverage, Finding, Run
from reaper.notices.context import ConcludeContext


@dataclass(slots=True, kw_only=True)
class Round:
    """`now` is the time of the decisions. `findings`: those of leased targets, by id, as they stand. `lost`: another run has taken over."""

    run: Run
    now: datetime
    context: ConcludeContext
    ledger: Ledger
    leases: RunLeases
    decisions: dict[str, Decision]
    findings: dict[str, Finding]
    memories: Recalled
    rows: list[Coverage] = field(default_factory=list)
    lost: bool = False

    def attempt(self, write: Callable[[], object]) -> bool:
        """Write to the ledger. What fails is a row, and keeps nothing else from being written. Returns whether it succeeded."""
        try:
            write()
        except ReaperError as error:
            self.note_ledger_failure(error)
            return False
        return True

    def note_ledger_failure(self, error: ReaperError) -> None:
        """One row, however often the ledger fails."""
        add_failure_row(self.rows, failure_row("ledger", error))
