"""Durations as a policy has them, `30m 4h 3d 2w`, and as people read them, `9 days 4 hours`."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
MAX_DURATION = timedelta(days=455)
"""CloudWatch keeps hourly points for 455 days, so there is no evidence for a longer time."""
MAX_VALIDITY = timedelta(days=7)
"""How long a plan or a release may last. What is due or on hold changes too much in more time."""
DURATION_PATTERN = r"^[1-9][0-9]{0,5}[mhdw]$"
EXPECTED_DURATION = "a duration such as 30m, 4h, 3d or 2w"


def parse_duration(text: str, most: timedelta = MAX_DURATION) -> timedelta:
    """The duration that `text` states; `most` is in whole days.

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
    """For a sentence, at most two units: `45 minutes`, `7 hours 20 minutes`, `9 days 4 hours`."""
    return " ".join(f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in _counted_units(length))


def short_duration(length: timedelta) -> str:
    """For the cell of a table: `45m`, `7h 20m`, `9d 4h`."""
    return " ".join(f"{count}{unit[0]}" for count, unit in _counted_units(length))


def _counted_units(length: timedelta) -> list[tuple[int, str]]:
    """The units that a length is shown in, whole minutes at least; days hide minutes."""
    minutes = int(length.total_seconds() // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    units = [(days, "day"), (hours, "hour"), (0 if days else minutes, "minute")]
    return [(count, unit) for count, unit in units if count] or [(0, "minute")]


def policy_duration(length: timedelta) -> str:
    """The shortest form that `parse_duration` reads back: `14d`, `36h`, `90m`."""
    for unit in "wdhm":
        count, rest = divmod(length, UNITS[unit])
        if count and not rest and not (unit == "w" and count < 2):
            return f"{count}{unit}"
    raise ValueError(f"{length} is not a whole number of minutes")
