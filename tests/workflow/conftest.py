"""A deployment over the sandbox's AWS account in two regions, with one idle endpoint in each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.workflow_runs import FakeWorkflow
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import Mode
from reaper.registry import kind_names
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
DAY = timedelta(days=1)
REGIONS = ("us-east-1", "eu-west-1")
POLICY = """
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}}
limits: {{max_share: 100%}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


@dataclass
class Scene:
    """The simulated account, and a workflow over it."""

    server: Server
    home: Path
    workflow: FakeWorkflow

    def later(self, **time: float) -> None:
        self.server.now += timedelta(**time)

    def instances(self, region: str) -> int:
        """How many instances the endpoint there runs."""
        count: int = Account(self.server, region=region).contents.endpoints[f"quiet-{region}"].variants[0].count
        return count

    def mails(self) -> list[str]:
        """What was sent, the oldest first."""
        folder = self.home / "mails"
        return [path.read_text() for path in sorted(folder.glob("*.eml"))] if folder.is_dir() else []

    @property
    def ledger(self) -> Ledger:
        return opening.open_ledger(self.workflow.settings.ledger, os.environ)

    @property
    def policy(self) -> str:
        assert self.workflow.settings.policy
        return self.workflow.settings.policy

    def use(self, change: Callable[[Settings], Settings]) -> None:
        """Change the deployment's settings."""
        self.workflow.settings = change(self.workflow.settings)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with Server(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        for region in REGIONS:
            account = Account(server, region=region)
            account.endpoint(f"quiet-{region}", variants=(Variant(count=3),), tags={"owner": "ana@example.com"})
            account.alive(f"quiet-{region}", "AllTraffic", NOW - 20 * DAY, NOW + 90 * DAY)
        settings = Settings(
            mode=Mode.ENFORCE,
            cloud="aws",
            regions=REGIONS,
            kinds=tuple(name for name in kind_names() if name.startswith("sagemaker-")),
            policy=POLICY.format(folder=tmp_path / "mails"),
            ledger=f"sqlite://{tmp_path}/ledger.db",
            manifests=str(tmp_path / "manifests"),
        )
        yield Scene(server, tmp_path, FakeWorkflow(settings, tmp_path, lambda: server.now))


@pytest.fixture
def due(scene: Scene) -> Scene:
    """The same, once both owners were notified and their grace is over."""
    scene.workflow.run()
    scene.later(days=3)
    return scene
