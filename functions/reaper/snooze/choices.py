"""What the page of a snooze link writes: for each chosen resource a snooze or a "not mine", in a row of its own, and an entry in its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper.errors import ReaperError
from reaper.ledger.ledger import Ledger, update_snooze
from reaper.ledger.rows import HistoryEntry, Recalled, Visit, VisitResource
from reaper.notices.message import is_plain_address
from reaper.record import Snooze
from reaper.snooze import pages
from reaper.snooze.request import SnoozeForm
from reaper.text import format_time

HOLDER = "the holder of the link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result for one chosen resource: its snooze afterwards and whether it `changed`, or the `error`. `problem`: its history failed."""

    resource: VisitResource
    snooze: Snooze
    changed: bool = False
    error: str = ""
    problem: str = ""

    @property
    def log_text(self) -> str:
        """Its result, for the log."""
        snoozed = f"snoozed until {self.snooze.until} by {self.snooze.by}" if self.snooze.until else ""
        disowned = f"not theirs, says {self.snooze.disowned_by}" if self.snooze.disowned_by else ""
        return "; ".join(filter(None, (self.error or ("" if self.changed else "unchanged"), snoozed, disowned, self.problem)))


def write_choices(
    form: SnoozeForm, visit: Visit, chosen: Sequence[VisitResource], ledger: Ledger, recalled: Recalled, now: datetime
) -> list[Written]:
    """Write each choice; one that fails doesn't affect the others."""
    return [_write_choice(form, visit, resource, ledger, recalled, now) for resource in chosen]


def _write_choice(
    form: SnoozeForm, visit: Visit, resource: VisitResource, ledger: Ledger, recalled: Recalled, now: datetime
) -> Written:
    changed, known, to = False, Snooze(), ""

    def choose(snooze: Snooze) -> Snooze:
        nonlocal changed
        new = with_disowned(snooze, to, visit, now) if form.disowns else with_snooze(snooze, form, resource, visit, now)
        changed = new is not snooze
        return new

    try:
        is_unreadable = recalled.is_unreadable(resource.id)  # which protects; a snooze is a row of its own
        known = ledger.snooze(resource.id, now) if is_unreadable else recalled.snooze(resource.id)
        notice = None if is_unreadable and not form.disowns else recalled.record(resource.id).notice
        to = (notice and notice.to) or ""
        snooze = update_snooze(ledger, resource.id, choose, now, known)
    except ReaperError as error:
        return Written(resource=resource, snooze=known, error=str(error))
    problem = _record_history(form, resource.id, snooze, ledger, now) if changed else ""
    return Written(resource=resource, snooze=snooze, changed=changed, problem=problem)


def with_snooze(snooze: Snooze, form: SnoozeForm, resource: VisitResource, visit: Visit, now: datetime) -> Snooze:
    """The snooze that the form asks for, without a "not mine" of the same person, who has thought better of it.

    A longer snooze stays, unless the person gave it and the form asks to shorten it.
    """
    until, current = pages.snooze_end(now, pages.days_for(form.days or 1, resource)), snooze.until
    if is_disowned_by(snooze, visit.address):
        snooze = replace(snooze, disowned_by=None, disowned_at=None)
    if current and (current == until or (current > until and not (form.shorten and may_shorten(snooze, visit, now)))):
        return snooze
    # A name in the form proves nothing, so it's only added. An address that was removed from the ledger isn't written again.
    owner = visit.address if is_plain_address(visit.address) else HOLDER
    by = f"{form.name} ({owner})" if form.name else owner
    return replace(snooze, until=until, at=now, by=by, reason=form.reason or None)


def with_disowned(snooze: Snooze, notified: str, visit: Visit, now: datetime) -> Snooze:
    """The snooze with the owner's "not mine". The mail to an earlier owner doesn't replace that of the present one, who was `notified`."""
    is_present_owner = notified.casefold() == visit.address.casefold()
    if is_disowned_by(snooze, visit.address) or (snooze.disowned_by and not is_present_owner):
        return snooze
    return replace(snooze, disowned_by=visit.address, disowned_at=now)


def is_disowned_by(snooze: Snooze, address: str) -> bool:
    """Whether it was this address that said that it isn't theirs."""
    return (snooze.disowned_by or "").casefold() == address.casefold()


def may_shorten(snooze: Snooze, visit: Visit, now: datetime) -> bool:
    """Whether the person who got the mail gave the present snooze."""
    if snooze.until is None or snooze.until <= now:
        return False
    by, owner = (snooze.by or "").casefold(), visit.address.casefold()
    return is_plain_address(owner) and (by == owner or by.endswith(f" ({owner})"))


def may_disown(visit: Visit) -> bool:
    """Whether the mail went to an owner, whose address is known still."""
    return visit.is_owner and is_plain_address(visit.address)


def _record_history(form: SnoozeForm, resource_id: str, snooze: Snooze, ledger: Ledger, now: datetime) -> str:
    """Write the history. Returns the problem if that fails: the choice itself is valid all the same."""
    until = format_time(snooze.until) if snooze.until else ""
    because = f"snoozed by its link until {until}" + (f": {snooze.reason}" if snooze.reason else "")
    entry = HistoryEntry(id=resource_id, when=now, what="kept", by=snooze.by or "", because=because)
    if form.disowns:
        because = "its owner said that it isn't theirs" + (f": {form.reason}" if form.reason else "")
        entry = replace(entry, what="disowned", by=snooze.disowned_by or "", because=because)
    try:
        ledger.add_history(entry)
    except ReaperError as error:
        return f"its history couldn't be written: {error}"
    return ""
