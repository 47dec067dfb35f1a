"""Recurring events: the same days as dateutil's own expansion, and an end to every rule."""

from __future__ import annotations

import datetime as datetime_module
from datetime import date, datetime, time
from itertools import takewhile
from time import process_time
from types import SimpleNamespace

import pytest
from dateutil import rrule
from hypothesis import given
from hypothesis import strategies as st

from reaper.calendars.ics import MAX_STEPS, Steps, recurring_days

WINDOW = (date(2025, 10, 21), date(2028, 11, 25))
DAYS = rrule.weekdays


@st.composite
def rules(draw) -> dict:
    """Parts of a rule as iCalendar spells them."""
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    # Numbered or not: dateutil takes only what is both, RFC 5545 either.
    is_numbered = frequency in ("MONTHLY", "YEARLY") and draw(st.booleans())
    numbers = st.sampled_from(["1", "-1", "2", "5", "-3"] if is_numbered else [""])
    weekday = st.builds("{}{}".format, numbers, st.sampled_from(["MO", "WE", "FR", "SA", "SU"]))
    parts = {
        "BYMONTH": st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True),
        "BYMONTHDAY": st.lists(st.sampled_from([1, 2, 13, 28, 29, 30, 31, -1, -2, -31]), min_size=1, max_size=4, unique=True),
        "BYDAY": st.lists(weekday, min_size=1, max_size=3, unique=True),
        "BYSETPOS": st.lists(st.sampled_from([1, 2, -1, -2, 31]), min_size=1, max_size=2, unique=True),
        "COUNT": st.integers(1, 60).map(lambda n: [n]),
        "INTERVAL": st.integers(1, 7).map(lambda n: [n]),
        "WKST": st.sampled_from([["SU"], ["MO"], ["SA"]]),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(parts)), max_size=4))
    if not chosen & {"BYMONTH", "BYMONTHDAY", "BYDAY"} or frequency in ("DAILY", "WEEKLY"):
        chosen -= {"BYSETPOS"}  # without any of them, dateutil refuses it; within a week or day, the reaper does
    drawn = {"FREQ": [frequency]} | {name: draw(parts[name]) for name in sorted(chosen)}
    if frequency == "YEARLY" and ("BYSETPOS" in drawn or (is_numbered and "BYDAY" in drawn)):
        drawn["BYMONTH"] = [draw(st.integers(1, 12))]  # numbered within one month
    return drawn


def by_dateutil(parts: dict, start: date) -> list[date]:
    """Its own expansion. It looks for what never comes until the last year there is, which is 2030 here."""
    spelled = ";".join(f"{name}={','.join(map(str, values))}" for name, values in parts.items())
    known = rrule.rrulestr(
        f"RRULE:{spelled};UNTIL=20281125T000000" if "COUNT" not in parts else f"RRULE:{spelled}",
        dtstart=datetime.combine(start, time()),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rrule, "datetime", SimpleNamespace(**vars(datetime_module) | {"MAXYEAR": 2030}))
        found = list(takewhile(lambda day: day <= WINDOW[1], (when.date() for when in known)))
    return [day for day in found if day >= WINDOW[0]]


def by_reaper(parts: dict, start: date) -> list[date]:
    """No day of a rule that is refused because it never matches."""
    try:
        return list(recurring_days(parts, start, WINDOW, Steps()))
    except ValueError as error:
        if "no day is ever that" not in str(error):
            raise
        return []


@given(parts=rules(), start=st.dates(date(2019, 1, 1), date(2028, 12, 31)))
def test_a_rule_means_the_days_that_dateutil_says(parts: dict, start: date):
    assert by_reaper(parts, start) == by_dateutil(parts, start)


