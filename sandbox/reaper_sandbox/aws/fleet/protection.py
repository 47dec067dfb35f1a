"""Idle endpoints that a tag protects, means to protect, or no longer protects."""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import serve, use
from reaper_sandbox.aws.fleet.traffic import DAY, ago, tags
from reaper_sandbox.aws.records import Variant


def seed(account: Account, now: datetime) -> None:
    """All of them."""
    one = (Variant(instance="ml.m5.xlarge"),)
    stories = {
        "kept-by-tag": tags("ada", "research", reaper__keep="true"),
        "keep-until-next-month": tags("ada", "research", reaper__keep_until=f"{now + 30 * DAY:%Y-%m-%d}"),
        "keep-until-last-month": tags("ada", "research", reaper__keep_until=f"{now - 30 * DAY:%Y-%m-%d}"),
        "keep-tag-misspelt": tags("bo", "research", reaper__kepp="true"),
        "keep-until-unreadable": tags("bo", "research", reaper__keep_until="next tuesday"),
        "search-ranking-prod": tags("mika", "search", env="prod"),
    }
    for name, owned in stories.items():
        account.endpoint(name, variants=one, created=now - 100 * DAY, tags=owned)
        serve(account, name, one, now)
        use(account, name, "AllTraffic", now, ago(now, 5))
