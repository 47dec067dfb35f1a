"""Weeks of enforcement on both clouds in fast motion, driven from outside: see `season` for what happens and `oracle` for what must hold.

An excerpt runs with every `make test`; `make soak` plays three weeks for several seeds. A failure names the seed, what was wrong, and where
the diary of the whole play lies.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from play.season import BEGIN, Season, scripts, season
from play.terms import DAY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
SOAK = os.environ.get("REAPER_SOAK", "")


def played(home: Path, seed: int, days: int, calm: int) -> Season:
    """A whole play; its diary lies in `home`."""
    with season(home, seed, BEGIN, (days + 1) * DAY) as found:
        for script in scripts(days, calm, Random(seed)):
            found.day(script)
        found.end(found.clock.now - calm * DAY + timedelta(hours=12))
    return found


def judged(found: Season, home: Path) -> None:
    """Fails with all that was wrong, and with the diary of the day on which the first of it happened."""
    if not found.oracle.wrong:
        return
    wrong = "\n".join(f"{when:%a %d %H:%M}  {why}" for when, why in found.oracle.wrong)
    first = f"{found.oracle.wrong[0][0]:%a %d}"
    day = "\n".join(line for line in found.diary if line.startswith(first))
    pytest.fail(f"{wrong}\n\nThat day:\n{day}\n\nThe whole diary: {home / 'diary.txt'}")


@pytest.mark.timeout(600)
def test_some_days_of_enforcement_hold_every_promise(tmp_path: Path):
    judged(played(tmp_path, 1, days=6, calm=3), tmp_path)


@pytest.mark.skipif(not SOAK, reason="three weeks take about ten minutes: `make soak` plays them")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [int(seed) for seed in SOAK.split(",") if seed])
def test_three_weeks_of_enforcement_hold_every_promise(tmp_path: Path, seed: int):
    judged(played(tmp_path, seed, days=21, calm=4), tmp_path)
