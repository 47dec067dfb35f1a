from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper.calendars import office_hours
from reaper.calendars.office_hours import Hours

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def test_office_hours_parse_days_times_and_zone():
    hours = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")
    assert (hours.days, hours.start, hours.end, hours.tz) == (frozenset(range(5)), 7 * 60, 21 * 60, "Europe/Berlin")


@pytest.mark.parametrize(
    ("on", "days"), [("sat,sun 0:00-24:00", {5, 6}), ("fri-mon 09:00-17:30", {4, 5, 6, 0}), ("Wed 10:00-11:00", {2})]
)
def test_days_can_be_listed_and_wrap_around_the_week(on: str, days: set[int]):
    assert office_hours.parse_hours(on, "UTC").days == days


@pytest.mark.parametrize(
    ("on", "tz", "message"),
    [
        ("9-5", "UTC", "expected days and times"),
        ("mon-fri 21:00-07:00", "UTC", "'mon-fri 21:00-07:00': expected a start before an end at 24:00 at the latest"),
        ("mon-fri 07:00-25:00", "UTC", "expected a start before an end"),
        ("monday 07:00-08:00", "UTC", "expected days from mon, tue"),
        ("mon 07:00-08:00", "Mars/Olympus", "expected an IANA time zone"),
        ("mon 07:00-08:00", "", "expected an IANA time zone"),
        ("mon 07:00-08:00", "../etc/passwd", "expected an IANA time zone"),
    ],
)
def test_invalid_office_hours_say_what_was_expected(on: str, tz: str, message: str):
    with pytest.raises(ValueError, match=message):
        office_hours.parse_hours(on, tz)


OFFICE = "mon-fri 07:00-21:00"
BERLIN, NEW_YORK, KOLKATA, LORD_HOWE = "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_hours_include_their_start_but_not_their_end():
    hours = office_hours.parse_hours(OFFICE, KOLKATA)  # five and a half hours before UTC
    opens, closes = utc("2026-11-20T01:30"), utc("2026-11-20T15:30")
    assert [office_hours.is_open(hours, at) for at in (opens - SECOND, opens, closes - SECOND, closes)] == [
        False,
        True,
        True,
        False,
    ]


def test_office_hours_accept_times_in_any_zone():
    hours = office_hours.parse_hours(OFFICE, BERLIN)
    at = datetime(2026, 11, 20, 23, 30, tzinfo=ZoneInfo(KOLKATA))  # 19:00 in Berlin
    assert office_hours.is_open(hours, at)
    assert office_hours.next_close(hours, at) == utc("2026-11-20T20:00")


