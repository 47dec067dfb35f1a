"""Phase 2: what to do with each resource, given what the ledger has: snoozes, open actions, the plan, the plan file, limits and holds.

It streams the observed parts and keeps what is idle, remembered, on hours or on a host. Whatever is on hold is recorded before
any mail is sent. Without a ledger, or in audit, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from reaper import __version__, handover, plan
from reaper.calendars import office_hours
from reaper.case import Case, Coverage, may_act
from reaper.coverage import NOT_REACHED, failure_row, target_of_row, with_replaced_rows
from reaper.errors import CloudError
from reaper.finding import Finding, Step, View, finding_of, is_action, left_alone
from reaper.handover import Decided, Observed
from reaper.ledger.ledger import Ledger, RunLeases
from reaper.ledger.rows import Recalled, remembered_ids
from reaper.limits import applying, caps, holds
from reaper.limits.applying import Swept
from reaper.limits.holds import Breaker, KindInTarget, PlaceCount, RunScope
from reaper.model import ACTIONS, ENDING_ACTIONS, Mode, Run, State, Status, StepName, Target
from reaper.pending import plan_file, unfinished
from reaper.pending.plan_file import PlanFile
from reaper.pending.recall import UNLISTED, RunLedger
from reaper.plan import next_action, possible_action, stand, with_announcement
from reaper.planning import dates
from reaper.policy import owners
from reaper.policy.schema import Policy
from reaper.record import NO_RECORD, last_notice_at

if TYPE_CHECKING:
    from reaper.acting.manifest import Archive

ROW_UNREADABLE = "its ledger record can't be read, and it may be snoozed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideContext:
    """The context of deciding. `agreed`: a plan file; only what it asks for is carried out.

    `notices_only`: the run is about single resources. It takes their leases, not those of their targets, sends no notice where the idle share
    jumped, puts what is due there on hold, and leaves the rest of limits and holds to the runs over whole targets. `refused_because`: why
    nothing that was observed may be decided. `dead_runs`: runs whose leases this one may take. `archive`: the manifests, in
    mode enforce.
    """

    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    agreed: PlanFile | None = None
    notices_only: bool = False
    refused_because: str | None = None
    dead_runs: tuple[str, ...] = ()
    archive: Archive | None = None


@dataclass(slots=True, kw_only=True)
class _Phase:
    """What this phase knows, and what its parts have added up to. `opens_at`: when notices go out next; None if they go out now.

    `known`: what the findings are based on, by resource ID. `others`: the counts of what needs no decision. `places`: where something was planned
    or counted. `left_targets`: those that were left alone. `refused`: rows that replace those of a part that was refused.
    """

    run: Run
    now: datetime
    context: DecideContext
    run_ledger: RunLedger
    opens_at: datetime | None
    findings: list[Finding] = field(default_factory=list)
    known: dict[str, View] = field(default_factory=dict)
    others: dict[KindInTarget, PlaceCount] = field(default_factory=dict)
    places: dict[KindInTarget, Target] = field(default_factory=dict)
    left_targets: set[Target] = field(default_factory=set)
    coverage: list[Coverage] = field(default_factory=list)
    refused: list[Coverage] = field(default_factory=list)

    @property
    def announces(self) -> bool:
        """Whether the plan may contain actions: an audit says what would be done."""
        return self.run.mode.announces or self.run.mode is Mode.AUDIT


def decide(parts: Iterable[Observed], context: DecideContext) -> Decided:
    """One decision for each resource that needs one. Raises ValueError if there is no part; failures of the ledger are in the coverage.

    In a mode that writes it takes the leases of the targets, and gives them back if it fails.
    """
    phase: _Phase | None = None
    with ExitStack() as on_failure:
        for part in parts:
            if phase is None:
                phase = _begun(part.run, context)
                if phase.run_ledger.leases:
                    on_failure.callback(phase.run_ledger.leases.give_back)
                phase.run_ledger.open(context.archive)
            _plan_part(part, phase)
        if phase is None:
            raise ValueError("there is nothing to decide: no part was observed")
        decided = _decided(phase)
        on_failure.pop_all()
        return decided


def _begun(run: Run, context: DecideContext) -> _Phase:
    now, ledger, leases = context.clock(), context.ledger, None
    if ledger and run.mode.writes:
        leases = RunLeases(ledger=ledger, run_id=run.id, clock=context.clock, renewed_at=now, dead_runs=context.dead_runs)
    run_ledger = RunLedger(run=run, now=now, ledger=ledger, leases=leases, notices_only=context.notices_only)
    opens_at = office_hours.opens_at(context.policy.send_hours, now)
    return _Phase(run=run, now=now, context=context, run_ledger=run_ledger, opens_at=opens_at)


def _plan_part(part: Observed, phase: _Phase) -> None:
    """Plan what was observed, once the ledger says what is known of it. What another version or too long ago observed is refused."""
    phase.coverage += part.coverage
    because = phase.context.refused_because or handover.too_old(part.run, phase.now, handover.DECIDE_WITHIN)
    if part.run.version != __version__:
        because = f"version {part.run.version} observed it, and this is {__version__}"
    if because:
        refused = [row for row in part.coverage if not row.is_own and NOT_REACHED not in (row.error or "")]
        phase.refused += [replace(row, status=Status.FAILED, error=because) for row in refused]
        _leave_alone(part.cases, because, phase)
        return
    cases, recalled, left = phase.run_ledger.recall(part)
    for others, why in left:
        _leave_alone(others, why, phase)
    _plan_cases(cases, recalled, phase)


def _leave_alone(cases: Sequence[Case], because: str, phase: _Phase) -> None:
    """These are left alone in this run, for a reason outside them."""
    kept = [case for case in cases if may_act(case) or case.rule.hours is not None]
    phase.findings += [finding_of(case, because, phase.now) for case in kept]
    phase.left_targets |= {case.resource.target for case in cases}


def _plan_cases(cases: Sequence[Case], recalled: Recalled, phase: _Phase) -> None:
    """Plan each case once: what is idle, remembered, on hours, or on a host. Everything else needs no decision and is only counted."""
    counted: list[Case] = []
    for case in cases:
        resource = case.resource
        phase.places[holds.kind_in_target_of(case)] = resource.target
        if recalled.is_unreadable(*remembered_ids(resource)):
            phase.findings.append(finding_of(case, ROW_UNREADABLE, phase.now))
        elif case.verdict.state is State.IDLE or resource.id in recalled or case.rule.hours or resource.host_id:
            phase.known[resource.id] = view = _view_of(case, recalled, phase)
            finding = stand(view)
            is_unlisted = phase.run_ledger.stored is None and finding.step.name in ENDING_ACTIONS
            phase.findings.append(replace(left_alone(finding, UNLISTED), is_blocked=True) if is_unlisted else finding)
        else:
            counted.append(case)
    caps.add_counts(phase.others, caps.count_places(counted))


def _view_of(case: Case, recalled: Recalled, phase: _Phase) -> View:
    """The case with what is recorded about it: a snooze of the host counts as the resource's own, and its interrupted action too."""
    record, snoozes = recalled.record(case.resource.id), recalled.snoozes(case.resource)
    records = map(recalled.record, remembered_ids(case.resource))
    interrupted = next(filter(None, (unfinished.half_done_because(each, phase.run.id) for each in records)), None)
    case = owners.with_present_owner(case, snoozes.own, phase.context.policy.owners.fallback)
    announces = phase.announces
    return View(case=case, now=phase.now, record=record, snoozes=snoozes, announces=announces, interrupted=interrupted)


