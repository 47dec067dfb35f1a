"""The play's own time: it stands still between commands, and runs as the real one does while a command runs.

The simulated clouds and the mail server read it, and every command starts at its moment, so all of them agree to a few milliseconds.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Where the play's time stands. `now` while a command runs moves on with the real time; it never goes back."""

    def __init__(self, begin: datetime) -> None:
        self._at = begin.astimezone(UTC)
        self._running: float | None = None

    @property
    def now(self) -> datetime:
        """The time in the play."""
        if self._running is None:
            return self._at
        return self._at + timedelta(seconds=time.monotonic() - self._running)

    def run(self) -> None:
        """A command begins."""
        self._running = time.monotonic()

    def stand(self) -> None:
        """A command is over."""
        self._at, self._running = self.now, None

    def to(self, moment: datetime) -> None:
        """Steps on to `moment`. Raises ValueError for one that is past."""
        if moment < self._at:
            raise ValueError(f"the play is at {self._at}, which is after {moment}")
        self._at = moment
