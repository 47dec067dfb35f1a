"""The report in brief as plain text, for mail and SNS: money first, then idle by cost, then what is unknown, then coverage."""

from __future__ import annotations

from reaper.duration import text
from reaper.model import Coverage, Finding, Report, Status
from reaper.report import moves
from reaper.report.totals import idle, totals, unknown

ROWS = 25


def subject(report: Report) -> str:
    """One ASCII line of at most 100 characters, as SNS demands for subjects."""
    sums = totals(report)
    head = (
        f"{sums.by_state['idle']} idle ML resources cost ${sums.idle_usd_per_hour:,.2f} an hour"
        if sums.by_state["idle"]
        else "No idle ML resources"
    )
    gaps = sum(1 for c in report.coverage if c.status is not Status.OK)
    line = f"[ML Idle Reaper] {head}" + (f"; {gaps} of {len(report.coverage)} lists incomplete" if gaps else "")
    return line.encode("ascii", "replace").decode()[:100]


def render(report: Report, rows: int = ROWS) -> str:
    """The summary, at most `rows` lines of each sort, saying how many were left out."""
    blocks = [
        _money(report),
        *_moves(report, rows),
        _idle(report, rows),
        _unknown(report, rows),
        _coverage(report),
        _footer(report),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def clean(value: str, most: int = 120) -> str:
    """A name or tag as one harmless line: control and direction marks out, at most `most` characters."""
    kept = "".join(c if c.isprintable() else " " for c in value[: most + 1])
    return kept if len(kept) <= most else kept[: most - 3] + "..."


def _money(report: Report) -> str:
    sums = totals(report)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count) or "nothing found"
    unpriced = f" ({sums.unpriced_idle} idle without a known price, not counted)" if sums.unpriced_idle else ""
    dollars = (
        f"${sums.idle_usd_per_hour:,.2f} an hour, ${sums.idle_usd_per_month:,.0f} a month, ${sums.wasted_usd:,.0f} since idle"
    )
    return f"Idle now: {dollars}{unpriced}\n{sums.resources} resources: {states}"


def _idle(report: Report, rows: int) -> str:
    found = idle(report)
    return "\n".join(["IDLE, dearest first", *(_line(f) for f in found[:rows]), *_more(len(found) - rows)]) if found else ""


def _moves(report: Report, rows: int) -> list[str]:
    return [
        "\n".join(
            [
                group.title.upper(),
                *(
                    f"- {moves.word(f)}: {clean(f.case.resource.name)} ({f.case.resource.kind}): {clean(moves.why(f), 300)}"
                    for f in group.findings[:rows]
                ),
                *_more(len(group.findings) - rows),
            ]
        )
        for group in moves.groups(report)
    ]


def _line(found: Finding) -> str:
    resource, verdict = found.case.resource, found.case.verdict
    money = f"${found.price.usd_per_hour:.2f}/h" if found.price else "price unknown"
    wasted = f", ${found.wasted_usd:,.0f} so far" if found.wasted_usd is not None else ""
    length = text(verdict.idle_for) if verdict.idle_for else ""
    owner = f", owner {clean(found.owner.address)}" if found.owner.address else ""
    head = f"- {clean(resource.name)} ({resource.kind}, {clean(resource.size) or 'size unknown'}, {resource.region}): {money}{wasted}"
    return f"{head}, idle {length} ({verdict.confidence}){owner}\n    {clean(verdict.because)}"


def _unknown(report: Report, rows: int) -> str:
    found = unknown(report)
    lines = [
        f"- {clean(f.case.resource.name)} ({f.case.resource.kind}, {f.case.resource.region}): {clean(f.case.verdict.because)}"
        for f in found
    ]
    return "\n".join(["UNKNOWN, left alone", *lines[:rows], *_more(len(found) - rows)]) if found else ""


def _coverage(report: Report) -> str:
    gaps = [c for c in report.coverage if c.status is not Status.OK]
    if not gaps:
        return f"COVERAGE complete: {len(report.coverage)} lists, {totals(report).calls} calls"
    return "\n".join(["COVERAGE INCOMPLETE", *(_gap(c) for c in gaps)])


def _gap(row: Coverage) -> str:
    missing = f", missing permission {row.missing}" if row.missing else ""
    return f"- {row.status}: {row.kind} in {row.account} {row.region or ''}{missing}: {clean(row.error or '')}"


def _footer(report: Report) -> str:
    told = "Nothing was changed: this was an audit." if report.run.mode == "audit" else f"Mode: {report.run.mode}."
    return f"{told} List prices, before discounts. Run {report.run.id}."


def _more(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
