"""The report as Markdown, for pull requests, wikis and chat; names and tags are escaped."""

from __future__ import annotations

import re

from reaper.duration import text
from reaper.echo import many
from reaper.model import Finding, Report
from reaper.policy import owners
from reaper.report import action_groups, coverage_map
from reaper.report.brief import clean
from reaper.report.totals import idle, lists, nothing, over, remedies, totals, troubles, unknown


def render(report: Report) -> str:
    """Money first, then a table of what is idle, then what is unknown, then coverage."""
    sums = totals(report)
    lines = [
        "# Idle machine-learning resources",
        "",
        _lead(report),
        "",
        f"{many(sums.resources, 'resource')}: " + ", ".join(f"{count} {state}" for state, count in sums.by_state.items()) + ".",
        "",
        *_moves(report),
        *_idle(report),
        *_unknown(report),
        *_coverage(report),
        f"_Run {report.run.id}, mode {report.run.mode}, version {report.run.version}._",
    ]
    return "\n".join(lines) + "\n"


def _lead(report: Report) -> str:
    sums = totals(report)
    if not sums.by_state["idle"]:
        return "\n\n".join([f"**{nothing(report)}.**", *remedies(report)])
    money = f"**${sums.idle_usd_per_hour:,.2f} an hour, ${sums.idle_usd_per_month:,.0f} a month** at list price"
    return f"{money}{over(report)}; {sums.unpriced_idle} idle without a known price."


def _moves(report: Report) -> list[str]:
    lines = []
    for group in action_groups.groups(report):
        told = [
            f"- {action_groups.word(f)} {_plain(f.case.resource.name)} ({_plain(f.case.resource.kind)}): {_plain(action_groups.why(f))}"
            for f in group.findings
        ]
        lines += [f"## {group.title}", "", *told, ""]
    return lines


def _idle(report: Report) -> list[str]:
    found = idle(report)
    if not found:
        return []
    head = [
        "## Idle",
        "",
        "| $/h | wasted | idle for | resource | kind | region | owner | why |",
        "| ---: | ---: | ---: | --- | --- | --- | --- | --- |",
    ]
    hint = owners.hint(f.owner for f in found)
    return [*head, *(_row(f) for f in found), "", *([f"{_plain(hint, 500)}.", ""] if hint else [])]


def _row(found: Finding) -> str:
    resource, verdict = found.case.resource, found.case.verdict
    price = f"{found.price.usd_per_hour:.2f}" if found.price else "?"
    wasted = f"{found.wasted_usd:,.2f}" if found.wasted_usd is not None else "?"
    length = text(verdict.idle_for) if verdict.idle_for else ""
    cells = [
        price,
        wasted,
        length,
        resource.name,
        resource.kind,
        resource.region,
        owners.shown(found.owner) or "",
        f"{verdict.confidence}: {verdict.because}",
    ]
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _unknown(report: Report) -> list[str]:
    found = unknown(report)
    if not found:
        return []
    return [
        "## Unknown, left alone",
        "",
        *(f"- {_plain(f.case.resource.name)} ({_plain(f.case.resource.kind)}): {_plain(f.case.verdict.because)}" for f in found),
        "",
    ]


def _coverage(report: Report) -> list[str]:
    rows = [f"- **{gap.status}** {_plain(gap.why, 500)}: {_plain(gap.places, 500)}" for gap in coverage_map.gaps(report)]
    whole = [f"Coverage: all {many(len(lists(report)), 'list')} complete.", ""]
    failed = [f"- {_plain(c.kind)}: {_plain(c.error or '', 300)}" for c in troubles(report)]
    return [*(["## Coverage incomplete", "", *rows, ""] if rows else whole), *(["## Failed", "", *failed, ""] if failed else [])]


def _plain(value: str, most: int = 120) -> str:
    """Text that Markdown and HTML leave as it is."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!~@])", r"\\\1", clean(value, most)).replace("&", "&amp;")
