"""A deployment in mode enforce over one subscription of the sandbox: whole runs, with a ledger, a channel and a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta

from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import FakeManifestStore
from fakes.fake_deployment import FakeChannel
from on_azure.conftest import CLUSTER, DAY, DEPLOYMENT, INSTANCE, LONG_AGO, SUB
from reaper import __version__, registry
from reaper.acting import manifest
from reaper.acting.look import ActContext
from reaper.azure import targets
from reaper.azure.session import CloudSession
from reaper.decide import DecideContext
from reaper.finding import Finding, Report
from reaper.ledger.ledger import RunLeases
from reaper.model import Mode, Run, Target
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.context import ConcludeContext
from reaper.notices.message import Audience
from reaper.observe import ObserveContext
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy
from reaper.record import Record
from reaper.run import OpenRun, run_phases
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

POLICY = """
version: 1
defaults: {{action: {action}, idle_after: 24h, grace: 3d, remind_every: 7d}}
rules: [{{name: instances, match: {{kind: [azureml-compute-instance]}}, stop_by: {stop_by}}}]
limits: {{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}}
owners: {{tags: [owner], domains: [example.com], fallback: ml-admins@example.com}}
"""


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Enforcement:
    """The deployment. `pause` is what happens while an action waits, besides that the time passes."""

    server: Server
    kind: str
    action: str = "stop"
    stop_by: str = "stop"
    ledger: FailingLedger = field(default_factory=FailingLedger)
    store: FakeManifestStore = field(default_factory=FakeManifestStore)
    channel: FakeChannel = field(default_factory=FakeChannel)
    pause: Callable[[], object] = lambda: None
    runs: int = 0

    @property
    def policy(self) -> Policy:
        text = POLICY.format(action=self.action, stop_by=self.stop_by)
        return parse_policy(text, "policy", registry.kind_names())

    @property
    def archive(self) -> manifest.Archive:
        return manifest.Archive(place="s3://manifests", store=self.store)

    def session(self) -> CloudSession:
        [session] = targets.target_sessions([SUB])

        def pause(seconds: float) -> None:
            self.server.now = self.server.world.now + timedelta(seconds=seconds + 60)
            self.pause()

        session.clients.pause = pause
        return session

    def sweep(self, mode: Mode = Mode.ENFORCE) -> Report:
        """One run now."""
        self.runs += 1
        clock = lambda: self.server.world.now  # noqa: E731
        channels = [OpenChannel(name="post", readers=frozenset(Audience), sender=self.channel, is_mail=True)]
        opened = OpenRun(
            run=Run(id=f"run-{self.runs}", started_at=clock(), mode=mode, version=__version__, policy_sha256="0" * 64),
            observe=[
                ObserveContext(sessions=[self.session()], kinds=[registry.kind(self.kind)], policy=self.policy, clock=clock)
            ],
            decide=DecideContext(
                policy=self.policy, ledger=self.ledger, clock=clock, archive=self.archive if mode.acts else None
            ),
            act=self.open_act if mode.acts else None,
            conclude=ConcludeContext(policy=self.policy, ledger=self.ledger, channels=channels, clock=clock),
        )
        return run_phases(opened)

    def open_act(self, target: Target, leases: RunLeases) -> ActContext:
        return ActContext(
            session=self.session(),
            policy=self.policy,
            ledger=self.ledger,
            archive=self.archive,
            clock=lambda: self.server.world.now,
            leases=leases,
        )

    def finding(self) -> Finding:
        """The only finding of a run now."""
        [finding] = self.sweep().findings
        return finding

    def due(self) -> Enforcement:
        """The same, once its owner was notified three days ago, so that the next run acts."""
        assert self.finding().step.name == "warn"
        self.later(days=3)
        self.channel.messages.clear()
        return self

    def later(self, **time: float) -> None:
        """So much later, with every operation in Azure over."""
        self.server.now = self.server.world.now + timedelta(**time)
        self.server.world.operations.settle(self.server.world.now)

    def record(self, thing: Thing) -> Record:
        return self.ledger.record(thing.id, self.server.world.now)

    def mails(self) -> list[str]:
        """The texts of the mails to owners."""
        return [message.text for message in self.channel.messages if message.audience is Audience.OWNERS]


@dataclass(frozen=True)
class Scene:
    """One thing that is idle, and what belongs to it."""

    one: Enforcement
    thing: Thing
    above: Thing

    def saved(self) -> Callable[[], None]:
        """What makes both things, the ledger and the manifests again as they are now."""
        bodies = deepcopy(self.thing.body), deepcopy(self.above.body)
        rows, texts = dict(self.one.ledger.memory_store.rows), dict(self.one.store.texts)
        assert rows, "the notice is remembered"

        def restore() -> None:
            for thing, body in zip((self.thing, self.above), bodies, strict=True):
                thing.body.clear()
                thing.body.update(deepcopy(body))
            self.one.ledger.memory_store.rows, self.one.store.texts = dict(rows), dict(texts)

        return restore


def idle_cluster(server: Server, vision: Workspace) -> Scene:
    cluster = vision.cluster("gpus", nodes=(2, 6), created=LONG_AGO).tagged(owner="ada@example.com")
    signals.nodes(cluster, active=0, idle=2, since=LONG_AGO, until=LONG_AGO + 90 * DAY)
    return Scene(Enforcement(server, CLUSTER), cluster, vision)


def idle_instance(server: Server, vision: Workspace) -> Scene:
    instance = vision.instance("ada", created=LONG_AGO, started=LONG_AGO).tagged(owner="ada@example.com")
    signals.busy(instance, 0, since=LONG_AGO, until=LONG_AGO + 40 * DAY)
    return Scene(Enforcement(server, INSTANCE), instance, vision)


def to_stop_natively(server: Server, vision: Workspace) -> Scene:
    scene = idle_instance(server, vision)
    scene.one.stop_by = "native"
    return scene


def idle_deployment(server: Server, vision: Workspace, action: str = "stop") -> Scene:
    chat = vision.endpoint("chat", created=LONG_AGO)
    blue = chat.deployment("blue", capacity=3, created=LONG_AGO).tagged(owner="ada@example.com")
    chat.traffic(blue=100)
    signals.capacity(blue, since=LONG_AGO, until=LONG_AGO + 40 * DAY)
    return Scene(Enforcement(server, DEPLOYMENT, action=action), blue, chat)


def once(server: Server, when: Callable[[Request], bool], happens: Callable[[], object]) -> None:
    """What happens once, right before the first such request is answered."""
    done: list[bool] = []

    def guard(request: Request) -> None:
        if not done and when(request):
            done.append(True)
            happens()

    server.rules.append(guard)