def _decided(phase: _Phase) -> Decided:
    """All findings together: limits and jumps, the floor, the hours for notices, and what comes next."""
    run, run_ledger, policy = phase.run, phase.run_ledger, phase.context.policy
    run_ledger.settle_left_targets(phase.coverage)
    findings, jumps, unusual = _apply_limits(phase)
    findings = applying.above_floor([_with_reminders(finding, phase) for finding in findings], policy, run.mode)
    if phase.opens_at:
        findings = [applying.until_sent(finding, policy, phase.opens_at) for finding in findings]
    begun = {f.case.resource.target for f in findings if is_action(f)} if run.mode.acts else set()
    if because := run_ledger.note_open_targets(begun):
        findings = [applying.without_action(finding, because) for finding in findings]
    return Decided(
        run=run,
        decided_at=phase.now,
        leased=tuple(sorted(run_ledger.leases.targets, key=str)) if run_ledger.leases else (),
        findings=tuple(_with_next(finding, unusual, phase) for finding in findings),
        unreported=tuple(run_ledger.unreported),
        interrupted=tuple(run_ledger.interrupted),
        unusual=tuple(sorted(unusual)),
        jumps=jumps,
        coverage=(*phase.refused, *run_ledger.failures),
        by_plan=phase.context.agreed is not None,
    )


