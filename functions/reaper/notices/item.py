"""One resource as mails show it: what it is, since when it is idle, what it costs, and the commands and links for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from reaper import registry
from reaper.case import Evidence, Finding
from reaper.duration import format_duration
from reaper.evidence import SLOT_LENGTH
from reaper.kind import Command
from reaper.model import ACTIONS, Memory, Mode, Resource, Result, Role, State, StepName
from reaper.notices import commands, forecast
from reaper.policy.schema import Owners
from reaper.text import SMALLEST_SHOWN_USD, format_usd, tidy_line
from reaper.urls import is_loopback, split_address


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeContext:
    """What every message of one run shares. `snooze_link` returns the signed link of a resource id, or None if there is none.

    `hours_history`: by resource id, what office hours did since the owner's last mail. `location_settings`: the settings that a command
    for admins needs to find this deployment's ledger and manifests, by name. `report_address`: where the whole report is stored.
    `sample`: nothing in it is real.
    """

    now: datetime
    mode: Mode
    owners: Owners
    run_id: str = ""
    memories: Mapping[str, Memory] = field(default_factory=dict)
    hours_history: Mapping[str, str] = field(default_factory=dict)
    location_settings: Mapping[str, str] = field(default_factory=dict)
    report_address: str = ""
    sample: bool = False
    snooze_link: Callable[[str], str | None] = lambda resource_id: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one resource costs, or what an action on it saves: `Cost`, `$97.44 a day`, `$893 wasted`."""

    label: str
    figure: str
    besides: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One resource for the templates; every text is one printable line of bounded length.

    `tz`: the zone of its times. `stop`: the command that stops it now. `console`: the address of its page. `undo_needs_admin`: only admins
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


def notice_item(finding: Finding, context: NoticeContext, *, for_admins: bool = False) -> Item:
    """A finding for the templates. For admins, a command names the ledger that it needs."""
    resource, verdict = finding.case.resource, finding.case.verdict
    acted = finding.step.name in ACTIONS
    memory = context.memories.get(resource.id, Memory())
    due = forecast.action_at(finding, context.mode, memory, context.now)
    undo = _undo_command(finding) if acted or due else None
    needs_admin = undo is not None and commands.needs_admin(undo)
    idle = verdict.state is State.IDLE and not acted
    return Item(
        name=tidy_line(resource.name, 120) or "(no name)",
        kind=kind_title(resource.kind),
        size=tidy_line(resource.size, 80),
        where=tidy_line(f"{resource.region}, {commands.place(resource)}", 120),
        since=context.now - verdict.idle_for if verdict.idle_for else None,
        tz=forecast.time_zone_of(finding),
        length=format_duration(verdict.idle_for) if verdict.idle_for else "",
        at_least=_may_be_idle_longer(finding, context.now),
        because=tidy_line(verdict.because, 300),
        likely=verdict.confidence == "likely",
        spark=pick_sparkline(finding.evidence),
        usd_per_day=finding.price.usd_per_hour * 24 if finding.price else None,
        wasted=finding.wasted_usd,
        cost=_item_cost(finding, acted),
        acted=acted,
        next_sentence=forecast.next_sentence(
            finding, context.mode, memory, context.now, context.hours_history.get(resource.id, "")
        ),
        snooze_link=_safe_link(context.snooze_link(resource.id)) if not acted else None,
        tag_command=commands.keep_command(resource, context.now),
        stop=commands.stop_command(finding.case) if idle else None,
        console=_safe_link(console_address(resource)) if idle else None,
        undo=commands.with_settings(undo, context.location_settings) if undo and needs_admin and for_admins else undo,
        undo_needs_admin=needs_admin,
        owner=tidy_line(finding.owner.source, 200),
    )


def kind_title(kind: str) -> str:
    """`SageMaker endpoint` for `sagemaker-endpoint`."""
    return next((known.title for known in registry.kinds() if known.name == kind), kind)


def amount_text(usd: float, unpriced: int) -> str:
    """`$8.45`, or `at least $8.45` if `unpriced` more have no price; empty if almost nothing is known."""
    if unpriced and usd < SMALLEST_SHOWN_USD:
        return ""
    return f"{'at least ' if unpriced else ''}{format_usd(usd)}"


