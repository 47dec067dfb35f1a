"""One message per owner about their resources: what is idle, since when, what it costs, what happens next, and how to keep it. Pure.

A message has at most `MAX_DETAILED + MAX_ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every
resource that counts as notified is really in it. More resources make another message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from urllib.parse import quote

from reaper.case import is_in_weekly_summary
from reaper.finding import Finding, is_action
from reaper.model import NOTICES, Result
from reaper.notices.blocks import Block, Line, Look, Paragraph, Row, Section, render_mail
from reaper.notices.chat_card import owner_card
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import Item, fact_lines, idle_line, item_entry, item_row, keep_tag, notice_item, shown_name, signature
from reaper.notices.letter import Letter, headline, letter_about, subject_line
from reaper.notices.message import Audience, Message, is_deliverable, is_plain_address
from reaper.policy.schema import Owners
from reaper.text import tidy_line

MAX_DETAILED, MAX_ROWS = 6, 24
MAX_NAMED = 5
"""How many resources a mail names that says they belong to another owner."""


def owner_notices(findings: Sequence[Finding], context: NoticeContext) -> list[Message]:
    """The messages, by address. A finding without an address that mail may go to is in no message's `resource_ids`."""
    messages, size = [], MAX_DETAILED + MAX_ROWS
    groups = defaultdict[tuple[str, bool], list[tuple[str, Finding]]](list)
    for finding in filter(is_reportable, findings):
        if to := notice_address(finding, context.owners):
            groups[to[0].lower(), to[1]].append((to[0], finding))
    for (_, to_owner), addressed in sorted(groups.items(), key=itemgetter(0)):
        group = sorted((f for _, f in addressed), key=_cost_order)
        parts = [group[i : i + size] for i in range(0, len(group), size)]
        letters = [letter_about(part, to_owner, context) for part in parts]
        messages += [_owner_message(addressed[0][0], letter, (n, len(parts))) for n, letter in enumerate(letters, 1)]
    return messages


def is_reportable(finding: Finding) -> bool:
    """Whether its owner gets mail about this finding: a notice that is due, or an action that was made or may have been.

    What office hours stop and start every day is in the weekly summary.
    """
    if finding.step.name in NOTICES:
        return True
    done = finding.outcome.result is Result.DONE and not finding.outcome.already_done
    usual = done and is_in_weekly_summary(finding.case, finding.step.name)
    interrupted = finding.outcome.result in {Result.FAILED, Result.REFUSED} and finding.outcome.begun
    return is_action(finding) and not usual and (done or interrupted)


def notice_address(finding: Finding, owners: Owners) -> tuple[str, bool] | None:
    """Where a notice about it goes, and whether that is its owner; else it is the fallback, which stands in."""
    address = finding.case.owner.address
    if address and is_deliverable(address, owners.domains, owners.fallback):
        return address, not (address == owners.fallback and finding.case.owner.source.startswith("fallback"))
    if owners.fallback and is_deliverable(owners.fallback, (), owners.fallback):
        return owners.fallback, False
    return None


def _cost_order(finding: Finding) -> tuple[bool, bool, float, str]:
    """Idle resources before those acted on, then by money, those without a price last."""
    price = finding.case.price.usd_per_hour if finding.case.price else 0.0
    return is_action(finding), finding.case.price is None, -price, finding.case.resource.name


def _owner_message(address: str, letter: Letter, part: tuple[int, int]) -> Message:
    findings, context = letter.findings, letter.context
    zones = {context.time_zone(f) for f in findings}
    zone = zones.pop() if len(zones) == 1 else context.owners.tz
    links = context.open_visit(address, letter.to_owner, zone, findings)
    keep = [links.to_keep(f.case.resource.id) if links else None for f in findings]
    items = [notice_item(f, context, link, for_admins=not letter.to_owner) for f, link in zip(findings, keep, strict=True)]
    keep_all = links.address if links and len(links.visit.resources) > 1 else ""
    whose = f"Owner: {address}." if letter.to_owner else "No known owner. To set one, add the tag reaper:owner."
    wasted = f"{letter.wasted}." if letter.wasted and not letter.only_hours else ""
    subject = subject_line(letter, part)
    text, html = render_mail(subject, _blocks(letter, items, keep_all, _contact_for(address, letter)))
    return Message(
        to=address,
        subject=subject,
        text=text,
        html=html,
        audience=Audience.OWNERS,
        # What subscriptions can filter on; ten at most, the limit of SNS's raw delivery.
        attributes={
            "audience": Audience.OWNERS.value,
            "owner": address.lower(),
            "action": tuple(sorted({f.step.name.value for f in findings})),
            "kind": tuple(sorted({f.case.resource.kind for f in findings})),
            "cloud": tuple(sorted({f.case.resource.target.cloud for f in findings})),
            "account": tuple(sorted({f.case.resource.target.account for f in findings})),
            "resources": len(findings),
            "usd_per_hour": round(letter.idle.usd_per_hour, 4),
        },
        resource_ids=tuple(f.case.resource.id for f in findings),
        visit=links.visit if links else None,
        card=owner_card(f"{whose} {wasted}".strip(), items, findings, zone, context),
    )


