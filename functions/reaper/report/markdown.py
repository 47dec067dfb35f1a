"""The report as Markdown, for pull requests, wikis and chat; names and tags are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reaper.duration import short_duration
from reaper.finding import Finding, Report
from reaper.pending.stop_switch import paused_sentence
from reaper.policy import owners
from reaper.prices import price_basis
from reaper.report import coverage_map, summary
from reaper.text import clean_line, count_noun, format_usd, usd_cell


def render(report: Report) -> str:
    """Money first, then a table of idle resources, then unknown ones, then coverage."""
    paused, states = paused_sentence(report.run.pause), report.totals.by_state.items()
    blocks = [
        "# Idle machine-learning resources",
        _headline(report),
        *(_escaped(note, 500) for note in summary.head_notes(report)),
        f"**{_escaped(paused, 300)}**" if paused else "",
        f"{count_noun(len(report.findings), 'resource')}: {', '.join(f'{count} {state}' for state, count in states)}.",
        *(_section(group.title, _group_lines(group)) for group in summary.action_groups(report)),
        *_idle_table(report),
        _section("Unknown, never acted on", [f"- {_label(f)}: {_escaped(f.case.verdict.because)}" for f in report.unknown]),
        *_coverage_blocks(report),
        f"_{_escaped(price_basis(report.idle, report.run.currency), 300)} Run {report.run.id}, mode {report.run.mode}, version {report.run.version}._",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _headline(report: Report) -> str:
    if not report.idle:
        return "\n\n".join([f"**{summary.nothing_idle_text(report)}.**", *summary.access_remedies(report)])
    sums, unpriced, currency = report.totals, summary.unpriced_clause(report), report.run.currency
    hour, month = (format_usd(usd, currency=currency) for usd in (sums.idle_usd_per_hour, sums.idle_usd_per_month))
    money = f"**{hour} an hour, {month} a month**"
    return f"{money}{summary.acted_clause(report)}{f'; {unpriced}' if unpriced else ''}."


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return f"## {title}\n\n{text}" if text else ""


def _label(finding: Finding) -> str:
    return f"{_escaped(finding.case.resource.name)} ({_escaped(finding.case.resource.kind)})"


def _group_lines(group: summary.ActionGroup) -> Iterator[str]:
    """A line for each action; what is on hold below its reason."""
    if not group.holds:
        for f in group.findings:
            yield f"- {summary.action_word(f)} {_label(f)}: {_escaped(summary.outcome_reason(f))}"
    for reason, findings in group.holds.items():
        command = summary.release_command(reason)
        allow = f" To allow{summary.release_note(reason)}: `{command}`" if command else ""
        yield f"- {_escaped(summary.hold_sentence(reason), 300)}{allow}"
        yield from (f"  - {summary.action_word(finding)} {_label(finding)}" for finding in findings)


def _idle_table(report: Report) -> list[str]:
    if not report.idle:
        return []
    hint, places = owners.hint(f.case.owner for f in report.idle), coverage_map.locations(report.findings)
    currency = report.run.currency
    rows = [
        f"| {currency.sign}/hour | wasted | idle for | resource | kind | region | owner | why |",
        "| ---: | ---: | ---: | --- | --- | --- | --- | --- |",
    ]
    for finding in report.idle:
        resource, verdict = finding.case.resource, finding.case.verdict
        money = (finding.case.price.usd_per_hour if finding.case.price else None, finding.wasted_usd)
        cells = [*(usd_cell(usd, currency) for usd in money), short_duration(finding.idle_for) if finding.idle_for else ""]
        cells += [resource.name, resource.kind, places[resource.target, resource.region], owners.shown(finding.case.owner) or ""]
        rows.append("| " + " | ".join(map(_escaped, [*cells, f"{verdict.confidence}: {verdict.because}"])) + " |")
    return [_section("Idle", rows), f"{_escaped(hint, 500)}." if hint else ""]


def _coverage_blocks(report: Report) -> list[str]:
    gaps = [
        f"- **{gap.status}** {_escaped(gap.why, 500)}: {_escaped(gap.places, 500)}" for gap in coverage_map.coverage_gaps(report)
    ]
    whole = f"Coverage: all {len(report.cloud_rows)} complete."
    failed = [f"- {_escaped(summary.failure_text(row), 500)}" for row in report.own_failures]
    return [_section("Coverage incomplete", gaps) or whole, _section("Failed", failed)]


def _escaped(value: str, most: int = 120) -> str:
    return re.sub(r"([\\`*_{}\[\]<>()#|!~@])", r"\\\1", clean_line(value, most)).replace("&", "&amp;")
