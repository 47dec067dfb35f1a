"""Rate limits: a token bucket per name, in this process only and bounded in number.

They slow one eager client down. Every warm instance has its own buckets, so the outer limit is the number of instances: reserved
concurrency on Lambda, the plan's instance limit on Azure. https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime


class RateLimiter:
    """Buckets of `burst` requests that refill at `per_second`. Over `max_names`, the names idle for longest are dropped first."""

    def __init__(self, burst: float, per_second: float, max_names: int = 4096) -> None:
        self.burst = burst
        self.per_second = per_second
        self._max_names = max_names
        self._buckets: OrderedDict[str, tuple[float, datetime]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, name: str, now: datetime) -> bool:
        """Whether `name` may send a request at `now`; if so, it's counted."""
        with self._lock:
            level, since = self._buckets.pop(name, (self.burst, now))
            level = min(self.burst, level + max(0.0, (now - since).total_seconds()) * self.per_second)
            allowed = level >= 1
            self._buckets[name] = (level - 1 if allowed else level, max(now, since))
            while len(self._buckets) > self._max_names:
                self._buckets.popitem(last=False)
        return allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimiters:
    """The limits for one network (offices and mail scanners share one), for one link, and for log lines about one status.

    Log lines cost money, too: on Azure, strangers could use up the daily cap, and the alerts would be blind until midnight.
    """

    per_network: RateLimiter
    per_link: RateLimiter
    per_log_line: RateLimiter


def default_limiters() -> RateLimiters:
    """Per network: bursts of 60 requests, then 1 a second. Per link: 20, then 1 every 3 seconds. Log lines: 60, then 1 a minute."""
    return RateLimiters(
        per_network=RateLimiter(burst=60, per_second=1),
        per_link=RateLimiter(burst=20, per_second=1 / 3),
        per_log_line=RateLimiter(burst=60, per_second=1 / 60),
    )
