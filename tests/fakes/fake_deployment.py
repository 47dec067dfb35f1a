"""A whole deployment in enforce mode over the fake cloud, with its own clock, ledger, channel and manifest store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fakes.builders import NOW, TARGET
from fakes.fake_cloud import ACTS, FAKE_KIND, FakeCloud, FakeManifestStore, FakeSession
from fakes.memory_ledger import InMemoryLedger
from reaper import __version__
from reaper.acting import manifest, restore
from reaper.acting.contract import ActionFunctions
from reaper.acting.look import ActContext
from reaper.calendars.resolve import FreshFreezes
from reaper.decide import DecideContext
from reaper.errors import CloudError, Reason
from reaper.finding import Finding, Report
from reaper.kind import Kind
from reaper.ledger.ledger import Ledger, RunLeases
from reaper.limits import holds
from reaper.limits.holds import Hold, KindInTarget
from reaper.model import Mode, Run, StepName, Target
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.context import ConcludeContext
from reaper.notices.message import Audience, Message
from reaper.observe import ObserveContext
from reaper.pending.plan_file import PlanFile
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy
from reaper.record import Record, Snooze
from reaper.registry import kind_names
from reaper.run import HandOver, OpenRun, run_phases, unchanged

POLICY = """
version: 1
defaults: {action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}
limits: {max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}
owners: {domains: [example.com], fallback: ml-admins@example.com}
"""


class FakeChannel:
    """A channel that keeps what it is given. `is_closed`: it accepts nothing. `on_message` is called with every accepted message."""

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
    accounts: tuple[str, ...] = (TARGET.account,)
    runs: int = 0
    acts: ActionFunctions[Any] = ACTS
    agreed: PlanFile | None = None
    hand_over: HandOver = unchanged
    freezes: FreshFreezes | None = None

    def __post_init__(self) -> None:
        self.cloud = FakeCloud(clock=lambda: self.now)
        self.archive = manifest.Archive(place="s3://manifests", store=self.store)

    @property
    def kind(self) -> Kind[Any]:
        """The kind of everything in its cloud."""
        return replace(FAKE_KIND, name=self.cloud.kind_name)

    def sweep(
        self, mode: Mode = Mode.ENFORCE, regions: Sequence[str] | None = None, accounts: Sequence[str] | None = None
    ) -> Report:
        """One sweep now: the report as an entry point would give it. Without `regions` or `accounts` it looks at all of them."""
        return run_phases(self.open_run(mode, regions, accounts), self.hand_over)

    def open_run(
        self, mode: Mode = Mode.ENFORCE, regions: Sequence[str] | None = None, accounts: Sequence[str] | None = None
    ) -> OpenRun:
        """The next run, with the context of each phase."""
        self.runs += 1
        clock = lambda: self.now  # noqa: E731
        yards = [
            FakeSession(self.cloud, replace(TARGET, account=account, region=region))
            for account in accounts or self.accounts
            for region in regions or self.regions
        ]
        channels = [OpenChannel(name="post", readers=frozenset(Audience), sender=self.channel, is_mail=True), *self.more]
        run = Run(id=f"run-{self.runs}", started_at=self.now, mode=mode, version=__version__, policy_sha256="0" * 64)
        return OpenRun(
            run=run,
            observe=[ObserveContext(sessions=yards, kinds=[self.kind], policy=self.policy, clock=clock)],
            decide=DecideContext(
                policy=self.policy,
                ledger=self.ledger,
                clock=clock,
                agreed=self.agreed,
                archive=self.archive if mode.acts else None,
            ),
            act=self.open_act if mode.acts else None,
            conclude=ConcludeContext(policy=self.policy, ledger=self.ledger, channels=channels, clock=clock),
        )

    def open_act(self, target: Target, leases: RunLeases) -> ActContext:
        """What acting on that target needs."""
        return ActContext(
            session=FakeSession(self.cloud, target),
            policy=self.policy,
            ledger=self.ledger,
            archive=self.archive,
            clock=lambda: self.now,
            leases=leases,
            deadline=self.deadline,
            kind=lambda name: self.kind,
            action_functions=lambda name: self.acts,
            freezes=self.freezes,
        )

    def sweep_after(self, **fields: Any) -> Report:
        """A sweep after so much time."""
        self.now += timedelta(**fields)
        return self.sweep()

    def know_days(self) -> None:
        """As if it had seen the same on three earlier days, so that the breaker knows what is usual."""
        for target in [replace(TARGET, account=account, region=region) for account in self.accounts for region in self.regions]:
            for row in self.ledger.statistics(target, self.kind.name, 99):
                for day in (1, 2, 3):
                    self.ledger.record_statistics(replace(row, run=f"{row.run}-{day}", started=row.started - timedelta(days=day)))

    def restore_context(self) -> restore.RestoreContext:
        """What a person who takes things back works with."""
        return restore.RestoreContext(
            ledger=self.ledger,
            archive=self.archive,
            open_session=lambda target: FakeSession(self.cloud, target),
            clock=lambda: self.now,
            by="lee",
            action_functions=lambda name: ACTS,
        )

    def record(self, name: str) -> Record:
        return self.ledger.record(self.cloud.id(name), self.now)

    def snooze(self, name: str) -> Snooze:
        return self.ledger.snooze(self.cloud.id(name), self.now)


def policy(text: str) -> Policy:
    return parse_policy(text, "test policy", kind_names())


def only(report: Report) -> Finding:
    [finding] = report.findings
    return finding


def finding_of(report: Report, name: str) -> Finding:
    [finding] = [f for f in report.findings if f.case.resource.name == name]
    return finding


def due(deployment: FakeDeployment) -> FakeDeployment:
    """The same, once its owner was notified more than three days ago, so that the next sweep stops it."""
    assert only(deployment.sweep()).step.name is StepName.WARN
    deployment.now += timedelta(days=3)
    return deployment


def standing_holds(deployment: FakeDeployment) -> list[Hold]:
    """The holds of limits that stand now, those of accounts before those of whole runs."""
    rows = holds.standing_rows(deployment.ledger, deployment.now)
    return [hold for key in sorted(rows, reverse=True) for hold in rows[key].holds]


def jumped_places(deployment: FakeDeployment) -> set[KindInTarget]:
    """The places whose idle share jumped, and the kinds over whole runs."""
    rows = holds.standing_rows(deployment.ledger, deployment.now)
    return {breaker.place for row in rows.values() for breaker in row.jumps}


def stopped(deployment: FakeDeployment) -> bool:
    """Whether anything was stopped or deleted."""
    return any(action in {StepName.STOP, StepName.DELETE} for action, _, _ in deployment.cloud.log)
