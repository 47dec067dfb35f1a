"""Calendars as a run reads them: each from its place, and a failure of one says why and hides no other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import boto3
import pytest

from reaper.calendars.calendar import Calendar
from reaper.calendars.resolve import calendar_rows, next_entries, resolve_calendars, with_calendars, with_fresh_freezes
from reaper.extras import install_command
from reaper.model import Status
from reaper.policy.parse import parse_policy
from reaper.registry import kind_names
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.server import Server

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
CHANGES = """BEGIN:VCALENDAR
PRODID:-//AWS//Change Calendar 1.0//EN
VERSION:2.0
X-CALENDAR-TYPE:{kind}
X-WR-CALDESC:
BEGIN:VTODO
DTSTAMP:20200320T004207Z
UID:3b5af39a-d0b3-4049-a839-d7bb8af01f92
SUMMARY:Add events to this calendar.
END:VTODO
BEGIN:VEVENT
DTSTAMP:20200320T004218Z
UID:5e1ee63e-3f45-4f7f-a5ad-2d1d8f9a1a3d
SUMMARY:Year end
DTSTART;TZID=America/New_York:20261120T000000
DTEND;TZID=America/New_York:20261221T000000
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


def policy(*specs: str, more: str = ""):
    lines = [f"  c{number}: {spec}" for number, spec in enumerate(specs)]
    return parse_policy("\n".join(["version: 1", more, "calendars:", *lines, ""]), "p.yaml", kind_names())


def resolved(spec: str, where: str | None = None) -> Calendar:
    [calendar] = resolve_calendars(policy(spec), where, NOW).values()
    return calendar


def test_dates_are_whole_days_in_the_calendars_zone():
    calendar = resolved("{dates: [2026-12-24/2026-12-26, 2026-12-31], tz: America/New_York, weekend: fri-sat}")
    assert calendar.days == {date(2026, 12, 24), date(2026, 12, 25), date(2026, 12, 26), date(2026, 12, 31)}
    assert calendar.stretches[0] == (datetime(2026, 12, 24, 5, tzinfo=UTC), datetime(2026, 12, 27, 5, tzinfo=UTC))
    assert (calendar.tz, calendar.weekend, calendar.unreadable_because) == ("America/New_York", {4, 5}, None)
    assert next_entries(calendar, NOW) == "2026-12-24/2026-12-26, 2026-12-31 (America/New_York)"


@pytest.mark.parametrize(
    ("spec", "days", "others"),
    [
        pytest.param("{country: DE, subdiv: BY}", ["2027-01-06", "2027-10-03"], ["2027-10-31"], id="a German state"),
        pytest.param("{country: DE}", ["2027-10-03"], ["2027-01-06"], id="all of Germany"),
        pytest.param(
            "{country: US}",
            ["2026-11-26", "2027-12-24", "2027-12-25", "2027-12-31"],
            ["2027-12-30"],
            id="with the day that stands for a Saturday",
        ),
    ],
)
def test_public_holidays_are_those_of_the_place_and_no_others(spec: str, days: list[str], others: list[str]):
    known = {day.isoformat() for day in resolved(spec).days}
    assert known >= set(days)
    assert not known & set(others)


def test_a_country_whose_coming_holidays_are_not_known_is_unreadable():
    [calendar] = resolve_calendars(policy("{country: DE}"), None, datetime(2100, 6, 1, tzinfo=UTC)).values()
    assert (
        calendar.unreadable_because
        == "the library holidays knows none of DE in 2101; update the reaper, or write the days as dates"
    )


def test_a_path_is_relative_to_the_policy_and_an_object_is_read_from_s3(server: Server, tmp_path: Path):
    content = CHANGES.format(kind="").encode()
    (tmp_path / "company.ics").write_bytes(content)
    boto3.client("s3").create_bucket(Bucket="calendars")
    boto3.client("s3").put_object(Bucket="calendars", Key="company.ics", Body=content)
    by_path = resolved("{ics: company.ics, tz: America/New_York}", str(tmp_path / "policy.yaml"))
    by_address = resolved("{ics: s3://calendars/company.ics, tz: America/New_York}")
    assert by_path == by_address
    assert len(by_path.days) == 31


def test_one_unreadable_calendar_hides_no_other_and_is_a_row_of_the_report(server: Server):
    server.rules.append(on("GetObject", denied(resource="arn:aws:s3:::calendars/company.ics")))
    read = with_calendars(policy("{dates: [2026-12-24]}", "{ics: s3://calendars/company.ics}", "{ics: nowhere.ics}"), None, NOW)
    assert [bool(calendar.unreadable_because) for calendar in read.resolved.values()] == [False, True, True]
    rows = list(calendar_rows(read))
    assert [(row.status, row.missing) for row in rows] == [(Status.FAILED, "s3:GetObject"), (Status.FAILED, None)]
    assert rows[0].error.startswith("calendar 'c1' can't be relied on: iCalendar file s3://calendars/company.ics: can't be read")


def change_calendar(server: Server, kind: str = "DEFAULT_OPEN", state: str = "CLOSED") -> Calendar:
    """The calendar as the reaper reads it, while AWS says that its state is `state`."""
    document = {
        "Name": "year-end",
        "Content": CHANGES.format(kind=kind),
        "DocumentType": "ChangeCalendar",
        "DocumentFormat": "TEXT",
    }
    answers = {"GetDocument": document, "GetCalendarState": {"State": state, "AtTime": "2026-11-25T12:00:00Z"}}
    for operation, data in answers.items():
        server.rules.append(on(operation, Fault(answer=lambda call, data=data: reply.result(call, data))))
    return resolved("{change_calendar: year-end, tz: America/New_York}")


