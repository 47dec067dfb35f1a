"""One resource at one moment, as planning sees it: what was proven of it, what the ledger has on it, and what its run may announce."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from reaper.case import Case
from reaper.record import NO_RECORD, NO_SNOOZES, Notice, Record, Snoozes


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A case at the time `now`, with its record and its snoozes. Without `announces` its run plans and announces no action.

    `lapsed`: when jumps of the idle share ended in its place.
    """

    case: Case
    now: datetime
    record: Record = NO_RECORD
    snoozes: Snoozes = NO_SNOOZES
    announces: bool = True
    lapsed: tuple[datetime | None, ...] = ()


def with_notice(view: View, notice: Notice | None) -> View:
    """The view if that had been the last notice."""
    return replace(view, record=replace(view.record, notice=notice))
