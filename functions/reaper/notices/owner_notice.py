"""One message per owner about their resources: what is idle, since when, what it costs, what happens next, and how to keep it. Pure.

A message has at most `MAX_DETAILED + MAX_ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every
resource that counts as notified is really in it. More resources make another message. In its subject, what happens and when is never cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from urllib.parse import quote

from reaper.case import is_in_weekly_summary
from reaper.finding import Finding, can_be_kept, is_action, money_of
from reaper.model import NOTICES, Result, State, StepName
from reaper.notices import forecast, item
from reaper.notices.blocks import Block, Card, Line, Look, Paragraph, Row, Section
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, Audience, Message, is_deliverable, is_plain_address
from reaper.notices.render import render_mail
from reaper.policy.schema import Owners
from reaper.prices import price_basis
from reaper.text import count_noun, tidy_line

MAX_DETAILED, MAX_ROWS = 6, 24
MAX_NAMED, MIN_NAME_LENGTH = 5, 20
"""How many resources a mail names that says they belong to another owner, and the characters to which a name in a subject may be cut."""
KEEP_NOTE = "Anyone here can use the Keep it link. It keeps resources for a time, and can't stop or delete anything."
ROOM = "a chat"
"""The addressee of a room's link. It isn't an address, so by this link the page shortens no snooze and takes no "not mine"."""


class Letter:
    """What one message is about. `idle`: what its idle resources cost, `wasted` already. `announced`: how many aren't acted on, active ones too.

    `done` and `unsure`: what was acted on, or may have been; `interrupted`: a phrase about what wasn't. `about_hours`: how many of these notices are
    about office hours as such; `only_hours`: all, so the headline doesn't mention idleness. `coming`, `enrolled`, `today`: what it says will happen.
    """

    def __init__(self, findings: Sequence[Finding], to_owner: bool, context: NoticeContext) -> None:
        self.findings, self.to_owner, self.context = findings, to_owner, context
        notices, acted = [f for f in findings if f.step.name in NOTICES], [f for f in findings if is_action(f)]
        self.about_hours = sum(f.announced is not None and f.announced.by_hours for f in findings)
        self.only_hours, self.announced = self.about_hours == len(findings), len(notices)
        idle = [f for f in notices if f.case.verdict.state is State.IDLE]
        self.idle, self.wasted = money_of(idle), "" if self.only_hours else item.wasted_text(idle, context)
        results = (Result.DONE, Result.FAILED, Result.REFUSED)
        self.done, self.unsure, refused = ([f for f in acted if f.outcome.result is result] for result in results)
        count = f"{len(refused)} action{' was' if len(refused) == 1 else 's were'}"
        self.interrupted = f"{count} interrupted, and nothing has changed" if refused else ""
        self.coming, self.enrolled, self.today = forecast.announcements(findings, context)


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
        letters = [Letter(part, to_owner, context) for part in parts]
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
    keep = {f.case.resource.id: links.to_keep(f.case.resource.id) for f in findings} if links else {}
    keep_all = links.address if links and len(links.visit.resources) > 1 else ""
    subject = subject_line(letter, part)
    text, html = render_mail(subject, [*_head(letter, keep, keep_all), *_resources(letter, keep), _foot(address, letter, keep)])
    return Message(
        to=address,
        subject=subject,
        short_subject=subject_line(letter, part, MAX_SHORT_SUBJECT),
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
        card=_card(address, letter, zone),
    )


def _card(address: str, letter: Letter, zone: str) -> Card:
    """The card for a room. Its link is the room's own: the owner's is never in it, because that one speaks for the owner."""
    findings, context = letter.findings, letter.context
    room = context.open_visit(ROOM, False, zone, findings) if context.has_room else None
    sample = ["This is a sample. Everything in it is made up, and nothing will be stopped."] if context.sample else []
    whose = f"Owner: {address}." if letter.to_owner else "No known owner. To set one, add the tag reaper:owner."
    first = f"{whose} {letter.wasted}." if letter.wasted else whose
    keep = [KEEP_NOTE] if room else []
    tag = [] if all(map(is_action, findings)) else [f"To keep a resource, add the tag {item.keep_tag(context.now)}."]
    return Card(
        lines=(*sample, first),
        entries=[item.item_entry(n, f, item.fact_lines(f, context), has_bars=False) for n, f in enumerate(findings, 1)],
        notes=(*keep, *tag, f"{price_basis(findings, context.currency)} Run {context.run_id}."),
        keep=room.address if room else None,
        visit=room.visit if room else None,
    )


def _head(letter: Letter, keep: Mapping[str, str | None], keep_all: str) -> list[Block]:
    """What the message is about, how to keep the resources, and what else to do."""
    sums, coming, count, tag = letter.idle, letter.coming, len(letter.findings), item.keep_tag(letter.context.now)
    blocks, ways = list[Block](), list[Line]()
    if letter.context.sample:
        which = "The resource in it is" if count == 1 else f"All {count} resources in it are"
        text = f"This is a sample. {which} made up, and nothing will be stopped."
        blocks.append(Paragraph(lines=[Line(text=text, look=Look.NOTE)]))
    wasted = f"; {letter.wasted}" if letter.wasted else ""
    head = [Line(text=headline(letter), besides=f"{wasted}.", look=Look.TITLE)]
    if sums.unpriced and sums.usd_per_hour and not letter.only_hours:
        head.append(Line(text=f"The price of {sums.unpriced} of them is unknown.", look=Look.DIM))
    if coming:
        who = "It" if count == 1 else "All" if coming.count == count else coming.count
        first = ", the first" if coming.count > 1 else ""
        text = f"{who} {coming.how}{first} {coming.time} unless used or kept before then."
        head.append(Line(text=text, look=Look.NOTE))
    if keep_all:
        ways = [
            Line(label="Still needed? Keep all or some of them:", text=keep_all, href=keep_all, look=Look.BUTTON),
            Line(text=f"To keep one, open its Keep it link, or add the tag {tag}."),
        ]
    else:
        how = "Open its Keep it link, or add" if any(map(item.safe_link, keep.values())) else "Add"
        ways = [Line(text=f"Still needed? {how} the tag {tag}{' to each' if count > 1 else ''}.")]
    if sums.count:
        which = "it" if count == 1 else "them"
        ways.append(Line(text=f"No longer needed? Stop or delete {which}, and these notices end.", look=Look.DIM))
    may_keep = [Paragraph(lines=ways)] if any(map(can_be_kept, letter.findings)) else []
    return [*blocks, Paragraph(lines=head), *may_keep]


def _resources(letter: Letter, keep: Mapping[str, str | None]) -> list[Block]:
    """The first resources in full, the others in brief, all with their links and commands."""
    blocks, rows, context, to_owner = list[Block](), list[Row](), letter.context, letter.to_owner
    for number, finding in enumerate(letter.findings, 1):
        link, brief = keep.get(finding.case.resource.id), number > MAX_DETAILED
        links = item.link_lines(finding, context, link, to_owner=to_owner, brief=brief)
        if brief:
            length = item.idle_length(finding)
            rest = f"{f', idle for {length}' if length else ''}. {item.next_text(finding, context)}"
            row = item.item_row(finding, item.cost_line(finding, context).text, rest, links)
            rows.append(replace(row, between="\n  "))
        else:
            owner = [] if to_owner else [Line(label="Owner:", text=tidy_line(finding.case.owner.source, 200), look=Look.DIM)]
            lines = [*item.idle_line(finding, context), *item.fact_lines(finding, context), *links, *owner]
            blocks.append(item.item_entry(number, finding, lines))
    return [*blocks, Section(title="", after=f"And {len(rows)} more:\n", rows=rows)] if rows else blocks


def _foot(address: str, letter: Letter, keep: Mapping[str, str | None]) -> Paragraph:
    """Where to ask, and why this reader gets it. There is no one to ask if the contact is the reader, or the reader stands in for an owner."""
    has_link = letter.to_owner and any(map(item.safe_link, keep.values()))
    ask = "Not yours? Open a Keep it link and choose Not mine. Questions?" if has_link else "Not yours, or questions?"
    unknown = "this resource has" if len(letter.findings) == 1 else "these resources have"
    why = f"{unknown} no known owner. To set one, add the tag reaper:owner."
    why = "a tag or your cloud provider lists you as the owner." if letter.to_owner else why
    contact = letter.context.owners.contact or letter.context.owners.fallback or ""
    may_ask = letter.to_owner and is_plain_address(contact) and contact.lower() != address.lower()
    to = _mailto(contact, letter.findings)
    line = Line(label=f"{ask} Contact", text=contact, besides=".", look=Look.CONTACT, href=to)
    return item.signature(why, letter.findings, letter.context, [line] if may_ask else [])


def _mailto(contact: str, findings: Sequence[Finding]) -> str:
    name = item.shown_name(findings[0].case.resource, 60)
    subject = f"Not my resource: {name}" if len(findings) == 1 else f"Not my resources: {len(findings)} ML resources"
    more = [f"and {len(findings) - MAX_NAMED} more"] if len(findings) > MAX_NAMED else []
    body = "\r\n".join([subject, "", *(tidy_line(f.case.resource.id, 300) for f in findings[:MAX_NAMED]), *more])
    fields = f"subject={quote(subject, safe='')}&body={quote(body, safe='')}"
    return f"mailto:{quote(contact, safe='@')}?{fields}"


def subject_line(letter: Letter, part: tuple[int, int], most: int = MAX_SUBJECT) -> str:
    """The longest form that fits in `most` characters, marked as a reminder if it is one about something idle; with the name if there is only one, cut if need be."""
    findings, forms = letter.findings, _subject_forms(letter)
    idle = any(f.case.verdict.state is State.IDLE for f in findings) and not letter.only_hours
    reminder = "Reminder: " if idle and all(f.step.name is StepName.REMIND for f in findings) else ""
    name = tidy_line(findings[0].case.resource.name, 60, joiners=False) if len(findings) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    before = f"{'[Sample] ' if letter.context.sample else ''}{reminder}"
    for form in forms:
        room = most - len(f"{before}{form}: {number}")
        if room >= min(len(name), MIN_NAME_LENGTH):
            short_name = f": {tidy_line(name, room, joiners=False)}" if name else ""
            return tidy_line(f"{before}{form}{short_name}{number}", most, joiners=False)
    return f"{tidy_line(f'{before}{forms[-1]}', most - len(number), joiners=False)}{number}"


def _subject_forms(letter: Letter) -> list[str]:
    """The subject, longest form first: what happens and when stays, count and cost give way."""
    full, short = (headline(letter, brief=brief) for brief in (False, True))
    if letter.context.sample:
        return [f"{full}; nothing will be stopped"]
    if not letter.idle.count or letter.only_hours:
        return [full, short]
    done, unsure, also = letter.done, letter.unsure, list[str]()
    if done:
        also.append(f"{len(done)} {'was' if len(done) == 1 else 'were'} {_participles(done)}{_saving_phrase(letter)}")
    if letter.interrupted:
        also.append(letter.interrupted)
    if unsure:
        also.append(f"{len(unsure)} may have been {_participles(unsure)}, please check")
    long_parts, short_parts = (_consequences(letter, brief=brief) for brief in (False, True))
    if long_parts:
        forms = ([full, *long_parts], [short, *long_parts], [short, *short_parts], short_parts)
        return ["; ".join([*parts, *also]) for parts in forms]
    ending = _no_action_phrase(letter)
    return ["; ".join([f"{head}{ending}", *also]) for head in (full, short)]


def headline(letter: Letter, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or what else the message is about; if `brief`, `3 idle, $171 a day`."""
    idle = letter.idle
    if letter.only_hours or not (idle.count or any(map(is_action, letter.findings))):
        return hours_headline(letter, brief=brief)
    if not idle.count:
        actions = _actions_headline(letter, brief=brief)
        hours = hours_headline(letter, brief=brief) if letter.announced else ""
        if letter.today or letter.enrolled:  # what is new, or stops something in use, comes first
            return f"{hours}; {actions}"
        return f"{actions}; {hours[:1].lower()}{hours[1:]}" if hours else actions
    if brief:
        among = f" of {letter.announced}" if letter.announced > idle.count else ""
        return f"{idle.count}{among} idle, {item.rate_text(idle, letter.context)}"
    # What the message announces is among those its headline counts.
    whose = "" if letter.to_owner else " with no known owner"
    which = f"{count_noun(idle.count, 'idle ML resource')}{whose}"
    if letter.announced != idle.count:
        also = " and" if item.has_cost(idle) else ""
        verb = "is" if idle.count == 1 else "are"
        which = f"{idle.count} of {count_noun(letter.announced, 'ML resource')}{whose} {verb} idle{also}"
    return item.cost_sentence(which, idle, letter.context)


