"""Carries out one stop, delete or start. Loaded only if a run acts.

The order: Re-check the resource and its ledger records. Store the manifest for undoing. Leave a hint of an open action. Write the intent to
the ledger on the version that was read. Before every changing call read the ledger once more, so that a snooze of a second ago wins.
Make the call. Add the result to the intent. If anything has changed at any of these points, this one action ends, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reaper import memory_updates, registry
from reaper.actions import intent, recheck, unfinished
from reaper.actions.contract import ActionFunctions, ActionResult, Earlier, Manifest
from reaper.actions.intent import CallPermit, Intent
from reaper.actions.manifest import Archive
from reaper.actions.recheck import Recheck, StepRefused
from reaper.case import Outcome
from reaper.errors import ActionWithdrawn, CloudError, ReaperError, Reason, odd_replies_as_errors
from reaper.handover import Decision
from reaper.kind import Kind
from reaper.ledger.lease import RunLeases
from reaper.ledger.port import HistoryEntry, Ledger
from reaper.model import Memory, Resource, Result, Run, StepName, Target
from reaper.planning import possible_actions, run_age
from reaper.planning.reasons import PARTICIPLES
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.sessions import CloudSession

OPERATION = "act"
NOT_PERFORMED = frozenset({Reason.DENIED, Reason.THROTTLED, Reason.REFUSED})
"""Failures of a call that leave the resource as it was, if the call was sent only once."""
NOT_KNOWN = "it isn't known whether the action was carried out"


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
    """The result of one action: its outcome, what failed, and the API calls that it took."""

    outcome: Outcome
    errors: Sequence[ReaperError]
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One action on one resource: its decision, a session of its own, and its kind's functions. Failures are added to `errors`."""

    decision: Decision
    run_id: str
    functions: ActionFunctions[Any]
    context: ActContext
    recheck: Recheck
    errors: list[ReaperError]

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
    try:
        if because := run_age.no_time_to_act(run, context.clock(), context.deadline):
            raise StepRefused(because)
        _require_lease(decision.case.resource.target, context)
        outcome = _execute_step(task)
    except StepRefused as refusal:
        outcome = Outcome(result=Result.REFUSED, because=str(refusal))
    except ReaperError as error:
        task.errors.append(error)
        outcome = Outcome(result=Result.FAILED, error=str(error))
    return ExecutedStep(outcome=outcome, errors=task.errors, calls=dict(task.session.calls))


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
    functions = context.action_functions(kind)
    return _Task(decision=decision, run_id=run_id, functions=functions, context=context, recheck=new_recheck, errors=[])


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
        case = recheck.assess_again(_read_now(task), task.recheck)
    except CloudError as error:
        if error.reason is Reason.GONE and task.action is not StepName.START:
            return Outcome(result=Result.DONE, because="it no longer exists", already_done=True)
        raise StepRefused(f"the re-check failed: {error}") from error
    blocked = case.blocked.get(task.action)
    if blocked and blocked.already_done:
        return Outcome(result=Result.DONE, because=f"nothing to do: {blocked.because}", already_done=True)
    memories = recheck.recall_around(case.resource, task.recheck)
    recheck.require_same_step(task.action, case, memories, task.time())
    recheck.require_nothing_inside_forbids(case, memories, task.action, task.context.policy.owners, task.time())
    resource, memory = case.resource, memories.get(case.resource.id, Memory())
    recheck.require_no_hold(task.action, case, memory, task.recheck)
    earlier = recheck.earlier_action(memory, task.context.archive)
    manifest = _read_manifest(resource, earlier, task)
    own_intent = _record_intent(manifest, _store_manifest(manifest, memory.version + 1, task), memory, task)
    return _perform(resource, manifest, own_intent, task)


def _read_now(task: _Task) -> Resource:
    """The resource as it is this moment, with tags from the call that knows."""
    with odd_replies_as_errors(OPERATION):
        resource = task.functions.read_now(task.session, task.decision.case.resource)
    if resource.tags is None:
        raise StepRefused("its tags can't be read, and a tag may protect it")
    return resource


def _read_manifest(resource: Resource, earlier: Earlier, task: _Task) -> Manifest:
    try:
        with odd_replies_as_errors(OPERATION):
            undo_state = task.functions.read_undo_state(task.session, resource, task.action, earlier)
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


