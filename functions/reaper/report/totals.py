"""The sums at the top of a report. A resource without a price is counted apart, never as zero dollars."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from reaper.model import Finding, Move, Report, Result, State, Status

HOURS_A_MONTH = 730
MOVES = {Move.STOP, Move.DELETE, Move.START}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`by_state` has every state, also those with nobody in it. Dollars are list price of what is idle and priced."""

    resources: int
    by_state: dict[str, int]
    idle_usd_per_hour: float
    idle_usd_per_month: float
    wasted_usd: float
    unpriced_idle: int
    calls: int


def totals(report: Report) -> Totals:
    """The sums of a report."""
    states = Counter(f.case.verdict.state for f in report.findings)
    hourly = sum(f.price.usd_per_hour for f in idle(report) if f.price)
    return Totals(
        resources=len(report.findings),
        by_state={state.value: states[state] for state in State},
        idle_usd_per_hour=round(hourly, 4),
        idle_usd_per_month=round(hourly * HOURS_A_MONTH, 2),
        wasted_usd=round(sum(f.wasted_usd or 0 for f in idle(report)), 2),
        unpriced_idle=sum(1 for f in idle(report) if f.price is None),
        calls=sum(sum(c.calls.values()) for c in report.coverage),
    )


def idle(report: Report) -> list[Finding]:
    """The idle ones, dearest first, those without a price last."""
    found = [f for f in report.findings if f.case.verdict.state is State.IDLE]
    return sorted(found, key=lambda f: (f.price is None, -(f.price.usd_per_hour if f.price else 0), f.case.resource.name))


def unknown(report: Report) -> list[Finding]:
    """Those of which nothing could be proven, by name."""
    return sorted((f for f in report.findings if f.case.verdict.state is State.UNKNOWN), key=lambda f: f.case.resource.name)


def complete(report: Report) -> bool:
    """Whether every target and kind was seen in full."""
    return all(c.status is Status.OK for c in report.coverage)


def news(report: Report) -> bool:
    """Whether there is anything a quiet admin would want to hear: something idle, unknown, or not seen."""
    sums = totals(report)
    return bool(sums.by_state["idle"] or sums.by_state["unknown"] or not complete(report))


def exit_status(report: Report, fail_on: str | None) -> int:
    """0 complete, 1 complete and something is idle under `--fail-on idle`, 3 coverage incomplete."""
    if not complete(report):
        return 3
    return 1 if fail_on == "idle" and idle(report) else 0


def acted(report: Report) -> list[Finding]:
    """What was stopped, deleted or started in this run."""
    return [f for f in report.findings if is_done(f)]


def is_done(found: Finding) -> bool:
    """Whether the reaper did something to it; what was so already does not count."""
    return found.step.move in MOVES and found.outcome.result is Result.DONE and not found.outcome.already


def failed(report: Report) -> list[Finding]:
    """What was to be stopped, deleted or started and could not be. What was refused because it had changed is not among them."""
    return [f for f in report.findings if f.step.move in MOVES and f.outcome.result is Result.FAILED]


def held(report: Report) -> list[Finding]:
    """What would be acted on if it were not too much at once."""
    return [f for f in report.findings if f.step.move is Move.HOLD]
