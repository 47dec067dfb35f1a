"""Sends escalations: once an owner was reminded so often that `escalate` in the policy asks for it, others get a mail about the resource.

It is no notice. It moves no date, starts no grace, and has no owner's link. The resource's record has each addressee whose mail a channel
accepted, so each gets it once for one series of reminders. The next run tries again what was refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from reaper.case import may_act
from reaper.coverage import own_row
from reaper.finding import Finding, money_of
from reaper.ledger.ledger import update_record
from reaper.ledger.rows import HistoryEntry, Recalled, remembered_ids
from reaper.model import Resource, StepName
from reaper.notices import item
from reaper.notices.blocks import Block, Card, Entry, Line, Look, Paragraph
from reaper.notices.context import NoticeRound, Part, attempt
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import MAX_SUBJECT, Audience, Message, is_deliverable
from reaper.notices.render import render_mail
from reaper.notices.sending import send_by_address
from reaper.policy.owners import SEVERAL, shown
from reaper.policy.schema import Escalate
from reaper.policy.tags import tag_values
from reaper.policy.values import ADMINS, TAG_ADDRESSEE
from reaper.record import Notice, Record, dated_ahead_because
from reaper.text import count_noun, format_time, tidy_line


def send_escalations(escalate: Escalate, notices: NoticeContext, mails: NoticeRound) -> NoticeRound:
    """Send each addressee one mail about up to MAX_RESOURCES resources. An addressee that no mail may go to is a row in the report."""
    waiting: dict[str, list[Finding]] = defaultdict(list)
    unsent: dict[str, list[str]] = defaultdict(list)
    for finding in (f for f in mails.findings.values() if _is_due(f, escalate, mails)):
        addressees, problems = _addressees(finding.case.resource, escalate, mails)
        pending = [to for to in addressees if to not in _notice(finding).escalated_to]
        for to in pending:
            waiting[to].append(finding)
        for problem in problems if pending or not _notice(finding).escalated_to else ():
            unsent[problem].append(item.shown_name(finding.case.resource, 60))
    texts = [f"{count_noun(len(names), 'escalation')} not sent {why} (first: {names[0]})" for why, names in unsent.items()]
    mails = replace(mails, rows=(*mails.rows, own_row("escalations", "; ".join(texts)))) if texts else mails
    is_owed, accept = partial(_is_owed, mails), partial(_record, mails)
    return send_by_address(waiting, is_owed, partial(escalation_message, escalate, notices), accept, mails)


def escalation_message(escalate: Escalate, context: NoticeContext, addressee: str, findings: Sequence[Finding]) -> Message:
    """The owners' reminder of these, without their links and commands: what it costs, what comes next, and what its reader can do."""
    to_admins, money, one = addressee == ADMINS, money_of(findings), len(findings) == 1
    audience = Audience.ADMINS if to_admins else Audience.OWNERS
    context = replace(context, audience=audience)
    headline = item.cost_sentence(count_noun(money.count, "idle ML resource"), money, context)
    about = headline if item.has_cost(money) else f"{count_noun(money.count, 'ML resource')} still idle"
    which = f": {findings[0].case.resource.name}" if one else ""
    subject = tidy_line(f"Escalation: {about} despite reminders{which}", MAX_SUBJECT, joiners=False)
    was, it, them, the_owner, each = (
        ("Its owner was", "it's", "it", "the owner", "")
        if one
        else ("Their owners were", "they're", "them", "the owners", " to each")
    )
    wasted, tag = item.wasted_text(findings, context), item.keep_tag(context.now)
    idle = f"{f'; {wasted}' if wasted else ''}. {was} notified and reminded, and {it} still idle."
    ways = [
        f"Ask {the_owner} whether {it} still needed.",
        f"Still needed? Ask {the_owner} to keep {them}, or add the tag {tag}{each}.",
        f"No longer needed? Have {them} stopped or deleted, and the notices end.",
    ]
    contact = context.owners.contact or context.owners.fallback or ADMINS
    ways += [f"Questions? Ask {contact}."] if addressee not in (ADMINS, contact.lower()) else []
    moves = "This mail is for your information: it moves no date, and nothing is stopped because of it. What you can do:"
    named_by = dict.fromkeys(to if to.startswith(TAG_ADDRESSEE) else "the policy" for to in escalate.to if to != ADMINS)
    names = " or ".join(named_by).replace("tag:", "the tag ")
    why = "the policy sends escalations to admins" if to_admins else f"{names} names you for escalations"
    blocks: list[Block] = [
        Paragraph(lines=[Line(text=headline, besides=idle, look=Look.TITLE)]),
        Paragraph(lines=[Line(text=moves)]),
        Paragraph(lines=[Line(text=way, look=Look.BULLET) for way in ways]),
        *(_entry(number, finding, context) for number, finding in enumerate(findings, 1)),
        item.signature(f"{why}.\n", findings, context),
    ]
    text, html = render_mail(subject, blocks)
    return Message(
        to=(context.owners.fallback or "") if to_admins else addressee,
        subject=subject,
        text=text,
        html=html,
        audience=audience,
        attributes={
            "audience": audience.value,
            "owner": "" if to_admins else addressee,
            "action": ("escalate",),
            "resources": money.count,
        },
        resource_ids=tuple(f.case.resource.id for f in findings),
        card=Card(entries=[_card_entry(number, finding, context) for number, finding in enumerate(findings, 1)]),
    )


