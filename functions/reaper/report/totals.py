"""The sums at the top of a report. A resource without a price is counted apart, never as zero dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reaper.model import ACTIONS, Coverage, Finding, Report, Result, State, Status, StepName
from reaper.notices import commands, forecast

HOURS_A_MONTH = 730
OWN_MEANS = "reaper"
"""What coverage has for a cloud where a channel, an act or the ledger failed, and not a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """How many of the idle were acted on in this run, what they cost an hour, what of that was saved, and how many were so `already`."""

    count: int = 0
    usd_per_hour: float = 0.0
    saves_usd_per_hour: float = 0.0
    already: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`by_state` has every state, also those with nobody in it. Dollars are list price of what is idle and priced.

    What was acted on was idle when it was judged and is counted with the idle; `acted` says how much of it that is.
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
    over = [f for f in findings if f.step.name in ACTIONS and f.outcome.result is Result.DONE]
    made = [f for f in over if is_done(f)]
    return Acted(
        count=len(made),
        usd_per_hour=round(sum(f.price.usd_per_hour for f in over if f.price), 4),
        saves_usd_per_hour=round(sum(forecast.saved_usd_per_hour(f) for f in made), 4),
        already=len(over) - len(made),
    )


def acted_clause(report: Report) -> str:
    """`, of which 2 acted on (saving $0.69/h)`: what of the idle is idle no more; empty where nothing was done."""
    done = report_totals(report).acted
    cost, saved = f"${done.usd_per_hour:,.2f}/h", f"${done.saves_usd_per_hour:,.2f}/h"
    money = f"saving {saved}" if saved == cost else f"saving {saved} of their {cost}"
    parts = [f"{done.count} acted on" + (f" ({money})" if done.saves_usd_per_hour else "")] if done.count else []
    parts += [f"{done.already} stopped or gone already"] if done.already else []
    return f", of which {' and '.join(parts)}" if parts else ""


def could_read_nothing(report: Report) -> bool:
    """Whether not a single list could be read."""
    asked = cloud_rows(report)
    return bool(asked) and not report.findings and all(row.status in {Status.DENIED, Status.FAILED} for row in asked)


def nothing_idle_text(report: Report) -> str:
    """What is said where nothing idle was found; only of a fleet that was seen in full that nothing in it is idle."""
    if could_read_nothing(report):
        return "Nothing could be read"
    blind = incomplete_rows(report) or report_totals(report).by_state[State.UNKNOWN.value]
    return "Nothing idle was found where we could look" if blind else "Nothing is idle"


def access_remedies(report: Report) -> list[str]:
    """What to do where nothing at all could be read, a line for each cloud."""
    rows = {row.cloud: row for row in reversed(incomplete_rows(report))} if could_read_nothing(report) else {}
    return [commands.access_advice(row.cloud, row.missing) for row in rows.values()]


def idle_findings(report: Report) -> list[Finding]:
    """The idle ones, dearest first, those without a price last."""
    found = [f for f in report.findings if f.case.verdict.state is State.IDLE]
    return sorted(found, key=lambda f: (f.price is None, -(f.price.usd_per_hour if f.price else 0), f.case.resource.name))


def unknown_findings(report: Report) -> list[Finding]:
    """Those of which nothing could be proven, by name."""
    return sorted((f for f in report.findings if f.case.verdict.state is State.UNKNOWN), key=lambda f: f.case.resource.name)


def cloud_rows(report: Report) -> list[Coverage]:
    """What was to be listed: a target and kind each. What failed of our own means is none of them."""
    return [row for row in report.coverage if row.cloud != OWN_MEANS]


def incomplete_rows(report: Report) -> list[Coverage]:
    """The lists that are not complete."""
    return [row for row in cloud_rows(report) if row.status is not Status.OK]


def own_failures(report: Report) -> list[Coverage]:
    """What failed of our own means: channels, acts, notices, the ledger."""
    return [row for row in report.coverage if row.cloud == OWN_MEANS and row.status is not Status.OK]


def is_complete(report: Report) -> bool:
    """Whether every target and kind was seen in full, and nothing of our own failed."""
    return all(c.status is Status.OK for c in report.coverage)


def has_news(report: Report) -> bool:
    """Whether there is anything a quiet admin would want to hear: something idle, unknown, or not seen."""
    sums = report_totals(report)
    return bool(sums.by_state["idle"] or sums.by_state["unknown"] or not is_complete(report))


def exit_status(report: Report, fail_on: str | None) -> int:
    """0 complete, 1 complete and something is idle under `--fail-on idle`, 3 coverage incomplete."""
    if not is_complete(report):
        return 3
    return 1 if fail_on == "idle" and idle_findings(report) else 0


def acted_findings(report: Report) -> list[Finding]:
    """What was stopped, deleted or started in this run."""
    return [f for f in report.findings if is_done(f)]


def is_done(finding: Finding) -> bool:
    """Whether the reaper did something to it; what was so already does not count."""
    return finding.step.name in ACTIONS and finding.outcome.result is Result.DONE and not finding.outcome.already_done


def failed_findings(report: Report) -> list[Finding]:
    """What was to be stopped, deleted or started and could not be. What was refused because it had changed is not among them."""
    return [f for f in report.findings if f.step.name in ACTIONS and f.outcome.result is Result.FAILED]


def held_findings(report: Report) -> list[Finding]:
    """What would be acted on if it were not too much at once."""
    return [f for f in report.findings if f.step.name is StepName.HOLD]
