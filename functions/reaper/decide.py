"""Phase 2: what to do with each resource, given what the ledger remembers: snoozes, open actions, the plan, the plan file, limits and holds.

It streams the observed parts and keeps what is idle, remembered, on hours or inside another resource. Whatever is on hold is recorded before
any mail is sent. Without a ledger, or in audit, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime

from reaper import __version__, coverage, handover, idle_period, limits, memory_updates, plan
from reaper.case import Blocked, Case, Coverage, Step
from reaper.coverage import OWN, add_failure_row, failure_row, skipped_row, target_of_row, with_replaced_rows
from reaper.errors import CloudError, ReaperError
from reaper.handover import Decided, Decision, Observed
from reaper.ledger.lease import RunLeases
from reaper.ledger.opening import ensure_format
from reaper.ledger.port import Ledger, Recalled, Unfinished
from reaper.ledger.update import write_until_accepted
from reaper.limits import PlaceCount, PlaceCounts
from reaper.model import ENDING_ACTIONS, NOTICES, Memory, Mode, Result, Run, State, Status, StepName, Target
from reaper.pending import holds, intents, plan_file, unfinished
from reaper.pending.holds import Breaker, HoldRows, KindInTarget, RunScope
from reaper.pending.plan_file import PlanFile
from reaper.pending.recall import recall_and_close, recall_left_targets, recall_to_read, take_leases, take_resource_leases
from reaper.pending.unfinished import UntoldAction
from reaper.planning import contained, jumps, possible_actions, reminders
from reaper.policy.schema import Policy

OTHER_RUN = "another sweep is processing this target"
OPEN_ACTION = "an action on it hasn't been settled yet"
LEDGER_UNREADABLE = "its ledger record couldn't be read"
ROW_UNREADABLE = "its ledger record can't be read, and it may be snoozed"
NO_MEMORIES = Recalled({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideContext:
    """The context of deciding. `agreed`: a plan file; only what it asks for is carried out.

    `notices_only`: the run is about single resources. It takes their leases, not those of their targets, sends no notice where the idle share
    jumped, puts what is due there on hold, and leaves the rest of limits and holds to the runs over whole targets. `refused_because`: why
    nothing that was observed may be decided. `dead_runs`: runs whose leases this one may take.
    """

    policy: Policy
    ledger: Ledger | None
    clock: Callable[[], datetime]
    agreed: PlanFile | None = None
    notices_only: bool = False
    refused_because: str | None = None
    dead_runs: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Draft:
    """What this phase has collected: leases, memories, decisions, counts and failures. `ledger` is None if it can't be used.

    `blocked_ids`: what an interrupted action blocks, whatever the plan says.
    """

    run: Run
    now: datetime
    context: DecideContext
    ledger: Ledger | None
    leases: RunLeases | None
    memories: dict[str, Memory] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    others: dict[KindInTarget, PlaceCount] = field(default_factory=dict)
    places: dict[KindInTarget, Target] = field(default_factory=dict)
    left_targets: set[Target] = field(default_factory=set)
    meets_other_run: bool = False
    untold: list[UntoldAction] = field(default_factory=list)
    interrupted: list[Unfinished] = field(default_factory=list)
    blocked_ids: set[str] = field(default_factory=set)
    coverage: list[Coverage] = field(default_factory=list)
    failures: list[Coverage] = field(default_factory=list)
    refused_rows: list[Coverage] = field(default_factory=list)

    @property
    def announces(self) -> bool:
        """Whether the plan may contain actions: an audit says what would be done."""
        return self.run.mode.announces or self.run.mode is Mode.AUDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unusual:
    """The places whose idle share says nothing about what is usual, and the jumps that stand."""

    places: frozenset[KindInTarget] = frozenset()
    jumps: tuple[Breaker, ...] = ()


def decide(parts: Iterable[Observed], context: DecideContext) -> Decided:
    """One decision for each resource that needs one. Raises ValueError if there is no part; failures of the ledger are in the coverage.

    In a mode that writes it takes the leases of the targets, and gives them back if it fails.
    """
    draft: _Draft | None = None
    with ExitStack() as on_failure:
        for part in parts:
            if draft is None:
                draft = _new_draft(part.run, context)
                if draft.leases:
                    on_failure.callback(draft.leases.give_back)
            _decide_part(part, draft)
        if draft is None:
            raise ValueError("there is nothing to decide: no part was observed")
        if draft.meets_other_run and draft.leases and not (draft.leases.targets or draft.leases.failures):
            draft.failures.append(skipped_row())
        if draft.leases and draft.ledger and not context.notices_only:
            draft.untold += recall_left_targets(draft.coverage, draft.leases, draft.run.id, draft.now, draft.failures)
        decided = _decided(draft)
        on_failure.pop_all()
        return decided


def _new_draft(run: Run, context: DecideContext) -> _Draft:
    now, ledger = context.clock(), context.ledger
    draft = _Draft(run=run, now=now, context=context, ledger=ledger, leases=None)
    if run.mode.writes and ledger is not None:
        draft.leases = RunLeases(ledger=ledger, run_id=run.id, clock=context.clock, renewed_at=now, dead_runs=context.dead_runs)
        try:
            ensure_format(ledger, now)
        except ReaperError as error:
            draft.ledger = None
            draft.failures.append(failure_row("ledger", error))
    return draft


def _decide_part(part: Observed, draft: _Draft) -> None:
    draft.coverage += part.coverage
    if because := _refused_because(part, draft):
        refused = [row for row in part.coverage if row.cloud != OWN and coverage.NOT_REACHED not in (row.error or "")]
        draft.refused_rows += [replace(row, status=Status.FAILED, error=because) for row in refused]
        _leave_alone(part.cases, because, draft)
        return
    if draft.leases is None:
        memories = recall_to_read(part.cases, draft.ledger, draft.now, draft.failures) if draft.ledger else NO_MEMORIES
        draft.ledger = None if memories is None else draft.ledger
        _plan_cases(part.cases, NO_MEMORIES if memories is None else memories, draft)
        return
    if draft.context.notices_only:
        _decide_resources(part.cases, draft.leases, draft)
        return
    targets = take_leases(part, draft.leases, draft.now, draft.failures) if draft.ledger else set()
    left = [case for case in part.cases if case.resource.target not in targets]
    _leave_alone(left, OTHER_RUN if draft.ledger else LEDGER_UNREADABLE, draft)
    draft.meets_other_run = draft.meets_other_run or bool(left and draft.ledger)
    _decide_leased([case for case in part.cases if case.resource.target in targets], targets, draft)


def _decide_resources(cases: Sequence[Case], leases: RunLeases, draft: _Draft) -> None:
    """Decide about single resources, unless another run has their target or one of its actions on them is still open."""
    ids = take_resource_leases(cases, leases, draft.now, draft.failures) if draft.ledger else None
    leased = [case for case in cases if case.resource.id in (ids or ())]
    memories = recall_to_read(leased, draft.ledger, draft.now, draft.failures) if draft.ledger else None
    if ids is None or memories is None:
        _leave_alone(cases, LEDGER_UNREADABLE, draft)
        return
    known = dict(memories)
    is_open = {case.resource.id for case in leased if memory_updates.is_unfinished(known.get(case.resource.id, Memory()))}
    _leave_alone([case for case in cases if case.resource.id not in ids], OTHER_RUN, draft)
    _leave_alone([case for case in leased if case.resource.id in is_open], OPEN_ACTION, draft)
    _plan_cases([case for case in leased if case.resource.id not in is_open], memories, draft)


def _refused_because(part: Observed, draft: _Draft) -> str | None:
    if part.run.version != __version__:
        return f"version {part.run.version} observed it, and this is {__version__}"
    return draft.context.refused_because or handover.too_old_to_decide(part.run, draft.now)


def _decide_leased(cases: Sequence[Case], targets: set[Target], draft: _Draft) -> None:
    recalled = recall_and_close(cases, targets, draft.ledger, draft.run.id, draft.now, draft.failures) if draft.ledger else None
    if recalled is None:
        _leave_alone(cases, LEDGER_UNREADABLE, draft)
        if draft.leases:
            draft.leases.give_back(targets)
        return
    draft.untold += [action for action in recalled.untold if not (action.is_open and draft.run.mode.acts)]
    draft.interrupted += recalled.interrupted
    if not draft.run.mode.acts and (error := unfinished.closed_actions_error(recalled.interrupted, recalled.memories)):
        add_failure_row(draft.failures, failure_row("acts", error))
    _plan_cases(cases, recalled.memories, draft)


def _plan_cases(cases: Sequence[Case], memories: Recalled, draft: _Draft) -> None:
    """Plan each case once. What needs no decision is only counted."""
    by_id = {case.resource.id: case for case in cases}
    counted: list[Case] = []
    for case in cases:
        place = holds.kind_in_target_of(case)
        draft.places[place] = case.resource.target
        if intents.is_unreadable(case.resource, memories):
            _keep_left(case, ROW_UNREADABLE, draft)
        elif not _needs_decision(case, memories):
            counted.append(case)
        else:
            decision, memory = _planned_decision(_with_guests_blocked(case, by_id, memories, draft.now), memories, draft)
            draft.decisions.append(decision)
            draft.memories[case.resource.id] = memory
    limits.add_counts(draft.others, limits.count_places(counted))


def _needs_decision(case: Case, memories: Recalled) -> bool:
    """Whether it is idle, remembered, on hours, or lives in another resource. Everything else needs nothing."""
    return (
        case.verdict.state is State.IDLE
        or case.resource.id in memories
        or case.rule.hours is not None
        or bool(intents.host_ids(case.resource))
    )


def _with_guests_blocked(case: Case, cases: Mapping[str, Case], memories: Recalled, now: datetime) -> Case:
    """The case, with every action blocked that would affect something inside whose owner can't be notified, before one is announced."""
    inside = contained.inner_ids(case.resource)
    if not inside or not inside.isdisjoint(memories.unreadable):
        return case
    because = contained.unannounceable_inside(case, cases, memories, now)
    blocked = {name: block or (Blocked(because=because) if because else None) for name, block in case.blocked.items()}
    return replace(case, blocked=blocked)


