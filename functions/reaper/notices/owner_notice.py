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
from reaper.model import ACTIONS, NOTICES, Memory, Result, State, StepName
from reaper.notices import commands, forecast
from reaper.notices.item import NoticeContext, amount_text, notice_item, unknown_price_text
from reaper.notices.message import MAX_SUBJECT, AttributeValue, Audience, Message, is_deliverable, is_plain_address
from reaper.planning import possible_actions
from reaper.policy.schema import Owners
from reaper.text import format_usd, tidy_line

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
    subject = subject_line(findings, to_owner, part, context)
    text, html = render_mail(
        "owner",
        subject=subject,
        headline=headline(findings, to_owner, context),
        items=items[:MAX_DETAILED],
        rows=items[MAX_DETAILED:],
        to_owner=to_owner,
        only_hours=is_all_about_hours(findings, context),
        sums=notice_sums(findings),
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
        "usd_per_hour": round(notice_sums(findings).usd_per_hour, 4),
    }


# MERGED The headline and the subject of an owner's message: what is idle or was done, what it costs, what happens next and when. Pure.


MIN_NAME_LENGTH = 20
"""Characters to which a name in a subject may be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSums:
    """What the idle resources of one message cost; `unpriced` of them have no price. `not_acted_on` counts active ones, too."""

    not_acted_on: int
    count: int
    usd_per_hour: float
    wasted: float
    unpriced: int
    acted: int
    saved_per_hour: float


def notice_sums(findings: Sequence[Finding]) -> NoticeSums:
    """The sums of one message."""
    idle = [f for f in findings if f.step.name in NOTICES and f.case.verdict.state is State.IDLE]
    acted = _acted_on(findings)
    return NoticeSums(
        not_acted_on=sum(1 for f in findings if f.step.name in NOTICES),
        count=len(idle),
        usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
        wasted=sum(f.wasted_usd or 0 for f in idle),
        unpriced=sum(1 for f in idle if f.price is None),
        acted=len(acted),
        saved_per_hour=sum(forecast.saved_usd_per_hour(f) for f in acted),
    )


def headline(findings: Sequence[Finding], to_owner: bool, context: NoticeContext, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or what else the message is about; if `brief`, `3 idle, $171 a day`."""
    sums = notice_sums(findings)
    if is_all_about_hours(findings, context) or not (sums.count or sums.acted):
        return _hours_headline(findings, context, brief=brief)
    if not sums.count:
        return _actions_and_hours_headline(findings, context, brief=brief)
    cost = amount_text(sums.usd_per_hour * 24, sums.unpriced) if sums.unpriced < sums.count else ""
    rate = f"{cost} a day" if cost else unknown_price_text(sums.unpriced, sums.count)
    if brief:
        return f"{sums.count}{f' of {sums.not_acted_on}' if sums.not_acted_on > sums.count else ''} idle, {rate}"
    verb = (" costs " if sums.count == 1 else " cost ") if cost else ", "
    return f"{_idle_phrase(sums, to_owner, has_cost=bool(cost))}{verb}{rate}"


def subject_line(findings: Sequence[Finding], to_owner: bool, part: tuple[int, int], context: NoticeContext) -> str:
    """The longest form that fits, marked as a reminder if it is one about something idle; with the name if there is only one, cut if need be."""
    forms = _subject_forms(findings, to_owner, context)
    idle = any(f.case.verdict.state is State.IDLE for f in findings) and not is_all_about_hours(findings, context)
    reminder = "Reminder: " if idle and all(f.step.name is StepName.REMIND for f in findings) else ""
    name = tidy_line(findings[0].case.resource.name, 60, joiners=False) if len(findings) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    before = f"{'[Sample] ' if context.sample else ''}{reminder}"
    for form in forms:
        room = MAX_SUBJECT - len(f"{before}{form}: {number}")
        if room >= min(len(name), MIN_NAME_LENGTH):
            short_name = f": {tidy_line(name, room, joiners=False)}" if name else ""
            return tidy_line(f"{before}{form}{short_name}{number}", MAX_SUBJECT, joiners=False)
    return f"{tidy_line(f'{before}{forms[-1]}', MAX_SUBJECT - len(number), joiners=False)}{number}"


