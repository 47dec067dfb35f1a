"""Shapes that look real: office-hours traffic that goes on or falls silent, and the tags that people put on things."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SEEN = 15 * DAY
"""How far back the story's metrics go."""


def office(name: str, since: datetime, until: datetime, peak: float) -> Iterator[tuple[datetime, float]]:
    """One point an hour: a bell over the working day, little at night, less at weekends. The same name gives the same shape.

    The last point is at `until` exactly.
    """
    chance = Random(name)
    hour = since.replace(minute=0, second=0, microsecond=0)
    while hour + HOUR < until:
        bell = max(0.02, 1 - ((hour.hour - 13) / 6.5) ** 2) * (1.0 if hour.weekday() < 5 else 0.1)
        count = round(peak * bell * chance.uniform(0.7, 1.3))
        if count:
            yield hour + timedelta(minutes=chance.randrange(60)), count
        hour += HOUR
    yield until, max(1, round(peak / 10))


def ago(now: datetime, days: int) -> datetime:
    """A little more than so many days ago, because a use counts to the end of its hour."""
    return now - days * DAY - timedelta(minutes=90)


def tags(owner: str, team: str, env: str = "dev", **more: str) -> dict[str, str]:
    """Tags as people put them; `more` goes in as it is, with `__` for `:` and `_` for `-` in the names."""
    named = {key.replace("__", ":").replace("_", "-"): value for key, value in more.items()}
    return {"owner": f"{owner}@example.com", "team": team, "env": env} | named