def unknown_price_text(unpriced: int, count: int) -> str:
    """`price unknown`, or `price unknown for 2` if it is for some of them."""
    return "price unknown" if unpriced == count else f"price unknown for {unpriced}"


def _item_cost(finding: Finding, acted: bool) -> Cost:
    """A rate while it is idle; after an action, what that saves, since the cost has changed."""
    rate = f"{format_usd(finding.price.usd_per_hour * 24)} a day" if finding.price else "price unknown"
    if not acted:
        return Cost(label="Cost", figure=rate, besides=f"{format_usd(finding.wasted_usd)} wasted" if finding.wasted_usd else "")
    if finding.outcome.result is not Result.DONE:
        return Cost(label="Cost", figure=rate, besides="if it still runs")
    if saved := forecast.saved_usd_per_hour(finding):
        return Cost(label="Saving", figure=f"{format_usd(saved * 24)} a day", besides=f"it cost {rate}")
    return Cost(label="Cost", figure=rate, besides="until the rest is done" if finding.outcome.part_done else "before that")


def _undo_command(finding: Finding) -> str | None:
    """The command that undoes its action; None for a start, which removed nothing."""
    if finding.step.name is StepName.START:
        return None
    host = finding.outcome.host_id
    return commands.restore_command(host) if host else commands.undo_command(finding.case.resource)


def _may_be_idle_longer(finding: Finding, now: datetime) -> bool:
    """Whether it may have been idle since before the window: no use was found in it, and the resource is older."""
    resource, verdict = finding.case.resource, finding.case.verdict
    if verdict.idle_for is None or verdict.last_busy is not None or resource.created is None:
        return False
    return resource.created < now - verdict.idle_for


def _safe_link(address: str | None) -> str | None:
    """The link if a mail client may open it, so that a button never leads to anything but a web page."""
    if address is None:
        return None
    parts = split_address(address)
    local = parts.scheme == "http" and is_loopback(parts.hostname)
    return address if (parts.scheme == "https" or local) and parts.hostname and address.isprintable() else None


# MERGED Two weeks of use as a row of small bars, for any mail client and any terminal. Pure.


BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
"""The first means no use at all, each of the others some."""
MAX_BARS = 28
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """The bars of one activity signal, oldest first; they cover `span` and end with the window."""

    signal: str
    bars: str
    span: timedelta


def pick_sparkline(evidence: Sequence[Evidence]) -> Sparkline | None:
    """The activity signal that was busy last; None if none has a series."""
    drawn = [e for e in evidence if e.role is Role.ACTIVITY and e.slots]
    if not drawn:
        return None
    best = max(drawn, key=lambda e: e.last_busy or NEVER)
    name = f"{best.signal} of {best.subject}" if best.subject else best.signal
    return Sparkline(signal=name, bars=draw_bars(best.slots), span=SLOT_LENGTH * len(best.slots))


def draw_bars(slots: Sequence[int]) -> str:
    """Percentages as at most MAX_BARS bars, each the highest of its slots; even the least use shows."""
    wide = -(-len(slots) // MAX_BARS)
    peaks = [max(slots[max(0, end - wide) : end]) for end in range(len(slots), 0, -wide)] if slots else []
    return "".join(BAR_CHARACTERS[max(1, round(peak * 7 / 100)) if peak > 0 else 0] for peak in reversed(peaks))


def bar_heights(drawn: str) -> list[int]:
    """The bars as numbers from 0 (no use) to 7."""
    return [BAR_CHARACTERS.index(c) for c in drawn]


# MERGED The console page of a resource, as an address that a mail can link to (`Kind.console_url`). Pure.


MAX_NAME_LENGTH = 300
"""Characters of a name; no cloud takes a longer one."""


def console_address(resource: Resource) -> str | None:
    """The https address of its page; None for a kind without a page that a link can lead to, and for an ID that is not as the cloud writes it."""
    if not resource.name.isprintable() or not 0 < len(resource.name) <= MAX_NAME_LENGTH:
        return None
    kind = registry.find_kind(resource.kind)
    return kind.console_url(resource) if kind else None
