"""Calendars made to exhaust the reaper: each is refused or read within a second or two, in little record. A process that isn't done is ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT_S, LIMIT_MB = 60, 400
"""Far above what they take, far below what the same rules take in dateutil, or forever."""
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({limit} * 2**20, {limit} * 2**20))
from datetime import UTC, datetime
from reaper.calendars.resolve import entries_near
from reaper.calendars.ics import parse_ics, read_stretches
from reaper.errors import ODD_REPLY_ERRORS
now = datetime(2026, 11, 25, tzinfo=UTC)
try:
    print("read", len(entries_near(read_stretches(parse_ics(sys.stdin.buffer.read())[0], None, "UTC", now), now)))
except ODD_REPLY_ERRORS as error:
    print("refused", error)
"""


def read_in_process(content: bytes) -> str:
    command = [sys.executable, "-c", READ.format(limit=LIMIT_MB)]
    completed = subprocess.run(command, input=content, capture_output=True, timeout=LIMIT_S, check=False)
    assert completed.returncode == 0, completed.stderr[-2000:]
    return completed.stdout.decode()


def ics(*events: str) -> bytes:
    blocks = [f"BEGIN:VEVENT\nUID:{number}\n{event}\nEND:VEVENT" for number, event in enumerate(events)]
    return "\n".join(["BEGIN:VCALENDAR", *blocks, "END:VCALENDAR", ""]).encode()


def recurring(rule: str, start: str = "20200101T000000Z", more: str = "DURATION:PT1H") -> str:
    return f"DTSTART:{start}\n{more}\nRRULE:{rule}"


ZONE = "BEGIN:VTIMEZONE\nTZID:Evil\n{}END:VTIMEZONE\n".format(
    "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0100\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30\nEND:STANDARD\n"
    * 50
)
CHRISTMAS = "DTSTART;VALUE=DATE:20261224"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(ics(recurring("FREQ=MINUTELY")), "refused event '' on 2020-01-01: it recurs MINUTELY", id="every minute"),
        pytest.param(
            ics(recurring("FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30")),
            "refused event '' on 2020-01-01: it recurs HOURLY",
            id="hourly on 30 February",
        ),
        pytest.param(
            ics(*[recurring("FREQ=DAILY;BYMONTH=2,4,6;BYMONTHDAY=31", "19000101T000000Z")] * 2000),
            "refused event '' on 1900-01-01: it recurs by BYMONTH=2,4,6;BYMONTHDAY=31, and no day is ever that",
            id="never, 2,000 times",
        ),
        pytest.param(
            ics(*[recurring("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=9", "00010101T000000Z")] * 2000),
            "refused event '' on 1-01-01: it recurs by BYMONTH=2;BYMONTHDAY=30, and no day is ever that",
            id="never, counted from year 1",
        ),
        pytest.param(
            ics(*[recurring("FREQ=YEARLY;COUNT=9000", "00010101T000000Z")] * 2000),
            "refused event '' on 1-01-01: it and the events before it recur too often",
            id="counted from year 1",
        ),
        pytest.param(
            ics(*[recurring("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "20240101T000000Z")] * 2000),
            "refused event '' on 2024-01-01: it and the events before it recur too often",
            id="the rarest day, 2,000 times",
        ),
        pytest.param(ics(recurring("FREQ=DAILY", "00010101T000000Z")), "read 11", id="daily since year 1"),
        pytest.param(ics(recurring("FREQ=DAILY;COUNT=99999999")), "read 11", id="a hundred million times"),
        pytest.param(
            ics(*[recurring("FREQ=DAILY")] * 1000),
            "refused event '' on 2020-01-01: it and the events before it",
            id="a thousand a day",
        ),
        pytest.param(
            ics(*[recurring("FREQ=DAILY", f"20200101T{n:02}0000Z", "DURATION:PT1M") for n in range(24)]),
            "refused it has more than 5,000",
            id="hourly in disguise",
        ),
        pytest.param(ics(*[CHRISTMAS] * 10_000), "refused it has more than 2,000 events", id="10,000 events"),
        pytest.param(ics(*[recurring("FREQ=YEARLY")] * 2_000), "read 3", id="2,000 birthdays on one day"),
        pytest.param(ics(f"{CHRISTMAS}\nSUMMARY:{'x' * 2**20}"), "refused it is larger than 1 MiB", id="a long title"),
        pytest.param(
            b"BEGIN:VCALENDAR\n" * 60_000, "refused it has more than 2,000 events, or events in events", id="nested 60,000 deep"
        ),
        pytest.param(
            ics(f"{CHRISTMAS}\nEXDATE;VALUE=DATE:{','.join(['20261224'] * 90_000)}"),
            "refused it has no entry",
            id="90,000 exceptions",
        ),
        pytest.param(ics(f"{CHRISTMAS}\nRDATE;VALUE=DATE:{','.join(['20261225'] * 90_000)}"), "read 1", id="90,000 additions"),
        pytest.param(
            ics(CHRISTMAS).replace(b"BEGIN:VEVENT", f"{ZONE}BEGIN:VEVENT".encode()), "read 1", id="a zone that never ends"
        ),
        pytest.param(
            ics(CHRISTMAS + "\n" + "BEGIN:VALARM\nTRIGGER:-PT1S\nREPEAT:999999999\nDURATION:PT1S\nEND:VALARM"),
            "read 1",
            id="alarms",
        ),
        pytest.param(ics(f"{CHRISTMAS}\nSUMMARY{';X=a' * 200_000}:x"), "re", id="150,000 parameters"),
        pytest.param(ics("DTSTART:99991231T235959Z\nDURATION:P700D"), "re", id="the end of time"),
    ],
)
def test_a_hostile_calendar_is_bounded_in_time_and_memory(content: bytes, said: str):
    assert read_in_process(content).startswith(said)