def _entry(number: int, finding: Finding, context: NoticeContext) -> Entry:
    """The owner's reminder of it, without bars and the owner's links, and who got it and when."""
    owner, notice, tz = finding.case.owner, _notice(finding), context.time_zone(finding)
    is_fallback = owner.source.startswith("fallback")
    who = f"unknown; notices go to {owner.address}" if is_fallback else f"{owner.address} ({owner.source})"
    count = "once" if notice.reminders == 1 else f"{notice.reminders} times, last"
    warned, reminded = (format_time(at, tz) if at else "" for at in (notice.warned_at, notice.reminded_at))
    *facts, comes = item.fact_lines(finding, context)
    lines = [
        Line(label="Owner:", text=tidy_line(who, 300)),
        Line(text=f"Notified on {warned}, then reminded {count} on {reminded}."),
        *item.idle_line(finding, context),
        *facts,
        replace(comes, text=comes.text.replace("until you stop it", "until it's stopped")),
        *item.tag_line(finding, context),
    ]
    return item.item_entry(number, finding, lines, has_bars=False)


def _card_entry(number: int, finding: Finding, context: NoticeContext) -> Entry:
    reminded = f"{count_noun(_notice(finding).reminders, 'reminder')} to {shown(finding.case.owner)}."
    facts = item.fact_lines(finding, context, f"{reminded} {item.next_text(finding, context)}")
    return item.item_entry(number, finding, facts, has_bars=False)


def _is_due(finding: Finding, escalate: Escalate, mails: NoticeRound) -> bool:
    """Whether its series of reminders is long enough and still goes on: the same idle period and owner, and nothing keeps it."""
    step, has_jumped = finding.step.name, any(jump.kind == finding.case.resource.kind for jump in mails.jumps)
    return (
        _notice(finding).reminders >= escalate.after
        # While an idle share is unusual, only what is reminded in this very run is escalated.
        and (step is StepName.REMIND or (step is StepName.NONE and not has_jumped))
        and may_act(finding.case)
        and not dated_ahead_because(finding.record or Record(), mails.context.clock())
    )


def _addressees(resource: Resource, escalate: Escalate, mails: NoticeRound) -> tuple[list[str], list[str]]:
    """Who may get it, and who may not and why. A tag that the resource lacks matters only if that leaves no one."""
    owners, allowed, refused, lacking = mails.context.policy.owners, list[str](), list[str](), list[str]()
    has_admins = any(Audience.ADMINS in channel.readers for channel in mails.context.channels)
    for to in escalate.to:
        by_tag = [value.strip() for _, value in tag_values(resource.tags, to.removeprefix(TAG_ADDRESSEE))]
        addresses = by_tag if to.startswith(TAG_ADDRESSEE) else [to]
        usable = [each for each in addresses if is_deliverable(each, owners.domains, owners.fallback)]
        if has_admins if to == ADMINS else usable:
            allowed.append(to if to == ADMINS else usable[0].lower())
        elif addresses:
            are_several = any(each.count("@") > 1 for each in addresses)
            why = f"its value is {SEVERAL}" if are_several else "its address is not in owners.domains"
            why = "no channel is for them" if to == ADMINS else why
            refused.append(f"to {to}, because {why}")
        else:
            lacking.append(f"to {to}, because there is no such tag")
    return list(dict.fromkeys(allowed)), refused if allowed or refused else lacking


def _notice(finding: Finding) -> Notice:
    """The notice whose series of reminders is escalated; an empty one if there is none."""
    return finding.notice or Notice()


def _is_owed(mails: NoticeRound, addressee: str, finding: Finding, recalled: Recalled) -> bool:
    """Whether it still has to be escalated: neither its notice nor a snooze changed meanwhile."""
    resource = finding.case.resource
    return (
        not recalled.is_unreadable(*remembered_ids(resource))
        and recalled.record(resource.id).notice == finding.notice
        and recalled.snoozes(resource).protections == finding.snoozes
        and not dated_ahead_because(recalled.record(resource.id), mails.context.clock())
        and addressee not in _notice(finding).escalated_to
    )


def _record(mails: NoticeRound, addressee: str, finding: Finding, receipt: str) -> Part:
    resource_id, series, now = finding.case.resource.id, _notice(finding), mails.context.clock()
    because = f"{addressee}: still idle after {count_noun(series.reminders, 'reminder')} to {series.to}"
    entry = HistoryEntry(id=resource_id, when=now, what="escalated", by=receipt, because=because)

    def change(record: Record) -> Record:
        notice = record.notice or Notice()
        names = tuple(sorted({*notice.escalated_to, addressee}))
        return replace(record, notice=replace(notice, escalated_at=notice.escalated_at or now, escalated_to=names))

    errors = attempt(lambda: update_record(mails.ledger, resource_id, change, now), lambda: mails.ledger.add_history(entry))
    changed = change(finding.record or Record())
    return Part(findings={resource_id: replace(finding, record=changed, notice=changed.notice)}, errors=errors)
