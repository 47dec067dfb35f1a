"""A sandbox account per test, and a sweep of it through the real SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import boto3
import pytest

from fakes.sweeps import SweepOrder, sweep
from reaper import registry
from reaper.aws import targets
from reaper.case import Coverage
from reaper.finding import Finding, Report
from reaper.model import State
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def account(server: Server) -> Account:
    return Account(server)


@cache
def _session() -> boto3.Session:
    """One for all tests: reading the service models is most of a client's cost."""
    return boto3.Session()


@dataclass(frozen=True, slots=True)
class Result:
    """A sweep's findings by name and coverage by kind, for short assertions."""

    swept: Report
    findings: dict[str, Finding]

    def state(self, name: str) -> State:
        return self.findings[name].case.verdict.state

    def coverage(self, kind: str, region: str = "us-east-1") -> Coverage:
        return next(c for c in self.swept.coverage if (c.kind, c.region) == (kind, region))

    def calls(self, kind: str) -> int:
        return sum(self.coverage(kind).calls.values())

    def idle(self) -> list[str]:
        return [name for name, f in self.findings.items() if f.case.verdict.state is State.IDLE]


Sweep = Callable[..., Result]


@pytest.fixture
def run_sweep(server: Server) -> Sweep:
    def run(*kinds: str, policy: str = "version: 1", regions: tuple[str, ...] = ("us-east-1",), now: datetime = NOW) -> Result:
        chosen_kinds = [k for k in registry.kinds("aws") if not kinds or k.name in kinds]
        order = SweepOrder(policy=parse_policy(policy, "policy", registry.kind_names()), now=now)
        report = sweep(targets.target_sessions(regions, (), _session()), chosen_kinds, order)
        return Result(report, {f.case.resource.name: f for f in report.findings})

    return run
