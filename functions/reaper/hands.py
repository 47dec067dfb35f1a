"""Carries out stops, deletes and starts, one by one, each looked at again just before. Loaded in mode enforce and nowhere else.

For each: the resource and its tags from the calls that know, its activity up to this minute, the plan once more on all that; then what
undoing needs is stored; then the intent is written to the ledger on the very version that was read, so that a snooze of a second ago
wins; then the call is made. Whatever is off at any of these points ends this one act, with the reason, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from reaper import plan, registry, sweep
from reaper.acts import Acts, Manifest
from reaper.errors import CloudError, ReaperError, Trouble
from reaper.ledger import History, Ledger
from reaper.manifest import Archive
from reaper.model import Finding, Kind, Memory, Move, Outcome, Resource, Result, State, Target
from reaper.sweep import Cloud, Order

T = TypeVar("T")
MARGIN = timedelta(minutes=2)
"""What must be left of the time for an act to begin: enough to end it, and to tell and record everything afterwards."""
SURELY_NOT = frozenset({Trouble.DENIED, Trouble.THROTTLED, Trouble.REFUSED})
"""Failures of a call that leave the resource as it was."""
DONE = {Move.STOP: "stopped", Move.DELETE: "deleted", Move.START: "started"}


class Refused(ReaperError):
    """Something is not as it was when the act was planned; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """Everything acting needs. `renew` prolongs the sweep's lease of a target, and says whether it still holds it."""

    clouds: Mapping[Target, Cloud]
    order: Order
    ledger: Ledger
    archive: Archive
    clock: Callable[[], datetime]
    run: str
    renew: Callable[[Target], bool]
    deadline: datetime | None = None
    kinds: Callable[[str], Kind[Any]] = registry.kind
    acts: Callable[[str], Acts[Any]] = registry.acts


def act(found: Finding, hands: Hands) -> tuple[Finding, Sequence[ReaperError], Mapping[str, int]]:
    """The finding with the outcome of its step, what failed, and the API calls it took. Never raises ReaperError."""
    target = found.case.resource.target
    cloud = hands.clouds[target].anew()
    errors: list[ReaperError] = []
    try:
        _in_time(hands)
        if not hands.renew(target):
            raise Refused("another sweep has taken over this target")
        outcome = _acted(found, cloud, hands, errors)
    except Refused as refusal:
        outcome = Outcome(result=Result.REFUSED, because=str(refusal))
    except ReaperError as error:
        errors.append(error)
        outcome = Outcome(result=Result.FAILED, error=str(error))
    return replace(found, outcome=outcome), errors, dict(cloud.calls)


def _in_time(hands: Hands) -> None:
    if hands.deadline and hands.clock() > hands.deadline - MARGIN:
        raise Refused("this run's time is nearly over; the next sweep goes on")


def _acted(found: Finding, cloud: Cloud, hands: Hands, errors: list[ReaperError]) -> Outcome:
    move = found.step.move
    acts = hands.acts(found.case.resource.kind)
    try:
        fresh = _fresh(found, cloud, acts, hands)
    except CloudError as error:
        if error.trouble is Trouble.GONE and move is not Move.START:
            return Outcome(result=Result.DONE, because="it is gone already", already=True)
        raise Refused(f"it could not be looked at again: {error}") from error
    bar = fresh.case.acts.get(move)
    if bar and bar.done:
        return Outcome(result=Result.DONE, because=f"nothing was left to do: {bar.because}", already=True)
    memory = _remembered(found.case.resource.id, hands)
    _same_again(move, fresh, memory, hands.clock())
    _nobody_inside_kept(fresh.case.resource, hands)
    resource = _with_previous(fresh.case.resource, memory)
    manifest = _manifest(resource, move, acts, cloud, hands)
    meant = plan.meant(memory, move, _kept(manifest, hands), hands.clock())
    _intend(manifest.id, meant, memory.version, hands)
    return _carried(resource, manifest, acts, cloud, (memory, meant), hands, errors)


def _fresh(found: Finding, cloud: Cloud, acts: Acts[Any], hands: Hands) -> Finding:
    """The finding anew, with tags from the call that knows and activity up to this minute."""
    looked = _safely(acts.look, cloud, found.case.resource)
    if looked.tags is None:
        raise Refused("its tags could not be read, and a tag may protect it")
    kind = hands.kinds(found.case.resource.kind)
    return sweep.again(cloud, kind, looked, replace(hands.order, now=hands.clock(), memories={}))


