"""The report in brief as plain text, for the command line: money first, then idle by cost, then unknown, then coverage."""

from __future__ import annotations

from collections.abc import Mapping

from reaper.case import Coverage, Finding, Report
from reaper.duration import format_duration
from reaper.model import Target
from reaper.pending.stop_switch import paused_sentence
from reaper.report import coverage_map, totals
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
from reaper.text import clean_line, count_noun, format_usd

MAX_ROWS = 25


def render(report: Report, rows: int = MAX_ROWS) -> str:
    """The report, at most `rows` lines of each sort, with a count of the rest."""
    blocks = [
        _money_lines(report),
        clean_line(paused_sentence(report.run.pause), 300),
        *_action_blocks(report, rows),
        _idle_lines(report, rows),
        _unknown_lines(report, rows),
        _coverage_lines(report),
        _footer(report),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _money_lines(report: Report) -> str:
    sums = report_totals(report)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count) or "none"
    unpriced = f" ({sums.unpriced_idle} more: price unknown)" if sums.unpriced_idle else ""
    dollars = (
        f"{format_usd(sums.idle_usd_per_hour)} an hour, {format_usd(sums.idle_usd_per_month)} a month, "
        f"{format_usd(sums.wasted_usd)} wasted"
    )
    head = f"Idle now: {dollars}{acted_clause(report)}{unpriced}" if sums.by_state["idle"] else f"{nothing_idle_text(report)}."
    return "\n".join(
        [head, *(f"  {line}" for line in access_remedies(report)), f"{count_noun(sums.resources, 'resource')}: {states}"]
    )


def _idle_lines(report: Report, rows: int) -> str:
    idle = idle_findings(report)
    places = coverage_map.locations(report.findings)
    lines = ["IDLE, most expensive first", *(_finding_line(f, places) for f in idle[:rows]), *_more_line(len(idle) - rows)]
    return "\n".join(lines) if idle else ""


def _action_blocks(report: Report, rows: int) -> list[str]:
    return [
        "\n".join(
            [
                group.title.upper(),
                *(
                    f"- {totals.action_word(f)}: {clean_line(f.case.resource.name)} ({f.case.resource.kind}): {clean_line(totals.outcome_reason(f), 300)}"
                    for f in group.findings[:rows]
                ),
                *_more_line(len(group.findings) - rows),
            ]
        )
        for group in totals.action_groups(report)
    ]


def _finding_line(finding: Finding, places: Mapping[tuple[Target, str], str]) -> str:
    resource, verdict = finding.case.resource, finding.case.verdict
    money = f"{format_usd(finding.price.usd_per_hour)}/hour" if finding.price else "price unknown"
    wasted = f", {format_usd(finding.wasted_usd)} wasted" if finding.wasted_usd is not None else ""
    length = format_duration(verdict.idle_for) if verdict.idle_for else ""
    owner = f", owner {clean_line(finding.owner.address)}" if finding.owner.address else ""
    head = f"- {clean_line(resource.name)} ({resource.kind}, {clean_line(resource.size) or 'size unknown'}, {places[resource.target, resource.region]}): {money}{wasted}"
    return f"{head}, idle for {length} ({verdict.confidence}){owner}\n    {clean_line(verdict.because)}"


def _unknown_lines(report: Report, rows: int) -> str:
    unknown = unknown_findings(report)
    places = coverage_map.locations(report.findings)
    lines = [
        f"- {clean_line(f.case.resource.name)} ({f.case.resource.kind}, {places[f.case.resource.target, f.case.resource.region]}): {clean_line(f.case.verdict.because)}"
        for f in unknown
    ]
    return "\n".join(["UNKNOWN, never acted on", *lines[:rows], *_more_line(len(unknown) - rows)]) if unknown else ""


def _coverage_lines(report: Report) -> str:
    failed, calls = own_failures(report), report_totals(report).calls
    head = (
        f"COVERAGE{' INCOMPLETE' if incomplete_rows(report) else ''}: {_complete_text(report)}, {count_noun(calls, 'API call')}"
    )
    blocks = ["\n".join([head, *(f"- {gap.status} {gap.why}\n    {gap.places}" for gap in coverage_map.coverage_gaps(report))])]
    blocks += ["\n".join(["FAILED", *(failure_line(row) for row in failed)])] if failed else []
    return "\n\n".join(blocks)


def _complete_text(report: Report) -> str:
    """`13 of 14 complete`."""
    rows = len(cloud_rows(report))
    return f"{rows - len(incomplete_rows(report))} of {rows} complete"


def incomplete_line(report: Report) -> str:
    """One line for someone who doesn't read the report at once: how many gaps and failures there are, and the first cause."""
    gaps, failed = incomplete_rows(report), own_failures(report)
    counts = [_complete_text(report)] if gaps else []
    counts += [f"{count_noun(len(failed), 'failure')} in the reaper itself"] if failed else []
    first = _gap_line(gaps[0]) if gaps else failure_line(failed[0]).removeprefix("- ")
    return f"coverage incomplete: {', '.join(counts)}; first: {first}"


def _gap_line(row: Coverage) -> str:
    return f"{row.status}: {row.kind} in {coverage_map.place_text(row.account, row.account_name, row.region)}{_missing_permission(row)}: {clean_line(row.error or '')}"


def failure_line(row: Coverage) -> str:
    """One failure in the reaper itself."""
    return f"- {clean_line(row.kind)}{_missing_permission(row)}: {clean_line(row.error or '', 300)}"


def _missing_permission(row: Coverage) -> str:
    return f", missing permission {row.missing}" if row.missing else ""


def _footer(report: Report) -> str:
    mode = "Audit mode: nothing was changed." if not report.run.mode.writes else f"Mode: {report.run.mode}."
    return f"{mode} Costs are list prices before discounts. Run {report.run.id}."


def _more_line(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
