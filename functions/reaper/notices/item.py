"""One resource as mails show it: what it is, since when it is idle, what it costs, and the commands and links for it. Pure.

What people can paste into a shell is the kinds' own (`Kind.commands`, `keep_line`, `undo_line`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any

from reaper import registry
from reaper.case import Blocked, Case, Evidence, is_in_weekly_summary
from reaper.duration import format_duration
from reaper.evidence import SLOT_LENGTH
from reaper.finding import Finding, Money, can_be_kept, is_action, money_of, saved_usd_per_hour
from reaper.kind import Command, Kind, account_of, is_pasteable
from reaper.model import Confidence, Resource, Result, Role, State, StepName, is_native
from reaper.notices import forecast
from reaper.notices.blocks import STAYS, Entry, Line, Look, Paragraph, Row
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


def about(finding: Finding) -> str:
    """Its kind, size and place."""
    resource = finding.case.resource
    return ", ".join(filter(None, (kind_title(resource.kind), tidy_line(resource.size, 80), shown_place(resource))))


def idle_line(finding: Finding, context: NoticeContext) -> list[Line]:
    """Since when it is idle, if that is known; at least, if no use was found in the window and the resource is older."""
    since, case = finding.idle_since, finding.case
    if not since:
        return []
    is_older = case.resource.created and case.verdict.last_busy is None and case.resource.created < since
    text = f"{'at least ' if is_older else ''}{format_time(since, context.time_zone(finding))} ({idle_length(finding)})"
    return [Line(label="Idle since:", text=text)]


def idle_length(finding: Finding) -> str:
    """How long it has been idle; empty if it isn't."""
    return format_duration(finding.idle_for) if finding.idle_for else ""


def fact_lines(finding: Finding, context: NoticeContext, after: str = "") -> list[Line]:
    """Its evidence, its cost, and what comes next or was done; or else `after`, a sentence of one's own."""
    indirect = " (indirect)" if finding.case.verdict.confidence is Confidence.LIKELY else ""
    next_label = "" if after else "Done:" if is_action(finding) else "Next:"
    return [
        Line(label=f"Evidence{indirect}:", text=why_judged(finding, context), look=Look.DIM),
        cost_line(finding, context),
        Line(label=next_label, text=after or next_text(finding, context)),
    ]


def why_judged(finding: Finding, context: NoticeContext) -> str:
    """The evidence for its state."""
    return with_local_times(tidy_line(finding.case.verdict.because, 300), context.time_zone(finding))


def next_text(finding: Finding, context: NoticeContext) -> str:
    """What comes next, or was done."""
    return with_local_times(forecast.next_sentence(finding, context), context.time_zone(finding))


def item_entry(number: int, finding: Finding, lines: Sequence[Line], *, rank: int = STAYS, has_bars: bool = True) -> Entry:
    """The resource in full, with these lines."""
    bars, shows = pick_sparkline(finding.case.evidence) if has_bars else ("", "")
    name = shown_name(finding.case.resource)
    return Entry(number=number, name=name, about=about(finding), bars=bars, bars_about=shows, lines=lines, rank=rank)


def item_row(finding: Finding, figure: str = "", rest: str = "", lines: Sequence[Line] = ()) -> Row:
    """The resource as a row of a list."""
    resource = finding.case.resource
    return Row(
        name=shown_name(resource),
        about=f"{kind_title(resource.kind)}, {shown_place(resource)}",
        figure=figure,
        rest=rest,
        lines=lines,
    )


def link_lines(
    finding: Finding, context: NoticeContext, link: str | None, *, to_owner: bool = True, brief: bool = False
) -> list[Line]:
    """Its owner's links and commands. In brief, without the tag, which is above, and without how to undo what hasn't been done."""
    lines, link = [], safe_link(link)
    if link:
        lines.append(Line(label="Keep it:", text=link, href=link, look=Look.BUTTON))
    if can_be_kept(finding) and not brief:
        lines += tag_line(finding, context, "Or add a tag:" if link else "To keep it, add a tag:")
    is_idle = finding.case.verdict.state is State.IDLE and not is_action(finding)
    stop = stop_command(finding.case) if is_idle else None
    if stop:
        lines.append(Line(label=f"{stop.label}:", text=stop.line, look=Look.CODE))
    if is_idle and (console := safe_link(console_address(finding.case.resource))):
        lines.append(Line(label="Or in the console:" if stop else "In the console:", text=console, href=console, look=Look.LINK))
    return lines if brief and not is_action(finding) else [*lines, *undo_line(finding, context, to_owner=to_owner)]


def tag_line(finding: Finding, context: NoticeContext, label: str = "To keep it, add a tag:") -> list[Line]:
    """The command for the tag that keeps it, if there is one."""
    command = keep_command(finding.case.resource, context.now)
    return [Line(label=label, text=command, look=Look.CODE)] if command else []


def undo_line(finding: Finding, context: NoticeContext, *, to_owner: bool = False) -> list[Line]:
    """How to undo what was done or is announced. For admins, the command names the ledger that it needs."""
    acted, command = is_action(finding), undo_command(finding.case.resource)
    if command is None or finding.step.name is StepName.START or not (acted or finding.announced):
        return []
    # Restoring takes the deployment's ledger and manifests, and the right to write.
    needs_admin = command.startswith(f"{RESTORE_COMMAND} ")
    command = with_settings(command, context.location_settings) if needs_admin and not to_owner else command
    asks = ", ask your admins to run" if needs_admin and to_owner else ":"
    return [Line(label=f"To undo this{'' if acted else ' later'}{asks}", text=command, look=Look.CODE)]


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


def cost_line(finding: Finding, context: NoticeContext) -> Line:
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


def safe_link(address: str | None) -> str | None:
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
