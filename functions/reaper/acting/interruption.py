"""Settles interrupted actions of earlier runs: puts back what is certainly half done, and closes each action. Loaded to act only.

A crash between lowering an autoscaling minimum and scaling in, or between taking a deployment's traffic away and deleting it, leaves a
resource in a state that no person chose. The record with the open intent says what it was. Until it is settled, the resource is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from reaper.acting.contract import ActionFunctions, HalfDone, PutBackResult
from reaper.acting.task import OPERATION, ActContext, fresh_session
from reaper.case import Coverage
from reaper.coverage import failure_row
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, odd_replies_as_errors
from reaper.ledger.ledger import place_of, record_key, update_record
from reaper.ledger.rows import HistoryEntry
from reaper.model import Resource, StepName
from reaper.pending import intents
from reaper.pending.unfinished import Unfinished, unlisted_resource
from reaper.record import Act, Record, is_interrupted, with_result
from reaper.sessions import CloudSession

PUT_BACK_WITHIN = timedelta(hours=24)
"""An older change stays as it is: people have had a day to rely on it."""


def put_back(resource: Resource, act: Act, functions: ActionFunctions[Any], session: CloudSession) -> PutBackResult:
    """Settle an interrupted action: look at the resource, and put back what is still exactly as the action left it.

    Raises CloudError if that can't be known or done now.
    """
    try:
        with odd_replies_as_errors(OPERATION):
            return functions.put_back(fresh_session(session), resource, act)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        deleted = act.action is StepName.DELETE
        return PutBackResult(state=HalfDone.DONE if deleted else HalfDone.LEFT, because="it no longer exists")


def settle_interrupted(found: Iterable[Unfinished], context: ActContext) -> tuple[tuple[Unfinished, ...], list[Coverage]]:
    """Settle each interrupted action. Returns those that are settled, and a row for each that couldn't be.

    Those are tried again by the next run.
    """
    settled: list[Unfinished] = []
    rows: list[Coverage] = []
    for each in found:
        try:
            if untold := _settle(each, context):
                settled.append(untold)
        except ReaperError as error:
            rows.append(failure_row("acts", error))
    return tuple(settled), rows


def _settle(named: Unfinished, context: ActContext) -> Unfinished | None:
    """The settled action; None if its record no longer has it. The record counts: what was handed over only names the resource."""
    now = context.clock()
    record = context.ledger.record(named.act.id, now)
    if record.act is None or record.lost_manifest or record_key(named.act.id).place != place_of(named.target):
        return None
    if not (intents.is_same_intent(record, named.act) and is_interrupted(record)):
        return None
    found = replace(named, act=replace(record.act, id=named.act.id))
    if not context.leases.prolong(found.target):
        raise ActionWithdrawn(f"{found.act.id}: another sweep has taken over this target")
    return _closed(found, _put_back(found, now - found.act.at, context), context)


def _put_back(found: Unfinished, age: timedelta, context: ActContext) -> PutBackResult:
    if abs(age) >= PUT_BACK_WITHIN:
        when = "that was more than a day ago" if age > timedelta() else "that date lies ahead"
        return PutBackResult(state=HalfDone.LEFT, because=f"{when}, so what it changed stays as it is")
    try:
        functions = context.action_functions(found.act.kind)
    except KeyError as error:
        text = f"{found.act.id}: this version can't put back what an action on the kind {found.act.kind} changed"
        raise CloudError(Reason.REFUSED, OPERATION, text) from error
    return put_back(unlisted_resource(found), found.act, functions, context.session)


def _closed(found: Unfinished, result: PutBackResult, context: ActContext) -> Unfinished | None:
    """The action, closed in its record with what was found; None if a person has undone it meanwhile. Raises CloudError if that can't be written."""
    now, act = context.clock(), found.act
    because = f"an earlier run was interrupted on {act.at:%Y-%m-%d %H:%M} UTC while it was at work; {result.because}"

    def close(record: Record) -> Record:
        if not intents.is_same_intent(record, act):
            return record
        closed = with_result(record, result.result, because)
        return replace(closed, called_at=now) if result.state in {HalfDone.PUT_BACK, HalfDone.LEFT} else closed

    record = update_record(context.ledger, act.id, close, now)
    if record.act is None or not intents.is_same_intent(record, act):
        return None
    entry = HistoryEntry(id=act.id, when=now, what=result.state.value, by=act.run, because=because)
    context.ledger.add_history(entry)
    return replace(found, act=replace(record.act, id=act.id))
