"""What the policy would do now with each judged resource, given what is remembered of it. Pure: carrying a plan out is somebody else's job.

One idle spell, one warning, then a reminder per `remind_every`, however often is swept.

A move is due when a warning that announced it was given in the same spell and the time that it promised is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from reaper import schedule, spell
from reaper.duration import text
from reaper.model import Action, Case, Confidence, Memory, Move, State, Step, Verdict

CONFIRM = timedelta(hours=1)
"""So long a move that was asked for may take to show; what has not come about by then is planned anew."""
STOPPING = timedelta(minutes=15)
"""So long after a stop was asked for a change may still be that stop; a later one was somebody's own."""
FORCED = timedelta(hours=1)
"""The longest grace for what is stopped out of office hours even while busy: its notice must be of the same day."""
JITTER = timedelta(hours=1)
"""A daily clock does not tick to the minute: a reminder comes up to this much early rather than a day late."""
STRENGTH = {Move.STOP: 1, Move.DELETE: 2}
ENDED = {Move.STOP: "stopped", Move.DELETE: "deleted"}


def plan(cases: Iterable[Case], memories: Mapping[str, Memory], now: datetime, *, acting: bool = True) -> list[Step]:
    """One step per case, in the same order. `memories` is keyed by resource id; a resource without one was never warned about.

    Without `acting` people are told and nothing is moved, so that nothing is announced either.
    """
    return [_step(case, memories.get(case.resource.id, Memory()), now, acting) for case in cases]


