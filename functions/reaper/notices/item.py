"""One resource as mails show it: what it is, since when it is idle, what it costs, and the commands and links for it. Pure.

What people can paste into a shell is the kinds' own (`Kind.commands`, `keep_line`, `undo_line`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any

from reaper import registry
from reaper.case import Blocked, Case, Evidence, is_in_weekly_summary
from reaper.duration import format_duration
from reaper.evidence import SLOT_LENGTH
from reaper.finding import Finding, Money, can_be_kept, is_action, money_of, saved_usd_per_hour
from reaper.kind import Command, Kind, account_of, is_pasteable
from reaper.model import Resource, Result, Role, State, StepName, is_native
from reaper.notices import forecast
from reaper.notices.blocks import Entry, Line, Look, Paragraph, Row
from reaper.notices.forecast import NoticeContext
from reaper.notices.message import ABOUT, SENDER_NAME
from reaper.prices import price_basis
from reaper.text import SMALLEST_SHOWN_USD, format_day, format_time, format_usd, tidy_line, with_local_times
from reaper.urls import is_loopback, split_address

KEEP_DAYS, SAVING = 7, "Saving:"
RESTORE_COMMAND = "reaper restore"
LOCATION_SETTINGS = ("REAPER_LEDGER", "REAPER_MANIFESTS")
"""The settings that tell a command where the deployment's ledger and manifests are."""
MAX_NAME_LENGTH = 300
"""Characters of a name; no cloud takes a longer one."""
BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
"""The first means no use at all, each of the others some."""
MAX_BARS = 28
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One resource for every message; each text is one printable line of bounded length.

    `tz`: the zone of its times. `can_keep`: a tag keeps it from what comes next. `stop`: the command that stops it now. `console`: the address of its page. `undo_needs_admin`: only admins
    can run `undo`.
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
    bars: str
    bars_about: str
    rate: str
    wasted: str
    cost: Line
    acted: bool
    can_keep: bool
    next_sentence: str
    snooze_link: str | None
    tag_command: str | None
    stop: Command | None
    console: str | None
    undo: str | None
    undo_needs_admin: bool
    owner: str
    disowned_by: str


def notice_item(finding: Finding, context: NoticeContext, snooze_link: str | None = None, *, for_admins: bool = False) -> Item:
    """A finding as messages show it. For admins, a command names the ledger that it needs."""
    resource, verdict, zone = finding.case.resource, finding.case.verdict, context.time_zone(finding)
    acted = is_action(finding)
    removes = finding.step.name is not StepName.START and (acted or finding.announced)
    undo = undo_command(resource) if removes else None
    # Restoring takes the deployment's ledger and manifests, and the right to write.
    needs_admin = undo is not None and undo.startswith(f"{RESTORE_COMMAND} ")
    idle = verdict.state is State.IDLE and not acted
    since = finding.idle_since
    bars, bars_about = pick_sparkline(finding.case.evidence)
    return Item(
        name=shown_name(resource),
        kind=kind_title(resource.kind),
        size=tidy_line(resource.size, 80),
        where=shown_place(resource),
        since=since,
        tz=zone,
        length=format_duration(finding.idle_for) if finding.idle_for else "",
        # No use was found in the window, and the resource is older.
        at_least=bool(since and resource.created and verdict.last_busy is None and resource.created < since),
        because=with_local_times(tidy_line(verdict.because, 300), zone),
        likely=verdict.confidence == "likely",
        bars=bars,
        bars_about=bars_about,
        rate=rate_text(money_of([finding]), context),
        wasted=wasted_text([finding], context),
        cost=_item_cost(finding, context),
        acted=acted,
        can_keep=can_be_kept(finding),
        next_sentence=with_local_times(forecast.next_sentence(finding, context), zone),
        snooze_link=_safe_link(snooze_link),
        tag_command=keep_command(resource, context.now),
        stop=stop_command(finding.case) if idle else None,
        console=_safe_link(console_address(resource)) if idle else None,
        undo=with_settings(undo, context.location_settings) if undo and needs_admin and for_admins else undo,
        undo_needs_admin=needs_admin,
        owner=tidy_line(finding.case.owner.source, 200),
        disowned_by=tidy_line(finding.case.owner.disowned_by or "", 120),
    )


def fact_lines(item: Item, after: str = "") -> list[Line]:
    """Its evidence, its cost, and what comes next or was done; or else `after`, a sentence of one's own."""
    following = Line(label=f"{'Done' if item.acted else 'Next'}:", text=item.next_sentence)
    return [
        Line(label=f"Evidence{' (indirect)' if item.likely else ''}:", text=item.because, look=Look.DIM),
        item.cost,
        Line(text=after) if after else following,
    ]


