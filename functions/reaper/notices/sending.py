"""Sends the mails of one run. Right before each, the ledger is read again: whatever was snoozed, notified or has changed is dropped.

A notice counts once a channel accepted it. A refused one is a failure in the report, and the next run tries it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reaper import idle_period, memory_updates
from reaper.case import Coverage, Finding, Outcome
from reaper.coverage import OWN, add_failure_row, failure_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.handover import Decision
from reaper.ledger.lease import RunLeases
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import HistoryEntry, Recalled, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import ACTIONS, NOTICES, Memory, Result, Run, Status, StepName
from reaper.notices import forecast
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery, Misses
from reaper.notices.context import ConcludeContext
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import Message
from reaper.notices.owner_notice import owner_notices
from reaper.pending import intents, unfinished
from reaper.pending.holds import Breaker
from reaper.planning import dates, possible_actions
from reaper.report.run_report import left_alone
from reaper.snooze import links
from reaper.text import count_noun

SUMMARY_SENT = "its summary was sent since this was decided, or it no longer counts"
NO_ADDRESS = "no address is allowed for it; see owners.domains and owners.fallback"
TOO_LATE = "too little time was left to send every message; a repeated conclude sends the rest"
OUT_OF_TIME = "this run's time was over; the next run sends it"
TAKEN_OVER = "another sweep has taken over this target"
CHANGED = "its ledger record changed since this was decided, so the next sweep decides again"
NOTIFIED = "its owner was notified since this was decided"
NOT_NOTIFIED = "owner not notified: "
Accept = Callable[[str, str, Sequence[Delivery]], None]
"""What to do once a message about a resource was accepted: its ID, the receipt, and the deliveries on every channel."""


def send_owner_notices(
    findings: Mapping[str, Finding], hints: Mapping[str, Unfinished], notices: NoticeContext, accept: Accept, mails: NoticeRound
) -> list[Delivery]:
    """Send each message on every channel for owners. An accepted one is remembered before the next one is sent.

    `hints`: those of the actions among the findings. An action whose mail another run has sent meanwhile is in no message.

    A channel that stays unreachable is given up. Once another run has taken over, only mails about actions are sent. Nothing is sent after the
    deadline: the next run sends it, or a repeated conclude, for which this one raises CloudError. Raises ConcludeTakenOver.
    """
    deliveries: list[Delivery] = []
    misses: Misses = {}
    for message in _current_messages(findings, hints, notices, mails):
        mails.context.before_message()
        if mails.is_over():
            if mails.context.is_repeated:
                raise CloudError(Reason.UNREACHABLE, "conclude", TOO_LATE)
            break
        sent = delivery.deliver(message, mails.context.channels, misses)
        for resource_id, receipt in delivery.receipts_by_id(sent).items():
            accept(resource_id, receipt, sent)
        deliveries += sent
    return deliveries


def drop_changed_notices(findings: Iterable[Finding], memories: Recalled, mails: NoticeRound) -> None:
    """Leave alone every notice whose resource was snoozed, notified or changed since it was decided."""
    for finding in findings:
        if finding.step.name in NOTICES and (because := _changed_because(finding, memories, mails)):
            mails.findings[finding.case.resource.id] = left_alone(finding, because)


def with_failed_notice(finding: Finding, deliveries: Sequence[Delivery], mails: NoticeRound) -> Finding:
    """The finding of a notice that no channel accepted, with the reason."""
    if finding.step.name not in NOTICES or finding.outcome.result is not Result.PLANNED:
        return finding
    errors = [str(d.error) for d in deliveries if d.error and finding.case.resource.id in d.message.resource_ids]
    because = "; ".join(dict.fromkeys(errors)) or _unsent_because(finding, mails)
    return replace(finding, outcome=Outcome(result=Result.FAILED, error=f"{NOT_NOTIFIED}{because}"))


def _unsent_because(finding: Finding, mails: NoticeRound) -> str:
    if mails.is_over() and finding.owner.address:
        return OUT_OF_TIME
    return TAKEN_OVER if mails.lost else NO_ADDRESS


def unsent_notices_rows(findings: Iterable[Finding]) -> list[Coverage]:
    """A row for the notices that no message carried: no address is allowed for them, another run has taken over, or there was no time."""
    errors = Counter(f.outcome.error for f in findings if f.step.name in NOTICES)
    reasons = {
        TAKEN_OVER: f"not sent: {TAKEN_OVER}",
        OUT_OF_TIME: "not sent: this run's time was over, so the next run sends them",
        NO_ADDRESS: "without an allowed address: set owners.fallback, or add a domain to owners.domains",
    }
    counts = {because: errors[f"{NOT_NOTIFIED}{error}"] for error, because in reasons.items()}
    texts = [f"{count_noun(count, 'notice')} {because}" for because, count in counts.items() if count]
    row = Coverage(cloud=OWN, account="", region=None, kind="notices", status=Status.FAILED, error="; ".join(texts))
    return [row] if texts else []


def channel_failures(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One row per channel that refused something, with the first reason and how many more there were."""
    errors: dict[str, list[CloudError]] = {}
    for sent in deliveries:
        if sent.error:
            errors.setdefault(sent.channel, []).append(sent.error)
    return [failure_row(f"channel {name}", failed[0], len(failed) - 1) for name, failed in errors.items()]