def _planned_decision(case: Case, memories: Recalled, draft: _Draft) -> tuple[Decision, Memory]:
    """The decision before limits, and the memory it is based on: a snooze of the host counts as the resource's own."""
    host = intents.host_memory(case.resource, memories)
    stored = memories.get(case.resource.id, Memory())
    memory = memory_updates.after_host_snooze(idle_period.without_wrong_notice(case, stored, draft.now), host)
    reported = possible_actions.with_snooze(idle_period.since_own_call(case, memory, draft.now), memory, draft.now, host)
    step = plan.plan_step(reported, memory, draft.now, acting=draft.announces)
    if because := _interrupted_because(case, memories, draft):
        step = step if step.name is StepName.START else Step(name=StepName.NONE, because=because)
        draft.blocked_ids.add(case.resource.id)
    return Decision(case=case, verdict=reported.verdict, step=step, row_version=stored.version), memory


def _interrupted_because(case: Case, memories: Recalled, draft: _Draft) -> str | None:
    """Why it may only be started: an action on it, on its host or on something inside may be half done."""
    for resource_id in intents.remembered_ids(case.resource):
        memory = None if resource_id in memories.unreadable else memories.get(resource_id)
        if memory and memory_updates.is_interrupted(memory, draft.run.id):
            return unfinished.interrupted_because(memory)
    return None


