"""One message per owner about their resources: what is idle, since when, what it costs, what happens next, and how to keep it. Pure.

A message has at most `MAX_DETAILED + MAX_ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every
resource that counts as notified is really in it. More resources make another message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from reaper.case import Finding
from reaper.model import ACTIONS, NOTICES, Result
from reaper.notices import commands, forecast, owner_headline
from reaper.notices.item import NoticeContext, notice_item
from reaper.notices.message import AttributeValue, Audience, Message, is_deliverable, is_plain_address
from reaper.planning import possible_actions
from reaper.policy.schema import Owners
from reaper.text import tidy_line

MAX_DETAILED, MAX_ROWS = 6, 24
MAX_NAMED = 5
"""How many resources a mail names that says they belong to another owner."""


def owner_notices(findings: Sequence[Finding], context: NoticeContext) -> list[Message]:
    """The messages, by address. A finding without an address that mail may go to is in no message's `resource_ids`."""
    messages = []
    for (address, to_owner), group in _grouped_by_address(findings, context):
        size = MAX_DETAILED + MAX_ROWS
        parts = [group[i : i + size] for i in range(0, len(group), size)]
        messages += [_owner_message(address, to_owner, part, (n, len(parts)), context) for n, part in enumerate(parts, 1)]
    return messages


def is_reportable(finding: Finding) -> bool:
    """Whether its owner gets mail about this finding: a notice that is due, or an action that was made or may have been.

    What office hours stop and start every day is in the weekly summary.
    """
    if finding.step.name in NOTICES:
        return True
    # What went with its host is the reaper's doing, too, and may have another owner.
    done = finding.outcome.result is Result.DONE and (not finding.outcome.already_done or finding.outcome.host_id is not None)
    usual = done and possible_actions.is_in_weekly_summary(finding.case, finding.step.name)
    interrupted = finding.outcome.result in {Result.FAILED, Result.REFUSED} and finding.outcome.begun
    return finding.step.name in ACTIONS and not usual and (done or interrupted)


def notice_address(finding: Finding, owners: Owners) -> tuple[str, bool] | None:
    """Where a notice about it goes, and whether that is its owner; else it is the fallback, which stands in."""
    address = finding.owner.address
    if address and is_deliverable(address, owners.domains, owners.fallback):
        return address, not (address == owners.fallback and finding.owner.source.startswith("fallback"))
    if owners.fallback and is_deliverable(owners.fallback, (), owners.fallback):
        return owners.fallback, False
    return None


def _grouped_by_address(findings: Sequence[Finding], context: NoticeContext) -> Iterator[tuple[tuple[str, bool], list[Finding]]]:
    addressed = [(to, f) for f in findings if is_reportable(f) and (to := notice_address(f, context.owners))]
    addressed.sort(key=lambda pair: (pair[0][0].lower(), pair[0][1]))
    for _, group in groupby(addressed, key=lambda pair: (pair[0][0].lower(), pair[0][1])):
        pairs = list(group)
        yield pairs[0][0], sorted((f for _, f in pairs), key=_cost_order)


def _cost_order(finding: Finding) -> tuple[bool, bool, float, str]:
    """Idle resources before those acted on, then by money, those without a price last."""
    price = finding.price.usd_per_hour if finding.price else 0.0
    return finding.step.name in ACTIONS, finding.price is None, -price, finding.case.resource.name


def _owner_message(
    address: str, to_owner: bool, findings: Sequence[Finding], part: tuple[int, int], context: NoticeContext
) -> Message:
    from reaper.notices.render import render_mail

    items = [notice_item(f, context, for_admins=not to_owner) for f in findings]
    subject = owner_headline.subject_line(findings, to_owner, part, context)
    text, html = render_mail(
        "owner",
        subject=subject,
        headline=owner_headline.headline(findings, to_owner, context),
        items=items[:MAX_DETAILED],
        rows=items[MAX_DETAILED:],
        to_owner=to_owner,
        only_hours=owner_headline.is_all_about_hours(findings, context),
        sums=owner_headline.notice_sums(findings),
        coming=forecast.next_actions(findings, context.mode, context.memories, context.now),
        tag=commands.keep_tag(context.now),
        part=part,
        context=context,
        contact=_contact_for(address, findings, to_owner, context.owners),
    )
    return Message(
        to=address,
        subject=subject,
        text=text,
        html=html,
        audience=Audience.OWNERS,
        attributes=_attributes(address, findings),
        resource_ids=tuple(f.case.resource.id for f in findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """Where an owner can ask, and a mailto link that names the resources."""

    address: str
    mailto: str


def _contact_for(address: str, findings: Sequence[Finding], to_owner: bool, owners: Owners) -> Contact | None:
    """`owners.contact`, else the fallback. None if neither is set, or if the reader is that very address or stands in for an owner."""
    contact = owners.contact or owners.fallback or ""
    if not to_owner or not is_plain_address(contact) or contact.lower() == address.lower():
        return None
    names = [tidy_line(f.case.resource.name, 60) or "(no name)" for f in findings]
    subject = f"Not my resource: {names[0]}" if len(names) == 1 else f"Not my resources: {len(names)} ML resources"
    more = [f"and {len(findings) - MAX_NAMED} more"] if len(findings) > MAX_NAMED else []
    body = "\n".join([subject, "", *(tidy_line(f.case.resource.id, 300) for f in findings[:MAX_NAMED]), *more])
    fields = f"subject={quote(subject, safe='')}&body={quote(body.replace(chr(10), chr(13) + chr(10)), safe='')}"
    return Contact(address=contact, mailto=f"mailto:{quote(contact, safe='@')}?{fields}")


def _attributes(address: str, findings: Sequence[Finding]) -> dict[str, AttributeValue]:
    """What subscriptions can filter on; ten at most, the limit of SNS's raw delivery."""
    return {
        "audience": Audience.OWNERS.value,
        "owner": address.lower(),
        "action": tuple(sorted({f.step.name.value for f in findings})),
        "kind": tuple(sorted({f.case.resource.kind for f in findings})),
        "cloud": tuple(sorted({f.case.resource.target.cloud for f in findings})),
        "account": tuple(sorted({f.case.resource.target.account for f in findings})),
        "resources": len(findings),
        "usd_per_hour": round(owner_headline.notice_sums(findings).usd_per_hour, 4),
    }
