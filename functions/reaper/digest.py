"""One message per owner about their idle resources: what, since when, what it costs, what happens next, and how to keep it. Pure.

A message names at most `DETAILED + ROWS` resources, so that no mail client clips it (Gmail does above 102 kB of HTML) and every resource
that counts as told about is really in it; more of them make a second message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from urllib.parse import urlsplit

from reaper import advice, outlook, plan, spark
from reaper.duration import text
from reaper.message import MAX_SUBJECT, Audience, Message, Value, deliverable, line
from reaper.model import Finding, Memory, Mode, Move, Result, State
from reaper.policy import Owners
from reaper.registry import kinds
from reaper.spark import Spark
from reaper.wish import tidy

DETAILED, ROWS = 6, 24
TOLD = {Move.WARN, Move.REMIND}
ACTED = {Move.STOP, Move.DELETE, Move.START}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What holds for every message of one sweep. `keep_link` gives the signed link of a resource id, or None where there is none.

    `weeks`: by resource id, what office hours did since its owner was last told.
    """

    now: datetime
    mode: Mode
    owners: Owners
    run_id: str = ""
    memories: Mapping[str, Memory] = field(default_factory=dict)
    weeks: Mapping[str, str] = field(default_factory=dict)
    keep_link: Callable[[str], str | None] = lambda resource_id: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One resource as the templates show it; every text is one printable line of bounded length. `ask`: only admins can run `undo`."""

    name: str
    kind: str
    size: str
    where: str
    since: datetime | None
    length: str
    at_least: bool
    because: str
    likely: bool
    spark: Spark | None
    usd_per_day: float | None
    wasted: float | None
    acted: bool
    following: str
    keep: str | None
    command: str | None
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
        yield pairs[0][0], sorted((f for _, f in pairs), key=_dearest)


def _dearest(found: Finding) -> tuple[bool, bool, float, str]:
    """What is idle before what was acted on, then by money, those without a price last."""
    price = found.price.usd_per_hour if found.price else 0.0
    return found.step.move in ACTED, found.price is None, -price, found.case.resource.name


def _message(address: str, theirs: bool, found: Sequence[Finding], part: tuple[int, int], occasion: Occasion) -> Message:
    from reaper.mail.render import both

    items = [item(f, occasion) for f in found]
    headline = _headline(found, theirs, occasion)
    subject = _subject(found, headline, part)
    plain, html = both(
        "owner",
        subject=subject,
        headline=headline,
        items=items[:DETAILED],
        rows=items[DETAILED:],
        theirs=theirs,
        sums=_sums(found),
        coming=outlook.coming(found, occasion.mode, occasion.memories, occasion.now),
        tag=advice.keep_tag(occasion.now),
        part=part,
        occasion=occasion,
    )
    return Message(
        to=address,
        subject=subject,
        text=plain,
        html=html,
        audience=Audience.OWNERS,
        attributes=_attributes(address, found),
        resource_ids=tuple(f.case.resource.id for f in found),
    )


def item(found: Finding, occasion: Occasion) -> Item:
    """A finding as the templates show it."""
    resource, verdict = found.case.resource, found.case.verdict
    acted = found.step.move in ACTED
    memory = occasion.memories.get(resource.id, Memory())
    due = outlook.act_at(found, occasion.mode, memory, occasion.now)
    undo = _undo(found) if acted or due else None
    return Item(
        name=tidy(resource.name, 120) or "(no name)",
        kind=title(resource.kind),
        size=tidy(resource.size, 80),
        where=tidy(f"{resource.region}, {advice.home(resource)}", 120),
        since=occasion.now - verdict.idle_for if verdict.idle_for else None,
        length=text(verdict.idle_for) if verdict.idle_for else "",
        at_least=_longer(found, occasion.now),
        because=tidy(verdict.because, 300),
        likely=verdict.confidence == "likely",
        spark=spark.pick(found.evidence),
        usd_per_day=found.price.usd_per_hour * 24 if found.price else None,
        wasted=found.wasted_usd,
        acted=acted,
        following=outlook.following(found, occasion.mode, memory, occasion.now, occasion.weeks.get(resource.id, "")),
        keep=_link(occasion.keep_link(resource.id)) if not acted else None,
        command=advice.keep_command(resource, occasion.now),
        undo=undo,
        ask=undo is not None and advice.for_admins(undo),
        owner=tidy(found.owner.source, 200),
    )


def _undo(found: Finding) -> str | None:
    """The command that brings it back; none for a start, which took nothing away."""
    if found.step.move is Move.START:
        return None
    host = found.outcome.host
    return advice.restore_command(host) if host else advice.undo_command(found.case.resource)


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
    """What the idle ones cost; `unpriced` of them are not counted in it."""

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
        count=len(idle),
        usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
        wasted=sum(f.wasted_usd or 0 for f in idle),
        unpriced=sum(1 for f in idle if f.price is None),
        acted=len(acted),
        saved_per_hour=sum(outlook.saved(f) for f in acted),
    )


def _headline(found: Sequence[Finding], theirs: bool, occasion: Occasion) -> str:
    """`3 idle ML resources cost you $7.09/h`, in the words that fit."""
    sums, busy = _sums(found), _busy(found, occasion)
    if _of_hours(found, occasion) or not (sums.count or sums.acted):
        new = all(f.step.move is Move.WARN for f in found)
        return busy or f"Office hours are {'now ' if new else ''}kept for {_many(len(found))}"
    if not sums.count:
        return _acted(found)
    idle, whose = _many(sums.count, "idle "), "" if theirs else " without a known owner"
    also = f"; {busy}" if busy else ""
    if sums.unpriced == sums.count:
        return f"{idle}{whose}, price not known{also}"
    verb = "costs" if sums.count == 1 else "cost"
    money = f"{'at least ' if sums.unpriced else ''}${sums.usd_per_hour:,.2f}/h"
    return f"{idle}{whose} {verb} {'you ' if theirs else ''}{money}{also}"


def _of_hours(found: Sequence[Finding], occasion: Occasion) -> bool:
    """Whether all of it is about office hours as such: idle or not, nothing is said of that in the headline."""
    known = occasion.memories
    return all(outlook.enrols(f, occasion.mode, known.get(f.case.resource.id, Memory()), occasion.now) for f in found)


def _busy(found: Sequence[Finding], occasion: Occasion) -> str:
    """What is told on the day that something is stopped although it is used; empty where nothing is."""
    known = occasion.memories
    due = [f for f in found if outlook.stops_in_use(f, occasion.mode, known.get(f.case.resource.id, Memory()), occasion.now)]
    return f"{_many(len(due))} will be stopped today, even while used" if due else ""


def _many(count: int, which: str = "") -> str:
    return f"{count} {which}ML resource{'' if count == 1 else 's'}"


def _acted(found: Sequence[Finding]) -> str:
    """Of what was acted on; what may have been is not said to have been."""
    made = [f for f in found if f.outcome.result is Result.DONE]
    verbs = " or ".join(sorted({outlook.done(f) for f in made} or {outlook.verb(f, f.step.move) for f in found}))
    if not made:
        return f"{_many(len(found))} may have been {verbs}"
    sums = _sums(made)
    saved = f", saving ${sums.saved_per_hour:,.2f}/h" if sums.saved_per_hour else ""
    unsure = f"; {len(found) - len(made)} more may have been" if len(found) > len(made) else ""
    return f"{_many(len(made), 'idle ')} {'was' if len(made) == 1 else 'were'} {verbs}{saved}{unsure}"


def _subject(found: Sequence[Finding], headline: str, part: tuple[int, int]) -> str:
    """The headline, said to be a reminder if it is one of something idle, with the name when there is but one."""
    idle = any(f.case.verdict.state is State.IDLE for f in found) and not headline.startswith("Office hours")
    again = "Reminder: " if idle and all(f.step.move is Move.REMIND for f in found) else ""
    name = f": {line(found[0].case.resource.name, 60)}" if len(found) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    return line(f"{again}{headline}{name}{number}", MAX_SUBJECT)


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
