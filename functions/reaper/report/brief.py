"""The report in brief as plain text, for mail and SNS: money first, then idle by cost, then what is unknown, then coverage."""

from __future__ import annotations

from reaper.duration import text
from reaper.echo import many
from reaper.model import Coverage, Finding, Report
from reaper.report import action_groups
from reaper.report.totals import gaps, idle, lists, nothing, over, remedies, totals, troubles, unknown

ROWS = 25


def subject(report: Report) -> str:
    """One ASCII line of at most 100 characters, as SNS demands for subjects."""
    sums = totals(report)
    count = sums.by_state["idle"]
    cost = f" cost{'s' if count == 1 else ''} ${sums.idle_usd_per_hour:,.2f} an hour"
    found = f"{count} idle ML resource{'' if count == 1 else 's'}{cost if count > sums.unpriced_idle else ', price not known'}"
    parts = [found if count else nothing(report)]
    parts += [f"{sums.acted.count} of them acted on"] if sums.acted.count else []
    parts += [_lists(report)] if gaps(report) else []
    parts += [f"failed: {', '.join(row.kind for row in troubles(report))}"] if troubles(report) else []
    return f"[ML Idle Reaper] {'; '.join(parts)}".encode("ascii", "replace").decode()[:100]


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


def place(account: str, name: str | None, region: str | None) -> str:
    """Where something is: `123456789012 us-east-1`, or for what has a name `Planning (22222222-2222-…) eastus`."""
    where = f"{clean(name)} ({account})" if name else account
    return clean(f"{where} {region or ''}".strip(), 300)


def _money(report: Report) -> str:
    sums = totals(report)
    states = ", ".join(f"{count} {state}" for state, count in sums.by_state.items() if count) or "nothing found"
    unpriced = f" ({sums.unpriced_idle} idle without a known price, not counted)" if sums.unpriced_idle else ""
    dollars = (
        f"${sums.idle_usd_per_hour:,.2f} an hour, ${sums.idle_usd_per_month:,.0f} a month, ${sums.wasted_usd:,.0f} since idle"
    )
    head = f"Idle now: {dollars}{over(report)}{unpriced}" if sums.by_state["idle"] else f"{nothing(report)}."
    return "\n".join([head, *(f"  {line}" for line in remedies(report)), f"{many(sums.resources, 'resource')}: {states}"])


def _idle(report: Report, rows: int) -> str:
    found = idle(report)
    return "\n".join(["IDLE, dearest first", *(_line(f) for f in found[:rows]), *_more(len(found) - rows)]) if found else ""


def _moves(report: Report, rows: int) -> list[str]:
    return [
        "\n".join(
            [
                group.title.upper(),
                *(
                    f"- {action_groups.word(f)}: {clean(f.case.resource.name)} ({f.case.resource.kind}): {clean(action_groups.why(f), 300)}"
                    for f in group.findings[:rows]
                ),
                *_more(len(group.findings) - rows),
            ]
        )
        for group in action_groups.groups(report)
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
    from reaper.report import coverage_map  # it needs this module's words

    failed, calls = troubles(report), totals(report).calls
    head = f"COVERAGE{' INCOMPLETE' if gaps(report) else ''}: {_lists(report)}, {many(calls, 'call')}"
    blocks = ["\n".join([head, *(f"- {one.status} {one.why}\n    {one.places}" for one in coverage_map.gaps(report))])]
    blocks += ["\n".join(["FAILED", *(trouble(row) for row in failed)])] if failed else []
    return "\n\n".join(blocks)


def _lists(report: Report) -> str:
    """`13 of 14 lists complete`."""
    every = len(lists(report))
    return f"{every - len(gaps(report))} of {many(every, 'list')} complete"


def incomplete(report: Report) -> str:
    """One line for where the report itself is not read at once: how many lists have gaps, or which of our own means failed, and the first cause."""
    holes, failed = gaps(report), troubles(report)
    counted = [f"{len(holes)} of {many(len(lists(report)), 'list')}"] if holes else []
    counted += [f"{many(len(failed), 'failure')} of the reaper's own means"] if failed else []
    first = _one(holes[0]) if holes else trouble(failed[0]).removeprefix("- ")
    return f"coverage incomplete: {' and '.join(counted)}, first {first}"


def _one(row: Coverage) -> str:
    """One list that is not complete."""
    return (
        f"{row.status}: {row.kind} in {place(row.account, row.account_name, row.region)}{_missing(row)}: {clean(row.error or '')}"
    )


def trouble(row: Coverage) -> str:
    """One failure of our own means."""
    return f"- {clean(row.kind)}{_missing(row)}: {clean(row.error or '', 300)}"


def _missing(row: Coverage) -> str:
    return f", missing permission {row.missing}" if row.missing else ""


def _footer(report: Report) -> str:
    told = "Nothing was changed: this was an audit." if not report.run.mode.writes else f"Mode: {report.run.mode}."
    return f"{told} List prices, before discounts. Run {report.run.id}."


def _more(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
