"""The report in brief as plain text, for mail and SNS: money first, then idle by cost, then what is unknown, then coverage."""

from __future__ import annotations

from reaper.duration import format_duration
from reaper.model import Coverage, Finding, Report
from reaper.report import action_groups
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
from reaper.text import clean_line, count_noun

MAX_ROWS = 25


def summary_subject(report: Report) -> str:
    """One ASCII line of at most 100 characters, as SNS demands for subjects."""
    sums = report_totals(report)
    count = sums.by_state["idle"]
    cost = f" cost{'s' if count == 1 else ''} ${sums.idle_usd_per_hour:,.2f} an hour"
    found = f"{count} idle ML resource{'' if count == 1 else 's'}{cost if count > sums.unpriced_idle else ', price not known'}"
    parts = [found if count else nothing_idle_text(report)]
    parts += [f"{sums.acted.count} of them acted on"] if sums.acted.count else []
    parts += [_lists_complete(report)] if incomplete_rows(report) else []
    parts += [f"failed: {', '.join(row.kind for row in own_failures(report))}"] if own_failures(report) else []
    return f"[ML Idle Reaper] {'; '.join(parts)}".encode("ascii", "replace").decode()[:100]


def render(report: Report, rows: int = MAX_ROWS) -> str:
    """The summary, at most `rows` lines of each sort, saying how many were left out."""
    blocks = [
        _money_lines(report),
        *_action_blocks(report, rows),
        _idle_lines(report, rows),
        _unknown_lines(report, rows),
        _coverage_lines(report),
        _footer(report),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def place_text(account: str, name: str | None, region: str | None) -> str:
    """Where something is: `123456789012 us-east-1`, or for what has a name `Planning (22222222-2222-…) eastus`."""
    where = f"{clean_line(name)} ({account})" if name else account
    return clean_line(f"{where} {region or ''}".strip(), 300)


def _money_lines(report: Report) -> str:
    sums = report_totals(report)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count) or "nothing found"
    unpriced = f" ({sums.unpriced_idle} idle without a known price, not counted)" if sums.unpriced_idle else ""
    dollars = (
        f"${sums.idle_usd_per_hour:,.2f} an hour, ${sums.idle_usd_per_month:,.0f} a month, ${sums.wasted_usd:,.0f} since idle"
    )
    head = f"Idle now: {dollars}{acted_clause(report)}{unpriced}" if sums.by_state["idle"] else f"{nothing_idle_text(report)}."
    return "\n".join(
        [head, *(f"  {line}" for line in access_remedies(report)), f"{count_noun(sums.resources, 'resource')}: {states}"]
    )


def _idle_lines(report: Report, rows: int) -> str:
    found = idle_findings(report)
    return (
        "\n".join(["IDLE, dearest first", *(_finding_line(f) for f in found[:rows]), *_more_line(len(found) - rows)])
        if found
        else ""
    )


def _action_blocks(report: Report, rows: int) -> list[str]:
    return [
        "\n".join(
            [
                group.title.upper(),
                *(
                    f"- {action_groups.action_word(f)}: {clean_line(f.case.resource.name)} ({f.case.resource.kind}): {clean_line(action_groups.outcome_reason(f), 300)}"
                    for f in group.findings[:rows]
                ),
                *_more_line(len(group.findings) - rows),
            ]
        )
        for group in action_groups.action_groups(report)
    ]


def _finding_line(finding: Finding) -> str:
    resource, verdict = finding.case.resource, finding.case.verdict
    money = f"${finding.price.usd_per_hour:.2f}/h" if finding.price else "price unknown"
    wasted = f", ${finding.wasted_usd:,.0f} so far" if finding.wasted_usd is not None else ""
    length = format_duration(verdict.idle_for) if verdict.idle_for else ""
    owner = f", owner {clean_line(finding.owner.address)}" if finding.owner.address else ""
    head = f"- {clean_line(resource.name)} ({resource.kind}, {clean_line(resource.size) or 'size unknown'}, {resource.region}): {money}{wasted}"
    return f"{head}, idle {length} ({verdict.confidence}){owner}\n    {clean_line(verdict.because)}"


def _unknown_lines(report: Report, rows: int) -> str:
    found = unknown_findings(report)
    lines = [
        f"- {clean_line(f.case.resource.name)} ({f.case.resource.kind}, {f.case.resource.region}): {clean_line(f.case.verdict.because)}"
        for f in found
    ]
    return "\n".join(["UNKNOWN, left alone", *lines[:rows], *_more_line(len(found) - rows)]) if found else ""


def _coverage_lines(report: Report) -> str:
    from reaper.report import coverage_map  # it needs this module's words

    failed, calls = own_failures(report), report_totals(report).calls
    head = f"COVERAGE{' INCOMPLETE' if incomplete_rows(report) else ''}: {_lists_complete(report)}, {count_noun(calls, 'call')}"
    blocks = ["\n".join([head, *(f"- {one.status} {one.why}\n    {one.places}" for one in coverage_map.coverage_gaps(report))])]
    blocks += ["\n".join(["FAILED", *(failure_line(row) for row in failed)])] if failed else []
    return "\n\n".join(blocks)


def _lists_complete(report: Report) -> str:
    """`13 of 14 lists complete`."""
    every = len(cloud_rows(report))
    return f"{every - len(incomplete_rows(report))} of {count_noun(every, 'list')} complete"


def incomplete_line(report: Report) -> str:
    """One line for where the report itself is not read at once: how many lists have gaps, or which of our own means failed, and the first cause."""
    holes, failed = incomplete_rows(report), own_failures(report)
    counted = [f"{len(holes)} of {count_noun(len(cloud_rows(report)), 'list')}"] if holes else []
    counted += [f"{count_noun(len(failed), 'failure')} of the reaper's own means"] if failed else []
    first = _incomplete_list(holes[0]) if holes else failure_line(failed[0]).removeprefix("- ")
    return f"coverage incomplete: {' and '.join(counted)}, first {first}"


def _incomplete_list(row: Coverage) -> str:
    """One list that is not complete."""
    return f"{row.status}: {row.kind} in {place_text(row.account, row.account_name, row.region)}{_missing_permission(row)}: {clean_line(row.error or '')}"


def failure_line(row: Coverage) -> str:
    """One failure of our own means."""
    return f"- {clean_line(row.kind)}{_missing_permission(row)}: {clean_line(row.error or '', 300)}"


def _missing_permission(row: Coverage) -> str:
    return f", missing permission {row.missing}" if row.missing else ""


def _footer(report: Report) -> str:
    told = "Nothing was changed: this was an audit." if not report.run.mode.writes else f"Mode: {report.run.mode}."
    return f"{told} List prices, before discounts. Run {report.run.id}."


def _more_line(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
