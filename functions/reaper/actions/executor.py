"""Carries out stops, deletes and starts, one by one, each looked at again just before. Loaded where a run acts and nowhere else.

For each: the resource and its tags from the calls that know, its activity up to this minute, the plan once more on all that. Then what
undoing needs is stored, a hint of an open action is left, and the intent is written to the ledger on the very version that was read. Before
every changing call the ledger is read once more (`permit`), so that a snooze of a second ago wins. At last the result joins the intent. Whatever
is off at any of these points ends this one action, with the reason, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from reaper import contained, memory_updates, observe, plan, registry
from reaper.actions import intent
from reaper.actions.contract import NOTHING_EARLIER, ActionFunctions, ActionResult, Earlier, Manifest
from reaper.actions.intent import Intent
from reaper.actions.manifest import Archive
from reaper.errors import ODD_REPLY_ERRORS, ActionWithdrawn, CloudError, ReaperError, Reason
from reaper.kind import Kind
from reaper.ledger.port import HistoryEntry, Ledger, Unfinished
from reaper.model import Case, Finding, Memory, Outcome, Resource, Result, State, StepName, Target
from reaper.observe import CloudSession, ObserveContext

T = TypeVar("T")
MARGIN = timedelta(minutes=2)
"""What must be left of the time for an act to begin: enough to end it, and to tell and record everything afterwards."""
NOT_PERFORMED = frozenset({Reason.DENIED, Reason.THROTTLED, Reason.REFUSED})
"""Failures of a call that leave the resource as it was, if it was sent once only."""
DONE = {StepName.STOP: "stopped", StepName.DELETE: "deleted", StepName.START: "started"}
NOT_KNOWN = "it isn't known whether it was made"


class StepRefused(ReaperError):
    """Something is not as it was when the act was planned; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """Everything acting needs. `renew` prolongs the sweep's leases, and says whether it still holds that of the target."""

    clouds: Mapping[Target, CloudSession]
    order: ObserveContext
    ledger: Ledger
    archive: Archive
    clock: Callable[[], datetime]
    run: str
    renew: Callable[[Target], bool]
    deadline: datetime | None = None
    kinds: Callable[[str], Kind[Any]] = registry.kind
    acts: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action on one resource: the finding that asked for it, a session of its own, and how its kind acts. `errors` is added to."""

    found: Finding
    cloud: CloudSession
    acts: ActionFunctions[Any]
    hands: ActContext
    errors: list[ReaperError]

    @property
    def move(self) -> StepName:
        """What is to be done."""
        return self.found.step.name


def execute(found: Finding, hands: ActContext) -> tuple[Finding, Sequence[ReaperError], Mapping[str, int]]:
    """The finding with the outcome of its step, what failed, and the API calls it took. Never raises ReaperError."""
    target = found.case.resource.target
    task = Task(
        found=found, cloud=hands.clouds[target].without_cache(), acts=hands.acts(found.case.resource.kind), hands=hands, errors=[]
    )
    try:
        _in_time(hands)
        _still_ours(target, hands)
        outcome = _acted(task)
    except StepRefused as refusal:
        outcome = Outcome(result=Result.REFUSED, because=str(refusal))
    except ReaperError as error:
        task.errors.append(error)
        outcome = Outcome(result=Result.FAILED, error=str(error))
    return replace(found, outcome=outcome), task.errors, dict(task.cloud.calls)


def _in_time(hands: ActContext) -> None:
    if hands.deadline and hands.clock() > hands.deadline - MARGIN:
        raise StepRefused("this run's time is nearly over; the next sweep goes on")


def _still_ours(target: Target, hands: ActContext) -> None:
    try:
        ours = hands.renew(target)
    except CloudError as error:
        raise StepRefused(f"the lease of this target could not be prolonged: {error}") from error
    if not ours:
        raise StepRefused("another sweep has taken over this target")


def _acted(task: Task) -> Outcome:
    try:
        fresh = _fresh(task)
    except CloudError as error:
        if error.reason is Reason.GONE and task.move is not StepName.START:
            return Outcome(result=Result.DONE, because="it is gone already", already_done=True)
        raise StepRefused(f"it could not be looked at again: {error}") from error
    bar = fresh.case.blocked.get(task.move)
    if bar and bar.already_done:
        return Outcome(result=Result.DONE, because=f"nothing was left to do: {bar.because}", already_done=True)
    memories = _recalled(fresh.case.resource, task.hands)
    memory = memories.get(fresh.case.resource.id, Memory())
    _same_again(task.move, fresh, memories, task.hands.clock())
    _nothing_inside_forbids(fresh.case, memories, task)
    resource = fresh.case.resource
    manifest = _manifest(resource, _earlier_action(memory, task.hands.archive), task)
    mine = _begun(manifest, _kept(manifest, memory.version + 1, task), memory, task)
    return _carried(resource, manifest, mine, task)


def _fresh(task: Task) -> Finding:
    """The finding anew, with tags from the call that knows and activity up to this minute."""
    looked = _safely(task.acts.read_now, task.cloud, task.found.case.resource)
    if looked.tags is None:
        raise StepRefused("its tags could not be read, and a tag may protect it")
    kind = task.hands.kinds(task.found.case.resource.kind)
    return observe.assess_again(task.cloud, kind, looked, replace(task.hands.order, now=task.hands.clock(), memories={}))


def _recalled(resource: Resource, hands: ActContext) -> Mapping[str, Memory]:
    """What is remembered of it, of what it lives in and of everything inside. What cannot be read allows nothing."""
    try:
        found = hands.ledger.recall(intent.remembered_ids(resource), hands.clock())
    except CloudError as error:
        raise StepRefused(f"what is remembered of it could not be read: {error}") from error
    if found.errors:
        raise StepRefused(f"what is remembered of it could not be read: {found.errors[0]}") from found.errors[0]
    return found


def _same_again(move: StepName, fresh: Finding, memories: Mapping[str, Memory], now: datetime) -> None:
    """Raises Refused unless the plan says the very same of the resource as it is now."""
    host = intent.host_memory(fresh.case.resource, memories)
    memory = memory_updates.after_host_snooze(memories.get(fresh.case.resource.id, Memory()), host)
    case = plan.with_snooze(fresh.case, memory, now, host)
    [step] = plan.plan_steps([case], {case.resource.id: memory}, now)
    if step.name is move:
        return
    if case.verdict.state is not State.IDLE and move is not StepName.START:
        raise StepRefused(f"it is {case.verdict.state} now: {case.verdict.because}")
    if bar := case.blocked.get(move):
        raise StepRefused(bar.because)
    if move is not StepName.START and plan.strongest_action(case, now) is not move:
        raise StepRefused(
            f"its rule and tags no longer allow it to be {DONE[move]}: {case.rule.name} says at most {case.rule.action}"
        )
    raise StepRefused(step.because)


def _nothing_inside_forbids(case: Case, memories: Mapping[str, Memory], task: Task) -> None:
    """Raises Refused where what lives inside and would go with it is kept, or its owner was not told."""
    now, chain = task.hands.clock(), task.hands.order.policy.owners
    if because := contained.snoozed_inside(case.resource, memories, now) or contained.untold_inside(
        case, memories, task.move, chain, now
    ):
        raise StepRefused(because)


def _earlier_action(memory: Memory, archive: Archive) -> Earlier:
    """The earlier action whose manifest still stands, so that this one's can name it.

    One that lies outside REAPER_MANIFESTS is only named, so that undoing can say how to go on; nothing is read from there.
    """
    if memory.last_action is None or memory.manifest_address is None:
        return NOTHING_EARLIER
    return Earlier(manifest_address=memory.manifest_address, is_readable=archive.contains(memory.manifest_address))


def _manifest(resource: Resource, earlier: Earlier, task: Task) -> Manifest:
    try:
        record = _safely(task.acts.read_undo_state, task.cloud, resource, task.move, earlier)
    except CloudError as error:
        raise StepRefused(f"what undoing it would need could not be read: {error}") from error
    return Manifest(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        target=resource.target,
        region=resource.region,
        action=task.move,
        run=task.hands.run,
        at=task.hands.clock(),
        undo_state=record,
    )


def _kept(manifest: Manifest, version: int, task: Task) -> str | None:
    """Where the manifest is now. A start takes nothing away and has none."""
    if manifest.action is StepName.START:
        return None
    try:
        return task.hands.archive.store_manifest(manifest, version)
    except CloudError as error:
        text = f"not {DONE[manifest.action]}, because what undoing it needs could not be stored: {error}"
        raise error.reworded(text) from error


def _begun(manifest: Manifest, address: str | None, memory: Memory, task: Task) -> Intent:
    """The intent, once it stands in the ledger, with a hint that leads to it. Raises Refused where it could not be written."""
    hands, now = task.hands, task.hands.clock()
    hint = Unfinished(
        target=manifest.target,
        id=manifest.id,
        kind=manifest.kind,
        name=manifest.name,
        region=manifest.region,
        owner=task.found.case.owner,
        action=manifest.action,
        run=hands.run,
        at=now,
    )
    mine = Intent(
        before=memory, written=memory_updates.before_action(memory, manifest.action, address, hands.run, now), hint=hint
    )
    try:
        hands.ledger.add_unfinished(hint)
        if hands.ledger.remember(manifest.id, mine.written, memory.version, now):
            return mine
    except CloudError as error:
        # The write may have taken effect although its answer got lost.
        _take_back(mine, task)
        raise StepRefused(f"the ledger could not be written before the act: {error}") from error
    _take_back(mine, task)
    raise StepRefused("what is remembered of it changed a moment ago: somebody may have kept it")


def _carried(resource: Resource, manifest: Manifest, mine: Intent, task: Task) -> Outcome:
    """The calls themselves. Where surely none was made the intent is taken back; otherwise what became of it is written down."""
    permit = intent.CallPermit(resource=resource, own_intent=mine, ledger=task.hands.ledger, clock=task.hands.clock)

    def leave() -> None:
        try:
            _still_ours(resource.target, task.hands)
        except StepRefused as refusal:
            raise ActionWithdrawn(str(refusal)) from refusal
        permit.require_unchanged()

    try:
        made = _safely(task.acts.perform, task.cloud, resource, manifest, leave)
    except ActionWithdrawn as refusal:
        return _broken_off(refusal, permit, mine, task)
    except CloudError as error:
        return _failed(error, resource, permit, mine, task)
    return _done(made, mine, task)


def _done(made: ActionResult, mine: Intent, task: Task) -> Outcome:
    _settle(Result.DONE, made.because, mine, task, made.part_done)
    return Outcome(result=Result.DONE, because=made.because, part_done=made.part_done, begun=True)


def _broken_off(refusal: ActionWithdrawn, permit: intent.CallPermit, mine: Intent, task: Task) -> Outcome:
    """Leave to act was taken back: before the first call nothing has happened; after it the action stays half made."""
    if permit.times_given == 0:
        _take_back(mine, task)
        raise StepRefused(str(refusal)) from refusal
    because = f"it was begun and broken off: {refusal}"
    task.errors.append(refusal)
    _settle(Result.FAILED, because, mine, task)
    return Outcome(result=Result.FAILED, error=because, begun=True)


def _failed(error: CloudError, resource: Resource, permit: intent.CallPermit, mine: Intent, task: Task) -> Outcome:
    """A call failed. Nothing was made if leave was never asked for, or if it was surely refused and sent once only: a kind that had changed
    something says PARTIAL.
    """
    none_made = permit.times_given == 0 or not error.retried
    if error.reason is Reason.GONE and none_made and task.move is not StepName.START:
        _take_back(mine, task, gone=True)
        return Outcome(result=Result.DONE, because="it was gone already", already_done=True)
    if permit.times_given == 0 or (error.reason in NOT_PERFORMED and none_made):
        _take_back(mine, task)
        raise error
    half = error.reason is Reason.PARTIAL
    if not half and _shows(resource, task):
        return _done(ActionResult(because=f"it was {DONE[task.move]}, although the reply to that got lost"), mine, task)
    because = f"it was begun and not finished: {error}" if half else f"{NOT_KNOWN}: {error}"
    task.errors.append(error)
    _settle(Result.FAILED, because, mine, task)
    return Outcome(result=Result.FAILED, error=because, begun=True)


def _shows(resource: Resource, task: Task) -> bool:
    """Whether one more look shows that the action was made after all. Where it can't be told, it can't."""
    try:
        looked = _safely(task.acts.read_now, task.cloud, resource)
        bar = _safely(task.hands.kinds(resource.kind).blocked_actions, looked).get(task.move)
    except CloudError as error:
        return error.reason is Reason.GONE and task.move is StepName.DELETE
    return bar is not None and bar.already_done


def _settle(result: Result, because: str, mine: Intent, task: Task, part: str | None = None) -> None:
    """Add the result to the intent, on whatever version stands by now, and to the history. What fails is reported and found by the next run."""
    hands, id_ = task.hands, mine.hint.id
    try:
        intent.update_intent(
            hands.ledger, mine, lambda memory: memory_updates.with_result(memory, result, because, part), hands.clock()
        )
        if result is Result.DONE and plan.is_in_weekly_summary(task.found.case, task.move):
            intent.record_owner_told(hands.ledger, mine.hint, hands.clock())
        what = DONE[task.move] if result is Result.DONE else "failed"
        hands.ledger.add_history(HistoryEntry(id=id_, when=hands.clock(), what=what, by=hands.run, because=because))
    except CloudError as error:
        task.errors.append(error)


def _take_back(mine: Intent, task: Task, *, gone: bool = False) -> None:
    """Remove an intent of which no call was made. `gone`: there is nothing left that its notice could be about."""

    def back(memory: Memory) -> Memory:
        before = memory_updates.without_intent(memory, mine.before)
        return memory_updates.after_action(before) if gone else before

    try:
        intent.update_intent(task.hands.ledger, mine, back, task.hands.clock())
        _hint_as_before(mine, task.hands.ledger)
    except CloudError as error:
        task.errors.append(error)


def _hint_as_before(mine: Intent, ledger: Ledger) -> None:
    """Without its own hint; that of an earlier action whose owner was not told yet, which it replaced, stands again."""
    before = mine.before
    if (
        before.last_action_run
        and before.last_action
        and before.last_action_at
        and before.last_action_result
        and not before.last_action_told_at
    ):
        ledger.add_unfinished(replace(mine.hint, run=before.last_action_run, action=before.last_action, at=before.last_action_at))
    else:
        ledger.remove_unfinished(mine.hint.target, mine.hint.id)


def _safely(function: Callable[..., T], *given: Any) -> T:
    """What `function` gives; a reply so odd that the code trips over it fails this act only."""
    try:
        return function(*given)
    except ODD_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, "act", f"a reply could not be understood ({error!r})") from error
