"""Resources that live in another one and would go with it: their owner's snooze, or a missing notice to that owner, protects both. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from reaper import idle_period
from reaper.case import Case, Owner
from reaper.model import Memory, Resource, Result, StepName
from reaper.planning import possible_actions, reasons
from reaper.planning.valid_notice import void_because
from reaper.policy import owners
from reaper.policy.schema import Owners


def inner_owner(inner: Resource, memory: Memory | None, chain: Owners) -> Owner:
    """The present owner of a resource inside, by the policy and what the ledger has on it."""
    found = owners.owner(inner, chain.tags, chain.domains, chain.fallback)
    return owners.present_owner(found, inner, memory, chain.fallback)


def snoozed_inside(resource: Resource, memories: Mapping[str, Memory], now: datetime) -> str | None:
    """The sentence about a snoozed resource inside; None if none is snoozed."""
    for inner in resource.contained:
        memory = memories.get(inner.id, Memory())
        if memory.snoozed_until and memory.snoozed_until > now:
            until = f"{memory.snoozed_until:%Y-%m-%d %H:%M} UTC"
            return f"{inner.name} inside it is snoozed until {until} by {memory.snoozed_by or 'someone'}"
    return None


def untold_inside(case: Case, memories: Mapping[str, Memory], action: StepName, chain: Owners, now: datetime) -> str | None:
    """Why a resource inside must not go with it yet: its present owner got no notice, or one that promised something else. None if all got one.

    If both have the same owner, the notice about the host counts for it too, until a later mail about it says otherwise.
    """
    inside = case.resource.contained if action in possible_actions.ACTION_STRENGTH else ()
    return next(
        (because for inner in inside if (because := _unnotified_because(inner, case, memories, action, chain, now))), None
    )


def _unnotified_because(
    inner: Resource, case: Case, memories: Mapping[str, Memory], action: StepName, chain: Owners, now: datetime
) -> str | None:
    memory, host_warned_at = memories.get(inner.id, Memory()), memories.get(case.resource.id, Memory()).warned_at
    address = inner_owner(inner, memory, chain).address
    is_current = _is_same_owner(memory.notified_owner or address, address)
    if is_current and not void_because(case, memory, now) and _is_announced(memory, action):
        return _too_early_because(inner, memory, now)
    if not _is_same_owner(address, case.owner.address) and not _was_stopped_by_reaper(memory):
        return f"{inner.name} inside it belongs to another owner, who has not been notified that it will be {reasons.PARTICIPLES[action]}"
    last = idle_period.last_notice_at(memory)
    if last and host_warned_at and last > host_warned_at:
        return f"the last notice about {inner.name} inside it doesn't announce that it will be {reasons.PARTICIPLES[action]}"
    return None


def _is_announced(memory: Memory, action: StepName) -> bool:
    """Whether the last notice announced this action or a stronger one."""
    strength = possible_actions.ACTION_STRENGTH
    return strength.get(memory.announced_action or "", 0) >= strength[action]


def _too_early_because(inner: Resource, memory: Memory, now: datetime) -> str | None:
    """Why an announced action waits: its date hasn't come."""
    if memory.act_not_before is None or memory.act_not_before <= now:
        return None
    return f"the action on {inner.name} inside it is announced for {memory.act_not_before:%Y-%m-%d %H:%M} UTC or later"


def unannounceable_inside(case: Case, cases: Mapping[str, Case], memories: Mapping[str, Memory], now: datetime) -> str | None:
    """Why no action can be announced: a resource inside has another owner, who won't get a notice. `cases`: the run's, by ID.

    If the sweep doesn't cover the resource inside, only the re-check before the action decides.
    """
    for inner in case.resource.contained:
        inner_case, memory = cases.get(inner.id), memories.get(inner.id, Memory())
        if (
            inner_case is None
            or _is_same_owner(inner_case.owner.address, case.owner.address)
            or possible_actions.strongest_action(inner_case, now)
            or memory.announced_action
            or _was_stopped_by_reaper(memory)
        ):
            continue
        return f"{inner.name} inside it belongs to another owner, who can't be notified of an action"
    return None


def _was_stopped_by_reaper(memory: Memory) -> bool:
    """Whether the reaper stopped it, so that its owner knows."""
    return memory.last_action is StepName.STOP and memory.last_action_result is Result.DONE


def _is_same_owner(address: str | None, other: str | None) -> bool:
    return (address or "").lower() == (other or "").lower()
