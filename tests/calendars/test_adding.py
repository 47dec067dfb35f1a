"""Dates over freezes and business days, at the edges where they go wrong."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR
from fakes.read_calendars import days_of, frozen
from reaper.calendars.freezes import MAX_DAYS, BusinessDays, Freeze, add_business_days, add_length, freeze_at, merged

YEAR_END = frozen("2026-12-21", "2027-01-03")
BERLIN = "Europe/Berlin"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def business(count: int, *days_off: str, tz: str = BERLIN, weekend: frozenset[int] = frozenset({5, 6})) -> BusinessDays:
    off = frozenset(day for days in days_of(*days_off) for day in days)
    return BusinessDays(count=count, calendar="germany", tz=tz, weekend=weekend, days_off=off)


@pytest.mark.parametrize(
    ("start", "days", "due"),
    [
        pytest.param("2026-12-20T00:00", 3, "2027-01-06T00:00", id="a day before the freeze, two after it"),
        pytest.param("2026-12-18T00:00", 3, "2027-01-04T00:00", id="over just when the freeze begins"),
        pytest.param("2026-12-17T23:00", 3, "2026-12-20T23:00", id="over before it begins"),
        pytest.param("2026-12-25T12:00", 3, "2027-01-07T00:00", id="begun in the freeze"),
        pytest.param("2026-12-21T00:00", 0, "2027-01-04T00:00", id="nothing to wait for, in the freeze"),
        pytest.param("2027-01-04T00:00", 0, "2027-01-04T00:00", id="nothing to wait for, at its end"),
    ],
)
def test_frozen_time_counts_toward_no_length(start: str, days: int, due: str):
    assert add_length(utc(start), days * DAY, [YEAR_END]) == utc(due)


def test_freezes_that_touch_or_overlap_are_one_under_both_names():
    one, other = frozen("2026-12-19", "2026-12-31"), frozen("2027-01-01", "2027-01-06", "closing")
    joined = Freeze(calendar="year-end and closing", start=one.start, end=other.end)
    assert merged([other, one, frozen("2026-12-20", "2026-12-22")]) == (joined,)


@pytest.mark.parametrize(
    ("start", "days", "due"),
    [
        pytest.param("2026-12-23T14:00", business(2, "2026-12-25/2026-12-26"), "2026-12-28T14:00", id="over Christmas"),
        pytest.param("2026-11-28T09:00", business(1), "2026-11-30T09:00", id="begun on a Saturday"),
        pytest.param("2026-11-27T09:00", business(1), "2026-11-30T09:00", id="Friday and one day"),
        pytest.param("2026-11-27T23:30", business(1), "2026-11-29T23:30", id="Saturday here, Friday in UTC"),
        pytest.param("2026-11-26T23:30", business(1), "2026-11-29T23:30", id="Friday here, Thursday in UTC"),
        pytest.param("2027-03-26T13:00", business(1), "2027-03-29T12:00", id="clocks go forward on the way"),
        pytest.param("2026-10-23T12:00", business(1), "2026-10-26T13:00", id="clocks go back on the way"),
        pytest.param("2027-03-27T01:30", business(1, weekend=frozenset()), "2027-03-28T01:30", id="left out by the clock change"),
        pytest.param("2026-10-24T00:30", business(1, weekend=frozenset()), "2026-10-25T01:30", id="twice: the later one"),
        pytest.param(
            "2026-11-26T09:00", business(1, weekend=frozenset({4, 5})), "2026-11-29T09:00", id="Friday and Saturday off"
        ),
    ],
)
def test_business_days_keep_the_wall_time(start: str, days: BusinessDays, due: str):
    assert add_business_days(utc(start), days, []) == utc(due)


def test_a_day_that_is_frozen_in_part_is_no_business_day():
    noon = Freeze(calendar="closing", start=utc("2026-11-24T12:00"), end=utc("2026-11-25T12:00"))
    assert add_business_days(utc("2026-11-23T10:00"), business(1, tz="UTC"), [noon]) == utc("2026-11-26T10:00")
    to_midnight = Freeze(calendar="closing", start=utc("2026-11-24T00:00"), end=utc("2026-11-25T00:00"))
    assert add_business_days(utc("2026-11-23T10:00"), business(1, tz="UTC"), [to_midnight]) == utc("2026-11-25T10:00")


def test_a_calendar_without_business_days_is_searched_for_two_years():
    never = business(1, weekend=frozenset(range(7)), tz="UTC")
    assert add_business_days(utc("2026-11-23T10:00"), never, []) == utc("2026-11-23T10:00") + MAX_DAYS * DAY


moments = st.integers(0, 90 * 24 * 4).map(lambda quarters: utc("2026-11-01T00:00") + quarters * timedelta(minutes=15))
freezes = st.lists(st.tuples(moments, st.integers(1, 400)), max_size=6).map(
    lambda spans: merged(Freeze(calendar="x", start=start, end=start + hours * HOUR) for start, hours in spans)
)
zones = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati"])


def unfrozen_hours(start: datetime, end: datetime, spans: tuple[Freeze, ...]) -> timedelta:
    """What of that time isn't frozen."""
    cut = [max(timedelta(), min(end, each.end) - max(start, each.start)) for each in spans]
    return end - start - sum(cut, timedelta())


