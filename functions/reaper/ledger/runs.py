"""What runs tell each other by the ledger: leases, and what the next ones read differently.

One run at a time sends notices about a target and acts on it. Leases only save work. The row versions are what prevents conflicts.

What the next runs read differently are named rows: first the places that earlier ones had no time for, and further back what is in use after a
notice called it idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, add_failure_row, failure_row, place_name
from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import DOCUMENT, NamedRow, document_of, understood
from reaper.model import Target, Time

LEASE = timedelta(minutes=15)
UNREACHED_ROW, PLACES = "unreached", tuple[PlaceName, ...]
MAX_PLACES = 2000
"""More than that would not fit into a row. The order of the others doesn't matter."""
DOUBTED_ROW, DOUBTED = "doubted", dict[str, Time]
"""The time of the notice, by ID."""
MAX_DOUBTED = 1000


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


def read_gaps(ledger: Ledger) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The places to read first, and the IDs of what to read as a whole. Raises CloudError."""
    rows = ledger.read_rows((UNREACHED_ROW, DOUBTED_ROW))
    places, doubted = understood(PLACES, rows[UNREACHED_ROW]), understood(DOUBTED, rows[DOUBTED_ROW])
    return frozenset(places or ()), frozenset(doubted or ())


def record_doubted(
    ledger: Ledger, row: NamedRow, doubted: Mapping[str, datetime], ids: Collection[str], oldest: datetime
) -> None:
    """Remember what is in use although a notice called it idle, with the time of that notice, unless that is before `oldest`: late metrics may
    prove the notice wrong. `ids`: what this run knows. `row`: as read. Raises CloudError.
    """
    before = understood(DOUBTED, row) or {}
    known = {resource_id: when for resource_id, when in before.items() if resource_id not in ids} | dict(doubted)
    newest = sorted(((when, resource_id) for resource_id, when in known.items() if when > oldest), reverse=True)
    after = {resource_id: when for when, resource_id in newest[:MAX_DOUBTED]}
    if after != before:
        update_row(ledger, DOUBTED_ROW, lambda _: {DOCUMENT: document_of(after, DOUBTED)}, known=row)


def record_unreached(ledger: Ledger, row: NamedRow, rows: Iterable[Coverage]) -> None:
    """Remember the places that these rows say weren't reached, and forget those that were. `row`: as read. Raises CloudError."""
    cloud_rows = [row for row in rows if not row.is_own]
    before = frozenset(understood(PLACES, row) or ())  # a row that can't be understood names none
    opened = {(row.cloud, row.account) for row in cloud_rows}
    reached = {place for place in before if place[2] is None and place[:2] in opened} | {place_name(row) for row in cloud_rows}
    after = (before - reached) | {place_name(row) for row in cloud_rows if NOT_REACHED in (row.error or "")}
    if after != before:
        names = tuple(sorted(after, key=str)[:MAX_PLACES])
        update_row(ledger, UNREACHED_ROW, lambda _: {DOCUMENT: document_of(names, PLACES)}, known=row)
