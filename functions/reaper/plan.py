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
from reaper.duration import format_duration
from reaper.enrolment import CLOCK_JITTER
from reaper.model import Case, Ceiling, Confidence, Hours, Memory, Result, State, Step, StepName, Verdict
from reaper.policy import office_hours

CONFIRM_WITHIN = timedelta(hours=1)
"""So long a move that was asked for may take to show; what has not come about by then is planned anew."""
FORCED_NOTICE = timedelta(hours=1)
"""So long before a busy resource is stopped by `force` its owner is told once more, or a whole grace before where that is shorter."""
ACTION_STRENGTH: Mapping[str, int] = {StepName.STOP: 1, StepName.DELETE: 2}
PARTICIPLES = {StepName.STOP: "stopped", StepName.DELETE: "deleted", StepName.START: "started"}
"""What an action is called if the kind has no participle of its own."""


def plan_steps(cases: Iterable[Case], memories: Mapping[str, Memory], now: datetime, *, acting: bool = True) -> list[Step]:
    """One step per case, in the same order. `memories` is keyed by resource id; a resource without one was never warned about.

    Without `acting` people are told and nothing is moved, so that nothing is announced either; what another run has announced is left to
    runs that announce.
    """
    return [_plan_step(case, memories.get(case.resource.id, Memory()), now, acting) for case in cases]