def is_told(hint: Unfinished, memories: Mapping[str, Memory], mails: NoticeRound) -> bool:
    """Whether a channel accepted the mail about that action: its row says so, or else its history."""
    memory = dict(memories).get(hint.id, Memory())  # a plain copy: reading an unreadable row raises
    if intents.is_same_intent(memory, hint) and memory.last_action_told_at:
        return True
    try:
        return unfinished.accepted_mail(hint, mails.ledger) is not None
    except ReaperError as error:
        mails.note_ledger_failure(error)
        return False


def _current_messages(
    findings: Mapping[str, Finding], hints: Mapping[str, Unfinished], notices: NoticeContext, mails: NoticeRound
) -> Iterator[Message]:
    """The messages. If something in one has changed since it was written, it is rewritten without that."""
    for message in owner_notices(list(findings.values()), notices):
        about = [findings[resource_id] for resource_id in message.resource_ids]
        mails.lost = mails.lost or not mails.leases.prolong_all()
        due = [finding for finding in about if not (mails.lost and finding.step.name in NOTICES)]
        memories = _recall_again(due, mails)
        untold = [f for f in due if not ((hint := hints.get(f.case.resource.id)) and is_told(hint, memories or {}, mails))]
        current = [finding for finding in untold if _is_current(finding, memories, mails)]
        if len(current) == len(about):
            yield message
        else:
            yield from owner_notices(current, notices)


def _recall_again(findings: Sequence[Finding], mails: NoticeRound) -> Recalled | None:
    """The current memories of the message's resources; None if they can't be read."""
    try:
        return mails.ledger.recall(intents.ids_with_hosts([f.case for f in findings]), mails.context.clock())
    except ReaperError as error:
        mails.note_ledger_failure(error)
        return None


def _is_current(finding: Finding, memories: Recalled | None, mails: NoticeRound) -> bool:
    """Whether the mail may go out. If a notice may not, its resource is left alone; if the ledger can't be read, the notice failed."""
    if finding.step.name not in NOTICES:
        return True
    because = _changed_because(finding, memories, mails) if memories is not None else None
    resource_id = finding.case.resource.id
    if memories is None:
        failed = replace(finding, outcome=Outcome(result=Result.FAILED, error=f"{NOT_NOTIFIED}the ledger couldn't be read"))
    else:
        failed = left_alone(finding, because or "")
    if (because or memories is None) and mails.findings[resource_id].step.name in NOTICES:
        mails.findings[resource_id] = failed
    return because is None and memories is not None


def _changed_because(finding: Finding, memories: Recalled, mails: NoticeRound) -> str | None:
    """Why the notice no longer holds, or None. An action of this run has changed the row on purpose."""
    case, now = finding.case, mails.context.clock()
    if intents.is_unreadable(case.resource, memories):
        return "its ledger record can't be read, and it may be snoozed"
    memory, host = memories.get(case.resource.id, Memory()), intents.host_memory(case.resource, memories)
    if because := idle_period.dated_ahead_because(memory, now):
        return because
    if possible_actions.is_snoozed(case, memory, now):
        return "it was snoozed since this was decided"
    if host and host.snoozed_until and host.snoozed_until > now:
        return "its host was snoozed since this was decided"
    decision = mails.decisions[case.resource.id]
    if decision.needs_summary:  # its row may have changed: an action was begun, then withdrawn
        return None if dates.is_summary_due(case, memory, mails.now) else SUMMARY_SENT
    changed_by_this_run = memory.last_action_run == mails.run.id
    if changed_by_this_run or memory.version == decision.row_version:
        return None
    last = idle_period.last_notice_at(memory)  # a conclude that ran before may have sent this very notice
    return NOTIFIED if last and last >= mails.now else CHANGED


# MERGED One round of notices: the run that sends them, what it recalled, and its failures.


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
    context = NoticeContext(
        now=mails.now,
        mode=mails.run.mode,
        owners=mails.context.policy.owners,
        run_id=mails.run.id,
        # A plain copy: reading an unreadable row raises, and its resource gets no message anyway.
        memories=dict(mails.memories),
        location_settings=mails.context.location_settings,
        snooze_link=links_by_id.get,
    )
    return replace(context, hours_history=_hours_history(findings, context, mails))


def _hours_history(findings: Iterable[Finding], context: NoticeContext, mails: NoticeRound) -> dict[str, str]:
    """What office hours did to each resource whose weekly summary is due, since its owner was last notified."""
    history: dict[str, str] = {}
    for finding in findings:
        resource_id, last = finding.case.resource.id, idle_period.last_notice_at(context.memory(finding))
        if last is None or finding.step.name is not StepName.REMIND or not forecast.is_about_hours(finding, context):
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


# MERGED Records in the ledger that a channel accepted a mail, and verdicts. A write that fails is a row of the coverage.


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
        mails.attempt(lambda: intents.record_owner_told(mails.ledger, hint, now))
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
    mails.attempt(lambda: intents.record_owner_told(mails.ledger, hint, now, with_result))


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
    host = intents.host_memory(resource, mails.memories)

    def change(memory: Memory) -> Memory:
        if receipt is None and memory.version != decision.row_version and finding.step.name not in ACTIONS:
            return memory
        new = memory_updates.after_judging(decision.case, memory_updates.after_host_snooze(memory, host), mails.now)
        if receipt and finding.step.name in NOTICES:
            announces = mails.run.mode.announces
            new = memory_updates.after_notice(finding.case, new, finding.step, receipt, mails.context.clock(), acting=announces)
        return memory_updates.after_action(new) if finding.outcome.already_done else new

    return update_memory(mails.ledger, resource.id, change, mails.now, mails.memories.get(resource.id, Memory()))
