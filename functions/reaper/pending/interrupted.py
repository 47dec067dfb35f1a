"""What a run did until a person interrupted it, for that person. The ledger knows: each action's intent is there before its first call."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from reaper import registry
from reaper.errors import ReaperError
from reaper.handover import Decided, Decision
from reaper.ledger.ledger import Ledger
from reaper.model import ACTIONS, Result, Run
from reaper.pending.intents import own_outcome
from reaper.text import clean_line

NO_ACTION = "Nothing was stopped, deleted or started"


def done_so_far(run: Run, decided: Decided | None, ledger: Ledger | None, now: datetime) -> str:
    """The actions that were carried out, those that may have been, and those that weren't begun. `decided`: None if nothing was decided yet."""
    if not run.mode.writes:
        return "Nothing was changed."
    if decided is None:
        return f"{NO_ACTION}, and no notice was sent."
    put_back = "What an earlier run left half done may have been put back. " if run.mode.acts and decided.interrupted else ""
    return put_back + _actions_so_far(run, decided, ledger, now)


def _actions_so_far(run: Run, decided: Decided, ledger: Ledger | None, now: datetime) -> str:
    due = [d for d in decided.decisions if d.step.name in ACTIONS and d.outcome.result is Result.PLANNED]
    if not (run.mode.acts and ledger and due):
        return f"{NO_ACTION}. Some notices may have been sent; the next sweep goes on with the others."
    by_state: dict[str, list[str]] = defaultdict(list)
    for decision in due:
        resource, state = decision.case.resource, _state(decision, run, ledger, now)
        by_state[state].append(f"{registry.action_noun(resource.kind, decision.step.name)} {clean_line(resource.name)}")
    if by_state.keys() == {"Not begun"}:
        return f"{NO_ACTION}: none of {len(due)} actions was begun."
    lines = [
        f"{state}: {', '.join(by_state[state])}"
        for state in ("Done", "Not done", "May have been done", "Not begun")
        if by_state[state]
    ]
    undo = f"The next sweep notifies the owners. To undo what was done, run:\n  reaper undo --run {run.id}"
    return "\n".join(["What this run did:", *lines, undo])


def _state(decision: Decision, run: Run, ledger: Ledger, now: datetime) -> str:
    try:
        outcome = own_outcome(ledger.memory(decision.case.resource.id, now), run.id, decision.step.name)
    except ReaperError:
        return "May have been done"
    if outcome is None:
        return "Not begun"
    return {Result.DONE: "Done", Result.REFUSED: "Not done"}.get(outcome.result, "May have been done")