def idle_line(item: Item) -> list[Line]:
    """Since when it is idle, if that is known."""
    least = "at least " if item.at_least else ""
    return [Line(label="Idle since:", text=f"{least}{format_time(item.since, item.tz)} ({item.length})")] if item.since else []


def about(item: Item) -> str:
    """Its kind, size and place."""
    return ", ".join(filter(None, (item.kind, item.size, item.where)))


def item_entry(number: int, item: Item, lines: Sequence[Line]) -> Entry:
    """The item in full, with these lines."""
    return Entry(number=number, name=item.name, about=about(item), bars=item.bars, bars_about=item.bars_about, lines=lines)


def item_row(item: Item, figure: str = "", rest: str = "", lines: Sequence[Line] = ()) -> Row:
    """The item as a row of a list."""
    return Row(name=item.name, about=f"{item.kind}, {item.where}", figure=figure, rest=rest, lines=lines)


def signature(why: str, findings: Sequence[Finding], context: NoticeContext, asks: Sequence[Line] = ()) -> Paragraph:
    """Where its reader can ask, why they get it, and the basis of the prices."""
    run = f" Run {context.run_id}." if context.run_id else ""
    because = Line(text=f"{SENDER_NAME}. You're getting this because {why}")
    basis = Line(text=f"{price_basis(findings, context.currency)}{run}")
    return Paragraph(lines=[*asks, because, Line(label="What is this?", text=ABOUT, href=ABOUT), basis], form="foot")


def shown_name(resource: Resource, most: int = 120) -> str:
    """The name as one harmless line."""
    return tidy_line(resource.name, most) or "(no name)"


def shown_place(resource: Resource) -> str:
    """The region, and the account or workspace that people know it by: `eu-west-1, account 123456789012`."""
    kind = registry.find_kind(resource.kind)
    return tidy_line(f"{resource.region}, {kind.place(resource) if kind else account_of(resource)}", 120)


def kind_title(kind: str) -> str:
    """`SageMaker endpoint` for `sagemaker-endpoint`."""
    known = registry.find_kind(kind)
    return known.title if known else kind


def lasting_saving(finding: Finding) -> float:
    """The dollars an hour that its action saves from now on. Not if office hours end it: a rate of a month would promise too much."""
    usual = is_in_weekly_summary(finding.case, finding.step.name)
    return 0.0 if usual else saved_usd_per_hour(finding)


def has_cost(money: Money) -> bool:
    """Whether more than almost nothing is known of what it costs."""
    return money.unpriced < money.count and not (money.unpriced and money.usd_per_hour < SMALLEST_SHOWN_USD)


def rate_text(money: Money, context: NoticeContext) -> str:
    """`$8.45 a day`, `at least $8.45 a day` if a price is missing, `price unknown`, or `price unknown for 2` of more."""
    if has_cost(money):
        return f"{'at least ' if money.unpriced else ''}{context.rate(money.usd_per_hour)}"
    return "price unknown" if money.unpriced == money.count else f"price unknown for {money.unpriced}"


def cost_sentence(which: str, money: Money, context: NoticeContext) -> str:
    """`3 idle ML resources cost $171 a day`, or `3 idle ML resources, price unknown`. `which`: how many of what."""
    verb = (" costs " if money.count == 1 else " cost ") if has_cost(money) else ", "
    return f"{which}{verb}{rate_text(money, context)}"


def wasted_text(findings: Sequence[Finding], context: NoticeContext) -> str:
    """`$893 wasted since Thu 12 Nov`, when the first of them fell idle; empty if no price is known."""
    idle = [(f.idle_for or timedelta(0), f.wasted_usd, context.time_zone(f)) for f in findings if f.wasted_usd]
    if not idle:
        return ""
    length, _, zone = max(idle)
    wasted = format_usd(sum(usd for _, usd, _ in idle), currency=context.currency)
    return f"{wasted} wasted since {format_day(context.now - length, zone)}"


def keep_tag(now: datetime) -> str:
    """`reaper:keep-until=2026-11-28`: a week from now, its whole day included."""
    return f"reaper:keep-until={now + timedelta(days=KEEP_DAYS):%Y-%m-%d}"


def keep_command(resource: Resource, now: datetime) -> str | None:
    """The command that puts that tag on; None if the cloud's tool can't tag this kind."""
    kind, (key, _, day) = registry.find_kind(resource.kind), keep_tag(now).partition("=")
    return kind.keep_line(resource, key, day) if kind and _has_pasteable_names(resource) else None


