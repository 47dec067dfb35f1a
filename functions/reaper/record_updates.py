"""How a record changes before and after an action, and after an undo. Pure: the callers write the results to the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper import idle_period
from reaper.model import Result, StepName
from reaper.record import Act, Record


def before_action(record: Record, begun: Act) -> Record:
    """The record just before an action, so that later runs know that it may have been carried out.

    A start keeps the manifest of its stop.
    """
    kept = record.act.manifest if record.act and begun.action is StepName.START else begun.manifest
    created = begun.created if begun.changes else None
    return replace(record, act=replace(begun, manifest=kept, created=created), called_at=begun.at)


def with_result(record: Record, result: Result, because: str, part: str | None = None) -> Record:
    """The record once the result of an action is known, or can't be known: its notice is used up."""
    act = record.act and replace(record.act, result=result, because=because, part=part, told_at=None, changes=(), created=None)
    return replace(after_action(record), act=act)


def closed_unknown(record: Record) -> Record:
    """The record with an action that is still open closed with an unknown result."""
    if record.act is None or record.act.result is not None:
        return record
    because = (
        f"it isn't known whether the action was carried out: run {record.act.run} started it on "
        f"{record.act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC and stopped before recording the result"
    )
    return with_result(record, Result.FAILED, because)


def left_stopped(record: Record) -> Record:
    """The record of what office hours stopped and don't start: its owner gets a mail, and other hours need a new notice."""
    if record.act is None:
        return record
    because = f"{record.act.because}; it is protected or its office hours no longer apply, so it isn't started for now"
    return replace(record, notice=None, act=replace(record.act, told_at=None, because=because))


def is_unfinished(record: Record, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action whose result is unknown."""
    return record.act is not None and record.act.result is None and record.act.run != run


def is_interrupted(record: Record, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action that may be half done. What is silent because of it proves nothing."""
    return is_unfinished(record, run) and record.act is not None and bool(record.act.changes)


def after_action(record: Record) -> Record:
    """The record after an action: its notice is used up, and another action needs another notice. An enrolment lasts."""
    notice = record.notice if idle_period.is_about_hours(record.notice) else None
    return replace(record, notice=notice, claim=None, idle_since=None, seen_idle_at=None, state=None, state_at=None)


def after_undo(record: Record, now: datetime) -> Record:
    """The record after an undo: of the action it keeps only when the resource was last changed. Another action needs a new notice."""
    return replace(after_action(record), act=None, called_at=now)
