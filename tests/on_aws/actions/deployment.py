"""A whole deployment in enforce mode over the sandbox: real SDK, real kinds, one ledger, one clock for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import FakeDeployment, policy
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.acting.look import ActContext
from reaper.aws import targets
from reaper.finding import Finding, Report
from reaper.ledger.ledger import RunLeases
from reaper.model import Result, Target
from reaper.notices.message import Audience
from reaper.observe import ObserveContext
from reaper.run import OpenRun
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

POLICY = """
version: 1
defaults: {{action: {action}, idle_after: 24h, grace: 3d, remind_every: 7d, act_on: likely}}
limits: {{max_acts: 20, max_share: 100%}}
owners: {{domains: [example.com], fallback: ml-admins@example.com}}
"""
READS = ("Describe", "List", "Get")
ENDPOINT, COMPONENT, NOTEBOOK, APP = (
    "sagemaker-endpoint", "sagemaker-inference-component", "sagemaker-notebook", "sagemaker-studio-app",
)  # fmt: skip


class Killed(BaseException):
    """The process ends here."""


@dataclass
class AwsDeployment(FakeDeployment):
    """The deployment. Its resources are those of `server`, whose clock follows its own."""

    now: datetime = NOW
    ledger: FailingLedger = field(default_factory=FailingLedger)
    server: Server = None  # type: ignore[assignment]
    kinds: Sequence[str] = (ENDPOINT,)

    def open_run(self, *places: Any, **others: Any) -> OpenRun:
        self.server.now = self.now
        opened = super().open_run(*places, **others)
        kinds = [registry.kind(name) for name in self.kinds]
        sessions = targets.target_sessions(("us-east-1",), ())
        observe = ObserveContext(sessions=sessions, kinds=kinds, policy=self.policy, clock=lambda: self.now)
        return replace(opened, observe=[observe])

    def open_act(self, target: Target, leases: RunLeases) -> ActContext:
        [session] = targets.target_sessions(("us-east-1",), ())
        return ActContext(
            session=session,
            policy=self.policy,
            ledger=self.ledger,
            archive=self.archive,
            clock=lambda: self.now,
            leases=leases,
        )

    def changes(self, first: int = 0) -> list[str]:
        """The operations of the changing calls at the wire from the call of that number on."""
        return [c.operation for c in self.server.calls[first:] if is_change(c)]

    def mails(self) -> list[str]:
        """What owners were sent."""
        return [m.text for m in self.channel.messages if m.audience is Audience.OWNERS]

    def result(self, resource_id: str) -> Result | None:
        """The result of the last action on a resource, as the ledger has it."""
        act = self.ledger.record(resource_id, self.now).act
        return act.result if act else None


def is_change(call: Call) -> bool:
    """Whether a call changes something in a resource."""
    return call.service in {"sagemaker", "application-autoscaling"} and not call.operation.startswith(READS)


def announced(server: Server, action: str = "stop", kinds: Sequence[str] = (ENDPOINT,)) -> AwsDeployment:
    """A deployment whose owners were notified three days ago, so that the next sweep acts."""
    deployment = AwsDeployment(server=server, kinds=kinds, policy=policy(POLICY.format(action=action)))
    deployment.sweep()
    deployment.now += 3 * DAY
    server.now = deployment.now
    deployment.channel.messages.clear()
    server.calls.clear()
    return deployment


def autoscaled(account: Account) -> str:
    """An endpoint of three instances whose autoscaling keeps two. Returns its ID."""
    account.endpoint("e", variants=[Variant(count=3)], tags={"owner": "lee@example.com"})
    account.alive("e", "AllTraffic", NOW - 15 * DAY, NOW + 20 * DAY)
    scaled.variant(account, "e", least=2)
    return account.arn("endpoint/e")


def host(account: Account, *names: str) -> str:
    """A host of components, each with two copies under autoscaling that keeps one and wakes it. Returns its ID."""
    account.endpoint("e", variants=[Variant(model=None, scaling=(0, 4), count=2)], tags={"owner": "lee@example.com"})
    account.alive("e", "AllTraffic", NOW - 15 * DAY, NOW + 20 * DAY)
    for name in names:
        account.component(name, "e", copies=2)
        account.component_alive(name, NOW - 15 * DAY, NOW + 20 * DAY)
        scaled.wake(account, scaled.copies(account, name, least=1), f"wake-{name}")
    return account.arn("endpoint/e")


def on_call(server: Server, when: Callable[[Call], bool], do: Callable[[], Any]) -> None:
    """Do that once, right before the first such call is answered."""
    done: list[Call] = []

    def guard(call: Call) -> Fault | None:
        if not done and when(call):
            done.append(call)
            do()
        return None

    server.rules.append(guard)


def finding(report: Report, name: str) -> Finding:
    return next(f for f in report.findings if f.case.resource.name == name)


def later(deployment: AwsDeployment, **time: float) -> Report:
    """A sweep after that time."""
    deployment.now += timedelta(**time)
    return deployment.sweep()
