"""Keeps a seeded fleet up to date while the real clock runs: what published up to the moment of seeding goes on publishing.

    settle(server, now)
    server.rules.append(keep_publishing(server))

Without this, every heartbeat would stop at that moment, and after an hour no silence would prove anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Guard
from reaper_sandbox.aws.records import App, Stream
from reaper_sandbox.aws.series import Series
from reaper_sandbox.aws.server import Server
from reaper_sandbox.aws.world import World

RECENT = timedelta(hours=1)
"""What published this lately goes on, and what showed use stays in use."""
EVERY_S = 300
"""Seconds between two points of use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What goes on: steady runs of a series (by their place in it), series that show use, health checks of apps, and log streams."""

    steady: list[tuple[Series, int]]
    used: list[Series]
    apps: list[App]
    streams: list[Stream]


def keep_publishing(server: Server) -> Guard:
    """A guard that lets every call pass. Before that, it continues all signals up to now."""
    world = server.world
    update = _updater(world, live_parts(world, world.now))

    def guard(call: Call) -> None:
        update()

    return guard


def _updater(world: World, live: Live) -> Callable[[], None]:
    def update() -> None:
        with world.lock:
            publish_until(live, world.now)

    return update


def live_parts(world: World, now: datetime) -> Live:
    """What in this world reached `now`, or nearly: setting it up takes some seconds."""
    recent = int((now - RECENT).timestamp())
    regions = list(world.regions.values())
    series = [one for region in regions for one in region.metrics.series.values()]
    return Live(
        steady=[(one, at) for one in series for at, run in enumerate(one.runs) if run.until >= recent],
        used=[one for one in series if one.stamps and max(one.stamps) >= recent],
        apps=[app for region in regions for app in region.apps.values() if app.checked and app.checked >= now - RECENT],
        streams=[
            stream
            for region in regions
            for group in region.streams.values()
            for stream in group.values()
            if stream.last_event and stream.last_event >= now - RECENT
        ],
    )


def publish_until(live: Live, now: datetime) -> None:
    """Continue all of it up to `now`. An app whose only activity is its health check stays so."""
    end = int(now.timestamp())
    for series, at in live.steady:
        series.runs[at] = replace(series.runs[at], until=max(end, series.runs[at].until))
    for series in live.used:
        value = series.values[-1]
        for stamp in range(max(series.stamps) + EVERY_S, end, EVERY_S):
            series.add(stamp, value)
    for app in live.apps:
        if app.used == app.checked:
            app.used = now
        app.checked = now
    for stream in live.streams:
        stream.last_event = stream.last_ingestion = now - timedelta(minutes=1)
