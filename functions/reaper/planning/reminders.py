"""What a decision adds to its step: the reminder of what is due in a run that doesn't act, and the weekly summary of office hours. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper import idle_period
from reaper.case import Step
from reaper.handover import Decision
from reaper.model import ACTIONS, ENDING_ACTIONS, Memory, Run, StepName
from reaper.planning import dates


def with_reminders(decision: Decision, memory: Memory, run: Run, now: datetime) -> Decision:
    """The decision, in a run that announces."""
    if not run.mode.acts:
        decision = _with_reminder_of_due(decision, memory, now)
    by_hours = decision.step.name in ACTIONS | {StepName.HOLD}
    return replace(decision, needs_summary=by_hours and dates.is_summary_due(decision.reported_case, memory, now))


def _with_reminder_of_due(decision: Decision, memory: Memory, now: datetime) -> Decision:
    """A reminder of what is due in a run that doesn't act. Otherwise its notice would lapse."""
    last = idle_period.last_notice_at(memory)
    remind_every = decision.case.rule.remind_every
    if decision.step.name not in ENDING_ACTIONS or last is None or now < last + remind_every - dates.CLOCK_JITTER:
        return decision
    return replace(decision, step=Step(name=StepName.REMIND, because=f"{decision.step.because}, and this run does not act"))
