"""The report for a terminal: totals and money first, then idle by cost, then unknown with the reason, then coverage.

Figures are never cut or wrapped: names, sizes and proofs give way first, then whole columns that others can do without.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reaper.duration import format_duration
from reaper.echo import count_noun
from reaper.model import Confidence, Coverage, Finding, Report, Result, Role, State, Status, StepName
from reaper.policy import owners
from reaper.report import action_groups, coverage_map, layout
from reaper.report.brief import clean_line
from reaper.report.totals import (
    access_remedies,
    acted_clause,
    cloud_rows,
    idle_findings,
    incomplete_rows,
    nothing_idle_text,
    own_failures,
    report_totals,
    unknown_findings,
)

STATE_COLOURS = {State.IDLE: "yellow", State.UNKNOWN: "magenta", State.ACTIVE: "green", State.YOUNG: "cyan", State.EXEMPT: "blue"}
MIN_WIDTH = 44
"""Columns without which there is no room for figures and a name."""
WRAP_BELOW = 100
"""Below so many columns a reason goes on in the next line instead of being cut."""
MAX_CELL_WIDTH = 60
MAX_ROWS = 30
"""Of unknown resources; a permission that is missing makes them all unknown for one reason."""
RIGHT_ALIGNED = frozenset({"$/h", "wasted", "idle for"})
IDLE_STAGES = (
    ("proof", 26), ("size", 19), ("resource", 32), ("owner", 24), ("owner", 0), ("region", 0),
    ("proof", 6), ("resource", 20), ("size", 12), ("resource", 14), ("size", 0), ("proof", 0), ("kind", 0), ("resource", 8),
)  # fmt: skip
"""What gives way in the table of idle resources, first to last; 6 is the length of `proven` and `likely`."""
REASON_STAGES = (
    ("why", 60),
    ("resource", 32),
    ("why", 36),
    ("resource", 16),
    ("why", 20),
    ("kind", 0),
    ("resource", 8),
    ("why", 8),
)
UP_SINCE = re.compile(r"^(?:it has been up|running) since [0-9-]+ [0-9:]+ UTC(?:,| and) ")
"""How every sentence about something that is only likely idle begins."""
SHORT_EVIDENCE = {
    "written no jupyter log": "no log",
    "jupyter log has been silent": "log silent",
    "last user activity is old": "no user activity",
    "nothing tells whether anybody uses it": "no sign of use",
    "no job since": "no job run",
    "its last job was seen": "no job lately",
    "shows no invocation": "no invocation",
}
"""What the sentences about indirect evidence come down to."""
STATUS_COLOURS = {Status.PARTIAL: "yellow", Status.DENIED: "bold red", Status.FAILED: "bold red"}


def render(report: Report, width: int = 120, colour: bool = False, explain: str = "reaper explain NAME") -> str:
    """The report as text of at most `width` columns, with terminal colours if asked. `explain`: the command that tells all of one."""
    console = Console(
        file=io.StringIO(),
        width=max(width, MIN_WIDTH),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    parts = (
        _head(report),
        *_action_tables(report, width),
        _idle_table(report, width, explain),
        _unknown_table(report, width),
        _coverage_block(report),
    )
    console.print(Group(*(part for part in parts if part)), crop=False)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _head(report: Report) -> RenderableType:
    sums = report_totals(report)
    unpriced = f"  (+ {sums.unpriced_idle} idle without a known price)" if sums.unpriced_idle else ""
    money = f"${sums.idle_usd_per_hour:,.2f}/h   ${sums.idle_usd_per_month:,.0f}/month   ${sums.wasted_usd:,.0f} since idle"
    states = Text.assemble(*((f"{count} {state}   ", STATE_COLOURS[State(state)]) for state, count in sums.by_state.items()))
    mode = "audit, nothing was changed" if not report.run.mode.writes else str(report.run.mode)
    idle_now = Text.assemble(("Idle now  ", "bold"), (money, "bold yellow"), acted_clause(report), unpriced)
    head = idle_now if sums.by_state["idle"] else Text(f"{nothing_idle_text(report)}.", style="bold")
    return Group(
        head,
        *(Padding(Text(line), (0, 0, 0, 2)) for line in access_remedies(report)),
        Text.assemble((f"{count_noun(sums.resources, 'resource')}  ", "bold"), states),
        Text(f"Mode: {mode}   run {report.run.id}", style="dim"),
    )


Rows = Sequence[Mapping[str, str | Text]]


def _table(title: str, rows: Rows, stages: Sequence[tuple[str, int]], width: int) -> Table:
    """One line a row, its cells by column; only reasons go on in the next line, and only on a narrow terminal."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.padding = (0, layout.COLUMN_GAP, 0, 0)
    natural = {
        name: min(MAX_CELL_WIDTH if name != "why" else width, max(len(name), *(len(row[name]) for row in rows)))
        for name in rows[0]
    }
    given = layout.column_widths(natural, stages, width)
    for name, room in given.items():
        wraps = name == "why" and width < WRAP_BELOW
        table.add_column(
            name, width=room, no_wrap=not wraps, justify="right" if name in RIGHT_ALIGNED else "left", overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*(_cell(name, row[name], given[name]) for name in given))
    return table


