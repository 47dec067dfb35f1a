"""The ledger as one run reads it to decide: it leases targets, recalls what is recorded there, and closes the actions that earlier runs left open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from reaper.case import Case, Coverage
from reaper.coverage import RUNS, SKIPPED, add_failure_row, failure_row, own_row, target_of_row
from reaper.errors import CloudError, ReaperError
from reaper.finding import OTHER_RUN
from reaper.handover import Observed
from reaper.ledger.ledger import Ledger, RunLeases
from reaper.ledger.opening import FORMAT_ROW, ensure_format, require_right_clock
from reaper.ledger.rows import NamedRow, Recalled, comparable_id, remembered_ids
from reaper.model import Run, Target
from reaper.pending import unfinished
from reaper.pending.unfinished import OPEN_TARGETS_ROW, Settled, Unfinished
from reaper.record import is_unfinished

if TYPE_CHECKING:
    from reaper.acting.manifest import Archive

RESOURCE = "resource"
"""The cloud of the lease of a single resource, whose account is the resource's ID."""
OPEN_ACTION = "an action on it hasn't been settled yet"
LEDGER_UNREADABLE = "its ledger record couldn't be read"
UNLISTED = "the manifests of the last days couldn't be listed"
Recall = tuple[Sequence[Case], Recalled, Sequence[tuple[Sequence[Case], str]]]
"""The cases to decide, what is recorded about them, and those that are left alone, with the reason."""


