"""The message that takes a wrong notice back: the resource was used in an hour that the notice called idle.

It waits in the ledger until a channel has accepted it, and is sent once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from reaper import idle_period, memory_updates
from reaper.errors import ReaperError
from reaper.ledger.rows import HistoryEntry
from reaper.ledger.update import update_memory
from reaper.model import Memory, Resource
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery, Misses
from reaper.notices.context import NoticeRound, Part, attempt
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.notices.message import MAX_SUBJECT, Audience, Message, is_deliverable, render_mail
from reaper.text import UTC, format_time, tidy_line

MAX_RESOURCES = 30
"""The most resources in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Correction:
    """A resource whose last notice was wrong, and its memory."""

    resource: Resource
    memory: Memory

    @property
    def line(self) -> str:
        """What it is, when it was used, and which notice no longer counts."""
        name, kind, where = shown_name(self.resource), kind_title(self.resource.kind), shown_place(self.resource)
        sent_at = self.memory.wrong_notice_at
        notice = f"The notice of {format_time(sent_at, UTC)}" if sent_at else "That notice"
        return f"{name} ({kind}, {where}): used on {self.used_at}. {notice} no longer counts."

    @property
    def used_at(self) -> str:
        """The hour of use."""
        return format_time(self.memory.wrong_hour, UTC) if self.memory.wrong_hour else ""


def send_take_backs(mails: NoticeRound) -> list[Part]:
    """Send one message to each addressee of wrong notices. The next run sends what no channel accepts, and what
    this one runs out of time for."""
    parts: list[Part] = []
    misses: Misses = {}
    for address, waiting in _waiting_by_address(mails).items():
        for start in range(0, len(waiting), MAX_RESOURCES):
            if mails.is_over() or mails.lost or not mails.leases.prolong_all():
                return parts
            owed, failed = _still_owed(waiting[start : start + MAX_RESOURCES], mails)
            parts.append(failed)
            if owed:
                mails.context.before_message()
                sent = delivery.deliver(take_back_message(address, owed), mails.context.channels, misses)
                parts += [Part(deliveries=sent), _record_sent(owed, sent, mails)]
    return parts


def take_back_message(address: str, corrections: Sequence[_Correction]) -> Message:
    """The message to the addressee of these notices."""
    first = corrections[0]
    subject = f"Correction: {len(corrections)} ML resources were in use; their notices no longer count"
    if len(corrections) == 1:
        name = tidy_line(first.resource.name, 60, joiners=False) or "a resource"
        subject = f"Correction: {name} was used on {first.used_at}; that notice no longer counts"
    subject = tidy_line(subject, MAX_SUBJECT, joiners=False)
    text, html = render_mail("take_back", subject=subject, lines=[each.line for each in corrections])
    return Message(
        to=address,
        subject=subject,
        text=text,
        html=html,
        attributes={"audience": Audience.OWNERS.value, "owner": address.lower(), "resources": len(corrections)},
        resource_ids=tuple(each.resource.id for each in corrections),
    )


def _waiting_by_address(mails: NoticeRound) -> dict[str, list[_Correction]]:
    """What is owed, by address: that of the notice, or the fallback if mail may no longer go there."""
    owners, waiting = mails.context.policy.owners, defaultdict(list)
    for finding in mails.findings.values():
        memory = finding.memory
        if memory is None or not memory.wrong_hour or idle_period.dated_ahead_because(memory, mails.context.clock()):
            continue
        addressee = memory.wrong_notice_to or ""
        address = addressee if is_deliverable(addressee, owners.domains, owners.fallback) else owners.fallback
        if address and is_deliverable(address, owners.domains, owners.fallback):
            waiting[address].append(_Correction(resource=finding.case.resource, memory=memory))
    return dict(waiting)


def _still_owed(waiting: Sequence[_Correction], mails: NoticeRound) -> tuple[list[_Correction], Part]:
    """Those that no other conclude has sent meanwhile; none if the ledger can't be read."""
    try:
        memories = dict(mails.ledger.recall([each.resource.id for each in waiting], mails.context.clock()))
    except ReaperError as error:
        return [], Part(errors=[error])
    owed = [each for each in waiting if memories.get(each.resource.id, Memory()).wrong_hour == each.memory.wrong_hour]
    return owed, Part()


def _record_sent(owed: Sequence[_Correction], sent: Sequence[Delivery], mails: NoticeRound) -> Part:
    receipts = delivery.receipts_by_id(sent)
    accepted = [(each, receipts[each.resource.id]) for each in owed if each.resource.id in receipts]
    return Part(errors=[error for each, receipt in accepted for error in _record_correction(each, receipt, mails)])


def _record_correction(correction: _Correction, receipt: str, mails: NoticeRound) -> list[ReaperError]:
    resource_id, hour, now = correction.resource.id, correction.memory.wrong_hour, mails.context.clock()
    because = f"used on {correction.used_at}, so its notice was wrong"
    entry = HistoryEntry(id=resource_id, when=now, what="corrected", by=receipt, because=because)
    return attempt(
        lambda: mails.ledger.add_history(entry),
        lambda: update_memory(mails.ledger, resource_id, lambda memory: memory_updates.after_take_back(memory, hour), now),
    )
