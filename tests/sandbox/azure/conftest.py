"""A running sandbox with a stopped clock, found through the environment as the product would."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace
from sandbox.azure.sdk import SUB

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        running.metrics.lag = timedelta(0)
        yield running


@pytest.fixture
def vision(server: Server) -> Workspace:
    return server.subscription(SUB).workspace("vision", region="westeurope", group="ml")