def may_move(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`.

    What a rule's office hours say is apart from it: see `forced` and `may_start`.
    """
    return case.verdict.state is State.IDLE and case.rule.protected is None and case.rule.action is not Action.IGNORE


def forced(case: Case, now: datetime) -> bool:
    """Whether its rule stops it even while busy: `hours: {force: true}`, and they are over. Never what is protected, unknown or free."""
    hours, state = case.rule.hours, case.verdict.state
    if hours is None or not hours.force or not _stoppable(case) or schedule.is_open(hours, now):
        return False
    return state in {State.ACTIVE, State.YOUNG, State.IDLE}


def may_start(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether its office hours start it now: it is stopped, nothing protects it, and it was we who stopped it, or the rule starts all."""
    hours = case.rule.hours
    if hours is None or not _stoppable(case) or case.verdict.state is not State.EXEMPT or not schedule.is_open(hours, now):
        return False
    return Move.START in case.acts and case.acts[Move.START] is None and (hours.restart == "all" or _ours(case, memory))


def act(case: Case, now: datetime) -> Move | None:
    """The strongest move that policy, evidence and kind allow: what a warning announces. None where nothing can come of it."""
    sure = case.verdict.confidence is Confidence.PROVEN or case.rule.act_on is Confidence.LIKELY
    if not (may_move(case) and sure) and not forced(case, now):
        return None
    wanted = {Action.STOP: [Move.STOP], Action.DELETE: [Move.DELETE, Move.STOP]}.get(case.rule.action, [])
    wanted = [Move.STOP] if wanted and case.rule.hours else wanted
    return next((move for move in wanted if move in case.acts and case.acts[move] is None), None)


def promise(case: Case, told: datetime) -> datetime:
    """Before which moment nothing is done after a notice at `told`: its grace, and with office hours not inside them."""
    grace = min(case.rule.grace, FORCED) if case.rule.hours and case.rule.hours.force else case.rule.grace
    when = told + grace
    if case.rule.hours and schedule.is_open(case.rule.hours, when):
        return schedule.next_close(case.rule.hours, when) or when
    return when


def spared_by_memory(case: Case, memory: Memory, now: datetime) -> Case:
    """The case with an exempt verdict where it is idle and somebody's snooze still holds; otherwise the case as it is."""
    if not (may_move(case) and _snoozed(case, memory, now)):
        return case
    verdict = Verdict(state=State.EXEMPT, because=_kept(memory), last_busy=case.verdict.last_busy)
    return replace(case, verdict=verdict)


def notice(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When the warning about the present idle spell was given: what a grace period counts from. None where none counts."""
    warned = memory.warned_at
    if warned is None or warned > now + spell.SKEW or spell.of_another(case, memory):
        return None
    if case.resource.created and case.resource.created > warned:
        return None
    if forced(case, now) and case.rule.hours:
        return warned if schedule.same_day(case.rule.hours, warned, now) else None
    if not may_move(case) or spell.void(case, memory, now):
        return None
    return warned if warned >= spell.began(case, memory, now) else None


def due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on `act(case)` may be made; None where no notice of this spell announced it, or one as strong."""
    move, warned = act(case, now), notice(case, memory, now)
    if move is None or warned is None or STRENGTH.get(memory.announced or Move.NONE, 0) < STRENGTH[move]:
        return None
    return max(promise(case, warned), memory.promised or warned)


def told(case: Case, memory: Memory, step: Step, receipt: str, now: datetime, *, acting: bool = True) -> Memory:
    """The memory once a channel has accepted a warning or a reminder, with what it announced."""
    announced = act(case, now) if acting else None
    if step.move is Move.WARN:
        promised = promise(case, now) if announced else None
        return replace(
            memory,
            warned_at=now,
            reminded_at=None,
            receipt=receipt,
            told=case.owner,
            shape=case.resource.facts.get("shape"),
            announced=announced,
            promised=promised,
            held_at=None,
        )
    if step.move is Move.REMIND:
        return replace(
            memory, reminded_at=now, receipt=receipt, told=case.owner, announced=announced, shape=case.resource.facts.get("shape")
        )
    return memory


def meant(memory: Memory, move: Move, manifest: str | None, now: datetime) -> Memory:
    """The memory just before a move is made: whoever comes next knows that it may have been.

    A move that was begun under the same notice and may be half made keeps its first manifest, which knows how everything was before.
    """
    begun = memory.last_act is move and memory.acted_at and memory.warned_at and memory.warned_at <= memory.acted_at
    return replace(
        memory, last_act=move, acted_at=now, manifest=(memory.manifest if begun else None) or manifest or memory.manifest
    )


def moved(memory: Memory) -> Memory:
    """The memory once a move was made: its notice is used up, another move needs another."""
    return replace(spell.silent(memory), idle_since=None, idle_seen=None)


def undone(memory: Memory) -> Memory:
    """The memory once a move was taken back: nothing of it is left, and nothing is done again without a new notice."""
    return replace(moved(memory), last_act=None, acted_at=None, manifest=None)


def after(case: Case, memory: Memory, now: datetime) -> Memory:
    """What is to be remembered once this verdict is known; equal to `memory` where nothing needs to be written.

    Use, change and protection close the spell; `unknown` and what costs nothing say nothing about it. Give it the case as judged,
    before `spared_by_memory`, so that a spell lasts through a snooze. Snoozes, acts and manifests are never touched but when over,
    or when a snooze was given to what had this id before.
    """
    if memory.snoozed_until and not _snoozed(case, memory, now):
        memory = spell.awake(spell.silent(memory) if spell.answered(memory, now) else memory)
    if forced(case, now) and not may_move(case):
        return memory
    if case.verdict.state in {State.ACTIVE, State.YOUNG} or case.rule.protected:
        return replace(spell.silent(memory), idle_since=None, idle_seen=None)
    return spell.renewed(case, memory, now) if may_move(case) else memory


def _step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    if acting and may_start(case, memory, now):
        return _started(case, memory, now)
    if not may_move(case) and not (acting and forced(case, now)):
        return Step(move=Move.NONE, because=_left(case, memory))
    if _snoozed(case, memory, now):
        return Step(move=Move.NONE, because=_kept(memory))
    if acting and _pending(memory, now):
        return Step(
            move=Move.NONE, because=f"the reaper asked for it to be {_done(memory)}, and the next sweeps see whether it was"
        )
    return (_due(case, memory, now) if acting else None) or _notice(case, memory, now, acting)


def _due(case: Case, memory: Memory, now: datetime) -> Step | None:
    """The move that is due, or that waits for its time; None where people have to be told first."""
    move, when = act(case, now), due_at(case, memory, now)
    if move is None or when is None:
        return None
    if (because := _by_hand(case, now)) or (because := _wanted(case, now)):
        return Step(move=Move.NONE, because=because)
    if when > now:
        return None
    ago = text(now - (memory.warned_at or now))
    return Step(move=move, because=f"{case.verdict.because}; its owner was told {ago} ago that it would be {ENDED[move]}")


def _notice(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    move = act(case, now) if acting else None
    unsaid = move is not None and due_at(case, memory, now) is None
    last = None if spell.void(case, memory, now) else spell.last_notice(memory)
    if forced(case, now) and not may_move(case):
        if move is None or not unsaid:
            return Step(
                move=Move.NONE, because="its office hours are over; " + ("it cannot be stopped now" if unsaid else "it waits")
            )
        return Step(move=Move.WARN, because=f"its office hours are over, and {case.rule.name} stops it even while it is used")
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(move=Move.WARN, because=f"idle for more than {text(case.rule.idle_after)} under {case.rule.name}{notes}")
    if unsaid and move:
        return Step(move=Move.WARN, because=f"its owner has not been told in this idle spell that it will be {ENDED[move]}")
    due = last + case.rule.remind_every - min(JITTER, case.rule.remind_every / 10)
    if now < due:
        when = due_at(case, memory, now) if acting else None
        next_ = (
            f"it is {ENDED[move]} in {text(when - now)}"
            if move and when and now < when <= due
            else f"is reminded in {text(due - now)}"
        )
        return Step(move=Move.NONE, because=f"its owner was told {text(now - last)} ago and {next_}")
    if notice(case, memory, now) is None:
        return Step(move=Move.WARN, because=f"idle again for more than {text(case.rule.idle_after)} after a time without proof")
    return Step(move=Move.REMIND, because=f"still idle, and its owner was last told {text(now - last)} ago")


def _started(case: Case, memory: Memory, now: datetime) -> Step:
    if memory.last_act is Move.START and _pending(memory, now):
        return Step(move=Move.NONE, because="the reaper asked for it to be started, and the next sweeps see whether it was")
    ours = "the reaper had stopped it" if _ours(case, memory) else f"{case.rule.name} starts everything that keeps them"
    return Step(move=Move.START, because=f"its office hours have begun, and {ours}")


def _left(case: Case, memory: Memory) -> str:
    bar = case.acts.get(memory.last_act) if memory.last_act else None
    if bar and bar.done and memory.acted_at:
        return f"it is as the reaper left it on {memory.acted_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {bar.because}"
    return f"nothing to do: it is {case.verdict.state}"


def _stoppable(case: Case) -> bool:
    """Whether policy and protections let its office hours be kept at all."""
    return case.rule.protected is None and case.resource.tags is not None and case.rule.action.rank >= Action.STOP.rank


def _by_hand(case: Case, now: datetime) -> str | None:
    """Why it is left running out of hours: somebody started it there, not long ago."""
    hours = case.rule.hours
    started = max((t for t in (case.resource.created, case.resource.changed) if t), default=None)
    since = schedule.closed_since(hours, now) if hours else None
    if hours is None or since is None or started is None or started < since or now - started >= hours.override:
        return None
    return f"it was started outside its office hours {text(now - started)} ago, which is respected for {text(hours.override)}"


def _wanted(case: Case, now: datetime) -> str | None:
    hours = case.rule.hours
    return "its office hours are on, so it is left running" if hours and schedule.is_open(hours, now) else None


def _ours(case: Case, memory: Memory) -> bool:
    """Whether the last one to stop it was the reaper: nobody changed it since."""
    if memory.last_act is not Move.STOP or memory.acted_at is None:
        return False
    return case.resource.changed is None or case.resource.changed <= memory.acted_at + STOPPING


def _pending(memory: Memory, now: datetime) -> bool:
    return memory.acted_at is not None and memory.last_act is not None and memory.acted_at <= now < memory.acted_at + CONFIRM


def _done(memory: Memory) -> str:
    return {**ENDED, Move.START: "started"}.get(memory.last_act or Move.STOP, "changed")


def _snoozed(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a snooze holds: one that was given before the resource was made was for another of the same id."""
    given, created = memory.snoozed_at, case.resource.created
    anew = given is not None and created is not None and created > given + spell.SKEW
    return memory.snoozed_until is not None and memory.snoozed_until > now and not anew


def _kept(memory: Memory) -> str:
    """The sentence about a snooze that holds."""
    until = memory.snoozed_until.astimezone(UTC) if memory.snoozed_until else None
    why = f": {memory.snoozed_why}" if memory.snoozed_why else ""
    return f"kept by {memory.snoozed_by or 'somebody'} until {until:%Y-%m-%d %H:%M} UTC{why}"