def _consequences(letter: Letter, *, brief: bool) -> list[str]:
    """What happens next and when: `1 will be scaled in from Tue 24 Nov`; if `brief`, `1 will be acted on from Tue 24 Nov`."""
    coming, enrolled, today = letter.coming, letter.enrolled, letter.today
    who = "it" if len(letter.findings) == 1 else "all" if coming and coming.count == len(letter.findings) else ""
    parts = [f"{who or coming.count} {coming.verbs(brief=brief)} {coming.day}"] if coming else []
    parts += [f"{enrolled.count} {enrolled.verbs(brief=brief)} outside office hours {enrolled.day}"] if enrolled else []
    return parts + ([f"{today.count} {today.verbs(brief=brief)} {today.today}, even while used"] if today else [])


def _no_action_phrase(letter: Letter) -> str:
    """That nothing happens automatically: ` until you stop it`; or that office hours apply."""
    if letter.about_hours:
        return f"; office hours apply to {letter.about_hours}"
    idle = letter.idle
    until = f"until you stop {'it' if idle.count == 1 else 'them'}" if letter.to_owner else "until stopped"
    runs = f"; {'it runs' if idle.count == 1 else 'they run'}" if idle.unpriced == idle.count else ""
    return f"{runs} {until}"


def _saving_phrase(letter: Letter) -> str:
    """`, saving $24.00 a day`; empty if what was done saves nothing, or the price is unknown."""
    saves = sum(map(item.lasting_saving, letter.done))
    return f", saving {letter.context.rate(saves)}" if saves else ""


