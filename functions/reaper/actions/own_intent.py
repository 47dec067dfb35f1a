"""The intent that this very run wrote for an action. A workflow may repeat a task that died right after its call, or start it twice.

So the own intent is looked for before the resource is: a resource that the own call has changed would look as if a person had changed it.
"""

from __future__ import annotations

from datetime import datetime

from reaper.case import Outcome
from reaper.errors import ReaperError
from reaper.handover import PLANNED, Decision
from reaper.ledger.port import Ledger
from reaper.model import Memory, Result, StepName

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
