"""What a report lacks, in one line for the command line."""

from __future__ import annotations

from reaper.case import Coverage, Report
from reaper.report import coverage_map, summary
from reaper.text import clean_line, count_noun


def incomplete_line(report: Report) -> str:
    """One line for someone who doesn't read the report at once: how many gaps and failures there are, and the first cause."""
    gaps, failed = report.gaps, report.own_failures
    counts = [f"{summary.complete_count(report)} complete"] if gaps else []
    counts += [f"{count_noun(len(failed), 'failure')} in the reaper itself"] if failed else []
    first = _gap_line(gaps[0]) if gaps else _failure_line(failed[0])
    return f"coverage incomplete: {', '.join(counts)}; first: {first}"


def _gap_line(row: Coverage) -> str:
    return f"{row.status}: {row.kind} in {coverage_map.place_text(row.account, row.account_name, row.region)}{_missing_permission(row)}: {clean_line(row.error or '')}"


def _failure_line(row: Coverage) -> str:
    return f"{clean_line(row.kind)}{_missing_permission(row)}: {clean_line(row.error or '', 300)}"


def _missing_permission(row: Coverage) -> str:
    return f", missing permission {row.missing}" if row.missing else ""
