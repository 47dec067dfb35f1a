"""Carries out one stop, delete or start. Loaded only if a run acts.

The order: Look at the resource and its ledger records, and last of all at the resource once more. Store the manifest for undoing. Leave a
hint of an open action. Write the intent to the ledger on the version that was read. Before every changing call read the resource and the
ledger once more, so that a tag or a snooze of a second ago wins. Make the call, once. Add the result to the intent. If anything has changed
at any of these points, this one action ends, with the reason, and what it changed beside its main call is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reaper import memory_updates, registry
from reaper.acting import recheck
from reaper.acting.contract import ActionFunctions, ActionResult, HalfDone, Manifest
from reaper.acting.interruption import put_back
from reaper.acting.manifest import Archive
from reaper.acting.permit import CallPermit, Look, changed_because, hints_inside
from reaper.acting.recheck import Recheck, StepRefused
from reaper.case import Case, Outcome
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, odd_replies_as_errors
from reaper.handover import Decision, no_time_to_act
from reaper.kind import Kind
from reaper.ledger.lease import RunLeases
from reaper.ledger.ledger import Ledger, comparable_id
from reaper.ledger.rows import HistoryEntry
from reaper.memory_updates import BegunAction
from reaper.model import ManifestReference, Memory, Resource, Result, Run, StepName, Target
from reaper.pending import intents, unfinished
from reaper.pending.intents import NOT_KNOWN, Intent
from reaper.planning import possible_actions
from reaper.planning.reasons import PARTICIPLES
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.sessions import CloudSession

OPERATION = "act"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """What acting on one target needs. `leases`: those that this process keeps alive meanwhile.

    `policy_sha256`: the hash of the policy as it is now, if it may have changed since the run began.
    """

    session: CloudSession
    policy: Policy
    ledger: Ledger
    archive: Archive
    clock: Callable[[], datetime]
    leases: RunLeases
    prices: PriceBook = field(default_factory=PriceBook)
    deadline: datetime | None = None
    policy_sha256: str | None = None
    kind: Callable[[str], Kind[Any]] = registry.kind
    action_functions: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedStep:
    """The result of one action: its outcome, what failed, and the API calls that it took.

    `inside`: the outcomes of what it ended inside its resource. `is_throttled`: its first call was refused for that alone, and none was made.
    """

    outcome: Outcome
    errors: Sequence[ReaperError]
    calls: Mapping[str, int]
    inside: Mapping[str, Outcome] = field(default_factory=dict)
    is_throttled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One action on one resource, in a session of its own. Failures are added to `errors`, and what it ended inside to `inside`."""

    decision: Decision
    run_id: str
    functions: ActionFunctions[Any]
    context: ActContext
    recheck: Recheck
    errors: list[ReaperError]
    inside: dict[str, Outcome]

    @property
    def action(self) -> StepName:
        """The action to carry out."""
        return self.decision.step.name

    @property
    def session(self) -> CloudSession:
        """The session that this action alone uses."""
        return self.recheck.session

    def time(self) -> datetime:
        """The time by the run's clock."""
        return self.context.clock()


def execute(decision: Decision, run: Run, context: ActContext) -> ExecutedStep:
    """Carry out the decision's step. Never raises ReaperError."""
    task = _new_task(decision, run.id, context)
    is_throttled = False
    try:
        if because := no_time_to_act(run, context.clock(), context.deadline):
            raise StepRefused(because)
        _require_lease(decision.case.resource.target, context)
        outcome = _execute_step(task)
    except StepRefused as refusal:
        outcome = Outcome(result=Result.REFUSED, because=str(refusal))
    except ReaperError as error:
        task.errors.append(error)
        outcome = Outcome(result=Result.FAILED, error=str(error))
        is_throttled = isinstance(error, CloudError) and error.reason is Reason.THROTTLED
    calls = dict(task.session.calls)
    return ExecutedStep(outcome=outcome, errors=task.errors, calls=calls, inside=task.inside, is_throttled=is_throttled)