def test_office_hours_reject_a_naive_time():
    with pytest.raises(ValueError, match="with a zone"):
        office_hours.is_open(office_hours.parse_hours(OFFICE, BERLIN), datetime(2026, 11, 20, 12))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("on", "tz", "opens", "closes"),
    [
        pytest.param("sun 01:00-05:00", BERLIN, "2027-03-28T00:00", "2027-03-28T03:00", id="Berlin, an hour is missing inside"),
        pytest.param("sun 02:30-05:00", BERLIN, "2027-03-28T01:00", "2027-03-28T03:00", id="Berlin, the start is missing"),
        pytest.param("sun 00:00-02:30", BERLIN, "2027-03-27T23:00", "2027-03-28T01:00", id="Berlin, the end is missing"),
        pytest.param("sun 02:00-04:00", BERLIN, "2027-03-28T01:00", "2027-03-28T02:00", id="Berlin, the start is the gap's own"),
        pytest.param("sun 03:00-04:00", BERLIN, "2027-03-28T01:00", "2027-03-28T02:00", id="Berlin, opens as the gap ends"),
        pytest.param("sun 01:00-05:00", BERLIN, "2026-10-24T23:00", "2026-10-25T04:00", id="Berlin, an hour comes twice inside"),
        pytest.param("sun 02:30-05:00", BERLIN, "2026-10-25T00:30", "2026-10-25T04:00", id="Berlin, the start comes twice"),
        pytest.param("sun 01:00-02:30", BERLIN, "2026-10-24T23:00", "2026-10-25T01:30", id="Berlin, the end comes twice"),
        pytest.param("sun 02:10-02:20", BERLIN, "2026-10-25T00:10", "2026-10-25T01:20", id="Berlin, both come twice"),
        pytest.param("sun 02:30-06:00", NEW_YORK, "2027-03-14T07:00", "2027-03-14T10:00", id="New York, the start is missing"),
        pytest.param("sun 00:00-01:30", NEW_YORK, "2026-11-01T04:00", "2026-11-01T06:30", id="New York, the end comes twice"),
        pytest.param("sun 01:30-06:00", NEW_YORK, "2026-11-01T05:30", "2026-11-01T11:00", id="New York, the start comes twice"),
        pytest.param(
            "sun 02:15-05:00", LORD_HOWE, "2026-10-03T15:30", "2026-10-03T18:00", id="Lord Howe, half an hour is missing"
        ),
        pytest.param("sun 01:00-02:15", LORD_HOWE, "2026-10-03T14:30", "2026-10-03T15:30", id="Lord Howe, the end is missing"),
        pytest.param("sun 01:45-05:00", LORD_HOWE, "2027-04-03T14:45", "2027-04-03T18:30", id="Lord Howe, the start comes twice"),
        pytest.param("sun 00:00-01:45", LORD_HOWE, "2027-04-03T13:00", "2027-04-03T15:15", id="Lord Howe, the end comes twice"),
        pytest.param("sun 02:30-05:00", KOLKATA, "2027-03-27T21:00", "2027-03-27T23:30", id="Kolkata, never changes"),
        pytest.param(
            "sun 00:00-24:00", "America/Havana", "2026-11-01T04:00", "2026-11-02T05:00", id="Havana, midnight comes twice"
        ),
        pytest.param(
            "sat 08:00-24:00", "America/Havana", "2026-10-31T12:00", "2026-11-01T05:00", id="Havana, until the later midnight"
        ),
        pytest.param(
            "sun 00:00-08:00", "America/Havana", "2027-03-14T05:00", "2027-03-14T12:00", id="Havana, midnight is missing"
        ),
        pytest.param("thu-sun 08:00-24:00", BERLIN, "2026-12-31T07:00", "2026-12-31T23:00", id="year end"),
        pytest.param("fri 09:00-17:00", NEW_YORK, "2027-01-01T14:00", "2027-01-01T22:00", id="the first day of a year"),
        pytest.param("tue 00:00-24:00", BERLIN, "2028-02-28T23:00", "2028-02-29T23:00", id="leap day"),
        pytest.param("wed 00:00-24:00", BERLIN, "2028-02-29T23:00", "2028-03-01T23:00", id="the day after a leap day"),
        pytest.param("fri-mon 22:00-23:00", BERLIN, "2026-11-30T21:00", "2026-11-30T22:00", id="month end"),
    ],
)
def test_hours_follow_the_local_clock_across_dst_changes(on: str, tz: str, opens: str, closes: str):
    hours, start, end = office_hours.parse_hours(on, tz), utc(opens), utc(closes)
    assert office_hours.next_close(hours, start) == office_hours.next_close(hours, start - SECOND) == end
    assert [office_hours.is_open(hours, at) for at in (start - SECOND, start, end - SECOND, end)] == [False, True, True, False]
    assert office_hours.closed_since(hours, end) == end
    assert office_hours.closed_since(hours, start) is None


def test_hours_stay_closed_over_the_weekend():
    hours = office_hours.parse_hours(OFFICE, BERLIN)
    friday, monday = utc("2027-03-26T20:00"), utc("2027-03-29T05:00")  # summer time begins in between
    for at in (friday, utc("2027-03-28T12:00"), monday - SECOND):
        assert office_hours.closed_since(hours, at) == friday
    assert office_hours.next_close(hours, friday) == utc("2027-03-29T19:00")


def test_touching_days_do_not_close_in_between():
    hours = office_hours.parse_hours("mon-tue 00:00-24:00", BERLIN)
    assert office_hours.next_close(hours, utc("2026-11-23T12:00")) == utc("2026-11-24T23:00")
    assert office_hours.is_open(hours, utc("2026-11-23T23:00"))


def test_round_the_clock_hours_never_close():
    hours = office_hours.parse_hours("mon-sun 00:00-24:00", LORD_HOWE)
    at = utc("2026-10-03T15:30")
    assert (office_hours.is_open(hours, at), office_hours.next_close(hours, at)) == (True, None)
    assert office_hours.closed_since(hours, at) is None


def test_hours_inside_a_dst_gap_do_not_open_that_day():
    hours = office_hours.parse_hours("sun 02:10-02:50", BERLIN)
    assert not office_hours.is_open(hours, utc("2027-03-28T01:00"))
    assert office_hours.closed_since(hours, utc("2027-04-03T12:00")) == utc("2027-03-21T01:50")


def test_a_date_skipped_by_its_zone_does_not_open():
    hours = office_hours.parse_hours("fri 09:00-17:00", "Pacific/Apia")  # there was no 30 December 2011
    assert office_hours.closed_since(hours, utc("2012-01-05T18:59")) == utc("2011-12-24T03:00")


