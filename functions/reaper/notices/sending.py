"""Sends the mails of one run. Right before each, the ledger is read again: whatever was snoozed, notified or has changed is dropped.

A notice counts once a channel accepted it, and is remembered before the next message is sent. A refused one is a failure in the report, and
the next run tries it again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reaper.case import Coverage
from reaper.coverage import failure_row, own_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import Finding, Outcome, View, follow_up, is_action, judged_case, left_alone
from reaper.ledger.ledger import update_record, update_snooze
from reaper.ledger.rows import HistoryEntry, Recalled, comparable_id, remembered_ids
from reaper.model import NOTICES, Result, StepName
from reaper.notices.blocks import Card, Line, Look, Paragraph
from reaper.notices.channels.delivery import Delivery, Misses, deliver, errors_by_id, first_receipt, receipts_by_id
from reaper.notices.context import NoticeRound, Part, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.notices.message import ABOUT, MAX_SUBJECT, SENDER_NAME, Audience, Message, is_deliverable
from reaper.notices.owner_notice import owner_notices
from reaper.notices.render import render_mail
from reaper.planning import accepted
from reaper.record import (
    Act,
    Correction,
    Record,
    after_action,
    dated_ahead_because,
    is_same_intent,
    last_notice_at,
    snoozed_because,
    with_result,
)
from reaper.report.run_report import with_record
from reaper.text import count_noun, format_time, tidy_line

SUMMARY_SENT = "its summary was sent since this was decided, or it no longer counts"
NO_ADDRESS = "no address is allowed for it; see owners.domains and owners.fallback"
TOO_LATE = "too little time was left to send every message; a repeated conclude sends the rest"
OUT_OF_TIME = "this run's time was over; the next run sends it"
TAKEN_OVER = "another sweep has taken over this target"
CHANGED = "its ledger record changed since this was decided, so the next sweep decides again"
NOTIFIED = "its owner was notified since this was decided"
NOT_NOTIFIED = "owner not notified: "
Accept = Callable[[str, str, Sequence[Delivery]], Part]
"""Remembers that a message about a resource was accepted: its ID, the receipt, and the deliveries on every channel."""
MAX_RESOURCES = 30
"""The most resources in one message."""


def send_owner_notices(
    findings: Mapping[str, Finding], acts: Mapping[str, Act], notices: NoticeContext, accept: Accept, mails: NoticeRound
) -> list[Part]:
    """Send each message on every channel for owners. An accepted one is remembered before the next one is sent.

    `acts`: those of the actions among the findings. An action whose mail another run has sent meanwhile is in no message.

    A channel that stays unreachable is given up. Once another run has taken over, only mails about actions are sent. Nothing is sent after the
    deadline: the next run sends it, or a repeated conclude, for which this one raises CloudError. Raises ConcludeTakenOver.
    """
    parts: list[Part] = []
    misses: Misses = {}
    lost = mails.lost
    for written in owner_notices(list(findings.values()), notices):
        lost = lost or not mails.leases.prolong_all()
        about = [findings[resource_id] for resource_id in written.resource_ids]
        current, dropped = _current_findings(about, acts, mails, lost=lost)
        parts.append(dropped)
        # If something in it has changed since it was written, it is rewritten without that.
        for message in [written] if len(current) == len(about) else owner_notices(current, notices):
            mails.context.before_message()
            if mails.is_over():
                if mails.context.is_repeated:
                    raise CloudError(Reason.UNREACHABLE, "conclude", TOO_LATE)
                return parts
            ready, failed = _with_visit(message, [findings[id_] for id_ in message.resource_ids], notices, mails)
            sent = deliver(ready, mails.context.channels, misses)
            parts += [failed, Part(deliveries=sent)]
            parts += [accept(resource_id, receipt, sent) for resource_id, receipt in receipts_by_id(sent).items()]
    return parts


def _with_visit(message: Message, about: Sequence[Finding], notices: NoticeContext, mails: NoticeRound) -> tuple[Message, Part]:
    """The message, once the ledger has what its links open. If that can't be stored, the message without links, which offers the tag alone."""
    # What was done before this moment is what it tells; the page shows what comes after it.
    visits = [replace(visit, sent_at=mails.context.clock()) for visit in (message.visit, message.card.visit) if visit]
    if not (errors := attempt(*(partial(mails.ledger.add_visit, visit) for visit in visits))):
        return message, Part()
    [plain] = owner_notices(about, replace(notices, open_visit=lambda *_: None))
    return plain, Part(errors=errors)


