"""Recurring events: the same days as dateutil's own expansion, and an end to every rule."""

from __future__ import annotations

import datetime as datetime_module
from collections.abc import Iterator
from datetime import date, datetime, time
from types import SimpleNamespace

import pytest
from dateutil import rrule
from hypothesis import given
from hypothesis import strategies as st

from reaper.calendars.recurrence import MAX_STEPS, Steps, parse_recurrence, recurring_days

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


@pytest.fixture(scope="module", autouse=True)
def _no_year_after_2030() -> Iterator[None]:
    """dateutil looks for what never comes until the last year there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rrule, "datetime", SimpleNamespace(**vars(datetime_module) | {"MAXYEAR": 2030}))
        yield


def by_dateutil(parts: dict, start: date) -> list[date]:
    spelled = ";".join(f"{name}={','.join(map(str, values))}" for name, values in parts.items())
    known = rrule.rrulestr(
        f"RRULE:{spelled};UNTIL=20281125T000000" if "COUNT" not in parts else f"RRULE:{spelled}",
        dtstart=datetime.combine(start, time()),
    )
    found = []
    for when in known:
        if when.date() > WINDOW[1]:
            break
        found.append(when.date())
    return [day for day in found if day >= WINDOW[0]]


@given(parts=rules(), start=st.dates(date(2019, 1, 1), date(2028, 12, 31)))
def test_a_rule_means_the_days_that_dateutil_says(parts: dict, start: date):
    rule = parse_recurrence(parts, start)
    assert list(recurring_days(rule, *WINDOW, Steps())) == by_dateutil(parts, start)


@pytest.mark.parametrize(
    ("parts", "start"),
    [
        pytest.param({"FREQ": "YEARLY", "BYMONTH": [2], "BYMONTHDAY": [30]}, date(1, 1, 1), id="30 February"),
        pytest.param(
            {"FREQ": "DAILY", "BYMONTH": [2], "BYMONTHDAY": [30]}, date(1990, 1, 1), id="30 February, looked for every day"
        ),
        pytest.param(
            {"FREQ": "YEARLY", "BYMONTH": [2], "BYMONTHDAY": [31], "COUNT": [9]}, date(1990, 1, 1), id="31 February, counted"
        ),
        pytest.param({"FREQ": "DAILY", "COUNT": [10**9]}, date(2026, 1, 1), id="a billion times"),
    ],
)
def test_a_rule_that_never_ends_or_matches_takes_few_steps(parts: dict, start: date):
    steps = Steps()
    assert len(list(recurring_days(parse_recurrence(parts, start), *WINDOW, steps))) <= 1131
    assert MAX_STEPS - steps.left < 5000


def test_a_rule_that_counts_from_long_ago_is_refused_after_so_many_steps():
    steps, start = Steps(left=1000), date(1, 1, 8)
    with pytest.raises(ValueError, match="recur too often or for too long"):
        list(
            recurring_days(
                parse_recurrence({"FREQ": "YEARLY", "BYMONTHDAY": [31], "BYMONTH": [2], "COUNT": [9]}, start), *WINDOW, steps
            )
        )
    assert steps.left == -1


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
        parse_recurrence(parts, date(2026, 1, 1))
