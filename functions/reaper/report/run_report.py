"""The report of a run and its coverage, put together from what the phases handed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reaper.case import PLANNED, Case, Coverage, Finding, FinishedRun, Outcome, Report, Step
from reaper.coverage import (
    PlaceName,
    add_failure_row,
    failure_row,
    place_name,
    summed_failures,
    with_calls,
    with_replaced_rows,
)
from reaper.errors import CloudError, Reason
from reaper.handover import Acted, Decided, Decision, Observed
from reaper.model import Memory, StepName
from reaper.notices.context import ConcludeContext
from reaper.pending import stop_switch
from reaper.planning import reasons

FindingKey = tuple[str, str]
"""ID and name: some IDs occur more than once in a list."""


def run_coverage(
    parts: Sequence[Observed], decided: Decided, acted: Sequence[Acted]
) -> tuple[tuple[Coverage, ...], list[Coverage]]:
    """The rows about clouds, with the calls of acting in them, and those about failures in the reaper itself."""
    observed = _without_repeated_rows(row for part in parts for row in part.coverage)
    calls = {
        (target_acted.target.cloud, target_acted.target.account, target_acted.target.region, kind.kind): kind.calls
        for target_acted in acted
        for kind in target_acted.calls
    }
    cloud_rows = with_calls(with_replaced_rows(observed, [row for row in decided.coverage if not row.is_own]), calls)
    rows = [row for row in decided.coverage if row.is_own]
    rows += summed_failures([row for target_acted in acted for row in target_acted.coverage if row.kind == "acts"])
    for row in (row for target_acted in acted for row in target_acted.coverage if row.kind != "acts"):
        add_failure_row(rows, row)
    return cloud_rows, rows


def _without_repeated_rows(rows: Iterable[Coverage]) -> list[Coverage]:
    """The rows, equal ones once: each step of a workflow that can't open an account says so about all of it."""
    rows_by_place: dict[PlaceName, list[Coverage]] = {}
    for row in rows:
        same_place = rows_by_place.setdefault(place_name(row), [])
        if row not in same_place:
            same_place.append(row)
    return [row for same_place in rows_by_place.values() for row in same_place]


def run_report(findings: Iterable[Finding], coverage: Iterable[Coverage], decided: Decided, context: ConcludeContext) -> Report:
    """The report of the run, finished now. An unreadable stop switch is a row, unless the ledger has one already."""
    run, rows = decided.run, list(coverage)
    pause = stop_switch.read_pause(context.ledger, context.clock()) if context.ledger else None
    if pause and pause.unreadable_because:
        add_failure_row(rows, failure_row("ledger", CloudError(Reason.UNREADABLE, "pause", pause.unreadable_because)))
    finished = FinishedRun(
        id=run.id,
        started_at=run.started_at,
        finished_at=context.clock(),
        mode=run.mode,
        version=run.version,
        policy_sha256=run.policy_sha256,
        pause=pause,
        report_tags=tuple(context.policy.report.tags),
    )
    return Report(run=finished, coverage=tuple(rows), findings=tuple(findings))


def join_findings(parts: Iterable[Observed], decided: Decided, acted: Iterable[Acted]) -> list[Finding]:
    """A finding for each case, in the order of the parts, and for each decision about a case that the parts no longer have."""
    decisions = {finding_key(decision.case): decision for decision in decided.decisions}
    steps = {decision.case.resource.id: decision.step for decision in decided.decisions}
    outcomes = {resource_id: outcome for part in acted for resource_id, outcome in part.outcomes.items()}
    findings: dict[FindingKey, Finding] = {}
    for case in (case for part in parts for case in part.cases):
        decision = decisions.get(finding_key(case))
        findings[finding_key(case)] = _decided_finding(decision, outcomes, steps) if decision else _undecided_finding(case)
    for key, decision in decisions.items():
        if key not in findings:
            findings[key] = _decided_finding(decision, outcomes, steps)
    return list(findings.values())


def finding_key(case: Case) -> FindingKey:
    """The key of a finding within one report."""
    return case.resource.id, case.resource.name


def with_memory(finding: Finding, memory: Memory | None) -> Finding:
    """The finding with its memory, if the ledger has one."""
    return replace(finding, memory=memory if memory and memory != Memory() else None)


def left_alone(finding: Finding, because: str) -> Finding:
    """The finding without a step, for that reason."""
    return replace(finding, step=Step(name=StepName.NONE, because=because), outcome=PLANNED)


def _decided_finding(decision: Decision, outcomes: Mapping[str, Outcome], steps: Mapping[str, Step]) -> Finding:
    outcome, step = outcomes.get(decision.case.resource.id, decision.outcome), decision.step
    if host := steps.get(outcome.host_id or ""):
        step = Step(name=host.name, because=outcome.because or "")
    return finding_of(decision.reported_case, step, outcome)


def _undecided_finding(case: Case) -> Finding:
    return finding_of(case, Step(name=StepName.NONE, because=reasons.nothing_to_do_because(case, Memory())), PLANNED)


def finding_of(case: Case, step: Step, outcome: Outcome) -> Finding:
    """The finding about a case."""
    return Finding(
        case=case,
        step=step,
        outcome=outcome,
        owner=case.owner,
        price=case.price,
        wasted_usd=case.wasted_usd,
        evidence=case.evidence,
    )
