"""The figures of a run, for dashboards and alarms: the same names on both clouds.

On AWS each figure is a CloudWatch metric, with the dimension `kind` if it is about one kind. On Azure they are keys of the log line `swept`.
CloudWatch bills each name and kind as a metric of its own, so only what a panel or an alarm shows is here:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_billing.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from reaper import registry
from reaper.coverage import is_skipped
from reaper.finding import Report, money_of
from reaper.model import State
from reaper.report import summary

MAX_TAGS = 20
"""Values of the first key of `report.tags` with figures of their own. CloudWatch bills each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a run. `unit`: by CloudWatch's name for it; `None` is US dollars, or US dollars an hour. `kind`, `tag`: the kind, or the value
    of the first key of `report.tags`, that it is about; else the whole run.
    """

    name: str
    value: float
    unit: Literal["Count", "Seconds", "None"] = "Count"
    kind: str | None = None
    tag: str | None = None


def run_figures(report: Report) -> tuple[Figure, ...]:
    """All figures of a run, zeros included, so that a line on a dashboard ends at zero and doesn't just stop.

    `Failures` also counts what failed in the reaper itself, `CoverageGaps` only what a cloud didn't show.
    """
    sums, actions, gaps = report.totals, report.actions, len(report.gaps)
    seconds = (report.run.finished_at - report.run.started_at).total_seconds()
    return (
        Figure(name="Resources", value=sums.resources),
        *(Figure(name=state.value.capitalize(), value=sums.by_state[state.value]) for state in State),
        Figure(name="IdleUSDPerHour", value=sums.idle_usd_per_hour, unit="None"),
        Figure(name="UnpricedIdle", value=sums.unpriced_idle),
        Figure(name="Acted", value=len(actions.done)),
        Figure(name="ActsFailed", value=len(actions.failed)),
        Figure(name="Refused", value=len(actions.refused)),
        Figure(name="Held", value=len(actions.on_hold)),
        Figure(name="Paused", value=1 if report.run.pause else 0),
        Figure(name="CoverageGaps", value=gaps),
        Figure(name="Failures", value=gaps + len(report.own_failures)),
        Figure(name="Calls", value=sums.calls),
        Figure(name="SweepSeconds", value=seconds, unit="Seconds"),
        Figure(name="Skipped", value=int(is_skipped(report.coverage))),
        # None without savings, so that a ledger that can't be read never looks like $0.
        *([Figure(name="SavedUSDMonthToDate", value=report.savings.month.ours.saved_usd, unit="None")] if report.savings else ()),
        *_kind_figures(report),
        *_tag_figures(report),
    )


def skipped_figures() -> tuple[Figure, ...]:
    """The only figure of a run that ended at once because another one was still under way."""
    return (Figure(name="Skipped", value=1),)


def alarm_figures(dropped: int) -> tuple[Figure, ...]:
    """The only figure of a run over the endpoints of alarms: how many events were dropped. `Failures` and the others are about whole sweeps."""
    return (Figure(name="AlarmsDropped", value=dropped),)


def swept_facts(report: Report, stored: str | None) -> dict[str, Any]:
    """The facts of the log line `swept`: the run, where its report is stored, each figure by its name, in `kinds` those of each kind, and in
    `tags` those of each value of the first key of `report.tags`.
    """
    own: dict[str, float] = {}
    kinds: dict[str, dict[str, float]] = {}
    tags: dict[str, dict[str, float]] = {}
    for figure in run_figures(report):
        place = kinds.setdefault(figure.kind, {}) if figure.kind else tags.setdefault(figure.tag, {}) if figure.tag else own
        place[figure.name] = figure.value
    return {"run": report.run.id, "mode": report.run.mode.value, "stored": stored, **own, "kinds": kinds, "tags": tags}


def _tag_figures(report: Report) -> Iterable[Figure]:
    """What each value of the first key of `report.tags` costs, and what of that is idle: the most expensive ones, and all others together.

    A dimension of CloudWatch is ASCII without control characters.
    """
    for group in summary.team_costs(report, MAX_TAGS):
        name = "other" if group.others else group.name.encode("ascii", "replace").decode()
        yield Figure(name="USDPerHour", value=round(group.money.usd_per_hour, 4), unit="None", tag=name)
        idle = summary.idle_money(group.findings)
        yield Figure(name="IdleUSDPerHour", value=round(idle.usd_per_hour, 4), unit="None", tag=name)


def _kind_figures(report: Report) -> Iterable[Figure]:
    """For every kind that was swept, also if none of its resources is idle."""
    for kind in sorted({row.kind for row in report.cloud_rows} & set(registry.kind_names())):
        money = money_of(f for f in report.idle if f.case.resource.kind == kind)
        yield Figure(name="Idle", value=money.count, kind=kind)
        yield Figure(name="IdleUSDPerHour", value=round(money.usd_per_hour, 4), unit="None", kind=kind)
