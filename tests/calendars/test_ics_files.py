"""iCalendar files as other programs write them: what their events name, and what can't be read is never "no holidays"."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from reaper.calendars.ics import parse_ics, read_stretches
from reaper.calendars.resolve import entries_near, whole_days

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def ics(*events: str, head: str = "") -> bytes:
    """A file of these events, each a text of its lines."""
    blocks = [f"BEGIN:VEVENT\nUID:{number}\n{event.strip()}\nEND:VEVENT" for number, event in enumerate(events)]
    return "\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", head, *blocks, "END:VCALENDAR", ""]).replace("\n", "\r\n").encode()


def days(*events: str, match: list[str] | None = None, tz: str = BERLIN) -> set[str]:
    stretches = entries_near(read_stretches(parse_ics(ics(*events))[0], match, tz, NOW), NOW)
    return {day.isoformat() for day in whole_days(stretches, tz)}


def hours(*events: str, tz: str = BERLIN) -> list[str]:
    """The stretches in UTC."""
    return [
        f"{start:%m-%d %H:%M} {end:%m-%d %H:%M}"
        for start, end in sorted(read_stretches(parse_ics(ics(*events))[0], None, tz, NOW))
    ]


def day(when: str, *lines: str, title: str = "Company holiday") -> str:
    return "\n".join([f"SUMMARY:{title}", f"DTSTART;VALUE=DATE:{when}", *lines])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(day("20261224", "DTEND;VALUE=DATE:20261227"), ["24", "25", "26"], id="the end doesn't count"),
        pytest.param(day("20261224"), ["24"], id="without an end it is one day"),
        pytest.param(day("20261224", "DTEND;VALUE=DATE:20261224"), ["24"], id="an end on the same day"),
        pytest.param(day("20261224", "DURATION:P2D"), ["24", "25"], id="a length"),
        pytest.param(day("20261224", "DURATION:PT36H"), ["24", "25"], id="a part of a day is a day"),
        pytest.param(day("20261224", "DURATION:P1DT1M"), ["24", "25"], id="a day and a minute are two days"),
        pytest.param(day("20261224", "TRANSP:TRANSPARENT"), ["24"], id="transparent, as in public feeds"),
        pytest.param(day("20261224", "X-MICROSOFT-CDO-BUSYSTATUS:FREE"), ["24"], id="free, as Outlook writes"),
        pytest.param("DTSTART:20261224T000000\nDTEND:20261225T000000", ["24"], id="a floating time is in the calendar's zone"),
        pytest.param("DTSTART:20261223T230000Z\nDTEND:20261225T230000Z", ["24", "25"], id="from midnight to midnight"),
        pytest.param(
            "DTSTART;TZID=W. Europe Standard Time:20261224T000000\nDURATION:P1D", ["24"], id="a zone by its Windows name"
        ),
    ],
)
def test_an_event_names_the_days_that_its_author_meant(event: str, expected: list[str]):
    assert days(event) == {f"2026-12-{number}" for number in expected}


def test_a_part_of_a_day_is_no_day_but_counts_by_the_hour():
    events = ("DTSTART;TZID=America/New_York:20261224T180000\nDTEND;TZID=America/New_York:20261224T200000",)
    assert days(*events) == set()
    assert hours(*events) == ["12-24 23:00 12-25 01:00"]


def test_a_duration_is_no_shorter_when_clocks_go_forward():
    spring, autumn = (f"DTSTART;TZID={BERLIN}:{start}T120000\nDURATION:PT48H" for start in ("20270327", "20271030"))
    assert hours(spring, autumn) == ["03-27 11:00 03-29 11:00", "10-30 10:00 11-01 11:00"]


def test_a_cancelled_event_names_nothing():
    assert days(day("20261224"), day("20261228", "STATUS:CANCELLED")) == {"2026-12-24"}


def test_only_titles_that_match_count():
    feed = [
        day("20261225", title="Christmas Day"),
        day("20261228", title="Regional: St. Stephen"),
        day("20261231", title="CHRISTMAS party"),
    ]
    assert days(*feed, match=["christmas*"]) == {"2026-12-25", "2026-12-31"}


def test_a_yearly_event_lasts_as_long_each_time_and_leaves_out_exceptions():
    event = day(
        "20191224", "DTEND;VALUE=DATE:20191226", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20271224", "RDATE;VALUE=DATE:20270401"
    )
    near = {"2025-12-24", "2025-12-25", "2026-12-24", "2026-12-25", "2027-04-01", "2027-04-02"}
    assert days(event) == near


def test_an_occurrence_that_was_moved_or_cancelled_is_not_at_its_old_place():
    master = day("20261207", "RRULE:FREQ=WEEKLY;COUNT=3").replace("SUMMARY", "UID:x\nSUMMARY")
    moved = "UID:x\nRECURRENCE-ID;VALUE=DATE:20261214\nDTSTART;VALUE=DATE:20261216"
    cancelled = "UID:x\nRECURRENCE-ID;VALUE=DATE:20261221\nDTSTART;VALUE=DATE:20261221\nSTATUS:CANCELLED"
    text = ics(master, moved, cancelled).replace(b"UID:0\r\n", b"").replace(b"UID:1\r\n", b"").replace(b"UID:2\r\n", b"")
    found = whole_days(entries_near(read_stretches(parse_ics(text)[0], None, BERLIN, NOW), NOW), BERLIN)
    assert found == {date(2026, 12, 7), date(2026, 12, 16)}


@pytest.mark.parametrize(
    ("until", "last"),
    [
        pytest.param("20261226", "2026-12-26", id="a day"),
        pytest.param("20261225T230000Z", "2026-12-26", id="midnight of that day, in UTC"),
        pytest.param("20261226T000000Z", "2026-12-26", id="that day in UTC"),
        pytest.param("20261226T000000", "2026-12-26", id="no zone"),
    ],
)
def test_the_last_day_of_a_recurrence_counts(until: str, last: str):
    assert max(days(day("20261224", f"RRULE:FREQ=DAILY;UNTIL={until}"))) == last


def test_a_recurring_time_keeps_its_hour_when_the_clocks_change():
    event = f"DTSTART;TZID={BERLIN}:20270326T220000\nDTEND;TZID={BERLIN}:20270327T060000\nRRULE:FREQ=DAILY;COUNT=3"
    assert hours(event) == ["03-26 21:00 03-27 05:00", "03-27 21:00 03-28 04:00", "03-28 20:00 03-29 04:00"]


def test_zones_that_a_file_defines_itself_do_not_count():
    own = "BEGIN:VTIMEZONE\nTZID:Office\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0100\nEND:STANDARD\nEND:VTIMEZONE"
    text = ics("DTSTART;TZID=Office:20261224T000000\nDURATION:P1D", head=own)
    with pytest.raises(ValueError, match="unknown time zone 'Office'"):
        read_stretches(parse_ics(text)[0], None, BERLIN, NOW)


WHOLE = ics(day("20261224"), day("20261225"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"\r\n\r\n", "it is empty", id="blank"),
        pytest.param(b"<!DOCTYPE html>\n<html><title>Sign in</title></html>", "it is a web page", id="a login page"),
        pytest.param(WHOLE.partition(b"DTSTART")[0], "cut off", id="half a file"),
        pytest.param(WHOLE.rpartition(b"END:VCALENDAR")[0], "END:VCALENDAR is missing", id="the last line is missing"),
        pytest.param(WHOLE.replace(b"END:VEVENT", b"END:VTODO", 1), "END:VTODO ends nothing", id="another end"),
        pytest.param(WHOLE + b"END:VCALENDAR\r\n", "END:VCALENDAR ends nothing", id="an end too many"),
        pytest.param(b"\xff\xfe" + WHOLE, "it isn't UTF-8 text .byte 0xFF", id="not UTF-8"),
        pytest.param(ics(day("2026122")), "can't be read", id="half a date"),
        pytest.param(ics(day("20261224", "DTEND;VALUE=DATE:20261220")), "ends before it begins", id="reversed"),
        pytest.param(ics(day("20260101", "DTEND;VALUE=DATE:20990101")), "longer than two years", id="an event that never ends"),
        pytest.param(ics("DTSTART:20261224T100000Z\nDTEND;VALUE=DATE:20261225"), "begins with a day", id="a time and a day"),
        pytest.param(
            ics(day("20261224", "RDATE;VALUE=PERIOD:20261205T100000Z/PT3H")), "a period among its dates", id="an added period"
        ),
        pytest.param(ics("SUMMARY:x"), "needs a DTSTART", id="no start"),
        pytest.param(ics(day("20261224", "EXRULE:FREQ=DAILY")), "EXRULE", id="an excluding rule"),
        pytest.param(ics(day("20261224", "RRULE:FREQ=SOMETIMES")), "can't be read", id="no frequency"),
        pytest.param(ics(day("20261224", "RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20261224")), "RANGE", id="all later ones"),
        pytest.param(
            ics("DTSTART;TZID=Europe/Berlim:20261224T000000\nDURATION:P1D"),
            "unknown time zone 'Europe/Berlim'",
            id="no such zone",
        ),
    ],
)
def test_what_is_not_a_whole_readable_file_is_refused(content: bytes, problem: str):
    with pytest.raises(ValueError, match=problem):
        read_stretches(parse_ics(content)[0], None, BERLIN, NOW)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(ics(), "no entry from 400 days ago", id="no events"),
        pytest.param(ics(day("20200101")), "no entry from 400 days ago", id="long ago"),
        pytest.param(ics(day("20261101")), "last entry ended on 2026-11-01", id="past its last event"),
        pytest.param(
            ics(day("20260101", "RRULE:FREQ=WEEKLY;UNTIL=20261120")), "last entry ended on 2026-11-19", id="past its last one"
        ),
    ],
)
def test_a_calendar_without_a_coming_event_is_refused(content: bytes, problem: str):
    with pytest.raises(ValueError, match=problem):
        entries_near(read_stretches(parse_ics(content)[0], None, BERLIN, NOW), NOW)


def test_a_midnight_that_the_clocks_skip_begins_the_day_all_the_same():
    event = day("20260424")  # in Cairo, clocks go from 00:00 to 01:00 that day
    [(start, end)] = read_stretches(parse_ics(ics(event))[0], None, "Africa/Cairo", NOW)
    assert (start, end - start) == (datetime(2026, 4, 23, 22, tzinfo=UTC), timedelta(hours=23))
    assert whole_days([(start, end)], "Africa/Cairo") == {date(2026, 4, 24)}
