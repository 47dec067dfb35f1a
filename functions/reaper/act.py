"""Phase 3: carries out what was decided for one target, the most expensive first. Loaded in mode enforce only.

Right before each action its resource is read, judged and planned again (`actions.recheck`). `actions.executor` sets the order of writes. If
one action fails, the next one is still carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reaper import __version__, memory_updates
from reaper.actions import intent, stop_switch, unfinished
from reaper.actions.executor import ActContext, execute
from reaper.case import Case, Coverage, Outcome
from reaper.coverage import failure_row
from reaper.errors import ReaperError
from reaper.handover import Acted, Decided, Decision, KindCalls
from reaper.ledger.port import HistoryEntry
from reaper.ledger.update import update_memory
from reaper.model import ACTIONS, ENDING_ACTIONS, Result, StepName, Target
from reaper.planning import reasons


def act(decided: Decided, context: ActContext) -> Acted:
    """Carry out the decisions for the session's target: `decided.for_target(target)`. Never raises ReaperError.

    Refuses all of them if another version decided, if the policy has changed since, if nothing may be changed in the target now, if deciding
    did not lease it, or while the stop switch is on.
    """
    target = context.session.target
    if because := _refused_because(decided, context):
        return refuse_target(decided, target, because)
    lease_failures = list(context.leases.failures)
    outcomes: dict[str, Outcome] = {}
    calls: dict[str, Counter[str]] = {}
    rows: list[Coverage] = []
    for decision in sorted(_due(decided.decisions), key=by_cost_descending):
        context.leases.prolong_all()
        step = execute(decision, decided.run, context)
        outcomes[decision.case.resource.id] = step.outcome
        calls.setdefault(decision.case.resource.kind, Counter()).update(step.calls)
        rows += [failure_row("acts", error) for error in step.errors]
    guests = outcomes_of_guests(decided.decisions, outcomes)
    return Acted(
        run=decided.run,
        target=target,
        outcomes=outcomes | guests,
        calls=tuple(KindCalls(kind=kind, calls=dict(count)) for kind, count in calls.items()),
        coverage=(
            *rows,
            *_record_guests(decided, guests, context),
            *(row for row in context.leases.failures if row not in lease_failures),
        ),
    )


def refuse_target(decided: Decided, target: Target, because: str, coverage: tuple[Coverage, ...] = ()) -> Acted:
    """What is due in that target, all of it refused: it can't even be opened, for example."""
    refused = Outcome(result=Result.REFUSED, because=because)
    due = _due(decided.for_target(target).decisions)
    return Acted(run=decided.run, target=target, outcomes={d.case.resource.id: refused for d in due}, coverage=coverage)


def targets_by_cost(decided: Decided) -> list[Target]:
    """The leased targets that have something due, that of the most expensive action first."""
    due = sorted(_due(decided.decisions), key=by_cost_descending)
    return list(dict.fromkeys(d.case.resource.target for d in due if d.case.resource.target in decided.leased))


def by_cost_descending(decision: Decision) -> tuple[bool, float, str]:
    """Known prices first, the highest first; then by id, so that two runs use the same order."""
    usd = decision.case.usd_per_hour
    return usd is None, -(usd or 0.0), decision.case.resource.id


def outcomes_of_guests(decisions: Sequence[Decision], outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of what lived in a resource that was stopped or deleted just now: its owner may be a different one."""
    ended = {
        d.case.resource.id: d for d in decisions if (outcome := outcomes.get(d.case.resource.id)) and _took_guests(d, outcome)
    }
    guests: dict[str, Outcome] = {}
    for decision in decisions:
        host = next((ended[host_id] for host_id in intent.host_ids(decision.case.resource) if host_id in ended), None)
        own = outcomes.get(decision.case.resource.id, decision.outcome)
        if host and not own.begun and not _ran_nothing(decision.case, host.step.name):
            guests[decision.case.resource.id] = _outcome_with_host(host, own)
    return guests


def _refused_because(decided: Decided, context: ActContext) -> str | None:
    if decided.run.version != __version__:
        return f"version {decided.run.version} decided it, and this is {__version__}"
    if context.policy_sha256 not in {None, decided.run.policy_sha256}:
        return "the policy has changed since this was decided; the next run decides by the new one"
    if because := context.session.target.blocked_because:
        return because
    if context.session.target not in decided.leased:
        return "this run has no lease on its target"
    pause = stop_switch.read_pause(context.ledger, context.clock())
    return stop_switch.paused_because(pause) if pause else None


def _due(decisions: Iterable[Decision]) -> list[Decision]:
    return [d for d in decisions if d.step.name in ACTIONS and d.outcome.result is Result.PLANNED]


def _took_guests(decision: Decision, outcome: Outcome) -> bool:
    """A delete in parts begins with what lives inside. In a stop in parts that may be in a part still to come."""
    whole = outcome.part_done is None or decision.step.name is StepName.DELETE
    return decision.step.name in ENDING_ACTIONS and outcome.begun and outcome.result is Result.DONE and whole


def _ran_nothing(case: Case, action: StepName) -> bool:
    """Whether nothing of it ran when its host was stopped."""
    blocked = case.blocked.get(action)
    return action is StepName.STOP and blocked is not None and blocked.already_done


def _outcome_with_host(host: Decision, own: Outcome) -> Outcome:
    because = (
        f"it was {reasons.PARTICIPLES[host.step.name]} with its host {host.case.resource.name}; restoring the host restores it"
    )
    failed = own.error or (own.because if own.result is Result.REFUSED else None)
    return Outcome(result=Result.DONE, because=because, error=failed, already_done=True, host_id=host.case.resource.id)


def _record_guests(decided: Decided, guests: Mapping[str, Outcome], context: ActContext) -> list[Coverage]:
    """Record hints and history for guests, so that their owners get a mail even if today's fails, and `reaper restore` can name the host."""
    steps = {d.case.resource.id: d.step.name for d in decided.decisions}
    cases = {d.case.resource.id: d.case for d in decided.decisions}
    rows: list[Coverage] = []
    for resource_id, outcome in guests.items():
        host = outcome.host_id or ""
        try:
            _record_guest(cases[resource_id], steps[host], outcome, decided.run.id, context)
        except ReaperError as error:
            rows.append(failure_row("ledger", error))
    return rows[:1]


def _record_guest(case: Case, action: StepName, outcome: Outcome, run_id: str, context: ActContext) -> None:
    ledger, now, because = context.ledger, context.clock(), outcome.because or ""
    entry = HistoryEntry(id=case.resource.id, when=now, what=unfinished.WENT_ENTRY, by=run_id, because=outcome.host_id or "")
    ledger.add_history(entry)
    ledger.add_unfinished(unfinished.unfinished_entry(case, action, run_id, now))
    update_memory(
        ledger,
        case.resource.id,
        lambda memory: memory_updates.after_going_with_host(memory, action, because, run_id, now),
        now,
    )
