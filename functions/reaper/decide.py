"""Phase 2: what to do with each resource, given what the ledger remembers: snoozes, open actions, the plan, the plan file, limits and holds.

It streams the observed parts and keeps what is idle, remembered, on hours or inside another resource. Whatever is on hold is recorded before
any mail is sent. Without a ledger, or in audit, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reaper import __version__, contained, enrolment, idle_period, limits, memory_updates, plan
from reaper.actions import hold_ledger, holds, intent, plan_file, unfinished
from reaper.actions.holds import KindInTarget, RunScope
from reaper.actions.plan_file import PlanFile
from reaper.actions.unfinished import UntoldAction
from reaper.coverage import OWN, add_failure_row, failure_row, target_of_row, with_replaced_rows
from reaper.errors import CloudError, ReaperError
from reaper.handover import Decided, Decision, Observed
from reaper.ledger.lease import RunLeases
from reaper.ledger.opening import ensure_format
from reaper.ledger.port import Ledger, Recalled
from reaper.limits import PlaceCount
from reaper.model import (
    ACTIONS,
    ENDING_ACTIONS,
    Blocked,
    Case,
    Coverage,
    Memory,
    Mode,
    Result,
    Run,
    State,
    Status,
    Step,
    StepName,
    Target,
)
from reaper.policy.schema import Policy

OTHER_RUN = "another sweep is processing this target"
LEDGER_UNREADABLE = "its ledger record couldn't be read"
ROW_UNREADABLE = "its ledger record can't be read, and it may be snoozed"
NO_MEMORIES = Recalled({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideContext:
    """What deciding needs. `agreed`: a plan file; nothing else than what it asks for is done."""

    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    agreed: PlanFile | None = None


@dataclass(slots=True, kw_only=True)
class _Round:
    """One run of this phase: what it leased, remembers, decided, counted and failed at so far. `ledger` is None if it can't be used."""

    run: Run
    now: datetime
    context: DecideContext
    ledger: Ledger | None
    leases: RunLeases | None
    memories: dict[str, Memory] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    others: dict[KindInTarget, PlaceCount] = field(default_factory=dict)
    places: dict[KindInTarget, tuple[Target, str]] = field(default_factory=dict)
    left_targets: set[Target] = field(default_factory=set)
    untold: list[UntoldAction] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    failures: list[Coverage] = field(default_factory=list)
    refused_rows: list[Coverage] = field(default_factory=list)

    @property
    def announces(self) -> bool:
        """Whether what is planned may lead to an action: an audit says what would be done."""
        return self.run.mode.announces or self.run.mode is Mode.AUDIT


def decide(parts: Iterable[Observed], context: DecideContext) -> Decided:
    """One decision for each resource that needs one. Raises ValueError if there is no part; a ledger that fails is in the coverage.

    In a mode that writes it takes the leases of the targets, and gives them back if it doesn't get to an end.
    """
    round_: _Round | None = None
    try:
        for part in parts:
            round_ = round_ or _new_round(part.run, context)
            _decide_part(part, round_)
        if round_ is None:
            raise ValueError("there is nothing to decide: no part was observed")
        return _decided(round_)
    except BaseException:
        if round_ and round_.leases:
            round_.leases.give_back()
        raise


def _new_round(run: Run, context: DecideContext) -> _Round:
    now, ledger = context.clock(), context.ledger
    round_ = _Round(run=run, now=now, context=context, ledger=ledger, leases=None)
    if run.mode.writes and ledger is not None:
        round_.leases = RunLeases(ledger=ledger, run_id=run.id, clock=context.clock, renewed_at=now)
        try:
            ensure_format(ledger, now)
        except ReaperError as error:
            round_.ledger = None
            round_.failures.append(failure_row("ledger", error))
    return round_


def _decide_part(part: Observed, round_: _Round) -> None:
    round_.coverage += part.coverage
    if part.run.version != __version__:
        because = f"version {part.run.version} observed it, and this is {__version__}"
        refused = [row for row in part.coverage if row.cloud != OWN]
        round_.refused_rows += [replace(row, status=Status.FAILED, error=because) for row in refused]
        _leave_alone(part.cases, because, round_)
        return
    if round_.leases is None:
        _plan_cases(part.cases, _recall_to_read(part.cases, round_), round_)
        return
    targets = _take_leases(part, round_)
    ours = [case for case in part.cases if case.resource.target in targets]
    others = [case for case in part.cases if case.resource.target not in targets]
    _leave_alone(others, OTHER_RUN if round_.ledger else LEDGER_UNREADABLE, round_)
    memories = _recall_and_close(ours, targets, round_) if round_.ledger else None
    if memories is None:
        _leave_alone(ours, LEDGER_UNREADABLE, round_)
    else:
        _plan_cases(ours, memories, round_)