def _participles(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {
        forecast.done_participle(f) if f.outcome.result is Result.DONE else forecast.participle(f, f.step.name) for f in acted
    }
    return " or ".join(sorted(named))


def hours_headline(letter: Letter, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    today, enrolled = letter.today, letter.enrolled
    if today:
        return f"{count_noun(today.count, 'ML resource')} {today.verbs(brief=brief)} {today.today}, even while used"
    summary = forecast.summary_name(f for f in letter.findings if f.step.name is StepName.REMIND)
    if enrolled:
        rest = f"; {summary} of {letter.announced - enrolled.count} more" if letter.announced > enrolled.count else ""
        which = count_noun(enrolled.count, "ML resource")
        return f"{which} {enrolled.verbs(brief=brief)} outside office hours {enrolled.day}{rest}"
    return f"{summary.capitalize()}: office hours apply to {count_noun(letter.announced, 'ML resource')}"


def _actions_headline(letter: Letter, *, brief: bool) -> str:
    """What was done, and when the rest follows; what is uncertain is not called done."""
    done, unsure, interrupted = letter.done, letter.unsure, letter.interrupted
    if not (done or unsure):
        return interrupted
    verbs = forecast.ANY_PARTICIPLE if brief else _participles(done or unsure)
    ending = f"; {interrupted}" if interrupted else ""
    if not done:
        return f"{count_noun(len(unsure), 'ML resource')} may have been {verbs}; please check{ending}"
    saved = "" if brief else _saving_phrase(letter)
    also = f"; {len(unsure)} more may have been" if unsure else ""
    rest, deleted = (forecast.following_actions(done, letter.context, rest=rest) for rest in (True, False))
    then = f"; the rest {rest.verbs(brief=brief)} {rest.day}" if rest else ""
    which = "it" if len(done) == 1 else "all" if deleted and deleted.count == len(done) else deleted.count if deleted else ""
    then += f"; {which} {deleted.verbs(brief=brief)} {deleted.day}" if deleted else ""
    return f"{count_noun(len(done), 'idle ML resource')} {'was' if len(done) == 1 else 'were'} {verbs}{saved}{then}{also}{ending}"
