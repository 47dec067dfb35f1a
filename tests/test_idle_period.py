"""When the last notice still speaks of a resource: its dates, its addressee, and what it was like."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fakes.builders import HOUR, NOW
from fakes.judged_cases import case
from fakes.planned import idle_period_start
from fakes.records import a_record, changed
from reaper.model import Result, StepName
from reaper.planning.dates import notice_followed_action

LEE, SAM = "lee@example.com", "sam@example.com"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="the mail about the first part"),
        pytest.param({"part": None}, False, id="the whole was done"),
        pytest.param({"result": Result.FAILED}, False, id="it failed"),
        pytest.param({"notified_at": NOW - HOUR}, False, id="a later notice"),
        pytest.param({"warned_at": None, "notified_at": None}, False, id="no notice"),
    ],
)
def test_only_the_mail_about_a_part_announces_its_rest(changes: dict[str, Any], expected: bool):
    record = a_record(warned_at=NOW, acted=StepName.STOP, notified_at=NOW, part="1 of 2 variants", result=Result.DONE)
    assert notice_followed_action(changed(record, **changes)) is expected


@pytest.mark.parametrize(
    ("idle_for", "last_busy", "moved"),
    [
        pytest.param(30 * HOUR, None, timedelta(), id="the same"),
        pytest.param(30 * HOUR + timedelta(seconds=60), None, timedelta(), id="a minute more is proven"),
        pytest.param(30 * HOUR + timedelta(seconds=61), None, timedelta(seconds=-61), id="over a minute more is proven"),
        pytest.param(29 * HOUR, NOW - 29 * HOUR, HOUR, id="it was used since"),
        pytest.param(30 * HOUR, NOW - 30 * HOUR + timedelta(seconds=1), timedelta(seconds=1), id="it was used a second later"),
    ],
)
def test_the_start_moves_for_another_period_or_over_a_minute(idle_for: timedelta, last_busy: datetime | None, moved: timedelta):
    record = a_record(idle_since=NOW - 30 * HOUR, seen_idle_at=NOW - HOUR)
    judged = case()
    judged = replace(judged, verdict=replace(judged.verdict, idle_for=idle_for, last_busy=last_busy))
    assert idle_period_start(judged, record, NOW) - (NOW - 30 * HOUR) == moved
