"""The report as Markdown, for pull requests, wikis and chat; names and tags are escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reaper.case import Finding, Report
from reaper.duration import short_duration
from reaper.model import Target
from reaper.pending.stop_switch import paused_sentence
from reaper.policy import owners
from reaper.report import coverage_map, totals
from reaper.report.totals import (
    access_remedies,
    acted_clause,
    cloud_rows,
    idle_findings,
    nothing_idle_text,
    own_failures,
    report_totals,
    unknown_findings,
)
from reaper.text import clean_line, count_noun, format_usd, usd_cell


def render(report: Report) -> str:
    """Money first, then a table of idle resources, then unknown ones, then coverage."""
    sums = report_totals(report)
    lines = [
        "# Idle machine-learning resources",
        "",
        _headline(report),
        "",
        *([f"**{_escaped(paused, 300)}**", ""] if (paused := paused_sentence(report.run.pause)) else []),
        f"{count_noun(sums.resources, 'resource')}: "
        + ", ".join(f"{count} {state}" for state, count in sums.by_state.items())
        + ".",
        "",
        *_action_lines(report),
        *_idle_table(report),
        *_unknown_lines(report),
        *_coverage_lines(report),
        f"_Run {report.run.id}, mode {report.run.mode}, version {report.run.version}._",
    ]
    return "\n".join(lines) + "\n"


def _headline(report: Report) -> str:
    sums = report_totals(report)
    if not sums.by_state["idle"]:
        return "\n\n".join([f"**{nothing_idle_text(report)}.**", *access_remedies(report)])
    money = f"**{format_usd(sums.idle_usd_per_hour)} an hour, {format_usd(sums.idle_usd_per_month)} a month** at list price"
    unpriced = f"; {sums.unpriced_idle} more: price unknown" if sums.unpriced_idle else ""
    return f"{money}{acted_clause(report)}{unpriced}."


def _action_lines(report: Report) -> list[str]:
    lines = []
    for group in totals.action_groups(report):
        items = [
            f"- {totals.action_word(f)} {_escaped(f.case.resource.name)} ({_escaped(f.case.resource.kind)}): {_escaped(totals.outcome_reason(f))}"
            for f in group.findings
        ]
        lines += [f"## {group.title}", "", *items, ""]
    return lines


def _idle_table(report: Report) -> list[str]:
    idle = idle_findings(report)
    if not idle:
        return []
    head = [
        "## Idle",
        "",
        "| $/hour | wasted | idle for | resource | kind | region | owner | why |",
        "| ---: | ---: | ---: | --- | --- | --- | --- | --- |",
    ]
    hint, places = owners.hint(f.owner for f in idle), coverage_map.locations(report.findings)
    return [*head, *(_idle_row(f, places) for f in idle), "", *([f"{_escaped(hint, 500)}.", ""] if hint else [])]


def _idle_row(finding: Finding, places: Mapping[tuple[Target, str], str]) -> str:
    resource, verdict = finding.case.resource, finding.case.verdict
    price = usd_cell(finding.price.usd_per_hour if finding.price else None)
    wasted = usd_cell(finding.wasted_usd)
    length = short_duration(verdict.idle_for) if verdict.idle_for else ""
    cells = [
        price,
        wasted,
        length,
        resource.name,
        resource.kind,
        places[resource.target, resource.region],
        owners.shown(finding.owner) or "",
        f"{verdict.confidence}: {verdict.because}",
    ]
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _unknown_lines(report: Report) -> list[str]:
    unknown = unknown_findings(report)
    if not unknown:
        return []
    return [
        "## Unknown, never acted on",
        "",
        *(
            f"- {_escaped(f.case.resource.name)} ({_escaped(f.case.resource.kind)}): {_escaped(f.case.verdict.because)}"
            for f in unknown
        ),
        "",
    ]


def _coverage_lines(report: Report) -> list[str]:
    rows = [
        f"- **{gap.status}** {_escaped(gap.why, 500)}: {_escaped(gap.places, 500)}" for gap in coverage_map.coverage_gaps(report)
    ]
    whole = [f"Coverage: all {len(cloud_rows(report))} complete.", ""]
    failed = [f"- {_escaped(c.kind)}: {_escaped(c.error or '', 300)}" for c in own_failures(report)]
    return [*(["## Coverage incomplete", "", *rows, ""] if rows else whole), *(["## Failed", "", *failed, ""] if failed else [])]


def _escaped(value: str, most: int = 120) -> str:
    """Text without a meaning in Markdown and HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!~@])", r"\\\1", clean_line(value, most)).replace("&", "&amp;")
