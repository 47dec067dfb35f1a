"""What a report lacks, as plain text for the command line: the coverage and its gaps, or one line about them."""

from __future__ import annotations

from reaper.case import Coverage, Report
from reaper.report import coverage_map, summary
from reaper.text import clean_line, count_noun


def coverage_text(report: Report) -> str:
    """The coverage, its gaps, and what failed in the reaper itself."""
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
