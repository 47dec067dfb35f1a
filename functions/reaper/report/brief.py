"""The report in brief as plain text, for the command line: money first, then idle by cost, then unknown, then coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from reaper.case import Coverage, Finding, Report, price_basis
from reaper.duration import format_duration
from reaper.model import Target
from reaper.pending.stop_switch import paused_sentence
from reaper.report import coverage_map, summary
from reaper.text import Currency, clean_line, count_noun, format_usd

MAX_ROWS = 25


def render(report: Report, rows: int = MAX_ROWS) -> str:
    """The report, at most `rows` lines of each sort, with a count of the rest."""
    places = coverage_map.locations(report.findings)
    blocks = [
        _money_lines(report),
        clean_line(paused_sentence(report.run.pause), 300),
        *(_block(group.title.upper(), group.findings, _action_line, rows) for group in summary.action_groups(report)),
        _block("IDLE, most expensive first", report.idle, lambda f: _finding_line(f, places, report.run.currency), rows),
        _block("UNKNOWN, never acted on", report.unknown, lambda f: _unknown_line(f, places), rows),
        _coverage_lines(report),
        _footer(report),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _block(title: str, findings: Sequence[Finding], line: Callable[[Finding], str], rows: int) -> str:
    """The first lines under a title, and how many more there are; empty if there are none."""
    more = [f"  ... and {len(findings) - rows} more"] if len(findings) > rows else []
    return "\n".join([title, *map(line, findings[:rows]), *more]) if findings else ""


def _money_lines(report: Report) -> str:
    sums, unpriced, money = report.totals, summary.unpriced_clause(report), partial(format_usd, currency=report.run.currency)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count) or "none"
    dollars = (
        f"{money(sums.idle_usd_per_hour)} an hour, {money(sums.idle_usd_per_month)} a month, {money(sums.wasted_usd)} wasted"
    )
    idle_now = f"Idle now: {dollars}{summary.acted_clause(report)}{f' ({unpriced})' if unpriced else ''}"
    head = idle_now if report.idle else f"{summary.nothing_idle_text(report)}."
    notes = [f"  {line}" for line in (*summary.access_remedies(report), *summary.head_notes(report))]
    return "\n".join([head, *notes, f"{count_noun(sums.resources, 'resource')}: {states}"])


def _action_line(finding: Finding) -> str:
    resource, reason = finding.case.resource, clean_line(summary.outcome_reason(finding), 300)
    return f"- {summary.action_word(finding)}: {clean_line(resource.name)} ({resource.kind}): {reason}"


def _finding_line(finding: Finding, places: Mapping[tuple[Target, str], str], currency: Currency) -> str:
    resource, verdict = finding.case.resource, finding.case.verdict
    money = f"{format_usd(finding.price.usd_per_hour, currency=currency)}/hour" if finding.price else "price unknown"
    wasted = f", {format_usd(finding.wasted_usd, currency=currency)} wasted" if finding.wasted_usd is not None else ""
    length = format_duration(verdict.idle_for) if verdict.idle_for else ""
    owner = f", owner {clean_line(finding.owner.address)}" if finding.owner.address else ""
    head = f"- {clean_line(resource.name)} ({resource.kind}, {clean_line(resource.size) or 'size unknown'}, {places[resource.target, resource.region]}): {money}{wasted}"
    return f"{head}, idle for {length} ({verdict.confidence}){owner}\n    {clean_line(verdict.because)}"


def _unknown_line(finding: Finding, places: Mapping[tuple[Target, str], str]) -> str:
    resource = finding.case.resource
    where = f"{resource.kind}, {places[resource.target, resource.region]}"
    return f"- {clean_line(resource.name)} ({where}): {clean_line(finding.case.verdict.because)}"


def _coverage_lines(report: Report) -> str:
    counts = f"{summary.complete_count(report)} complete, {count_noun(report.totals.calls, 'API call')}"
    gaps = [f"- {gap.status} {gap.why}\n    {gap.places}" for gap in coverage_map.coverage_gaps(report)]
    blocks = ["\n".join([f"COVERAGE{' INCOMPLETE' if gaps else ''}: {counts}", *gaps])]
    blocks += ["\n".join(["FAILED", *(failure_line(row) for row in report.own_failures)])] if report.own_failures else []
    return "\n\n".join(blocks)


def incomplete_line(report: Report) -> str:
    """One line for someone who doesn't read the report at once: how many gaps and failures there are, and the first cause."""
    gaps, failed = report.gaps, report.own_failures
    counts = [f"{summary.complete_count(report)} complete"] if gaps else []
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
    return f"{mode} {price_basis(report.idle, report.run.currency)} Run {report.run.id}."