def undo_command(resource: Resource) -> str | None:
    """The command that undoes the last action on it; None if its names can't stand in a line that people paste."""
    if not _has_pasteable_names(resource):
        return None
    kind = registry.find_kind(resource.kind)
    return (kind.undo_line(resource) if kind else None) or f"{RESTORE_COMMAND} {quote(resource.id)}"


def stop_command(case: Case) -> Command | None:
    """What its owner can run to stop paying for it; None if the kind has no such command or it is blocked.

    Deleting is offered only for what can't be stopped.
    """
    kind = registry.find_kind(case.resource.kind)
    offered = [action for action in (StepName.STOP, StepName.DELETE) if kind and _may_offer(case, kind, action)]
    make = kind.commands.get(offered[0]) if kind and offered else None
    return make(case.resource) if make and _has_pasteable_names(case.resource) else None


def with_settings(command: str, places: Mapping[str, str]) -> str:
    """The command with the ledger and the manifests that it has to be run with; otherwise it would read the reader's own.

    An address that may carry a key or a signature is not written into a mail, nor one that another process can't open.
    """
    settings = [
        f"{name}={quote(value)} "
        for name in LOCATION_SETTINGS
        if (value := places.get(name, ""))
        and value.isprintable()
        and not set(value) & set("?@")
        and not value.startswith("memory:")
    ]
    return f"{''.join(settings)}{command}"


def console_address(resource: Resource) -> str | None:
    """The https address of its page; None for a kind without a page that a link can lead to, and for an ID that is not as the cloud writes it."""
    if not resource.name.isprintable() or not 0 < len(resource.name) <= MAX_NAME_LENGTH:
        return None
    kind = registry.find_kind(resource.kind)
    return kind.console_url(resource) if kind else None


def pick_sparkline(evidence: Sequence[Evidence]) -> tuple[str, str]:
    """The bars of the activity signal that was busy last, and what they show; empty if none has a series."""
    drawn = [e for e in evidence if e.role is Role.ACTIVITY and e.slots]
    if not drawn:
        return "", ""
    best = max(drawn, key=lambda e: e.last_busy or NEVER)
    name = tidy_line(f"{best.signal} of {best.subject}" if best.subject else best.signal, 60)
    return draw_bars(best.slots), f"{name}, last {format_duration(SLOT_LENGTH * len(best.slots))}"


def draw_bars(slots: Sequence[int]) -> str:
    """Percentages as at most MAX_BARS bars, each the highest of its slots; even the least use shows."""
    wide = -(-len(slots) // MAX_BARS)
    peaks = [max(slots[max(0, end - wide) : end]) for end in range(len(slots), 0, -wide)] if slots else []
    return "".join(BAR_CHARACTERS[max(1, round(peak * 7 / 100)) if peak > 0 else 0] for peak in reversed(peaks))


def _item_cost(finding: Finding, context: NoticeContext) -> Line:
    """A rate while it is idle; after an action, what that saves, since the cost has changed."""
    label, figure, besides = "Cost:", rate_text(money_of([finding]), context), "before that"
    if not is_action(finding) or finding.case.price is None:
        besides = wasted_text([finding], context)
    elif finding.outcome.result is not Result.DONE:
        besides = "if it still runs"
    elif saved := lasting_saving(finding):
        label, figure, besides = SAVING, context.rate(saved), f"it cost {figure}"
    elif is_native(finding.case.resource, finding.step.name):
        besides = "until it shuts down"
    elif finding.outcome.part_done:
        besides = "until the rest is done"
    return Line(label=label, text=figure, besides=f", {besides}" if besides else "", look=Look.MONEY)


def _safe_link(address: str | None) -> str | None:
    """The link if a mail client may open it, so that a button never leads to anything but a web page."""
    if address is None:
        return None
    parts = split_address(address)
    local = parts.scheme == "http" and is_loopback(parts.hostname)
    return address if (parts.scheme == "https" or local) and parts.hostname and address.isprintable() else None


def _may_offer(case: Case, kind: Kind[Any], action: StepName) -> bool:
    """Whether its owner may make the action. What the reaper can't do, or did not read, blocks the reaper, not a person who deletes their own
    resource.
    """
    if action not in kind.actions:
        return action in kind.commands
    blocked = case.blocked.get(action, Blocked(because="its kind has no such action"))
    return blocked is None or (action is StepName.DELETE and blocked.not_read)


def _has_pasteable_names(resource: Resource) -> bool:
    return is_pasteable(resource.id, resource.name, resource.region)
