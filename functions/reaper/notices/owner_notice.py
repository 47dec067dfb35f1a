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

from reaper import plan
from reaper.duration import text
from reaper.model import Finding, Memory, Mode, Move, Result, State
from reaper.notices import commands, console_links, forecast, sparkline
from reaper.notices.message import MAX_SUBJECT, Audience, Message, Value, deliverable, line, plain
from reaper.notices.sparkline import Spark
from reaper.policy.schema import Owners
from reaper.registry import kinds
from reaper.snooze.form import tidy
from reaper.text import LEAST, money

DETAILED, ROWS = 6, 24
SHORT = 20
"""Characters to which a name in a subject may be cut."""
NAMED = 5
"""So many resources are named in a mail that says they belong to another."""
TOLD = {Move.WARN, Move.REMIND}
ACTED = {Move.STOP, Move.DELETE, Move.START}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What holds for every message of one sweep. `keep_link` gives the signed link of a resource id, or None where there is none.

    `weeks`: by resource id, what office hours did since its owner was last told. `places`: the settings that a command for admins needs to
    find this deployment's ledger and manifests, by name. `sample`: nothing in it is real.
    """

    now: datetime
    mode: Mode
    owners: Owners
    run_id: str = ""
    memories: Mapping[str, Memory] = field(default_factory=dict)
    weeks: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    sample: bool = False
    keep_link: Callable[[str], str | None] = lambda resource_id: None


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
    spark: Spark | None
    usd_per_day: float | None
    wasted: float | None
    cost: Cost
    acted: bool
    following: str
    keep: str | None
    command: str | None
    stop: commands.Command | None
    console: str | None
    undo: str | None
    ask: bool
    owner: str


def owners(findings: Sequence[Finding], occasion: Occasion) -> list[Message]:
    """The messages, by address. Whoever has no address that mail may go to gets none, and is in no message's `resource_ids`."""
    messages = []
    for (address, theirs), found in _by_address(findings, occasion):
        size = DETAILED + ROWS
        parts = [found[i : i + size] for i in range(0, len(found), size)]
        messages += [_message(address, theirs, part, (n, len(parts)), occasion) for n, part in enumerate(parts, 1)]
    return messages


def is_news(found: Finding) -> bool:
    """Whether its owner hears of this finding: a notice that is due, or an action that was made or may have been.

    What office hours stop and start day by day stands in the weekly summary.
    """
    if found.step.move in TOLD:
        return True
    # What went with what it lived in was done by nobody else, and its owner may be another one.
    done = found.outcome.result is Result.DONE and (not found.outcome.already or found.outcome.host is not None)
    usual = done and plan.in_summary(found.case, found.step.move)
    return found.step.move in ACTED and not usual and (done or (found.outcome.result is Result.FAILED and found.outcome.begun))


def address_of(found: Finding, owners: Owners) -> tuple[str, bool] | None:
    """Where a notice about it goes, and whether to its owner (else to the fallback, for want of one)."""
    address = found.owner.address
    if address and deliverable(address, owners.domains, owners.fallback):
        return address, not (address == owners.fallback and found.owner.source.startswith("fallback"))
    if owners.fallback and deliverable(owners.fallback, (), owners.fallback):
        return owners.fallback, False
    return None


def _by_address(findings: Sequence[Finding], occasion: Occasion) -> Iterator[tuple[tuple[str, bool], list[Finding]]]:
    told = [(where, f) for f in findings if is_news(f) and (where := address_of(f, occasion.owners))]
    told.sort(key=lambda pair: (pair[0][0].lower(), pair[0][1]))
    for _, group in groupby(told, key=lambda pair: (pair[0][0].lower(), pair[0][1])):
        pairs = list(group)
        yield pairs[0][0], sorted((f for _, f in pairs), key=_by_cost)


def _by_cost(found: Finding) -> tuple[bool, bool, float, str]:
    """What is idle before what was acted on, then by money, those without a price last."""
    price = found.price.usd_per_hour if found.price else 0.0
    return found.step.move in ACTED, found.price is None, -price, found.case.resource.name


