"""What happens next to a resource and when, said so that it is true: nothing that the run mode or the evidence forbids is announced. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reaper import plan, registry
from reaper.figures import moment, money
from reaper.model import Action, Confidence, Finding, Memory, Mode, Move

DONE = frozenset({Move.STOP, Move.DELETE, Move.START})
PLAIN = {Move.STOP: "stopped", Move.DELETE: "deleted", Move.START: "started again"}


def verb(found: Finding, move: Move) -> str:
    """What is said to be done to a resource of its kind: `stopped`, or for an endpoint `scaled in`. It completes `it was …`."""
    kind = found.case.resource.kind
    deeds = registry.kind(kind).deeds if kind in registry.names() else {}
    return deeds[move].verb if move in deeds else PLAIN.get(move, move.value)


def following(found: Finding, mode: Mode, memory: Memory, now: datetime) -> str:
    """One or two sentences for its owner. The grace runs from the notice of this idle spell, so a first notice starts it at `now`."""
    if found.step.move in DONE:
        return f"{_sentence(found.outcome.because or f'it was {verb(found, found.step.move)}')}."
    when = act_at(found, mode, memory, now)
    if when is None:
        return _why_nothing(found, mode)
    move = plan.act(found.case, now) or Move.STOP
    stored = ", with everything needed to make it again stored first," if move is Move.DELETE else ""
    time = f"on {moment(when)} or soon after" if when > now else "at one of the next sweeps"
    saves = found.case.saves.get(move)
    saving = f" That saves {money(saves * 24)} a day." if saves else ""
    return f"It will be {verb(found, move)}{stored} {time}, unless it is used or kept before.{saving}"


def act_at(found: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """The earliest moment at which the policy lets it be acted on; None when it never does by itself."""
    if mode is not Mode.ENFORCE or found.step.move in DONE or plan.act(found.case, now) is None:
        return None
    warned = memory.warned_at if found.step.move is not Move.WARN else None
    return max(plan.promise(found.case, warned or now), (memory.promised if warned else None) or now)


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
    verbs = sorted({verb(f, plan.act(f.case, now) or Move.STOP) for f, _ in dates}, reverse=True)
    return Coming(count=len(dates), how=" or ".join(verbs), first=max(now, min(when for _, when in dates)))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _why_nothing(found: Finding, mode: Mode) -> str:
    end = "it costs until you stop it"
    if mode is not Mode.ENFORCE or found.case.rule.action.rank < Action.STOP.rank:
        return f"Nothing is done to it by itself; {end}."
    if found.case.verdict.confidence is Confidence.LIKELY and found.case.rule.act_on is not Confidence.LIKELY:
        return f"The evidence is indirect, so nothing is done to it by itself; {end}."
    bar = found.case.acts.get(Move.DELETE if found.case.rule.action is Action.DELETE else Move.STOP)
    why = f": {bar.because}" if bar else ""
    return f"Nothing is done to it by itself{why}; {end}."
