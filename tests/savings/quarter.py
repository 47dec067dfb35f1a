"""Months of enforcement on both clouds with a meter, beside a twin in which the same people do the same and no reaper acts.

Every command is a process of its own under the play's clock. What people do is fixed in days from the beginning, so that what the method leaves
out can be told exactly.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from play import terms, town
from play.aws_things import AwsApp, AwsEndpoint, AwsNotebook
from play.azure_things import AzCluster, AzDeployment, AzInstance
from play.clock import Clock
from play.clouds import SETTLES, Aws, Azure, Wire
from play.shell import PRODUCT, Shell
from play.terms import DAY, HOUR
from play.thing import Span, Thing
from reaper_sandbox.aws.account import Account
from reaper_sandbox.meter import Meter

BEGIN = datetime(2026, 9, 7, 6, 30, tzinfo=UTC)
"""A Monday, in office hours; twelve hours later these are over."""
IDLE_AFTER = 12 * HOUR
Event = tuple[float, str, str]
"""In days from the beginning, what happens to which thing."""
PAST = 4 * DAY
REGION = "us-east-1"
POLICY = """\
version: 1
defaults: {{action: stop, idle_after: 12h, grace: 11h, remind_every: 7d, lookback: 3d}}
limits: {{max_acts: 500, max_share: 100%, max_jump: 100%, max_usd_per_hour: 100000, run: {{max_acts: 500, max_share: 100%}}}}
owners: {{tags: [owner], domains: [example.com], fallback: ml-admins@example.com}}
report: {{tags: [team]}}
savings: {{horizon: {horizon}d}}
channels: [{{type: folder, path: mails}}]
rules:
  - name: watched only
    match: {{name: "watch-*"}}
    action: notify
  - name: may be deleted
    match: {{name: "legacy-*"}}
    action: delete
  - name: office hours
    match: {{name: "desk-*"}}
    hours: {{on: "mon-fri 08:00-18:00", tz: Europe/Berlin, start: ours}}
