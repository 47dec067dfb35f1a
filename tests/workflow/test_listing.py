"""The first step of a workflow: the lease of the run, what a dead run leaves to the next one, and lists that are repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.records import an_act
from reaper.coverage import SKIPPED
from reaper.handover import load_observed
from reaper.model import Mode, Result, Status, StepName, Target
from reaper.pending.unfinished import change_open_targets
from reaper.policy.file import load_policy
from reaper.record import Record
from reaper.report.figures import run_figures
from reaper.run import run
from reaper.workflow.lease import LEASE_ROW, own_run_lease
from reaper.workflow.store import ITEMS
from workflow.conftest import REGIONS, Scene

TARGETS = [Target(cloud="aws", account="123456789012", region=region) for region in REGIONS]


def test_a_second_run_is_skipped_while_the_first_one_runs(scene: Scene):
    first = scene.workflow.list()
    scene.workflow.running = {f"execution-{first['run']}"}
    second = scene.workflow.list()
    assert (second["status"], second["items"]) == ("skipped", 0)
    assert first["run"] in second["because"]
    scene.workflow.running = set()
    assert scene.workflow.list()["status"] == "listed"


def test_a_run_whose_lease_has_expired_is_taken_over(scene: Scene):
    first = scene.workflow.list()
    scene.workflow.running = {f"execution-{first['run']}"}
    scene.later(hours=4)
    assert scene.workflow.list()["status"] == "listed"


def test_a_run_that_lost_its_lease_does_not_give_back_the_next_ones(scene: Scene):
    first = scene.workflow.acted()
    second = str(scene.workflow.list()["run"])
    scene.workflow.conclude(first)
    assert own_run_lease(scene.ledger, second, f"execution-{second}")


def test_the_lease_is_given_back_and_an_audit_takes_none(scene: Scene):
    scene.workflow.run()
    assert not scene.ledger.read_row(LEASE_ROW).values
    scene.use(lambda settings: replace(settings, mode=Mode.AUDIT))
    scene.workflow.list()
    assert not scene.ledger.read_row(LEASE_ROW).values


def test_a_run_takes_the_leases_of_a_run_that_was_aborted(due: Scene):
    due.workflow.decided()
    report = due.workflow.run()
    assert {f.outcome.result for f in report.findings} == {Result.DONE}
    assert [due.instances(region) for region in REGIONS] == [1, 1]


def test_leases_of_a_run_that_was_aborted_before_the_last_are_taken_too(due: Scene):
    due.workflow.decided()
    due.workflow.observed()
    assert {f.outcome.result for f in due.workflow.run().findings} == {Result.DONE}


def test_a_repeated_list_remembers_whose_leases_it_takes(due: Scene):
    due.workflow.decided()
    run_id = str(due.workflow.list()["run"])
    due.workflow.list(run_id)
    for item in due.workflow.items(run_id):
        due.workflow.observe(run_id, item)
    assert due.workflow.decide(run_id)["actions"] == 2


@pytest.mark.parametrize("in_steps", [True, False], ids=["a workflow", "one process"])
def test_a_run_that_gets_no_lease_is_skipped_and_says_so(due: Scene, in_steps: bool):
    for target in TARGETS:
        assert due.ledger.take_lease(target, "a living run", due.server.now, timedelta(minutes=15))
    before, settings = due.mails(), due.workflow.settings
    report = due.workflow.run() if in_steps else run(settings, load_policy(due.policy), lambda: due.server.now)
    assert [(row.status, row.error) for row in report.coverage if row.kind == "runs"] == [(Status.FAILED, SKIPPED)]
    assert [figure.value for figure in run_figures(report) if figure.name == "Skipped"] == [1]
    assert (due.mails(), [due.instances(region) for region in REGIONS]) == (before, [3, 3])


def test_a_run_that_only_looks_after_a_place_that_left_is_skipped(due: Scene):
    """The ledger leads to an action there whose owner has no mail yet, so that the run has the lease of a place that it doesn't sweep."""
    for target in TARGETS:
        assert due.ledger.take_lease(target, "a living run", due.server.now, timedelta(minutes=15))
    left = replace(TARGETS[0], region="ap-south-1")
    id_, now = "arn:aws:sagemaker:ap-south-1:123456789012:endpoint/gone", due.server.now
    done = an_act(StepName.STOP, now, "an earlier run", id=id_, name="gone", region="ap-south-1", result=Result.DONE)
    assert due.ledger.write_record(id_, Record(act=done), 0, now)
    change_open_targets(due.ledger, [], [left])
    report = due.workflow.run()
    assert [row.error for row in report.coverage if row.kind == "runs"] == [SKIPPED]


def test_a_run_that_gets_one_lease_is_not_skipped(due: Scene):
    assert due.ledger.take_lease(TARGETS[0], "a living run", due.server.now, timedelta(minutes=15))
    report = due.workflow.run()
    assert not [row for row in report.coverage if row.kind == "runs"]
    assert [due.instances(region) for region in REGIONS] == [3, 1]


def test_a_run_goes_on_with_what_the_list_that_the_engine_heard_of_listed(scene: Scene):
    """A repeated list finds other regions. With its numbers, what the items observed would belong to other places."""
    run_id, wide = "0123456789ab", scene.workflow
    wide.list(run_id)
    heard = wide.engines[run_id]
    replace(wide, settings=replace(wide.settings, regions=("eu-west-1",))).list(run_id)
    assert wide.engines[run_id] != heard
    wide.engines[run_id] = heard
    wide.observe(run_id, {"item": 0})
    text = (scene.home / "runs" / run_id / "observed/0.json").read_text()
    assert {target.region for target in load_observed(text).targets} == set(REGIONS)


def test_a_list_that_was_cut_off_is_completed(scene: Scene):
    first = scene.workflow.list()
    (scene.home / "runs" / str(first["run"]) / ITEMS).unlink()
    assert scene.workflow.list(run_id=str(first["run"]))["items"] == first["items"]
    assert len(scene.workflow.items(str(first["run"]))) == first["items"]


def test_the_stored_run_contains_no_external_id(scene: Scene):
    scene.use(lambda settings: replace(settings, external_id="hush-hush"))
    run_id = str(scene.workflow.list()["run"])
    [file] = (scene.home / "runs" / run_id).glob("run-*.json")
    stored = file.read_text()
    assert "hush-hush" not in stored
    assert json.loads(stored)["run"]["id"] == run_id
