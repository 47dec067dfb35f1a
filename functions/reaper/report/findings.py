"""Cases, decisions and outcomes become findings, the lines of a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reaper.case import Case, Finding, Outcome, Step
from reaper.handover import PLANNED, Acted, Decided, Decision, Observed
from reaper.model import Memory, StepName
from reaper.planning import reasons

FindingKey = tuple[str, str]
"""ID and name: some IDs occur more than once in a list."""


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