def test_a_change_calendar_covers_the_time_in_which_it_is_closed(server: Server):
    calendar = change_calendar(server)
    assert calendar.unreadable_because is None
    assert calendar.stretches == ((datetime(2026, 11, 20, 5, tzinfo=UTC), datetime(2026, 12, 21, 5, tzinfo=UTC)),)


def test_a_change_calendar_closed_by_default_covers_everything_else(server: Server):
    calendar = change_calendar(server, "DEFAULT_CLOSED", "OPEN")
    assert calendar.unreadable_because is None
    (_, before), (after, _) = calendar.stretches
    assert (before, after) == (datetime(2026, 11, 20, 5, tzinfo=UTC), datetime(2026, 12, 21, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("kind", "state", "because"),
    [
        pytest.param("DEFAULT_OPEN", "OPEN", "AWS says that year-end is open now, and its events say closed", id="another state"),
        pytest.param("DEFAULT_OPEN", "AJAR", "the state 'AJAR' isn't known", id="an unknown state"),
        pytest.param("SOMETHING", "CLOSED", "it has no X-CALENDAR-TYPE", id="an unknown type"),
    ],
)
def test_a_change_calendar_that_is_in_doubt_is_unreadable(server: Server, kind: str, state: str, because: str):
    calendar = change_calendar(server, kind, state)
    assert because in str(calendar.unreadable_because)
    assert calendar.stretches == ()


@pytest.mark.parametrize("operation", ["GetDocument", "GetCalendarState"])
def test_a_denied_change_calendar_names_the_missing_permission(server: Server, operation: str):
    server.rules.append(on(operation, denied()))
    because = change_calendar(server).unreadable_because
    assert f"grant ssm:{operation} on it" in str(because)


def test_a_change_calendar_that_never_answers_is_asked_twice_at_most(server: Server):
    server.rules.append(on("GetDocument", Fault(closed=True)))
    assert "Connection was closed" in str(resolved("{change_calendar: year-end}").unreadable_because)
    assert [call.action for call in server.calls] == ["ssm:GetDocument"] * 2


def test_a_change_calendar_without_a_region_is_unreadable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert "must specify a region" in str(resolved("{change_calendar: year-end}").unreadable_because)


@pytest.mark.parametrize(
    ("spec", "library", "extra"),
    [
        pytest.param("{ics: c.ics}", "icalendar", "calendars", id="iCalendar files"),
        pytest.param("{country: DE}", "holidays", "calendars", id="holidays"),
        pytest.param("{change_calendar: year-end}", "reaper.aws.stores.texts", "aws", id="Change Calendars"),
    ],
)
def test_a_missing_library_is_named_with_the_extra(spec: str, library: str, extra: str, tmp_path: Path, monkeypatch):
    (tmp_path / "c.ics").write_text(CHANGES)
    read = policy(spec)
    monkeypatch.setitem(sys.modules, library, None)
    [calendar] = resolve_calendars(read, str(tmp_path / "policy.yaml"), NOW).values()
    assert str(calendar.unreadable_because).startswith(f"it needs an extra: {install_command(extra)} (")


def test_a_fresh_reading_can_only_add_to_a_freeze(tmp_path: Path):
    where, freeze = str(tmp_path / "policy.yaml"), tmp_path / "c.ics"
    rules = policy("{ics: c.ics, tz: UTC}", "{dates: [2026-12-24]}", more="defaults: {freeze: [c0]}")
    event = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:{}\nEND:VEVENT\nEND:VCALENDAR\n"
    freeze.write_text(event.format("20261224"))
    stored = with_calendars(rules, where, NOW)
    freeze.write_text(event.format("20261231"))
    both = with_fresh_freezes(stored, where, NOW)
    assert both.resolved["c0"].days == {date(2026, 12, 24), date(2026, 12, 31)}
    freeze.unlink()
    gone = with_fresh_freezes(stored, where, NOW).resolved["c0"]
    assert gone.unreadable_because
    assert with_fresh_freezes(rules, where, NOW).resolved["c0"].unreadable_because
    freeze.write_text(event.format("20261224"))
    was_unreadable = stored.with_calendars({"c0": gone})
    assert with_fresh_freezes(was_unreadable, where, NOW).resolved["c0"].unreadable_because
    assert "c1" not in with_fresh_freezes(was_unreadable, where, NOW).resolved, "only freezes are read afresh"


LOADED = "import sys; from reaper.policy.file import load_policy; from reaper.calendars.resolve import with_calendars; {}; print(*sys.modules)"
READ = "from datetime import *; s = load_policy({!r}); with_calendars(s.policy, None, datetime.now(UTC))"


@pytest.mark.parametrize(
    ("calendars", "libraries"),
    [
        pytest.param("{}", set(), id="none"),
        pytest.param("{a: {dates: [2026-12-24]}}", set(), id="dates"),
        pytest.param("{a: {country: DE}}", {"holidays"}, id="a country"),
    ],
)
def test_a_policy_loads_only_the_libraries_that_its_calendars_need(calendars: str, libraries: set[str]):
    code = LOADED.format(READ.format(f"version: 1\ncalendars: {calendars}\n"))
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"icalendar", "holidays", "boto3"} & set(completed.stdout.split()) == libraries