NEVER = "it recurs by {}, and no day is ever that; correct these parts of its RRULE, or remove the RRULE"


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        pytest.param({"FREQ": "YEARLY", "BYMONTH": [2], "BYMONTHDAY": [30]}, "BYMONTH=2;BYMONTHDAY=30", id="30 February"),
        pytest.param(
            {"FREQ": "DAILY", "BYMONTH": [2], "BYMONTHDAY": [30], "UNTIL": [datetime(2027, 1, 1)]},  # noqa: DTZ001
            "BYMONTH=2;BYMONTHDAY=30",
            id="30 February, looked for every day until then",
        ),
        pytest.param({"FREQ": "YEARLY", "BYMONTH": 2, "BYMONTHDAY": 31, "COUNT": 9}, "BYMONTH=2;BYMONTHDAY=31", id="counted"),
        pytest.param({"FREQ": "MONTHLY", "BYDAY": ["6MO"]}, "BYDAY=6MO", id="the sixth Monday"),
        pytest.param({"FREQ": "MONTHLY", "BYDAY": ["MO"], "BYSETPOS": [6]}, "BYDAY=MO;BYSETPOS=6", id="the sixth of all Mondays"),
        pytest.param({"FREQ": "YEARLY", "BYMONTH": [2, 4]}, "BYMONTH=2,4;BYMONTHDAY=31", id="the day of its start"),
        pytest.param({"FREQ": "DAILY", "BYMONTHDAY": [0]}, "BYMONTHDAY=0", id="day 0"),
        pytest.param({"FREQ": "YEARLY", "BYMONTH": [13]}, "BYMONTH=13;BYMONTHDAY=31", id="month 13"),
    ],
)
def test_a_rule_that_never_matches_is_refused_before_it_runs(parts: dict, named: str):
    begun = process_time()
    with pytest.raises(ValueError, match="no day is ever that") as refused:
        list(recurring_days(parts, date(1990, 1, 31), WINDOW, Steps()))
    assert str(refused.value) == NEVER.format(named)
    assert process_time() - begun < 1


def test_a_rule_for_the_rarest_day_matches():
    assert by_reaper({"FREQ": "DAILY", "BYMONTH": [2], "BYMONTHDAY": [29], "BYDAY": ["TU"]}, date(1990, 1, 1)) == [
        date(2028, 2, 29)
    ]


@pytest.mark.parametrize(
    ("parts", "start"),
    [
        pytest.param({"FREQ": "DAILY", "COUNT": [10**9]}, date(2026, 1, 1), id="a billion times"),
        pytest.param({"FREQ": "DAILY", "INTERVAL": [7], "BYDAY": ["TU"]}, date(2026, 1, 1), id="each Thursday that is a Tuesday"),
    ],
)
def test_a_rule_that_never_ends_takes_few_steps(parts: dict, start: date):
    steps = Steps()
    assert len(list(recurring_days(parts, start, WINDOW, steps))) <= 1131
    assert MAX_STEPS - steps.left < 5000


def test_a_rule_that_counts_from_long_ago_is_refused_after_so_many_steps():
    steps, start = Steps(left=1000), date(1, 1, 8)
    with pytest.raises(ValueError, match="recur too often or for too long"):
        list(recurring_days({"FREQ": "YEARLY", "BYMONTHDAY": [1], "BYMONTH": [2], "COUNT": [9000]}, start, WINDOW, steps))
    assert steps.left < 0


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        pytest.param({"FREQ": "HOURLY", "BYMONTH": [2], "BYMONTHDAY": [30]}, "recurs HOURLY; only DAILY", id="hourly"),
        pytest.param({"FREQ": "SECONDLY"}, "recurs SECONDLY; only DAILY", id="every second"),
        pytest.param({"FREQ": "DAILY", "BYHOUR": [1, 2]}, "recurs by BYHOUR, which isn't read", id="hours of a day"),
        pytest.param({"FREQ": "DAILY", "INTERVAL": [0]}, "INTERVAL or COUNT below 1", id="again and again"),
        pytest.param({"FREQ": "DAILY", "COUNT": [-5]}, "INTERVAL or COUNT below 1", id="less than never"),
        pytest.param({"FREQ": "WEEKLY", "BYDAY": ["2MO"]}, "numbered day", id="the second Monday of a week"),
        pytest.param({"FREQ": "WEEKLY", "BYDAY": ["MO", "FR"], "BYSETPOS": [1]}, "numbered day", id="the first day of a week"),
        pytest.param({"FREQ": "YEARLY", "BYDAY": ["20MO"]}, "numbered day", id="the 20th Monday of a year"),
        pytest.param(
            {"FREQ": "YEARLY", "BYMONTH": [1, 6], "BYDAY": ["MO"], "BYSETPOS": [-1]}, "numbered day", id="of two months"
        ),
        pytest.param({}, "without FREQ", id="nothing"),
    ],
)
def test_a_rule_that_is_not_of_days_is_refused(parts: dict, problem: str):
    with pytest.raises(ValueError, match=problem):
        list(recurring_days(parts, date(2026, 1, 1), WINDOW, Steps()))