def send_by_address(
    waiting: Mapping[str, Sequence[Finding]],
    is_owed: Callable[[str, Finding, Recalled], bool],
    write: Callable[[str, Sequence[Finding]], Message],
    accept: Callable[[str, Finding, str], Part],
    mails: NoticeRound,
) -> NoticeRound:
    """Send each address messages about up to MAX_RESOURCES of what is still owed to it, and `accept` each by its receipt.

    Nothing is sent if the ledger can't be read, or once another run has taken over. The next run sends what this one runs out of time for.
    """
    misses: Misses = {}
    for to, findings in waiting.items():
        for start in range(0, len(findings), MAX_RESOURCES):
            if mails.is_over() or mails.lost or not mails.leases.prolong_all():
                return mails
            about = [mails.findings[f.case.resource.id] for f in findings[start : start + MAX_RESOURCES]]
            try:
                recalled = mails.ledger.recall(remembered_ids(*(f.case.resource for f in about)), mails.context.clock())
            except ReaperError as error:
                mails = mails.after(Part(errors=[error]))
                continue
            mails = mails.after(Part(errors=recalled.errors))
            if owed := [f for f in about if is_owed(to, f, recalled)]:
                mails.context.before_message()
                sent = deliver(write(to, owed), mails.context.channels, misses)
                receipt = first_receipt(sent)
                mails = mails.after(Part(deliveries=sent), *(accept(to, f, receipt) for f in owed if receipt))
    return mails


def send_take_backs(notices: NoticeContext, mails: NoticeRound) -> NoticeRound:
    """Take wrong notices back, with one message to each addressee: their resources were used in an hour that a notice called idle.

    It waits in the ledger until a channel has accepted it, and is sent once. It goes to the address of the notice, or to the fallback if mail may
    no longer go there.
    """
    owners, waiting = mails.context.policy.owners, defaultdict[str, list[Finding]](list)
    for finding in mails.findings.values():
        record = finding.record
        if record is None or record.correction is None or dated_ahead_because(record, mails.context.clock()):
            continue
        addressee = record.correction.to or ""
        address = addressee if is_deliverable(addressee, owners.domains, owners.fallback) else owners.fallback
        if address and is_deliverable(address, owners.domains, owners.fallback):
            waiting[address].append(finding)
    write, accept = partial(_take_back_message, notices), partial(_record_correction, notices, mails)
    return send_by_address(waiting, _is_wrong_still, write, accept, mails)


def drop_changed_notices(mails: NoticeRound) -> Part:
    """Leave alone every notice whose resource was snoozed, notified or changed since it was decided."""
    notices = [f for f in mails.findings.values() if f.step.name in NOTICES]
    reasons = [(f, _changed_because(f, mails.known, mails)) for f in notices]
    return Part(findings={f.case.resource.id: left_alone(f, because) for f, because in reasons if because})


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
    return [own_row("notices", "; ".join(texts))] if texts else []


