"""Cases that a snooze protects. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper import idle_period
from reaper.case import Case
from reaper.model import Memory, State, Verdict
from reaper.planning.possible_actions import may_act


def with_snooze(case: Case, memory: Memory, now: datetime, host: Memory | None = None) -> Case:
    """The case with an exempt verdict if it is idle and a snooze is in effect; otherwise the case unchanged.

    `host`: the memory of the resource that contains it. A snooze of that one protects this one too.
    """
    own = is_snoozed(case, memory, now)
    by_host = host is not None and host.snoozed_until is not None and host.snoozed_until > now
    if not may_act(case) or not (own or by_host):
        return case
    because = snooze_sentence(memory) if own or host is None else f"its host is {snooze_sentence(host)}"
    return replace(case, verdict=Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy))


def is_snoozed(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a snooze is in effect. A snooze from before the resource was created was for another one with the same ID."""
    return memory.snoozed_until is not None and memory.snoozed_until > now and not is_recreated(case, memory)


def is_recreated(case: Case, memory: Memory) -> bool:
    """Whether the resource was created after its snooze, under an ID that another resource had."""
    snoozed_at, created = memory.snoozed_at, case.resource.created
    return snoozed_at is not None and created is not None and created > snoozed_at + idle_period.MAX_CLOCK_SKEW


def snooze_sentence(memory: Memory) -> str:
    """The sentence about a snooze that is in effect."""
    until = memory.snoozed_until.astimezone(UTC) if memory.snoozed_until else None
    reason = f": {memory.snooze_reason}" if memory.snooze_reason else ""
    return f"snoozed until {until:%Y-%m-%d %H:%M} UTC by {memory.snoozed_by or 'someone'}{reason}"
