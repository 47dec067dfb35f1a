"""The sums at the top of a report. A resource without a price is counted separately, never as zero dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reaper import registry
from reaper.case import Coverage, Finding, Report
from reaper.model import ACTIONS, Result, State, Status, StepName
from reaper.notices import forecast
from reaper.text import format_usd

HOURS_A_MONTH = 730
OWN_MEANS = "reaper"
"""The `cloud` of a coverage row about the reaper itself: a channel, an action or the ledger, not a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """How many idle resources this run acted on, what they cost an hour, what of that it saved, and how many were `already` stopped or gone."""

    count: int = 0
    usd_per_hour: float = 0.0
    saves_usd_per_hour: float = 0.0
    already: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`by_state` has every state, also empty ones. Dollars are list prices of idle resources that have one.

    Resources that were acted on were idle when they were judged, and count as idle; `acted` says how many they are.
    """

    resources: int
    by_state: dict[str, int]
    idle_usd_per_hour: float
    idle_usd_per_month: float
    wasted_usd: float
    unpriced_idle: int
    calls: int
    acted: Acted


def report_totals(report: Report) -> Totals:
    """The sums of a report."""
    states = Counter(f.case.verdict.state for f in report.findings)
    hourly = sum(f.price.usd_per_hour for f in idle_findings(report) if f.price)
    return Totals(
        resources=len(report.findings),
        by_state={state.value: states[state] for state in State},
        idle_usd_per_hour=round(hourly, 4),
        idle_usd_per_month=round(hourly * HOURS_A_MONTH, 2),
        wasted_usd=round(sum(f.wasted_usd or 0 for f in idle_findings(report)), 2),
        unpriced_idle=sum(1 for f in idle_findings(report) if f.price is None),
        calls=sum(sum(c.calls.values()) for c in report.coverage),
        acted=_acted_sums(idle_findings(report)),
    )


def _acted_sums(findings: Iterable[Finding]) -> Acted:
    settled = [f for f in findings if f.step.name in ACTIONS and f.outcome.result is Result.DONE]
    done = [f for f in settled if is_done(f)]
    return Acted(
        count=len(done),
        usd_per_hour=round(sum(f.price.usd_per_hour for f in settled if f.price), 4),
        saves_usd_per_hour=round(sum(forecast.saved_usd_per_hour(f) for f in done), 4),
        already=len(settled) - len(done),
    )


def acted_clause(report: Report) -> str:
    """`, of which 2 acted on (saving $0.69/hour)`: those that are idle no more; empty if there are none."""
    acted = report_totals(report).acted
    cost, saved = f"{format_usd(acted.usd_per_hour)}/hour", f"{format_usd(acted.saves_usd_per_hour)}/hour"
    money = f"saving {saved}" if saved == cost else f"saving {saved} of their {cost}"
    parts = [f"{acted.count} acted on" + (f" ({money})" if acted.saves_usd_per_hour else "")] if acted.count else []
    parts += [f"{acted.already} already stopped or gone"] if acted.already else []
    return f", of which {' and '.join(parts)}" if parts else ""


def could_read_nothing(report: Report) -> bool:
    """Whether no list at all could be read."""
    rows = cloud_rows(report)
    return bool(rows) and not report.findings and all(row.status in {Status.DENIED, Status.FAILED} for row in rows)


def nothing_idle_text(report: Report) -> str:
    """The headline of a report without idle resources; it says that nothing is idle only if everything was read and judged."""
    if could_read_nothing(report):
        return "Nothing could be read"
    if incomplete_rows(report):
        return "No idle resources found; coverage is incomplete"
    unknown = report_totals(report).by_state[State.UNKNOWN.value]
    return f"No idle resources found; {unknown:,} unknown" if unknown else "Nothing is idle"


def access_remedies(report: Report) -> list[str]:
    """What to do if nothing could be read, a line for each cloud."""
    rows = {row.cloud: row for row in reversed(incomplete_rows(report))} if could_read_nothing(report) else {}
    return [registry.access_advice(row.cloud, row.missing) for row in rows.values()]


def idle_findings(report: Report) -> list[Finding]:
    """The idle resources, most expensive first, those without a price last."""
    idle = [f for f in report.findings if f.case.verdict.state is State.IDLE]
    return sorted(idle, key=lambda f: (f.price is None, -(f.price.usd_per_hour if f.price else 0), f.case.resource.name))


def unknown_findings(report: Report) -> list[Finding]:
    """The resources about which nothing could be proven, by name."""
    return sorted((f for f in report.findings if f.case.verdict.state is State.UNKNOWN), key=lambda f: f.case.resource.name)


def cloud_rows(report: Report) -> list[Coverage]:
    """The rows about clouds: a target and kind each, without those about the reaper itself."""
    return [row for row in report.coverage if row.cloud != OWN_MEANS]


def incomplete_rows(report: Report) -> list[Coverage]:
    """The rows about clouds with a gap."""
    return [row for row in cloud_rows(report) if row.status is not Status.OK]


def own_failures(report: Report) -> list[Coverage]:
    """What failed in the reaper itself: channels, actions, notices, the ledger."""
    return [row for row in report.coverage if row.cloud == OWN_MEANS and row.status is not Status.OK]


def is_complete(report: Report) -> bool:
    """Whether coverage is complete and nothing failed in the reaper itself."""
    return all(c.status is Status.OK for c in report.coverage)


def has_news(report: Report) -> bool:
    """Whether REAPER_QUIET still lets the summary through: something is idle or unknown, or coverage is incomplete."""
    sums = report_totals(report)
    return bool(sums.by_state["idle"] or sums.by_state["unknown"] or not is_complete(report))


def exit_status(report: Report, fail_on: str | None) -> int:
    """0 complete, 1 complete and something is idle under `--fail-on idle`, 3 coverage incomplete."""
    if not is_complete(report):
        return 3
    return 1 if fail_on == "idle" and idle_findings(report) else 0


def acted_findings(report: Report) -> list[Finding]:
    """The resources that this run stopped, deleted or started."""
    return [f for f in report.findings if is_done(f)]


def is_done(finding: Finding) -> bool:
    """Whether the reaper itself changed it; a resource that was already stopped or gone doesn't count."""
    return finding.step.name in ACTIONS and finding.outcome.result is Result.DONE and not finding.outcome.already_done


def failed_findings(report: Report) -> list[Finding]:
    """Those whose action failed. An action that was refused because the resource had changed isn't a failure."""
    return [f for f in report.findings if f.step.name in ACTIONS and f.outcome.result is Result.FAILED]


def refused_findings(report: Report) -> list[Finding]:
    """Those whose action was due and wasn't carried out, because something had changed or couldn't be read again."""
    return [f for f in report.findings if f.step.name in ACTIONS and f.outcome.result is Result.REFUSED]


def held_findings(report: Report) -> list[Finding]:
    """The resources whose action is on hold."""
    return [f for f in report.findings if f.step.name is StepName.HOLD]