def _take_leases(part: Observed, round_: _Round) -> set[Target]:
    """The targets that are this run's now: of those with a resource, or with an action whose owner must still be told."""
    if round_.ledger is None or round_.leases is None:
        return set()
    wanted = {case.resource.target for case in part.cases}
    empty = {target_of_row(row) for row in part.coverage if row.cloud != OWN} - wanted
    try:
        wanted |= {target for target in empty if round_.ledger.unfinished(target, round_.now)}
    except ReaperError as error:
        add_failure_row(round_.failures, failure_row("ledger", error))
    taken = {target for target in sorted(wanted, key=str) if round_.leases.take(target)}
    for row in round_.leases.failures:
        add_failure_row(round_.failures, row)
    return taken


def _recall_to_read(cases: Sequence[Case], round_: _Round) -> Recalled:
    """What an audit reads of the ledger, if there is one."""
    if round_.ledger is None:
        return NO_MEMORIES
    try:
        memories = round_.ledger.recall(intent.ids_with_hosts(cases), round_.now)
    except ReaperError as error:
        add_failure_row(round_.failures, failure_row("ledger", error))
        round_.ledger = None
        return NO_MEMORIES
    _note_unreadable(memories.errors, round_)
    return memories


def _recall_and_close(cases: Sequence[Case], targets: set[Target], round_: _Round) -> Recalled | None:
    """What is remembered of the cases, their hosts and what earlier runs left open, which is closed here. None if it can't be read."""
    ledger, now = round_.context.ledger, round_.now
    if ledger is None:
        return None
    listed = {case.resource.id: case for case in cases}
    try:
        hints, errors = unfinished.read_unfinished(ledger, targets, now, listed)
        _note_unreadable(errors, round_)
        memories = ledger.recall(dict.fromkeys([*intent.ids_with_hosts(cases), *(hint.id for hint in hints)]), now)
        done = unfinished.close_unfinished_actions(hints, listed, memories, ledger, now)
        memories, untold = unfinished.settle_told_actions(done.hints, listed, done.memories, ledger, now)
    except ReaperError as error:
        round_.failures.append(failure_row("ledger", error))
        if round_.leases:
            round_.leases.give_back()
        return None
    round_.untold += untold
    _note_unreadable(memories.errors, round_)
    if failed := unfinished.closed_actions_error(done.closed, memories):
        add_failure_row(round_.failures, failure_row("acts", failed))
    return memories


def _note_unreadable(errors: Sequence[CloudError], round_: _Round) -> None:
    round_.failures += [failure_row("ledger", error, len(errors) - 1) for error in errors[:1]]


def _plan_cases(cases: Sequence[Case], memories: Recalled, round_: _Round) -> None:
    """Plan each case once. What needs no decision is only counted."""
    by_id = {case.resource.id: case for case in cases}
    for case in cases:
        place = holds.kind_in_target_of(case)
        round_.places[place] = (case.resource.target, case.resource.kind)
        if intent.is_unreadable(case.resource, memories):
            _keep_left(case, ROW_UNREADABLE, round_)
        elif not _needs_decision(case, memories):
            round_.others = limits.sum_counts(round_.others, limits.count_places([case]))
        else:
            decision, memory = _planned_decision(_with_guests_blocked(case, by_id, memories, round_.now), memories, round_)
            round_.decisions.append(decision)
            round_.memories[case.resource.id] = memory


def _needs_decision(case: Case, memories: Recalled) -> bool:
    """Whether it is idle, remembered, on hours, or lives in another resource. For everything else there is nothing to do."""
    return (
        case.verdict.state is State.IDLE
        or case.resource.id in memories
        or case.rule.hours is not None
        or bool(intent.host_ids(case.resource))
    )


def _with_guests_blocked(case: Case, cases: Mapping[str, Case], memories: Recalled, now: datetime) -> Case:
    """With every action blocked that would take along something whose owner can't be told: known here, before anything is announced."""
    inside = contained.inner_ids(case.resource)
    if not inside or not inside.isdisjoint(memories.unreadable):
        return case
    because = contained.unannounceable_inside(case, cases, memories, now)
    blocked = {name: block or (Blocked(because=because) if because else None) for name, block in case.blocked.items()}
    return replace(case, blocked=blocked)


def _planned_decision(case: Case, memories: Recalled, round_: _Round) -> tuple[Decision, Memory]:
    """The decision before limits, and the memory that it rests on: a snooze of its host counts as one of its own."""
    host = intent.host_memory(case.resource, memories)
    stored = memories.get(case.resource.id, Memory())
    memory = memory_updates.after_host_snooze(stored, host)
    reported = plan.with_snooze(case, memory, round_.now, host)
    [step] = plan.plan_steps([reported], {case.resource.id: memory}, round_.now, acting=round_.announces)
    return Decision(case=case, verdict=reported.verdict, step=step, row_version=stored.version), memory