def _new_task(decision: Decision, run_id: str, context: ActContext) -> _Task:
    kind = decision.case.resource.kind
    new_recheck = Recheck(
        session=context.session.without_cache(),
        kind=context.kind(kind),
        policy=context.policy,
        prices=context.prices,
        ledger=context.ledger,
        clock=context.clock,
    )
    return _Task(
        decision=decision,
        run_id=run_id,
        functions=context.action_functions(kind),
        context=context,
        recheck=new_recheck,
        errors=[],
        inside={},
    )


def _require_lease(target: Target, context: ActContext) -> None:
    try:
        taken = context.leases.prolong(target)
    except CloudError as error:
        context.leases.note_failure(error)
        raise StepRefused(f"the lease of this target couldn't be extended: {error}") from error
    if not taken:
        raise StepRefused("another sweep has taken over this target")


def _execute_step(task: _Task) -> Outcome:
    try:
        resource = _read_now(task)
        case = recheck.assess_again(resource, task.recheck)
    except CloudError as error:
        if error.reason is Reason.GONE and task.action is not StepName.START:
            return Outcome(result=Result.DONE, because="it no longer exists", already_done=True)
        raise StepRefused(f"the re-check failed: {error}") from error
    blocked = case.blocked.get(task.action)
    if blocked and blocked.already_done:
        return Outcome(result=Result.DONE, because=f"nothing to do: {blocked.because}", already_done=True)
    memories = recheck.recall_around(case.resource, task.recheck)
    is_counted = _require_still_due(case, memories, task)
    memory = memories.get(resource.id, Memory())
    manifest = _read_manifest(case.resource, memory, task)
    _require_same_resource(resource, task)
    if is_counted:
        recheck.count_action(task.run_id, resource, task.recheck)
    own_intent = _record_intent(manifest, resource, memory, task)
    look = Look(
        resource=resource,
        memories=memories,
        read=lambda: _read_now(task),
        look=lambda now, before: _look_again(now, before, task),
    )
    return _perform(look, manifest, own_intent, task)


def _require_still_due(case: Case, memories: Mapping[str, Memory], task: _Task) -> bool:
    """Whether the action counts toward `max_acts`. Raises StepRefused unless everything that led to it still holds for the case as it is now."""
    recheck.require_same_step(task.action, case, memories, task.time())
    recheck.require_nothing_inside_forbids(case, memories, task.action, task.context.policy.owners, task.time())
    return recheck.require_no_hold(task.action, case, memories.get(case.resource.id, Memory()), task.recheck)


def _require_same_resource(before: Resource, task: _Task) -> None:
    """The end of the look: the resource is read once more, and must be as it was at the beginning. Raises StepRefused."""
    try:
        now = _read_now(task)
    except CloudError as error:
        raise StepRefused(f"the re-check failed: {error}") from error
    if because := changed_because(before, now):
        raise StepRefused(because)


def _look_again(resource: Resource, before: Mapping[str, Memory], task: _Task) -> None:
    """The whole look after a wait, with the rows in `before` as they were before this action. Raises ActionWithdrawn."""
    try:
        case = recheck.assess_again(resource, task.recheck)
        memories = recheck.recall_around(resource, task.recheck)
        if memories.get(resource.id, Memory()).version != before[resource.id].version + 1:
            raise StepRefused("its ledger record changed a moment ago, and it may be snoozed")
        _require_still_due(case, {**memories, **before}, task)
    except (CloudError, StepRefused) as error:
        raise ActionWithdrawn(str(error)) from error


def _read_now(task: _Task) -> Resource:
    """The resource as it is this moment, with tags from the call that knows, and nothing remembered from an earlier look."""
    named = task.decision.case.resource
    with odd_replies_as_errors(OPERATION):
        resource = task.functions.read_now(recheck.fresh_session(task.session), named)
    if resource.tags is None:
        raise StepRefused("its tags can't be read, and a tag may protect it")
    # Otherwise every record of the action would be about another resource.
    if comparable_id(resource.id) != comparable_id(named.id) or resource.name != named.name:
        raise StepRefused(f"{resource.id} was found under its name")
    return resource


