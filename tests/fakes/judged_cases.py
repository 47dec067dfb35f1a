"""Judged resources for the plan's tests, and what the plan makes of one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fakes import planned
from fakes.builders import DAY, NOW, resource, rule
from fakes.planned import plan_step, without_void_notice
from reaper.case import Case
from reaper.finding import Step
from reaper.model import Confidence, State, StepName, Verdict
from reaper.record import NO_SNOOZES, Record, Snoozes

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


Known = Record | tuple[Record, Snoozes]
"""What the ledger has on a resource, with or without what people said about it."""


def _both(known: Known | None) -> tuple[Record, Snoozes]:
    return known if isinstance(known, tuple) else (known or Record(), NO_SNOOZES)


def counted(of: Case, known: Known, now: datetime = NOW, **seen: Any) -> Record:
    """What is left of a record whose notice may be void, in a run that announces."""
    return without_void_notice(of, *_both(known), now, **{"announces": True, **seen})


def step_of(of: Case, known: Known | None = None, now: datetime = NOW, **run: Any) -> Step:
    """What the plan makes of it."""
    return plan_step(of, *_both(known), now, **run)


def move(of: Case, known: Known | None = None, now: datetime = NOW) -> StepName:
    return step_of(of, known, now).name


def after_judging(of: Case, known: Known, now: datetime = NOW, **run: Any) -> Record:
    """The record once its verdict is known."""
    return planned.after_judging(of, *_both(known), now, **run)


def with_snooze(of: Case, known: Known, now: datetime = NOW) -> Case:
    return planned.with_snooze(of, _both(known)[1], now)
