"""The report for a terminal: totals and money first, then idle by cost, then unknown with the reason, then coverage."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reaper.duration import text
from reaper.model import Confidence, Coverage, Finding, Move, Report, Result, Role, State, Status
from reaper.report import moves
from reaper.report.summary import clean, place
from reaper.report.totals import gaps, idle, lists, nothing, over, totals, troubles, unknown

COLOURS = {State.IDLE: "yellow", State.UNKNOWN: "magenta", State.ACTIVE: "green", State.YOUNG: "cyan", State.EXEMPT: "blue"}
WIDE = 150
ROWS = 30
"""Of unknown resources; a permission that is missing makes them all unknown for one reason."""
BAD = {Status.PARTIAL: "yellow", Status.DENIED: "bold red", Status.FAILED: "bold red"}


def render(report: Report, width: int = 120, colour: bool = False) -> str:
    """The report as text of at most `width` columns, with terminal colours if asked."""
    console = Console(file=io.StringIO(), width=width, force_terminal=colour, no_color=not colour, highlight=False, emoji=False)
    console.print(
        Group(
            *(
                part
                for part in (
                    _head(report),
                    *_moves(report, width),
                    _idle(report, width),
                    _unknown(report, width),
                    _coverage(report),
                )
                if part
            )
        )
    )
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _head(report: Report) -> RenderableType:
    sums = totals(report)
    unpriced = f"  (+ {sums.unpriced_idle} idle without a known price)" if sums.unpriced_idle else ""
    money = f"${sums.idle_usd_per_hour:,.2f}/h   ${sums.idle_usd_per_month:,.0f}/month   ${sums.wasted_usd:,.0f} since idle"
    states = Text.assemble(*((f"{count} {state}   ", COLOURS[State(state)]) for state, count in sums.by_state.items()))
    mode = "audit, nothing was changed" if not report.run.mode.writes else str(report.run.mode)
    idle_now = Text.assemble(("Idle now  ", "bold"), (money, "bold yellow"), over(report), unpriced)
    head = idle_now if sums.by_state["idle"] else Text(f"{nothing(report)}.", style="bold")
    return Group(
        head,
        Text.assemble((f"{sums.resources} resources  ", "bold"), states),
        Text(f"Mode: {mode}   run {report.run.id}", style="dim"),
    )


def _table(title: str, *columns: str) -> Table:
    """One line a row; long cells are clipped before, so that figures are never the ones to be shortened."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim"
    )
    for name in columns:
        right = name in {"$/h", "wasted", "idle for"}
        table.add_column(name, no_wrap=True, justify="right" if right else "left")
    return table


def _clip(value: str, room: int) -> str:
    """The value as one harmless line of at most that many characters."""
    line = clean(value)
    return line if len(line) <= room else line[: room - 1] + "…"


def _idle(report: Report, width: int) -> RenderableType | None:
    found = idle(report)
    if not found:
        return None
    columns = ["$/h", "wasted", "idle for", "resource", "kind", "size", "proof", *(["region", "tell"] if width >= WIDE else [])]
    table = _table(f"\nIdle, dearest first ({len(found)})", *columns)
    for one in found:
        table.add_row(*_row(one)[: len(columns)])
    return Group(table, Text(f"{_told(report)}. Every signal of one: reaper explain NAME", style="dim"))


def _told(report: Report) -> str:
    """How many owners were told, or in an audit would be, and how many could not be."""
    due = [f for f in idle(report) if f.step.move in {Move.WARN, Move.REMIND}]
    if not report.run.mode.writes:
        count = len({f.owner.address for f in due if f.owner.address})
        return f"{count} owner{'' if count == 1 else 's'} would be told; nothing was done"
    told = {f.owner.address for f in due if f.outcome.result is Result.DONE and f.owner.address}
    lost = {f.owner.address for f in due if f.outcome.result is Result.FAILED} - told
    said = f"{len(told)} owner{' is' if len(told) == 1 else 's are'} told"
    return f"{said}, {len(lost)} could not be told" if lost else said


