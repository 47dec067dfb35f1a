"""A sandbox of Azure per test, and a sweep of it through the real SDKs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import azurite
from fakes.sweeps import SweepOrder, sweep
from on_azure.orchestrated import Deployment, Storage, blob_service, deployment
from reaper import registry
from reaper.azure import targets
from reaper.azure.session import CloudSession
from reaper.case import Coverage
from reaper.finding import Finding, Report
from reaper.model import Confidence, State
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import routes
from reaper_sandbox.azure.fault import Fault, Guard
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Workspace

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LONG_AGO = NOW - 20 * DAY
SUB = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"
CLUSTER, INSTANCE, DEPLOYMENT = "azureml-compute-cluster", "azureml-compute-instance", "azureml-online-deployment"
PROVEN = (State.IDLE, Confidence.PROVEN)
LIKELY = (State.IDLE, Confidence.LIKELY)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [n for n in os.environ if n.startswith(("AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with Server(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def subscription(server: Server) -> Subscription:
    return server.subscription(SUB)


@pytest.fixture
def vision(subscription: Subscription) -> Workspace:
    return subscription.workspace("vision")


@pytest.fixture
def cloud(server: Server, vision: Workspace) -> CloudSession:
    """A session of one subscription with one workspace."""
    return targets.target_sessions([SUB])[0]


@pytest.fixture(scope="session")
def storage(azurite_tables: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Tables and blobs for function apps; each test has its own table and containers."""
    folder = tmp_path_factory.mktemp("blobs")
    try:
        with blob_service(folder) as url:
            yield Storage(azurite_tables, url, (folder / "ca.pem").read_bytes())
    except azurite.Missing as why:
        pytest.skip(f"{why}: the orchestration was NOT tried")


@pytest.fixture
def deployed_app(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A function app over five subscriptions, in mode enforce."""
    with deployment(storage, tmp_path, monkeypatch) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Result:
    """A sweep's findings by the last part of their id and coverage by kind, for short assertions."""

    swept: Report
    findings: dict[str, Finding]

    def state(self, name: str) -> State:
        return self.findings[name].case.verdict.state

    def verdict(self, name: str) -> tuple[State, Confidence | None]:
        verdict = self.findings[name].case.verdict
        return verdict.state, verdict.confidence

    def because(self, name: str) -> str:
        return self.findings[name].case.verdict.because

    def coverage(self, kind: str, subscription: str = SUB) -> Coverage:
        return next(c for c in self.swept.coverage if (c.kind, c.account) == (kind, subscription))

    def calls(self, kind: str) -> int:
        return sum(self.coverage(kind).calls.values())

    def idle(self) -> list[str]:
        return [name for name, f in self.findings.items() if f.case.verdict.state is State.IDLE]


Sweep = Callable[..., Result]


@pytest.fixture
def run_sweep(server: Server) -> Sweep:
    def run(*kinds: str, policy: str = "version: 1", subscriptions: tuple[str, ...] = (), now: datetime = NOW) -> Result:
        chosen_kinds = [k for k in registry.kinds("azure") if not kinds or k.name in kinds]
        order = SweepOrder(policy=parse_policy(policy, "policy", registry.kind_names()), now=now)
        report = sweep(targets.target_sessions(subscriptions), chosen_kinds, order)
        return Result(report, {f.case.resource.id.rpartition("/")[2]: f for f in report.findings})

    return run


def changed(server: Server, path: str, change: Callable[[Any], None]) -> Guard:
    """A guard that answers requests for `path` truly but for `change`, which is made to the body."""

    def guard(request: Request) -> Fault | None:
        if not request.path.endswith(path):
            return None
        body = json.loads(server._checked(request, routes.find(request.method, request.path)[0]).body)
        change(body)
        return Fault(answer=lambda r: Reply(body=body))

    return guard
