"""How a memory changes: when somebody was told, before and after an action, after an undo, and once a verdict is known. Pure.

`plan` reads memories and never changes one; who calls these writes what they give to the ledger.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper import enrolment, idle_period, plan
from reaper.model import Announced, Case, Memory, Move, Result, State, Step


def heeding(memory: Memory, host: Memory | None) -> Memory:
    """The memory once a snooze of what it lives in has answered its notice, as one of its own would have."""
    last = memory.warned_at if idle_period.enrolling(memory) else idle_period.last_notice(memory)
    until = host.snoozed_until if host else None
    return idle_period.spent(memory) if last and until and last < until else memory


def told(case: Case, memory: Memory, step: Step, receipt: str, now: datetime, *, acting: bool = True) -> Memory:
    """The memory once a channel has accepted a warning or a reminder, with what it announced. A reminder never moves the date."""
    if step.move is Move.WARN:
        return _warned(case, memory, receipt, now, acting)
    if step.move is not Move.REMIND:
        return memory
    move = plan.act(case, now) if acting else None
    kept = enrolment.since(case, memory, now) is not None
    said = Announced.HOURS if kept else Announced(move) if move else None
    shape = memory.shape if kept else case.resource.facts.get("shape")
    return replace(memory, reminded_at=now, receipt=receipt, told=case.owner, announced=said, shape=shape)


def _warned(case: Case, memory: Memory, receipt: str, now: datetime, acting: bool) -> Memory:
    move, hours = plan.act(case, now) if acting else None, case.rule.hours
    enrols = move is not None and hours is not None and enrolment.asked(case)
    return replace(
        memory,
        warned_at=now,
        reminded_at=None,
        receipt=receipt,
        told=case.owner,
        shape=case.resource.facts.get("shape"),
        announced=Announced.HOURS if enrols else Announced(move) if move else None,
        promised=plan.promise(case, now) if move else None,
        enrolled=enrolment.digest(hours) if enrols and hours else None,
        held_at=None,
    )


def told_of_part(case: Case, memory: Memory, receipt: str, now: datetime) -> Memory:
    """The memory once a channel has accepted the mail about the first part of an action: it is the notice for the rest."""
    return replace(
        idle_period.silent(memory),
        warned_at=now,
        receipt=receipt,
        told=case.owner,
        announced=Announced(memory.last_act or Move.STOP),
        promised=plan.promise(case, now),
        act_told=now,
    )


def meant(memory: Memory, move: Move, manifest: str | None, run: str, now: datetime) -> Memory:
    """The memory just before a move is made: whoever comes next knows that it may have been. A start keeps the manifest of its stop."""
    return replace(
        memory,
        last_act=move,
        acted_at=now,
        manifest=manifest or memory.manifest,
        act_run=run,
        act_result=None,
        act_because=None,
        act_part=None,
        act_told=None,
    )


def taken_back(memory: Memory, before: Memory) -> Memory:
    """The memory without an intent of which no call was made: what it said of the action before it."""
    return replace(
        memory,
        last_act=before.last_act,
        acted_at=before.acted_at,
        manifest=before.manifest,
        act_run=before.act_run,
        act_result=before.act_result,
        act_because=before.act_because,
        act_part=before.act_part,
        act_told=before.act_told,
    )


def settled(memory: Memory, result: Result, because: str, part: str | None = None) -> Memory:
    """The memory once it is known what became of an action, or that nobody can know: its notice is used up."""
    return replace(moved(memory), act_result=result, act_because=because, act_part=part)


def went(memory: Memory, move: Move, because: str, run: str, now: datetime) -> Memory:
    """The memory of what was stopped or deleted with what it lives in: done, and its owner still to be told."""
    return settled(meant(memory, move, None, run, now), Result.DONE, because)


def not_known(memory: Memory) -> Memory:
    """The memory once an action that an earlier run began is closed: nobody can tell whether it was made."""
    when = memory.acted_at.astimezone(UTC) if memory.acted_at else None
    run = f"run {memory.act_run}" if memory.act_run else "a run of an earlier version"
    because = f"it isn't known whether it was made: {run} began it on {when:%Y-%m-%d %H:%M} UTC and broke off"
    return settled(memory, Result.FAILED, because)


def is_open(memory: Memory, run: str | None = None) -> bool:
    """Whether an action was begun by another run than `run` and what became of it is not known.

    Version 49f8b6c left no result: there it was open where the notice that it used up still stands.
    """
    if memory.last_act is None or memory.acted_at is None or memory.act_result is not None:
        return False
    if memory.act_run is not None:
        return memory.act_run != run
    return memory.warned_at is not None and memory.warned_at <= memory.acted_at and memory.last_act in plan.STRENGTH


def moved(memory: Memory) -> Memory:
    """The memory once a move was made: its notice is used up, another move needs another. An enrolment lasts."""
    kept = memory if idle_period.enrolling(memory) else idle_period.silent(memory)
    return replace(kept, idle_since=None, idle_seen=None)


def undone(memory: Memory) -> Memory:
    """The memory once a move was taken back: nothing of it is left, and nothing is done again without a new notice."""
    return taken_back(moved(memory), Memory())


def after(case: Case, memory: Memory, now: datetime) -> Memory:
    """What is to be remembered once this verdict is known; equal to `memory` where nothing needs to be written.

    Use, change and protection close the spell; `unknown` and what costs nothing say nothing about it. Give it the case as judged,
    before `spared_by_memory`, so that a spell lasts through a snooze. Snoozes, acts and manifests are never touched but when over,
    or when a snooze was given to what had this id before.
    """
    if memory.snoozed_until and not plan.is_snoozed(case, memory, now):
        memory = _ended_snooze(case, idle_period.spent(memory) if idle_period.answered(memory, now) else memory, now)
    if case.verdict.state in {State.ACTIVE, State.YOUNG} or case.rule.protected:
        return replace(memory if _outlasts(case, memory, now) else idle_period.silent(memory), idle_since=None, idle_seen=None)
    return idle_period.renewed(case, memory, now) if plan.may_move(case) else memory


def _ended_snooze(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory without a snooze that is over. With something inside it stays for as long as a notice about that could still count, for
    it answers that one, too, and its row may not be read today.
    """
    counts = memory.snoozed_until is not None and now <= memory.snoozed_until + idle_period.lapse(case)
    stays = counts and case.resource.facts.get("within") and not plan.is_anew(case, memory)
    return memory if stays else idle_period.awake(memory)


def _outlasts(case: Case, memory: Memory, now: datetime) -> bool:
    """Whether a notice goes on although it is not idle now: of office hours, or of the rest of an action that made it young itself.

    One of office hours also while these only protect, as under a rule with a price while that is not known, which it never is of an
    endpoint in use: whether the enrolment counts is looked at each time (`enrolment.since`).
    """
    if idle_period.lasting(case, memory):
        return case.rule.hours is not None
    rest = case.verdict.state is State.YOUNG and idle_period.of_a_part(memory) and not case.rule.protected
    return rest and not idle_period.void(case, memory, now)