def channel_failures(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One row per channel that refused something, with the first reason and how many more there were. What admins don't get has all reasons."""
    errors: dict[tuple[str, str], list[CloudError]] = {}
    for sent in deliveries:
        if sent.error:
            why = str(sent.error) if sent.message.audience is Audience.ADMINS else ""
            errors.setdefault((sent.channel, why), []).append(sent.error)
    return [failure_row(f"channel {name}", failed[0], len(failed) - 1) for (name, _), failed in errors.items()]


def notified_acts(acts: Iterable[Act], recalled: Recalled) -> frozenset[str]:
    """The IDs of those of which a channel accepted the mail, as their records say, also once another action has begun."""
    records = [(act, recalled.readable_only().record(act.id)) for act in acts]
    asked = [(a.id, r.act.notified_at if r.act and is_same_intent(r, a) else r.notified_run == a.run) for a, r in records]
    return frozenset(resource_id for resource_id, is_notified in asked if is_notified)


def record_notice(finding: Finding, receipt: str, deliveries: Sequence[Delivery], mails: NoticeRound) -> Part:
    """Remember that its owner got a notice or a summary: it counts from this moment on."""
    resource_id = finding.case.resource.id
    error = errors_by_id(deliveries).get(resource_id)
    remembered = _remember(replace(finding, outcome=Outcome(result=Result.DONE, error=error)), receipt, mails)
    if remembered.errors:
        return remembered
    what = "warned" if finding.step.name is StepName.WARN else "reminded"
    entry = HistoryEntry(id=resource_id, when=mails.now, what=what, by=receipt, because=finding.case.verdict.because)
    return replace(remembered, errors=attempt(lambda: mails.ledger.add_history(entry)))


def record_verdict(finding: Finding, refusals: Mapping[str, str], mails: NoticeRound) -> Part:
    """Remember the idle period of what no accepted notice was about. `refusals`: why channels refused one, by resource id."""
    if is_action(finding) and finding.outcome.begun:  # it has written its own result
        return Part(findings={finding.case.resource.id: finding})
    if finding.step.name in NOTICES and finding.outcome.result is Result.PLANNED:
        is_late = mails.is_over() and finding.case.owner.address
        because = refusals.get(finding.case.resource.id) or (OUT_OF_TIME if is_late else TAKEN_OVER if mails.lost else NO_ADDRESS)
        finding = replace(finding, outcome=Outcome(result=Result.FAILED, error=f"{NOT_NOTIFIED}{because}"))
    return _remember(finding, None, mails)


def record_action_notified(finding: Finding, act: Act, receipt: str, mails: NoticeRound, *, is_open: bool = False) -> Part:
    """Record that its owner got the outcome of the action. The mail is the notice of what follows. A write that fails is made once more: without
    it the next run would send the mail again.

    `is_open`: the mail said that it was interrupted. Another one will say how it was settled.
    """
    now, outcome, known = mails.context.clock(), finding.outcome, mails.known.readable.get(comparable_id(act.id), Record())
    announces = mails.run.mode.announces and not is_open
    following = follow_up(finding) if announces else None
    action = following[0] if following else None

    def notified(record: Record) -> Record:
        if not is_same_intent(record, act):  # another action has begun, or a person has undone it
            return replace(record, notified_run=act.run) if record.act and not is_open else record
        if not is_open and record.act and record.act.result is None and outcome.begun:  # the executor couldn't write it
            why = outcome.because or outcome.error or ""
            record = with_result(record, outcome.result, why, outcome.part_done)
        record = (
            accepted.after_action_mail(View(case=finding.case, now=now, record=record), action, receipt) if action else record
        )
        notified_run = record.notified_run if is_open else act.run
        return replace(record, act=record.act and replace(record.act, notified_at=now), notified_run=notified_run)

    write = partial(update_record, mails.ledger, act.id, notified, now)
    errors = attempt(partial(write, known if is_same_intent(known, act) else None))
    return Part(errors=errors and [*errors, *attempt(write)])


def _current_findings(
    about: Sequence[Finding], acts: Mapping[str, Act], mails: NoticeRound, *, lost: bool
) -> tuple[list[Finding], Part]:
    """Those that a mail may still be about. A notice that may not go out is left alone; if the ledger can't be read, it failed."""
    due = [f for f in about if not (lost and f.step.name in NOTICES)]
    try:
        recalled = mails.ledger.recall(remembered_ids(*(f.case.resource for f in due)), mails.context.clock())
        errors = []
    except ReaperError as error:
        recalled, errors = None, [error]
    asked = [act for f in due if (act := acts.get(f.case.resource.id))]
    notified = notified_acts(asked, recalled or Recalled())
    dropped: dict[str, Finding] = {}
    for finding in due:
        if finding.step.name not in NOTICES:
            continue
        if recalled is None:
            unread = Outcome(result=Result.FAILED, error=f"{NOT_NOTIFIED}the ledger couldn't be read")
            dropped[finding.case.resource.id] = replace(finding, outcome=unread)
        elif because := _changed_because(finding, recalled, mails):
            dropped[finding.case.resource.id] = left_alone(finding, because)
    current = [f for f in due if f.case.resource.id not in dropped and f.case.resource.id not in notified]
    # A weekly summary may be about a resource whose own finding is an action.
    changed = {resource_id: f for resource_id, f in dropped.items() if mails.findings[resource_id].step.name in NOTICES}
    return current, Part(findings=changed, errors=errors, lost=lost)


def _changed_because(finding: Finding, recalled: Recalled, mails: NoticeRound) -> str | None:
    """Why the notice no longer holds, or None. An action of this run has changed the record on purpose."""
    case, now = finding.case, mails.context.clock()
    if recalled.is_unreadable(*remembered_ids(case.resource)):
        return "its ledger record can't be read, and it may be snoozed"
    record, snoozes = recalled.record(case.resource.id), recalled.snoozes(case.resource)
    if because := dated_ahead_because(record, now):
        return because
    if because := snoozed_because(snoozes, case.resource.created, now):
        return because
    decided = mails.decided[case.resource.id]
    if snoozes.protections != decided.snoozes:
        return CHANGED
    if decided.needs_summary:  # its record may have changed: an action was begun, then withdrawn
        return None if record.notice == decided.notice else SUMMARY_SENT
    changed_by_this_run = record.act is not None and record.act.run == mails.run.id
    if changed_by_this_run or record.version == decided.record_version:
        return None
    last = last_notice_at(record.notice)  # a conclude that ran before may have sent this very notice
    return NOTIFIED if last and last >= mails.now else CHANGED


def _remember(finding: Finding, receipt: str | None, mails: NoticeRound) -> Part:
    """Update the resource's record.

    A verdict alone is written only on the version that it was decided on, or after an action of this run; a notice that a channel accepted
    is always written.
    """
    resource, known = finding.case.resource, mails.known
    decided, accepted_at = mails.decided[resource.id], mails.context.clock()
    judged = judged_case(decided)

    def change(record: Record) -> Record:
        if receipt is None and record.version != decided.record_version and not is_action(finding):
            return record
        announces = mails.run.mode.announces
        seen = View(case=judged, now=mails.now, record=record, snoozes=snoozes, announces=announces)
        new = accepted.after_judging(seen)
        if receipt and finding.step.name in NOTICES:
            notified = replace(seen, case=finding.case, now=accepted_at, record=new)
            new = accepted.after_notice(notified, finding.step, receipt)
        return after_action(new) if finding.outcome.already_done else new

    try:  # what is unreadable among the known raises, too
        snoozes = known.snoozes(resource)
        record = update_record(mails.ledger, resource.id, change, mails.now, known.record(resource.id))
        snooze = accepted.snooze_after_judging(judged, snoozes.own)
        if snooze != snoozes.own:
            update_snooze(mails.ledger, resource.id, partial(accepted.snooze_after_judging, judged), mails.now)
    except ReaperError as error:
        failed = Outcome(result=Result.FAILED, error=f"it couldn't be recorded: {error}")
        return Part(findings={resource.id: replace(finding, outcome=failed)}, errors=[error])
    return Part(findings={resource.id: replace(with_record(finding, record, snooze), notice=record.notice)})


def _correction_of(finding: Finding) -> Correction:
    """The message that is owed about it."""
    if finding.record is None or finding.record.correction is None:
        raise ValueError(f"no correction is owed about {finding.case.resource.id}")
    return finding.record.correction


def _is_wrong_still(_: str, finding: Finding, recalled: Recalled) -> bool:
    """Whether no other conclude has sent it meanwhile."""
    stored = recalled.readable_only().record(finding.case.resource.id).correction
    return stored is not None and stored.hour == _correction_of(finding).hour


def _take_back_message(context: NoticeContext, address: str, wrong: Sequence[Finding]) -> Message:
    lines = []
    for finding in wrong:
        resource, owed, tz = finding.case.resource, _correction_of(finding), context.time_zone(finding)
        used = format_time(owed.hour, tz)
        notice = f"The notice of {format_time(owed.at, tz)}" if owed.at else "That notice"
        what = f"{shown_name(resource)} ({kind_title(resource.kind)}, {shown_place(resource)})"
        lines.append(f"{what}: used on {used}. {notice} no longer counts.")
    subject = f"Correction: {len(wrong)} ML resources were in use; their notices no longer count"
    if len(wrong) == 1:
        name = tidy_line(resource.name, 60, joiners=False) or "a resource"
        subject = f"Correction: {name} was used on {used}; that notice no longer counts"
    subject = tidy_line(subject, MAX_SUBJECT, joiners=False)
    was, it, those, notice = (
        ("A notice to you was", "It", "this resource was", "that notice")
        if len(lines) == 1
        else ("Notices to you were", "They", "these resources were", "those notices")
    )
    idle = f". {it} said that {those} idle, but metrics that came later show use:"
    ending = f"You don't have to do anything. Nothing will be stopped because of {notice}. Before any action you get a new one."
    blocks = [
        Paragraph(lines=[Line(text=f"{was} wrong", besides=idle, look=Look.TITLE)]),
        Paragraph(lines=[Line(text=line, look=Look.BULLET) for line in lines]),
        Paragraph(lines=[Line(text=ending)]),
        Paragraph(lines=[Line(label=f"{SENDER_NAME}. What is this?", text=ABOUT, href=ABOUT)], form="foot"),
    ]
    text, html = render_mail(subject, blocks)
    return Message(
        to=address,
        subject=subject,
        text=text,
        html=html,
        attributes={"audience": Audience.OWNERS.value, "owner": address.lower(), "resources": len(wrong)},
        resource_ids=tuple(f.case.resource.id for f in wrong),
        card=Card(lines=(f"Owner: {address}. Nothing will be stopped because of that notice.", *lines)),
    )


def _record_correction(context: NoticeContext, mails: NoticeRound, _: str, finding: Finding, receipt: str) -> Part:
    resource_id, hour, now = finding.case.resource.id, _correction_of(finding).hour, mails.context.clock()
    used = format_time(hour, context.time_zone(finding))
    entry = HistoryEntry(
        id=resource_id, when=now, what="corrected", by=receipt, because=f"used on {used}, so its notice was wrong"
    )

    def change(record: Record) -> Record:
        return replace(record, correction=None) if record.correction and record.correction.hour == hour else record

    errors = attempt(lambda: mails.ledger.add_history(entry), lambda: update_record(mails.ledger, resource_id, change, now))
    return Part(errors=errors)
