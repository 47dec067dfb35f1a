"""Endpoints whose evidence has a hole in it, or looks like use and is none."""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import TRAFFIC, serve, use
from reaper_sandbox.aws.fleet.traffic import DAY, HOUR, SEEN, ago, tags
from reaper_sandbox.aws.records import Variant


def seed(account: Account, now: datetime) -> None:
    """All of them."""
    _heartbeats(account, now)
    _odd_ones(account, now)


def _heartbeats(account: Account, now: datetime) -> None:
    one = (Variant(instance="ml.m5.2xlarge"),)
    stories: dict[str, tuple[datetime, datetime] | None] = {
        "heartbeat-missing": None,
        "heartbeat-stopped-3-days-ago": (now - SEEN, now - 3 * DAY),
        "heartbeat-began-late": (now - 5 * HOUR, now),
    }
    for name, heard in stories.items():
        account.endpoint(name, variants=one, created=now - 80 * DAY, tags=tags("priya", "platform"))
        if heard:
            account.alive(name, "AllTraffic", *heard)
        if name != "heartbeat-missing":
            use(account, name, "AllTraffic", now, ago(now, 6))


def _odd_ones(account: Account, now: datetime) -> None:
    one = (Variant(instance="ml.g4dn.xlarge"),)
    owned = tags("yusuf", "research")
    account.endpoint("zero-valued-points-idle", variants=one, created=now - 35 * DAY, tags=owned)
    serve(account, "zero-valued-points-idle", one, now)
    pair = {"EndpointName": "zero-valued-points-idle", "VariantName": "AllTraffic"}
    account.steady_by_minute(TRAFFIC, "Invocations", pair, now - SEEN, now, 0)
    account.endpoint("config-deleted-idle", variants=one, created=now - 35 * DAY, tags=owned, config_deleted=True)
    serve(account, "config-deleted-idle", one, now)
    use(account, "config-deleted-idle", "AllTraffic", now, ago(now, 10))
    pools = (Variant(pools=(("ml.g5.xlarge", 1), ("ml.g6.xlarge", 1)), instance=None, count=2),)
    account.endpoint("instance-pools-idle", variants=pools, created=now - 35 * DAY, tags=owned)
    serve(account, "instance-pools-idle", pools, now)
    use(account, "instance-pools-idle", "AllTraffic", now, ago(now, 3))
