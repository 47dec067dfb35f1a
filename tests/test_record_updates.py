"""How a record changes, where only one wrong word would let a notice count that must not, or close an action that nobody finished."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case
from fakes.planned import action_due_at, is_summary_due
from fakes.records import a_record, changed, known
from reaper.calendars.office_hours import Hours
from reaper.model import AnnouncedAction, Ceiling, Result, StepName
from reaper.planning import dates
from reaper.record import is_unfinished

OPEN = a_record(acted=StepName.STOP, acted_at=NOW - HOUR, warned_at=NOW - DAY)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"run": "another"}, True, id="another run's"),
        pytest.param({"run": "ours"}, False, id="this run's own"),
        pytest.param({"run": "another", "result": Result.DONE}, False, id="its result is known"),
        pytest.param({"acted": None}, False, id="no action"),
    ],
)
def test_which_actions_are_unfinished(changes: dict[str, Any], expected: bool):
    assert is_unfinished(changed(OPEN, **changes), "ours") is expected


@pytest.mark.parametrize(
    ("announced", "due"), [(AnnouncedAction.STOP, False), (AnnouncedAction.DELETE, True), (None, False)], ids=str
)
def test_an_announced_stop_is_no_notice_of_a_delete(announced: AnnouncedAction | None, due: bool):
    judged = case(action="delete", acts={StepName.STOP: None, StepName.DELETE: None})
    record = a_record(idle_since=NOW - 6 * DAY, seen_idle_at=NOW, warned_at=NOW - 5 * DAY, announced=announced)
    assert (action_due_at(judged, record, NOW) is not None) is due


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        pytest.param({}, True, id="a week after the last mail"),
        pytest.param({"snoozed_until": NOW + DAY}, False, id="snoozed"),
        pytest.param({"snoozed_until": NOW - 9 * DAY}, True, id="a snooze before the enrollment"),
        pytest.param({"reminded_at": NOW - DAY}, False, id="reminded yesterday"),
        pytest.param({"hours": "of other hours"}, False, id="not enrolled in these hours"),
        pytest.param({"announced": AnnouncedAction.STOP}, False, id="a notice of idleness"),
        pytest.param({"warned_at": None}, False, id="no notice"),
    ],
)
def test_when_a_weekly_summary_is_due(changes: dict[str, Any], due: bool):
    hours = Hours(days=frozenset(range(7)), start=7 * 60, end=19 * 60, tz="UTC", by_rule=True)
    judged = case(action=Ceiling.STOP, remind_every=7 * DAY, hours=hours)
    digest = dates.hours_digest(hours)
    record, snoozes = changed(known(warned_at=NOW - 7 * DAY, announced=AnnouncedAction.HOURS, hours=digest), **changes)
    assert is_summary_due(judged, record.notice, snoozes, NOW) is due
