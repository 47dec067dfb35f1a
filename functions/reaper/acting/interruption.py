"""Settles interrupted actions of earlier runs: puts back what is certainly half done, and closes each action. Loaded to act only.

A crash between lowering an autoscaling minimum and scaling in, or between taking a deployment's traffic away and deleting it, leaves a
resource in a state that no person chose. The row with the open intent says what it was. Until it is settled, the resource is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reaper import memory_updates
from reaper.acting.contract import ActionFunctions, HalfDone, Interrupted, PutBackResult
from reaper.acting.task import OPERATION, ActContext, fresh_session
from reaper.case import Coverage
from reaper.coverage import failure_row
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, odd_replies_as_errors
from reaper.ledger.ledger import comparable_id
from reaper.ledger.rows import HistoryEntry, Unfinished
from reaper.ledger.update import update_memory
from reaper.model import Memory, Resource, StepName
from reaper.pending import intents
from reaper.pending.unfinished import UntoldAction, unlisted_resource
from reaper.sessions import CloudSession

PUT_BACK_WITHIN = timedelta(hours=24)
"""An older change stays as it is: people have had a day to rely on it."""


def put_back(resource: Resource, memory: Memory, functions: ActionFunctions[Any], session: CloudSession) -> PutBackResult:
    """Settle the interrupted action in a row: look at the resource, and put back what is still exactly as the action left it.

    Raises CloudError if that can't be known or done now.
    """
    if memory.last_action is None or memory.last_action_at is None:
        raise CloudError(Reason.UNREADABLE, OPERATION, "its ledger record doesn't say what was begun, or when")
    interrupted = Interrupted(
        action=memory.last_action,
        begun_at=memory.last_action_at,
        created=memory.last_action_created,
        changes=memory.last_action_changes or (),
    )
    try:
        with odd_replies_as_errors(OPERATION):
            return functions.put_back(fresh_session(session), resource, interrupted)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        deleted = memory.last_action is StepName.DELETE
        return PutBackResult(state=HalfDone.DONE if deleted else HalfDone.LEFT, because="it no longer exists")


def settle_interrupted(hints: Iterable[Unfinished], context: ActContext) -> tuple[tuple[UntoldAction, ...], list[Coverage]]:
    """Settle the interrupted action behind each hint. Returns those that are settled, and a row for each that couldn't be.

    Those are tried again by the next run.
    """
    settled: list[UntoldAction] = []
    rows: list[Coverage] = []
    for hint in hints:
        try:
            if untold := _settle(hint, context):
                settled.append(untold)
        except ReaperError as error:
            rows.append(failure_row("acts", error))
    return tuple(settled), rows


def _settle(named: Unfinished, context: ActContext) -> UntoldAction | None:
    """The settled action; None if its row no longer has it. The ledger's own hint counts: the one that was handed over only names the resource."""
    now = context.clock()
    stored = (hint for hint in context.ledger.unfinished(named.target, now) if comparable_id(hint.id) == comparable_id(named.id))
    if (found := next(stored, None)) is None:
        return None
    hint = replace(found, id=named.id)
    memory = context.ledger.memory(hint.id, now)
    if memory.lost_manifest or not (intents.is_same_intent(memory, hint) and memory_updates.is_interrupted(memory)):
        return None
    if not context.leases.prolong(hint.target):
        raise ActionWithdrawn(f"{hint.id}: another sweep has taken over this target")
    begun_at = memory.last_action_at or now
    return _closed(hint, _put_back(hint, memory, now - begun_at, context), begun_at, context)


def _put_back(hint: Unfinished, memory: Memory, age: timedelta, context: ActContext) -> PutBackResult:
    if abs(age) >= PUT_BACK_WITHIN:
        when = "that was more than a day ago" if age > timedelta() else "that date lies ahead"
        return PutBackResult(state=HalfDone.LEFT, because=f"{when}, so what it changed stays as it is")
    try:
        functions = context.action_functions(hint.kind)
    except KeyError as error:
        text = f"{hint.id}: this version can't put back what an action on the kind {hint.kind} changed"
        raise CloudError(Reason.REFUSED, OPERATION, text) from error
    return put_back(unlisted_resource(hint), memory, functions, context.session)


def _closed(hint: Unfinished, result: PutBackResult, begun_at: datetime, context: ActContext) -> UntoldAction | None:
    """The action, closed in its row with what was found; None if a person has undone it meanwhile. Raises CloudError if that can't be written."""
    now = context.clock()
    because = f"an earlier run was interrupted on {begun_at:%Y-%m-%d %H:%M} UTC while it was at work; {result.because}"

    def close(memory: Memory) -> Memory:
        if not intents.is_same_intent(memory, hint):
            return memory
        closed = memory_updates.with_result(memory, result.result, because)
        return memory_updates.after_call(closed, now) if result.state in {HalfDone.PUT_BACK, HalfDone.LEFT} else closed

    memory = update_memory(context.ledger, hint.id, close, now)
    if not intents.is_same_intent(memory, hint):
        return None
    entry = HistoryEntry(id=hint.id, when=now, what=result.state.value, by=hint.run, because=because)
    context.ledger.add_history(entry)
    return UntoldAction(hint=hint, outcome=intents.outcome_in(memory))
