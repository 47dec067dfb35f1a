"""All that the sandbox holds: one clock, a few knobs, and the contents of every subscription."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reaper_sandbox.azure.estate import Estate
from reaper_sandbox.azure.metrics import Metrics
from reaper_sandbox.azure.operations import Operations
from reaper_sandbox.azure.request import Json, Request


@dataclass(slots=True, kw_only=True)
class GraphKnobs:
    """Resource Graph: rows a page, queries left before it throttles (None: never), whether rows carry `systemData`."""

    page_size: int = 1000
    quota: int | None = None
    resets_after: str = "00:00:05"
    system_data: bool = True


@dataclass(slots=True, kw_only=True)
class World:
    """`fixed` stops the clock. `unreadable` names subscriptions that the identity has no right to. `url` is set by the server."""

    fixed: datetime | None = None
    url: str = ""
    page_size: int = 50
    unreadable: set[str] = field(default_factory=set)
    rules: list[Callable[[Request], Any]] = field(default_factory=list)
    graph: GraphKnobs = field(default_factory=GraphKnobs)
    estate: Estate = field(default_factory=Estate)
    metrics: Metrics = field(default_factory=Metrics)
    operations: Operations = field(default_factory=Operations)
    mails: list[Json] = field(default_factory=list)
    autoscale: list[Json] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def now(self) -> datetime:
        """The time in the sandbox. This is the one place that reads the real clock."""
        return self.fixed or datetime.now(UTC)