def _leave_alone(cases: Iterable[Case], because: str, draft: _Draft) -> None:
    """Leave these alone in this run, for a reason outside them."""
    for case in cases:
        draft.left_targets.add(case.resource.target)
        if possible_actions.may_act(case) or case.rule.hours is not None:
            _keep_left(case, because, draft)


def _keep_left(case: Case, because: str, draft: _Draft) -> None:
    draft.decisions.append(Decision(case=case, verdict=case.verdict, step=Step(name=StepName.NONE, because=because)))


def _decided(draft: _Draft) -> Decided:
    unusual = _apply_limits(draft)
    leased = tuple(sorted(draft.leases.targets, key=str)) if draft.leases else ()
    return Decided(
        run=draft.run,
        decided_at=draft.now,
        leased=leased,
        decisions=tuple(_narrowed(_with_reminders(decision, draft), draft) for decision in draft.decisions),
        untold=tuple(draft.untold),
        interrupted=tuple(draft.interrupted),
        unusual=tuple(sorted(unusual.places)),
        jumps=unusual.jumps,
        coverage=(*draft.refused_rows, *draft.failures),
    )


def _apply_limits(draft: _Draft) -> _Unusual:
    """Put on hold what exceeds a limit, send no notices where the idle share jumped, and record both, by version, before any mail.

    If the ledger fails, everything is on hold.
    """
    ledger = draft.ledger
    if ledger is None:
        return _Unusual()
    try:
        return _hold_over_limits(ledger, draft)
    except CloudError as error:
        because = f"the holds and the usual idle shares couldn't be read or written: {error}"
        draft.decisions = [_without_step(decision, because, draft) for decision in draft.decisions]
        draft.failures.append(failure_row("ledger", error))
        return _Unusual(places=frozenset(draft.places))


