"""Moments and dollars as people read them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

UTC = "UTC"
SMALLEST_SHOWN_USD = 0.005
"""Dollars that are not yet told as a cent."""


def format_time(when: datetime, tz: str = UTC) -> str:
    """`Sat 28 Nov 2026, 10:00 UTC`, or in another IANA zone `Sat 28 Nov 2026, 11:00 Europe/Berlin`."""
    return f"{format_day(when, tz)} {when.astimezone(ZoneInfo(tz)):%Y, %H:%M} {tz}"


def format_day(when: datetime, tz: str = UTC) -> str:
    """`Sat 28 Nov`, for a line that has no room for more."""
    local = when.astimezone(ZoneInfo(tz))
    return f"{local:%a} {local.day} {local:%b}"


def format_clock(when: datetime, tz: str = UTC) -> str:
    """`10:00 UTC`: never without the zone's name."""
    return f"{when.astimezone(ZoneInfo(tz)):%H:%M} {tz}"


def format_usd(usd: float) -> str:
    """`$8.45`, `$1,204`, `less than $0.01`: nothing that costs is told as zero dollars."""
    if 0 < usd < SMALLEST_SHOWN_USD:
        return "less than $0.01"
    return f"${usd:,.2f}" if abs(usd) < 100 else f"${usd:,.0f}"