def _row(found: Finding) -> list[RenderableType]:
    resource, verdict = found.case.resource, found.case.verdict
    return [
        f"{found.price.usd_per_hour:.2f}" if found.price else "?",
        f"${found.wasted_usd:,.0f}" if found.wasted_usd is not None else "?",
        text(verdict.idle_for) if verdict.idle_for else "",
        Text(_clip(resource.name, 32), style="bold"),
        _short(resource.kind),
        Text(_clip(resource.size, 19)),
        Text(_clip(f"{verdict.confidence}: {_silent(found)}", 26)),
        resource.region,
        Text(_clip(found.owner.address or "nobody known", 28)),
    ]


def _moves(report: Report, width: int) -> Iterator[RenderableType]:
    room = max(40, width - 70)
    for group in moves.groups(report):
        table = _table(f"\n{group.title} ({len(group.findings)})", "move", "$/h", "resource", "kind", "why")
        table.title_style = "bold red" if group.loud else "bold"
        for one in group.findings[:ROWS]:
            usd = one.case.usd_per_hour
            cells: list[RenderableType] = [
                "?" if usd is None else f"{usd:.2f}",
                Text(_clip(one.case.resource.name, 32), style="bold"),
            ]
            table.add_row(moves.word(one), *cells, _short(one.case.resource.kind), Text(_clip(moves.why(one), room)))
        yield table
        if len(group.findings) > ROWS:
            yield Text(f"... and {len(group.findings) - ROWS} more", style="dim")


def _short(kind: str) -> str:
    return (
        kind.removeprefix("sagemaker-")
        .removeprefix("azureml-")
        .removeprefix("inference-")
        .removeprefix("online-")
        .removeprefix("compute-")
    )


def _silent(found: Finding) -> str:
    """The signals that were silent, in a word or two."""
    signals = list(dict.fromkeys(e.signal for e in found.evidence if e.role is Role.ACTIVITY))
    if found.case.verdict.confidence is Confidence.LIKELY or not signals:
        return "up for long"
    return f"no {clean(signals[0])}" + (f" +{len(signals) - 1}" if len(signals) > 1 else "")


def _unknown(report: Report, width: int) -> RenderableType | None:
    found = unknown(report)
    if not found:
        return None
    table = _table(f"\nUnknown, left alone ({len(found)})", "resource", "kind", "why")
    room = max(40, width - 48)
    for one in found[:ROWS]:
        resource = one.case.resource
        table.add_row(
            Text(_clip(resource.name, 32), style="bold"), _short(resource.kind), Text(_clip(one.case.verdict.because, room))
        )
    more = f"... and {len(found) - ROWS} more" if len(found) > ROWS else ""
    return Group(table, Text(more, style="dim")) if more else table


def _coverage(report: Report) -> RenderableType:
    holes, asked = gaps(report), lists(report)
    places = {(c.account, c.region) for c in asked}
    seen = f"{len(asked) - len(holes)} of {len(asked)} lists complete, {len(places)} targets, {totals(report).calls} calls"
    head = Text.assemble(("\nCoverage  ", "bold"), (seen, "green" if not holes else "bold red"))
    rows = []
    for row in holes:
        missing = f" missing {row.missing}:" if row.missing else ""
        where = f"{row.kind} in {place(row.account, row.account_name, row.region)}"
        rows.append(
            Padding(
                Text.assemble((f"{row.status} ", BAD[row.status]), f"{where}:{missing} {clean(row.error or '')}"), (0, 0, 0, 2)
            )
        )
    return Group(head, *rows, *(_trouble(row) for row in troubles(report)))


def _trouble(row: Coverage) -> RenderableType:
    missing = f" missing {row.missing}:" if row.missing else ""
    said = f"{clean(row.kind)}:{missing} {clean(row.error or '', 300)}"
    return Padding(Text.assemble((f"{row.status}: ", BAD[row.status]), said), (0, 0, 0, 2))
