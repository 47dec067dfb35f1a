"""Planning asked about one judged resource: a case, what the ledger has on it, and the time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reaper import plan
from reaper.case import Case
from reaper.finding import Finding, Step, View
from reaper.model import NextAction, StepName
from reaper.planning import accepted, dates
from reaper.record import NO_SNOOZES, Notice, Record, Snoozes


def viewed(case: Case, now: datetime, record: Record | None = None, snoozes: Snoozes = NO_SNOOZES, **run: Any) -> View:
    """One resource as planning sees it."""
    return View(case=case, now=now, record=record or Record(), snoozes=snoozes, **run)


def plan_step(case: Case, record: Record, snoozes: Snoozes, now: datetime, **run: Any) -> Step:
    return plan.plan_step(viewed(case, now, record, snoozes, **run))


def stand(case: Case, record: Record, snoozes: Snoozes, now: datetime) -> Finding:
    return plan.stand(viewed(case, now, record, snoozes))


def without_void_notice(case: Case, record: Record, snoozes: Snoozes, now: datetime, **run: Any) -> Record:
    return dates.without_void_notice(viewed(case, now, record, snoozes, **run)).record


def void_because(case: Case, record: Record, snoozes: Snoozes, now: datetime, **run: Any) -> str | None:
    return dates.void_because(viewed(case, now, record, snoozes, **{"announces": False, **run}))


def after_judging(case: Case, record: Record, snoozes: Snoozes, now: datetime, **run: Any) -> Record:
    return accepted.after_judging(viewed(case, now, record, snoozes, **run))


def after_notice(case: Case, record: Record, step: Step, receipt: str, now: datetime, **run: Any) -> Record:
    return accepted.after_notice(viewed(case, now, record, **run), step, receipt)


def after_action_mail(case: Case, record: Record, action: StepName, receipt: str, now: datetime) -> Record:
    return accepted.after_action_mail(viewed(case, now, record), action, receipt)


def next_action(case: Case, record: Record, now: datetime, blocked: Step | None = None) -> NextAction | None:
    return plan.next_action(viewed(case, now, record), blocked)


def action_due_at(case: Case, record: Record, now: datetime) -> datetime | None:
    return dates.action_due_at(viewed(case, now, record))


def valid_notice_at(case: Case, record: Record, now: datetime) -> datetime | None:
    return dates.valid_notice_at(viewed(case, now, record))


def forced_stop_at(case: Case, notice: Notice | None, now: datetime) -> datetime | None:
    return dates.forced_stop_at(viewed(case, now, Record(notice=notice)))


def enrolled_since(case: Case, notice: Notice | None) -> datetime | None:
    return dates.enrolled_since(viewed(case, notice.warned_at, Record(notice=notice)))


def is_summary_due(case: Case, notice: Notice | None, snoozes: Snoozes, now: datetime) -> bool:
    return dates.is_summary_due(viewed(case, now, Record(notice=notice), snoozes))


def is_forced(case: Case, now: datetime) -> bool:
    return dates.is_forced(viewed(case, now))


def may_start(case: Case, record: Record, now: datetime) -> bool:
    return dates.may_start(viewed(case, now, record))


def strongest_action(case: Case, now: datetime) -> StepName | None:
    return dates.strongest_action(viewed(case, now))


def with_snooze(case: Case, snoozes: Snoozes, now: datetime) -> Case:
    return dates.with_snooze(viewed(case, now, snoozes=snoozes)).case


def seen_idle(case: Case, record: Record, now: datetime) -> Record:
    return dates.seen_idle(viewed(case, now, record))


def since_own_call(case: Case, record: Record, now: datetime) -> Case:
    return dates.since_own_call(viewed(case, now, record)).case


def idle_period_start(case: Case, record: Record, now: datetime) -> datetime:
    return dates.idle_period_start(viewed(case, now, record))


def without_wrong_notice(case: Case, record: Record, now: datetime) -> Record:
    return dates.without_wrong_notice(viewed(case, now, record))
