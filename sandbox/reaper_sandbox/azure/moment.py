"""Times on the wire. Azure ML writes seven fractional digits, and an offset or a Z."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def text(moment: datetime) -> str:
    """`2026-01-02T03:04:05.6789010+00:00`, as in `createdOn`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}0+00:00"


def zulu(moment: datetime) -> str:
    """The same with a Z, as in `systemData`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}0Z"


def short(epoch: int) -> str:
    """Seconds since 1970 as `2026-01-02T03:04:05Z`, as in metric replies."""
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%dT%H:%M:%SZ}"


def read(written: str) -> datetime:
    """Any ISO 8601 time with up to seven fractional digits. Raises ValueError for anything else."""
    tidy = re.sub(r"(\.\d{6})\d+", r"\1", written.strip().replace(" ", "+"))
    moment = datetime.fromisoformat(tidy)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