def _store_manifest(manifest: Manifest, version: int, task: _Task) -> str | None:
    """The address of the stored manifest. A start removes nothing and has none."""
    if manifest.action is StepName.START:
        return None
    try:
        return task.context.archive.store_manifest(manifest, version)
    except CloudError as error:
        because = f"not {PARTICIPLES[manifest.action]}, because its restore manifest couldn't be stored: {error}"
        raise error.reworded(because) from error


def _record_intent(manifest: Manifest, address: str | None, memory: Memory, task: _Task) -> Intent:
    """The intent, once it is in the ledger, with a hint that leads to it. Raises StepRefused if it couldn't be written."""
    ledger, now = task.context.ledger, task.time()
    hint = unfinished.unfinished_entry(task.decision.case, manifest.action, task.run_id, now)
    written = memory_updates.before_action(memory, manifest.action, address, task.run_id, now)
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


def _perform(resource: Resource, manifest: Manifest, own_intent: Intent, task: _Task) -> Outcome:
    """Make the calls. If certainly none was made, the intent is withdrawn. Otherwise its result is recorded."""
    permit = CallPermit(resource=resource, own_intent=own_intent, ledger=task.context.ledger, clock=task.context.clock)

    def require_permit() -> None:
        try:
            _require_lease(resource.target, task.context)
        except StepRefused as refusal:
            raise ActionWithdrawn(str(refusal)) from refusal
        permit.require_unchanged()

    try:
        with odd_replies_as_errors(OPERATION):
            result = task.functions.perform(task.session, resource, manifest, require_permit)
    except ActionWithdrawn as withdrawal:
        return _after_withdrawal(withdrawal, permit, own_intent, task)
    except CloudError as error:
        return _after_failed_call(error, permit, own_intent, task)
    return _after_success(result, own_intent, task)


def _after_success(result: ActionResult, own_intent: Intent, task: _Task) -> Outcome:
    _record_result(Outcome(result=Result.DONE, because=result.because, part_done=result.part_done), own_intent, task)
    return Outcome(result=Result.DONE, because=result.because, part_done=result.part_done, begun=True)


def _after_withdrawal(withdrawal: ActionWithdrawn, permit: CallPermit, own_intent: Intent, task: _Task) -> Outcome:
    """The permit was withdrawn: before the first call nothing has happened. After it the action stays half done."""
    if permit.times_given == 0:
        _take_back_intent(own_intent, task)
        raise StepRefused(str(withdrawal)) from withdrawal
    return _begun_and_failed(f"it was begun, then interrupted: {withdrawal}", withdrawal, own_intent, task)


def _after_failed_call(error: CloudError, permit: CallPermit, own_intent: Intent, task: _Task) -> Outcome:
    """A call failed. Nothing changed if no permit was requested, or if the call was certainly refused and sent only once.

    A kind that has changed something raises PARTIAL.
    """
    none_made = permit.times_given == 0 or not error.retried
    if error.reason is Reason.GONE and none_made and task.action is not StepName.START:
        _take_back_intent(own_intent, task, gone=True)
        return Outcome(result=Result.DONE, because="it no longer exists", already_done=True)
    if permit.times_given == 0 or (error.reason in NOT_PERFORMED and none_made):
        _take_back_intent(own_intent, task)
        raise error
    if error.reason is Reason.PARTIAL:
        return _begun_and_failed(f"it was begun but not finished: {error}", error, own_intent, task)
    if recheck.shows_as_done(permit.resource, task.action, task.functions.read_now, task.recheck):
        done = ActionResult(because=f"it was {PARTICIPLES[task.action]}, although the reply was lost")
        return _after_success(done, own_intent, task)
    return _begun_and_failed(f"{NOT_KNOWN}: {error}", error, own_intent, task)


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
        return memory_updates.with_result(memory, outcome.result, because, outcome.part_done)

    try:
        intent.update_intent(ledger, own_intent, change, task.time())
        if done and possible_actions.is_in_weekly_summary(task.decision.case, task.action):
            intent.record_owner_told(ledger, own_intent.hint, task.time())
        what = PARTICIPLES[task.action] if done else "failed"
        ledger.add_history(HistoryEntry(id=own_intent.hint.id, when=task.time(), what=what, by=task.run_id, because=because))
    except CloudError as error:
        task.errors.append(error)


def _take_back_intent(own_intent: Intent, task: _Task, *, gone: bool = False) -> None:
    """Remove an intent for which no call was made. `gone`: the resource no longer exists, so its notice no longer counts."""
    try:
        intent.take_back_intent(task.context.ledger, own_intent, task.time(), gone=gone)
    except CloudError as error:
        task.errors.append(error)
