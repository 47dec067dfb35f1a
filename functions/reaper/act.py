"""Phase 3: carries out what was decided for one target, the most expensive first. Loaded in mode enforce only.

What an earlier run left half done is put back first. Right before each action its resource is read, judged and planned again
(`acting.look`). `acting.executor` sets the order of writes. If one action fails, the next one is still carried out; one that the cloud
throttled is tried once more after all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reaper import __version__, handover
from reaper.acting.executor import execute, settle_interrupted
from reaper.acting.look import ActContext
from reaper.case import Coverage
from reaper.coverage import failure_row
from reaper.errors import CloudError
from reaper.finding import Finding, Outcome, is_action
from reaper.handover import Acted, Decided
from reaper.ledger.opening import require_right_clock
from reaper.model import Result, Target
from reaper.pending import stop_switch
from reaper.policy.file import POLICY_CHANGED


def act(decided: Decided, context: ActContext) -> Acted:
    """Carry out the decisions for the session's target: `decided.for_target(target)`. Never raises ReaperError.

    Refuses all of them if another version decided, if the policy has changed since, if nothing may be changed in the target now, if deciding
    did not lease it, or while the stop switch is on.
    """
    target = context.session.target
    if because := _refused_because(decided, context):
        return refuse_target(decided, target, because)
    lease_failures = list(context.leases.failures)
    is_late = handover.no_time_to_act(decided.run, context.clock(), context.deadline) is not None
    settled, rows = settle_interrupted(() if is_late else decided.interrupted, context)
    outcomes: dict[str, Outcome] = {}
    calls: dict[str, Counter[str]] = {}
    waiting = [(finding, False) for finding in sorted(_due(decided.findings), key=by_cost_descending)]
    for finding, is_repeated in waiting:
        context.leases.prolong_all()
        outcome, task, is_throttled = execute(finding, decided.run, context)
        calls.setdefault(finding.case.resource.kind, Counter()).update(task.session.calls)
        if is_throttled and not is_repeated:
            waiting.append((finding, True))  # once more at the end, after a whole new look
            continue
        outcomes[finding.case.resource.id] = outcome
        rows += [failure_row("acts", error) for error in task.errors]
    return Acted(
        run=decided.run,
        target=target,
        outcomes=outcomes,
        calls=calls,
        coverage=(*rows, *(row for row in context.leases.failures if row not in lease_failures)),
        settled=settled,
    )


def refuse_target(decided: Decided, target: Target, because: str, coverage: tuple[Coverage, ...] = ()) -> Acted:
    """What is due in that target, all of it refused: it can't even be opened, for example."""
    refused = Outcome(result=Result.REFUSED, because=because)
    due = _due(decided.for_target(target).findings)
    return Acted(run=decided.run, target=target, outcomes={d.case.resource.id: refused for d in due}, coverage=coverage)


def targets_by_cost(decided: Decided) -> list[Target]:
    """The leased targets that have something to put back or something due, that of the most expensive action first."""
    due = sorted(_due(decided.findings), key=by_cost_descending)
    targets = [*(each.target for each in decided.interrupted), *(f.case.resource.target for f in due)]
    return list(dict.fromkeys(target for target in targets if target in decided.leased))


def by_cost_descending(finding: Finding) -> tuple[bool, float, str]:
    """Known prices first, the highest first; then by id, so that two runs use the same order."""
    usd = finding.case.usd_per_hour
    return usd is None, -(usd or 0.0), finding.case.resource.id


def _refused_because(decided: Decided, context: ActContext) -> str | None:
    if decided.run.version != __version__:
        return f"version {decided.run.version} decided it, and this is {__version__}"
    if context.policy_sha256 not in {None, decided.run.policy_sha256}:
        return POLICY_CHANGED
    if because := context.session.target.blocked_because:
        return because
    if context.session.target not in decided.leased:
        return "this run has no lease on its target"
    pause = stop_switch.read_pause(context.ledger, context.clock())
    try:
        require_right_clock(context.ledger)  # as of the read of the switch
    except CloudError as error:
        return str(error)
    return stop_switch.paused_because(pause) if pause else None


def _due(findings: Iterable[Finding]) -> list[Finding]:
    return [f for f in findings if is_action(f) and f.outcome.result is Result.PLANNED]
