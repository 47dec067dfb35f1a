"""One idle spell: when it began, whether the last notice still speaks of it, and what is remembered of it. Pure.

A window of metrics moves on with every sweep, so a spell is known again by its proof reaching back to the moment when it was last seen
idle, not by when the proof begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from reaper.model import Case, Memory

SKEW = timedelta(minutes=10)
"""A notice that is dated later than this from now was written by a wrong clock, and does not count."""


def renewed(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory of a resource that was just seen idle.

    `idle_seen` is renewed when half of the proof has passed since: often enough for the proof to reach it, seldom enough to be cheap.
    """
    fresh = memory.idle_seen is not None and now - memory.idle_seen < (now - begun(case, now)) / 2
    kept = silent(memory) if void(case, memory, now) else memory
    return replace(kept, idle_since=began(case, memory, now), idle_seen=memory.idle_seen if fresh else now)


def begun(case: Case, now: datetime) -> datetime:
    """Since when the verdict proves it idle."""
    return now - (case.verdict.idle_for or case.rule.idle_after)


def began(case: Case, memory: Memory, now: datetime) -> datetime:
    """When the present idle spell began: the remembered moment if the proof reaches back to when it was last seen idle."""
    start = begun(case, now)
    if memory.idle_since is None or memory.idle_seen is None or start > memory.idle_seen:
        return start
    return max([min(memory.idle_since, start), *ends(case)])


def ends(case: Case) -> list[datetime]:
    """Everything known that ends a spell: the last use, creation, the last change."""
    return [t for t in (case.verdict.last_busy, case.resource.created, case.resource.changed) if t]


def void(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether the last notice says nothing any more: answered by a snooze that is over, followed by use, meant for somebody else, or of
    another spell.

    After a mere gap in the proof nobody is told again before the usual time; as grace for an act (`notice`) it no longer counts.
    """
    last = last_notice(memory)
    if last is None:
        return False
    strange = last > now + SKEW or (memory.idle_seen is None and last < began(case, memory, now))
    return strange or answered(memory, now) or of_another(case, memory) or any(end > last for end in ends(case))


def of_another(case: Case, memory: Memory) -> bool:
    """Whether the last notice went to somebody who is no longer its owner, or was about it in another shape."""
    handed_over = memory.told is not None and case.owner is not None and memory.told.lower() != case.owner.lower()
    shape = case.resource.facts.get("shape")
    return handed_over or (memory.shape is not None and shape is not None and memory.shape != shape)


def answered(memory: Memory, now: datetime) -> bool:
    """Whether the last notice led to a snooze, which has passed."""
    last, until = last_notice(memory), memory.snoozed_until
    return last is not None and until is not None and last < until <= now


def last_notice(memory: Memory) -> datetime | None:
    """When its owner was last told, by whichever notice."""
    return max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)


def silent(memory: Memory) -> Memory:
    """The memory as if nobody had been told."""
    return replace(
        memory, warned_at=None, reminded_at=None, receipt=None, told=None, shape=None, announced=None, promised=None, held_at=None
    )


def awake(memory: Memory) -> Memory:
    """The memory without its snooze."""
    return replace(memory, snoozed_until=None, snoozed_at=None, snoozed_by=None, snoozed_why=None)
