"""Stores in other processes, which keep the true time while a test shifts the clock of this machine."""

from __future__ import annotations

from datetime import datetime, tzinfo

from time_machine import escape_hatch

from reaper.ledger import rows


class TrueTime(datetime):
    """`datetime` under the true clock."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """The true time."""
        return escape_hatch.datetime.datetime.now(tz)


def compare_true_clocks() -> None:
    """From now on a ledger compares the dates of its store's replies with the true time, not with the shifted one."""
    rows.datetime = TrueTime  # type: ignore[misc]


def compare_own_clock() -> None:
    """Compare them with this machine's clock again."""
    rows.datetime = datetime  # type: ignore[misc]
