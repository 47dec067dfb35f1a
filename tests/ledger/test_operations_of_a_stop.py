"""How often one stop asks the ledger: a sweep that stops one endpoint, from observing to the report, counted at the port of the store."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.in_memory_store import InMemoryStore
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Category, Key
from reaper.model import Mode, Result, StepName
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

NOW, DAY = datetime(2026, 11, 21, 10, 17, tzinfo=UTC), timedelta(days=1)
OPERATIONS = ("get", "get_many", "query", "put", "delete", "scan")
OF_RESOURCES = {Category.RECORD, Category.SNOOZE, Category.HISTORY, Category.SAVING}
MOST_OF_RESOURCES, MOST = 13, 36
POLICY = """
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d, remind_every: 7d}}
limits: {{max_share: 100%}}
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{mails}"}}]
"""


class CountingStore(InMemoryStore):
    """Notes each operation with the categories that it is about."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, frozenset[Category]]] = []

    def __getattribute__(self, name: str) -> Any:
        operation = super().__getattribute__(name)
        if name not in OPERATIONS:
            return operation

        def counted(*given: Any, **named: Any) -> Any:
            about = given[0] if given else ()
            categories = (
                {about.category}
                if isinstance(about, Key)
                else {about}
                if isinstance(about, Category)
                else {k.category for k in about}
            )
            self.operations.append((name, frozenset(categories)))
            return operation(*given, **named)

        return counted


def test_one_stop_asks_the_ledger_no_more_often(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    store = CountingStore()
    monkeypatch.setattr(opening, "open_ledger", lambda *_, **__: Ledger(store))
    account = Account(server)
    account.endpoint("quiet", variants=(Variant(count=3),), tags={"owner": "ana@example.com"})
    account.alive("quiet", "AllTraffic", NOW - 20 * DAY, NOW + 90 * DAY)
    settings = Settings(
        mode=Mode.ENFORCE,
        cloud="aws",
        regions=("us-east-1",),
        kinds=("sagemaker-endpoint",),
        manifests=str(tmp_path / "manifests"),
    )
    source = load_policy(POLICY.format(mails=tmp_path / "mails"))
    for step in (StepName.WARN, StepName.STOP):
        store.operations.clear()
        [finding] = run(settings, source, lambda: server.now).findings
        assert (finding.step.name, finding.outcome.result) == (step, Result.DONE)
        server.now += 4 * DAY
    listed = Counter(f"{name} {' '.join(sorted(categories))}" for name, categories in store.operations)
    of_resources = [name for name, categories in store.operations if categories & OF_RESOURCES]
    assert len(of_resources) <= MOST_OF_RESOURCES, listed
    assert len(store.operations) <= MOST, listed


@pytest.fixture
def server() -> Any:
    with Server(NOW) as server:
        yield server
