"""One observation becomes one case: its rule, verdict, owner, price, evidence, and what blocks each action. Pure.

`observe` assesses every resource of a run. `act` assesses each one again right before its action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from reaper.case import Blocked, Case
from reaper.errors import ODD_REPLY_ERRORS
from reaper.evidence import busy_hours, summarize
from reaper.judge import judge_resource
from reaper.kind import Kind
from reaper.model import Resource, State, StepName, is_native
from reaper.observation import Observation
from reaper.policy import owners, rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook

DRAWN_STATES = frozenset({State.IDLE, State.UNKNOWN})
"""The states whose signals the report draws."""


def assess(observation: Observation, kind: Kind[Any], policy: Policy, prices: PriceBook, now: datetime) -> Case:
    """The case of one observed resource at `now`, from cloud facts alone, without the ledger."""
    resource = observation.resource
    price = prices.price(resource)
    usd = price.usd_per_hour if price else None
    rule = rules.effective_rule(policy, resource, usd, now)
    verdict = judge_resource(observation, rule, now)
    resource = replace(resource, stop_by=rule.stop_by if kind.has_idle_shutdown else "stop")
    drawn = verdict.state in DRAWN_STATES
    busy_from, bits = busy_hours(observation)
    blocked = _blocked_actions(resource, kind)
    if rule.hours and is_native(resource, StepName.STOP):
        because = "it has office hours, which its own idle shutdown (`stop_by: native`) wouldn't heed"
        blocked[StepName.STOP] = blocked.get(StepName.STOP) or Blocked(because=because)
    return Case(
        resource=resource,
        rule=rule,
        verdict=verdict,
        usd_per_hour=usd,
        owner=owners.owner(resource, policy.owners.tags, policy.owners.domains, policy.owners.fallback),
        price=price,
        evidence=tuple(summarize(reading, with_slots=drawn) for reading in observation.readings),
        blocked=blocked,
        saves_usd_per_hour=_saves_usd_per_hour(resource, usd, kind, prices),
        stop_leaves_cost=_stop_leaves_cost(resource, kind, blocked),
        busy_from=busy_from,
        busy_hours=bits,
        excess_usd_per_hour=_excess_usd_per_hour(resource, usd, kind, prices),
    )


def _blocked_actions(resource: Resource, kind: Kind[Any]) -> dict[StepName, Blocked | None]:
    """What blocks each action."""
    if unread := resource.unread_because:
        return {action: Blocked(because=unread) for action in kind.actions}
    try:
        blocked = dict(kind.blocked_actions(resource))
    except ODD_REPLY_ERRORS as error:
        because = f"a reply about it couldn't be understood ({error!r})"
        return {action: Blocked(because=because) for action in kind.actions}
    if everywhere := resource.target.blocked_because:
        blocked = {action: found or Blocked(because=everywhere) for action, found in blocked.items()}
    return blocked


def _saves_usd_per_hour(resource: Resource, usd: float | None, kind: Kind[Any], prices: PriceBook) -> Mapping[StepName, float]:
    """What each action that ends a cost would save an hour. Empty if a price is unknown."""
    saves: dict[StepName, float] = {}
    for action in (StepName.STOP, StepName.DELETE) if usd is not None else ():
        parts_left = kind.parts_after(resource, action) if action in kind.actions else None
        price = prices.price(replace(resource, parts=parts_left))
        if usd is not None and (parts_left == () or price):
            saves[action] = round(usd - (price.usd_per_hour if price else 0.0), 6)
    return saves


def _stop_leaves_cost(resource: Resource, kind: Kind[Any], blocked: Mapping[StepName, Blocked | None]) -> bool:
    """Whether something is known to be paid for once it is stopped, or is as a stop would leave it."""
    stop = blocked.get(StepName.STOP)
    is_open = StepName.STOP in blocked and (stop is None or stop.already_done)
    return is_open and bool(kind.parts_after(resource, StepName.STOP))


def _excess_usd_per_hour(resource: Resource, usd: float | None, kind: Kind[Any], prices: PriceBook) -> float:
    """What of its cost its own autoscaling may end. All of it if that has no price: no saving may contain it."""
    parts_anyway = kind.parts_anyway(resource)
    if usd is None or parts_anyway == resource.parts:
        return 0.0
    price = prices.price(replace(resource, parts=parts_anyway))
    return usd if price is None else round(usd - price.usd_per_hour, 6)
