"""Lengths of time as people write them: `30m 4h 3d 2w`, and as they read them: `9 d 4 h`."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
MAX_DURATION = timedelta(days=455)
"""CloudWatch keeps hourly points for 455 days; nothing can be told of a longer time."""
DURATION_PATTERN = r"^[1-9][0-9]{0,5}[mhdw]$"
EXPECTED_DURATION = "a duration such as 30m, 4h, 3d or 2w"


def parse_duration(text: str, most: timedelta = MAX_DURATION) -> timedelta:
    """The length that `text` names, of at most `most`, which is whole days.

    Raises ValueError for anything but a positive whole number with one of the units m h d w.
    """
    if not re.fullmatch(r"[1-9][0-9]*[mhdw]", text.strip()):
        raise ValueError(f"expected {EXPECTED_DURATION}")
    unit = UNITS[text.strip()[-1]]
    # Six digits are more than the longest has minutes.
    if not re.fullmatch(DURATION_PATTERN, text.strip()) or int(text.strip()[:-1]) > most / unit:
        raise ValueError(f"expected at most {most.days}d{', metrics are not kept longer' if most == MAX_DURATION else ''}")
    return int(text.strip()[:-1]) * unit


def format_duration(length: timedelta) -> str:
    """At most two units: `45 min`, `7 h 20 min`, `9 d 4 h`."""
    minutes = int(length.total_seconds() // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else "", f"{minutes} min" if minutes and not days else ""]
    return " ".join(p for p in parts if p) or "0 min"


def policy_duration(length: timedelta) -> str:
    """The shortest form that `parse` reads back: `14d`, `36h`, `90m`."""
    for unit in "wdhm":
        count, rest = divmod(length, UNITS[unit])
        if count and not rest and not (unit == "w" and count < 2):
            return f"{count}{unit}"
    raise ValueError(f"{length} is not a whole number of minutes")
