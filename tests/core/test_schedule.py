from __future__ import annotations

import pytest

from reaper import schedule


def test_weekday_office_hours():
    hours = schedule.parse("mon-fri 07:00-21:00", "Europe/Berlin")
    assert (hours.days, hours.start, hours.end, hours.tz) == (frozenset(range(5)), 7 * 60, 21 * 60, "Europe/Berlin")


@pytest.mark.parametrize(
    ("on", "days"), [("sat,sun 0:00-24:00", {5, 6}), ("fri-mon 09:00-17:30", {4, 5, 6, 0}), ("Wed 10:00-11:00", {2})]
)
def test_days_can_be_listed_and_wrap_around_the_week(on: str, days: set[int]):
    assert schedule.parse(on, "UTC").days == days


@pytest.mark.parametrize(
    ("on", "tz", "said"),
    [
        ("9-5", "UTC", "expected days and times"),
        ("mon-fri 21:00-07:00", "UTC", "expected a start before an end"),
        ("mon-fri 07:00-25:00", "UTC", "expected a start before an end"),
        ("monday 07:00-08:00", "UTC", "expected days out of mon, tue"),
        ("mon 07:00-08:00", "Mars/Olympus", "expected an IANA time zone"),
        ("mon 07:00-08:00", "", "expected an IANA time zone"),
        ("mon 07:00-08:00", "../etc/passwd", "expected an IANA time zone"),
    ],
)
def test_an_error_says_what_was_expected(on: str, tz: str, said: str):
    with pytest.raises(ValueError, match=said):
        schedule.parse(on, tz)
