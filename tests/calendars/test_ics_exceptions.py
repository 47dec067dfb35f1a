"""Exceptions, moved days and plain days mean what RFC 5545 means, however Google, Outlook, Apple and CalDAV servers spell them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from reaper.calendars.ics import parse_ics, read_stretches
from reaper.calendars.resolve import entries_near, whole_days

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
BERLIN, LA = "Europe/Berlin", "America/Los_Angeles"


def file_of(*events: str, head: str = "") -> bytes:
    blocks = [f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT" for event in events]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", *([head] if head else []), *blocks, "END:VCALENDAR", ""]
    return "\n".join(lines).replace("\n", "\r\n").encode()


def days(*events: str, tz: str = BERLIN, head: str = "", match: list[str] | None = None) -> set[str]:
    """The whole days in December that a file of these events names, as `24`."""
    stretches = entries_near(read_stretches(parse_ics(file_of(*events, head=head))[0], match, tz, NOW), NOW)
    return {f"{day:%d}" for day in whole_days(stretches, tz) if (day.year, day.month) == (2026, 12)}


def hours(*events: str, tz: str = BERLIN, head: str = "") -> list[str]:
    """When they begin, in UTC."""
    stretches = read_stretches(parse_ics(file_of(*events, head=head))[0], None, tz, NOW)
    return [f"{start:%m-%d %H:%M}" for start, _ in sorted(stretches)]


DAILY = "UID:a\nSUMMARY:Freeze\nDTSTART;VALUE=DATE:20261220\nRRULE:FREQ=DAILY;COUNT=4"
ALL = {"20", "21", "22", "23"}
AT_NIGHT = "UID:a\nSUMMARY:Freeze\nDTSTART;TZID=America/Los_Angeles:20261220T200000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3"
SPELLINGS = [
    pytest.param("20261221", id="eight digits"),
    pytest.param(";VALUE=DATE:20261221", id="a day"),
    pytest.param(";VALUE=DATE-TIME:20261221", id="a day that is called a time"),
    pytest.param(f";TZID={LA}:20261221", id="a day in a zone far away"),
    pytest.param(f";VALUE=DATE;TZID={LA}:20261221", id="a day with both parameters"),
    pytest.param(";TZID=Nowhere/Nothing:20261221", id="a day in no known zone"),
    pytest.param(f";TZID={LA}:20261221T000000", id="midnight in a zone far away"),
    pytest.param(f";TZID={LA}:20261221T235900", id="late in a zone far away"),
    pytest.param(";TZID=UTC:20261221T233000", id="late in UTC by its name"),
    pytest.param("20261221T000000", id="midnight without a zone"),
    pytest.param("20261221T233000", id="late without a zone"),
    pytest.param("20261220T230000Z", id="midnight in UTC"),
    pytest.param("20261221T225900Z", id="late in UTC"),
    pytest.param(f";TZID={BERLIN}:20261220T230000Z", id="UTC beside a zone"),
    pytest.param(';TZID="Europe/Berlin":20261221T000000', id="a zone in quotes"),
    pytest.param(";TZID=W. Europe Standard Time:20261221T000000", id="a zone by its Windows name"),
]


@pytest.mark.parametrize("zone", ["Europe", "America/Argentina", "a" * 300])
@pytest.mark.parametrize("where", ["head", "event"])
def test_a_zone_that_is_a_folder_or_too_long_is_an_unknown_zone(zone: str, where: str):
    head = f"X-WR-TIMEZONE:{zone}" if where == "head" else ""
    event = DAILY if head else f"UID:a\nDTSTART;TZID={zone}:20261220T200000"
    with pytest.raises(ValueError, match=f"^unknown time zone '{zone.rpartition('/')[2][:30]}.*Europe/Berlin$"):
        days(event, head=head)


def line(name: str, spelling: str) -> str:
    return f"{name}{spelling}" if spelling.startswith(";") else f"{name}:{spelling}"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_exception_takes_its_day_out_of_plain_days(spelling: str):
    assert days(f"{DAILY}\n{line('EXDATE', spelling)}") == ALL - {"21"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_moved_day_is_not_at_its_old_place(spelling: str):
    moved = f"UID:a\nSUMMARY:Freeze\nDTSTART;VALUE=DATE:20261228\n{line('RECURRENCE-ID', spelling)}"
    assert days(DAILY, moved) == days(moved, DAILY) == ALL - {"21"} | {"28"}
    assert days(DAILY, f"{moved}\nSTATUS:CANCELLED") == ALL - {"21"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_added_day_and_the_last_day_are_the_day_that_is_meant(spelling: str):
    assert days("UID:a\nSUMMARY:Freeze\nDTSTART;VALUE=DATE:20261201\n" + line("RDATE", spelling)) == {"01", "21"}
    if not spelling.startswith(";"):
        assert days(f"UID:a\nDTSTART:20261219\nRRULE:FREQ=DAILY;UNTIL={spelling}") == {"19", "20", "21"}


@pytest.mark.parametrize(
    ("head", "tz", "left"),
    [
        pytest.param("", LA, ALL - {"20"}, id="the policy's zone"),
        pytest.param("X-WR-TIMEZONE:Europe/Berlin", LA, ALL - {"21"}, id="the file's zone"),
        pytest.param("X-WR-TIMEZONE;VALUE=TEXT:W. Europe Standard Time", LA, ALL - {"21"}, id="the file's, as Windows names it"),
        pytest.param("X-WR-TIMEZONE:Nowhere", LA, ALL - {"20"}, id="no known zone"),
    ],
)
def test_a_time_in_utc_names_a_day_in_the_calendars_zone(head: str, tz: str, left: set[str]):
    assert days(f"{DAILY}\nEXDATE:20261220T230000Z", tz=tz, head=head) == left


@pytest.mark.parametrize(
    "start",
    [f"DTSTART;TZID={LA}", f"DTSTART;VALUE=DATE;TZID={LA}", f"DTSTART;VALUE=DATE-TIME;TZID={LA}", "DTSTART;TZID=X/Y", "dtstart"],
)
def test_eight_digits_are_a_day_in_no_zone(start: str):
    assert hours(f"UID:a\n{start}:20261224\n{start.replace('START', 'END').replace('start', 'end')}:20261226") == ["12-23 23:00"]
    assert days(f"UID:a\n{start}:20261224") == {"24"}


@pytest.mark.parametrize(
    ("spelling", "left"),
    [
        pytest.param(";VALUE=DATE:20261221", ["12-21 04:00", "12-23 04:00"], id="a day in the zone of the start"),
        pytest.param(f";TZID={BERLIN}:20261221", ["12-21 04:00", "12-23 04:00"], id="a day, whatever zone it carries"),
        pytest.param("20261222T040000Z", ["12-21 04:00", "12-23 04:00"], id="the instant in UTC"),
        pytest.param(f";TZID={BERLIN}:20261222T050000", ["12-21 04:00", "12-23 04:00"], id="the instant in another zone"),
        pytest.param("20261221T200000", ["12-21 04:00", "12-23 04:00"], id="without a zone: in that of the start"),
        pytest.param("20261221T090000", ["12-21 04:00", "12-22 04:00", "12-23 04:00"], id="another time"),
    ],
)
def test_an_exception_of_a_recurring_time(spelling: str, left: list[str]):
    assert hours(f"{AT_NIGHT}\n{line('EXDATE', spelling)}") == left
    cancelled = f"UID:a\nSTATUS:CANCELLED\nDTSTART:20261222T040000Z\n{line('RECURRENCE-ID', spelling)}"
    assert hours(AT_NIGHT, cancelled) == left


def test_a_list_may_mix_days_and_times():
    assert days(f"{DAILY}\nEXDATE;TZID={LA}:20261220, 20261221T220000,20261221T230000Z,") == {"23"}


def test_a_day_added_to_a_recurring_time_is_that_time_on_it():
    assert hours(f"{AT_NIGHT}\nRDATE;VALUE=DATE:20261228")[-1] == "12-29 04:00"


@pytest.mark.parametrize(
    ("until", "last"),
    [
        pytest.param("20261221", "12-22 04:00", id="a day in the zone of the start"),
        pytest.param("20261221T200000", "12-22 04:00", id="without a zone"),
        pytest.param("20261222T040000Z", "12-22 04:00", id="UTC"),
        pytest.param("20261222T035959Z", "12-21 04:00", id="a second earlier"),
        pytest.param("99991231T235959Z", "12-31 04:00", id="for ever, as Outlook writes"),
    ],
)
def test_the_last_recurring_time(until: str, last: str):
    event = AT_NIGHT.replace("COUNT=3", f"UNTIL={until}")
    assert [start for start in hours(event) if start.startswith("12-")][-1] == max(last, "12-21 04:00")


def test_plain_days_may_recur_for_ever():
    assert "31" in days("UID:a\nDTSTART:20261220\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param("FREQ=WEEKLY;BYDAY=MO;COUNT=2", {"17", "21", "28"}, id="beside the rule, and not counted"),
        pytest.param("FREQ=WEEKLY;BYDAY=TH;COUNT=2", {"17", "24"}, id="by the rule, and counted once"),
        pytest.param("FREQ=WEEKLY;BYDAY=MO;UNTIL=20261222", {"17", "21"}, id="with an end"),
        pytest.param("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=1", {"17", "31"}, id="of the month"),
    ],
)
def test_the_start_counts_beside_the_rule_and_takes_nothing_from_count(rule: str, expected: set[str]):
    assert days(f"UID:a\nDTSTART;VALUE=DATE:20261217\nRRULE:{rule}") == expected
    assert days(f"UID:a\nDTSTART;VALUE=DATE:20261217\nRRULE:{rule}\nEXDATE:20261217") == expected - {"17"}


def test_a_fold_inside_a_letter_is_no_damage():
    content = file_of("UID:a\nSUMMARY:Frühling\nDTSTART:20261224")
    for fold in (b"\r\n ", b"\n\t"):
        for place in range(content.index(b"SUMMARY"), content.index(b"DTSTART")):
            folded = content[:place] + fold + content[place:]
            if content[place - 2 : place] != b"\r\n":
                assert read_stretches(parse_ics(folded)[0], ["frühling"], BERLIN, NOW), place


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"], ids=ascii)
def test_only_line_feeds_end_a_line(end: str):
    text = f"UID:a\nSUMMARY:x\nDESCRIPTION:Agenda{end}END:VEVENT{end}DTSTART:20261201\nDTSTART:20261224"
    assert days(text) == {"24"}
    assert days(text.replace("SUMMARY:x", f"SUMMARY:x{end}RRULE:FREQ=DAILY"), match=["x*"]) == {"24"}


GOOD, BAD = "UID:b\nSUMMARY:Freeze\nDTSTART:20261224", "UID:a\nSUMMARY:{}\nDTSTART;TZID=My/Zone:{}T100000\n{}"


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(BAD.format("Freeze", "20201224", "DTEND;TZID=My/Zone:20201224T110000"), id="over"),
        pytest.param(BAD.format("Freeze", "20250601", "DURATION:PT1H"), id="over for 18 months, with a length"),
        pytest.param(BAD.format("Freeze", "20220601", "DURATION:nonsense"), id="over, with an odd length"),
        pytest.param(BAD.format("Freeze", "20301224", "DURATION:PT1H"), id="far ahead"),
        pytest.param(BAD.format("Standup", "20261224", "DURATION:PT1H"), id="another title"),
        pytest.param(BAD.format("Freeze", "20261224", "STATUS:CANCELLED"), id="canceled"),
        pytest.param("UID:a\nSUMMARY:Freeze\nDTSTART:20200101\nDTEND:20190101", id="reversed, long ago"),
        pytest.param("UID:a\nSUMMARY:Standup\nDTSTART:nonsense", id="another title without a readable day"),
    ],
)
def test_what_does_not_count_need_not_be_readable(event: str):
    assert days(event, GOOD, match=["Freeze"]) == {"24"}


@pytest.mark.parametrize(
    ("event", "because"),
    [
        pytest.param(
            BAD.format("Freeze", "20261224", ""), "event 'Freeze' on 2026-12-24: unknown time zone 'My/Zone'", id="near"
        ),
        pytest.param(BAD.format("Freeze", "20260101", ""), "on 2026-01-01: unknown time zone", id="a year ago"),
        pytest.param(BAD.format("Freeze", "20150101", "RRULE:FREQ=YEARLY;COUNT=2"), "on 2015-01-01: unknown", id="a series"),
        pytest.param(BAD.format("Freeze", "20150101", "RDATE:20150102T100000Z"), "on 2015-01-01: unknown", id="a list of days"),
        pytest.param("UID:a\nSUMMARY:Freeze\nDTSTART:20200101\nDTEND:20270101", "on 2020-01-01: it ends before", id="too long"),
        pytest.param("UID:a\nSUMMARY:Freeze\nDTSTART:20261332", "event 'Freeze': it can't be read (DTSTART", id="no day"),
        pytest.param(f"{DAILY}\nEXDATE;TZID=My/Zone:20261221T000000", "on 2026-12-20: unknown time zone", id="an exception"),
        pytest.param(f"{DAILY}\nRRULE:FREQ=HOURLY", "on 2026-12-20: it needs a DTSTART and at most one RRULE", id="two rules"),
        pytest.param("UID:a\nSUMMARY:Freeze\nDTSTART:20261224\nDTSTART:20261225", "needs a DTSTART", id="two starts"),
        pytest.param(
            "UID:a\nSUMMARY:Freeze\nDTSTART:20261224T100000Z\nDTEND;TZID=tzone://Microsoft/Custom:20261224T110000",
            "on 2026-12-24: unknown time zone 'tzone://Microsoft/Custom'",
            id="a zone with a colon",
        ),
        pytest.param("UID:a\nSUMMARY:Freeze\nDTSTART:20261224T100000Z\nDTEND:", "on 2026-12-24: it can't be read", id="no end"),
    ],
)
def test_what_counts_and_cannot_be_read_is_named_with_its_day(event: str, because: str):
    with pytest.raises(ValueError, match=re.escape(because)):
        days(event, GOOD, match=["Freeze"])


def test_a_moved_occurrence_of_a_series_that_counts_must_be_readable():
    for moved in ("RECURRENCE-ID;RANGE=THISANDFUTURE:20261221", "RECURRENCE-ID:nonsense"):
        event = f"UID:a\nSUMMARY:Freeze\nSTATUS:CANCELLED\nDTSTART:20261221\n{moved}"
        with pytest.raises(ValueError, match="event 'Freeze' on 2026-12-20: "):
            days(DAILY, event)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_a_file_that_is_not_utf_8_is_told_so_in_words(encoding: str):
    content = file_of("UID:a\nSUMMARY:Frühling\nDTSTART:20261224").decode().encode(encoding)
    with pytest.raises(ValueError, match=r"it isn't UTF-8 text \(byte 0x..\); export it as UTF-8"):
        parse_ics(content)


GOOGLE = """UID:g@google.com
DTSTART;VALUE=DATE:20261221
DTEND;VALUE=DATE:20261222
RRULE:FREQ=WEEKLY;WKST=MO;UNTIL=20261231;BYDAY=TU,MO
EXDATE;VALUE=DATE:20261222
SUMMARY:Freeze"""
OUTLOOK = """UID:040000008200E00074C5B7101A82E008
RRULE:FREQ=DAILY;UNTIL=20261223T230000Z;INTERVAL=1
EXDATE;TZID=W. Europe Standard Time:20261222T000000
SUMMARY;LANGUAGE=de-DE:Freeze
DTSTART;TZID=W. Europe Standard Time:20261221T000000
DTEND;TZID=W. Europe Standard Time:20261222T000000
X-MICROSOFT-CDO-ALLDAYEVENT:TRUE"""
APPLE = """UID:A-B-C
DTSTART;VALUE=DATE:20261221
DURATION:P1D
RRULE:FREQ=DAILY;COUNT=4
EXDATE;TZID=Europe/Berlin:20261222T000000
SUMMARY:Freeze """
EVOLUTION = """UID:e
DTSTART;TZID=/freeassociation.sourceforge.net/Europe/Berlin:
 20261221T000000
DTEND;TZID=/freeassociation.sourceforge.net/Europe/Berlin:
 20261222T000000
RRULE:FREQ=DAILY;COUNT=4
EXDATE;TZID=/freeassociation.sourceforge.net/Europe/Berlin:20261222T000000
SUMMARY:Freeze"""


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(GOOGLE, {"21", "28", "29"}, id="Google"),
        pytest.param(OUTLOOK, {"21", "23", "24"}, id="Outlook"),
        pytest.param(APPLE, {"21", "23", "24"}, id="Apple"),
        pytest.param(EVOLUTION, {"21", "23", "24"}, id="Evolution"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*globally unique TZID")
def test_series_as_programs_export_them(event: str, expected: set[str]):
    assert days(event, match=["freeze"]) == expected
