"""The verdict: is this resource idle, and is that proven? Pure; the order of the checks is the product's promise.

A resource is `idle` only when nothing protects it, nothing shows use, it is old enough, every reply was complete, and either the
heartbeat was alive over the whole silent stretch (`proven`) or the kind offers indirect evidence instead (`likely`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper.duration import text
from reaper.evidence import SETTLE, heard, last_busy, last_used, watched_from
from reaper.model import Confidence, Hint, Observation, Reading, Resource, Role, Rule, State, Verdict


def judge(resource: Resource, observation: Observation, rule: Rule, now: datetime) -> Verdict:
    """What can be said of `resource` at `now` under `rule`. Times are aware; nothing is read but the arguments."""
    used = last_used(observation)
    verdict = (
        _spared(resource, observation, rule, now)
        or _doubtful(resource, observation, rule, now)
        or _quiet(resource, observation, rule, now)
    )
    return Verdict(
        state=verdict.state, because=verdict.because, idle_for=verdict.idle_for, last_busy=used, confidence=verdict.confidence
    )


def _spared(resource: Resource, seen: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Protection first, then any sign of use, then what costs nothing."""
    if resource.tags is None:
        return Verdict(state=State.UNKNOWN, because="its tags could not be read, and a tag may protect it")
    if rule.protected:
        return Verdict(state=State.EXEMPT, because=rule.protected)
    if seen.in_use:
        return Verdict(state=State.ACTIVE, because=seen.in_use)
    used = last_used(seen)
    if used and now - used < rule.idle_after:
        return Verdict(state=State.ACTIVE, because=f"{_busiest(seen)} shows use {_ago(now - used)}")
    if seen.free:
        return Verdict(state=State.EXEMPT, because=seen.free)
    return None


def _doubtful(resource: Resource, seen: Observation, rule: Rule, now: datetime) -> Verdict | None:
    """Whatever keeps silence from meaning anything: too new, just changed, or an incomplete answer."""
    if seen.unsettled:
        return Verdict(state=State.YOUNG, because=seen.unsettled)
    if resource.created is None:
        return Verdict(state=State.UNKNOWN, because="when it was created is not known")
    for event, when in (("created", resource.created), ("changed", resource.changed)):
        if when and now - when < rule.idle_after:
            return Verdict(state=State.YOUNG, because=f"{event} {_ago(now - when)}, less than {text(rule.idle_after)}")
    if seen.blind:
        return Verdict(state=State.UNKNOWN, because=seen.blind)
    partial = [r for r in seen.readings if not r.complete]
    if partial:
        return Verdict(state=State.UNKNOWN, because=f"the reply for {_names(partial)} was incomplete")
    return None


def _quiet(resource: Resource, seen: Observation, rule: Rule, now: datetime) -> Verdict:
    """Silence with a heartbeat is proof; silence without one is a hint at best."""
    activity = [r for r in seen.readings if r.role is Role.ACTIVITY]
    hearts = [r for r in seen.readings if r.role is Role.HEARTBEAT]
    since = watched_from(seen, now - SETTLE)
    if since is None or now - since < rule.idle_after:
        if seen.hint and not heard(seen):
            return _likely(resource, seen, seen.hint, rule, now)
        return Verdict(state=State.UNKNOWN, because=_unproven(hearts, since, rule, now))
    idle_for = now - _latest(resource, seen, since)
    because = f"{_names(activity)} silent for {text(idle_for)} while {_names(hearts)} reported every hour"
    return Verdict(state=State.IDLE, because=because, idle_for=idle_for, confidence=Confidence.PROVEN)


def _likely(resource: Resource, seen: Observation, hint: Hint, rule: Rule, now: datetime) -> Verdict:
    idle_for = now - _latest(resource, seen, hint.since)
    if idle_for < rule.idle_after:
        return Verdict(
            state=State.YOUNG,
            because=f"{hint.because}; that is only {text(max(idle_for, timedelta()))}, less than {text(rule.idle_after)}",
        )
    return Verdict(state=State.IDLE, because=hint.because, idle_for=idle_for, confidence=Confidence.LIKELY)


def _latest(resource: Resource, seen: Observation, since: datetime) -> datetime:
    """When the idle spell began: the last use, birth or change, or the start of the proof, whichever came last."""
    return max(t for t in (since, last_used(seen), resource.created, resource.changed) if t)


def _unproven(hearts: list[Reading], since: datetime | None, rule: Rule, now: datetime) -> str:
    if not hearts:
        return "no signal shows whether its metrics pipeline was alive, so silence proves nothing"
    if since is None:
        return f"no unbroken {_names(hearts)} up to now, so silence proves nothing"
    return f"{_names(hearts)} covers only the last {text(now - since)} without a gap, less than {text(rule.idle_after)}"


def _busiest(seen: Observation) -> str:
    readings = [(busy, r) for r in seen.readings if r.role is Role.ACTIVITY and (busy := last_busy(r))]
    return _names([max(readings, key=lambda pair: pair[0])[1]])


def _names(readings: list[Reading]) -> str:
    names = list(dict.fromkeys(f"{r.signal} of {r.subject}" if r.subject else r.signal for r in readings))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _ago(length: timedelta) -> str:
    return f"{text(length)} ago" if length >= timedelta(minutes=1) else "just now"