def _cell(name: str, value: str | Text, room: int) -> Text:
    """A text, in which brackets are no markup. What fits of a proof is its first word where there is no room for more than that."""
    if name == "proof" and room < len("proven: no"):
        return Text(str(value).partition(":")[0])
    return value if isinstance(value, Text) else Text(value)


def _idle_table(report: Report, width: int, explain: str) -> RenderableType | None:
    found = idle_findings(report)
    if not found:
        return None
    table = _table(f"\nIdle, dearest first ({len(found)})", [_idle_row(one) for one in found], IDLE_STAGES, width)
    hint = owners.hint(f.owner for f in found)
    return Group(table, *_closing_lines(report, width, explain), *([Text(f"{hint}.", style="dim")] if hint else []))


def _closing_lines(report: Report, width: int, explain: str) -> list[Text]:
    """How many owners were told, and the command that tells more; in a line of its own, uncut, where it would not fit, to be pasted."""
    said = f"{_notice_count(report)}. Every signal of one:"
    if len(f"{said} {explain}") <= width:
        return [Text(f"{said} {explain}", style="dim")]
    return [Text(said, style="dim"), Text(f"  {explain}", style="dim", no_wrap=True, overflow="ignore")]


def _notice_count(report: Report) -> str:
    """How many owners were told, or in an audit would be, and how many could not be."""
    due = [f for f in idle_findings(report) if f.step.name in {StepName.WARN, StepName.REMIND}]
    if not report.run.mode.writes:
        count = len({f.owner.address for f in due if f.owner.address})
        return f"{count} owner{'' if count == 1 else 's'} would be told; nothing was done"
    told = {f.owner.address for f in due if f.outcome.result is Result.DONE and f.owner.address}
    lost = {f.owner.address for f in due if f.outcome.result is Result.FAILED} - told
    said = f"{len(told)} owner{' is' if len(told) == 1 else 's are'} told"
    return f"{said}, {len(lost)} could not be told" if lost else said


def _idle_row(finding: Finding) -> dict[str, str | Text]:
    resource, verdict = finding.case.resource, finding.case.verdict
    return {
        "$/h": f"{finding.price.usd_per_hour:,.2f}" if finding.price else "?",
        "wasted": f"${finding.wasted_usd:,.0f}" if finding.wasted_usd is not None else "?",
        "idle for": format_duration(verdict.idle_for) if verdict.idle_for else "",
        "resource": _name_cell(finding),
        "kind": clean_line(_short_kind(resource.kind)),
        "size": clean_line(resource.size),
        "proof": f"{verdict.confidence}: {_silent_signals(finding)}",
        "region": clean_line(resource.region),
        "owner": clean_line(owners.shown(finding.owner) or "nobody known"),
    }


def _name_cell(finding: Finding) -> Text:
    return Text(clean_line(finding.case.resource.name), style="bold")


