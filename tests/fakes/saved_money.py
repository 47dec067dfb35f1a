"""Savings for the tests of what shows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fakes.builders import DAY, TARGET
from reaper.case import Price
from reaper.ledger.ledger import Ledger
from reaper.model import StepName
from reaper.savings import book
from reaper.savings.credit import Cause, Saving, Span, Subject


def save(ledger: Ledger, at: datetime, length: timedelta, usd: float | None = 2.0, **fields: Any) -> None:
    """Credit one action at that rate for so long."""
    name = fields.pop("name", "churn")
    subject = Subject(
        id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}",
        kind=fields.pop("kind", "sagemaker-endpoint"),
        name=name,
        target=TARGET,
        region="us-east-1",
        tags=fields.pop("tags", {}),
    )
    saving = Saving(
        subject=subject,
        cause=fields.pop("cause", Cause.OURS),
        action=StepName.STOP,
        at=at,
        ends_at=at + 30 * DAY,
        rate=None if usd is None else Price(usd_per_hour=usd, source="test", as_of="2026-11-20"),
        called_at=at,
        looked_at=at,
    )
    book.add_credits(ledger, [(saving, Span(at, at + length))], at + length)
