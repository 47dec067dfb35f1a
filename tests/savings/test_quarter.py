"""Savings against a meter and a twin: never more than the reaper saved, and less by no more than the method leaves out."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import seeds
from play.terms import DAY, HOUR
from savings.quarter import IDLE_AFTER, Event, Quarter, parse_time, quarter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

CENT = 0.01
WEEK: tuple[Event, ...] = (
    (1.2, "plain-n1", "restart"),
    (1.7, "plain-n3", "recreate"),
    (1.6, "watch-n0", "stop"),
    (2.1, "plain-n0", "remove"),
    (2.2, "plain-e0", "use"),
    (2.3, "plain-n2", "restore"),
    (2.6, "plain-e3", "restart"),
    (2.7, "plain-d0", "restart"),
    (2.8, "", "prices rise"),
    (3.2, "plain-i1", "restore"),
)


def saved_by_name(savings: Any, cause: str = "ours") -> dict[str, float]:
    """What `reaper savings` says of each thing."""
    saved: dict[str, float] = defaultdict(float)
    for row in savings["actions"]:
        if row["cause"] == cause:
            saved[plain(row["name"])] += row["saved_usd"]
    return saved


def plain(name: str) -> str:
    return name.rpartition("/")[2]


def least_usd(played: Quarter, row: Any, horizon: timedelta) -> float:
    """The least that an action must be credited: up to what ended it, without one interval and, where it was used meanwhile, without that."""
    at, name = parse_time(row["at"]), plain(row["name"])
    ends = [
        when
        for when, who, what in played.done
        if who == name and when > at and what in {"start", "restart", "recreate", "restore", "remove"}
    ]
    end = min([*ends, at + horizon, played.sweeps[-1]])
    interval = max(after - before for before, after in pairwise(played.sweeps))
    uses = [(since, until) for since, until in played.ours.things[name].truth.uses if at < since < end]
    excluded = sum((until - since + IDLE_AFTER + 3 * interval for since, until in uses), interval)
    return max(0.0, row["usd_per_hour"] * ((end - at - excluded) / HOUR)) - CENT


def check_promises(played: Quarter, events: Sequence[Event]) -> None:
    """Each dated action of the first audit is the first one that enforcement takes: at the first sweep from its date on, with its saving."""
    rates = {(plain(row["name"]), row["at"][:16]): row["usd_per_hour"] for row in played.savings()["actions"]}
    used = {name for day, name, _ in events if day < 1.5} | {"busy-e0"}
    dated = {name: one for name, one in played.promised.items() if one["at"] and name not in used}
    assert len(dated) > 8
    for name, promise in dated.items():
        when, what = next((when, what) for when, who, what in played.done if who == name and what in {"stop", "delete"})
        due = next(sweep for sweep in played.sweeps if sweep >= parse_time(promise["at"]))
        assert (what, when) == (promise["step"], due), name
        [saved] = {usd for (who, at), usd in rates.items() if who == name and at == f"{when:%Y-%m-%dT%H:%M}"}
        assert saved == pytest.approx(promise["saves_usd_per_hour"]) or name == "plain-e2", "autoscaling would have kept two"


def judge(played: Quarter, horizon: timedelta) -> None:
    """Fails with everything that is wrong."""
    savings, wrong = played.savings(), []
    saved = saved_by_name(savings)
    for name in played.ours.things:
        real = played.twin.meter.total[name] - played.ours.meter.total[name]
        actions = sum(plain(row["name"]) == name for row in savings["actions"])
        print(f"{name:10} really {real:9.2f}  saved {saved[name]:9.2f}  in {actions}")
        if saved[name] > real + CENT * (1 + actions):
            wrong.append(f"{name}: {saved[name]} is more than the {real:.2f} that it really saved")
    wrong += [
        f"{row['name']}: {row['action']} of {row['at']}: {row['saved_usd']} is less than {least:.2f}"
        for row in savings["actions"]
        if row["cause"] == "ours" and row["saved_usd"] < (least := least_usd(played, row, horizon))
    ]
    stops = [(name, what) for _, name, what in played.done if what in {"stop", "delete"} and name != "watch-n0"]
    counted = [row for row in savings["actions"] if row["cause"] == "ours"]
    last = [name for when, name, what in played.done if what in {"stop", "delete"} and when == played.sweeps[-1]]
    print(len(stops), "actions,", len(counted), "counted")
    assert wrong == []
    assert len(counted) == len(stops) - len(last), "every action but those of the last sweep is counted"
    assert savings["saved_usd"] == pytest.approx(sum(row["saved_usd"] for row in counted))
    assert [plain(row["name"]) for row in savings["actions"] if row["cause"] == "prompted"] == ["watch-n0"]
    assert savings["prompted_usd"] == pytest.approx(saved_by_name(savings, "prompted")["watch-n0"]) != 0


@pytest.mark.timeout(600)
def test_a_week_credits_no_more_than_the_meters_show(tmp_path: Path):
    with quarter(tmp_path, 5, 12, 2, WEEK) as played:
        played.play(5)
        judge(played, 2 * DAY)
        check_promises(played, WEEK)
        assert {what for _, _, what in played.done} >= {"stop", "delete", "start", *(what for *_, what in WEEK)}
        minima = [
            row["usd_per_hour"] / played.first_usd["plain-e2"] for row in played.savings()["actions"] if row["name"] == "plain-e2"
        ]
        assert minima == [pytest.approx(1)], "autoscaling would have kept two of three: only one instance is ours"


def months(days: int) -> list[Event]:
    """The same again every twelve days, each thing's turn two days after the one before; prices rise once."""
    turns = [(name, what) for _, name, what in WEEK if what not in {"prices rise", "stop", "remove"}]
    again = [(start + 3.2 + 0.9 * n, name, what) for start in range(0, days - 14, 12) for n, (name, what) in enumerate(turns)]
    return [*again, (1.6, "watch-n0", "stop"), (days / 3, "plain-n0", "remove"), (days / 2, "", "prices rise")]


@pytest.mark.fresh
@pytest.mark.skipif(not seeds.FRESH, reason="a quarter takes about ten minutes: `make soak` plays it")
@pytest.mark.timeout(3600)
def test_a_quarter_credits_no_more_than_the_meters_show(tmp_path: Path):
    with quarter(tmp_path, 90, 12, 30, months(90)) as played:
        played.play(90)
        judge(played, 30 * DAY)
        check_promises(played, months(90))
