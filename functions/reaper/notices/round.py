"""One round of notices: the run that sends them, what it recalled, and its failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reaper import idle_period
from reaper.actions.holds import Breaker
from reaper.case import Coverage, Finding
from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError
from reaper.handover import Decision
from reaper.ledger.lease import RunLeases
from reaper.ledger.port import Ledger, Recalled
from reaper.model import Memory, Run, StepName
from reaper.notices import forecast
from reaper.notices.context import ConcludeContext
from reaper.notices.item import NoticeContext
from reaper.snooze import links

MAX_ENTRIES = 400
"""The last entries of a resource's history that a summary counts: three months of a stop, a start and a mail a day."""


@dataclass(slots=True, kw_only=True)
class NoticeRound:
    """`now` is the time of the decisions. `findings`: those of leased targets, by id, as they stand. `lost`: another run has taken over.

    `jumps`: those of idle shares that stand. `was_recalled`: the memories are those of the ledger. If not, nothing that takes a date from them is sent.
    """

    run: Run
    now: datetime
    context: ConcludeContext
    ledger: Ledger
    leases: RunLeases
    decisions: dict[str, Decision]
    findings: dict[str, Finding]
    memories: Recalled
    jumps: Sequence[Breaker] = ()
    rows: list[Coverage] = field(default_factory=list)
    lost: bool = False
    was_recalled: bool = False

    def is_over(self) -> bool:
        """Whether the time for messages to owners is over."""
        return self.context.deadline is not None and self.context.clock() > self.context.deadline

    def attempt(self, write: Callable[[], object]) -> bool:
        """Write to the ledger. A failure is a row of the coverage, and everything else is still written. Returns whether it succeeded."""
        try:
            write()
        except ReaperError as error:
            self.note_ledger_failure(error)
            return False
        return True

    def note_ledger_failure(self, error: ReaperError) -> None:
        """One row, however often the ledger fails."""
        add_failure_row(self.rows, failure_row("ledger", error))


def notice_context(findings: Sequence[Finding], mails: NoticeRound) -> NoticeContext:
    """The context of every message of the round."""
    links_by_id = links.links_by_resource(findings, mails.context.links, mails.now) if mails.context.links else {}
    # A plain copy: reading an unreadable row raises, and its resource gets no message anyway.
    memories = dict(mails.memories)
    return NoticeContext(
        now=mails.now,
        mode=mails.run.mode,
        owners=mails.context.policy.owners,
        run_id=mails.run.id,
        memories=memories,
        hours_history=_hours_history(findings, memories, mails),
        location_settings=mails.context.location_settings,
        snooze_link=links_by_id.get,
    )


def _hours_history(findings: Iterable[Finding], memories: Mapping[str, Memory], mails: NoticeRound) -> dict[str, str]:
    """What office hours did to each resource whose weekly summary is due, since its owner was last notified."""
    history: dict[str, str] = {}
    for finding in findings:
        resource_id = finding.case.resource.id
        memory = memories.get(resource_id, Memory())
        last = idle_period.last_notice_at(memory)
        about_hours = forecast.is_about_hours(finding, mails.run.mode, memory, mails.now)
        if last is None or not about_hours or finding.step.name is not StepName.REMIND:
            continue
        try:
            entries = mails.ledger.history(resource_id, last, MAX_ENTRIES)
            history[resource_id] = _counted_actions([e.what for e in entries if e.when > last])
        except ReaperError as error:
            mails.note_ledger_failure(error)
            history[resource_id] = "what was done couldn't be read"
    return history


def _counted_actions(words: Sequence[str]) -> str:
    """`it was stopped 5 times and started 4 times`."""
    counts = [(what, words.count(what)) for what in ("stopped", "started")]
    done = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in counts if n]
    return f"it was {' and '.join(done)}" if done else ""
