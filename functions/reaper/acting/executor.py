"""Carries out one stop, delete or start, and settles interrupted ones. Loaded only if a run acts.

The order: Look at the resource and its ledger records, and last of all at the resource once more. Store the manifest for undoing. Write the
intent to the ledger on the version that was read. Before every changing call read the resource and the ledger once more, so that a tag or a
snooze of a second ago wins. Make the call, once. Add the result to the intent. If anything has changed at any of these points, this one
action ends, with the reason, and what it changed beside its main call is put back.

A crash between lowering an autoscaling minimum and scaling in, or between taking a deployment's traffic away and deleting it, leaves a
resource in a state that no person chose. The record with the open intent says what it was. Until it is settled, the resource is blocked. A workflow
may repeat a task that died right after its call, or start it twice, so the look begins with the run's own intent: what the own call has changed
would look as if a person had changed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reaper.acting import look
from reaper.acting.contract import ActionFunctions, HalfDone, Manifest, PutBackResult
from reaper.acting.look import OPERATION, ActContext, CallPermit, Task, fresh_session
from reaper.case import Case, Coverage, is_in_weekly_summary, plain_participle
from reaper.coverage import failure_row
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, errors_as_withdrawal, odd_replies_as_errors
from reaper.finding import PLANNED, Finding, Outcome
from reaper.handover import no_time_to_act
from reaper.ledger.ledger import Ledger, update_intent, update_record, write_until_accepted
from reaper.ledger.rows import HistoryEntry, host_ids, place_of, record_key
from reaper.limits import caps, holds
from reaper.model import ENDING_ACTIONS, Resource, Result, Run, StepName
from reaper.pending import unfinished
from reaper.pending.unfinished import NOT_KNOWN, Unfinished
from reaper.record import (
    Act,
    ManifestReference,
    Record,
    act_of,
    after_action,
    before_action,
    is_interrupted,
    is_same_intent,
    with_result,
)
from reaper.sessions import CloudSession

GONE = Outcome(result=Result.DONE, because="it no longer exists", already_done=True)
PUT_BACK_WITHIN = timedelta(hours=24)
"""An older change stays as it is: people have had a day to rely on it."""


def execute(finding: Finding, run: Run, context: ActContext) -> tuple[Outcome, Task, bool]:
    """Carry out the finding's step. Returns its outcome, the task with what failed and the calls that it took, and whether its first call was
    refused only because the cloud throttled it, so that none was made. Never raises ReaperError.
    """
    kind = finding.case.resource.kind
    task = Task(
        finding=finding,
        run=run,
        context=context,
        session=context.session.without_cache(),
        kind=context.kind(kind),
        functions=context.action_functions(kind),
    )
    is_throttled = False
    try:
        if because := no_time_to_act(run, context.clock(), context.deadline):
            raise ActionWithdrawn(because)
        _require_lease(task)
        outcome = _execute_step(task)
    except ActionWithdrawn as refusal:
        outcome = Outcome(result=Result.REFUSED, because=str(refusal))
    except ReaperError as error:
        task.errors.append(error)
        outcome = Outcome(result=Result.FAILED, error=str(error))
        is_throttled = isinstance(error, CloudError) and error.reason is Reason.THROTTLED
    return outcome, task, is_throttled


def _require_lease(task: Task) -> None:
    leases = task.context.leases
    try:
        taken = leases.prolong(task.finding.case.resource.target)
    except CloudError as error:
        leases.note_failure(error)
        raise ActionWithdrawn(f"the lease of this target couldn't be extended: {error}") from error
    if not taken:
        raise ActionWithdrawn("another sweep has taken over this target")


def _execute_step(task: Task) -> Outcome:
    try:
        resource = look.read_now(task)
        case = look.assess_again(resource, task)
    except CloudError as error:
        if error.reason is Reason.GONE and task.action is not StepName.START:
            named = task.finding.case.resource
            return _earlier_attempt(look.recall_around(named, task).record(named.id), task) or GONE
        raise ActionWithdrawn(f"the re-check failed: {error}") from error
    recalled = look.recall_around(case.resource, task)
    before = recalled.record(resource.id)
    if attempt := _earlier_attempt(before, task):
        return attempt
    if (blocked := case.blocked.get(task.action)) and blocked.already_done:
        return Outcome(result=Result.DONE, because=f"nothing to do: {blocked.because}", already_done=True)
    counted = look.require_still_due(case, recalled, task)
    manifest = _read_manifest(case.resource, before, task)
    look.require_same_resource(resource, recalled, task)
    if counted:
        _count_action(case, counted, task)
    permit = CallPermit(
        resource=resource,
        snoozes=recalled.snoozes(resource),
        before=before,
        act=_record_intent(manifest, resource, before, task),
        ledger=task.context.ledger,
        clock=task.context.clock,
        read=partial(_read_leased, task),
        look_again=partial(look.look_again, before=recalled, task=task),
    )
    outcome = _perform(permit, manifest, task)
    return replace(outcome, excess_usd_per_hour=case.excess_usd_per_hour) if outcome.begun else outcome


def _earlier_attempt(record: Record, task: Task) -> Outcome | None:
    """The outcome of an earlier attempt of this run at the action, which makes no further call; None if there was none.

    While an attempt has no result, its outcome is only planned: another process may still be at it, and conclude looks again.
    """
    outcome = unfinished.own_outcome(record, task.run.id, task.action)
    return PLANNED if outcome and record.act and record.act.result is None else outcome


def _read_leased(task: Task) -> Resource:
    _require_lease(task)
    return look.read_now(task)


def _read_manifest(resource: Resource, record: Record, task: Task) -> Manifest:
    earlier = task.context.archive.earlier_action(record.act)
    with errors_as_withdrawal("the settings needed to undo it couldn't be read"):
        undo_state = task.ask(task.functions.read_undo_state, resource, task.action, earlier)
    return Manifest(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        target=resource.target,
        region=resource.region,
        action=task.action,
        run=task.run.id,
        at=task.context.clock(),
        undo_state=undo_state,
    )


def _count_action(case: Case, known: holds.ReadRows, task: Task) -> None:
    """Count an action in the row of its account before its intent is written: each resource once, however often it is tried.

    `decide` keeps runs within the caps. This enforces them even if the decisions were changed or repeated since, or if another run acts at the
    same time. Raises ActionWithdrawn if one more would exceed a cap, or if the ledger can't tell. `known`: the rows as the look read them.
    """
    ledger, name = task.context.ledger, holds.acted_row(holds.account_key(case.resource.target))
    own, first = holds.acted_on(case, task.run.started_at), [known.read[name]]

    def attempt() -> str | None:
        row, now = first.pop() if first else ledger.read_row(name), task.context.clock()
        before = holds.acted_from_columns(name, row.values, now)
        because = caps.exceeded_by(case, before, task.context.policy.limits)
        if because or ledger.write_row(name, holds.acted_columns(before, own), row.version):
            return because
        return None

    with errors_as_withdrawal("the actions of the last hours couldn't be counted"):
        because = write_until_accepted(attempt, f"the row {name!r}")
    if because:
        raise ActionWithdrawn(f"{because}; the next run decides again")


def _record_intent(manifest: Manifest, resource: Resource, record: Record, task: Task) -> Act:
    """The intent, once it is in the ledger. Raises ActionWithdrawn if it couldn't be written."""
    ledger, now = task.context.ledger, task.context.clock()
    with errors_as_withdrawal("the ledger couldn't be written before the action"):
        what = f"about to be {plain_participle(resource, manifest.action)}"
        unfinished.record_known(ledger, resource.id, task.run.id, now, what)
    stored = None if manifest.action is StepName.START else _store_manifest(manifest, record.version + 1, task)
    now = task.context.clock()
    intent = act_of(resource, manifest.action, task.run.id, now, task.finding.case.owner.address)
    begun = replace(intent, manifest=stored, created=resource.created, changes=task.functions.side_changes(manifest))
    because = "its ledger record changed a moment ago, and it may be snoozed"
    try:  # whatever happens here, a write may have taken effect although its reply was lost
        if ledger.write_record(resource.id, before_action(record, begun), record.version, now):
            return begun
    except CloudError as error:
        because = f"the ledger couldn't be written before the action: {error}"
    with task.noting_errors():
        take_back_intent(ledger, begun, record, task.context.clock())
    raise ActionWithdrawn(because)


