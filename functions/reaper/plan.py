"""What the policy would do now with each judged resource, given what is remembered of it. Pure: carrying a plan out is somebody else's job.

One idle spell, one warning, then a reminder per `remind_every`, however often is swept.

A move is due when a warning that announced it was given in the same spell and the time that it promised is over. What a rule's office
hours ask for rests on an enrolment notice instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from reaper import enrolment, idle_period
from reaper.duration import text
from reaper.enrolment import JITTER
from reaper.model import Action, Case, Confidence, Hours, Memory, Move, Result, State, Step, Verdict
from reaper.policy import office_hours

CONFIRM = timedelta(hours=1)
"""So long a move that was asked for may take to show; what has not come about by then is planned anew."""
FORCED = timedelta(hours=1)
"""So long before a busy resource is stopped by `force` its owner is told once more, or a whole grace before where that is shorter."""
STRENGTH: Mapping[str, int] = {Move.STOP: 1, Move.DELETE: 2}
ENDED = {Move.STOP: "stopped", Move.DELETE: "deleted"}


def plan(cases: Iterable[Case], memories: Mapping[str, Memory], now: datetime, *, acting: bool = True) -> list[Step]:
    """One step per case, in the same order. `memories` is keyed by resource id; a resource without one was never warned about.

    Without `acting` people are told and nothing is moved, so that nothing is announced either; what another run has announced is left to
    runs that announce.
    """
    return [_step(case, memories.get(case.resource.id, Memory()), now, acting) for case in cases]


def may_move(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`.

    What a rule's office hours say is apart from it: see `forced` and `may_start`.
    """
    return case.verdict.state is State.IDLE and case.rule.protected is None and case.rule.action is not Action.IGNORE


def forced(case: Case, now: datetime) -> bool:
    """Whether its rule stops it even while busy: `hours: {force: true}`, and they are over. Never what is protected, unknown or free, nor
    what cannot be started again.
    """
    hours, state = case.rule.hours, case.verdict.state
    if (
        hours is None
        or not hours.force
        or not _stoppable(case)
        or Move.START not in case.acts
        or office_hours.is_open(hours, now)
    ):
        return False
    return state in {State.ACTIVE, State.YOUNG, State.IDLE}


