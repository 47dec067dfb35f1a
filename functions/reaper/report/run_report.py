"""The report of a run and its coverage, put together from what the phases handed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reaper.case import Case, Coverage, Price
from reaper.coverage import PlaceName, add_failure_row, failure_row, place_name, summed_failures, with_replaced_rows
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import HOURS_A_MONTH, Finding, FinishedRun, Outcome, Report, finding_of, is_done, money_of
from reaper.handover import Acted, Decided, Observed
from reaper.model import BudgetUse, State, Status
from reaper.notices.context import ConcludeContext
from reaper.pending import stop_switch
from reaper.policy.accepted import expiry_notes, unmatched_notes
from reaper.policy.schema import Budget
from reaper.record import NO_RECORD, NO_SNOOZES, Record, Snooze
from reaper.savings.totals import read_overview


def run_coverage(
    parts: Sequence[Observed], decided: Decided, acted: Sequence[Acted]
) -> tuple[tuple[Coverage, ...], list[Coverage]]:
    """The rows about clouds, with the calls of acting in them, and those about failures in the reaper itself."""
    by_place: dict[PlaceName, list[Coverage]] = {}
    for row in (row for part in parts for row in part.coverage):
        same_place = by_place.setdefault(place_name(row), [])
        if row not in same_place:  # each step of a workflow that can't open an account says so about all of it
            same_place.append(row)
    observed = [row for same_place in by_place.values() for row in same_place]
    calls = {
        (target_acted.target.cloud, target_acted.target.account, target_acted.target.region, kind): count
        for target_acted in acted
        for kind, count in target_acted.calls.items()
    }
    newer = with_replaced_rows(observed, [row for row in decided.coverage if not row.is_own])
    cloud_rows = tuple(replace(row, calls={**Counter(row.calls) + Counter(calls.get(place_name(row), {}))}) for row in newer)
    rows = [row for row in decided.coverage if row.is_own]
    rows += summed_failures([row for target_acted in acted for row in target_acted.coverage if row.kind == "acts"])
    for row in (row for target_acted in acted for row in target_acted.coverage if row.kind != "acts"):
        add_failure_row(rows, row)
    return cloud_rows, rows


def run_report(findings: Iterable[Finding], coverage: Iterable[Coverage], decided: Decided, context: ConcludeContext) -> Report:
    """The report of the run, finished now. If the ledger can't be read, that is a row, unless it has one already."""
    run, rows, findings = decided.run, list(coverage), tuple(findings)
    pause = stop_switch.read_pause(context.ledger, context.clock()) if context.ledger else None
    if pause and pause.unreadable_because:
        add_failure_row(rows, failure_row("ledger", CloudError(Reason.UNREADABLE, "pause", pause.unreadable_because)))
    ending = expiry_notes(context.policy, run.started_at)
    is_complete = not context.notices_only and all(row.status is Status.OK or row.is_own for row in rows)
    unmatched = unmatched_notes(context.policy, (f.case for f in findings), rows, run.started_at) if is_complete else ()
    finished = FinishedRun(
        id=run.id,
        started_at=run.started_at,
        finished_at=context.clock(),
        mode=run.mode,
        version=run.version,
        policy_sha256=run.policy_sha256,
        pause=pause,
        report_tags=tuple(context.policy.report.tags),
        currency=context.policy.prices.shown_in,
        budgets=tuple(_budget_use(budget, findings) for budget in context.policy.budgets),
        acceptances={note: True for _, note in ending} | dict.fromkeys(unmatched, False),
    )
    savings = None
    if context.ledger and not context.notices_only:
        try:
            savings = read_overview(context.ledger, context.policy.report.tags, context.clock())
        except ReaperError as error:
            add_failure_row(rows, failure_row("ledger", error))
    return Report(run=finished, coverage=tuple(rows), findings=findings, savings=savings)


def _budget_use(budget: Budget, findings: Iterable[Finding]) -> BudgetUse:
    """What the budget is about that is idle and wasn't acted on. What it may be about, because a price or size is unknown, has no price."""
    idle = [f for f in findings if f.case.verdict.state is State.IDLE and not is_done(f)]
    matches = [(f, budget.match.matches(f.case.resource, f.case.price.usd_per_hour if f.case.price else None)) for f in idle]
    money = money_of(f for f, fits in matches if fits is not False)
    return BudgetUse(
        name=budget.name,
        usd_per_month=budget.usd_per_month,
        idle_usd_per_month=round(money.usd_per_hour * HOURS_A_MONTH, 2),
        unpriced=money.unpriced,
    )


def join_findings(parts: Iterable[Observed], decided: Decided, acted: Iterable[Acted]) -> list[Finding]:
    """A finding for each case, in the order of the parts, and each decided one of a case that the parts no longer have."""
    known = {finding_key(finding.case): finding for finding in decided.findings}
    outcomes = {resource_id: outcome for part in acted for resource_id, outcome in part.outcomes.items()}
    findings: dict[tuple[str, str], Finding] = {}
    for case in (case for part in parts for case in part.cases):
        found = known.get(finding_key(case))
        findings[finding_key(case)] = found or finding_of(case, f"nothing to do: it is {case.verdict.state}", decided.decided_at)
    findings = {key: _with_outcome(finding, outcomes) for key, finding in {**findings, **known}.items()}
    prices = {finding.case.resource.id.lower(): finding.case.price for finding in findings.values()}
    return [_with_host_share(finding, prices) for finding in findings.values()]


def _with_host_share(finding: Finding, prices: Mapping[str, Price | None]) -> Finding:
    """With the part of its host's price that the resource accounts for, if both are known."""
    resource = finding.case.resource
    host = prices.get((resource.host_id or "").lower())
    if host is None or resource.host_share is None:
        return finding
    usd = round(host.usd_per_hour * resource.host_share, 6)
    source = f"{resource.host_share:.0%} of its host's price: {host.source}"
    return replace(finding, host_share=replace(host, usd_per_hour=usd, source=source))


def finding_key(case: Case) -> tuple[str, str]:
    """The key of a finding within one report, ID and name: some IDs occur more than once in a list."""
    return case.resource.id, case.resource.name


def with_record(finding: Finding, record: Record, snooze: Snooze) -> Finding:
    """The finding with what the ledger has on it, if anything."""
    is_known, is_said = record != NO_RECORD, snooze != NO_SNOOZES.own
    return replace(finding, record=record if is_known else None, snooze=snooze if is_said else None)


def _with_outcome(finding: Finding, outcomes: Mapping[str, Outcome]) -> Finding:
    finding = replace(finding, outcome=outcomes.get(finding.case.resource.id, finding.outcome))
    return replace(finding, next=None, could=None) if is_done(finding) else finding