def _read_manifest(resource: Resource, memory: Memory, task: _Task) -> Manifest:
    earlier = recheck.earlier_action(memory, task.context.archive)
    try:
        with odd_replies_as_errors(OPERATION):
            session = recheck.fresh_session(task.session)
            undo_state = task.functions.read_undo_state(session, resource, task.action, earlier)
    except CloudError as error:
        raise StepRefused(f"the settings needed to undo it couldn't be read: {error}") from error
    return Manifest(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        target=resource.target,
        region=resource.region,
        action=task.action,
        run=task.run_id,
        at=task.time(),
        undo_state=undo_state,
    )


def _store_manifest(manifest: Manifest, version: int, task: _Task) -> ManifestReference | None:
    """The reference of the stored manifest. A start removes nothing and has none."""
    if manifest.action is StepName.START:
        return None
    try:
        return task.context.archive.store_manifest(manifest, version)
    except CloudError as error:
        because = f"not {PARTICIPLES[manifest.action]}, because its restore manifest couldn't be stored: {error}"
        raise error.reworded(because) from error


def _record_intent(manifest: Manifest, resource: Resource, memory: Memory, task: _Task) -> Intent:
    """The intent, once it is in the ledger, with a hint that leads to it. Raises StepRefused if it couldn't be written."""
    stored = _store_manifest(manifest, memory.version + 1, task)
    ledger, now = task.context.ledger, task.time()
    hint = unfinished.unfinished_entry(task.decision.case, manifest.action, task.run_id, now)
    begun = BegunAction(
        action=manifest.action,
        run=task.run_id,
        at=now,
        manifest=stored,
        created=resource.created,
        changes=task.functions.side_changes(manifest),
    )
    written = memory_updates.before_action(memory, begun)
    own_intent = Intent(before=memory, written=written, hint=hint)
    try:
        ledger.add_unfinished(hint)
        if ledger.remember(manifest.id, written, memory.version, now):
            return own_intent
    except CloudError as error:
        # The write may have taken effect although its reply was lost.
        _take_back_intent(own_intent, task)
        raise StepRefused(f"the ledger couldn't be written before the action: {error}") from error
    _take_back_intent(own_intent, task)
    raise StepRefused("its ledger record changed a moment ago, and it may be snoozed")


def _perform(look: Look, manifest: Manifest, own_intent: Intent, task: _Task) -> Outcome:
    """Make the calls. If certainly none was made, remove the intent. Otherwise record its result."""
    permit = CallPermit(
        look=look,
        own_intent=own_intent,
        ledger=task.context.ledger,
        clock=task.context.clock,
        require_lease=lambda: _require_lease_for_call(look.resource.target, task.context),
        inside=hints_inside(look.resource, task.context.policy.owners, manifest.action, task.run_id, task.time()),
        ended=task.inside,
    )
    try:
        with odd_replies_as_errors(OPERATION):
            result = task.functions.perform(recheck.fresh_session(task.session), look.resource, manifest, permit)
    except (ActionWithdrawn, StepRefused, CloudError) as error:
        return _after_failure(error, permit, own_intent, task)
    return _after_success(result, own_intent, task)


def _require_lease_for_call(target: Target, context: ActContext) -> None:
    try:
        _require_lease(target, context)
    except StepRefused as refusal:
        raise ActionWithdrawn(str(refusal)) from refusal


def _after_success(result: ActionResult, own_intent: Intent, task: _Task) -> Outcome:
    _record_result(Outcome(result=Result.DONE, because=result.because, part_done=result.part_done), own_intent, task)
    return Outcome(result=Result.DONE, because=result.because, part_done=result.part_done, begun=True)


