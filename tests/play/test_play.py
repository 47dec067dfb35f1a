"""Weeks of enforcement on both clouds in fast motion, driven from outside: see `season` for what happens and `oracle` for what must hold.

An excerpt runs with every `make test`; `make soak` plays three weeks for several seeds. A failure names the seed, what was wrong, and where
the diary of the whole play lies.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

import seeds
from play import town
from play.scripts import BEGIN, CALM, DAYS, EXCERPT, Script, scripts
from play.season import Season, season
from play.terms import DAY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


ALWAYS = (
    "killed",
    "interrupted half-way",
    "put back",
    "lost",
    "lowered to notify",
    "sweeps",
    "outage of mail",
    "used just before its date",
    "restored",
    "started by hand in the evening",
    "stop by sweep",
    "delete by sweep",
    "stop by hours",
    "start by hours",
    "actions by apply",
    "notices",
    "cards beside mails",
    "cards while mail was refused",
    "mails about what is done",
    "actions on components",
)
"""What must have come about in every play, or it proves nothing."""
IN_THE_EXCERPT = ("taken back", "taken back with a date")
"""In some weeks no notice is wrong."""
SOMETIMES = (
    "places with lost signals",
    "mails about parts",
    "acts in both AWS accounts at once",
    "deletes of empty hosts",
    "outage of metrics",
    "outage of permission",
    "outage of ledger",
    "outage of writes",
    "snoozed in the middle of a sweep",
    "tagged in the middle of a sweep",
    "stopped by hand in the morning",
    "refused at the last look",
    "held by max_acts",
    "held by max_usd_per_hour",
    "held by max_scheduled",
    "held by max_jump",
    "caps that earlier runs filled",
)
"""What must have come about in three weeks."""


def played(home: Path, seed: int, days: Sequence[Script], most: int = 1000, without: Collection[str] = ()) -> Season:
    """A whole play; its diary lies in `home`. The last days of it are calm."""
    with season(home, seed, BEGIN, (len(days) + 1) * DAY, without=without) as played_season:
        for script in days:
            played_season.day(script)
        played_season.end(played_season.clock.now - sum(script.calm for script in days) * DAY + timedelta(hours=12), most)
    return played_season


def judged(played_season: Season, home: Path, must: Sequence[str]) -> None:
    """Fails with all that was wrong, and with the diary of the day on which the first of it happened; or where too little happened."""
    oracle = played_season.oracle
    came = played_season.counts + oracle.counts + oracle.halves.counts + oracle.claims.counts
    print("\n".join(f"{count:6} {what}" for what, count in sorted(came.items())))
    if played_season.oracle.wrong:
        wrong = "\n".join(f"{when:%a %d %H:%M}  {why}" for when, why in played_season.oracle.wrong)
        first = f"{played_season.oracle.wrong[0][0]:%a %d}"
        day = "\n".join(line for line in played_season.diary if line.startswith(first))
        pytest.fail(f"{wrong}\n\nThat day:\n{day}\n\nThe whole diary: {home / 'diary.txt'}")
    assert [what for what in must if not came[what]] == [], "these never came about"


@pytest.mark.timeout(600)
def test_a_week_of_enforcement_holds_every_promise(tmp_path: Path):
    judged(played(tmp_path, 1, EXCERPT, 9, town.LEFT_OUT), tmp_path, (*ALWAYS, *IN_THE_EXCERPT))


@pytest.mark.fresh
@pytest.mark.skipif(not seeds.FRESH, reason="three weeks take about ten minutes: `make soak` plays them")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds.FRESH)
def test_three_weeks_of_enforcement_hold_every_promise(tmp_path: Path, seed: int):
    judged(played(tmp_path, seed, scripts(DAYS, CALM, Random(seed))), tmp_path, (*ALWAYS, *SOMETIMES))
