"""What lives in a resource and would go with it: its own owner's snooze, or a notice that never reached that owner, keeps the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper import idle_period, plan_reasons, possible_actions
from reaper.model import Case, Memory, Resource, Result, StepName
from reaper.policy import owners
from reaper.policy.schema import Owners


def inner_ids(resource: Resource) -> frozenset[str]:
    """The ids of what lives in it."""
    return frozenset(inner.id for inner in resource.contained)


def snoozed_inside(resource: Resource, memories: Mapping[str, Memory], now: datetime) -> str | None:
    """Whose snooze keeps a thing inside, as a sentence; None where nobody's does."""
    for inner in resource.contained:
        memory = memories.get(inner.id, Memory())
        if memory.snoozed_until and memory.snoozed_until > now:
            until = f"{memory.snoozed_until:%Y-%m-%d %H:%M} UTC"
            return f"{inner.name} inside it is kept by {memory.snoozed_by or 'somebody'} until {until}"
    return None


def untold_inside(case: Case, memories: Mapping[str, Memory], move: StepName, chain: Owners, now: datetime) -> str | None:
    """Why a thing inside must not go with it yet: its present owner was promised something else, or told nothing. None where all were told.

    The notice about what it lives in speaks for it where both have one owner, until a later mail about it says otherwise.
    """
    inside = case.resource.contained if move in possible_actions.ACTION_STRENGTH else ()
    return next((why for inner in inside if (why := _untold_because(inner, case, memories, move, chain, now))), None)


def _untold_because(
    inner: Resource, case: Case, memories: Mapping[str, Memory], move: StepName, chain: Owners, now: datetime
) -> str | None:
    memory, since = memories.get(inner.id, Memory()), memories.get(case.resource.id, Memory()).warned_at
    theirs = owners.owner(inner, chain.tags, chain.domains, chain.fallback).address
    last, present = (
        idle_period.last_notice_at(memory),
        _is_same_owner(memory.notified_owner or theirs, theirs) and not idle_period.notice_lapsed(case, memory, now),
    )
    if (
        present
        and possible_actions.ACTION_STRENGTH.get(memory.announced_action or "", 0) >= possible_actions.ACTION_STRENGTH[move]
    ):
        early = memory.act_not_before is not None and memory.act_not_before > now
        return (
            f"{inner.name} inside it is announced for {memory.act_not_before:%Y-%m-%d %H:%M} UTC, and not before"
            if early
            else None
        )
    if not _is_same_owner(theirs, case.owner.address) and not _was_stopped_by_us(memory):
        return f"{inner.name} inside it belongs to another owner, who has not been told that it will be {plan_reasons.PARTICIPLES[move]}"
    if last and since and last > since:
        return f"the last mail about {inner.name} inside it no longer said that it will be {plan_reasons.PARTICIPLES[move]}"
    return None


def unannounceable_inside(case: Case, cases: Mapping[str, Case], memories: Mapping[str, Memory], now: datetime) -> str | None:
    """Why nothing can be announced: a thing inside has another owner, and nothing will be announced to that one. `cases`: the run's, by id.

    As a clause that follows its name. Where the thing inside was not looked for, only the look right before the action can tell.
    """
    for inner in case.resource.contained:
        guest, memory = cases.get(inner.id), memories.get(inner.id, Memory())
        if (
            guest is None
            or _is_same_owner(guest.owner.address, case.owner.address)
            or possible_actions.strongest_action(guest, now)
            or memory.announced_action
            or _was_stopped_by_us(memory)
        ):
            continue
        return f"{inner.name} inside it belongs to another owner, to whom nothing can be announced"
    return None


def _was_stopped_by_us(memory: Memory) -> bool:
    """Whether it was we who stopped it, so that its owner knows."""
    return memory.last_action is StepName.STOP and memory.last_action_result is Result.DONE


def _is_same_owner(one: str | None, other: str | None) -> bool:
    return (one or "").lower() == (other or "").lower()
