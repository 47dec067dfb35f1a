"""What a jump of the idle share means for notices of idleness: none for two days, then none with a date, and earlier ones lapse. Pure.

A jump is more likely a broken signal than an empty office, so what its owners would read might be untrue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reaper import idle_period, plan
from reaper.case import Blocked, Case, Step
from reaper.handover import Decision
from reaper.model import ENDING_ACTIONS, NOTICES, Memory, StepName
from reaper.pending.holds import QUIET_FOR, Breaker
from reaper.planning import possible_actions


def without_lapsed_notice(memory: Memory, breakers: Sequence[Breaker]) -> Memory:
    """The memory without a notice of an action from before the end of a jump: the action needs a new one."""
    if memory.warned_at is None or memory.announced_action is None or idle_period.notice_was_about_hours(memory):
        return memory
    lapsed = any(b.lapsed_at and memory.warned_at < b.lapsed_at for b in breakers)
    return idle_period.without_notice(memory) if lapsed else memory


def after_jumps(
    decision: Decision, memory: Memory, breakers: Sequence[Breaker], now: datetime, *, acting: bool
) -> tuple[Decision, Memory]:
    """The decision under these breakers, and the memory it is based on. What office hours decide stays as it is.

    An action that is due stays, too, while a jump stands: the limits put it on hold.
    """
    if acting and plan.follows_hours(decision.reported_case, memory, now):
        return decision, memory
    jumps = [breaker for breaker in breakers if breaker.since]
    if not jumps:
        valid = without_lapsed_notice(memory, breakers)
        return (decision if valid == memory else _planned_again(decision, valid, now, acting)), valid
    if decision.step.name not in {*NOTICES, StepName.NONE} or not possible_actions.may_act(decision.reported_case):
        return decision, memory
    latest = max(jump.since for jump in jumps if jump.since)
    because = f"{jumps[0].because.partition(';')[0]}, which may be a fault in the metrics"
    if now - latest < QUIET_FOR:
        until = f"{latest + QUIET_FOR:%Y-%m-%d %H:%M} UTC"
        return without_notice_of(decision, f"no notice is sent until {until}, because {because}"), memory
    undated = replace(decision, case=_without_actions(decision.case, because))
    valid = idle_period.without_notice(memory) if memory.announced_action is not None else memory
    return _planned_again(undated, valid, now, acting), valid


def without_notice_of(decision: Decision, because: str) -> Decision:
    """The decision without a step, for that reason."""
    return replace(decision, step=Step(name=StepName.NONE, because=because))


def _planned_again(decision: Decision, memory: Memory, now: datetime, acting: bool) -> Decision:
    return replace(decision, step=plan.plan_step(decision.reported_case, memory, now, acting=acting))


def _without_actions(case: Case, because: str) -> Case:
    """The case with its stop and delete blocked, so that a notice announces neither."""
    blocked = {
        name: found or (Blocked(because=because) if name in ENDING_ACTIONS else None) for name, found in case.blocked.items()
    }
    return replace(case, blocked=blocked)