"""


class MeteredWire(Wire):
    """Reads the meter around every call, so that no change of a rate falls between two readings."""

    meter: Meter | None = None

    def arrives(self, action: str, subject: str = "") -> None:
        super().arrives(action, subject)
        self._read()

    def carried(self, change: Any, reading: bool) -> bool:
        self._read()
        return super().carried(change, reading)

    def _read(self) -> None:
        if self.meter:
            with self.lock:
                self.meter.read(self.clock.now)


@dataclass
class World:
    """One of the two: its things by name, and its meter, once `unit_usd` says what a machine of each costs an hour."""

    clock: Clock
    wire: MeteredWire
    aws: Aws
    azure: Azure
    things: dict[str, Thing]
    unit_usd: dict[str, float] = field(default_factory=dict)

    def rates(self) -> dict[str, float]:
        """What each bills an hour now."""
        return {name: thing.level() * self.unit_usd.get(name, 0.0) for name, thing in self.things.items()}

    def begin(self, unit_usd: dict[str, float]) -> None:
        """The meter begins."""
        self.unit_usd = unit_usd
        self.wire.meter = Meter(self.rates, self.clock.now)

    @property
    def meter(self) -> Meter:
        assert self.wire.meter
        return self.wire.meter


@dataclass
class Quarter:
    """The play. `events` are (day, name, what), in order."""

    ours: World
    twin: World
    shell: Shell
    clock: Clock
    home: Path
    every: int
    events: list[Event]
    first_usd: dict[str, float] = field(default_factory=dict)
    promised: dict[str, Any] = field(default_factory=dict)
    """What an audit at the beginning said comes next for each thing."""
    sweeps: list[datetime] = field(default_factory=list)
    done: list[tuple[datetime, str, str]] = field(default_factory=list)
    """Every action of the reaper and of people: when, the thing, and what."""

    def play(self, days: int) -> None:
        """So many days, with a sweep every few hours."""
        waiting = list(self.events)
        for number in range(days * 24 // self.every + 1):
            following = BEGIN + number * self.every * HOUR
            while waiting and BEGIN + waiting[0][0] * DAY <= following:
                day, name, what = waiting.pop(0)
                self.live(max(self.clock.now, BEGIN + day * DAY))
                self.happen(name, what)
            self.live(following)
            self.sweep()

    def live(self, until: datetime) -> None:
        """Time passes in both worlds."""
        since, until = self.clock.now, max(self.clock.now, until)
        for thing in self.ours.things.values():
            thing.live(since, until)
        self.clock.to(until)
        self.read()

    def read(self) -> None:
        """Read both meters now."""
        for world in (self.ours, self.twin):
            world.meter.read(self.clock.now)

    def happen(self, name: str, what: str) -> None:
        """Something that people do, in both worlds; an undo, a price list or a denied permission is only there in the reaper's."""
        now = self.clock.now
        self.done.append((now, name, what))
        if what == "restore":
            result = self.shell("restore", self.ours.things[name].id)
            assert result.status in {0, 3}, (now, name, result.stdout, result.stderr, self.done)
        elif what == "prices rise":
            raise_prices(self.home / "product", 1.5)
            for world in (self.ours, self.twin):
                world.unit_usd = {one: 1.5 * usd for one, usd in world.unit_usd.items()}
        else:
            for world in (self.ours, self.twin):
                PEOPLE[what](world.things[name], now)
        self.read()

    def sweep(self) -> None:
        """One sweep in enforce mode."""
        self.sweeps.append(self.clock.now)
        result = self.shell("sweep", "--mode", "enforce", "--format", "json", "--output", "report.json")
        self.read()
        assert result.status == 0, (self.clock.now, result.stdout[-2000:], result.stderr[-2000:])
        report = json.loads((self.home / "report.json").read_text())
        self.done += [
            (self.sweeps[-1], row["name"].rpartition("/")[2], row["step"])
            for row in report["findings"]
            if row["step"] in {"stop", "delete", "start"} and row["outcome"] == "done"
        ]

    def savings(self, *argv: str) -> Any:
        """What `reaper savings` says now."""
        result = self.shell("savings", "--since", f"{BEGIN:%Y-%m-%d}", "--format", "json", *argv)
        assert result.status == 0, result.stderr
        return json.loads(result.stdout)


def _restart(thing: Thing, now: datetime) -> None:
    thing.started_by_hand(now)


def _stop(thing: Thing, now: datetime) -> None:
    thing.stopped_by_hand(now)


def _recreate(thing: Thing, now: datetime) -> None:
    thing.vanish()
    thing.born = now
    thing.make()  # type: ignore[attr-defined]


def _remove(thing: Thing, now: datetime) -> None:
    thing.vanish()


def _use(thing: Thing, now: datetime) -> None:
    thing.use(now, now + 3 * HOUR)


PEOPLE: dict[str, Callable[[Thing, datetime], None]] = {
    "restart": _restart,
    "stop": _stop,
    "recreate": _recreate,
    "remove": _remove,
    "use": _use,
}


def raise_prices(product: Path, factor: float) -> None:
    """Every price of the product's own list rises."""
    for file in (product / "reaper" / "data" / "prices").glob("*.json.gz"):
        data = json.loads(gzip.decompress(file.read_bytes()))
        for components in data["prices"].values():
            for rows in components.values():
                for row in rows.values():
                    row[0] *= factor
        file.write_bytes(gzip.compress(json.dumps(data).encode()))


