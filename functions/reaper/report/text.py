"""The report for a terminal: totals and money first, then idle by cost, then unknown with the reason, then coverage."""

from __future__ import annotations

import io
from collections import Counter

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reaper.duration import text
from reaper.model import Confidence, Finding, Mode, Report, State, Status
from reaper.report.summary import clean
from reaper.report.totals import idle, totals, unknown

COLOURS = {State.IDLE: "yellow", State.UNKNOWN: "magenta", State.ACTIVE: "green", State.YOUNG: "cyan", State.EXEMPT: "blue"}
BAD = {Status.PARTIAL: "yellow", Status.DENIED: "bold red", Status.FAILED: "bold red"}


def render(report: Report, width: int = 120, colour: bool = False) -> str:
    """The report as text of at most `width` columns, with terminal colours if asked."""
    console = Console(file=io.StringIO(), width=width, force_terminal=colour, no_color=not colour, highlight=False, emoji=False)
    console.print(Group(*(part for part in (_head(report), _idle(report), _unknown(report), _coverage(report)) if part)))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _head(report: Report) -> RenderableType:
    sums = totals(report)
    unpriced = f"  (+ {sums.unpriced_idle} idle without a known price)" if sums.unpriced_idle else ""
    money = f"${sums.idle_usd_per_hour:,.2f}/h   ${sums.idle_usd_per_month:,.0f}/month   ${sums.wasted_usd:,.0f} since idle"
    states = Text.assemble(*((f"{count} {state}   ", COLOURS[State(state)]) for state, count in sums.by_state.items()))
    mode = "audit, nothing was changed" if report.run.mode is Mode.AUDIT else str(report.run.mode)
    head = Text.assemble(("Idle now  ", "bold"), (money, "bold yellow"), unpriced)
    return Group(
        head,
        Text.assemble((f"{sums.resources} resources  ", "bold"), states),
        Text(f"Mode: {mode}   run {report.run.id}", style="dim"),
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim"
    )
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in {"$/h", "wasted", "idle for"} else "left")
    return table


def _idle(report: Report) -> RenderableType | None:
    found = idle(report)
    if not found:
        return None
    table = _table(f"\nIdle, dearest first ({len(found)})", "$/h", "wasted", "idle for", "resource", "size", "why and what next")
    for one in found:
        table.add_row(*_row(one, report.run.mode))
    return table


def _row(found: Finding, mode: Mode) -> list[RenderableType]:
    resource, verdict = found.case.resource, found.case.verdict
    price = f"{found.price.usd_per_hour:.2f}" if found.price else "?"
    wasted = f"${found.wasted_usd:,.0f}" if found.wasted_usd is not None else "?"
    name = Text.assemble((clean(resource.name), "bold"), f"\n{resource.kind}, {resource.region}")
    likely = "likely: " if verdict.confidence is Confidence.LIKELY else ""
    would = "would " if mode is Mode.AUDIT else ""
    told = (
        f" -> {would}{found.step.move} {clean(found.owner.address or 'nobody: no owner known')}"
        if found.step.move != "none"
        else ""
    )
    return [
        price,
        wasted,
        text(verdict.idle_for) if verdict.idle_for else "",
        name,
        clean(resource.size),
        Text(f"{likely}{clean(verdict.because)}{told}"),
    ]


def _unknown(report: Report) -> RenderableType | None:
    found = unknown(report)
    if not found:
        return None
    table = _table(f"\nUnknown, left alone ({len(found)})", "resource", "why")
    for one in found:
        resource = one.case.resource
        table.add_row(
            Text.assemble((clean(resource.name), "bold"), f"  {resource.kind}, {resource.region}"),
            Text(clean(one.case.verdict.because)),
        )
    return table


def _coverage(report: Report) -> RenderableType:
    gaps = [c for c in report.coverage if c.status is not Status.OK]
    sums = totals(report)
    places = Counter((c.account, c.region) for c in report.coverage)
    seen = (
        f"{len(report.coverage) - len(gaps)} of {len(report.coverage)} lists complete, {len(places)} targets, {sums.calls} calls"
    )
    head = Text.assemble(("\nCoverage  ", "bold"), (seen, "green" if not gaps else "bold red"))
    rows = []
    for row in gaps:
        missing = f" missing {row.missing}:" if row.missing else ""
        where = f"{row.kind} in {row.account} {row.region or ''}".strip()
        rows.append(
            Padding(
                Text.assemble((f"{row.status} ", BAD[row.status]), f"{where}:{missing} {clean(row.error or '')}"), (0, 0, 0, 2)
            )
        )
    return Group(head, *rows)
