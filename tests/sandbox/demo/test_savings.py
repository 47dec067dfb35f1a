"""What stopping saved, as the demo's story reckons it: only what reports prove, and nothing that has no price."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from fakes.builders import HOUR, NOW
from fakes.judged_cases import case
from reaper.case import Coverage, Finding, FinishedRun, Outcome, Owner, Price, Report, Step
from reaper.model import BilledPart, Mode, Result, Status, StepName
from reaper_sandbox.demo.savings import rest_periods

RUNS = (BilledPart(component="Hosting", instance="ml.m5.large"),)


def report(hours: int, *findings: Finding, status: Status = Status.OK) -> Report:
    """A sweep so many hours after the first one."""
    at = NOW + hours * HOUR
    row = Coverage(cloud="aws", account="1", region=None, kind="sagemaker-endpoint", status=status)
    run = FinishedRun(id="r", started_at=at, finished_at=at, mode=Mode.ENFORCE, version="1", policy_sha256="")
    return Report(run=run, coverage=(row,), findings=findings)


def finding(
    move: StepName = StepName.NONE, usd: float | None = None, parts: tuple[BilledPart, ...] | None = RUNS, **outcome: Result
) -> Finding:
    base_case = case()
    return Finding(
        case=replace(base_case, resource=replace(base_case.resource, parts=parts)),
        step=Step(name=move, because=""),
        outcome=Outcome(result=outcome.get("result", Result.DONE)),
        owner=Owner(address=None, source=""),
        price=Price(usd_per_hour=usd, source="snapshot", as_of="2026-01-01") if usd is not None else None,
        wasted_usd=None,
        evidence=(),
    )


def saved(*reports: Report, back: tuple[tuple[str, datetime], ...] = ()) -> list[float | None]:
    return [rest.usd(reports[-1].run.started_at) for rest in rest_periods(reports, back)]


STOP = finding(StepName.STOP, 3.0)


@pytest.mark.parametrize(
    ("later", "usd"),
    [
        pytest.param([report(10, finding(parts=()))], 30.0, id="stopped"),
        pytest.param([report(10)], 30.0, id="gone"),
        pytest.param([report(10, finding(usd=1.0))], 20.0, id="smaller"),
        pytest.param([report(4, finding(parts=None)), report(10, finding(usd=1.0))], 20.0, id="known only later"),
        pytest.param([report(10, finding(parts=None))], None, id="never known"),
        pytest.param([report(10, status=Status.DENIED)], None, id="not seen, because it was not allowed"),
        pytest.param([report(6, finding(StepName.START, parts=())), report(10, finding(usd=3.0))], 18.0, id="started again"),
    ],
)
def test_savings_are_proven_hours_times_price(later: list[Report], usd: float | None):
    assert saved(report(0, STOP), *later) == [usd]


def test_a_manual_start_ends_a_rest_at_the_last_sweep_before():
    assert saved(report(0, STOP), report(4, finding(parts=())), report(8, finding(usd=3.0)), report(20, finding(usd=3.0))) == [
        12.0
    ]


def test_a_restore_ends_a_rest():
    back = (("churn", NOW + 4 * HOUR),)
    assert saved(report(0, STOP), report(2, finding(parts=())), report(10, finding(parts=None)), back=back) == [12.0]


def test_an_unknown_price_stays_unknown():
    assert saved(report(0, finding(StepName.STOP)), report(10, finding(parts=()))) == [None]


@pytest.mark.parametrize("result", [Result.PLANNED, Result.REFUSED, Result.FAILED])
def test_a_failed_action_saves_nothing(result: Result):
    assert saved(report(0, finding(StepName.STOP, 3.0, result=result)), report(10, finding(usd=3.0))) == []
