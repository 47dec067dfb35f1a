"""The verdict: is this resource idle, and is that proven? And the case around it: its rule, owner, price, evidence, and what blocks each action. Pure; the
order of the checks is the product's promise.

A resource is `idle` only when nothing protects it, nothing shows use, it is old enough, every reply was complete, and either the
heartbeat was alive over the whole silent stretch (`proven`) or the kind offers indirect evidence instead (`likely`).

`observe` assesses every resource of a run. `act` assesses each one again right before its action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reaper.case import Blocked, Case
from reaper.duration import format_duration
from reaper.errors import ODD_REPLY_ERRORS
from reaper.evidence import ARRIVAL_DELAY, busy_hours, has_heartbeat, last_busy, last_used, summarize, watched_from
from reaper.kind import Kind
from reaper.model import Confidence, Resource, Role, Rule, State, StepName, Verdict, is_native
from reaper.observation import Observation, Reading
from reaper.policy import owners, rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook


def judge_resource(observation: Observation, rule: Rule, now: datetime) -> Verdict:
    """The verdict on an observed resource at `now` under `rule`. Times are aware; only the arguments are read."""
    verdict = _not_idle(observation, rule, now) or _undecided(observation, rule, now) or _from_silence(observation, rule, now)
    return replace(verdict, last_busy=last_used(observation))


def _not_idle(observation: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Protection first, then any sign of use, then resources that cost nothing."""
    if observation.resource.tags is None:
        return Verdict(state=State.UNKNOWN, because="its tags couldn't be read, and a tag may protect it")
    if rule.protected_because:
        return Verdict(state=State.EXEMPT, because=rule.protected_because)
    if observation.in_use_because:
        return Verdict(state=State.ACTIVE, because=observation.in_use_because)
    used = last_used(observation)
    if used and now - used < rule.idle_after:
        seen = [(busy, r) for r in observation.readings if r.role is Role.ACTIVITY and (busy := last_busy(r))]
        _, latest = max(seen, key=lambda pair: pair[0])
        verb = "saw" if latest.seen_at else "showed"
        return Verdict(state=State.ACTIVE, because=f"{_signal_names([latest])} {verb} use {_ago_text(now - used)}")
    if observation.free_because:
        return Verdict(state=State.EXEMPT, because=observation.free_because)
    return None


def _undecided(observation: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Reasons why silence means nothing: the resource is too new, has just changed, or a reply was incomplete."""
    resource = observation.resource
    if observation.changing_because:
        return Verdict(state=State.YOUNG, because=observation.changing_because)
    if resource.created is None:
        return Verdict(state=State.UNKNOWN, because="its creation time is unknown")
    for event, when in (("created", resource.created), ("changed", resource.changed)):
        if when and now - when < rule.idle_after:
            because = f"{event} {_ago_text(now - when)}, less than idle_after ({format_duration(rule.idle_after)})"
            return Verdict(state=State.YOUNG, because=because)
    if observation.unknown_because:
        return Verdict(state=State.UNKNOWN, because=observation.unknown_because)
    partial = [r for r in observation.readings if not r.complete]
    if partial:
        return Verdict(state=State.UNKNOWN, because=f"the reply for {_signal_names(partial)} was incomplete")
    return None


def _from_silence(observation: Observation, rule: Rule, now: datetime) -> Verdict:
    """Silence with a heartbeat is proof. Without a heartbeat it is a hint at best."""
    activity = [r for r in observation.readings if r.role is Role.ACTIVITY]
    heartbeats = [r for r in observation.readings if r.role is Role.HEARTBEAT]
    since, hint = watched_from(observation, now - ARRIVAL_DELAY), observation.indirect_evidence
    if since is None or now - since < rule.idle_after:
        if not hint or has_heartbeat(observation):
            return Verdict(state=State.UNKNOWN, because=_unproven_because(heartbeats, since, rule, now))
        idle_for = now - _idle_since(observation, hint.since)
        if idle_for >= rule.idle_after:
            return Verdict(state=State.IDLE, because=hint.because, idle_for=idle_for, confidence=Confidence.LIKELY)
        only = f"{format_duration(max(idle_for, timedelta()))}, less than idle_after ({format_duration(rule.idle_after)})"
        return Verdict(state=State.YOUNG, because=f"{hint.because}; that is only {only}")
    idle_for = now - _idle_since(observation, since)
    because = f"no activity in {_signal_names(activity)} for {format_duration(idle_for)}, while {_signal_names(heartbeats)} reported every hour"
    return Verdict(state=State.IDLE, because=because, idle_for=idle_for, confidence=Confidence.PROVEN)


def _idle_since(observation: Observation, since: datetime) -> datetime:
    """When the idle period began: the last use, creation or change, or the start of the proof, whichever came last."""
    created, changed = observation.resource.created, observation.resource.changed
    return max(t for t in (since, last_used(observation), created, changed) if t)


def _unproven_because(heartbeats: list[Reading], since: datetime | None, rule: Rule, now: datetime) -> str:
    if not heartbeats:
        return "no signal shows whether its metrics pipeline was alive, so silence proves nothing"
    if since is None:
        return f"{_signal_names(heartbeats)} {'is missing or has' if len(heartbeats) == 1 else 'are missing or have'} stopped, so silence proves nothing"
    return f"{_signal_names(heartbeats)} {'is' if len(heartbeats) == 1 else 'are'} unbroken for only {format_duration(now - since)}, less than idle_after ({format_duration(rule.idle_after)})"


def _signal_names(readings: list[Reading]) -> str:
    names = list(dict.fromkeys(f"{r.signal} of {r.subject}" if r.subject else r.signal for r in readings))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _ago_text(length: timedelta) -> str:
    return f"{format_duration(length)} ago" if length >= timedelta(minutes=1) else "just now"


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