def _after_failure(
    error: ActionWithdrawn | StepRefused | CloudError, permit: CallPermit, own_intent: Intent, task: _Task
) -> Outcome:
    """The action ended early: before its first call nothing has happened. After it, what is half done is put back."""
    if not permit.calls_made:
        return _after_no_call(error, own_intent, task)
    withdrawn = isinstance(error, ActionWithdrawn | StepRefused)
    if own_intent.written.last_action_changes:
        return _after_half_done(error, own_intent, task)
    if not withdrawn and recheck.shows_as_done(permit.look, task.action, task.recheck):
        return _after_success(_late_result(task.action), own_intent, task)
    because = f"it was begun, then interrupted: {error}" if withdrawn or permit.ended else f"{NOT_KNOWN}: {error}"
    return _begun_and_failed(because, error, own_intent, task)


def _after_no_call(error: ActionWithdrawn | StepRefused | CloudError, own_intent: Intent, task: _Task) -> Outcome:
    """Certainly nothing has changed: remove the intent. Raises StepRefused, or the error of the call that was refused."""
    if not isinstance(error, CloudError):
        _take_back_intent(own_intent, task)
        raise StepRefused(str(error)) from error
    is_gone = error.reason is Reason.GONE and task.action is not StepName.START
    _take_back_intent(own_intent, task, gone=is_gone)
    if not is_gone:
        raise error
    return Outcome(result=Result.DONE, because="it no longer exists", already_done=True)


def _after_half_done(error: ReaperError, own_intent: Intent, task: _Task) -> Outcome:
    """Look at what the calls left, and put it back. If that can't be done now, the intent stays open for the next run."""
    hint, written = own_intent.hint, own_intent.written
    try:
        settled = put_back(task.decision.case.resource, written, task.functions, task.session)
    except CloudError as failure:
        task.errors.extend((error, failure))
        because = f"it was begun, then interrupted: {error}; it couldn't be put back yet: {failure}"
        return Outcome(result=Result.FAILED, error=because, begun=True)
    if settled.state is HalfDone.DONE:
        return _after_success(_late_result(hint.action), own_intent, task)
    because = f"it was begun, then interrupted: {error}; {settled.because}"
    may_follow = isinstance(error, CloudError) and error.may_have_been_made
    if settled.result is Result.FAILED or may_follow:  # a call without a reply may still take effect
        return _begun_and_failed(because, error, own_intent, task)
    outcome = Outcome(result=settled.result, because=because, begun=True)
    _record_result(outcome, own_intent, task)
    return outcome


def _late_result(action: StepName) -> ActionResult:
    return ActionResult(because=f"it was {PARTICIPLES[action]}, although the reply was lost")


def _begun_and_failed(because: str, error: ReaperError, own_intent: Intent, task: _Task) -> Outcome:
    task.errors.append(error)
    _record_result(Outcome(result=Result.FAILED, because=because), own_intent, task)
    return Outcome(result=Result.FAILED, error=because, begun=True)


def _record_result(outcome: Outcome, own_intent: Intent, task: _Task) -> None:
    """Add the result to the intent, whatever the version is by now, and to the history.

    A failure is reported. The next run then finds the intent without a result and closes it.
    """
    ledger, because, done = task.context.ledger, outcome.because or "", outcome.result is Result.DONE

    def change(memory: Memory) -> Memory:
        settled = memory_updates.with_result(memory, outcome.result, because, outcome.part_done)
        return memory_updates.after_call(settled, task.time())

    try:
        intents.update_intent(ledger, own_intent, change, task.time())
        if done and possible_actions.is_in_weekly_summary(task.decision.case, task.action):
            intents.record_owner_told(ledger, own_intent.hint, task.time())
        what = PARTICIPLES[task.action] if done else "failed"
        ledger.add_history(HistoryEntry(id=own_intent.hint.id, when=task.time(), what=what, by=task.run_id, because=because))
    except CloudError as error:
        task.errors.append(error)


def _take_back_intent(own_intent: Intent, task: _Task, *, gone: bool = False) -> None:
    """Remove an intent for which no call was made. `gone`: the resource no longer exists, so its notice no longer counts."""
    try:
        intents.take_back_intent(task.context.ledger, own_intent, task.time(), gone=gone)
    except CloudError as error:
        task.errors.append(error)