def may_start(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether its office hours start it now: it is stopped, nothing protects it, and it was we who stopped it, or the rule starts all and
    nobody has touched it since they began.
    """
    hours = case.rule.hours
    if hours is None or not _stoppable(case) or case.verdict.state is not State.EXEMPT or not office_hours.is_open(hours, now):
        return False
    if Move.START not in case.acts or case.acts[Move.START] is not None:
        return False
    return _ours(case, memory) or (hours.restart == "all" and _untouched_since_opening(case, now))


def act(case: Case, now: datetime) -> Move | None:
    """The strongest move that policy, evidence and kind allow: what a warning announces. None where nothing can come of it."""
    if not (may_move(case) and _sure(case)) and not forced(case, now):
        return None
    wanted = {Action.STOP: [Move.STOP], Action.DELETE: [Move.DELETE, Move.STOP]}.get(case.rule.action, [])
    wanted = [Move.STOP] if wanted and case.rule.hours else wanted
    return next((move for move in wanted if move in case.acts and case.acts[move] is None), None)


def _sure(case: Case) -> bool:
    """Whether its evidence allows more than notices. `force` treats what is only likely idle as used."""
    return case.verdict.confidence is Confidence.PROVEN or case.rule.act_on is Confidence.LIKELY


def promise(case: Case, told: datetime) -> datetime:
    """Before which moment nothing is done after a notice at `told`: its grace, and with office hours not inside them."""
    when = told + case.rule.grace
    if case.rule.hours and office_hours.is_open(case.rule.hours, when):
        return office_hours.next_close(case.rule.hours, when) or when
    return when


def spared_by_memory(case: Case, memory: Memory, now: datetime, host: Memory | None = None) -> Case:
    """The case with an exempt verdict where it is idle and somebody's snooze still holds; otherwise the case as it is.

    `host`: what is remembered of the resource that it lives in. A snooze of that one keeps it, too.
    """
    own = is_snoozed(case, memory, now)
    whole = host is not None and host.snoozed_until is not None and host.snoozed_until > now
    if not may_move(case) or not (own or whole):
        return case
    because = _kept(memory) if own or host is None else f"what it lives in is {_kept(host)}"
    return replace(case, verdict=Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy))


def leads_on(case: Case) -> bool:
    """Whether its rule still lets the rest of an action be made."""
    return _stoppable(case)


def notice(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When the warning about the present idle spell was given: what a grace period counts from. None where none counts."""
    warned = memory.warned_at
    if warned is None or warned > now + idle_period.SKEW or idle_period.of_another(case, memory):
        return None
    if case.resource.created and case.resource.created > warned:
        return None
    if not may_move(case) or idle_period.void(case, memory, now):
        return None
    left = case.resource.changed if idle_period.of_a_part(memory) else None
    return warned if max(warned, left or warned) >= idle_period.began(case, memory, now) else None


def due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on `act(case)` may be made; None where no notice of this spell announced it, or one as strong."""
    move = act(case, now)
    if move is None:
        return None
    if enrolment.asked(case):
        return _due_by_hours(case, memory, now)
    warned = notice(case, memory, now)
    if warned is None or STRENGTH.get(memory.announced or "", 0) < STRENGTH[move]:
        return None
    return max(promise(case, warned), memory.promised or warned)


def in_summary(case: Case, move: Move) -> bool:
    """Whether its owner hears of it in the weekly summary alone: what office hours stop and start day by day."""
    return move is Move.START or (move is Move.STOP and enrolment.asked(case))


def _step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    if acting and may_start(case, memory, now):
        return _started(case, memory, now)
    enrolled = acting and _stoppable(case) and enrolment.since(case, memory, now) is not None
    if not (may_move(case) or (acting and forced(case, now)) or enrolled):
        return Step(move=Move.NONE, because=_left(case, memory))
    if is_snoozed(case, memory, now):
        return Step(move=Move.NONE, because=_kept(memory))
    if not acting and (notice(case, memory, now) or enrolment.since(case, memory, now)) and memory.announced:
        return Step(move=Move.NONE, because="its owner was told what will be done to it, and this run announces nothing")
    if acting and _pending(memory, now):
        return Step(
            move=Move.NONE, because=f"the reaper asked for it to be {_done(memory)}, and the next sweeps see whether it was"
        )
    if enrolled or (acting and enrolment.asked(case) and act(case, now)):
        return _by_hours(case, memory, now)
    return (_due(case, memory, now) if acting else None) or _notice(case, memory, now, acting)


def _by_hours(case: Case, memory: Memory, now: datetime) -> Step:
    """What a rule's office hours ask for: first an enrolment notice, then a stop after each day, and a summary every week."""
    told, mail = enrolment.since(case, memory, now), enrolment.next_mail(case, memory, now)
    if told is None and mail and now < mail:
        because = f"what its owner was told of its office hours no longer holds, and nothing is done before the next notice in {text(mail - now)}"
        return Step(move=Move.NONE, because=because)
    if told is None:
        return Step(move=Move.WARN, because=f"{case.rule.name} keeps its office hours, and its owner has not been told")
    step = _due(case, memory, now)
    if step and step.move is not Move.NONE:
        return step
    if mail and now >= mail and case.verdict.state is not State.UNKNOWN:
        return Step(move=Move.REMIND, because=f"its office hours are kept, and its owner was last told {_ago(memory, now)} ago")
    if act(case, now) and due_at(case, memory, now) is None:
        if by_hand := _by_hand(case, now):
            return Step(move=Move.NONE, because=by_hand)
        if forced_at(case, memory, now):
            return Step(
                move=Move.REMIND, because=f"its office hours are over, and {case.rule.name} stops it even while it is used"
            )
    if step or not may_move(case):
        return step or Step(move=Move.NONE, because=_left(case, memory))
    return Step(move=Move.NONE, because=f"its office hours are kept, and its owner was last told {_ago(memory, now)} ago")


def _due_by_hours(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on office hours stop it: its enrolment's grace, and while it is used a notice of the same day besides."""
    hours, told, last = case.rule.hours, enrolment.since(case, memory, now), idle_period.last_notice(memory)
    if hours is None or told is None or last is None:
        return None
    when = max(promise(case, told), memory.promised or told)
    if may_move(case) and _sure(case):
        return when
    return max(when, last + min(case.rule.grace, FORCED)) if _said_today(hours, told, last, now) else None


def _said_today(hours: Hours, told: datetime, last: datetime, now: datetime) -> bool:
    """Whether its owner was told today that it is stopped even while used: by the enrolment, or since its hours ended. A weekly summary in
    the daytime doesn't say so.
    """
    closed = office_hours.closed_since(hours, now)
    return office_hours.same_day(hours, last, now) and (last == told or (closed is not None and last >= closed))


def forced_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When it is stopped although it is used, if its owner is told so now; None where that is not today any more, and needs another notice."""
    hours, told = case.rule.hours, enrolment.since(case, memory, now)
    if hours is None or told is None or (may_move(case) and _sure(case)) or not forced(case, now) or _by_hand(case, now):
        return None
    when = max(promise(case, told), memory.promised or told, now + min(case.rule.grace, FORCED))
    return when if office_hours.same_day(hours, when, now) else None


def _ago(memory: Memory, now: datetime) -> str:
    return text(now - (idle_period.last_notice(memory) or now))


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
    if enrolment.asked(case):
        return Step(move=move, because=f"its office hours are over, and its owner was told {ago} ago that they are kept")
    return Step(move=move, because=f"{case.verdict.because}; its owner was told {ago} ago that it would be {ENDED[move]}")


def _notice(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    move = act(case, now) if acting else None
    unsaid = move is not None and due_at(case, memory, now) is None
    last = None if idle_period.void(case, memory, now) else idle_period.last_notice(memory)
    if because := _told_of_hours_lately(case, memory, now) if move is None else None:
        return Step(move=Move.NONE, because=because)
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


def _told_of_hours_lately(case: Case, memory: Memory, now: datetime) -> str | None:
    """Why nobody is told again of what is idle every evening, where nothing can be announced: told once, the next mail is a reminder's time off."""
    last = idle_period.last_notice(memory)
    if last is None or not enrolment.asked(case) or idle_period.enrolling(memory) or idle_period.handed_over(case, memory):
        return None
    due = last + case.rule.remind_every - min(JITTER, case.rule.remind_every / 10)
    return f"its owner was told {text(now - last)} ago and is told again in {text(due - now)}" if last <= now < due else None


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
    since = office_hours.closed_since(hours, now) if hours else None
    if hours is None or since is None or started is None or started < since or now - started >= hours.override:
        return None
    return f"it was started outside its office hours {text(now - started)} ago, which is respected for {text(hours.override)}"


def _wanted(case: Case, now: datetime) -> str | None:
    hours = case.rule.hours
    return "its office hours are on, so it is left running" if hours and office_hours.is_open(hours, now) else None


def _ours(case: Case, memory: Memory) -> bool:
    """Whether the last one to stop it was the reaper: nobody changed it or made it anew since."""
    made, changed, acted = case.resource.created, case.resource.changed, memory.acted_at
    if acted is None or (made is not None and made > acted):
        return False
    if memory.last_act is Move.START and memory.act_result is Result.FAILED:  # it was ours when that start was tried
        return changed is None or changed <= acted
    return memory.last_act is Move.STOP and (changed is None or changed <= acted + CONFIRM)


def _untouched_since_opening(case: Case, now: datetime) -> bool:
    """Whether nobody has stopped or changed it in the hours that run now. What does not say when it was changed may have been."""
    opened = office_hours.opened_today(case.rule.hours, now) if case.rule.hours else None
    return opened is not None and case.resource.changed is not None and case.resource.changed < opened


def _pending(memory: Memory, now: datetime) -> bool:
    return memory.acted_at is not None and memory.last_act is not None and memory.acted_at <= now < memory.acted_at + CONFIRM


def _done(memory: Memory) -> str:
    return {**ENDED, Move.START: "started"}.get(memory.last_act or Move.STOP, "changed")


def is_snoozed(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a snooze holds: one that was given before the resource was made was for another of the same id."""
    return memory.snoozed_until is not None and memory.snoozed_until > now and not is_anew(case, memory)


def is_anew(case: Case, memory: Memory) -> bool:
    """Whether the resource was made after its snooze was given, under an id that another one had."""
    given, created = memory.snoozed_at, case.resource.created
    return given is not None and created is not None and created > given + idle_period.SKEW


def _kept(memory: Memory) -> str:
    """The sentence about a snooze that holds."""
    until = memory.snoozed_until.astimezone(UTC) if memory.snoozed_until else None
    why = f": {memory.snoozed_why}" if memory.snoozed_why else ""
    return f"kept by {memory.snoozed_by or 'somebody'} until {until:%Y-%m-%d %H:%M} UTC{why}"