def _message(address: str, theirs: bool, found: Sequence[Finding], part: tuple[int, int], occasion: Occasion) -> Message:
    from reaper.notices.render import both

    items = [item(f, occasion, admins=not theirs) for f in found]
    headline = _headline(found, theirs, occasion)
    subject = _subject(found, _forms(found, theirs, occasion), part, occasion)
    text, html = both(
        "owner",
        subject=subject,
        headline=headline,
        items=items[:DETAILED],
        rows=items[DETAILED:],
        theirs=theirs,
        of_hours=_of_hours(found, occasion),
        sums=_sums(found),
        coming=forecast.coming(found, occasion.mode, occasion.memories, occasion.now),
        tag=commands.keep_tag(occasion.now),
        part=part,
        occasion=occasion,
        contact=_contact(address, found, theirs, occasion.owners),
    )
    return Message(
        to=address,
        subject=subject,
        text=text,
        html=html,
        audience=Audience.OWNERS,
        attributes=_attributes(address, found),
        resource_ids=tuple(f.case.resource.id for f in found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """Whom an owner can ask, and a mailto link to them that names the resources."""

    address: str
    mailto: str


def _contact(address: str, found: Sequence[Finding], theirs: bool, owners: Owners) -> Contact | None:
    """`owners.contact`, else the fallback; None where there is neither, and for a reader who is that very address or stands in for an owner."""
    contact = owners.contact or owners.fallback or ""
    if not theirs or not plain(contact) or contact.lower() == address.lower():
        return None
    names = [tidy(f.case.resource.name, 60) or "(no name)" for f in found]
    subject = f"Not mine: {names[0]}" if len(names) == 1 else f"Not mine: {len(names)} ML resources"
    more = [f"and {len(found) - NAMED} more"] if len(found) > NAMED else []
    body = "\n".join([subject, "", *(tidy(f.case.resource.id, 300) for f in found[:NAMED]), *more])
    fields = f"subject={quote(subject, safe='')}&body={quote(body.replace(chr(10), chr(13) + chr(10)), safe='')}"
    return Contact(address=contact, mailto=f"mailto:{quote(contact, safe='@')}?{fields}")


def item(found: Finding, occasion: Occasion, *, admins: bool = False) -> Item:
    """A finding as the templates show it. For `admins` a command names the ledger that it needs."""
    resource, verdict = found.case.resource, found.case.verdict
    acted = found.step.move in ACTED
    memory = occasion.memories.get(resource.id, Memory())
    due = forecast.act_at(found, occasion.mode, memory, occasion.now)
    undo = _undo(found) if acted or due else None
    ask = undo is not None and commands.for_admins(undo)
    idle = verdict.state is State.IDLE and not acted
    return Item(
        name=tidy(resource.name, 120) or "(no name)",
        kind=title(resource.kind),
        size=tidy(resource.size, 80),
        where=tidy(f"{resource.region}, {commands.home(resource)}", 120),
        since=occasion.now - verdict.idle_for if verdict.idle_for else None,
        tz=forecast.zone(found),
        length=text(verdict.idle_for) if verdict.idle_for else "",
        at_least=_longer(found, occasion.now),
        because=tidy(verdict.because, 300),
        likely=verdict.confidence == "likely",
        spark=sparkline.pick(found.evidence),
        usd_per_day=found.price.usd_per_hour * 24 if found.price else None,
        wasted=found.wasted_usd,
        cost=_cost(found, acted),
        acted=acted,
        following=forecast.following(found, occasion.mode, memory, occasion.now, occasion.weeks.get(resource.id, "")),
        keep=_link(occasion.keep_link(resource.id)) if not acted else None,
        command=commands.keep_command(resource, occasion.now),
        stop=commands.stop_command(found.case) if idle else None,
        console=_link(console_links.address(resource)) if idle else None,
        undo=commands.with_places(undo, occasion.places) if undo and ask and admins else undo,
        ask=ask,
        owner=tidy(found.owner.source, 200),
    )


def _cost(found: Finding, acted: bool) -> Cost:
    """A rate while it is idle. Of what was acted on what that saves, since its cost is not what it was."""
    rate = f"{money(found.price.usd_per_hour * 24)} a day" if found.price else "price unknown"
    if not acted:
        return Cost(label="Cost", figure=rate, besides=f"{money(found.wasted_usd)} wasted" if found.wasted_usd else "")
    if found.outcome.result is not Result.DONE:
        return Cost(label="Cost", figure=rate, besides="if it still runs")
    if saved := forecast.saved(found):
        return Cost(label="Saving", figure=f"{money(saved * 24)} a day", besides=f"it cost {rate}")
    return Cost(label="Cost", figure=rate, besides="until the rest is done" if found.outcome.part else "before that")


def _undo(found: Finding) -> str | None:
    """The command that brings it back; none for a start, which took nothing away."""
    if found.step.move is Move.START:
        return None
    host = found.outcome.host
    return commands.restore_command(host) if host else commands.undo_command(found.case.resource)


def title(kind: str) -> str:
    """`SageMaker endpoint` for `sagemaker-endpoint`."""
    return next((known.title for known in kinds() if known.name == kind), kind)


def _longer(found: Finding, now: datetime) -> bool:
    """Whether it may have been idle for longer than anybody looked: no use was seen and it is older than the silence that was."""
    resource, verdict = found.case.resource, found.case.verdict
    if verdict.idle_for is None or verdict.last_busy is not None or resource.created is None:
        return False
    return resource.created < now - verdict.idle_for


def _link(address: str | None) -> str | None:
    """The link if a mail client may open it, so that nothing but a web page can ever stand behind the button."""
    if address is None:
        return None
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    return address if (parts.scheme == "https" or local) and parts.hostname and address.isprintable() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What the idle ones cost; `unpriced` of them are not counted in it. `told`: all that were not acted on, also those that are not idle."""

    told: int
    count: int
    usd_per_hour: float
    wasted: float
    unpriced: int
    acted: int
    saved_per_hour: float


def _sums(found: Sequence[Finding]) -> Sums:
    idle = [f for f in found if f.step.move in TOLD and f.case.verdict.state is State.IDLE]
    acted = [f for f in found if f.step.move in ACTED]
    return Sums(
        told=sum(1 for f in found if f.step.move in TOLD),
        count=len(idle),
        usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
        wasted=sum(f.wasted_usd or 0 for f in idle),
        unpriced=sum(1 for f in idle if f.price is None),
        acted=len(acted),
        saved_per_hour=sum(forecast.saved(f) for f in acted),
    )


def amount(usd: float, unpriced: int) -> str:
    """Dollars as they are told, `at least` where `unpriced` more have no price; empty where next to nothing is known of them."""
    if unpriced and usd < LEAST:
        return ""
    return f"{'at least ' if unpriced else ''}{money(usd)}"


def missing(unpriced: int, count: int) -> str:
    """`price unknown`, or where it is so for some of them `price unknown for 2`."""
    return "price unknown" if unpriced == count else f"price unknown for {unpriced}"


def _headline(found: Sequence[Finding], theirs: bool, occasion: Occasion, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or whatever the message is about; `brief`: `3 idle, $171 a day`."""
    sums = _sums(found)
    if _of_hours(found, occasion) or not (sums.count or sums.acted):
        return _hours_headline(found, occasion, brief=brief)
    if not sums.count:
        return _acted_and_hours(found, occasion, brief=brief)
    cost = amount(sums.usd_per_hour * 24, sums.unpriced) if sums.unpriced < sums.count else ""
    said = f"{cost} a day" if cost else missing(sums.unpriced, sums.count)
    if brief:
        return f"{sums.count}{f' of {sums.told}' if sums.told > sums.count else ''} idle, {said}"
    return f"{_idle(sums, theirs, known=bool(cost))}{(' costs ' if sums.count == 1 else ' cost ') if cost else ', '}{said}"


def _idle(sums: Sums, theirs: bool, *, known: bool) -> str:
    """Whatever the message announces is among those that its headline counts: `3 idle ML resources`, `3 of 5 ML resources are idle and`."""
    whose = "" if theirs else " with no known owner"
    if sums.told == sums.count:
        return f"{_many(sums.count, 'idle ')}{whose}"
    return f"{sums.count} of {_many(sums.told)}{whose} {'is' if sums.count == 1 else 'are'} idle{' and' if known else ''}"


def _forms(found: Sequence[Finding], theirs: bool, occasion: Occasion) -> list[str]:
    """What the subject says, the longest form first: what happens and when stays, count and cost give way."""
    full, short = (_headline(found, theirs, occasion, brief=brief) for brief in (False, True))
    if occasion.sample:
        return [f"{full}; nothing will be stopped"]
    if not _sums(found).count or _of_hours(found, occasion):
        return [full, short]
    said, brief = (_consequences(found, occasion, brief=brief) for brief in (False, True))
    also = _also(found)
    if said:
        return ["; ".join([*parts, *also]) for parts in ([full, *said], [short, *said], [short, *brief], brief)]
    goes_on = _goes_on(found, theirs, occasion)
    return ["; ".join([f"{head}{goes_on}", *also]) for head in (full, short)]


def _consequences(found: Sequence[Finding], occasion: Occasion, *, brief: bool) -> list[str]:
    """What follows and when: `1 will be scaled in from Tue 24 Nov`; in `brief` `1 will be acted on from Tue 24 Nov`."""
    known = (occasion.mode, occasion.memories, occasion.now)
    coming, new, used = forecast.coming(found, *known), forecast.enrolling(found, *known), forecast.in_use(found, *known)
    who = "it" if len(found) == 1 else ""
    parts = [f"{who or coming.count} {_how(coming, brief)} {coming.day}"] if coming else []
    parts += [f"{new.count} {_how(new, brief)} outside office hours {new.day}"] if new else []
    return parts + ([f"{used.count} {_how(used, brief)} {used.today}, even while used"] if used else [])


def _how(coming: forecast.Coming, brief: bool) -> str:
    return coming.brief if brief else coming.how


def _goes_on(found: Sequence[Finding], theirs: bool, occasion: Occasion) -> str:
    """That nothing happens by itself: ` until you stop it`; not so of what keeps office hours."""
    if kept := sum(_enrols(f, occasion) for f in found):
        return f"; office hours are kept for {kept}"
    sums = _sums(found)
    until = f"until you stop {'it' if sums.count == 1 else 'them'}" if theirs else "until stopped"
    runs = f"; {'it runs' if sums.count == 1 else 'they run'}" if sums.unpriced == sums.count else ""
    return f"{runs} {until}"


def _also(found: Sequence[Finding]) -> list[str]:
    """What was done beside what is idle, or may have been: `1 was deleted`, `1 may have been deleted, please check`."""
    acted = [f for f in found if f.step.move in ACTED]
    made, unsure = ([f for f in acted if (f.outcome.result is Result.DONE) is done] for done in (True, False))
    parts = [f"{len(made)} {'was' if len(made) == 1 else 'were'} {_verbs(made)}"] if made else []
    return parts + ([f"{len(unsure)} may have been {_verbs(unsure)}, please check"] if unsure else [])


def _verbs(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {forecast.done(f) if f.outcome.result is Result.DONE else forecast.verb(f, f.step.move) for f in acted}
    return " or ".join(sorted(named))


def _enrols(found: Finding, occasion: Occasion) -> bool:
    return forecast.enrols(found, occasion.mode, occasion.memories.get(found.case.resource.id, Memory()), occasion.now)


def _of_hours(found: Sequence[Finding], occasion: Occasion) -> bool:
    """Whether all of it is about office hours as such: idle or not, nothing is said of that in the headline."""
    return all(_enrols(f, occasion) for f in found)


def _hours_headline(found: Sequence[Finding], occasion: Occasion, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    known = (occasion.mode, occasion.memories, occasion.now)
    if used := forecast.in_use(found, *known):
        return f"{_many(used.count)} {_how(used, brief)} {used.today}, even while used"
    summary = forecast.summary(f for f in found if f.step.move is Move.REMIND)
    if new := forecast.enrolling(found, *known):
        rest = f"; {summary} of {len(found) - new.count} more" if len(found) > new.count else ""
        return f"{_many(new.count)} {_how(new, brief)} outside office hours {new.day}{rest}"
    return f"{summary.capitalize()}: office hours are kept for {_many(len(found))}"


def _many(count: int, which: str = "") -> str:
    return f"{count} {which}ML resource{'' if count == 1 else 's'}"


def _acted_and_hours(found: Sequence[Finding], occasion: Occasion, *, brief: bool) -> str:
    """What was done, and what office hours lead to: first of all where that is new, or a stop of something in use."""
    acted = [f for f in found if f.step.move in ACTED]
    told = [f for f in found if f.step.move in TOLD]
    said = _acted(acted, occasion, brief=brief)
    if not told:
        return said
    known = (occasion.mode, occasion.memories, occasion.now)
    hours = _hours_headline(told, occasion, brief=brief)
    if forecast.in_use(told, *known) or forecast.enrolling(told, *known):
        return f"{hours}; {said}"
    return f"{said}; {hours[:1].lower()}{hours[1:]}"


def _acted(acted: Sequence[Finding], occasion: Occasion, *, brief: bool) -> str:
    """Of what was acted on, and when the rest of it comes; what may have been is not said to have been."""
    made = [f for f in acted if f.outcome.result is Result.DONE]
    verbs = forecast.ANY if brief else _verbs(made or acted)
    if not made:
        return f"{_many(len(acted))} may have been {verbs}; please check"
    sums = _sums(made)
    saved = f", saving {money(sums.saved_per_hour * 24)} a day" if sums.saved_per_hour and not brief else ""
    unsure = f"; {len(acted) - len(made)} more may have been" if len(acted) > len(made) else ""
    rest = forecast.rest(made, occasion.mode, occasion.now)
    then = f"; the rest {_how(rest, brief)} {rest.day}" if rest else ""
    return f"{_many(len(made), 'idle ')} {'was' if len(made) == 1 else 'were'} {verbs}{saved}{then}{unsure}"


def _subject(found: Sequence[Finding], forms: Sequence[str], part: tuple[int, int], occasion: Occasion) -> str:
    """The first form that has room, as a reminder if it is one of something idle, with the name, cut if need be, when there is but one."""
    idle = any(f.case.verdict.state is State.IDLE for f in found) and not _of_hours(found, occasion)
    again = "Reminder: " if idle and all(f.step.move is Move.REMIND for f in found) else ""
    name = line(found[0].case.resource.name, 60) if len(found) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    sample = "[Sample] " if occasion.sample else ""
    before = f"{sample}{again}"
    for said in forms:
        room = MAX_SUBJECT - len(f"{before}{said}: {number}")
        if room >= min(len(name), SHORT):
            return line(f"{before}{said}{f': {line(name, room)}' if name else ''}{number}", MAX_SUBJECT)
    return f"{line(f'{before}{forms[-1]}', MAX_SUBJECT - len(number))}{number}"


def _attributes(address: str, found: Sequence[Finding]) -> dict[str, Value]:
    """What subscriptions can filter on; ten at most, the limit of SNS's raw delivery."""
    return {
        "audience": Audience.OWNERS.value,
        "owner": address.lower(),
        "action": tuple(sorted({f.step.move.value for f in found})),
        "kind": tuple(sorted({f.case.resource.kind for f in found})),
        "cloud": tuple(sorted({f.case.resource.target.cloud for f in found})),
        "account": tuple(sorted({f.case.resource.target.account for f in found})),
        "resources": len(found),
        "usd_per_hour": round(_sums(found).usd_per_hour, 4),
    }
