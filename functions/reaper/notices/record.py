"""Records in the ledger that a channel accepted a mail, and verdicts. A write that fails is a row of the coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reaper import memory_updates
from reaper.actions import intent, unfinished
from reaper.case import Finding, Outcome
from reaper.errors import ReaperError
from reaper.ledger.port import HistoryEntry, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import ACTIONS, NOTICES, Memory, Result, StepName
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery
from reaper.notices.round import NoticeRound


def record_notice(finding: Finding, receipt: str, deliveries: Sequence[Delivery], mails: NoticeRound) -> Finding:
    """The finding once its owner got a notice or a summary, and that is remembered: it counts from this moment on."""
    error = delivery.errors_by_id(deliveries).get(finding.case.resource.id)
    notified = replace(finding, outcome=Outcome(result=Result.DONE, error=error))
    remembered = _remember(notified, receipt, mails)
    what = "warned" if finding.step.name is StepName.WARN else "reminded"
    if remembered.outcome.result is Result.DONE:
        entry = HistoryEntry(
            id=finding.case.resource.id, when=mails.now, what=what, by=receipt, because=finding.case.verdict.because
        )
        mails.attempt(lambda: mails.ledger.add_history(entry))
    return remembered


def record_verdict(finding: Finding, mails: NoticeRound) -> Finding:
    """The finding once its idle period is remembered. An action that was begun has written its own result."""
    return finding if finding.step.name in ACTIONS and finding.outcome.begun else _remember(finding, None, mails)


def record_action_told(finding: Finding, hint: Unfinished, receipt: str, mails: NoticeRound, *, is_open: bool = False) -> None:
    """Record that its owner got the outcome of the action. If a part was done, the mail is the notice for the rest.

    `is_open`: the mail said that it was interrupted. Another one will say how it was settled.
    """
    now = mails.context.clock()
    if is_open:
        mails.attempt(lambda: intent.record_owner_told(mails.ledger, hint, now))
        return
    announced = mails.run.mode.announces and finding.outcome.part_done is not None
    rest = unfinished.change_after_mail(finding, receipt, now) if announced else unfinished.unchanged

    def with_result(memory: Memory) -> Memory:
        # Adds the result if the executor couldn't write it.
        has_result = memory.last_action_result or not (finding.outcome.begun or finding.outcome.host_id)
        return rest(memory if has_result else _with_result(memory, finding.outcome))

    entry = HistoryEntry(
        id=hint.id,
        when=now,
        what=unfinished.TOLD_ENTRY,
        by=receipt,
        because=unfinished.history_reason(hint, rest=announced),
    )
    mails.attempt(lambda: mails.ledger.add_history(entry))
    mails.attempt(lambda: intent.record_owner_told(mails.ledger, hint, now, with_result))


def _with_result(memory: Memory, outcome: Outcome) -> Memory:
    return memory_updates.with_result(memory, outcome.result, outcome.because or outcome.error or "", outcome.part_done)


def _remember(finding: Finding, receipt: str | None, mails: NoticeRound) -> Finding:
    try:
        memory = _update_row(finding, receipt, mails)
    except ReaperError as error:
        mails.note_ledger_failure(error)
        return replace(finding, outcome=Outcome(result=Result.FAILED, error=f"it couldn't be recorded: {error}"))
    return replace(finding, memory=memory if memory != Memory() else None)


def _update_row(finding: Finding, receipt: str | None, mails: NoticeRound) -> Memory:
    """Update the resource's ledger record.

    A verdict alone is written only on the version that it was decided on, or after an action of this run; a notice that a channel accepted
    is always written.
    """
    resource = finding.case.resource
    decision = mails.decisions[resource.id]
    host = intent.host_memory(resource, mails.memories)

    def change(memory: Memory) -> Memory:
        if receipt is None and memory.version != decision.row_version and finding.step.name not in ACTIONS:
            return memory
        new = memory_updates.after_judging(decision.case, memory_updates.after_host_snooze(memory, host), mails.now)
        if receipt and finding.step.name in NOTICES:
            announces = mails.run.mode.announces
            new = memory_updates.after_notice(finding.case, new, finding.step, receipt, mails.context.clock(), acting=announces)
        return memory_updates.after_action(new) if finding.outcome.already_done else new

    return update_memory(mails.ledger, resource.id, change, mails.now, mails.memories.get(resource.id, Memory()))
