"""One message per owner about their idle resources: what, since when, what it costs, what happens next, and how to keep it. Pure.

A message names at most `DETAILED + ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every resource
that counts as told about is really in it; more of them make a second message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from urllib.parse import quote, urlsplit

from reaper import plan, registry
from reaper.command import Command
from reaper.duration import format_duration
from reaper.model import Finding, Memory, Mode, Result, State, StepName
from reaper.notices import commands, console_links, forecast, sparkline
from reaper.notices.message import MAX_SUBJECT, AttributeValue, Audience, Message, is_deliverable, is_plain_address, to_one_line
from reaper.notices.sparkline import Sparkline
from reaper.policy.schema import Owners
from reaper.snooze.form import tidy_line
from reaper.text import SMALLEST_SHOWN_USD, format_usd

MAX_DETAILED, MAX_ROWS = 6, 24
MIN_NAME_LENGTH = 20
"""Characters to which a name in a subject may be cut."""
MAX_NAMED = 5
"""So many resources are named in a mail that says they belong to another."""
NOTICES = {StepName.WARN, StepName.REMIND}
ACTIONS = {StepName.STOP, StepName.DELETE, StepName.START}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeContext:
    """What holds for every message of one sweep. `keep_link` gives the signed link of a resource id, or None where there is none.

    `weeks`: by resource id, what office hours did since its owner was last told. `places`: the settings that a command for admins needs to
    find this deployment's ledger and manifests, by name. `sample`: nothing in it is real.
    """

    now: datetime
    mode: Mode
    owners: Owners
    run_id: str = ""
    memories: Mapping[str, Memory] = field(default_factory=dict)
    hours_history: Mapping[str, str] = field(default_factory=dict)
    location_settings: Mapping[str, str] = field(default_factory=dict)
    sample: bool = False
    snooze_link: Callable[[str], str | None] = lambda resource_id: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one resource costs, or what acting on it saves: `Cost`, `$97.44 a day`, `$893 wasted`."""

    label: str
    figure: str
    besides: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One resource as the templates show it; every text is one printable line of bounded length. `ask`: only admins can run `undo`.

    `tz`: the zone that its times are told in. `stop` is the command that stops it now, `console` the address of its page.
    """

    name: str
    kind: str
    size: str
    where: str
    since: datetime | None
    tz: str
    length: str
    at_least: bool
    because: str
    likely: bool
    spark: Sparkline | None
    usd_per_day: float | None
    wasted: float | None
    cost: Cost
    acted: bool
    next_sentence: str
    snooze_link: str | None
    tag_command: str | None
    stop: Command | None
    console: str | None
    undo: str | None
    undo_needs_admin: bool
    owner: str


def owner_notices(findings: Sequence[Finding], occasion: NoticeContext) -> list[Message]:
    """The messages, by address. Whoever has no address that mail may go to gets none, and is in no message's `resource_ids`."""
    messages = []
    for (address, theirs), found in _grouped_by_address(findings, occasion):
        size = MAX_DETAILED + MAX_ROWS
        parts = [found[i : i + size] for i in range(0, len(found), size)]
        messages += [_owner_message(address, theirs, part, (n, len(parts)), occasion) for n, part in enumerate(parts, 1)]
    return messages


def is_reportable(finding: Finding) -> bool:
    """Whether its owner hears of this finding: a notice that is due, or an action that was made or may have been.

    What office hours stop and start day by day stands in the weekly summary.
    """
    if finding.step.name in NOTICES:
        return True
    # What went with what it lived in was done by nobody else, and its owner may be another one.
    done = finding.outcome.result is Result.DONE and (not finding.outcome.already_done or finding.outcome.host_id is not None)
    usual = done and plan.is_in_weekly_summary(finding.case, finding.step.name)
    return (
        finding.step.name in ACTIONS
        and not usual
        and (done or (finding.outcome.result is Result.FAILED and finding.outcome.begun))
    )


def notice_address(finding: Finding, owners: Owners) -> tuple[str, bool] | None:
    """Where a notice about it goes, and whether to its owner (else to the fallback, for want of one)."""
    address = finding.owner.address
    if address and is_deliverable(address, owners.domains, owners.fallback):
        return address, not (address == owners.fallback and finding.owner.source.startswith("fallback"))
    if owners.fallback and is_deliverable(owners.fallback, (), owners.fallback):
        return owners.fallback, False
    return None


