"""One idle spell: when it began, whether the last notice still speaks of it, and what is remembered of it. Pure.

A window of metrics moves on with every sweep, so a spell is known again by its proof reaching back to the moment when it was last seen
idle, not by when the proof begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from reaper.model import Announced, Case, Memory, Result

SKEW = timedelta(minutes=10)
"""A notice that is dated later than this from now was written by a wrong clock, and does not count."""
STOPPING = timedelta(minutes=15)
"""So long after an action was begun a change may still be that action; a later one was somebody's own."""
LAPSE = timedelta(days=14)
"""So long after its date or its last mail a notice counts at least; two rounds of reminders where these are longer."""
VOID = "-"
"""Instead of a digest: an enrolment that a snooze has answered. The time of its last mail stays, for when the next one may be sent."""


def renewed(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory of a resource that was just seen idle.

    `idle_seen` is renewed when half of the proof has passed since: often enough for the proof to reach it, seldom enough to be cheap.
    """
    fresh = memory.idle_seen is not None and now - memory.idle_seen < (now - begun(case, now)) / 2
    kept = silent(memory) if not lasting(case, memory) and void(case, memory, now) else memory
    return replace(kept, idle_since=began(case, memory, now), idle_seen=memory.idle_seen if fresh else now)


def begun(case: Case, now: datetime) -> datetime:
    """Since when the verdict proves it idle."""
    return now - (case.verdict.idle_for or case.rule.idle_after)


def began(case: Case, memory: Memory, now: datetime) -> datetime:
    """When the present idle spell began: the remembered moment if the proof reaches back to when it was last seen idle."""
    start = begun(case, now)
    if memory.idle_since is None or memory.idle_seen is None or start > memory.idle_seen:
        return start
    return max([min(memory.idle_since, start), *ends(case, memory)])


def ends(case: Case, memory: Memory) -> list[datetime]:
    """Everything known that ends a spell: the last use, creation, the last change, unless that is what our own action left."""
    changed = None if of_a_part(memory) and _ours(case, memory) else case.resource.changed
    return [t for t in (case.verdict.last_busy, case.resource.created, changed) if t]


def void(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether the last notice says nothing any more: answered by a snooze that is over, followed by use, meant for somebody else, of
    another spell, or so old that nobody remembers it.

    After a mere gap in the proof nobody is told again before the usual time; as grace for an act (`notice`) it no longer counts.
    """
    last = last_notice(memory)
    if last is None:
        return False
    if last > now + SKEW or answered(memory, now) or lapsed(case, memory, now) or of_another(case, memory):
        return True
    if any(end > last for end in ends(case, memory)) or _joined(case, memory):
        return True
    return not of_a_part(memory) and memory.idle_seen is None and last < began(case, memory, now)


def lapsed(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether an announcement is too long past its date or its last mail, whichever came later, to be acted on without a new one."""
    last = last_notice(memory)
    if last is None or memory.announced is None:
        return False
    return now > max(last, memory.promised or last) + lapse(case)


def lapse(case: Case) -> timedelta:
    """How long after its date or its last mail a notice counts."""
    return max(LAPSE, 2 * case.rule.remind_every)


def of_another(case: Case, memory: Memory) -> bool:
    """Whether the last notice went to somebody who is no longer its owner, or was about it in another shape."""
    shape = case.resource.facts.get("shape")
    return handed_over(case, memory) or (memory.shape is not None and shape is not None and memory.shape != shape)


def handed_over(case: Case, memory: Memory) -> bool:
    """Whether the last notice went to somebody who is no longer its owner."""
    return memory.told is not None and case.owner is not None and memory.told.lower() != case.owner.lower()


def of_a_part(memory: Memory) -> bool:
    """Whether the last notice is the very mail about the first part of an action, which announced the rest of it."""
    done = memory.act_part is not None and memory.act_result is Result.DONE
    return done and memory.warned_at is not None and memory.warned_at == memory.act_told


def enrolling(memory: Memory) -> bool:
    """Whether the last notice was one about office hours, which use and idleness have nothing to do with."""
    return memory.announced is Announced.HOURS


def lasting(case: Case, memory: Memory) -> bool:
    """Whether use ends no notice of it: what office hours are about is used every day, and one mail about that is enough for a while."""
    by_hours = case.rule.hours is not None and case.rule.hours.by_rule
    return enrolling(memory) or (by_hours and memory.announced is None)


def answered(memory: Memory, now: datetime) -> bool:
    """Whether the last notice led to a snooze, which has passed."""
    last, until = last_notice(memory), memory.snoozed_until
    if enrolling(memory):
        last = memory.warned_at
    return last is not None and until is not None and last < until <= now


def last_notice(memory: Memory) -> datetime | None:
    """When its owner was last told, by whichever notice."""
    return max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)


def silent(memory: Memory) -> Memory:
    """The memory as if nobody had been told."""
    return replace(
        memory,
        warned_at=None,
        reminded_at=None,
        receipt=None,
        told=None,
        shape=None,
        announced=None,
        promised=None,
        enrolled=None,
        held_at=None,
    )


def spent(memory: Memory) -> Memory:
    """The memory once a snooze has answered its notice: another notice is needed before anything is done."""
    return replace(memory, enrolled=VOID) if enrolling(memory) else silent(memory)


def awake(memory: Memory) -> Memory:
    """The memory without its snooze."""
    return replace(memory, snoozed_until=None, snoozed_at=None, snoozed_by=None, snoozed_why=None)


def _joined(case: Case, memory: Memory) -> bool:
    """Whether something was put on it since the action of which the notice announced the rest: that is never our own doing."""
    joined = case.resource.facts.get("joined")
    return of_a_part(memory) and joined is not None and memory.acted_at is not None and joined > memory.acted_at


def _ours(case: Case, memory: Memory) -> bool:
    """Whether the last change is what our own last action did."""
    acted, changed = memory.acted_at, case.resource.changed
    return acted is not None and changed is not None and changed <= acted + STOPPING
