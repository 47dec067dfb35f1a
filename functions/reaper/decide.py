"""Phase 2: what to do with each resource, given what the ledger has: snoozes, open actions, the plan, the plan file, limits and holds.

It streams the observed parts and keeps what is idle, remembered, on hours or on a host. Whatever is on hold is recorded before
any mail is sent. Without a ledger, or in audit, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from reaper import __version__, handover, plan
from reaper.calendars import office_hours
from reaper.case import Case, Coverage, may_act
from reaper.coverage import NOT_REACHED, RUNS, SKIPPED, add_failure_row, failure_row, own_row, target_of_row, with_replaced_rows
from reaper.errors import CloudError, ReaperError
from reaper.finding import Finding, Step, View, finding_of, is_action, left_alone
from reaper.handover import Decided, Observed
from reaper.ledger.ledger import Ledger
from reaper.ledger.opening import FORMAT_ROW, ensure_format
from reaper.ledger.rows import NamedRow, Recalled, comparable_id, remembered_ids
from reaper.ledger.runs import RunLeases
from reaper.limits import applying, breaker, holds
from reaper.limits.applying import Known, Swept
from reaper.limits.breaker import PlaceCounts
from reaper.limits.holds import Breaker, KindInTarget, PlaceCount, RunScope
from reaper.model import ACTIONS, ENDING_ACTIONS, Mode, Run, State, Status, StepName, Target
from reaper.pending import plan_file, unfinished
from reaper.pending.plan_file import PlanFile
from reaper.pending.recall import (
    open_targets_in,
    recall_and_settle,
    recall_left_targets,
    recall_to_read,
    take_leases,
    take_resource_leases,
)
from reaper.pending.unfinished import Unfinished
from reaper.plan import next_action, possible_action, stand, with_announcement
from reaper.planning import dates
from reaper.policy import owners
from reaper.policy.schema import Policy
from reaper.record import NO_RECORD, Record, Snoozes, is_unfinished, last_notice_at

if TYPE_CHECKING:
    from reaper.acting.manifest import Archive

OTHER_RUN = "another sweep is processing this target"
OPEN_ACTION = "an action on it hasn't been settled yet"
LEDGER_UNREADABLE = "its ledger record couldn't be read"
ROW_UNREADABLE = "its ledger record can't be read, and it may be snoozed"
UNLISTED = "the manifests of the last days couldn't be listed"
NOTHING_RECALLED = Recalled()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """What every part of this phase shares. `ledger` is None if it can't be used, `leases` in an audit. Failures are added to `failures`.

    `opens_at`: when notices go out next; None if they go out now. `stored`: the addresses of the manifests of the last days, if this run acts. None if they
    couldn't be listed: then nothing is stopped or deleted. `open_targets`: those that may have an unfinished action, as in `open_row`.
    """

    run: Run
    now: datetime
    context: DecideContext
    ledger: Ledger | None
    leases: RunLeases | None
    failures: list[Coverage]
    opens_at: datetime | None = None
    stored: Sequence[str] | None = ()
    open_targets: frozenset[Target] = frozenset()
    open_row: NamedRow | None = None

    @property
    def announces(self) -> bool:
        """Whether the plan may contain actions: an audit says what would be done."""
        return self.run.mode.announces or self.run.mode is Mode.AUDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is planned of one part, or of all. `known`: what this is based on, by resource ID. `others`: the counts of what needs no decision. `places`: where something was planned or counted.

    `left_targets`: those that were left alone; `meets_other_run`: because another run has them. `ledger_failed`: an audit couldn't read it.
    `finished`: the targets in which everything is settled and mailed.
    """

    findings: tuple[Finding, ...] = ()
    known: Known = field(default_factory=dict)
    others: PlaceCounts = field(default_factory=dict)
    places: Mapping[KindInTarget, Target] = field(default_factory=dict)
    left_targets: frozenset[Target] = frozenset()
    meets_other_run: bool = False
    ledger_failed: bool = False
    unreported: tuple[Unfinished, ...] = ()
    interrupted: tuple[Unfinished, ...] = ()
    finished: frozenset[Target] = frozenset()
    coverage: tuple[Coverage, ...] = ()
    refused_rows: tuple[Coverage, ...] = ()


