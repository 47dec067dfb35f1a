"""Times on the wire: epoch numbers, ISO text, or already a datetime."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def read(value: Any) -> datetime:
    """`value` as an aware datetime. Raises ValueError for text that is no time."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
