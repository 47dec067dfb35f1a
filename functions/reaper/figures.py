"""Moments and dollars as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(when: datetime) -> str:
    """`Sat 28 Nov 2026, 10:00 UTC`."""
    when = when.astimezone(UTC)
    return f"{when:%a} {when.day} {when:%b %Y, %H:%M} UTC"


def money(usd: float) -> str:
    """`$8.45`, `$1,204`."""
    return f"${usd:,.2f}" if abs(usd) < 100 else f"${usd:,.0f}"
