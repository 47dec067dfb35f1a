"""Whose turn it is: a target is told about and acted on by one sweep at a time, under a lease that is renewed while work goes on."""

from __future__ import annotations

from datetime import timedelta

from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError
from reaper.model import Coverage, Target
from reaper.notices.context import ConcludeContext

LEASE = timedelta(minutes=15)


def take_lease(desk: ConcludeContext, target: Target, run_id: str, gaps: list[Coverage]) -> bool:
    """Whether the target is ours now: taken, or prolonged where it was ours already. A ledger that fails gives no turn."""
    try:
        return desk.ledger.take_lease(target, run_id, desk.clock(), LEASE)
    except ReaperError as error:
        add_failure_row(gaps, failure_row("ledger", error))
        return False


def give_back_lease(desk: ConcludeContext, target: Target, run_id: str, gaps: list[Coverage]) -> None:
    """Give the target back."""
    try:
        desk.ledger.give_back_lease(target, run_id)
    except ReaperError as error:
        add_failure_row(gaps, failure_row("ledger", error))
