"""What is special about each day of a play, and in which order the days come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

SWEEPS = ((1, 10), (5, 0), (8, 20), (11, 50), (15, 30), (18, 40), (21, 50))
"""When a day's sweeps are, give or take some minutes."""

HOURLY = tuple((hour, 10) for hour in range(24))
HALF_HOURLY = tuple((hour, minute) for hour in range(24) for minute in (10, 40))
"""Fast schedules: caps are of a day, and a signal that breaks is seen hour by hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is special about a day.

    `spared`: what people accept for this one day, or that the canary leaves out everything. `silence`: the clouds on which the signals of one place are lost. `late`: they come back with their history afterwards.
    """

    mode: str = "enforce"
    outage: str = ""
    accident: str = ""
    silence: str = ""
    late: bool = False
    calm: bool = False
    caps: str = ""
    spared: str = ""
    sweeps: tuple[tuple[int, int], ...] = SWEEPS


def scripts(days: int, calm: int, dice: Random) -> list[Script]:
    """What is special about each day: nothing on the first, then one thing after the other in any order, and calm days at the end.

    What is interrupted half-way comes first, when most actions that consist of several calls fall due.
    """
    special = list(SPECIALS[1:])
    dice.shuffle(special)
    days_of = [day for one in (SPECIALS[0], *special) for day in one]
    middle = (days_of * (days // len(days_of) + 1))[: days - calm - 1]
    return [Script(), *middle, *[Script(calm=True)] * calm]


LATE_AWS, LATE_BOTH = Script(silence="aws", late=True), Script(silence="aws azure", late=True)
SPECIALS = (
    (Script(accident="half"), Script(accident="half")),
    (Script(outage="ledger"),),
    (Script(outage="writes"),),
    (Script(caps="few"),),
    (Script(caps="cheap"),),
    (Script(accident="lost"),),
    (Script(mode="notify"),),
    (Script(outage="metrics"),),
    (Script(mode="apply"),),
    (Script(outage="permission"),),
    (Script(silence="aws"), Script(silence="aws")),
    (Script(silence="azure aws", sweeps=HOURLY), Script(silence="azure aws", sweeps=HOURLY, outage="mail")),
    (Script(caps="few", sweeps=HALF_HOURLY),),
    (LATE_AWS, LATE_BOTH, LATE_BOTH),
    (Script(accident="kill", outage="mail"),),
    (Script(outage="mail"),),
    (Script(mode="audit"),),
    (Script(spared="accepted", sweeps=()),),
    (Script(spared="canary", sweeps=SWEEPS[:1]),),
)
"""What comes about on one day, or on some days in a row: a silence lasts for days, or nothing would be due before it ends."""
DAYS, CALM = 5 + sum(len(one) for one in SPECIALS), 4
"""How long a season is, and how many days at its end are calm: nearly four weeks."""
FEW, FEWER = ((1, 10), (8, 20), (18, 40), (21, 50)), ((1, 10), (8, 20), (18, 40))
"""When a day's sweeps are in the excerpt."""
EXCERPT = (
    Script(sweeps=FEWER),
    Script(sweeps=FEW, accident="half"),
    Script(sweeps=FEWER, accident="lost", outage="mail"),
    Script(sweeps=FEW, silence="aws azure", late=True),
    Script(sweeps=FEWER[:2], mode="notify"),
    Script(sweeps=FEWER, mode="apply"),
    Script(sweeps=FEWER, calm=True),
    Script(sweeps=FEWER, calm=True),
)
"""A week with what has cost most, from a Monday on."""
BEGIN = datetime(2026, 10, 19, tzinfo=UTC)
"""A Monday, in the week before clocks are put back in Europe."""