def may_act(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`.

    What a rule's office hours say is apart from it: see `forced` and `may_start`.
    """
    return case.verdict.state is State.IDLE and case.rule.protected_because is None and case.rule.action is not Ceiling.IGNORE


def is_forced(case: Case, now: datetime) -> bool:
    """Whether its rule stops it even while busy: `hours: {force: true}`, and they are over. Never what is protected, unknown or free, nor
    what cannot be started again.
    """
    hours, state = case.rule.hours, case.verdict.state
    if (
        hours is None
        or not hours.force
        or not _may_keep_hours(case)
        or StepName.START not in case.blocked
        or office_hours.is_open(hours, now)
    ):
        return False
    return state in {State.ACTIVE, State.YOUNG, State.IDLE}


def may_start(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether its office hours start it now: it is stopped, nothing protects it, and it was we who stopped it, or the rule starts all and
    nobody has touched it since they began.
    """
    hours = case.rule.hours
    if (
        hours is None
        or not _may_keep_hours(case)
        or case.verdict.state is not State.EXEMPT
        or not office_hours.is_open(hours, now)
    ):
        return False
    if StepName.START not in case.blocked or case.blocked[StepName.START] is not None:
        return False
    return _stopped_by_us(case, memory) or (hours.restart == "all" and _untouched_since_opening(case, now))


def strongest_action(case: Case, now: datetime) -> StepName | None:
    """The strongest move that policy, evidence and kind allow: what a warning announces. None where nothing can come of it."""
    if not (may_act(case) and _is_sure_enough(case)) and not is_forced(case, now):
        return None
    wanted = {Ceiling.STOP: [StepName.STOP], Ceiling.DELETE: [StepName.DELETE, StepName.STOP]}.get(case.rule.action, [])
    wanted = [StepName.STOP] if wanted and case.rule.hours else wanted
    return next((move for move in wanted if move in case.blocked and case.blocked[move] is None), None)


def _is_sure_enough(case: Case) -> bool:
    """Whether its evidence allows more than notices. `force` treats what is only likely idle as used."""
    return case.verdict.confidence is Confidence.PROVEN or case.rule.act_on is Confidence.LIKELY


def earliest_action_at(case: Case, told: datetime) -> datetime:
    """Before which moment nothing is done after a notice at `told`: its grace, and with office hours not inside them."""
    when = told + case.rule.grace
    if case.rule.hours and office_hours.is_open(case.rule.hours, when):
        return office_hours.next_close(case.rule.hours, when) or when
    return when


def with_snooze(case: Case, memory: Memory, now: datetime, host: Memory | None = None) -> Case:
    """The case with an exempt verdict where it is idle and somebody's snooze still holds; otherwise the case as it is.

    `host`: what is remembered of the resource that it lives in. A snooze of that one keeps it, too.
    """
    own = is_snoozed(case, memory, now)
    whole = host is not None and host.snoozed_until is not None and host.snoozed_until > now
    if not may_act(case) or not (own or whole):
        return case
    because = _snooze_sentence(memory) if own or host is None else f"what it lives in is {_snooze_sentence(host)}"
    return replace(case, verdict=Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy))


def may_act_on_rest(case: Case) -> bool:
    """Whether its rule still lets the rest of an action be made."""
    return _may_keep_hours(case)


def valid_notice_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When the warning about the present idle spell was given: what a grace period counts from. None where none counts."""
    warned = memory.warned_at
    if warned is None or warned > now + idle_period.MAX_CLOCK_SKEW or idle_period.notice_was_for_another(case, memory):
        return None
    if case.resource.created and case.resource.created > warned:
        return None
    if not may_act(case) or idle_period.notice_expired(case, memory, now):
        return None
    left = case.resource.changed if idle_period.notice_was_for_part(memory) else None
    return warned if max(warned, left or warned) >= idle_period.idle_period_start(case, memory, now) else None


def action_due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on `act(case)` may be made; None where no notice of this spell announced it, or one as strong."""
    move = strongest_action(case, now)
    if move is None:
        return None
    if enrolment.is_stopped_by_hours(case):
        return _hours_due_at(case, memory, now)
    warned = valid_notice_at(case, memory, now)
    if warned is None or ACTION_STRENGTH.get(memory.announced_action or "", 0) < ACTION_STRENGTH[move]:
        return None
    return max(earliest_action_at(case, warned), memory.act_not_before or warned)


def is_in_weekly_summary(case: Case, move: StepName) -> bool:
    """Whether its owner hears of it in the weekly summary alone: what office hours stop and start day by day."""
    return move is StepName.START or (move is StepName.STOP and enrolment.is_stopped_by_hours(case))


def _plan_step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    if acting and may_start(case, memory, now):
        return _start_step(case, memory, now)
    enrolled = acting and _may_keep_hours(case) and enrolment.enrolled_since(case, memory, now) is not None
    if not (may_act(case) or (acting and is_forced(case, now)) or enrolled):
        return Step(name=StepName.NONE, because=nothing_to_do_because(case, memory))
    if is_snoozed(case, memory, now):
        return Step(name=StepName.NONE, because=_snooze_sentence(memory))
    if (
        not acting
        and (valid_notice_at(case, memory, now) or enrolment.enrolled_since(case, memory, now))
        and memory.announced_action
    ):
        return Step(name=StepName.NONE, because="its owner was told what will be done to it, and this run announces nothing")
    if acting and _is_unconfirmed(memory, now):
        return Step(
            name=StepName.NONE,
            because=f"the reaper asked for it to be {_participle_of(memory)}, and the next sweeps see whether it was",
        )
    if enrolled or (acting and enrolment.is_stopped_by_hours(case) and strongest_action(case, now)):
        return _hours_step(case, memory, now)
    return (_due_step(case, memory, now) if acting else None) or _notice_step(case, memory, now, acting)


def _hours_step(case: Case, memory: Memory, now: datetime) -> Step:
    """What a rule's office hours ask for: first an enrolment notice, then a stop after each day, and a summary every week."""
    told, mail = enrolment.enrolled_since(case, memory, now), enrolment.next_summary_at(case, memory, now)
    if told is None and mail and now < mail:
        because = f"what its owner was told of its office hours no longer holds, and nothing is done before the next notice in {format_duration(mail - now)}"
        return Step(name=StepName.NONE, because=because)
    if told is None:
        return Step(name=StepName.WARN, because=f"{case.rule.name} keeps its office hours, and its owner has not been told")
    step = _due_step(case, memory, now)
    if step and step.name is not StepName.NONE:
        return step
    if mail and now >= mail and case.verdict.state is not State.UNKNOWN:
        return Step(
            name=StepName.REMIND,
            because=f"its office hours are kept, and its owner was last told {_last_notice_ago(memory, now)} ago",
        )
    if strongest_action(case, now) and action_due_at(case, memory, now) is None:
        if by_hand := _started_by_hand(case, now):
            return Step(name=StepName.NONE, because=by_hand)
        if forced_stop_at(case, memory, now):
            return Step(
                name=StepName.REMIND, because=f"its office hours are over, and {case.rule.name} stops it even while it is used"
            )
    if step or not may_act(case):
        return step or Step(name=StepName.NONE, because=nothing_to_do_because(case, memory))
    return Step(
        name=StepName.NONE, because=f"its office hours are kept, and its owner was last told {_last_notice_ago(memory, now)} ago"
    )


def _hours_due_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """From when on office hours stop it: its enrolment's grace, and while it is used a notice of the same day besides."""
    hours, told, last = case.rule.hours, enrolment.enrolled_since(case, memory, now), idle_period.last_notice_at(memory)
    if hours is None or told is None or last is None:
        return None
    when = max(earliest_action_at(case, told), memory.act_not_before or told)
    if may_act(case) and _is_sure_enough(case):
        return when
    return max(when, last + min(case.rule.grace, FORCED_NOTICE)) if _was_told_today(hours, told, last, now) else None


def _was_told_today(hours: Hours, told: datetime, last: datetime, now: datetime) -> bool:
    """Whether its owner was told today that it is stopped even while used: by the enrolment, or since its hours ended. A weekly summary in
    the daytime doesn't say so.
    """
    closed = office_hours.closed_since(hours, now)
    return office_hours.is_same_day(hours, last, now) and (last == told or (closed is not None and last >= closed))


def forced_stop_at(case: Case, memory: Memory, now: datetime) -> datetime | None:
    """When it is stopped although it is used, if its owner is told so now; None where that is not today any more, and needs another notice."""
    hours, told = case.rule.hours, enrolment.enrolled_since(case, memory, now)
    if (
        hours is None
        or told is None
        or (may_act(case) and _is_sure_enough(case))
        or not is_forced(case, now)
        or _started_by_hand(case, now)
    ):
        return None
    when = max(earliest_action_at(case, told), memory.act_not_before or told, now + min(case.rule.grace, FORCED_NOTICE))
    return when if office_hours.is_same_day(hours, when, now) else None


def _last_notice_ago(memory: Memory, now: datetime) -> str:
    return format_duration(now - (idle_period.last_notice_at(memory) or now))


def _due_step(case: Case, memory: Memory, now: datetime) -> Step | None:
    """The move that is due, or that waits for its time; None where people have to be told first."""
    move, when = strongest_action(case, now), action_due_at(case, memory, now)
    if move is None or when is None:
        return None
    if (because := _started_by_hand(case, now)) or (because := _within_hours(case, now)):
        return Step(name=StepName.NONE, because=because)
    if when > now:
        return None
    ago = format_duration(now - (memory.warned_at or now))
    if enrolment.is_stopped_by_hours(case):
        return Step(name=move, because=f"its office hours are over, and its owner was told {ago} ago that they are kept")
    return Step(name=move, because=f"{case.verdict.because}; its owner was told {ago} ago that it would be {PARTICIPLES[move]}")


def _notice_step(case: Case, memory: Memory, now: datetime, acting: bool) -> Step:
    move = strongest_action(case, now) if acting else None
    unsaid = move is not None and action_due_at(case, memory, now) is None
    last = None if idle_period.notice_expired(case, memory, now) else idle_period.last_notice_at(memory)
    if because := _recent_hours_notice(case, memory, now) if move is None else None:
        return Step(name=StepName.NONE, because=because)
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(
            name=StepName.WARN,
            because=f"idle for more than {format_duration(case.rule.idle_after)} under {case.rule.name}{notes}",
        )
    if unsaid and move:
        return Step(
            name=StepName.WARN, because=f"its owner has not been told in this idle spell that it will be {PARTICIPLES[move]}"
        )
    due = last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)
    if now < due:
        when = action_due_at(case, memory, now) if acting else None
        next_ = (
            f"it is {PARTICIPLES[move]} in {format_duration(when - now)}"
            if move and when and now < when <= due
            else f"is reminded in {format_duration(due - now)}"
        )
        return Step(name=StepName.NONE, because=f"its owner was told {format_duration(now - last)} ago and {next_}")
    if valid_notice_at(case, memory, now) is None:
        return Step(
            name=StepName.WARN,
            because=f"idle again for more than {format_duration(case.rule.idle_after)} after a time without proof",
        )
    return Step(name=StepName.REMIND, because=f"still idle, and its owner was last told {format_duration(now - last)} ago")


def _recent_hours_notice(case: Case, memory: Memory, now: datetime) -> str | None:
    """Why nobody is told again of what is idle every evening, where nothing can be announced: told once, the next mail is a reminder's time off."""
    last = idle_period.last_notice_at(memory)
    if (
        last is None
        or not enrolment.is_stopped_by_hours(case)
        or idle_period.notice_was_about_hours(memory)
        or idle_period.has_new_owner(case, memory)
    ):
        return None
    due = last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)
    return (
        f"its owner was told {format_duration(now - last)} ago and is told again in {format_duration(due - now)}"
        if last <= now < due
        else None
    )


def _start_step(case: Case, memory: Memory, now: datetime) -> Step:
    if memory.last_action is StepName.START and _is_unconfirmed(memory, now):
        return Step(name=StepName.NONE, because="the reaper asked for it to be started, and the next sweeps see whether it was")
    ours = "the reaper had stopped it" if _stopped_by_us(case, memory) else f"{case.rule.name} starts everything that keeps them"
    return Step(name=StepName.START, because=f"its office hours have begun, and {ours}")


def nothing_to_do_because(case: Case, memory: Memory) -> str:
    """Why there is no step: it is as the reaper left it, or its state asks for none."""
    bar = case.blocked.get(memory.last_action) if memory.last_action else None
    if bar and bar.already_done and memory.last_action_at:
        return f"it is as the reaper left it on {memory.last_action_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {bar.because}"
    return f"nothing to do: it is {case.verdict.state}"


def _may_keep_hours(case: Case) -> bool:
    """Whether policy and protections let its office hours be kept at all."""
    return case.rule.protected_because is None and case.resource.tags is not None and case.rule.action.rank >= Ceiling.STOP.rank


def _started_by_hand(case: Case, now: datetime) -> str | None:
    """Why it is left running out of hours: somebody started it there, not long ago."""
    hours = case.rule.hours
    started = max((t for t in (case.resource.created, case.resource.changed) if t), default=None)
    since = office_hours.closed_since(hours, now) if hours else None
    if hours is None or since is None or started is None or started < since or now - started >= hours.override:
        return None
    return f"it was started outside its office hours {format_duration(now - started)} ago, which is respected for {format_duration(hours.override)}"


def _within_hours(case: Case, now: datetime) -> str | None:
    hours = case.rule.hours
    return "its office hours are on, so it is left running" if hours and office_hours.is_open(hours, now) else None


def _stopped_by_us(case: Case, memory: Memory) -> bool:
    """Whether the last one to stop it was the reaper: nobody changed it or made it anew since."""
    made, changed, acted = case.resource.created, case.resource.changed, memory.last_action_at
    if acted is None or (made is not None and made > acted):
        return False
    if (
        memory.last_action is StepName.START and memory.last_action_result is Result.FAILED
    ):  # it was ours when that start was tried
        return changed is None or changed <= acted
    return memory.last_action is StepName.STOP and (changed is None or changed <= acted + CONFIRM_WITHIN)


def _untouched_since_opening(case: Case, now: datetime) -> bool:
    """Whether nobody has stopped or changed it in the hours that run now. What does not say when it was changed may have been."""
    opened = office_hours.opened_today(case.rule.hours, now) if case.rule.hours else None
    return opened is not None and case.resource.changed is not None and case.resource.changed < opened


def _is_unconfirmed(memory: Memory, now: datetime) -> bool:
    return (
        memory.last_action_at is not None
        and memory.last_action is not None
        and memory.last_action_at <= now < memory.last_action_at + CONFIRM_WITHIN
    )


def _participle_of(memory: Memory) -> str:
    return PARTICIPLES.get(memory.last_action or StepName.STOP, "changed")


def is_snoozed(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a snooze holds: one that was given before the resource was made was for another of the same id."""
    return memory.snoozed_until is not None and memory.snoozed_until > now and not is_recreated(case, memory)


def is_recreated(case: Case, memory: Memory) -> bool:
    """Whether the resource was made after its snooze was given, under an id that another one had."""
    given, created = memory.snoozed_at, case.resource.created
    return given is not None and created is not None and created > given + idle_period.MAX_CLOCK_SKEW


def _snooze_sentence(memory: Memory) -> str:
    """The sentence about a snooze that holds."""
    until = memory.snoozed_until.astimezone(UTC) if memory.snoozed_until else None
    why = f": {memory.snooze_reason}" if memory.snooze_reason else ""
    return f"kept by {memory.snoozed_by or 'somebody'} until {until:%Y-%m-%d %H:%M} UTC{why}"
