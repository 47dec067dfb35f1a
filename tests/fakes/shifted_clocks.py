"""The clocks of stores that run in other processes, for tests that shift this machine's."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from time_machine import escape_hatch

from reaper.ledger import rows


def shift_stores() -> None:
    """From now on the dates of the stores' replies are shifted by as much as this machine's clock, however that moves."""

    def shifted(date: str) -> datetime:
        return parsedate_to_datetime(date) + (datetime.now(UTC) - escape_hatch.datetime.datetime.now(UTC))

    rows.parsedate_to_datetime = shifted


def unshift_stores() -> None:
    """Read these dates as they are again."""
    rows.parsedate_to_datetime = parsedate_to_datetime
