"""Sends the mails of one run. Right before each, the ledger is read again: whatever was snoozed, notified or has changed is dropped.

A notice counts once a channel accepted it. A refused one is a failure in the report, and the next run tries it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reaper import idle_period
from reaper.actions import intent, unfinished
from reaper.case import Coverage, Finding, Outcome
from reaper.coverage import OWN, failure_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger.port import Recalled, Unfinished
from reaper.model import NOTICES, Memory, Result, Status
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery, Misses
from reaper.notices.item import NoticeContext
from reaper.notices.message import Message
from reaper.notices.owner_notice import owner_notices
from reaper.notices.round import NoticeRound
from reaper.planning import enrolment, snoozed_cases
from reaper.report.findings import left_alone
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
    if intent.is_same_intent(memory, hint) and memory.last_action_told_at:
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
        return mails.ledger.recall(intent.ids_with_hosts([f.case for f in findings]), mails.context.clock())
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
    if intent.is_unreadable(case.resource, memories):
        return "its ledger record can't be read, and it may be snoozed"
    memory, host = memories.get(case.resource.id, Memory()), intent.host_memory(case.resource, memories)
    if because := idle_period.dated_ahead_because(memory, now):
        return because
    if snoozed_cases.is_snoozed(case, memory, now):
        return "it was snoozed since this was decided"
    if host and host.snoozed_until and host.snoozed_until > now:
        return "its host was snoozed since this was decided"
    decision = mails.decisions[case.resource.id]
    if decision.needs_summary:  # its row may have changed: an action was begun, then withdrawn
        return None if enrolment.is_summary_due(case, memory, mails.now) else SUMMARY_SENT
    changed_by_this_run = memory.last_action_run == mails.run.id
    if changed_by_this_run or memory.version == decision.row_version:
        return None
    last = idle_period.last_notice_at(memory)  # a conclude that ran before may have sent this very notice
    return NOTIFIED if last and last >= mails.now else CHANGED
