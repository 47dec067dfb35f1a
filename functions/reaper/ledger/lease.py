"""Leases: one run at a time sends notices about a target and acts on it. They only save work. The row versions are what prevents conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reaper.case import Coverage
from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger
from reaper.model import Target

LEASE = timedelta(minutes=15)


@dataclass(slots=True, kw_only=True)
class RunLeases:
    """The targets that one run has to itself. `failures`: a row if the ledger failed. `dead_runs`: runs that this one has taken over from."""

    ledger: Ledger
    run_id: str
    clock: Callable[[], datetime]
    renewed_at: datetime
    targets: set[Target] = field(default_factory=set)
    failures: list[Coverage] = field(default_factory=list)
    dead_runs: tuple[str, ...] = ()

    def take(self, target: Target) -> bool:
        """Take or prolong one lease, also that of a dead run. Returns False if another run has it, or if the ledger fails."""
        try:
            taken = self.prolong(target) or self._take_from_dead_run(target)
        except ReaperError as error:
            self.note_failure(error)
            return False
        if taken:
            self.targets.add(target)
        return taken

    def prolong(self, target: Target) -> bool:
        """Prolong one lease, or take it if it has run out. Returns False if another run has it. Raises CloudError if the ledger fails."""
        return self.ledger.take_lease(target, self.run_id, self.clock(), LEASE)

    def _take_from_dead_run(self, target: Target) -> bool:
        holder = self.ledger.lease_holder(target, self.clock())
        if holder is None or holder not in self.dead_runs:
            return False
        self.ledger.give_back_lease(target, holder)
        return self.prolong(target)

    def prolong_all(self) -> bool:
        """Prolong every lease once a third of its time is over. Returns whether the run still has all of them."""
        now = self.clock()
        if now - self.renewed_at <= LEASE / 3:
            return True
        taken = [self.take(target) for target in sorted(self.targets, key=str)]
        if all(taken):  # once a lease is lost, all are requested again before the next message
            self.renewed_at = now
        return all(taken)

    def note_failure(self, error: ReaperError) -> None:
        """One row, however often the ledger fails."""
        add_failure_row(self.failures, failure_row("ledger", error))

    def give_back(self, targets: Iterable[Target] | None = None) -> None:
        """Give these leases back, or all of them; a second time nothing happens."""
        for target in self.targets & set(self.targets if targets is None else targets):
            self.targets.discard(target)
            try:
                self.ledger.give_back_lease(target, self.run_id)
            except ReaperError as error:
                self.note_failure(error)