def _leave_alone(cases: Iterable[Case], because: str, round_: _Round) -> None:
    """Leave these alone this time, for a reason that has nothing to do with them."""
    for case in cases:
        round_.left_targets.add(case.resource.target)
        if plan.may_act(case) or case.rule.hours is not None:
            _keep_left(case, because, round_)


def _keep_left(case: Case, because: str, round_: _Round) -> None:
    round_.decisions.append(Decision(case=case, verdict=case.verdict, step=Step(name=StepName.NONE, because=because)))


def _decided(round_: _Round) -> Decided:
    unusual = _apply_limits(round_)
    leased = tuple(sorted(round_.leases.targets, key=str)) if round_.leases else ()
    return Decided(
        run=round_.run,
        decided_at=round_.now,
        leased=leased,
        decisions=tuple(_narrowed(_with_reminders(decision, round_), round_) for decision in round_.decisions),
        untold=tuple(round_.untold),
        unusual=tuple(sorted(unusual)),
        coverage=(*round_.refused_rows, *round_.failures),
    )


def _apply_limits(round_: _Round) -> frozenset[KindInTarget]:
    """Put on hold what is too much at once, and record that, by version, before anything is done or sent.

    Returns the places whose idle share says nothing about what is usual. If the ledger fails, everything is on hold.
    """
    ledger = round_.ledger
    if ledger is None:
        return frozenset()
    try:
        return _hold_over_limits(ledger, round_)
    except CloudError as error:
        because = f"on hold, because the holds and the usual idle shares could not be read or written: {error}"
        step = Step(name=StepName.HOLD, because=because)
        round_.decisions = [replace(d, step=step) if d.step.name in ENDING_ACTIONS else d for d in round_.decisions]
        round_.failures.append(failure_row("ledger", error))
        return frozenset(round_.places)


def _hold_over_limits(ledger: Ledger, round_: _Round) -> frozenset[KindInTarget]:
    counted = [index for index, decision in enumerate(round_.decisions) if decision.row_version is not None]
    planned = [(round_.decisions[index].reported_case, round_.decisions[index].step) for index in counted]
    others = round_.left_targets - (round_.leases.targets if round_.leases else set())
    coverage = with_replaced_rows(round_.coverage, round_.refused_rows)
    scope = RunScope(run=round_.run.id, now=round_.now, read_places=holds.read_places(coverage, others))
    for _ in range(hold_ledger.MAX_TRIES):
        before, version = hold_ledger.holds_with_version(ledger)
        past = hold_ledger.past_runs(ledger, before, round_.places, round_.now)
        limited = limits.hold_over_limits(planned, round_.memories, round_.context.policy.limits, past, scope, round_.others)
        if not round_.run.mode.announces or hold_ledger.record_holds(ledger, limited.holds, before, version, round_.now):
            for index, step in zip(counted, limited.steps, strict=True):
                round_.decisions[index] = _with_hold(round_.decisions[index], step, limited.since)
            return frozenset(hold_ledger.jumped_places(limited.holds))
    raise hold_ledger.lost_race(hold_ledger.HOLD_ROW)


def _with_hold(decision: Decision, step: Step, since: Mapping[str, frozenset[datetime]]) -> Decision:
    if step.name is not StepName.HOLD:
        return decision
    return replace(decision, step=step, on_hold_since=tuple(sorted(since.get(decision.case.resource.id, ()))))


def _with_reminders(decision: Decision, round_: _Round) -> Decision:
    """Only after the limits: what is due counts for them whether its owner is reminded or not."""
    memory = round_.memories.get(decision.case.resource.id, Memory())
    if decision.row_version is None or not round_.run.mode.announces:
        return decision
    if not round_.run.mode.acts:
        decision = _with_reminder_of_due(decision, memory, round_.now)
    by_hours = decision.step.name in ACTIONS | {StepName.HOLD}
    return replace(decision, needs_summary=by_hours and enrolment.is_summary_due(decision.reported_case, memory, round_.now))


def _with_reminder_of_due(decision: Decision, memory: Memory, now: datetime) -> Decision:
    """What is due in a run that doesn't act is reminded of all the same, or its notice would lapse."""
    last = idle_period.last_notice_at(memory)
    remind_every = decision.case.rule.remind_every
    if decision.step.name not in ENDING_ACTIONS or last is None or now < last + remind_every - enrolment.CLOCK_JITTER:
        return decision
    return replace(decision, step=Step(name=StepName.REMIND, because=f"{decision.step.because}, and this run does not act"))


def _narrowed(decision: Decision, round_: _Round) -> Decision:
    agreed = round_.context.agreed
    if agreed is None or decision.outcome.result is not Result.PLANNED:
        return decision
    return plan_file.narrow_to_plan(decision, agreed)