def _grouped_by_address(findings: Sequence[Finding], occasion: NoticeContext) -> Iterator[tuple[tuple[str, bool], list[Finding]]]:
    told = [(where, f) for f in findings if is_reportable(f) and (where := notice_address(f, occasion.owners))]
    told.sort(key=lambda pair: (pair[0][0].lower(), pair[0][1]))
    for _, group in groupby(told, key=lambda pair: (pair[0][0].lower(), pair[0][1])):
        pairs = list(group)
        yield pairs[0][0], sorted((f for _, f in pairs), key=_cost_order)


def _cost_order(finding: Finding) -> tuple[bool, bool, float, str]:
    """What is idle before what was acted on, then by money, those without a price last."""
    price = finding.price.usd_per_hour if finding.price else 0.0
    return finding.step.name in ACTIONS, finding.price is None, -price, finding.case.resource.name


def _owner_message(
    address: str, theirs: bool, findings: Sequence[Finding], part: tuple[int, int], occasion: NoticeContext
) -> Message:
    from reaper.notices.render import render_mail

    items = [notice_item(f, occasion, for_admins=not theirs) for f in findings]
    headline = _headline(findings, theirs, occasion)
    subject = _subject(findings, _subject_forms(findings, theirs, occasion), part, occasion)
    text, html = render_mail(
        "owner",
        subject=subject,
        headline=headline,
        items=items[:MAX_DETAILED],
        rows=items[MAX_DETAILED:],
        theirs=theirs,
        of_hours=_is_all_about_hours(findings, occasion),
        sums=_notice_sums(findings),
        coming=forecast.next_actions(findings, occasion.mode, occasion.memories, occasion.now),
        tag=commands.keep_tag(occasion.now),
        part=part,
        occasion=occasion,
        contact=_contact_for(address, findings, theirs, occasion.owners),
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
    """Whom an owner can ask, and a mailto link to them that names the resources."""

    address: str
    mailto: str


def _contact_for(address: str, findings: Sequence[Finding], theirs: bool, owners: Owners) -> Contact | None:
    """`owners.contact`, else the fallback; None where there is neither, and for a reader who is that very address or stands in for an owner."""
    contact = owners.contact or owners.fallback or ""
    if not theirs or not is_plain_address(contact) or contact.lower() == address.lower():
        return None
    names = [tidy_line(f.case.resource.name, 60) or "(no name)" for f in findings]
    subject = f"Not mine: {names[0]}" if len(names) == 1 else f"Not mine: {len(names)} ML resources"
    more = [f"and {len(findings) - MAX_NAMED} more"] if len(findings) > MAX_NAMED else []
    body = "\n".join([subject, "", *(tidy_line(f.case.resource.id, 300) for f in findings[:MAX_NAMED]), *more])
    fields = f"subject={quote(subject, safe='')}&body={quote(body.replace(chr(10), chr(13) + chr(10)), safe='')}"
    return Contact(address=contact, mailto=f"mailto:{quote(contact, safe='@')}?{fields}")


def notice_item(finding: Finding, occasion: NoticeContext, *, for_admins: bool = False) -> Item:
    """A finding as the templates show it. For `admins` a command names the ledger that it needs."""
    resource, verdict = finding.case.resource, finding.case.verdict
    acted = finding.step.name in ACTIONS
    memory = occasion.memories.get(resource.id, Memory())
    due = forecast.action_at(finding, occasion.mode, memory, occasion.now)
    undo = _undo_command(finding) if acted or due else None
    ask = undo is not None and commands.needs_admin(undo)
    idle = verdict.state is State.IDLE and not acted
    return Item(
        name=tidy_line(resource.name, 120) or "(no name)",
        kind=kind_title(resource.kind),
        size=tidy_line(resource.size, 80),
        where=tidy_line(f"{resource.region}, {commands.place(resource)}", 120),
        since=occasion.now - verdict.idle_for if verdict.idle_for else None,
        tz=forecast.time_zone_of(finding),
        length=format_duration(verdict.idle_for) if verdict.idle_for else "",
        at_least=_may_be_idle_longer(finding, occasion.now),
        because=tidy_line(verdict.because, 300),
        likely=verdict.confidence == "likely",
        spark=sparkline.pick_sparkline(finding.evidence),
        usd_per_day=finding.price.usd_per_hour * 24 if finding.price else None,
        wasted=finding.wasted_usd,
        cost=_item_cost(finding, acted),
        acted=acted,
        next_sentence=forecast.next_sentence(
            finding, occasion.mode, memory, occasion.now, occasion.hours_history.get(resource.id, "")
        ),
        snooze_link=_safe_link(occasion.snooze_link(resource.id)) if not acted else None,
        tag_command=commands.keep_command(resource, occasion.now),
        stop=commands.stop_command(finding.case) if idle else None,
        console=_safe_link(console_links.console_address(resource)) if idle else None,
        undo=commands.with_settings(undo, occasion.location_settings) if undo and ask and for_admins else undo,
        undo_needs_admin=ask,
        owner=tidy_line(finding.owner.source, 200),
    )


def _item_cost(finding: Finding, acted: bool) -> Cost:
    """A rate while it is idle. Of what was acted on what that saves, since its cost is not what it was."""
    rate = f"{format_usd(finding.price.usd_per_hour * 24)} a day" if finding.price else "price unknown"
    if not acted:
        return Cost(label="Cost", figure=rate, besides=f"{format_usd(finding.wasted_usd)} wasted" if finding.wasted_usd else "")
    if finding.outcome.result is not Result.DONE:
        return Cost(label="Cost", figure=rate, besides="if it still runs")
    if saved := forecast.saved_usd_per_hour(finding):
        return Cost(label="Saving", figure=f"{format_usd(saved * 24)} a day", besides=f"it cost {rate}")
    return Cost(label="Cost", figure=rate, besides="until the rest is done" if finding.outcome.part_done else "before that")


def _undo_command(finding: Finding) -> str | None:
    """The command that brings it back; none for a start, which took nothing away."""
    if finding.step.name is StepName.START:
        return None
    host = finding.outcome.host_id
    return commands.restore_command(host) if host else commands.undo_command(finding.case.resource)


def kind_title(kind: str) -> str:
    """`SageMaker endpoint` for `sagemaker-endpoint`."""
    return next((known.title for known in registry.kinds() if known.name == kind), kind)


def _may_be_idle_longer(finding: Finding, now: datetime) -> bool:
    """Whether it may have been idle for longer than anybody looked: no use was seen and it is older than the silence that was."""
    resource, verdict = finding.case.resource, finding.case.verdict
    if verdict.idle_for is None or verdict.last_busy is not None or resource.created is None:
        return False
    return resource.created < now - verdict.idle_for


def _safe_link(address: str | None) -> str | None:
    """The link if a mail client may open it, so that nothing but a web page can ever stand behind the button."""
    if address is None:
        return None
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    return address if (parts.scheme == "https" or local) and parts.hostname and address.isprintable() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSums:
    """What the idle ones cost; `unpriced` of them are not counted in it. `told`: all that were not acted on, also those that are not idle."""

    not_acted_on: int
    count: int
    usd_per_hour: float
    wasted: float
    unpriced: int
    acted: int
    saved_per_hour: float


def _notice_sums(findings: Sequence[Finding]) -> NoticeSums:
    idle = [f for f in findings if f.step.name in NOTICES and f.case.verdict.state is State.IDLE]
    acted = [f for f in findings if f.step.name in ACTIONS]
    return NoticeSums(
        not_acted_on=sum(1 for f in findings if f.step.name in NOTICES),
        count=len(idle),
        usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
        wasted=sum(f.wasted_usd or 0 for f in idle),
        unpriced=sum(1 for f in idle if f.price is None),
        acted=len(acted),
        saved_per_hour=sum(forecast.saved_usd_per_hour(f) for f in acted),
    )


def format_amount(usd: float, unpriced: int) -> str:
    """Dollars as they are told, `at least` where `unpriced` more have no price; empty where next to nothing is known of them."""
    if unpriced and usd < SMALLEST_SHOWN_USD:
        return ""
    return f"{'at least ' if unpriced else ''}{format_usd(usd)}"


def unknown_price_text(unpriced: int, count: int) -> str:
    """`price unknown`, or where it is so for some of them `price unknown for 2`."""
    return "price unknown" if unpriced == count else f"price unknown for {unpriced}"


def _headline(findings: Sequence[Finding], theirs: bool, occasion: NoticeContext, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or whatever the message is about; `brief`: `3 idle, $171 a day`."""
    sums = _notice_sums(findings)
    if _is_all_about_hours(findings, occasion) or not (sums.count or sums.acted):
        return _hours_headline(findings, occasion, brief=brief)
    if not sums.count:
        return _actions_and_hours_headline(findings, occasion, brief=brief)
    cost = format_amount(sums.usd_per_hour * 24, sums.unpriced) if sums.unpriced < sums.count else ""
    said = f"{cost} a day" if cost else unknown_price_text(sums.unpriced, sums.count)
    if brief:
        return f"{sums.count}{f' of {sums.not_acted_on}' if sums.not_acted_on > sums.count else ''} idle, {said}"
    return f"{_idle_phrase(sums, theirs, known=bool(cost))}{(' costs ' if sums.count == 1 else ' cost ') if cost else ', '}{said}"


def _idle_phrase(sums: NoticeSums, theirs: bool, *, known: bool) -> str:
    """Whatever the message announces is among those that its headline counts: `3 idle ML resources`, `3 of 5 ML resources are idle and`."""
    whose = "" if theirs else " with no known owner"
    if sums.not_acted_on == sums.count:
        return f"{_count_phrase(sums.count, 'idle ')}{whose}"
    return f"{sums.count} of {_count_phrase(sums.not_acted_on)}{whose} {'is' if sums.count == 1 else 'are'} idle{' and' if known else ''}"


def _subject_forms(findings: Sequence[Finding], theirs: bool, occasion: NoticeContext) -> list[str]:
    """What the subject says, the longest form first: what happens and when stays, count and cost give way."""
    full, short = (_headline(findings, theirs, occasion, brief=brief) for brief in (False, True))
    if occasion.sample:
        return [f"{full}; nothing will be stopped"]
    if not _notice_sums(findings).count or _is_all_about_hours(findings, occasion):
        return [full, short]
    said, brief = (_consequences(findings, occasion, brief=brief) for brief in (False, True))
    also = _action_phrases(findings)
    if said:
        return ["; ".join([*parts, *also]) for parts in ([full, *said], [short, *said], [short, *brief], brief)]
    goes_on = _no_action_phrase(findings, theirs, occasion)
    return ["; ".join([f"{head}{goes_on}", *also]) for head in (full, short)]


def _consequences(findings: Sequence[Finding], occasion: NoticeContext, *, brief: bool) -> list[str]:
    """What follows and when: `1 will be scaled in from Tue 24 Nov`; in `brief` `1 will be acted on from Tue 24 Nov`."""
    known = (occasion.mode, occasion.memories, occasion.now)
    coming, new, used = (
        forecast.next_actions(findings, *known),
        forecast.next_enrolments(findings, *known),
        forecast.stops_today(findings, *known),
    )
    who = "it" if len(findings) == 1 else ""
    parts = [f"{who or coming.count} {_how_phrase(coming, brief)} {coming.day}"] if coming else []
    parts += [f"{new.count} {_how_phrase(new, brief)} outside office hours {new.day}"] if new else []
    return parts + ([f"{used.count} {_how_phrase(used, brief)} {used.today}, even while used"] if used else [])


def _how_phrase(coming: forecast.ActionForecast, brief: bool) -> str:
    return coming.brief if brief else coming.how


def _no_action_phrase(findings: Sequence[Finding], theirs: bool, occasion: NoticeContext) -> str:
    """That nothing happens by itself: ` until you stop it`; not so of what keeps office hours."""
    if kept := sum(_is_about_hours(f, occasion) for f in findings):
        return f"; office hours are kept for {kept}"
    sums = _notice_sums(findings)
    until = f"until you stop {'it' if sums.count == 1 else 'them'}" if theirs else "until stopped"
    runs = f"; {'it runs' if sums.count == 1 else 'they run'}" if sums.unpriced == sums.count else ""
    return f"{runs} {until}"


def _action_phrases(findings: Sequence[Finding]) -> list[str]:
    """What was done beside what is idle, or may have been: `1 was deleted`, `1 may have been deleted, please check`."""
    acted = [f for f in findings if f.step.name in ACTIONS]
    made, unsure = ([f for f in acted if (f.outcome.result is Result.DONE) is done] for done in (True, False))
    parts = [f"{len(made)} {'was' if len(made) == 1 else 'were'} {_participles(made)}"] if made else []
    return parts + ([f"{len(unsure)} may have been {_participles(unsure)}, please check"] if unsure else [])


def _participles(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {
        forecast.done_participle(f) if f.outcome.result is Result.DONE else forecast.participle(f, f.step.name) for f in acted
    }
    return " or ".join(sorted(named))


def _is_about_hours(finding: Finding, occasion: NoticeContext) -> bool:
    return forecast.is_about_hours(
        finding, occasion.mode, occasion.memories.get(finding.case.resource.id, Memory()), occasion.now
    )


def _is_all_about_hours(findings: Sequence[Finding], occasion: NoticeContext) -> bool:
    """Whether all of it is about office hours as such: idle or not, nothing is said of that in the headline."""
    return all(_is_about_hours(f, occasion) for f in findings)


def _hours_headline(findings: Sequence[Finding], occasion: NoticeContext, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    known = (occasion.mode, occasion.memories, occasion.now)
    if used := forecast.stops_today(findings, *known):
        return f"{_count_phrase(used.count)} {_how_phrase(used, brief)} {used.today}, even while used"
    summary = forecast.summary_name(f for f in findings if f.step.name is StepName.REMIND)
    if new := forecast.next_enrolments(findings, *known):
        rest = f"; {summary} of {len(findings) - new.count} more" if len(findings) > new.count else ""
        return f"{_count_phrase(new.count)} {_how_phrase(new, brief)} outside office hours {new.day}{rest}"
    return f"{summary.capitalize()}: office hours are kept for {_count_phrase(len(findings))}"


def _count_phrase(count: int, which: str = "") -> str:
    return f"{count} {which}ML resource{'' if count == 1 else 's'}"


def _actions_and_hours_headline(findings: Sequence[Finding], occasion: NoticeContext, *, brief: bool) -> str:
    """What was done, and what office hours lead to: first of all where that is new, or a stop of something in use."""
    acted = [f for f in findings if f.step.name in ACTIONS]
    told = [f for f in findings if f.step.name in NOTICES]
    said = _actions_headline(acted, occasion, brief=brief)
    if not told:
        return said
    known = (occasion.mode, occasion.memories, occasion.now)
    hours = _hours_headline(told, occasion, brief=brief)
    if forecast.stops_today(told, *known) or forecast.next_enrolments(told, *known):
        return f"{hours}; {said}"
    return f"{said}; {hours[:1].lower()}{hours[1:]}"


def _actions_headline(acted: Sequence[Finding], occasion: NoticeContext, *, brief: bool) -> str:
    """Of what was acted on, and when the rest of it comes; what may have been is not said to have been."""
    made = [f for f in acted if f.outcome.result is Result.DONE]
    verbs = forecast.ANY_PARTICIPLE if brief else _participles(made or acted)
    if not made:
        return f"{_count_phrase(len(acted))} may have been {verbs}; please check"
    sums = _notice_sums(made)
    saved = f", saving {format_usd(sums.saved_per_hour * 24)} a day" if sums.saved_per_hour and not brief else ""
    unsure = f"; {len(acted) - len(made)} more may have been" if len(acted) > len(made) else ""
    rest = forecast.remaining_actions(made, occasion.mode, occasion.now)
    then = f"; the rest {_how_phrase(rest, brief)} {rest.day}" if rest else ""
    return f"{_count_phrase(len(made), 'idle ')} {'was' if len(made) == 1 else 'were'} {verbs}{saved}{then}{unsure}"


def _subject(findings: Sequence[Finding], forms: Sequence[str], part: tuple[int, int], occasion: NoticeContext) -> str:
    """The first form that has room, as a reminder if it is one of something idle, with the name, cut if need be, when there is but one."""
    idle = any(f.case.verdict.state is State.IDLE for f in findings) and not _is_all_about_hours(findings, occasion)
    again = "Reminder: " if idle and all(f.step.name is StepName.REMIND for f in findings) else ""
    name = to_one_line(findings[0].case.resource.name, 60) if len(findings) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    sample = "[Sample] " if occasion.sample else ""
    before = f"{sample}{again}"
    for said in forms:
        room = MAX_SUBJECT - len(f"{before}{said}: {number}")
        if room >= min(len(name), MIN_NAME_LENGTH):
            return to_one_line(f"{before}{said}{f': {to_one_line(name, room)}' if name else ''}{number}", MAX_SUBJECT)
    return f"{to_one_line(f'{before}{forms[-1]}', MAX_SUBJECT - len(number))}{number}"


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
        "usd_per_hour": round(_notice_sums(findings).usd_per_hour, 4),
    }
