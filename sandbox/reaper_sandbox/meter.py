"""A meter for what simulated resources bill: rate times time, exact, by name. Knows nothing of any cloud."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)


class Meter:
    """Integrates rates an hour. Read it right before and after everything that may change one: between two readings they stand still."""

    def __init__(self, rates: Callable[[], Mapping[str, float]], begin: datetime) -> None:
        self._rates, self._at = rates, begin
        self._running = dict(rates())
        self.total: defaultdict[str, float] = defaultdict(float)
        """What each has billed up to the last reading."""

    def read(self, now: datetime) -> None:
        """Bill the time since the last reading at the rates of then. A moment before that changes nothing."""
        for name, rate in self._running.items():
            self.total[name] += rate * (max(now, self._at) - self._at) / HOUR
        self._at, self._running = max(now, self._at), dict(self._rates())