def _store_manifest(manifest: Manifest, version: int, task: Task) -> ManifestReference:
    try:
        return task.context.archive.store_manifest(manifest, version)
    except CloudError as error:
        because = f"not {plain_participle(task.finding.case.resource, manifest.action)}, because its restore manifest couldn't be stored: {error}"
        raise error.reworded(because) from error


def take_back_intent(ledger: Ledger, act: Act, before: Record, now: datetime, *, gone: bool = False) -> None:
    """Remove an intent for which no call was made, and its notice too if the resource is `gone`. Raises CloudError.

    `before`: the record before the intent. A workflow may have started this step twice. The other one's intent is the same but for its time; it
    stays, because its call may have been made.
    """

    def without_intent(record: Record) -> Record:
        if record.act is None or record.act.at != act.at:
            return record
        taken_back = replace(record, act=before.act, called_at=before.called_at)
        return after_action(taken_back) if gone else taken_back

    update_intent(ledger, act, without_intent, now)


def _perform(permit: CallPermit, manifest: Manifest, task: Task) -> Outcome:
    """Make the calls. If certainly none was made, remove the intent. Otherwise record its result."""
    try:
        outcome = task.ask(task.functions.perform, permit.resource, manifest, permit)
    except (ActionWithdrawn, CloudError) as error:
        return _after_failure(error, permit, task)
    known = replace(before_action(permit.before, permit.act), version=permit.before.version + 1)
    return _record_result(outcome, permit.act, task, known)