def _blocks(letter: Letter, items: Sequence[Item], keep_all: str, contact: str) -> list[Block]:
    """What the message says. The first resources are shown in full, the others in brief, all with their links and commands."""
    context, sums, coming, count = letter.context, letter.idle, letter.coming, len(items)
    blocks: list[Block] = []
    if context.sample:
        which = "The resource in it is" if count == 1 else f"All {count} resources in it are"
        text = f"This is a sample. {which} made up, and nothing will be stopped."
        blocks.append(Paragraph(lines=[Line(text=text, look=Look.NOTE)]))
    wasted = f"; {letter.wasted}" if letter.wasted and not letter.only_hours else ""
    head = [Line(text=headline(letter), besides=f"{wasted}.", look=Look.TITLE)]
    if sums.unpriced and sums.usd_per_hour and not letter.only_hours:
        head.append(Line(text=f"The price of {sums.unpriced} of them is unknown.", look=Look.DIM))
    if coming:
        who = "It" if count == 1 else "All" if coming.count == count else coming.count
        first = ", the first" if coming.count > 1 else ""
        text = f"{who} {coming.how}{first} {coming.time} unless used or kept before then."
        head.append(Line(text=text, look=Look.NOTE))
    blocks.append(Paragraph(lines=head))
    if any(item.can_keep for item in items):
        blocks.append(Paragraph(lines=_keep_lines(items, keep_all, letter)))
    for number, item in enumerate(items[:MAX_DETAILED], 1):
        owner = [] if letter.to_owner else [Line(label="Owner:", text=item.owner, look=Look.DIM)]
        lines = [*idle_line(item), *fact_lines(item), *_links(item, letter), *owner]
        blocks.append(item_entry(number, item, lines))
    if rest := items[MAX_DETAILED:]:
        blocks.append(Section(title="", after=f"And {len(rest)} more:\n", rows=[_row(item, letter) for item in rest]))
    return [*blocks, _signature(letter, items, contact)]


def _keep_lines(items: Sequence[Item], keep_all: str, letter: Letter) -> list[Line]:
    """How to keep them, and what else to do."""
    tag = keep_tag(letter.context.now)
    if keep_all:
        lines = [
            Line(label="Still needed? Keep all or some of them:", text=keep_all, href=keep_all, look=Look.BUTTON),
            Line(text=f"To keep one, open its Keep it link, or add the tag {tag}."),
        ]
    else:
        how = "Open its Keep it link, or add" if any(item.snooze_link for item in items) else "Add"
        lines = [Line(text=f"Still needed? {how} the tag {tag}{' to each' if len(items) > 1 else ''}.")]
    if letter.idle.count:
        which = "it" if len(items) == 1 else "them"
        lines.append(Line(text=f"No longer needed? Stop or delete {which}, and these notices end.", look=Look.DIM))
    return lines


def _links(item: Item, letter: Letter, *, brief: bool = False) -> list[Line]:
    """Its owner's links and commands. In brief, without the tag, which is above, and without how to undo what hasn't been done."""
    lines, link = [], item.snooze_link
    if link:
        lines.append(Line(label="Keep it:", text=link, href=link, look=Look.BUTTON))
    if item.tag_command and item.can_keep and not brief:
        lines.append(Line(label="Or add a tag:" if link else "To keep it, add a tag:", text=item.tag_command, look=Look.CODE))
    if item.stop:
        lines.append(Line(label=f"{item.stop.label}:", text=item.stop.line, look=Look.CODE))
    if item.console:
        label = "Or in the console:" if item.stop else "In the console:"
        lines.append(Line(label=label, text=item.console, href=item.console, look=Look.LINK))
    if item.undo and (item.acted or not brief):
        asks = ", ask your admins to run" if item.undo_needs_admin and letter.to_owner else ":"
        lines.append(Line(label=f"To undo this{'' if item.acted else ' later'}{asks}", text=item.undo, look=Look.CODE))
    return lines


def _row(item: Item, letter: Letter) -> Row:
    idle = f", idle for {item.length}" if item.length else ""
    rest, lines = f"{idle}. {item.next_sentence}", _links(item, letter, brief=True)
    return replace(item_row(item, item.cost.text, rest, lines), between="\n  ")


def _signature(letter: Letter, items: Sequence[Item], contact: str) -> Paragraph:
    """Where to ask, and why this reader gets it."""
    has_link = letter.to_owner and any(item.snooze_link for item in items)
    ask = "Not yours? Open a Keep it link and choose Not mine. Questions?" if has_link else "Not yours, or questions?"
    unknown = "this resource has" if len(items) == 1 else "these resources have"
    why = f"{unknown} no known owner. To set one, add the tag reaper:owner."
    why = "a tag or your cloud provider lists you as the owner." if letter.to_owner else why
    line = Line(label=f"{ask} Contact", text=contact, besides=".", look=Look.CONTACT, href=_mailto(contact, letter.findings))
    return signature(why, letter.findings, letter.context, [line] if contact else [])


def _contact_for(address: str, letter: Letter) -> str:
    """`owners.contact`, else the fallback. Empty if neither is set, or if the reader is that very address or stands in for an owner."""
    contact = letter.context.owners.contact or letter.context.owners.fallback or ""
    return contact if letter.to_owner and is_plain_address(contact) and contact.lower() != address.lower() else ""


def _mailto(contact: str, findings: Sequence[Finding]) -> str:
    name = shown_name(findings[0].case.resource, 60)
    subject = f"Not my resource: {name}" if len(findings) == 1 else f"Not my resources: {len(findings)} ML resources"
    more = [f"and {len(findings) - MAX_NAMED} more"] if len(findings) > MAX_NAMED else []
    body = "\r\n".join([subject, "", *(tidy_line(f.case.resource.id, 300) for f in findings[:MAX_NAMED]), *more])
    fields = f"subject={quote(subject, safe='')}&body={quote(body, safe='')}"
    return f"mailto:{quote(contact, safe='@')}?{fields}"