def world(clock: Clock, end: datetime, victim: Callable[[], int | None]) -> World:
    """Both clouds, and what is there."""
    wire = MeteredWire(clock=clock, victim=victim)
    aws, azure = Aws(wire), Azure(wire)
    azure.world.operations.takes = SETTLES
    born = BEGIN - 40 * DAY
    east = Account(aws, town.HUB, REGION)
    vision = azure.subscription(town.SUBSCRIPTION, "research").workspace("vision", created=born)
    left: list[Span] = [(BEGIN - PAST, BEGIN - 2 * DAY)]
    days = [span for day in terms.workdays(BEGIN - PAST, end) for span in ((day + 9 * HOUR, day + 15 * HOUR),)]
    things: list[Thing] = [
        AwsEndpoint(east, "plain-e0", "ana@example.com", left, born),
        AwsEndpoint(east, "plain-e1", "ben@example.com", left, born, counts=(3, 2)),
        AwsEndpoint(east, "plain-e2", "ben@example.com", left, born, scaling=True),
        AwsEndpoint(east, "plain-e3", "cid@example.com", left, born),
        AwsEndpoint(east, "legacy-e0", "cid@example.com", left, born),
        AwsEndpoint(east, "busy-e0", "cid@example.com", days, born),
        *(AwsNotebook(east, f"plain-n{n}", "dee@example.com", left, born) for n in range(4)),
        AwsNotebook(east, "desk-n0", "dee@example.com", days, born),
        AwsNotebook(east, "watch-n0", "eve@example.com", left, born),
        AwsApp(east, "plain-a0", "eve@example.com", left, born),
        AzInstance(vision, "plain-i0", "ana@example.com", left, born),
        AzInstance(vision, "plain-i1", "ana@example.com", left, born),
        AzCluster(vision, "plain-c0", "ben@example.com", left, born),
        AzDeployment(vision, "plain-d0", "cid@example.com", left, born),
        AzDeployment(vision, "legacy-d0", "cid@example.com", left, born),
    ]
    for thing in things:
        thing.live(BEGIN - PAST, BEGIN)
    return World(clock=clock, wire=wire, aws=aws, azure=azure, things={thing.name: thing for thing in things})


@contextmanager
def quarter(home: Path, days: int, every: int, horizon: int, events: Sequence[Event]) -> Iterator[Quarter]:
    """The play, its first sweep done, with both meters at the prices of that sweep's report."""
    clock = Clock(BEGIN)
    running: list[Shell] = []
    product = home / "product"
    shutil.copytree(PRODUCT, product, ignore=shutil.ignore_patterns("__pycache__"))
    (home / "policy.yaml").write_text(POLICY.format(horizon=horizon))
    with ExitStack() as stack:
        ours, twin = (world(clock, BEGIN + days * DAY, lambda: running[0].pid if running else None) for _ in range(2))
        aws, azure = stack.enter_context(ours.aws), stack.enter_context(ours.azure)
        environ = {
            **aws.env,
            **azure.env,
            "REAPER_LEDGER": f"sqlite://{home / 'ledger.db'}",
            "REAPER_MANIFESTS": str(home / "manifests"),
            "REAPER_POLICY": str(home / "policy.yaml"),
            "REAPER_SUBSCRIPTIONS": town.SUBSCRIPTION,
            "REAPER_REGIONS": REGION,
        }
        stack.enter_context(patch.dict(os.environ, environ))
        running.append(stack.enter_context(Shell(home, clock, environ, product)))
        played = Quarter(ours, twin, running[0], clock, home, every, sorted(events))
        first = played.shell("sweep", "--mode", "audit", "--format", "json", "--output", "report.json")
        assert first.status == 0, first.stderr
        report = json.loads((home / "report.json").read_text())
        usd = {row["name"].rpartition("/")[2]: row["usd_per_hour"] for row in report["findings"]}
        units = {name: usd[name] / thing.level() for name, thing in ours.things.items() if usd.get(name)}
        for one in (ours, twin):
            one.begin(dict(units))
        played.first_usd = units
        played.promised = {row["name"].rpartition("/")[2]: row["next"] for row in report["findings"] if row["next"]}
        yield played


def parse_time(text: str) -> datetime:
    """A time in JSON."""
    return datetime.fromisoformat(text)