def _without_step(decision: Decision, because: str, draft: _Draft) -> Decision:
    """The decision if nothing is known of holds and jumps: no action, and no notice of idleness."""
    memory = draft.memories.get(decision.case.resource.id, Memory())
    if decision.step.name in ENDING_ACTIONS:
        return replace(decision, step=Step(name=StepName.HOLD, because=f"on hold, because {because}"))
    by_hours = draft.announces and plan.follows_hours(decision.reported_case, memory, draft.now)
    is_notice = decision.step.name in NOTICES and not by_hours
    return jumps.without_notice_of(decision, f"no notice is sent, because {because}") if is_notice else decision


def _hold_over_limits(ledger: Ledger, draft: _Draft) -> _Unusual:
    counts = limits.count_places(d.reported_case for d in draft.decisions if d.row_version is not None)
    limits.add_counts(counts, draft.others)
    others = draft.left_targets - (draft.leases.targets if draft.leases else set())
    coverage = with_replaced_rows(draft.coverage, draft.refused_rows)
    scope = RunScope(run=draft.run.id, now=draft.now, read_places=holds.read_places(coverage, others))
    targets = {*draft.places.values(), *(target_of_row(row) for row in coverage if row.cloud != OWN and row.account)}
    planned = list(draft.decisions), dict(draft.memories)

    def attempt() -> HoldRows | None:
        draft.decisions, draft.memories = list(planned[0]), dict(planned[1])
        read = holds.read_hold_rows(ledger, targets, draft.now)
        if draft.context.notices_only:
            _apply_jumps(read.rows, draft)
            draft.decisions = [
                replace(d, step=limits.step_under_jumps(d.step, d.reported_case, read.rows)) for d in draft.decisions
            ]
            return read.rows
        shares = holds.usual_shares(ledger, limits.places_that_may_jump(counts), read.rows)
        rows: HoldRows = limits.rows_with_jumps(counts, draft.context.policy.limits, shares, read.rows, scope)
        _apply_jumps(rows, draft)
        if draft.announces:
            rows = _apply_caps(rows, counts, scope, draft)
        rows = holds.with_held_accounts(rows)
        recorded = not draft.run.mode.writes or holds.record_rows(ledger, rows, read, draft.now)
        return rows if recorded else None

    rows = write_until_accepted(attempt, f"the row {holds.HOLD_ROW!r}")
    jumped = tuple(breaker for row in rows.values() for breaker in row.jumps)
    return _Unusual(places=frozenset(jump.place for jump in jumped), jumps=jumped)


def _apply_jumps(rows: HoldRows, draft: _Draft) -> None:
    for index, decision in enumerate(draft.decisions):
        resource_id = decision.case.resource.id
        may_change = decision.row_version is not None and resource_id not in draft.blocked_ids
        if breakers := holds.breakers_over(decision.case, rows) if may_change else []:
            draft.decisions[index], draft.memories[resource_id] = jumps.after_jumps(
                decision, draft.memories[resource_id], breakers, draft.now, acting=draft.announces
            )


def _apply_caps(rows: HoldRows, counts: PlaceCounts, scope: RunScope, draft: _Draft) -> HoldRows:
    counted = [index for index, decision in enumerate(draft.decisions) if decision.row_version is not None]
    planned = [(draft.decisions[index].reported_case, draft.decisions[index].step) for index in counted]
    limited = limits.hold_over_limits(planned, draft.memories, draft.context.policy.limits, rows, scope, counts)
    for index, step in zip(counted, limited.steps, strict=True):
        draft.decisions[index] = _with_hold(draft.decisions[index], step, limited.since)
    return limited.rows


def _with_hold(decision: Decision, step: Step, since: Mapping[str, frozenset[datetime]]) -> Decision:
    if step.name is not StepName.HOLD:
        return decision
    return replace(decision, step=step, on_hold_since=tuple(sorted(since.get(decision.case.resource.id, ()))))


def _with_reminders(decision: Decision, draft: _Draft) -> Decision:
    """The decision with its reminder and summary. Applied after the limits, which count what is due with or without a reminder."""
    if decision.row_version is None or not draft.run.mode.announces:
        return decision
    return reminders.with_reminders(decision, draft.memories.get(decision.case.resource.id, Memory()), draft.run, draft.now)


def _narrowed(decision: Decision, draft: _Draft) -> Decision:
    agreed = draft.context.agreed
    if agreed is None or decision.outcome.result is not Result.PLANNED:
        return decision
    return plan_file.narrow_to_plan(decision, agreed)
