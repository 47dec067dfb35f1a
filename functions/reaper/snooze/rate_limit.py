"""How often somebody may ask: a token bucket per name, in this process alone and bounded in size.

It blunts one eager client. Every warm instance has its own buckets, so the outer limit is the number of instances: reserved concurrency
on Lambda, the plan's instance limit on Azure. https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime


class RateLimiter:
    """Buckets of `burst` askings, each filling up again at `per_second`; the names not heard of for longest are forgotten first."""

    def __init__(self, burst: float, per_second: float, most: int = 4096) -> None:
        self.burst = burst
        self.per_second = per_second
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, datetime]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, name: str, now: datetime) -> bool:
        """Whether `name` may ask once more at `now`; if so, the asking is counted."""
        with self._lock:
            level, since = self._buckets.pop(name, (self.burst, now))
            level = min(self.burst, level + max(0.0, (now - since).total_seconds()) * self.per_second)
            allowed = level >= 1
            self._buckets[name] = (level - 1 if allowed else level, max(now, since))
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimiters:
    """What is counted: the network that asks (offices and mail scanners share one), the single link, and the log lines about one status.

    Log lines have a price too: on Azure, strangers could use up the day's cap, and the alerts would see nothing until midnight.
    """

    per_network: RateLimiter
    per_link: RateLimiter
    per_log_line: RateLimiter


def default_limiters() -> RateLimiters:
    """60 askings at once and one a second from one network; 20 at once and one every three seconds for one link; 60 lines and one a minute."""
    return RateLimiters(
        per_network=RateLimiter(burst=60, per_second=1),
        per_link=RateLimiter(burst=20, per_second=1 / 3),
        per_log_line=RateLimiter(burst=60, per_second=1 / 60),
    )
