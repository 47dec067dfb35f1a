"""What happens next to a resource and when, said so that it is true: nothing that the run mode or the evidence forbids is announced. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reaper import enrolment, plan, registry, schedule, spell
from reaper.figures import moment, money
from reaper.model import Action, Confidence, Finding, Hours, Memory, Mode, Move, Result

DONE = frozenset({Move.STOP, Move.DELETE, Move.START})
PLAIN = {Move.STOP: "stopped", Move.DELETE: "deleted", Move.START: "started again"}


def verb(found: Finding, move: Move) -> str:
    """What is said to be done to a resource of its kind: `stopped`, or for an endpoint `scaled in`. It completes `it was …`."""
    kind = found.case.resource.kind
    deeds = registry.kind(kind).deeds if kind in registry.names() else {}
    return deeds[move].verb if move in deeds else PLAIN.get(move, move.value)


def done(found: Finding) -> str:
    """What was done to it, as far as that goes: `scaled in`, or `partly deleted` where the rest is an action of its own."""
    return f"{'partly ' if found.outcome.part else ''}{verb(found, found.step.move)}"


def saved(found: Finding) -> float:
    """The dollars an hour that its action saves. Of a delete that left the resource itself running, nothing yet."""
    if found.outcome.result is not Result.DONE or (found.outcome.part and found.step.move is Move.DELETE):
        return 0.0
    return found.case.saves.get(found.step.move, 0.0)


def following(found: Finding, mode: Mode, memory: Memory, now: datetime, week: str = "") -> str:
    """One or two sentences for its owner. The grace runs from the notice of this idle spell, so a first notice starts it at `now`.

    `week`: what its office hours did since its owner was last told, in a weekly summary.
    """
    if found.step.move in DONE:
        return _done(found, mode, now)
    if found.case.rule.hours and enrols(found, mode, memory, now):
        return _by_hours(found, found.case.rule.hours, memory, now, week)
    when = act_at(found, mode, memory, now)
    if when is None:
        return _why_nothing(found, mode)
    move = plan.act(found.case, now) or Move.STOP
    stored = ", with everything needed to make it again stored first," if move is Move.DELETE else ""
    time = f"on {moment(when)} or soon after" if when > now else "at any time"
    saves = found.case.saves.get(move)
    saving = f" That saves {money(saves * 24)} a day." if saves else ""
    return f"It will be {verb(found, move)}{stored} {time}, unless it is used or kept before.{saving}"


def act_at(found: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """The earliest moment at which the policy lets it be acted on; None when it never does by itself."""
    if not mode.announces or found.step.move in DONE or plan.act(found.case, now) is None:
        return None
    if found.step.move is not Move.WARN and memory.warned_at:
        return max(memory.promised or plan.promise(found.case, memory.warned_at), now)
    return plan.promise(found.case, now)


def enrols(found: Finding, mode: Mode, memory: Memory, now: datetime) -> bool:
    """Whether the notice is about its office hours as such: an enrolment, or a weekly summary."""
    if not mode.announces or not enrolment.asked(found.case):
        return False
    if found.step.move is Move.WARN:
        return plan.act(found.case, now) is not None
    return found.step.move is Move.REMIND and enrolment.since(found.case, memory, now) is not None


def stops_in_use(found: Finding, mode: Mode, memory: Memory, now: datetime) -> bool:
    """Whether the notice is that of the same day: its office hours are over, and it is stopped even while it is used."""
    return (
        enrols(found, mode, memory, now)
        and found.step.move is Move.REMIND
        and plan.forced_at(found.case, memory, now) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """Of all in a message, how many will be acted on, how (`stopped`, `deleted` or both), and when the first of them; `past`: at any time."""

    count: int
    how: str
    first: datetime
    past: bool = False


def coming(found: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> Coming | None:
    """What the top of a message announces; None when nothing happens by itself. A date in the past is given as `now`."""
    known = [(f, memories.get(f.case.resource.id, Memory())) for f in found]
    dates = [(f, when) for f, memory in known if not enrols(f, mode, memory, now) and (when := act_at(f, mode, memory, now))]
    if not dates:
        return None
    verbs = sorted({verb(f, plan.act(f.case, now) or Move.STOP) for f, _ in dates}, reverse=True)
    first = max(now, min(when for _, when in dates))
    return Coming(count=len(dates), how=" or ".join(verbs), first=first, past=first <= now)


def _done(found: Finding, mode: Mode, now: datetime) -> str:
    """What was done, or may have been, and when the rest of it comes where this run may announce that."""
    outcome, move = found.outcome, found.step.move
    if outcome.result is not Result.DONE:
        why = _sentence(outcome.error or "it isn't known what became of it")
        return f"It may have been {verb(found, move)}. {why}. Please look at it."
    said = f"{_sentence(outcome.because or f'it was {verb(found, move)}')}."
    if outcome.part is None:
        return said
    if not (mode.announces and plan.leads_on(found.case)):
        return f"{said} Done so far: {outcome.part}."
    when = moment(plan.promise(found.case, now))
    return f"{said} Done so far: {outcome.part}. The rest will be {verb(found, move)} on {when} or soon after, unless it is used or kept before."


def _by_hours(found: Finding, hours: Hours, memory: Memory, now: datetime, week: str) -> str:
    named = f"{schedule.written(hours)} ({hours.tz})"
    if found.step.move is Move.WARN:
        when = moment(plan.promise(found.case, now))
        even = ", even while it is used" if hours.force else ", whenever it is idle then"
        restart = "; it is started again when they begin" if Move.START in found.case.acts else ""
        return f"From {when} on it will be {verb(found, Move.STOP)} outside its office hours, {named}{even}{restart}. After this you get a summary once a week."
    if then := plan.forced_at(found.case, memory, now):
        return f"Its office hours, {named}, are over. It will be {verb(found, Move.STOP)} on {moment(then)} or soon after, even while it is used."
    last = spell.last_notice(memory) or now
    # The summary is the last mail of its day, and so has to say what a notice of the same day says.
    even = (
        " Whenever they are over it is stopped, even while it is used." if hours.force and Move.START in found.case.acts else ""
    )
    return f"Its office hours, {named}, are kept.{even} Since {moment(last)} {week or 'it was neither stopped nor started'}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _why_nothing(found: Finding, mode: Mode) -> str:
    end = "it costs until you stop it"
    if not mode.announces or found.case.rule.action.rank < Action.STOP.rank:
        return f"It won't be stopped automatically; {end}."
    if found.case.verdict.confidence is Confidence.LIKELY and found.case.rule.act_on is not Confidence.LIKELY:
        return f"The evidence is indirect, so it won't be stopped automatically; {end}."
    bar = found.case.acts.get(Move.DELETE if found.case.rule.action is Action.DELETE else Move.STOP)
    why = f": {bar.because}" if bar else ""
    return f"It won't be stopped automatically{why}; {end}."
