"""The figures of a run: each name and value, those by kind, and the facts of the log line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.builders import resource
from fakes.sample_findings import finding, report
from reaper.case import Coverage
from reaper.finding import Outcome, Report
from reaper.model import Pause, Result, State, Status, StepName
from reaper.report.figures import Figure, run_figures, skipped_figures, swept_facts

READ = Coverage(
    cloud="aws", account="123456789012", region="us-east-1", kind="sagemaker-endpoint", status=Status.OK, calls={"a:List": 3}
)
DENIED = replace(READ, region="eu-west-1", status=Status.DENIED, missing="sagemaker:ListEndpoints", calls={})
NOTEBOOKS = replace(READ, kind="sagemaker-notebook", calls={"b:List": 1})
UNSENT = Coverage(cloud="reaper", account="", region=None, kind="mail", status=Status.FAILED, error="refused")


def acted(name: str, result: Result, step: StepName = StepName.STOP):
    return finding(name, 2.0, move=step, outcome=Outcome(result=result))


def whole() -> Report:
    notebook = resource(kind="sagemaker-notebook", id="arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/nb", name="nb")
    fleet = (
        acted("stopped", Result.DONE),
        acted("failed", Result.FAILED),
        acted("refused", Result.REFUSED),
        finding("held", 2.0, move=StepName.HOLD),
        finding("unpriced", None),
        finding("nb", 0.5, resource=notebook),
        finding("busy", state=State.ACTIVE, move=StepName.NONE),
        finding("blind", state=State.UNKNOWN, move=StepName.NONE),
    )
    made = report(*fleet, coverage=(READ, DENIED, NOTEBOOKS, UNSENT))
    return replace(made, run=replace(made.run, finished_at=made.run.started_at + timedelta(seconds=90)))


def test_every_figure_of_a_run_has_its_value():
    values = {figure.name: figure.value for figure in run_figures(whole()) if figure.kind is None}
    assert values == {
        "Resources": 8,
        "Active": 1,
        "Idle": 6,
        "Young": 0,
        "Exempt": 0,
        "Unknown": 1,
        "IdleUSDPerHour": 8.5,
        "UnpricedIdle": 1,
        "Acted": 1,
        "ActsFailed": 1,
        "Refused": 1,
        "Held": 1,
        "Paused": 0,
        "CoverageGaps": 1,
        "Failures": 2,
        "Calls": 4,
        "SweepSeconds": 90,
        "Skipped": 0,
    }


def test_a_run_under_the_stop_switch_is_paused():
    made = whole()
    paused = replace(made, run=replace(made.run, pause=Pause(by="ada")))
    assert Figure(name="Paused", value=1) in run_figures(paused)


def test_the_kinds_add_up_to_the_whole_run():
    figures = run_figures(whole())
    by_kind = {(f.name, f.kind): f.value for f in figures if f.kind}
    assert by_kind == {
        ("Idle", "sagemaker-endpoint"): 5,
        ("Idle", "sagemaker-notebook"): 1,
        ("IdleUSDPerHour", "sagemaker-endpoint"): 8.0,
        ("IdleUSDPerHour", "sagemaker-notebook"): 0.5,
    }


def test_a_kind_without_idle_resources_is_zero_and_not_missing():
    figures = run_figures(report(coverage=(READ,)))
    assert Figure(name="Idle", value=0, kind="sagemaker-endpoint") in figures


@pytest.mark.parametrize(
    "row", [UNSENT, replace(READ, kind="a-kind-of-another-version")], ids=["the reaper's own", "unknown kind"]
)
def test_only_kinds_of_resources_have_figures_of_their_own(row: Coverage):
    assert {figure.kind for figure in run_figures(report(coverage=(row,)))} == {None}


def test_a_skipped_run_says_only_that():
    """Without `SweepSeconds`, so that the alarm for missing sweeps doesn't take it for one."""
    assert skipped_figures() == (Figure(name="Skipped", value=1),)


def test_the_log_line_has_each_figure_by_name_and_kind():
    facts = swept_facts(whole(), "s3://reports/r1.json")
    assert {"run": "r1", "stored": "s3://reports/r1.json", "mode": "notify", "Idle": 6, "Calls": 4}.items() <= facts.items()
    assert facts["kinds"] == {
        "sagemaker-endpoint": {"Idle": 5, "IdleUSDPerHour": 8.0},
        "sagemaker-notebook": {"Idle": 1, "IdleUSDPerHour": 0.5},
    }