def decide(parts: Iterable[Observed], context: DecideContext) -> Decided:
    """One decision for each resource that needs one. Raises ValueError if there is no part; failures of the ledger are in the coverage.

    In a mode that writes it takes the leases of the targets, and gives them back if it fails.
    """
    phase: _Phase | None = None
    done: list[_Part] = []
    with ExitStack() as on_failure:
        for part in parts:
            if phase is None:
                phase = _begun(part.run, context)
                if phase.leases:
                    on_failure.callback(phase.leases.give_back)
            done.append(replace(_plan_part(part, phase), coverage=part.coverage))
            if done[-1].ledger_failed:
                phase = replace(phase, ledger=None)
        if phase is None:
            raise ValueError("there is nothing to decide: no part was observed")
        decided = _decided(_joined(done), phase)
        on_failure.pop_all()
        return decided


def _begun(run: Run, context: DecideContext) -> _Phase:
    now, ledger, archive = context.clock(), context.ledger, context.archive
    opens_at = office_hours.opens_at(context.policy.send_hours, now)
    phase = _Phase(run=run, now=now, context=context, ledger=ledger, leases=None, failures=[], opens_at=opens_at)
    if ledger is None or not run.mode.writes:
        return phase
    leases = RunLeases(ledger=ledger, run_id=run.id, clock=context.clock, renewed_at=now, dead_runs=context.dead_runs)
    phase = replace(phase, leases=leases)
    try:
        rows = ledger.read_rows((unfinished.OPEN_TARGETS_ROW, FORMAT_ROW))
        ensure_format(ledger, rows[FORMAT_ROW])
    except ReaperError as error:
        return replace(phase, ledger=None, failures=[failure_row("ledger", error)])
    if not context.notices_only:
        row = rows[unfinished.OPEN_TARGETS_ROW]
        phase = replace(phase, open_targets=open_targets_in(row, phase.failures), open_row=row)
    try:
        return replace(phase, stored=archive.stored_lately(now) if archive else ())
    except CloudError as error:
        unlisted = failure_row("acts", error.reworded(f"{UNLISTED}: {error}"))
        return replace(phase, stored=None, failures=[*phase.failures, unlisted])


def _joined(parts: Sequence[_Part]) -> _Part:
    """All parts as one."""
    others: dict[KindInTarget, PlaceCount] = {}
    for part in parts:
        breaker.add_counts(others, part.others)
    return _Part(
        findings=tuple(chain.from_iterable(part.findings for part in parts)),
        known={id_: known for part in parts for id_, known in part.known.items()},
        others=others,
        places={place: target for part in parts for place, target in part.places.items()},
        left_targets=frozenset(chain.from_iterable(part.left_targets for part in parts)),
        meets_other_run=any(part.meets_other_run for part in parts),
        ledger_failed=any(part.ledger_failed for part in parts),
        unreported=tuple(chain.from_iterable(part.unreported for part in parts)),
        interrupted=tuple(chain.from_iterable(part.interrupted for part in parts)),
        finished=frozenset(chain.from_iterable(part.finished for part in parts)),
        coverage=tuple(chain.from_iterable(part.coverage for part in parts)),
        refused_rows=tuple(chain.from_iterable(part.refused_rows for part in parts)),
    )


def _plan_part(part: Observed, phase: _Phase) -> _Part:
    if because := _refused_because(part, phase):
        refused = [row for row in part.coverage if not row.is_own and NOT_REACHED not in (row.error or "")]
        rows = tuple(replace(row, status=Status.FAILED, error=because) for row in refused)
        return replace(_left_alone(part.cases, because, phase.now), refused_rows=rows)
    if phase.leases is None:
        recalled = recall_to_read(part.cases, phase.ledger, phase.now, phase.failures) if phase.ledger else NOTHING_RECALLED
        planned = _plan_cases(part.cases, NOTHING_RECALLED if recalled is None else recalled, phase)
        return replace(planned, ledger_failed=recalled is None)
    if phase.ledger is None:
        return _left_alone(part.cases, LEDGER_UNREADABLE, phase.now)
    plan_leased = _plan_resources if phase.context.notices_only else _plan_targets
    return plan_leased(part, phase.leases, phase)


def _refused_because(part: Observed, phase: _Phase) -> str | None:
    if part.run.version != __version__:
        return f"version {part.run.version} observed it, and this is {__version__}"
    return phase.context.refused_because or handover.too_old(part.run, phase.now, handover.DECIDE_WITHIN)