def is_all_about_hours(findings: Sequence[Finding], context: NoticeContext) -> bool:
    """Whether every notice is about office hours as such, so that the headline doesn't mention idleness."""
    return all(_is_about_hours(f, context) for f in findings)


def _idle_phrase(sums: NoticeSums, to_owner: bool, *, has_cost: bool) -> str:
    """`3 idle ML resources`, `3 of 5 ML resources are idle and`: what the message announces is among those its headline counts."""
    whose = "" if to_owner else " with no known owner"
    if sums.not_acted_on == sums.count:
        return f"{_count_phrase(sums.count, 'idle ')}{whose}"
    verb = "is" if sums.count == 1 else "are"
    return f"{sums.count} of {_count_phrase(sums.not_acted_on)}{whose} {verb} idle{' and' if has_cost else ''}"


def _subject_forms(findings: Sequence[Finding], to_owner: bool, context: NoticeContext) -> list[str]:
    """The subject, longest form first: what happens and when stays, count and cost give way."""
    full, short = (headline(findings, to_owner, context, brief=brief) for brief in (False, True))
    if context.sample:
        return [f"{full}; nothing will be stopped"]
    if not notice_sums(findings).count or is_all_about_hours(findings, context):
        return [full, short]
    long_parts, short_parts = (_consequences(findings, context, brief=brief) for brief in (False, True))
    also = _action_phrases(findings)
    if long_parts:
        forms = ([full, *long_parts], [short, *long_parts], [short, *short_parts], short_parts)
        return ["; ".join([*parts, *also]) for parts in forms]
    ending = _no_action_phrase(findings, to_owner, context)
    return ["; ".join([f"{head}{ending}", *also]) for head in (full, short)]


def _consequences(findings: Sequence[Finding], context: NoticeContext, *, brief: bool) -> list[str]:
    """What happens next and when: `1 will be scaled in from Tue 24 Nov`; if `brief`, `1 will be acted on from Tue 24 Nov`."""
    known = (context.mode, context.memories, context.now)
    coming = forecast.next_actions(findings, *known)
    enrolled = forecast.next_enrolments(findings, *known)
    today = forecast.stops_today(findings, *known)
    who = "it" if len(findings) == 1 else ""
    parts = [f"{who or coming.count} {_how_phrase(coming, brief)} {coming.day}"] if coming else []
    parts += [f"{enrolled.count} {_how_phrase(enrolled, brief)} outside office hours {enrolled.day}"] if enrolled else []
    return parts + ([f"{today.count} {_how_phrase(today, brief)} {today.today}, even while used"] if today else [])


def _how_phrase(coming: forecast.ActionForecast, brief: bool) -> str:
    return coming.brief if brief else coming.how


def _no_action_phrase(findings: Sequence[Finding], to_owner: bool, context: NoticeContext) -> str:
    """That nothing happens automatically: ` until you stop it`; or that office hours apply."""
    if on_hours := sum(_is_about_hours(f, context) for f in findings):
        return f"; office hours apply to {on_hours}"
    sums = notice_sums(findings)
    until = f"until you stop {'it' if sums.count == 1 else 'them'}" if to_owner else "until stopped"
    runs = f"; {'it runs' if sums.count == 1 else 'they run'}" if sums.unpriced == sums.count else ""
    return f"{runs} {until}"


def _action_phrases(findings: Sequence[Finding]) -> list[str]:
    """What was done besides, or may have been: `1 was deleted`, `1 may have been deleted, please check`."""
    done, unsure = _done_and_unsure(findings)
    parts = [f"{len(done)} {'was' if len(done) == 1 else 'were'} {_participles(done)}"] if done else []
    parts += [_interrupted_phrase(findings)] if _interrupted_phrase(findings) else []
    return parts + ([f"{len(unsure)} may have been {_participles(unsure)}, please check"] if unsure else [])


