"""Carries out one stop, delete or start. Loaded only if a run acts.

The order: Look at the resource and its ledger records, and last of all at the resource once more. Store the manifest for undoing. Write the
intent to the ledger on the version that was read. Before every changing call read the resource and the ledger once more, so that a tag or a
snooze of a second ago wins. Make the call, once. Add the result to the intent. If anything has changed at any of these points, this one
action ends, with the reason, and what it changed beside its main call is put back.
"""

from __future__ import annotations

from dataclasses import replace

from reaper.acting import recheck
from reaper.acting.contract import HalfDone, Manifest
from reaper.acting.interruption import put_back
from reaper.acting.permit import CallPermit, changed_because
from reaper.acting.task import OPERATION, ActContext, Task
from reaper.case import is_in_weekly_summary
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, errors_as_withdrawal, odd_replies_as_errors
from reaper.finding import Finding, Outcome
from reaper.handover import no_time_to_act
from reaper.ledger.ledger import update_record
from reaper.ledger.rows import HistoryEntry, Recalled, comparable_id, host_ids
from reaper.model import ENDING_ACTIONS, Resource, Result, Run, StepName
from reaper.pending import intents, lost
from reaper.pending.intents import NOT_KNOWN
from reaper.record import Act, ManifestReference, Record, act_of, before_action, with_result
from reaper.words import plain_participle

GONE = Outcome(result=Result.DONE, because="it no longer exists", already_done=True)


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
        resource = _read_now(task)
        case = recheck.assess_again(resource, task)
    except CloudError as error:
        if error.reason is Reason.GONE and task.action is not StepName.START:
            named = task.finding.case.resource
            return intents.earlier_attempt(recheck.recall_around(named, task).record(named.id), task.run.id, task.action) or GONE
        raise ActionWithdrawn(f"the re-check failed: {error}") from error
    recalled = recheck.recall_around(case.resource, task)
    if attempt := intents.earlier_attempt(recalled.record(resource.id), task.run.id, task.action):
        return attempt
    if (blocked := case.blocked.get(task.action)) and blocked.already_done:
        return Outcome(result=Result.DONE, because=f"nothing to do: {blocked.because}", already_done=True)
    counted = recheck.require_still_due(case, recalled, task)
    manifest = _read_manifest(case.resource, recalled.record(resource.id), task)
    _require_same_resource(resource, recalled, task)
    if counted:
        recheck.count_action(case, counted, task)
    permit = CallPermit(
        resource=resource,
        snoozes=recalled.snoozes(resource),
        before=recalled.record(resource.id),
        act=_record_intent(manifest, resource, recalled.record(resource.id), task),
        ledger=task.context.ledger,
        clock=task.context.clock,
        read=lambda: _read_now(task),
        look_again=lambda now: _look_again(now, recalled, task),
        require_lease=lambda: _require_lease(task),
    )
    outcome = _perform(permit, manifest, task)
    return replace(outcome, excess_usd_per_hour=case.excess_usd_per_hour) if outcome.begun else outcome


def _require_same_resource(before: Resource, recalled: Recalled, task: Task) -> None:
    """The end of the look: the resource is read once more, and must be as it was at the beginning. Raises ActionWithdrawn."""
    with errors_as_withdrawal("the re-check failed"):
        now = _read_now(task)
        if now.tags != before.tags:  # a tag that takes the action away takes its notice away, too
            recheck.require_still_due(recheck.assess_again(now, task), recalled, task)
    if because := changed_because(before, now):
        raise ActionWithdrawn(because)


def _look_again(resource: Resource, before: Recalled, task: Task) -> None:
    """The whole look after a wait, with what the ledger had on it `before` this action. Raises ActionWithdrawn."""
    try:
        case = recheck.assess_again(resource, task, after_wait=True)
    except CloudError as error:
        raise ActionWithdrawn(str(error)) from error
    present, version = recheck.recall_around(resource, task), before.record(resource.id).version
    if because := intents.changed_because(resource, present, version + 1, before.snoozes(resource), task.context.clock()):
        raise ActionWithdrawn(because)
    own = Recalled({comparable_id(resource.id): before.record(resource.id)})
    recheck.require_still_due(case, present.with_newer(own), task)


def _read_now(task: Task) -> Resource:
    """The resource as it is now, with tags from the authoritative call. Raises CloudError, and ActionWithdrawn if its tags can't be read."""
    named = task.finding.case.resource
    resource = task.ask(task.functions.read_now, named)
    if resource.tags is None:
        raise ActionWithdrawn("its tags can't be read, and a tag may protect it")
    # Otherwise every record of the action would be about another resource.
    if comparable_id(resource.id) != comparable_id(named.id) or resource.name != named.name:
        raise ActionWithdrawn(f"{resource.id} was found under its name")
    return resource


def _read_manifest(resource: Resource, record: Record, task: Task) -> Manifest:
    earlier = recheck.earlier_action(record.act, task.context.archive)
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


def _store_manifest(manifest: Manifest, version: int, task: Task) -> ManifestReference | None:
    """The reference of the stored manifest. A start removes nothing and has none."""
    if manifest.action is StepName.START:
        return None
    try:
        return task.context.archive.store_manifest(manifest, version)
    except CloudError as error:
        because = f"not {plain_participle(task.finding.case.resource, manifest.action)}, because its restore manifest couldn't be stored: {error}"
        raise error.reworded(because) from error


