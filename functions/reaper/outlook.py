"""What happens next to a resource and when, said so that it is true: nothing that the run mode or the evidence forbids is announced. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reaper.figures import moment
from reaper.model import Action, Confidence, Finding, Memory, Mode, Move

DONE = {
    Move.STOP: "It was stopped.",
    Move.DELETE: "It was deleted. Everything needed to make it again was stored first.",
    Move.START: "It was started again.",
}


def following(found: Finding, mode: Mode, memory: Memory, now: datetime) -> str:
    """One or two sentences for its owner. The grace runs from the notice of this idle spell, so a first notice starts it at `now`."""
    if found.step.move in DONE:
        return DONE[found.step.move]
    when = act_at(found, mode, memory, now)
    if when is None:
        return _why_nothing(found, mode)
    verb = (
        "deleted, with everything needed to make it again stored first," if found.case.rule.action is Action.DELETE else "stopped"
    )
    time = f"on {moment(when)} or soon after" if when > now else "at one of the next sweeps"
    return f"It will be {verb} {time}, unless it is used or kept before."


def act_at(found: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """The earliest moment at which the policy lets it be acted on; None when it never does by itself."""
    rule, verdict = found.case.rule, found.case.verdict
    proven = verdict.confidence is Confidence.PROVEN or rule.act_on is Confidence.LIKELY
    if mode is not Mode.ENFORCE or rule.action.rank < Action.STOP.rank or not proven or found.step.move in DONE:
        return None
    return (memory.warned_at or now) + rule.grace


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """Of all in a message, how many will be acted on, how (`stopped`, `deleted` or both), and when the first of them."""

    count: int
    how: str
    first: datetime


def coming(found: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> Coming | None:
    """What the top of a message announces; None when nothing happens by itself. A date in the past is given as `now`."""
    dates = [(f, when) for f in found if (when := act_at(f, mode, memories.get(f.case.resource.id, Memory()), now))]
    if not dates:
        return None
    verbs = sorted({"deleted" if f.case.rule.action is Action.DELETE else "stopped" for f, _ in dates}, reverse=True)
    return Coming(count=len(dates), how=" or ".join(verbs), first=max(now, min(when for _, when in dates)))


def _why_nothing(found: Finding, mode: Mode) -> str:
    likely = found.case.verdict.confidence is Confidence.LIKELY and found.case.rule.action.rank >= Action.STOP.rank
    reason = "The evidence is indirect, so nothing" if likely and mode is Mode.ENFORCE else "Nothing"
    return f"{reason} is done to it by itself; it costs until you stop it."
