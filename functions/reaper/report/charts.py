"""What the page's charts show: idle dollars a month by kind and by owner, dearest first, proven and likely apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reaper.model import Confidence, Finding, Report
from reaper.report.brief import clean
from reaper.report.html_rows import nobody
from reaper.report.totals import HOURS_A_MONTH, idle

MOST = 7
"""Bars of a chart; what is left over makes one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Dollars a month; `proven` and `likely` are percentages of the longest bar. `rest` stands for everything that got no bar."""

    label: str
    usd: float
    proven: float
    likely: float
    count: int
    unpriced: int
    rest: bool = False


def by_kind(report: Report) -> list[Bar]:
    """One bar per kind that has something idle."""
    return _bars(report, lambda found: clean(found.case.resource.kind))


def by_owner(report: Report) -> list[Bar]:
    """One bar per owner of something idle; `nobody` for what has none."""
    return _bars(report, nobody)


def _bars(report: Report, label: Callable[[Finding], str]) -> list[Bar]:
    groups: dict[str, list[Finding]] = {}
    for found in idle(report):
        groups.setdefault(label(found), []).append(found)
    dearest = sorted(groups.items(), key=lambda group: (-_usd(group[1]), group[0]))
    if len(dearest) <= MOST + 1:
        rows = dearest
    else:
        rest = [found for _, group in dearest[MOST:] for found in group]
        rows = [*dearest[:MOST], (f"{len(dearest) - MOST} others", rest)]
    longest = max((_usd(group) for _, group in rows), default=0) or 1
    last = len(rows) - 1 if rows != dearest else None
    return [_bar(name, group, longest, index == last) for index, (name, group) in enumerate(rows)]


def _bar(label: str, group: list[Finding], longest: float, rest: bool) -> Bar:
    likely = _usd([f for f in group if f.case.verdict.confidence is Confidence.LIKELY])
    usd = _usd(group)
    return Bar(
        label=label,
        usd=usd,
        proven=round(100 * (usd - likely) / longest, 2),
        likely=round(100 * likely / longest, 2),
        count=len(group),
        unpriced=sum(1 for f in group if f.price is None),
        rest=rest,
    )


def _usd(group: list[Finding]) -> float:
    return sum(f.price.usd_per_hour for f in group if f.price) * HOURS_A_MONTH
