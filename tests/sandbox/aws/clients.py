"""What the tests of the embedded AWS share: its moment, and how clients are made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
Client = Callable[..., Any]
"""`client(service, region="us-east-1", attempts=1, **credentials)`"""
