"""One message per owner about their resources: what is idle, since when, what it costs, what happens next, and how to keep it. Pure.

A message has at most `MAX_DETAILED + MAX_ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every
resource that counts as notified is really in it. More resources make another message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from urllib.parse import quote

from reaper.case import is_in_weekly_summary
from reaper.finding import Finding, Money, is_action, money_of
from reaper.model import NOTICES, Result, State, StepName
from reaper.notices import forecast
from reaper.notices.chat_card import owner_card
from reaper.notices.forecast import ActionForecast, NoticeContext
from reaper.notices.item import cost_sentence, has_cost, keep_tag, lasting_saving, notice_item, rate_text, shown_name, wasted_text
from reaper.notices.message import MAX_SUBJECT, Audience, Message, is_deliverable, is_plain_address, render_mail
from reaper.policy.schema import Owners
from reaper.prices import price_basis
from reaper.text import count_noun, tidy_line

MAX_DETAILED, MAX_ROWS = 6, 24
MAX_NAMED = 5
"""How many resources a mail names that says they belong to another owner."""
MIN_NAME_LENGTH = 20
"""Characters to which a name in a subject may be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What one message is about. `idle`: what its idle resources cost, `wasted` already. `announced`: what isn't acted on, active ones too.

    `about_hours`: how many of these notices are about office hours as such. `coming`, `enrolled`, `today`: what it says will happen.
    """

    findings: Sequence[Finding]
    to_owner: bool
    context: NoticeContext
    idle: Money
    wasted: str
    announced: int
    acted: Sequence[Finding]
    about_hours: int
    coming: ActionForecast | None
    enrolled: ActionForecast | None
    today: ActionForecast | None

    @property
    def only_hours(self) -> bool:
        """Whether every notice is about office hours as such, so that the headline doesn't mention idleness."""
        return self.about_hours == len(self.findings)

    @property
    def done(self) -> list[Finding]:
        """What was done."""
        return [f for f in self.acted if f.outcome.result is Result.DONE]

    @property
    def unsure(self) -> list[Finding]:
        """What may have been done."""
        return [f for f in self.acted if f.outcome.result is Result.FAILED]


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
        letters = [_letter(part, to_owner, context) for part in parts]
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


def _letter(findings: Sequence[Finding], to_owner: bool, context: NoticeContext) -> Letter:
    notices = [f for f in findings if f.step.name in NOTICES]
    idle = [f for f in notices if f.case.verdict.state is State.IDLE]
    coming, enrolled, today = forecast.announcements(findings, context)
    return Letter(
        findings=findings,
        to_owner=to_owner,
        context=context,
        idle=money_of(idle),
        wasted=wasted_text(idle, context),
        announced=len(notices),
        acted=[f for f in findings if is_action(f)],
        about_hours=sum(f.announced is not None and f.announced.by_hours for f in findings),
        coming=coming,
        enrolled=enrolled,
        today=today,
    )


def _owner_message(address: str, letter: Letter, part: tuple[int, int]) -> Message:
    findings, context = letter.findings, letter.context
    zones = {context.time_zone(f) for f in findings}
    zone = zones.pop() if len(zones) == 1 else context.owners.tz
    links = context.open_visit(address, letter.to_owner, zone, findings)
    keep = [links.to_keep(f.case.resource.id) if links else None for f in findings]
    items = [notice_item(f, context, link, for_admins=not letter.to_owner) for f, link in zip(findings, keep, strict=True)]
    whose = f"Owner: {address}." if letter.to_owner else "No known owner. To set one, add the tag reaper:owner."
    contact = _contact_for(address, letter)
    wasted = f"{letter.wasted}." if letter.wasted and not letter.only_hours else ""
    subject = _subject_line(letter, part)
    text, html = render_mail(
        "owner",
        subject=subject,
        headline=_headline(letter),
        items=items[:MAX_DETAILED],
        rows=items[MAX_DETAILED:],
        to_owner=letter.to_owner,
        only_hours=letter.only_hours,
        sums=letter.idle,
        wasted=letter.wasted,
        basis=price_basis(letter.findings, context.currency),
        coming=letter.coming,
        keep_all=links.address if links and len(links.visit.resources) > 1 else None,
        tag=keep_tag(context.now),
        part=part,
        context=context,
        contact=contact,
        mailto=contact and _mailto(contact, findings),
    )
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


