"""A whole deployment in enforce mode over the fake cloud, with its own clock, ledger, channel and manifest store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fakes.builders import NOW, TARGET
from fakes.fake_cloud import ACTS, FAKE_KIND, FakeCloud, FakeManifestStore, FakeSession
from reaper import conclude
from reaper.actions import executor, manifest, restore
from reaper.actions.contract import ActionFunctions
from reaper.decide import Hand
from reaper.errors import CloudError, Reason
from reaper.ledger import lease
from reaper.ledger.in_memory import InMemoryLedger
from reaper.ledger.port import Ledger
from reaper.model import Finding, Memory, Mode, Report, Run
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.context import ConcludeContext
from reaper.notices.message import Audience, Message
from reaper.observe import ObserveContext, sweep
from reaper.policy import yaml_lines
from reaper.policy.schema import Policy
from reaper.registry import kind_names

POLICY = """
version: 1
defaults: {action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}
limits: {max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}
owners: {domains: [example.com], fallback: ml-admins@example.com}
"""


class FakeChannel:
    """A channel that stores its messages. `is_closed`: it accepts nothing. `on_message` runs after every accepted message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_closed = False
        self.fail_on: Callable[[str, str], None] = lambda call, name: None
        self.on_message: Callable[[Message], None] = lambda message: None

    def send(self, message: Message) -> str:
        self.fail_on("send", "")
        if self.is_closed:
            raise CloudError(Reason.UNREACHABLE, "post:Send", "no answer")
        self.messages.append(message)
        self.on_message(message)
        self.fail_on("sent", "")
        return f"receipt-{len(self.messages)}"


@dataclass
class FakeDeployment:
    """The deployment. `now` is its clock."""

    policy: Policy = field(default_factory=lambda: policy(POLICY))
    now: datetime = NOW
    ledger: Ledger = field(default_factory=InMemoryLedger)
    store: FakeManifestStore = field(default_factory=FakeManifestStore)
    channel: FakeChannel = field(default_factory=FakeChannel)
    deadline: datetime | None = None
    more: list[OpenChannel] = field(default_factory=list)
    regions: tuple[str, ...] = ("us-east-1",)
    runs: int = 0
    acts: ActionFunctions[Any] = ACTS

    def __post_init__(self) -> None:
        self.cloud = FakeCloud(clock=lambda: self.now)
        self.archive = manifest.Archive(place="s3://manifests", store=self.store)

    def sweep(self, mode: Mode = Mode.ENFORCE, regions: Sequence[str] | None = None) -> Report:
        """Run one sweep now and return its report, as an entry point would. By default over all regions."""
        self.runs += 1
        run, yards = f"run-{self.runs}", [FakeSession(self.cloud, replace(TARGET, region=r)) for r in regions or self.regions]
        order = ObserveContext(policy=self.policy, now=self.now)
        swept = sweep(yards, [FAKE_KIND], order)
        facts = Run(id=run, started_at=self.now, finished_at=self.now, mode=mode, version="0", policy_sha256="0" * 64)
        report = Report(run=facts, coverage=swept.coverage, findings=swept.findings)
        lines = [OpenChannel(name="post", readers=frozenset(Audience), sender=self.channel), *self.more]
        if mode is Mode.AUDIT:
            return conclude.recalled(report, self.policy, self.ledger, self.now)
        desk = ConcludeContext(ledger=self.ledger, channels=lines, links=None, clock=lambda: self.now)
        ours = self.hands(yards, order, run)
        hand = Hand(act=lambda found: executor.execute(found, ours)) if mode.acts else None
        return conclude.tell(report, self.policy, desk, hand)

    def hands(self, yards: Sequence[FakeSession], order: ObserveContext, run: str) -> executor.ActContext:
        return executor.ActContext(
            clouds={yard.target: yard for yard in yards},
            order=order,
            ledger=self.ledger,
            archive=self.archive,
            clock=lambda: self.now,
            run=run,
            renew=lambda target: self.ledger.take_lease(target, run, self.now, lease.LEASE),
            deadline=self.deadline,
            kinds=lambda name: FAKE_KIND,
            acts=lambda name: self.acts,
        )

    def sweep_after(self, **given: Any) -> Report:
        """Run a sweep after this much time."""
        self.now += timedelta(**given)
        return self.sweep()

    def restore_context(self) -> restore.RestoreContext:
        """What `reaper restore` and `reaper undo` work with."""
        return restore.RestoreContext(
            ledger=self.ledger,
            archive=self.archive,
            open_session=lambda target: FakeSession(self.cloud, target),
            clock=lambda: self.now,
            by="lee",
            action_functions=lambda name: ACTS,
        )

    def memory(self, name: str) -> Memory:
        return self.ledger.recall([self.cloud.id(name)], self.now).get(self.cloud.id(name), Memory())


def policy(text: str) -> Policy:
    return yaml_lines.parse_policy(text, "test policy", kind_names())


def only(report: Report) -> Finding:
    [found] = report.findings
    return found


def finding_of(report: Report, name: str) -> Finding:
    [found] = [f for f in report.findings if f.case.resource.name == name]
    return found
