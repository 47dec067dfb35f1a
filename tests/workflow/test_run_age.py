"""Deadlines: each phase ends in good order before its time is over, says what is left, and the next run begins there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from reaper import handover
from reaper.coverage import NOT_REACHED
from reaper.ledger.ledger import UNREACHED_ROW, read_gaps
from reaper.model import Mode, Run, State, Status
from reaper.policy.file import load_policy
from reaper.run import run
from workflow.conftest import NOW, REGIONS, Scene

MINUTE = timedelta(minutes=1)


def run_in(mode: Mode, started: datetime = NOW) -> Run:
    return Run(id="r", started_at=started, mode=mode, version="1", policy_sha256="0" * 64)


@pytest.mark.parametrize(
    ("mode", "minutes", "expected"),
    [
        pytest.param(Mode.ENFORCE, 15, 10.5, id="a function of 15 minutes"),
        pytest.param(Mode.ENFORCE, 120, 30, id="the age limit is earlier"),
        pytest.param(Mode.AUDIT, 120, 84, id="an audit has no age limit"),
        pytest.param(Mode.NOTIFY, None, 30, id="no deadline"),
        pytest.param(Mode.AUDIT, None, None, id="an audit at the command line"),
    ],
)
def test_observe_ends_in_time_for_the_other_phases(mode: Mode, minutes: float | None, expected: float | None):
    deadline = NOW + minutes * MINUTE if minutes else None
    ends = handover.observe_deadline(run_in(mode), NOW, deadline)
    assert ends == (NOW + expected * MINUTE if expected else None)


def test_a_step_of_an_audit_that_begins_late_has_its_own_time():
    """In a workflow over many accounts a step may begin an hour after the run, and has 15 minutes all the same."""
    begins = NOW + 60 * MINUTE
    ends = handover.observe_deadline(run_in(Mode.AUDIT), begins, begins + 15 * MINUTE, handover.SHARE_OF_STEP)
    assert ends == begins + 13.5 * MINUTE


def test_what_is_not_reached_is_a_failed_row_without_calls(scene: Scene):
    run_id = str(scene.workflow.list()["run"])
    scene.later(minutes=31)
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    scene.workflow.decide(run_id)
    report = scene.workflow.conclude(run_id)
    rows = [row for row in report.coverage if row.cloud == "aws"]
    assert {row.status for row in rows} == {Status.FAILED}
    assert all(NOT_REACHED in (row.error or "") and not row.calls for row in rows)
    assert report.findings == ()


def test_the_next_run_reads_first_what_was_not_reached(scene: Scene):
    scene.use(lambda settings: replace(settings, mode=Mode.NOTIFY, kinds=("sagemaker-endpoint", "sagemaker-notebook")))
    place = ("aws", "123456789012", "eu-west-1", "sagemaker-notebook")
    assert scene.ledger.write_row(UNREACHED_ROW, {"document": f'["{chr(34)}"]'}, 0)
    assert read_gaps(scene.ledger)[0] == frozenset()
    order: list[str] = []
    run_id = str(scene.workflow.list()["run"])
    version = scene.ledger.read_row(UNREACHED_ROW).version
    row = {"document": '[["aws", "123456789012", "eu-west-1", "sagemaker-notebook"]]'}
    assert scene.ledger.write_row(UNREACHED_ROW, row, version)
    assert read_gaps(scene.ledger)[0] == {place}
    context = scene.workflow.context
    scene.workflow.context = lambda run: replace(context(run), progress=order.append)  # type: ignore[method-assign]
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    assert len(order) == 4
    scene.workflow.decide(run_id)
    scene.workflow.conclude(run_id)
    assert read_gaps(scene.ledger)[0] == frozenset()


def test_an_endpoint_whose_reading_is_cut_off_is_unknown_not_idle(scene: Scene):
    """The clock jumps past the deadline after the list of endpoints was read."""
    scene.use(lambda settings: replace(settings, kinds=("sagemaker-endpoint",), regions=(REGIONS[0],)))
    run_id = str(scene.workflow.list()["run"])
    real = scene.workflow.clock
    ticks = iter(range(1_000_000))
    scene.workflow.clock = lambda: real() + (timedelta(hours=1) if next(ticks) > 4 else timedelta())
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    scene.workflow.clock = real
    scene.workflow.decide(run_id)
    report = scene.workflow.conclude(run_id)
    [row] = [row for row in report.coverage if row.cloud == "aws"]
    assert row.status is not Status.OK
    assert NOT_REACHED in (row.error or "")
    assert all(f.case.verdict.state is State.UNKNOWN for f in report.findings)


def test_notices_without_time_are_reported_and_sent_by_the_next_run(scene: Scene):
    """In one process, which nothing repeats. A conclude of a workflow fails instead, and is repeated."""
    settings, source = scene.workflow.settings, load_policy(scene.policy)
    late = scene.server.now + timedelta(seconds=30)
    report = run(settings, source, lambda: scene.server.now, deadline=late)
    assert not [mail for mail in scene.mails() if "To: ana@example.com" in mail]
    assert {f.outcome.result.value for f in report.findings} == {"failed"}
    [row] = [row for row in report.coverage if row.kind == "notices"]
    assert "2 notices not sent: this run's time was over" in (row.error or "")
    scene.later(hours=1)
    assert {f.outcome.result.value for f in scene.workflow.run().findings} == {"done"}
    assert [mail for mail in scene.mails() if "To: ana@example.com" in mail]


def test_a_run_over_other_places_forgets_nothing(scene: Scene):
    place = ("aws", "210987654321", "eu-west-1", "sagemaker-endpoint")
    assert scene.ledger.write_row(UNREACHED_ROW, {"document": json.dumps([place])}, 0)
    scene.workflow.run()
    assert read_gaps(scene.ledger)[0] == {place}


def test_what_was_not_reached_stays_first_although_the_run_is_refused(scene: Scene):
    run_id = str(scene.workflow.list()["run"])
    scene.later(minutes=31)
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    scene.later(minutes=31)
    scene.workflow.decide(run_id)
    scene.workflow.conclude(run_id)
    assert {place[2] for place in read_gaps(scene.ledger)[0]} == set(REGIONS)


def test_an_audit_reads_what_its_workflow_reaches_late(scene: Scene):
    """The steps of a large organization begin one after the other, the last ones long after the run."""
    scene.use(lambda settings: replace(settings, mode=Mode.AUDIT))
    run_id = str(scene.workflow.list()["run"])
    scene.workflow.deadline_in = 15 * MINUTE
    scene.later(minutes=50)
    for item in scene.workflow.items(run_id):
        scene.workflow.observe(run_id, item)
    scene.workflow.decide(run_id)
    report = scene.workflow.conclude(run_id)
    assert {row.status for row in report.coverage} == {Status.OK}
    assert len(report.findings) == 2
