"""The intent that this very run wrote for an action. A workflow may repeat a task that died right after its call, or start it twice.

So the own intent is looked for before the resource is: a resource that the own call has changed would look as if a person had changed it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper.case import Outcome
from reaper.errors import ReaperError
from reaper.handover import PLANNED, Decision
from reaper.ledger.port import Ledger
from reaper.model import ENDING_ACTIONS, Memory, Resource, Result, StepName

NOT_KNOWN = "it isn't known whether the action was carried out"


def own_outcome(memory: Memory, run_id: str, action: StepName) -> Outcome | None:
    """The outcome that the run's own intent shows; None if the row has no such intent. Without a result it isn't known."""
    if memory.last_action_run != run_id or memory.last_action is not action:
        return None
    because = memory.last_action_because
    if memory.last_action_result is Result.DONE:
        return Outcome(result=Result.DONE, because=because, begun=True, part_done=memory.last_action_part)
    if memory.last_action_result is Result.REFUSED:
        return Outcome(result=Result.REFUSED, because=because, begun=True)
    return Outcome(result=Result.FAILED, error=because or NOT_KNOWN, begun=True)


def own_outcome_inside(memory: Memory, run_id: str, resource: Resource) -> Outcome | None:
    """The outcome that an action of the run on its host had for it, whatever was decided about it; None if its row has no such intent.

    Only what went with its host was ended without a manifest of its own.
    """
    if resource.host_id is None or memory.last_action not in ENDING_ACTIONS or memory.manifest_address:
        return None
    outcome = own_outcome(memory, run_id, memory.last_action)
    done = outcome is not None and outcome.result is Result.DONE
    return replace(outcome, begun=not done, already_done=done, host_id=resource.host_id) if outcome else None


def earlier_attempt(decision: Decision, run_id: str, ledger: Ledger, now: datetime) -> Outcome | None:
    """The outcome of an earlier attempt of this run, which makes no further call; None if there was none.

    While an attempt has no result, its outcome is only planned: another process may still be at it, and conclude looks again.
    """
    resource_id = decision.case.resource.id
    try:
        memory = ledger.recall([resource_id], now).get(resource_id, Memory())
    except ReaperError as error:
        return Outcome(result=Result.REFUSED, because=f"the ledger couldn't be read before the action: {error}")
    outcome = own_outcome(memory, run_id, decision.step.name)
    return PLANNED if outcome and memory.last_action_result is None else outcome
