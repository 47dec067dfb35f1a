"""What the policy would do now with each judged resource, given what is remembered of it. Pure: carrying a plan out is somebody else's job.

One idle spell, one warning, then a reminder per `remind_every`, however often is swept. A window of metrics moves on with every sweep,
so a spell is known again by its proof reaching back to the moment when it was last seen idle, not by when the proof begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from reaper.duration import text
from reaper.model import Action, Case, Memory, Move, State, Step, Verdict


def plan(cases: Iterable[Case], memories: Mapping[str, Memory], now: datetime) -> list[Step]:
    """One step per case, in the same order. `memories` is keyed by resource id; a resource without one was never warned about."""
    return [_step(case, memories.get(case.resource.id, Memory()), now) for case in cases]


def may_move(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`."""
    return case.verdict.state is State.IDLE and case.rule.protected is None and case.rule.action is not Action.IGNORE


def spared_by_memory(case: Case, memory: Memory, now: datetime) -> Case:
    """The case with an exempt verdict where it is idle and somebody's snooze still holds; otherwise the case as it is."""
    if not (may_move(case) and _snoozed(memory, now)):
        return case
    verdict = Verdict(state=State.EXEMPT, because=_kept(memory), last_busy=case.verdict.last_busy)
    return replace(case, verdict=verdict)


def notice(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When the warning about the present idle spell was given: what a grace period counts from. None where none counts."""
    warned = memory.warned_at
    if not may_move(case) or warned is None or _void(case, memory, now):
        return None
    return warned if warned >= _spell(case, memory, now) else None


def told(memory: Memory, move: Move, receipt: str, now: datetime) -> Memory:
    """The memory once a channel has accepted a warning or a reminder."""
    if move is Move.WARN:
        return replace(memory, warned_at=now, reminded_at=None, receipt=receipt)
    return replace(memory, reminded_at=now, receipt=receipt) if move is Move.REMIND else memory


def after(case: Case, memory: Memory, now: datetime) -> Memory:
    """What is to be remembered once this verdict is known; equal to `memory` where nothing needs to be written.

    Use, change and protection close the spell; `unknown` and what costs nothing say nothing about it. Give it the case as judged,
    before `spared_by_memory`, so that a spell lasts through a snooze. Snoozes, acts and manifests are never touched but when over.
    """
    if memory.snoozed_until and memory.snoozed_until <= now:
        memory = _awake(_silent(memory) if _answered(memory, now) else memory)
    if case.verdict.state in {State.ACTIVE, State.YOUNG} or case.rule.protected:
        return replace(_silent(memory), idle_since=None, idle_seen=None)
    return _idle(case, memory, now) if may_move(case) else memory


def _step(case: Case, memory: Memory, now: datetime) -> Step:
    if not may_move(case):
        return Step(move=Move.NONE, because=f"nothing to do: it is {case.verdict.state}")
    if _snoozed(memory, now):
        return Step(move=Move.NONE, because=_kept(memory))
    last = None if _void(case, memory, now) else _last(memory)
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(move=Move.WARN, because=f"idle for more than {text(case.rule.idle_after)} under {case.rule.name}{notes}")
    due = last + case.rule.remind_every
    if now < due:
        return Step(move=Move.NONE, because=f"its owner was told {text(now - last)} ago and is reminded in {text(due - now)}")
    if notice(case, memory, now) is None:
        return Step(move=Move.WARN, because=f"idle again for more than {text(case.rule.idle_after)} after a time without proof")
    return Step(move=Move.REMIND, because=f"still idle, and its owner was last told {text(now - last)} ago")


def _idle(case: Case, memory: Memory, now: datetime) -> Memory:
    """`idle_seen` is renewed when half of the proof has passed since: often enough for the proof to reach it, seldom enough to be cheap."""
    fresh = memory.idle_seen is not None and now - memory.idle_seen < (now - _begun(case, now)) / 2
    kept = _silent(memory) if _void(case, memory, now) else memory
    return replace(kept, idle_since=_spell(case, memory, now), idle_seen=memory.idle_seen if fresh else now)


def _begun(case: Case, now: datetime) -> datetime:
    """Since when the verdict proves it idle."""
    return now - (case.verdict.idle_for or case.rule.idle_after)


def _spell(case: Case, memory: Memory, now: datetime) -> datetime:
    """When the present idle spell began: the remembered moment if the proof reaches back to when it was last seen idle."""
    begun = _begun(case, now)
    if memory.idle_since is None or memory.idle_seen is None or begun > memory.idle_seen:
        return begun
    return max([min(memory.idle_since, begun), *_ends(case)])


def _ends(case: Case) -> list[datetime]:
    """Everything known that ends a spell: the last use, creation, the last change."""
    return [t for t in (case.verdict.last_busy, case.resource.created, case.resource.changed) if t]


def _void(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether the last notice says nothing any more: answered by a snooze that is over, followed by use, or of another spell.

    After a mere gap in the proof nobody is told again before the usual time; as grace for an act (`notice`) it no longer counts.
    """
    last = _last(memory)
    if last is None:
        return False
    strange = memory.idle_seen is None and last < _spell(case, memory, now)
    return strange or _answered(memory, now) or any(end > last for end in _ends(case))


def _answered(memory: Memory, now: datetime) -> bool:
    """Whether the last notice led to a snooze, which has passed."""
    last, until = _last(memory), memory.snoozed_until
    return last is not None and until is not None and last < until <= now


def _last(memory: Memory) -> datetime | None:
    return max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)


def _silent(memory: Memory) -> Memory:
    return replace(memory, warned_at=None, reminded_at=None, receipt=None)


def _awake(memory: Memory) -> Memory:
    return replace(memory, snoozed_until=None, snoozed_by=None, snoozed_why=None)


def _snoozed(memory: Memory, now: datetime) -> bool:
    return memory.snoozed_until is not None and memory.snoozed_until > now


def _kept(memory: Memory) -> str:
    """The sentence about a snooze that holds."""
    until = memory.snoozed_until.astimezone(UTC) if memory.snoozed_until else None
    why = f": {memory.snoozed_why}" if memory.snoozed_why else ""
    return f"kept by {memory.snoozed_by or 'somebody'} until {until:%Y-%m-%d %H:%M} UTC{why}"