def _record_intent(manifest: Manifest, resource: Resource, record: Record, task: Task) -> Act:
    """The intent, once it is in the ledger. Raises ActionWithdrawn if it couldn't be written."""
    ledger, now = task.context.ledger, task.context.clock()
    with errors_as_withdrawal("the ledger couldn't be written before the action"):
        what = f"about to be {plain_participle(resource, manifest.action)}"
        lost.record_known(ledger, resource.id, task.run.id, now, what)
    stored = _store_manifest(manifest, record.version + 1, task)
    now = task.context.clock()
    intent = act_of(resource, manifest.action, task.run.id, now, task.finding.case.owner.address)
    begun = replace(intent, manifest=stored, created=resource.created, changes=task.functions.side_changes(manifest))
    because = "its ledger record changed a moment ago, and it may be snoozed"
    try:  # whatever happens here, a write may have taken effect although its reply was lost
        if ledger.write_record(resource.id, before_action(record, begun), record.version, now):
            return begun
    except CloudError as error:
        because = f"the ledger couldn't be written before the action: {error}"
    _take_back_intent(begun, record, task)
    raise ActionWithdrawn(because)


def _perform(permit: CallPermit, manifest: Manifest, task: Task) -> Outcome:
    """Make the calls. If certainly none was made, remove the intent. Otherwise record its result."""
    try:
        result = task.ask(task.functions.perform, permit.resource, manifest, permit)
    except (ActionWithdrawn, CloudError) as error:
        return _after_failure(error, permit, task)
    outcome = Outcome(result=Result.DONE, because=result.because, part_done=result.part_done, begun=True)
    known = replace(before_action(permit.before, permit.act), version=permit.before.version + 1)
    return _record_result(outcome, permit.act, task, known)


def _after_failure(error: ActionWithdrawn | CloudError, permit: CallPermit, task: Task) -> Outcome:
    """The outcome of an action that ended early: what is half done is put back. Raises the error if nothing was changed, unless it is gone."""
    act, withdrawn = permit.act, isinstance(error, ActionWithdrawn)
    if not permit.calls_made:
        is_gone = isinstance(error, CloudError) and error.reason is Reason.GONE and task.action is not StepName.START
        _take_back_intent(act, permit.before, task, gone=is_gone)
        if not is_gone:
            raise error
        return GONE
    if act.changes:
        return _after_half_done(error, act, task)
    if not withdrawn and _shows_as_done(task):
        return _done_late(act, task)
    because = f"it was begun, then interrupted: {error}" if withdrawn else f"{NOT_KNOWN}: {error}"
    return _begun_and_failed(because, error, act, task)


def _shows_as_done(task: Task) -> bool:
    """Whether reading the resource once more shows that the action was carried out after all. False if that fails."""
    try:
        with odd_replies_as_errors(OPERATION):
            blocked = task.kind.blocked_actions(_read_now(task)).get(task.action)
    except CloudError as error:
        return error.reason is Reason.GONE and task.action in ENDING_ACTIONS
    except ActionWithdrawn:
        return False
    return blocked is not None and blocked.already_done


def _after_half_done(error: ReaperError, act: Act, task: Task) -> Outcome:
    """Look at what the calls left, and put it back. If that can't be done now, the intent stays open for the next run."""
    try:
        settled = put_back(task.finding.case.resource, act, task.functions, task.session)
    except CloudError as failure:
        task.errors.extend((error, failure))
        because = f"it was begun, then interrupted: {error}; it couldn't be put back yet: {failure}"
        return Outcome(result=Result.FAILED, error=because, begun=True)
    if settled.state is HalfDone.DONE:
        return _done_late(act, task)
    because = f"it was begun, then interrupted: {error}; {settled.because}"
    may_follow = isinstance(error, CloudError) and error.may_have_been_made
    if settled.result is Result.FAILED or may_follow:  # a call without a reply may still take effect
        return _begun_and_failed(because, error, act, task)
    return _record_result(Outcome(result=settled.result, because=because, begun=True), act, task)


def _done_late(act: Act, task: Task) -> Outcome:
    because = f"it was {plain_participle(task.finding.case.resource, task.action)}, although the reply was lost"
    return _record_result(Outcome(result=Result.DONE, because=because, begun=True), act, task)


def _begun_and_failed(because: str, error: ReaperError, act: Act, task: Task) -> Outcome:
    task.errors.append(error)
    return _record_result(Outcome(result=Result.FAILED, error=because, begun=True), act, task)


def _record_result(outcome: Outcome, act: Act, task: Task, known: Record | None = None) -> Outcome:
    """Add the outcome to the intent, whatever the version is by now, and to the history. Returns the outcome. `known`: see `update_record`.

    A failure is reported. The next run then finds the intent without a result and closes it.
    """
    ledger, now, done = task.context.ledger, task.context.clock(), outcome.result is Result.DONE
    because = outcome.because or outcome.error or ""
    is_told = done and is_in_weekly_summary(task.finding.case, task.action)

    def change(record: Record) -> Record:
        settled = with_result(record, outcome.result, because, outcome.part_done)
        told = settled.act and replace(settled.act, told_at=now if is_told else None)
        return replace(settled, act=told, called_at=now)

    try:
        intents.update_intent(ledger, act, change, now, known)
        for host_id in host_ids(task.finding.case.resource):  # its silence, too, counts from here
            update_record(ledger, host_id, lambda record: replace(record, called_at=now), now)
        what = plain_participle(task.finding.case.resource, task.action) if done else "failed"
        ledger.add_history(HistoryEntry(id=act.id, when=now, what=what, by=task.run.id, because=because))
    except CloudError as error:
        task.errors.append(error)
    return outcome


def _take_back_intent(act: Act, before: Record, task: Task, *, gone: bool = False) -> None:
    """Remove an intent for which no call was made. `gone`: the resource no longer exists, so its notice no longer counts."""
    try:
        intents.take_back_intent(task.context.ledger, act, before, task.context.clock(), gone=gone)
    except CloudError as error:
        task.errors.append(error)
