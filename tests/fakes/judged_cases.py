"""Judged resources for the plan's tests, and what the plan makes of one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fakes.builders import DAY, NOW, resource, rule
from reaper.case import Case
from reaper.model import Confidence, State, StepName, Verdict
from reaper.plan import plan_step
from reaper.planning.valid_notice import without_void_notice
from reaper.record import Record

WEEK = 7 * DAY
LOOKBACK = 14 * DAY


def case(state: State = State.IDLE, idle_for: timedelta | None = 3 * DAY, **fields: Any) -> Case:
    """A resource that is idle for three days, if nothing else is said; `last_busy`, `changed` and what a rule has may be said."""
    verdict = Verdict(
        state=state,
        because="said so",
        idle_for=idle_for if state is State.IDLE else None,
        last_busy=fields.pop("last_busy", None),
        confidence=Confidence.PROVEN if state is State.IDLE else None,
    )
    thing, acts = resource(changed=fields.pop("changed", None)), fields.pop("acts", {})
    return Case(resource=thing, rule=rule(**fields), verdict=verdict, blocked=acts)


def counted(of: Case, record: Record, now: datetime = NOW, host: Memory | None = None, **seen: Any) -> Record:
    """What is left of a record whose notice may be void, in a run that announces."""
    return without_void_notice(of, record, now, host, announces=True, **seen)


def move(of: Case, record: Memory | None = None, now: datetime = NOW) -> StepName:
    step = plan_step(of, record or Record(), now)
    return step.name