@pytest.mark.parametrize(
    ("tz", "a", "b", "same"),
    [
        pytest.param("UTC", "2026-12-31T23:59", "2027-01-01T00:00", False, id="midnight parts them"),
        pytest.param(NEW_YORK, "2026-12-31T23:59", "2027-01-01T00:00", True, id="not midnight there"),
        pytest.param(BERLIN, "2026-10-24T22:00", "2026-10-25T22:59", True, id="a day of 25 hours"),
        pytest.param(BERLIN, "2027-03-27T23:00", "2027-03-28T22:00", False, id="a day of 23 hours"),
    ],
)
def test_is_same_day_compares_local_dates(tz: str, a: str, b: str, same: bool):
    hours = office_hours.parse_hours(OFFICE, tz)
    assert office_hours.is_same_day(hours, utc(a), utc(b)) is office_hours.is_same_day(hours, utc(b), utc(a)) is same


def _walked(hours: Hours, at: datetime) -> bool:
    """Whether `at` is open, found by walking all minutes of the days around: from the first at or after the start to the last before the end."""
    for day in {(at + n * DAY).astimezone(ZoneInfo(hours.tz)).date() for n in (-1, 0, 1)}:
        opening, closing = (datetime.combine(day, time()) + timedelta(minutes=m) for m in (hours.start, hours.end))
        first = datetime.combine(day, time(), UTC) - DAY
        minutes = [first + n * MINUTE for n in range(3 * 24 * 60)]
        walls = [(m, m.astimezone(ZoneInfo(hours.tz)).replace(tzinfo=None)) for m in minutes]
        begun = min((m for m, wall in walls if wall >= opening), default=None)
        ended = max((m for m, wall in walls if wall < closing), default=None)
        if day.weekday() in hours.days and begun and ended and begun <= at < ended + MINUTE:
            return True
    return False


CHANGES = ["2027-03-28", "2026-10-25", "2027-03-14", "2026-11-01", "2026-10-04", "2027-04-04", "2028-02-29", "2026-12-31"]
MOMENTS = st.builds(
    lambda day, minute: utc(day) + (minute - 2 * 24 * 60) * MINUTE, st.sampled_from(CHANGES), st.integers(0, 4 * 24 * 60)
)


@st.composite
def some_hours(draw: st.DrawFn) -> Hours:
    days = draw(st.frozensets(st.integers(0, 6), min_size=1))
    start = draw(st.one_of(st.integers(0, 200), st.integers(0, 24 * 60 - 1)))
    end = draw(st.one_of(st.just(24 * 60), st.integers(start + 1, min(start + 60, 24 * 60)), st.integers(start + 1, 24 * 60)))
    return Hours(
        days=days, start=start, end=end, tz=draw(st.sampled_from([BERLIN, NEW_YORK, KOLKATA, LORD_HOWE, "America/Havana"]))
    )


@settings(max_examples=150, deadline=None)
@given(some_hours(), MOMENTS)
def test_is_open_agrees_with_checking_every_minute(hours: Hours, at: datetime):
    assert office_hours.is_open(hours, at) is _walked(hours, at)


@settings(max_examples=400, deadline=None)
@given(some_hours(), MOMENTS)
def test_closed_since_next_close_and_is_open_agree(hours: Hours, at: datetime):
    closes, since = office_hours.next_close(hours, at), office_hours.closed_since(hours, at)
    always = len(hours.days) == 7 and (hours.start, hours.end) == (0, 24 * 60)
    assert (closes is None) == always
    assert (since is None) == office_hours.is_open(hours, at)
    if closes:
        assert at < closes
        assert [office_hours.is_open(hours, t) for t in (closes - SECOND, closes)] == [True, False]
    if since:
        assert since <= at
        assert office_hours.is_open(hours, since - SECOND)
        assert not any(office_hours.is_open(hours, since + (at - since) * part / 7) for part in range(8))


@pytest.mark.parametrize(
    ("on", "at", "expected"),
    [
        pytest.param("mon-fri 07:00-21:00", "2026-11-20T09:00+00:00", "2026-11-20T06:00+00:00", id="this morning"),
        pytest.param("mon-fri 07:00-21:00", "2026-11-20T22:00+00:00", None, id="closed"),
        pytest.param("mon-fri 00:00-24:00", "2026-11-20T09:00+00:00", "2026-11-19T23:00+00:00", id="open since Monday"),
        pytest.param("mon-sun 00:00-24:00", "2026-11-20T09:00+00:00", "2026-11-19T23:00+00:00", id="never closed"),
    ],
)
def test_opened_today_is_not_before_the_day_begins(on, at, expected):
    opening = office_hours.opened_today(office_hours.parse_hours(on, "Europe/Berlin"), datetime.fromisoformat(at))
    assert opening == (datetime.fromisoformat(expected) if expected else None)
