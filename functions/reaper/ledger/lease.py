"""Whose turn it is: a target is told about and acted on by one sweep at a time, under a lease that is renewed while work goes on."""

from __future__ import annotations

from datetime import timedelta

from reaper.coverage import add, gap
from reaper.errors import ReaperError
from reaper.model import Coverage, Target
from reaper.notices.context import Desk

LEASE = timedelta(minutes=15)


def taken(desk: Desk, target: Target, run_id: str, gaps: list[Coverage]) -> bool:
    """Whether the target is ours now: taken, or prolonged where it was ours already. A ledger that fails gives no turn."""
    try:
        return desk.ledger.lease(target, run_id, desk.clock(), LEASE)
    except ReaperError as error:
        add(gaps, gap("ledger", error))
        return False


def over(desk: Desk, target: Target, run_id: str, gaps: list[Coverage]) -> None:
    """Give the target back."""
    try:
        desk.ledger.release(target, run_id)
    except ReaperError as error:
        add(gaps, gap("ledger", error))
