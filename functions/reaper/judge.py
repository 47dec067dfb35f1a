"""The verdict: is this resource idle, and is that proven? Pure; the order of the checks is the product's promise.

A resource is `idle` only when nothing protects it, nothing shows use, it is old enough, every reply was complete, and either the
heartbeat was alive over the whole silent stretch (`proven`) or the kind offers indirect evidence instead (`likely`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper.duration import format_duration
from reaper.evidence import ARRIVAL_DELAY, has_heartbeat, last_busy, last_used, watched_from
from reaper.model import Confidence, Resource, Role, Rule, State, Verdict
from reaper.observation import IndirectEvidence, Observation, Reading


def judge_resource(resource: Resource, observation: Observation, rule: Rule, now: datetime) -> Verdict:
    """The verdict on `resource` at `now` under `rule`. Times are aware; only the arguments are read."""
    used = last_used(observation)
    verdict = (
        _not_idle(resource, observation, rule, now)
        or _undecided(resource, observation, rule, now)
        or _from_silence(resource, observation, rule, now)
    )
    return Verdict(
        state=verdict.state, because=verdict.because, idle_for=verdict.idle_for, last_busy=used, confidence=verdict.confidence
    )


def _not_idle(resource: Resource, observation: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Protection first, then any sign of use, then resources that cost nothing."""
    if resource.tags is None:
        return Verdict(state=State.UNKNOWN, because="its tags couldn't be read, and a tag may protect it")
    if rule.protected_because:
        return Verdict(state=State.EXEMPT, because=rule.protected_because)
    if observation.in_use_because:
        return Verdict(state=State.ACTIVE, because=observation.in_use_because)
    used = last_used(observation)
    if used and now - used < rule.idle_after:
        return Verdict(state=State.ACTIVE, because=f"{_last_busy_signal(observation)} use {_ago_text(now - used)}")
    if observation.free_because:
        return Verdict(state=State.EXEMPT, because=observation.free_because)
    return None


def _undecided(resource: Resource, observation: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Reasons why silence means nothing: the resource is too new, has just changed, or a reply was incomplete."""
    if observation.changing_because:
        return Verdict(state=State.YOUNG, because=observation.changing_because)
    if resource.created is None:
        return Verdict(state=State.UNKNOWN, because="its creation time is unknown")
    for event, when in (("created", resource.created), ("changed", resource.changed)):
        if when and now - when < rule.idle_after:
            return Verdict(
                state=State.YOUNG,
                because=f"{event} {_ago_text(now - when)}, less than idle_after ({format_duration(rule.idle_after)})",
            )
    if observation.unknown_because:
        return Verdict(state=State.UNKNOWN, because=observation.unknown_because)
    partial = [r for r in observation.readings if not r.complete]
    if partial:
        return Verdict(state=State.UNKNOWN, because=f"the reply for {_signal_names(partial)} was incomplete")
    return None


def _from_silence(resource: Resource, observation: Observation, rule: Rule, now: datetime) -> Verdict:
    """Silence with a heartbeat is proof. Without a heartbeat it is a hint at best."""
    activity = [r for r in observation.readings if r.role is Role.ACTIVITY]
    heartbeats = [r for r in observation.readings if r.role is Role.HEARTBEAT]
    since = watched_from(observation, now - ARRIVAL_DELAY)
    if since is None or now - since < rule.idle_after:
        if observation.indirect_evidence and not has_heartbeat(observation):
            return _from_indirect_evidence(resource, observation, observation.indirect_evidence, rule, now)
        return Verdict(state=State.UNKNOWN, because=_unproven_because(heartbeats, since, rule, now))
    idle_for = now - _idle_since(resource, observation, since)
    because = f"no activity in {_signal_names(activity)} for {format_duration(idle_for)}, while {_signal_names(heartbeats)} reported every hour"
    return Verdict(state=State.IDLE, because=because, idle_for=idle_for, confidence=Confidence.PROVEN)


def _from_indirect_evidence(
    resource: Resource, observation: Observation, hint: IndirectEvidence, rule: Rule, now: datetime
) -> Verdict:
    idle_for = now - _idle_since(resource, observation, hint.since)
    if idle_for < rule.idle_after:
        return Verdict(
            state=State.YOUNG,
            because=f"{hint.because}; that is only {format_duration(max(idle_for, timedelta()))}, less than idle_after ({format_duration(rule.idle_after)})",
        )
    return Verdict(state=State.IDLE, because=hint.because, idle_for=idle_for, confidence=Confidence.LIKELY)


def _idle_since(resource: Resource, observation: Observation, since: datetime) -> datetime:
    """When the idle period began: the last use, creation or change, or the start of the proof, whichever came last."""
    return max(t for t in (since, last_used(observation), resource.created, resource.changed) if t)


def _unproven_because(heartbeats: list[Reading], since: datetime | None, rule: Rule, now: datetime) -> str:
    if not heartbeats:
        return "no signal shows whether its metrics pipeline was alive, so silence proves nothing"
    if since is None:
        return f"{_signal_names(heartbeats)} {'is missing or has' if len(heartbeats) == 1 else 'are missing or have'} stopped, so silence proves nothing"
    return f"{_signal_names(heartbeats)} {'is' if len(heartbeats) == 1 else 'are'} unbroken for only {format_duration(now - since)}, less than idle_after ({format_duration(rule.idle_after)})"


def _last_busy_signal(observation: Observation) -> str:
    readings = [(busy, r) for r in observation.readings if r.role is Role.ACTIVITY and (busy := last_busy(r))]
    latest = max(readings, key=lambda pair: pair[0])[1]
    return f"{_signal_names([latest])} {'saw' if latest.seen_at else 'showed'}"


def _signal_names(readings: list[Reading]) -> str:
    names = list(dict.fromkeys(f"{r.signal} of {r.subject}" if r.subject else r.signal for r in readings))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _ago_text(length: timedelta) -> str:
    return f"{format_duration(length)} ago" if length >= timedelta(minutes=1) else "just now"
