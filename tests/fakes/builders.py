"""Readings, resources and rules with sensible values, so that a test names only what it is about."""

from __future__ import annotations

import math
from array import array
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from reaper.model import Ceiling, Resource, Role, Rule, Target
from reaper.observation import Observation, Reading, Series

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TARGET = Target(cloud="aws", account="123456789012", region="us-east-1")
END = datetime(2026, 11, 21, 10, 10, tzinfo=UTC)
SPAN = 14 * 24


def resource(**overrides: Any) -> Resource:
    """An endpoint created long ago, without tags."""
    fields = {
        "kind": "sagemaker-endpoint",
        "id": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn",
        "name": "churn",
        "target": TARGET,
        "region": "us-east-1",
        "created": NOW - 60 * DAY,
    }
    return Resource(**{**fields, **overrides})


def rule(**overrides: Any) -> Rule:
    """Idle after a day, with notices, acted on after three days."""
    fields = {"name": "test", "action": Ceiling.STOP, "idle_after": DAY, "grace": 3 * DAY, "remind_every": 7 * DAY}
    return Rule(**{**fields, **overrides})


def series(points: dict[int, float], hours: int = SPAN) -> Series:
    """Hourly buckets up to END; `points` by hours before it: 0 is the last bucket."""
    values = array("f", [math.nan]) * hours
    for back, value in points.items():
        values[hours - 1 - back] = value
    return Series(start=END - hours * HOUR, step=HOUR, values=values)


def activity(points: dict[int, float] | None = None, **fields: Any) -> Reading:
    """Invocations; silent unless `points` says otherwise."""
    return Reading(**{"signal": "Invocations", "role": Role.ACTIVITY, "series": series(points or {}), **fields})


def heartbeat(hours: int = SPAN, **fields: Any) -> Reading:
    """CPU samples in each of the last `hours` buckets."""
    return Reading(
        **{"signal": "CPUUtilization", "role": Role.HEARTBEAT, "series": series(dict.fromkeys(range(hours), 60.0)), **fields}
    )


def observation(*readings: Reading, **fields: Any) -> Observation:
    """What those readings make together."""
    return Observation(resource=fields.pop("resource", resource()), readings=readings, **fields)


def clock_at(now: datetime) -> type[datetime]:
    """`datetime` with a clock that stands at `now`, for a module that reads the machine's own."""

    class Standing(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return now.astimezone(tz)

    return Standing
