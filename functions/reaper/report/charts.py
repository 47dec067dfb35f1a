"""The charts of the page: idle dollars a month by kind and by owner, most expensive first, with proven and likely separate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reaper.case import Finding, Report
from reaper.model import Confidence
from reaper.report.html_rows import owner_text
from reaper.report.totals import HOURS_A_MONTH, idle_findings
from reaper.text import clean_line

MAX_BARS = 7
"""Bars of a chart; all others together make one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """Dollars a month; `proven` and `likely` are percentages of the longest bar. `rest`: it combines all that have no bar of their own."""

    label: str
    usd: float
    proven: float
    likely: float
    count: int
    unpriced: int
    rest: bool = False


def costs_by_kind(report: Report) -> list[ChartBar]:
    """One bar per kind with idle resources."""
    return _chart_bars(report, lambda finding: clean_line(finding.case.resource.kind))


def costs_by_owner(report: Report) -> list[ChartBar]:
    """One bar per owner of idle resources, and one for those without an owner."""
    return _chart_bars(report, owner_text)


def _chart_bars(report: Report, label: Callable[[Finding], str]) -> list[ChartBar]:
    groups: dict[str, list[Finding]] = {}
    for finding in idle_findings(report):
        groups.setdefault(label(finding), []).append(finding)
    ranked = sorted(groups.items(), key=lambda group: (-_usd_per_month(group[1]), group[0]))
    if len(ranked) <= MAX_BARS + 1:
        rows = ranked
    else:
        rest = [finding for _, group in ranked[MAX_BARS:] for finding in group]
        rows = [*ranked[:MAX_BARS], (f"{len(ranked) - MAX_BARS} others", rest)]
    longest = max((_usd_per_month(group) for _, group in rows), default=0) or 1
    last = len(rows) - 1 if rows != ranked else None
    return [_chart_bar(name, group, longest, index == last) for index, (name, group) in enumerate(rows)]


def _chart_bar(label: str, group: list[Finding], longest: float, rest: bool) -> ChartBar:
    likely = _usd_per_month([f for f in group if f.case.verdict.confidence is Confidence.LIKELY])
    usd = _usd_per_month(group)
    return ChartBar(
        label=label,
        usd=usd,
        proven=round(100 * (usd - likely) / longest, 2),
        likely=round(100 * likely / longest, 2),
        count=len(group),
        unpriced=sum(1 for f in group if f.price is None),
        rest=rest,
    )


def _usd_per_month(group: list[Finding]) -> float:
    return sum(f.price.usd_per_hour for f in group if f.price) * HOURS_A_MONTH
