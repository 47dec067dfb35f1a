"""The report for a terminal: totals and money first, then idle by cost, then unknown with the reason, then coverage.

Numbers are never cut or wrapped: names, sizes and evidence shrink first, then less important columns are removed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reaper.case import Coverage, Finding, Report, price_basis
from reaper.duration import short_duration
from reaper.model import NOTICES, Confidence, Result, Role, State, Status, Target
from reaper.pending.stop_switch import paused_sentence
from reaper.policy import owners
from reaper.report import coverage_map, summary
from reaper.text import Currency, clean_line, count_noun, format_usd, usd_cell

STATE_COLORS = {State.IDLE: "yellow", State.UNKNOWN: "magenta", State.ACTIVE: "green", State.YOUNG: "cyan", State.EXEMPT: "blue"}
MIN_WIDTH = 44
"""The width that numbers and a name need."""
WRAP_BELOW = 100
"""On a narrower terminal, reasons wrap instead of being cut."""
MAX_TEAMS = 10
SHARES_HINT = "In brackets: the share of its host's cost. The host's own line counts it."
MAX_CELL_WIDTH = 60
MAX_ROWS = 30
"""Rows of unknown resources; one missing permission can make all of them unknown."""
COLUMN_GAP = 2
"""Blanks between columns."""
RIGHT_ALIGNED = frozenset({"wasted", "idle for"})
IDLE_STAGES = (
    ("evidence", 26), ("size", 19), ("resource", 32), ("owner", 24), ("owner", 0), ("region", 0),
    ("evidence", 8), ("resource", 20), ("size", 12), ("resource", 14), ("size", 0), ("resource", 10), ("evidence", 0), ("kind", 0), ("resource", 8),
)  # fmt: skip
"""What shrinks in the table of idle resources, first to last; 8 is the length of the heading."""
REASON_STAGES = (
    ("why", 60), ("resource", 32), ("why", 36), ("resource", 16), ("why", 20), ("kind", 0), ("resource", 8), ("why", 8),
)  # fmt: skip
UP_SINCE = re.compile(r"^running since [0-9-]+ [0-9:]+ UTC, ")
"""How indirect evidence may begin."""
KIND_PREFIXES = re.compile(r"^(sagemaker-)?(azureml-)?(inference-)?(online-)?(compute-)?")
SHORT_EVIDENCE = {
    "no Jupyter log": "no log",
    "no new Jupyter log": "log silent",
    "no user activity": "no user activity",
    "no sign of use": "no sign of use",
    "no job since": "no job run",
    "its last job": "no job lately",
    "no invocation": "no invocation",
}
"""Indirect evidence in few words, by what its sentence contains."""
STATUS_COLORS = {Status.PARTIAL: "yellow", Status.DENIED: "bold red", Status.FAILED: "bold red"}


def render(report: Report, width: int = 120, colour: bool = False, explain: str = "reaper explain NAME") -> str:
    """The report as text of at most `width` columns, with or without terminal colors. `explain`: the command that explains one resource."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, MIN_WIDTH),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    parts = (
        _head(report),
        *(part for group in summary.action_groups(report) for part in _action_table(group, width, report.run.currency)),
        _idle_table(report, width, explain),
        _team_table(report, width),
        *_reason_table("Unknown, never acted on", report.unknown, _unknown_row, (width, "bold")),
        _coverage_block(report),
    )
    console.print(Group(*(part for part in parts if part)), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _head(report: Report) -> RenderableType:
    sums = report.totals
    unpriced = f"  ({clause})" if (clause := summary.unpriced_clause(report)) else ""
    amounts = (sums.idle_usd_per_hour, sums.idle_usd_per_month, sums.wasted_usd)
    hour, month, wasted = (format_usd(usd, currency=report.run.currency) for usd in amounts)
    money = f"{hour}/hour   {month}/month   {wasted} wasted"
    states = Text.assemble(*((f"{count} {state}   ", STATE_COLORS[State(state)]) for state, count in sums.by_state.items()))
    mode = "audit: nothing was changed" if not report.run.mode.writes else str(report.run.mode)
    idle_now = Text.assemble(("Idle now  ", "bold"), (money, "bold yellow"), summary.acted_clause(report), unpriced)
    head = idle_now if report.idle else Text(f"{summary.nothing_idle_text(report)}.", style="bold")
    return Group(
        head,
        *(Padding(Text(line), (0, 0, 0, 2)) for line in (*summary.access_remedies(report), *summary.head_notes(report))),
        Text.assemble((f"{count_noun(sums.resources, 'resource')}  ", "bold"), states),
        Text(f"Mode: {mode}   run {report.run.id}", style="dim"),
        *([Text(price_basis(report.idle, report.run.currency), style="dim")] if report.idle else []),
        *([Text(clean_line(paused, 300), style="bold red")] if (paused := paused_sentence(report.run.pause)) else []),
    )


Row = Mapping[str, str | Text]


def _table(title: str, rows: Sequence[Row], stages: Sequence[tuple[str, int]], width: int) -> Table:
    """One line a row, its cells by column; only reasons wrap, and only on a narrow terminal."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.padding = (0, COLUMN_GAP, 0, 0)
    natural = {
        name: min(MAX_CELL_WIDTH if name != "why" else width, max(len(name), *(len(row[name]) for row in rows)))
        for name in rows[0]
    }
    widths = column_widths(natural, stages, width)
    for name, room in widths.items():
        wraps = name == "why" and width < WRAP_BELOW
        table.add_column(
            name,
            width=room,
            no_wrap=not wraps,
            justify="right" if name in RIGHT_ALIGNED or name.endswith("/hour") else "left",
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(_cell(name, row[name], widths[name]) for name in widths))
    return table


def _cell(name: str, value: str | Text, room: int) -> Text:
    """Text in which brackets are no markup. If there is room for one word of evidence, it is `proven` or `likely`."""
    if name == "evidence" and room < len("proven: no"):
        return Text(str(value).partition(":")[0])
    return value if isinstance(value, Text) else Text(value)


def _idle_table(report: Report, width: int, explain: str) -> RenderableType | None:
    if not report.idle:
        return None
    places = coverage_map.locations(report.findings)
    rows = [_idle_row(f, places, report.run.currency) for f in report.idle]
    hint = owners.hint(f.owner for f in report.idle)
    return Group(
        _table(f"\nIdle, most expensive first ({len(rows)})", rows, IDLE_STAGES, width),
        *_closing_lines(report, width, explain),
        *([Text(f"{hint}.", style="dim")] if hint else []),
        *([Text(SHARES_HINT, style="dim")] if any(f.host_share for f in report.idle) else []),
    )


def _team_table(report: Report, width: int) -> RenderableType | None:
    """What everything costs by the first key of `report.tags`."""
    hour, rows = f"{report.run.currency.sign}/hour", []
    key = clean_line(next(iter(report.run.report_tags), ""))
    for group in summary.team_costs(report, MAX_TEAMS):
        amounts = {"idle": summary.idle_money(group.findings), "all": group.money}
        cells = {f"{name} {hour}": usd_cell(money.usd_per_hour, report.run.currency) for name, money in amounts.items()}
        unpriced = f" ({group.money.unpriced}: price unknown)" if group.money.unpriced else ""
        rows.append({**cells, "resources": f"{group.money.count}{unpriced}", key: group.name})
    return _table(f"\nCost by {key}, idle or not", rows, ((key, 20),), width) if rows else None


def _closing_lines(report: Report, width: int, explain: str) -> list[Text]:
    """How many owners were notified, and the command for more; uncut on a line of its own if it doesn't fit, to be pasted."""
    line = f"{_notice_count(report)}. For every signal:"
    if len(f"{line} {explain}") <= width:
        return [Text(f"{line} {explain}", style="dim")]
    return [Text(line, style="dim"), Text(f"  {explain}", style="dim", no_wrap=True, overflow="ignore")]


def _notice_count(report: Report) -> str:
    """How many owners were notified, or in an audit would be, and how many couldn't be."""
    due = [f for f in report.idle if f.step.name in NOTICES]
    if not report.run.mode.writes:
        count = len({f.owner.address for f in due if f.owner.address})
        return f"{count_noun(count, 'owner')} would be notified"
    notified = {f.owner.address for f in due if f.outcome.result is Result.DONE and f.owner.address}
    lost = {f.owner.address for f in due if f.outcome.result is Result.FAILED} - notified
    line = f"{count_noun(len(notified), 'owner')} notified"
    return f"{line}, {len(lost)} couldn't be notified" if lost else line


def _idle_row(finding: Finding, places: Mapping[tuple[Target, str], str], currency: Currency) -> Row:
    resource, verdict = finding.case.resource, finding.case.verdict
    return {
        f"{currency.sign}/hour": _rate_cell(finding, currency),
        "wasted": format_usd(finding.wasted_usd, 0, currency) if finding.wasted_usd is not None else "?",
        "idle for": short_duration(verdict.idle_for) if verdict.idle_for else "",
        "resource": _name_cell(finding),
        "kind": clean_line(_short_kind(resource.kind)),
        "size": clean_line(resource.size),
        "evidence": f"{verdict.confidence}: {_silent_signals(finding)}",
        "region": places[resource.target, resource.region],
        "owner": clean_line(owners.shown(finding.owner) or "no owner"),
    }


def _rate_cell(finding: Finding, currency: Currency) -> str:
    """What it costs an hour, or in brackets its share of what its host costs."""
    if share := finding.host_share:
        return f"({usd_cell(share.usd_per_hour, currency)})"
    return usd_cell(finding.price.usd_per_hour if finding.price else None, currency)


def _name_cell(finding: Finding) -> Text:
    return Text(clean_line(finding.case.resource.name), style="bold")


def _action_table(group: summary.ActionGroup, width: int, currency: Currency) -> Iterator[RenderableType]:
    row = partial(_action_row, currency=currency)
    return _reason_table(group.title, group.findings, row, (width, "bold red" if group.needs_attention else "bold"))


def _reason_table(
    title: str, findings: Sequence[Finding], row: Callable[[Finding], Row], look: tuple[int, str]
) -> Iterator[RenderableType]:
    """The first of these with a reason each, and how many more there are. `look`: the width, and the style of the title."""
    width, style = look
    if findings:
        table = _table(f"\n{title} ({len(findings)})", [row(f) for f in findings[:MAX_ROWS]], REASON_STAGES, width)
        table.title_style = style
        yield table
    if len(findings) > MAX_ROWS:
        yield Text(f"... and {len(findings) - MAX_ROWS} more", style="dim")


def _action_row(finding: Finding, currency: Currency) -> Row:
    return {
        "action": summary.action_word(finding),
        f"{currency.sign}/hour": usd_cell(finding.case.usd_per_hour, currency),
        "resource": _name_cell(finding),
        "kind": clean_line(_short_kind(finding.case.resource.kind)),
        "why": clean_line(summary.outcome_reason(finding), 300),
    }


def _unknown_row(finding: Finding) -> Row:
    return {
        "resource": _name_cell(finding),
        "kind": clean_line(_short_kind(finding.case.resource.kind)),
        "why": clean_line(finding.case.verdict.because, 300),
    }


def _short_kind(kind: str) -> str:
    return KIND_PREFIXES.sub("", kind)


def _silent_signals(finding: Finding) -> str:
    """The silent signals in a word or two; of indirect evidence, what it is besides a date."""
    signals = list(dict.fromkeys(e.signal for e in finding.evidence if e.role is Role.ACTIVITY))
    if finding.case.verdict.confidence is Confidence.LIKELY or not signals:
        return _short_evidence(finding.case.verdict.because)
    return f"no {clean_line(signals[0])}" + (f" +{len(signals) - 1}" if len(signals) > 1 else "")


def _short_evidence(because: str) -> str:
    """Indirect evidence in few words; a sentence without an entry in SHORT_EVIDENCE is shown up to its first comma."""
    known = (short for words, short in SHORT_EVIDENCE.items() if words in because)
    return next(known, clean_line(UP_SINCE.sub("", because).partition(";")[0].partition(",")[0], 40))


def _coverage_block(report: Report) -> RenderableType:
    places = {(row.account, row.region) for row in report.cloud_rows}
    calls = count_noun(report.totals.calls, "API call")
    counts = f"{summary.complete_count(report)} complete, {count_noun(len(places), 'target')}, {calls}"
    return Group(
        Text.assemble(("\nCoverage: ", "bold"), (counts, "green" if not report.gaps else "bold red")),
        *(_status_block(gap.status, "", f" {gap.why}", gap.places) for gap in coverage_map.coverage_gaps(report)),
        *(_status_block(row.status, ": ", _failure_text(row)) for row in report.own_failures),
    )


def _status_block(status: Status, mark: str, text: str, *below: str) -> RenderableType:
    head = Padding(Text.assemble((f"{status}{mark}", STATUS_COLORS[status]), text), (0, 0, 0, 2))
    return Group(head, *(Padding(Text(line, style="dim"), (0, 0, 0, 4)) for line in below))


def _failure_text(row: Coverage) -> str:
    missing = f" missing {row.missing}:" if row.missing else ""
    return f"{clean_line(row.kind)}:{missing} {clean_line(row.error or '', 300)}"


def column_widths(natural: Mapping[str, int], stages: Sequence[tuple[str, int]], width: int) -> dict[str, int]:
    """The characters of each column, by name and in the same order, so that all fit in `width`.

    `stages`: which column shrinks, first to last, and to what width; 0 removes it. A column without a stage never shrinks, so the table may
    be wider than `width`. Spare room goes to the column that shrank last.
    """
    widths = dict(natural)
    for name, least in stages:
        if name in widths and (excess := table_width(widths) - width) > 0:
            widths[name] = max(least, widths[name] - excess) if least < widths[name] else widths[name]
            widths = widths if least else {other: room for other, room in widths.items() if other != name}
    for name in dict.fromkeys(name for name, _ in reversed(stages)):
        if name in widths:
            widths[name] = min(natural[name], widths[name] + max(0, width - table_width(widths)))
    return widths


def table_width(widths: Mapping[str, int]) -> int:
    """The width of a table with these columns."""
    return sum(widths.values()) + COLUMN_GAP * (len(widths) - 1)