@dataclass(slots=True, kw_only=True)
class RunLedger:
    """What one run knows of the ledger. `ledger` is None if it can't be used, `leases` in an audit. What fails is added to `failures`.

    `notices_only`: the run leases and recalls single resources. `stored`: the addresses of the manifests of the last days, if this run acts. None if
    they couldn't be listed: then nothing is stopped or deleted. `open_targets`: those that may have an unfinished action, as in `open_row`.
    `unreported`, `interrupted`: actions of earlier runs. `finished`: the targets in which everything is settled and mailed.
    """

    run: Run
    now: datetime
    ledger: Ledger | None
    leases: RunLeases | None
    notices_only: bool = False
    failures: list[Coverage] = field(default_factory=list)
    stored: Sequence[str] | None = ()
    open_targets: frozenset[Target] = frozenset()
    open_row: NamedRow | None = None
    unreported: list[Unfinished] = field(default_factory=list)
    interrupted: list[Unfinished] = field(default_factory=list)
    finished: set[Target] = field(default_factory=set)
    meets_other_run: bool = False

    def open(self, archive: Archive | None) -> None:
        """Read what a run that writes begins with: the format, the open targets, and which manifests were stored lately."""
        if self.ledger is None or self.leases is None:
            return
        try:
            rows = self.ledger.read_rows((OPEN_TARGETS_ROW, FORMAT_ROW))
            require_right_clock(self.ledger)
            ensure_format(self.ledger, rows[FORMAT_ROW])
        except ReaperError as error:
            self._note(error)
            self.ledger = None
            return
        if not self.notices_only:
            self.open_row = rows[OPEN_TARGETS_ROW]
            try:
                self.open_targets = frozenset(unfinished.targets_in(self.open_row))
            except ReaperError as error:
                self._note(error)
        try:
            self.stored = archive.stored_lately(self.now) if archive else ()
        except CloudError as error:
            self.stored = None
            self.failures.append(failure_row("acts", error.reworded(f"{UNLISTED}: {error}")))

    def recall(self, part: Observed) -> Recall:
        """What is recorded about what was observed, with the actions of earlier runs there settled."""
        if self.leases is None:
            recalled = self._read(part.cases)
            self.ledger = self.ledger if recalled else None  # an audit plans without a ledger that it can't read
            return part.cases, recalled or Recalled(), ()
        if self.ledger is None:
            return (), Recalled(), [(part.cases, LEDGER_UNREADABLE)]
        recall = self._recall_resources if self.notices_only else self._recall_targets
        return recall(part, self.leases)

    def _recall_resources(self, part: Observed, leases: RunLeases) -> Recall:
        """Of single resources, unless another run has their target or one of its actions on them is still open."""
        try:
            targets = {case.resource.target for case in part.cases}
            taken_targets = {target for target in targets if leases.ledger.lease_holder(target, self.now)}
        except ReaperError as error:
            self._note(error)
            return (), Recalled(), [(part.cases, LEDGER_UNREADABLE)]
        free = [case.resource.id for case in part.cases if case.resource.target not in taken_targets]
        ids = {resource_id for resource_id in free if leases.take(Target(cloud=RESOURCE, account=resource_id))}
        self._note_lost_leases(leases)
        leased = [case for case in part.cases if case.resource.id in ids]
        recalled = self._read(leased)
        if recalled is None:
            return (), Recalled(), [(part.cases, LEDGER_UNREADABLE)]
        open_ids = {id_ for id_, record in recalled.readable.items() if is_unfinished(record)}
        others = [case for case in part.cases if case.resource.id not in ids]
        is_open = [case for case in leased if comparable_id(case.resource.id) in open_ids]
        cases = [case for case in leased if comparable_id(case.resource.id) not in open_ids]
        return cases, recalled, [(others, OTHER_RUN), (is_open, OPEN_ACTION)]

    def _recall_targets(self, part: Observed, leases: RunLeases) -> Recall:
        """Of the targets that have a resource, or an action that no mail has reported yet, and that this run gets."""
        swept = {target_of_row(row) for row in part.coverage if not row.is_own}
        wanted = {case.resource.target for case in part.cases} | swept.intersection(self.open_targets)
        targets = {target for target in sorted(wanted, key=str) if leases.take(target)}
        self._note_lost_leases(leases)
        left = [case for case in part.cases if case.resource.target not in targets]
        leased = [case for case in part.cases if case.resource.target in targets]
        self.meets_other_run |= bool(left)
        if (settling := self._settle(leased, targets, self.stored or (), leases)) is None:
            return (), Recalled(), [(left, OTHER_RUN), (leased, LEDGER_UNREADABLE)]
        recalled, settled = settling
        interrupted = [each for one in settled for each in one.interrupted]
        if not self.run.mode.acts and (error := unfinished.closed_actions_error(interrupted)):
            self._note(error, "acts")
        self.interrupted += interrupted
        self._add(settled, with_interrupted=not self.run.mode.acts)
        return leased, recalled, [(left, OTHER_RUN)]

    def settle_left_targets(self, coverage: Iterable[Coverage]) -> None:
        """Settle the open targets outside this run's coverage, which it leases, such as those of an account that left."""
        if self.meets_other_run and self.leases and not (self.leases.targets or self.leases.failures):
            self.failures.append(own_row(RUNS, SKIPPED))
        if self.leases and self.ledger and not self.notices_only:
            leases, swept = self.leases, {target_of_row(row) for row in coverage if not row.is_own}
            left = {target for target in self.open_targets if target not in swept and leases.take(target)}
            self._note_lost_leases(leases)
            if left and (settling := self._settle([], left, (), leases)):
                self._add(settling[1], with_interrupted=True)

    def note_open_targets(self, begun: Collection[Target]) -> str | None:
        """Note in the ledger in which targets this run may act, and take out what is finished. Returns why that failed; then nothing may be done."""
        closed = self.open_targets.intersection(self.finished).difference(begun)
        if self.ledger is None or not (closed or begun):
            return None
        try:
            # Another run that took a lease over relies on its target being there.
            closed = frozenset(target for target in closed if self.leases and self.leases.prolong(target))
            unfinished.change_open_targets(self.ledger, closed, begun, self.open_row)
        except CloudError as error:
            self.failures.append(failure_row("ledger", error))
            return f"the targets with actions couldn't be written: {error}"
        return None

    def _read(self, cases: Sequence[Case]) -> Recalled | None:
        """What is recorded about single resources and their hosts, or, for an audit, about any; None if the ledger can't be read."""
        if self.ledger is None:
            return None
        try:
            recalled = self.ledger.recall(remembered_ids(*(case.resource for case in cases)), self.now)
        except ReaperError as error:
            self._note(error)
            return None
        self._note_unreadable(recalled)
        return recalled

    def _settle(
        self, cases: Sequence[Case], targets: Collection[Target], stored: Sequence[str], leases: RunLeases
    ) -> tuple[Recalled, Sequence[Settled]] | None:
        """What is recorded in the targets, with the open actions of earlier runs closed, and each target as it was settled. If that fails, None, and the leases are given back.

        Actions that the ledger doesn't know, by the addresses of the manifests that are `stored`, are in the records too; a row reports them until they are settled.
        """
        ledger, recalled, settled = leases.ledger, Recalled(), list[Settled]()
        ids = remembered_ids(*(case.resource for case in cases))
        try:
            for target in sorted(targets, key=str):
                there = [case for case in cases if case.resource.target == target]
                listed = {comparable_id(case.resource.id): case for case in there}
                stored_there = ledger.recall_target(target, self.now, remembered_ids(*(case.resource for case in there)))
                settled.append(unfinished.settle_target(target, listed, stored_there, ledger, self.run.id, self.now))
                recalled = recalled.with_newer(settled[-1].recalled)
            recalled = unfinished.note_lost_actions(cases, recalled, stored, ledger, self.now)
        except ReaperError as error:
            self.failures.append(failure_row("ledger", error))
            leases.give_back(targets)
            return None
        self._note_unreadable(recalled)
        if failed := unfinished.closed_actions_error([each for one in settled for each in one.closed]):
            self._note(failed, "acts")
        if unsettled := unfinished.lost_actions_error(ids, recalled):
            self.failures.append(failure_row("acts", unsettled))
        return recalled, settled

    def _add(self, settled: Iterable[Settled], *, with_interrupted: bool) -> None:
        for one in settled:
            self.unreported += (*one.unreported, *(one.unreported_interrupted if with_interrupted else ()))
            self.finished |= {one.target} if one.is_finished else set()

    def _note(self, error: ReaperError, what: str = "ledger") -> None:
        add_failure_row(self.failures, failure_row(what, error))

    def _note_lost_leases(self, leases: RunLeases) -> None:
        for row in leases.failures:
            add_failure_row(self.failures, row)

    def _note_unreadable(self, recalled: Recalled) -> None:
        self.failures += [failure_row("ledger", error, len(recalled.errors) - 1) for error in recalled.errors[:1]]