def _acted_on(findings: Sequence[Finding]) -> list[Finding]:
    return [f for f in findings if f.step.name in ACTIONS]


def _done_and_unsure(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    acted = _acted_on(findings)
    done = [f for f in acted if f.outcome.result is Result.DONE]
    return done, [f for f in acted if f.outcome.result is Result.FAILED]


def _interrupted_phrase(findings: Sequence[Finding]) -> str:
    """`1 action was interrupted, and nothing has changed`; empty if none was."""
    count = sum(f.outcome.result is Result.REFUSED for f in _acted_on(findings))
    return f"{count} action{' was' if count == 1 else 's were'} interrupted, and nothing has changed" if count else ""


def _participles(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {
        forecast.done_participle(f) if f.outcome.result is Result.DONE else forecast.participle(f, f.step.name) for f in acted
    }
    return " or ".join(sorted(named))


def _is_about_hours(finding: Finding, context: NoticeContext) -> bool:
    memory = context.memories.get(finding.case.resource.id, Memory())
    return forecast.is_about_hours(finding, context.mode, memory, context.now)


def _hours_headline(findings: Sequence[Finding], context: NoticeContext, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    known = (context.mode, context.memories, context.now)
    if today := forecast.stops_today(findings, *known):
        return f"{_count_phrase(today.count)} {_how_phrase(today, brief)} {today.today}, even while used"
    summary = forecast.summary_name(f for f in findings if f.step.name is StepName.REMIND)
    if enrolled := forecast.next_enrolments(findings, *known):
        rest = f"; {summary} of {len(findings) - enrolled.count} more" if len(findings) > enrolled.count else ""
        return f"{_count_phrase(enrolled.count)} {_how_phrase(enrolled, brief)} outside office hours {enrolled.day}{rest}"
    return f"{summary.capitalize()}: office hours apply to {_count_phrase(len(findings))}"


def _count_phrase(count: int, which: str = "") -> str:
    return f"{count} {which}ML resource{'' if count == 1 else 's'}"


def _actions_and_hours_headline(findings: Sequence[Finding], context: NoticeContext, *, brief: bool) -> str:
    """What was done, and what office hours lead to; the latter first if it is new or stops something in use."""
    notices = [f for f in findings if f.step.name in NOTICES]
    actions = _actions_headline(_acted_on(findings), context, brief=brief)
    if not notices:
        return actions
    known = (context.mode, context.memories, context.now)
    hours = _hours_headline(notices, context, brief=brief)
    if forecast.stops_today(notices, *known) or forecast.next_enrolments(notices, *known):
        return f"{hours}; {actions}"
    return f"{actions}; {hours[:1].lower()}{hours[1:]}"


def _actions_headline(acted: Sequence[Finding], context: NoticeContext, *, brief: bool) -> str:
    """What was done, and when the rest follows; what is uncertain is not called done."""
    done, unsure = _done_and_unsure(acted)
    verbs = forecast.ANY_PARTICIPLE if brief else _participles(done or unsure or acted)
    interrupted = _interrupted_phrase(acted)
    if not (done or unsure):
        return interrupted
    ending = f"; {interrupted}" if interrupted else ""
    if not done:
        return f"{_count_phrase(len(unsure))} may have been {verbs}; please check{ending}"
    sums = notice_sums(done)
    saved = f", saving {format_usd(sums.saved_per_hour * 24)} a day" if sums.saved_per_hour and not brief else ""
    also = f"; {len(unsure)} more may have been" if unsure else ""
    rest = forecast.remaining_actions(done, context.mode, context.now)
    then = f"; the rest {_how_phrase(rest, brief)} {rest.day}" if rest else ""
    return f"{_count_phrase(len(done), 'idle ')} {'was' if len(done) == 1 else 'were'} {verbs}{saved}{then}{also}{ending}"
