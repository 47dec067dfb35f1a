"""Endpoints whose evidence has a hole in it, or looks like use and is none."""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import TRAFFIC, serve, use
from reaper_sandbox.aws.fleet.traffic import DAY, HOUR, SEEN, ago, tags
from reaper_sandbox.aws.records import Variant


def seed(here: Account, now: datetime) -> None:
    """All of them."""
    _heartbeats(here, now)
    _odd_ones(here, now)


def _heartbeats(here: Account, now: datetime) -> None:
    one = (Variant(instance="ml.m5.2xlarge"),)
    stories: dict[str, tuple[datetime, datetime] | None] = {
        "heartbeat-missing": None,
        "heartbeat-stopped-3-days-ago": (now - SEEN, now - 3 * DAY),
        "heartbeat-began-late": (now - 5 * HOUR, now),
    }
    for name, heard in stories.items():
        here.endpoint(name, variants=one, created=now - 80 * DAY, tags=tags("priya", "platform"))
        if heard:
            here.alive(name, "AllTraffic", *heard)
        if name != "heartbeat-missing":
            use(here, name, "AllTraffic", now, ago(now, 6))


def _odd_ones(here: Account, now: datetime) -> None:
    one = (Variant(instance="ml.g4dn.xlarge"),)
    owned = tags("yusuf", "research")
    here.endpoint("zero-valued-points-idle", variants=one, created=now - 35 * DAY, tags=owned)
    serve(here, "zero-valued-points-idle", one, now)
    pair = {"EndpointName": "zero-valued-points-idle", "VariantName": "AllTraffic"}
    here.steady_by_minute(TRAFFIC, "Invocations", pair, now - SEEN, now, 0)
    here.endpoint("config-deleted-idle", variants=one, created=now - 35 * DAY, tags=owned, config_deleted=True)
    serve(here, "config-deleted-idle", one, now)
    use(here, "config-deleted-idle", "AllTraffic", now, ago(now, 10))
    pools = (Variant(pools=(("ml.g5.xlarge", 1), ("ml.g6.xlarge", 1)), instance=None, count=2),)
    here.endpoint("instance-pools-idle", variants=pools, created=now - 35 * DAY, tags=owned)
    serve(here, "instance-pools-idle", pools, now)
    use(here, "instance-pools-idle", "AllTraffic", now, ago(now, 3))