def _action_tables(report: Report, width: int) -> Iterator[RenderableType]:
    for group in action_groups.action_groups(report):
        rows = [_action_row(one) for one in group.findings[:MAX_ROWS]]
        table = _table(f"\n{group.title} ({len(group.findings)})", rows, REASON_STAGES, width)
        table.title_style = "bold red" if group.needs_attention else "bold"
        yield table
        if len(group.findings) > MAX_ROWS:
            yield Text(f"... and {len(group.findings) - MAX_ROWS} more", style="dim")


def _action_row(finding: Finding) -> dict[str, str | Text]:
    usd, kind = finding.case.usd_per_hour, clean_line(_short_kind(finding.case.resource.kind))
    cost = "?" if usd is None else f"{usd:,.2f}"
    return {
        "move": action_groups.action_word(finding),
        "$/h": cost,
        "resource": _name_cell(finding),
        "kind": kind,
        "why": clean_line(action_groups.outcome_reason(finding), 300),
    }


def _short_kind(kind: str) -> str:
    return (
        kind.removeprefix("sagemaker-")
        .removeprefix("azureml-")
        .removeprefix("inference-")
        .removeprefix("online-")
        .removeprefix("compute-")
    )


def _silent_signals(finding: Finding) -> str:
    """The signals that were silent, in a word or two; of indirect evidence what there is of it besides a date."""
    signals = list(dict.fromkeys(e.signal for e in finding.evidence if e.role is Role.ACTIVITY))
    if finding.case.verdict.confidence is Confidence.LIKELY or not signals:
        return _short_evidence(finding.case.verdict.because)
    return f"no {clean_line(signals[0])}" + (f" +{len(signals) - 1}" if len(signals) > 1 else "")


def _short_evidence(because: str) -> str:
    """What there is of indirect evidence, in few words; a sentence that is not known here is told up to its first pause."""
    known = (short for words, short in SHORT_EVIDENCE.items() if words in because)
    return next(known, clean_line(UP_SINCE.sub("", because).partition(";")[0].partition(",")[0], 40))


def _unknown_table(report: Report, width: int) -> RenderableType | None:
    found = unknown_findings(report)
    if not found:
        return None
    rows: Rows = [
        {
            "resource": _name_cell(one),
            "kind": clean_line(_short_kind(one.case.resource.kind)),
            "why": clean_line(one.case.verdict.because, 300),
        }
        for one in found[:MAX_ROWS]
    ]
    table = _table(f"\nUnknown, left alone ({len(found)})", rows, REASON_STAGES, width)
    more = f"... and {len(found) - MAX_ROWS} more" if len(found) > MAX_ROWS else ""
    return Group(table, Text(more, style="dim")) if more else table


def _coverage_block(report: Report) -> RenderableType:
    holes, asked = incomplete_rows(report), cloud_rows(report)
    places, calls = {(c.account, c.region) for c in asked}, report_totals(report).calls
    seen = f"{len(asked) - len(holes)} of {count_noun(len(asked), 'list')} complete, {count_noun(len(places), 'target')}, {count_noun(calls, 'call')}"
    head = Text.assemble(("\nCoverage  ", "bold"), (seen, "green" if not holes else "bold red"))
    return Group(
        head,
        *(_gap_block(one) for one in coverage_map.coverage_gaps(report)),
        *(_failure_block(row) for row in own_failures(report)),
    )


def _gap_block(one: coverage_map.CoverageGap) -> RenderableType:
    """The same trouble once, with the lists that it met."""
    said = Text.assemble((f"{one.status}", STATUS_COLOURS[one.status]), f" {one.why}")
    where = Text(one.places, style="dim")
    return Group(Padding(said, (0, 0, 0, 2)), Padding(where, (0, 0, 0, 4)))


def _failure_block(row: Coverage) -> RenderableType:
    missing = f" missing {row.missing}:" if row.missing else ""
    said = f"{clean_line(row.kind)}:{missing} {clean_line(row.error or '', 300)}"
    return Padding(Text.assemble((f"{row.status}: ", STATUS_COLOURS[row.status]), said), (0, 0, 0, 2))
