"""The figures of a run, for dashboards and alarms: the same names on both clouds.

On AWS each figure is a CloudWatch metric, with the dimension `kind` if it is about one kind. On Azure they are keys of the log line `swept`.
CloudWatch bills each name and kind as a metric of its own, so only what a panel or an alarm shows is here:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_billing.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reaper import registry
from reaper.case import Finding, Report
from reaper.coverage import is_skipped
from reaper.model import State
from reaper.report import totals


class Unit(StrEnum):
    """What a value counts, by CloudWatch's name for it. `none` is US dollars an hour."""

    COUNT = "Count"
    SECONDS = "Seconds"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a run. `kind`: the kind it is about; None if it is about the whole run."""

    name: str
    value: float
    unit: Unit = Unit.COUNT
    kind: str | None = None


def run_figures(report: Report) -> tuple[Figure, ...]:
    """All figures of a run, zeros included, so that a line on a dashboard ends at zero and doesn't just stop."""
    return (
        *_state_figures(report),
        *_money_figures(report),
        *_action_figures(report),
        *_work_figures(report),
        *_kind_figures(report),
    )


def skipped_figures() -> tuple[Figure, ...]:
    """The only figure of a run that ended at once because another one was still under way."""
    return (Figure(name="Skipped", value=1),)


def alarm_figures(dropped: int) -> tuple[Figure, ...]:
    """The only figure of a run over the endpoints of alarms: how many events were dropped. `Failures` and the others are about whole sweeps."""
    return (Figure(name="AlarmsDropped", value=dropped),)


def swept_facts(report: Report, stored: str | None) -> dict[str, Any]:
    """The facts of the log line `swept`: the run, where its report is stored, each figure by its name, and in `kinds` those of each kind."""
    figures = run_figures(report)
    kinds: dict[str, dict[str, float]] = {figure.kind: {} for figure in figures if figure.kind}
    for figure in figures:
        if figure.kind:
            kinds[figure.kind][figure.name] = figure.value
    own = {figure.name: figure.value for figure in figures if not figure.kind}
    return {"run": report.run.id, "mode": report.run.mode.value, "stored": stored, **own, "kinds": kinds}


def _state_figures(report: Report) -> list[Figure]:
    by_state = totals.report_totals(report).by_state
    return [
        Figure(name="Resources", value=len(report.findings)),
        *(Figure(name=state.value.capitalize(), value=by_state[state.value]) for state in State),
    ]


def _money_figures(report: Report) -> list[Figure]:
    sums = totals.report_totals(report)
    return [
        Figure(name="IdleUSDPerHour", value=sums.idle_usd_per_hour, unit=Unit.NONE),
        Figure(name="UnpricedIdle", value=sums.unpriced_idle),
    ]


def _action_figures(report: Report) -> list[Figure]:
    return [
        Figure(name="Acted", value=len(totals.acted_findings(report))),
        Figure(name="ActsFailed", value=len(totals.failed_findings(report))),
        Figure(name="Refused", value=len(totals.refused_findings(report))),
        Figure(name="Held", value=len(totals.held_findings(report))),
        Figure(name="Paused", value=1 if report.run.pause else 0),
    ]


def _work_figures(report: Report) -> list[Figure]:
    """What the run itself was like. `Failures` also counts what failed in the reaper itself, `CoverageGaps` only what a cloud didn't show."""
    gaps, own = len(totals.incomplete_rows(report)), len(totals.own_failures(report))
    seconds = (report.run.finished_at - report.run.started_at).total_seconds()
    return [
        Figure(name="CoverageGaps", value=gaps),
        Figure(name="Failures", value=gaps + own),
        Figure(name="Calls", value=totals.report_totals(report).calls),
        Figure(name="SweepSeconds", value=seconds, unit=Unit.SECONDS),
        Figure(name="Skipped", value=int(is_skipped(report.coverage))),
    ]


def _kind_figures(report: Report) -> Iterable[Figure]:
    """For every kind that was swept, also if none of its resources is idle."""
    idle = totals.idle_findings(report)
    for kind in sorted({row.kind for row in totals.cloud_rows(report)} & set(registry.kind_names())):
        same = [finding for finding in idle if finding.case.resource.kind == kind]
        yield Figure(name="Idle", value=len(same), kind=kind)
        yield Figure(name="IdleUSDPerHour", value=_usd_per_hour(same), unit=Unit.NONE, kind=kind)


def _usd_per_hour(findings: Iterable[Finding]) -> float:
    return round(sum(finding.price.usd_per_hour for finding in findings if finding.price), 4)