def _plan_resources(part: Observed, leases: RunLeases, phase: _Phase) -> _Part:
    """Plan single resources, unless another run has their target or one of its actions on them is still open."""
    ids = take_resource_leases(part.cases, leases, phase.now, phase.failures)
    leased = [case for case in part.cases if case.resource.id in (ids or ())]
    recalled = recall_to_read(leased, leases.ledger, phase.now, phase.failures)
    if ids is None or recalled is None:
        return _left_alone(part.cases, LEDGER_UNREADABLE, phase.now)
    open_ids = {id_ for id_, record in recalled.readable.items() if is_unfinished(record)}
    is_open = {case.resource.id for case in leased if comparable_id(case.resource.id) in open_ids}
    return _joined(
        [
            _left_alone([case for case in part.cases if case.resource.id not in ids], OTHER_RUN, phase.now),
            _left_alone([case for case in leased if case.resource.id in is_open], OPEN_ACTION, phase.now),
            _plan_cases([case for case in leased if case.resource.id not in is_open], recalled, phase),
        ]
    )


def _plan_targets(part: Observed, leases: RunLeases, phase: _Phase) -> _Part:
    """Plan what is in the targets that this run gets."""
    targets = take_leases(part, phase.open_targets, leases, phase.failures)
    left = [case for case in part.cases if case.resource.target not in targets]
    leased = [case for case in part.cases if case.resource.target in targets]
    others = replace(_left_alone(left, OTHER_RUN, phase.now), meets_other_run=bool(left))
    settling = recall_and_settle(leased, targets, phase.stored or (), leases, phase.now, phase.failures)
    if settling is None:
        leases.give_back(targets)
        return _joined([others, _left_alone(leased, LEDGER_UNREADABLE, phase.now)])
    (recalled, settled), acts = settling, phase.run.mode.acts
    interrupted = tuple(each for one in settled for each in one.interrupted)
    if not acts and (error := unfinished.closed_actions_error(interrupted)):
        add_failure_row(phase.failures, failure_row("acts", error))
    unreported = tuple(each for one in settled for each in (*one.unreported, *(() if acts else one.unreported_interrupted)))
    planned = _plan_cases(leased, recalled, phase)
    finished = frozenset(one.target for one in settled if one.is_finished)
    return _joined([others, replace(planned, unreported=unreported, interrupted=interrupted, finished=finished)])


def _plan_cases(cases: Sequence[Case], recalled: Recalled, phase: _Phase) -> _Part:
    """Plan each case once: what is idle, remembered, on hours, or on a host. Everything else needs no decision and is only counted."""
    findings: list[Finding] = []
    counted: list[Case] = []
    known: dict[str, tuple[Record, Snoozes]] = {}
    for case in cases:
        if recalled.is_unreadable(*remembered_ids(case.resource)):
            findings.append(finding_of(case, ROW_UNREADABLE, phase.now))
        elif case.verdict.state is State.IDLE or case.resource.id in recalled or case.rule.hours or case.resource.host_id:
            known[case.resource.id] = recalled.record(case.resource.id), recalled.snoozes(case.resource)
            findings.append(_finding_of_case(case, recalled, phase))
        else:
            counted.append(case)
    places = {holds.kind_in_target_of(case): case.resource.target for case in cases}
    return _Part(findings=tuple(findings), known=known, others=breaker.count_places(counted), places=places)


def _finding_of_case(case: Case, recalled: Recalled, phase: _Phase) -> Finding:
    """The finding before limits: a snooze of the host counts as the resource's own."""
    snoozes = recalled.snoozes(case.resource)
    case = owners.with_present_owner(case, snoozes.own, phase.context.policy.owners.fallback)
    record = recalled.record(case.resource.id)
    records = map(recalled.record, remembered_ids(case.resource))
    interrupted = next(filter(None, (unfinished.half_done_because(each, phase.run.id) for each in records)), None)
    view = View(case=case, now=phase.now, record=record, snoozes=snoozes, announces=phase.announces, interrupted=interrupted)
    finding = stand(view)
    if phase.stored is None and finding.step.name in ENDING_ACTIONS:
        return replace(left_alone(finding, UNLISTED), is_blocked=True)
    return finding


def _left_alone(cases: Sequence[Case], because: str, now: datetime) -> _Part:
    """These are left alone in this run, for a reason outside them."""
    kept = [case for case in cases if may_act(case) or case.rule.hours is not None]
    return _Part(
        findings=tuple(finding_of(case, because, now) for case in kept),
        left_targets=frozenset(case.resource.target for case in cases),
    )