@given(moments, st.integers(0, 500), freezes)
def test_just_that_much_unfrozen_time_passes(start: datetime, hours: int, spans: tuple[Freeze, ...]):
    due = add_length(start, hours * HOUR, spans)
    assert unfrozen_hours(start, due, spans) == hours * HOUR
    assert freeze_at(spans, due) is None
    assert due >= add_length(start, hours * HOUR, spans[1:]) >= start + hours * HOUR


@given(moments, st.integers(1, 10), zones, st.sets(st.dates(date(2026, 11, 1), date(2027, 2, 1)), max_size=20), freezes)
def test_business_days_are_counted_after_the_local_date(start, count, tz, days_off, spans):
    zone, weekend = ZoneInfo(tz), frozenset({5, 6})
    off = BusinessDays(count=count, calendar="x", tz=tz, weekend=weekend, days_off=frozenset(days_off))
    due = add_business_days(start, off, spans)
    first, last = start.astimezone(zone).date(), due.astimezone(zone).date()
    between = [first + n * DAY for n in range(1, (last - first).days + 1)]
    touched = [
        day
        for day in between
        if any(unfrozen_hours(*ends(day, zone), (each,)) < ends(day, zone)[1] - ends(day, zone)[0] for each in spans)
    ]
    counted = [day for day in between if day.weekday() < 5 and day not in days_off and day not in touched]
    assert (len(counted), counted[-1:]) == (count, [last])
    assert due >= add_business_days(start, off, spans[1:]) >= start + count * timedelta(hours=23)
    assert freeze_at(spans, due) is None


class Thousands(tuple[Freeze, ...]):
    """Freezes that no date may go through one by one."""

    def __iter__(self):
        raise AssertionError("all freezes were examined")


def test_a_date_examines_only_the_freezes_around_it():
    nights = [
        Freeze(calendar="nights", start=utc("2026-01-01") + n * DAY, end=utc("2026-01-01T06:00") + n * DAY) for n in range(2000)
    ]
    many = Thousands(nights)
    noon = utc("2026-12-20T12:00")
    assert freeze_at(many, noon) is None
    assert add_length(noon, 36 * HOUR, many) == utc("2026-12-22T12:00")
    assert add_business_days(noon, business(1, tz="UTC"), Thousands(nights[:300])) == utc("2026-12-21T12:00")


def ends(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """A local day in UTC."""
    return tuple(datetime.combine(each, datetime.min.time(), zone).astimezone(UTC) for each in (day, day + DAY))  # type: ignore[return-value]