def _same_again(move: Move, fresh: Finding, memory: Memory, now: datetime) -> None:
    """Raises Refused unless the plan says the very same of the resource as it is now."""
    case = plan.spared_by_memory(fresh.case, memory, now)
    [step] = plan.plan([case], {case.resource.id: memory}, now)
    if step.move is move:
        return
    if case.verdict.state is not State.IDLE and move is not Move.START:
        raise Refused(f"it is {case.verdict.state} now: {case.verdict.because}")
    if bar := case.acts.get(move):
        raise Refused(bar.because)
    if move is not Move.START and plan.act(case, now) is not move:
        raise Refused(
            f"its rule and tags no longer allow it to be {DONE[move]}: {case.rule.name} says at most {case.rule.action}"
        )
    raise Refused(step.because)


def _nobody_inside_kept(resource: Resource, hands: Hands) -> None:
    """Raises Refused where somebody's snooze keeps a thing that lives inside and would go with it."""
    for inner in resource.facts.get("within", ()):
        memory, now = _remembered(inner.id, hands), hands.clock()
        if memory.snoozed_until and memory.snoozed_until > now:
            raise Refused(
                f"{inner.name} inside it is kept by {memory.snoozed_by or 'somebody'} until {memory.snoozed_until:%Y-%m-%d %H:%M} UTC"
            )


def _with_previous(resource: Resource, memory: Memory) -> Resource:
    """With the address of the manifest of an earlier act that still stands, so that this one's can name it."""
    if memory.last_act is None or memory.manifest is None:
        return resource
    return replace(resource, facts={**resource.facts, "previous": memory.manifest})


def _remembered(id_: str, hands: Hands) -> Memory:
    try:
        memory: Memory = hands.ledger.recall([id_], hands.clock()).get(id_, Memory())
    except CloudError as error:
        raise Refused(f"what is remembered of it could not be read: {error}") from error
    return memory


def _manifest(resource: Resource, move: Move, acts: Acts[Any], cloud: Cloud, hands: Hands) -> Manifest:
    try:
        record = _safely(acts.record, cloud, resource, move)
    except CloudError as error:
        raise Refused(f"what undoing it would need could not be read: {error}") from error
    return Manifest(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        target=resource.target,
        region=resource.region,
        move=move,
        run=hands.run,
        at=hands.clock(),
        record=record,
    )


def _kept(manifest: Manifest, hands: Hands) -> str | None:
    """Where the manifest is now. A start takes nothing away and has none."""
    if manifest.move is Move.START:
        return None
    try:
        return hands.archive.keep(manifest)
    except CloudError as error:
        text = f"not {DONE[manifest.move]}, because what undoing it needs could not be stored: {error}"
        raise CloudError(error.trouble, error.operation, text, code=error.code, missing=error.missing) from error


def _intend(id_: str, meant: Memory, version: int, hands: Hands) -> None:
    try:
        written = hands.ledger.remember(id_, meant, version, hands.clock())
    except CloudError as error:
        raise Refused(f"the ledger could not be written before the act: {error}") from error
    if not written:
        raise Refused("what is remembered of it changed a moment ago: somebody may have kept it")


def _carried(
    resource: Resource,
    manifest: Manifest,
    acts: Acts[Any],
    cloud: Cloud,
    memory: tuple[Memory, Memory],
    hands: Hands,
    errors: list[ReaperError],
) -> Outcome:
    """The call itself. Where it surely did not happen the intent is taken back; where nobody knows, it stands until it can be seen."""
    before, meant = memory
    try:
        because = _safely(acts.carry, cloud, resource, manifest, lambda: None).because
    except CloudError as error:
        if error.trouble is not Trouble.GONE or manifest.move is Move.START:
            if error.trouble in SURELY_NOT:
                _settle(resource.id, before, before.version + 1, hands, errors)
            raise
        _settle(resource.id, plan.moved(meant), before.version + 1, hands, errors)
        return Outcome(result=Result.DONE, because="it was gone already", already=True)
    _settle(resource.id, plan.moved(meant), before.version + 1, hands, errors)
    _note(History(id=resource.id, when=hands.clock(), what=DONE[manifest.move], by=hands.run, because=because), hands, errors)
    return Outcome(result=Result.DONE, because=because)


def _settle(id_: str, memory: Memory, version: int, hands: Hands, errors: list[ReaperError]) -> None:
    """Write what became of the intent. Whoever wrote in between, such as a snooze, knows better."""
    try:
        hands.ledger.remember(id_, memory, version, hands.clock())
    except CloudError as error:
        errors.append(error)


def _note(entry: History, hands: Hands, errors: list[ReaperError]) -> None:
    try:
        hands.ledger.note(entry)
    except CloudError as error:
        errors.append(error)


def _safely(function: Callable[..., T], *given: Any) -> T:
    """What `function` gives; a reply so odd that the code trips over it fails this act only."""
    try:
        return function(*given)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RuntimeError, IndexError) as error:
        raise CloudError(Trouble.GARBLED, "act", f"a reply could not be understood ({error!r})") from error