def _decided(whole: _Part, phase: _Phase) -> Decided:
    leases, failures, policy = phase.leases, phase.failures, phase.context.policy
    if whole.meets_other_run and leases and not (leases.targets or leases.failures):
        failures.append(own_row(RUNS, SKIPPED))
    unreported, finished = whole.unreported, whole.finished
    if leases and phase.ledger and not phase.context.notices_only:
        left = recall_left_targets(whole.coverage, phase.open_targets, leases, phase.now, failures)
        unreported += tuple(each for one in left for each in (*one.unreported, *one.unreported_interrupted))
        finished |= {one.target for one in left if one.is_finished}
    findings, jumps, unusual = _apply_limits(whole, phase)
    findings = applying.above_floor([_with_reminders(finding, phase) for finding in findings], policy, phase.run.mode)
    if phase.opens_at:
        findings = [applying.until_sent(finding, policy, phase.opens_at) for finding in findings]
    findings = _note_open_targets(findings, finished, phase)
    return Decided(
        run=phase.run,
        decided_at=phase.now,
        leased=tuple(sorted(leases.targets, key=str)) if leases else (),
        findings=tuple(_with_next(finding, whole.known, unusual, phase) for finding in findings),
        unreported=unreported,
        interrupted=whole.interrupted,
        unusual=tuple(sorted(unusual)),
        jumps=jumps,
        coverage=(*whole.refused_rows, *failures),
        by_plan=phase.context.agreed is not None,
    )


def _note_open_targets(findings: Sequence[Finding], finished: Collection[Target], phase: _Phase) -> Sequence[Finding]:
    """The findings, once the ledger has the targets in which this run may act. If that fails, everything is on hold."""
    begun = {f.case.resource.target for f in findings if is_action(f)} if phase.run.mode.acts else set()
    closed = phase.open_targets.intersection(finished) - begun
    if phase.ledger is None or not (closed or begun):
        return findings
    try:
        # Another run that took a lease over relies on its target being there.
        closed = frozenset(target for target in closed if phase.leases and phase.leases.prolong(target))
        unfinished.change_open_targets(phase.ledger, closed, begun, phase.open_row)
    except CloudError as error:
        phase.failures.append(failure_row("ledger", error))
        because = f"the targets with actions couldn't be written: {error}"
        return [applying.without_action(finding, because) for finding in findings]
    return findings


def _apply_limits(whole: _Part, phase: _Phase) -> tuple[Sequence[Finding], tuple[Breaker, ...], Collection[KindInTarget]]:
    """Put on hold what exceeds a limit, send no notices where the idle share jumped, and record both, by version, before any mail.

    Returns the findings, the jumps that stand, and the places whose idle share says nothing about what is usual. If the ledger fails, everything is
    on hold.
    """
    if phase.ledger is None:
        return whole.findings, (), ()
    others = whole.left_targets - (phase.leases.targets if phase.leases else set())
    coverage = with_replaced_rows(whole.coverage, whole.refused_rows)
    swept = Swept(
        scope=RunScope(run=phase.run.id, now=phase.now, read_places=holds.read_places(coverage, others)),
        others=whole.others,
        targets={*whole.places.values(), *(target_of_row(row) for row in coverage if not row.is_own and row.account)},
        policy=phase.context.policy,
        announces=phase.announces,
        writes=phase.run.mode.writes,
        notices_only=phase.context.notices_only,
    )
    try:
        findings, rows = applying.apply_limits(whole.findings, whole.known, swept, phase.ledger)
    except CloudError as error:
        because = f"the holds and the usual idle shares couldn't be read or written: {error}"
        phase.failures.append(failure_row("ledger", error))
        held = [applying.held_while_unknown(finding, because, phase.now, acting=phase.announces) for finding in whole.findings]
        return held, (), whole.places.keys()
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


def _with_next(finding: Finding, known: Known, unusual: Collection[KindInTarget], phase: _Phase) -> Finding:
    """The finding with what the policy leads to, and what the kind could do. A hold, a jump, or whatever keeps it from being decided, blocks that."""
    case, step, now, agreed = finding.case, finding.step, phase.now, phase.context.agreed
    record = replace(known[case.resource.id][0], notice=finding.notice) if finding.record_version is not None else NO_RECORD
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