def _headline(letter: Letter, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or what else the message is about; if `brief`, `3 idle, $171 a day`."""
    idle = letter.idle
    if letter.only_hours or not (idle.count or letter.acted):
        return _hours_headline(letter, brief=brief)
    if not idle.count:
        actions = _actions_headline(letter, brief=brief)
        hours = _hours_headline(letter, brief=brief) if letter.announced else ""
        if letter.today or letter.enrolled:  # what is new, or stops something in use, comes first
            return f"{hours}; {actions}"
        return f"{actions}; {hours[:1].lower()}{hours[1:]}" if hours else actions
    if brief:
        among = f" of {letter.announced}" if letter.announced > idle.count else ""
        return f"{idle.count}{among} idle, {rate_text(idle, letter.context)}"
    # What the message announces is among those its headline counts.
    whose = "" if letter.to_owner else " with no known owner"
    which = f"{count_noun(idle.count, 'idle ML resource')}{whose}"
    if letter.announced != idle.count:
        also = " and" if has_cost(idle) else ""
        verb = "is" if idle.count == 1 else "are"
        which = f"{idle.count} of {count_noun(letter.announced, 'ML resource')}{whose} {verb} idle{also}"
    return cost_sentence(which, idle, letter.context)


def _subject_line(letter: Letter, part: tuple[int, int]) -> str:
    """The longest form that fits, marked as a reminder if it is one about something idle; with the name if there is only one, cut if need be."""
    findings, forms = letter.findings, _subject_forms(letter)
    idle = any(f.case.verdict.state is State.IDLE for f in findings) and not letter.only_hours
    reminder = "Reminder: " if idle and all(f.step.name is StepName.REMIND for f in findings) else ""
    name = tidy_line(findings[0].case.resource.name, 60, joiners=False) if len(findings) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    before = f"{'[Sample] ' if letter.context.sample else ''}{reminder}"
    for form in forms:
        room = MAX_SUBJECT - len(f"{before}{form}: {number}")
        if room >= min(len(name), MIN_NAME_LENGTH):
            short_name = f": {tidy_line(name, room, joiners=False)}" if name else ""
            return tidy_line(f"{before}{form}{short_name}{number}", MAX_SUBJECT, joiners=False)
    return f"{tidy_line(f'{before}{forms[-1]}', MAX_SUBJECT - len(number), joiners=False)}{number}"


def _subject_forms(letter: Letter) -> list[str]:
    """The subject, longest form first: what happens and when stays, count and cost give way."""
    full, short = (_headline(letter, brief=brief) for brief in (False, True))
    if letter.context.sample:
        return [f"{full}; nothing will be stopped"]
    if not letter.idle.count or letter.only_hours:
        return [full, short]
    long_parts, short_parts = (_consequences(letter, brief=brief) for brief in (False, True))
    done, unsure, interrupted = letter.done, letter.unsure, _interrupted_phrase(letter.acted)
    also = [f"{len(done)} {'was' if len(done) == 1 else 'were'} {_participles(done)}{_saving_phrase(letter)}"] if done else []
    also += [interrupted] if interrupted else []
    also += [f"{len(unsure)} may have been {_participles(unsure)}, please check"] if unsure else []
    if long_parts:
        forms = ([full, *long_parts], [short, *long_parts], [short, *short_parts], short_parts)
        return ["; ".join([*parts, *also]) for parts in forms]
    ending = _no_action_phrase(letter)
    return ["; ".join([f"{head}{ending}", *also]) for head in (full, short)]


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
    saves = sum(map(lasting_saving, letter.done))
    return f", saving {letter.context.rate(saves)}" if saves else ""


def _interrupted_phrase(acted: Sequence[Finding]) -> str:
    """`1 action was interrupted, and nothing has changed`; empty if none was."""
    count = sum(f.outcome.result is Result.REFUSED for f in acted)
    return f"{count} action{' was' if count == 1 else 's were'} interrupted, and nothing has changed" if count else ""


def _participles(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {
        forecast.done_participle(f) if f.outcome.result is Result.DONE else forecast.participle(f, f.step.name) for f in acted
    }
    return " or ".join(sorted(named))


def _hours_headline(letter: Letter, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    today, enrolled = letter.today, letter.enrolled
    if today:
        return f"{count_noun(today.count, 'ML resource')} {today.verbs(brief=brief)} {today.today}, even while used"
    summary = forecast.summary_name(f for f in letter.findings if f.step.name is StepName.REMIND)
    if enrolled:
        rest = f"; {summary} of {letter.announced - enrolled.count} more" if letter.announced > enrolled.count else ""
        return (
            f"{count_noun(enrolled.count, 'ML resource')} {enrolled.verbs(brief=brief)} outside office hours {enrolled.day}{rest}"
        )
    return f"{summary.capitalize()}: office hours apply to {count_noun(letter.announced, 'ML resource')}"


def _actions_headline(letter: Letter, *, brief: bool) -> str:
    """What was done, and when the rest follows; what is uncertain is not called done."""
    done, unsure = letter.done, letter.unsure
    verbs = forecast.ANY_PARTICIPLE if brief else _participles(done or unsure or letter.acted)
    interrupted = _interrupted_phrase(letter.acted)
    if not (done or unsure):
        return interrupted
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
