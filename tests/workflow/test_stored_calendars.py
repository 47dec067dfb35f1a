"""A run's calendars: read once when it is listed, stored with it, and a failure is a row of its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reaper.case import Coverage
from reaper.coverage import OWN
from reaper.finding import Report
from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.report.summary import exit_status
from reaper.run import run
from reaper.workflow.store import ACT_ITEMS
from workflow.conftest import REGIONS, Scene

EVENT = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261224\nEND:VEVENT\nEND:VCALENDAR\n"


@pytest.fixture
def calendar(scene: Scene) -> Path:
    """The file of the policy's calendar."""
    file = scene.home / "company.ics"
    file.write_text(EVENT)
    calendars = f"calendars: {{company: {{ics: {file}}}}}\n"
    scene.use(lambda settings: replace(settings, mode=Mode.AUDIT, policy=f"{settings.policy}{calendars}"))
    return file


def own_rows(report: Report) -> list[Coverage]:
    return [row for row in report.coverage if row.cloud == OWN]


def test_later_steps_go_by_the_calendars_that_the_run_read_first(scene: Scene, calendar: Path):
    run_id = str(scene.workflow.list()["run"])
    calendar.unlink()
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    scene.workflow.decide(run_id, {})
    report = scene.workflow.conclude(run_id)
    assert own_rows(report) == []
    assert exit_status(report, None) == 0


def test_an_unreadable_calendar_is_one_failure_of_the_whole_run(scene: Scene, calendar: Path):
    calendar.write_text("<html>Sign in</html>")
    in_one = run(scene.workflow.settings, load_policy(scene.policy), lambda: scene.server.now)
    for report in (in_one, scene.workflow.run()):
        [row] = own_rows(report)
        assert row.kind == "calendars"
        assert row.error == f"calendar 'company' can't be relied on: {calendar}: it isn't an iCalendar file: it is a web page"
        assert exit_status(report, None) == 3


@pytest.mark.parametrize(
    ("content", "stops"),
    [
        pytest.param(EVENT, True, id="still open"),
        pytest.param(EVENT.replace("20261224", "20261120\nDURATION:P9D"), False, id="frozen since the run decided"),
        pytest.param("", False, id="unreadable by now"),
    ],
)
def test_an_action_goes_by_the_freeze_as_it_is_right_before_it(due: Scene, content: str, stops: bool):
    calendar = due.home / "company.ics"
    calendar.write_text(EVENT)
    due.workflow.settings = replace(
        due.workflow.settings,
        policy=f"{due.policy.replace('defaults: {', 'defaults: {freeze: [company], ')}calendars: {{company: {{ics: {calendar}}}}}\n",
    )
    run_id = str(due.workflow.list()["run"])
    for item in due.workflow.items(run_id):
        due.workflow.observe(run_id, item)
    assert due.workflow.decide(run_id, {})["actions"] == 2
    calendar.write_text(content)
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    due.workflow.conclude(run_id)
    assert [due.instances(region) for region in REGIONS] == ([1, 1] if stops else [3, 3])