def _after_failure(error: ActionWithdrawn | CloudError, permit: CallPermit, task: Task) -> Outcome:
    """The outcome of an action that ended early: what is half done is put back. Raises the error if nothing was changed, unless it is gone.

    What can't be put back now stays open for the next run.
    """
    act, failed = permit.act, error if isinstance(error, CloudError) else None
    if not permit.calls_made:
        is_gone = failed is not None and failed.reason is Reason.GONE and task.action is not StepName.START
        with task.noting_errors():
            take_back_intent(task.context.ledger, act, permit.before, task.context.clock(), gone=is_gone)
        if not is_gone:
            raise error
        return GONE
    because = f"it was begun, then interrupted: {error}"
    if not act.changes:
        result = Result.DONE if failed and _shows_as_done(task) else Result.FAILED
        because = f"{NOT_KNOWN}: {error}" if failed else because
    else:
        try:
            settled = put_back(task.finding.case.resource, act, task.functions, task.session)
        except CloudError as failure:
            task.errors.extend((error, failure))
            return Outcome(result=Result.FAILED, error=f"{because}; it couldn't be put back yet: {failure}", begun=True)
        result, because = settled.result, f"{because}; {settled.because}"
        if result is Result.REFUSED and failed and failed.may_have_been_made:  # a call without a reply may still take effect
            result = Result.FAILED
    if result is Result.DONE:
        because = f"it was {plain_participle(task.finding.case.resource, task.action)}, although the reply was lost"
    if result is not Result.FAILED:
        return _record_result(Outcome(result=result, because=because, begun=True), act, task)
    task.errors.append(error)
    return _record_result(Outcome(result=result, error=because, begun=True), act, task)


def _shows_as_done(task: Task) -> bool:
    """Whether reading the resource once more shows that the action was carried out after all. False if that fails."""
    try:
        with odd_replies_as_errors(OPERATION):
            blocked = task.kind.blocked_actions(look.read_now(task)).get(task.action)
    except CloudError as error:
        return error.reason is Reason.GONE and task.action in ENDING_ACTIONS
    except ActionWithdrawn:
        return False
    return blocked is not None and blocked.already_done


def _record_result(outcome: Outcome, act: Act, task: Task, known: Record | None = None) -> Outcome:
    """Add the outcome to the intent, whatever the version is by now, and to the history. Returns the outcome. `known`: see `update_record`.

    A failure is reported. The next run then finds the intent without a result and closes it.
    """
    ledger, now, done = task.context.ledger, task.context.clock(), outcome.result is Result.DONE
    because = outcome.because or outcome.error or ""
    is_notified = done and is_in_weekly_summary(task.finding.case, task.action)

    def change(record: Record) -> Record:
        settled = with_result(record, outcome.result, because, outcome.part_done)
        act_now = settled.act and replace(settled.act, notified_at=now if is_notified else None)
        return replace(settled, act=act_now, called_at=now)

    with task.noting_errors():
        update_intent(ledger, act, change, now, known)
        for host_id in host_ids(task.finding.case.resource):  # its silence, too, counts from here
            update_record(ledger, host_id, lambda record: replace(record, called_at=now), now)
        what = plain_participle(task.finding.case.resource, task.action) if done else "failed"
        ledger.add_history(HistoryEntry(id=act.id, when=now, what=what, by=task.run.id, because=because))
    return outcome


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
            if unreported := _settle(each, context):
                settled.append(unreported)
        except ReaperError as error:
            rows.append(failure_row("acts", error))
    return tuple(settled), rows


def _settle(named: Unfinished, context: ActContext) -> Unfinished | None:
    """The settled action; None if its record no longer has it. The record counts: what was handed over only names the resource."""
    now = context.clock()
    record = context.ledger.record(named.act.id, now)
    if record.act is None or record.lost_manifest or record_key(named.act.id).place != place_of(named.target):
        return None
    if not (is_same_intent(record, named.act) and is_interrupted(record)):
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
    return put_back(unfinished.unlisted_resource(found), found.act, functions, context.session)


def _closed(found: Unfinished, result: PutBackResult, context: ActContext) -> Unfinished | None:
    """The action, closed in its record with what was found; None if a person has undone it meanwhile. Raises CloudError if that can't be written."""
    now, act = context.clock(), found.act
    because = f"an earlier run was interrupted on {act.at:%Y-%m-%d %H:%M} UTC while it was at work; {result.because}"

    def close(record: Record) -> Record:
        closed = with_result(record, result.result, because)
        return replace(closed, called_at=now) if result.state in {HalfDone.PUT_BACK, HalfDone.LEFT} else closed

    record = update_intent(context.ledger, act, close, now)
    if record.act is None or not is_same_intent(record, act):
        return None
    entry = HistoryEntry(id=act.id, when=now, what=result.state.value, by=act.run, because=because)
    context.ledger.add_history(entry)
    return replace(found, act=replace(record.act, id=act.id))