def _apply_limits(phase: _Phase) -> tuple[Sequence[Finding], tuple[Breaker, ...], Collection[KindInTarget]]:
    """Put on hold what exceeds a limit, send no notices where the idle share jumped, and record both, by version, before any mail.

    Returns the findings, the jumps that stand, and the places whose idle share says nothing about what is usual. If the ledger fails, everything is
    on hold.
    """
    if phase.run_ledger.ledger is None:
        return phase.findings, (), ()
    leases = phase.run_ledger.leases
    others = phase.left_targets - (leases.targets if leases else set())
    coverage = with_replaced_rows(phase.coverage, phase.refused)
    swept = Swept(
        scope=RunScope(run=phase.run.id, now=phase.now, read_places=holds.read_places(coverage, others)),
        others=phase.others,
        targets={*phase.places.values(), *(target_of_row(row) for row in coverage if not row.is_own and row.account)},
        policy=phase.context.policy,
        announces=phase.announces,
        writes=phase.run.mode.writes,
        notices_only=phase.context.notices_only,
    )
    try:
        findings, rows = applying.apply_limits(phase.findings, phase.known, swept, phase.run_ledger.ledger)
    except CloudError as error:
        because = f"the holds and the usual idle shares couldn't be read or written: {error}"
        phase.run_ledger.failures.append(failure_row("ledger", error))
        held = [applying.held_while_unknown(finding, because, phase.now, acting=phase.announces) for finding in phase.findings]
        return held, (), phase.places.keys()
    jumps = tuple(chain.from_iterable(row.jumps for row in rows.values()))
    return findings, jumps, {jump.place for jump in jumps}


def _with_reminders(finding: Finding, phase: _Phase) -> Finding:
    """The finding with its reminder and weekly summary. Applied after the limits, which count what is due with or without a reminder."""
    now, step = phase.now, finding.step
    if finding.record_version is None or not phase.run.mode.announces or phase.opens_at:
        return replace(finding, needs_summary=False)
    last, remind_every = last_notice_at(finding.notice), finding.case.rule.remind_every
    is_late = last is not None and now >= last + remind_every - dates.CLOCK_JITTER
    if is_late and step.name in ENDING_ACTIONS and not phase.run.mode.acts:  # otherwise its notice would lapse
        step = Step(name=StepName.REMIND, because=f"{step.because}, and this run does not act")
    by_hours = step.name in ACTIONS | {StepName.HOLD}
    return replace(finding, step=step, needs_summary=by_hours and finding.needs_summary)


def _with_next(finding: Finding, unusual: Collection[KindInTarget], phase: _Phase) -> Finding:
    """The finding with what the policy leads to, and what the kind could do. A hold, a jump, or whatever keeps it from being decided, blocks that."""
    case, step, now, agreed = finding.case, finding.step, phase.now, phase.context.agreed
    record = (
        replace(phase.known[case.resource.id].record, notice=finding.notice) if finding.record_version is not None else NO_RECORD
    )
    view = View(case=case, now=now, record=record)
    place = holds.kind_in_target_of(case)
    is_unusual = place in unusual or holds.run_place(place) in unusual
    is_quiet = is_unusual and step.name is StepName.NONE and not plan.follows_hours(view)
    is_kept = is_quiet or finding.is_blocked or finding.record_version is None or step.name is StepName.HOLD
    currency, notice_at = phase.context.policy.prices.shown_in, phase.opens_at or now
    following = next_action(view, step if is_kept else None, currency, notice_at)
    finding = plan_file.narrow_to_plan(finding, agreed) if agreed else finding
    finding = with_announcement(finding, now) if phase.run.mode.announces else finding
    return replace(finding, next=following, could=possible_action(case, notice_at))
