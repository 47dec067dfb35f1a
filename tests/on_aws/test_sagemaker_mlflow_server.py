from __future__ import annotations

from typing import Any

import boto3
import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State, StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.sagemaker import mlflow_servers

KIND = "sagemaker-mlflow-server"
STOPS = "{version: 1, defaults: {action: stop, act_on: likely}}"


def seed(account: Account, name: str = "runs", **setup: Any) -> mlflow_servers.TrackingServer:
    return mlflow_servers.seed(account.contents, name, **{"created": NOW - 30 * DAY, "tags": {"owner": "a@b.cd"}, **setup})


def test_long_uptime_is_likely_idle_at_most(account: Account, run_sweep: Sweep):
    seed(account, size="Medium", changed=NOW - 5 * DAY)
    result = run_sweep(KIND)
    [finding] = result.swept.findings
    verdict = finding.case.verdict
    assert (verdict.state, verdict.confidence, verdict.idle_for) == (State.IDLE, Confidence.LIKELY, 5 * DAY)
    assert verdict.because == "running since 2026-11-16 10:17 UTC, no metric shows its use"
    assert (finding.case.resource.size, finding.case.price) == ("Medium", None)
    assert result.coverage(KIND).calls == {
        "sagemaker:ListMlflowTrackingServers": 1,
        "sagemaker:DescribeMlflowTrackingServer": 1,
        "tag:GetResources": 1,
    }


def test_it_is_never_stopped_even_if_the_policy_asks_for_it(account: Account, run_sweep: Sweep):
    seed(account)
    [finding] = run_sweep(KIND, policy=STOPS).swept.findings
    assert finding.step.name is StepName.WARN
    assert finding.case.blocked == {}


@pytest.mark.parametrize("setup", [{"changed": NOW - HOUR}, {"created": NOW - HOUR}], ids=["started", "created"])
def test_a_recent_start_or_creation_is_young(account: Account, run_sweep: Sweep, setup: dict[str, Any]):
    seed(account, **setup)
    assert run_sweep(KIND).state("runs") is State.YOUNG


def test_a_server_that_aws_does_not_call_active_is_unknown(account: Account, run_sweep: Sweep, monkeypatch: pytest.MonkeyPatch):
    seed(account, status="MaintenanceComplete")
    monkeypatch.setattr(mlflow_servers, "RUNNING", ())
    assert run_sweep(KIND).state("runs") is State.UNKNOWN


@pytest.mark.parametrize(("size", "usd_per_hour"), [("Small", 0.642), ("Large", None)])
def test_a_size_without_a_price_in_the_snapshot_has_none(
    account: Account, run_sweep: Sweep, size: str, usd_per_hour: float | None
):
    seed(account, size=size)
    [finding] = run_sweep(KIND).swept.findings
    assert (finding.case.price.usd_per_hour if finding.case.price else None) == usd_per_hour


def test_its_size_decides_which_rule_matches(account: Account, run_sweep: Sweep):
    seed(account, "big", size="Large")
    seed(account, "small")
    policy = "{version: 1, rules: [{name: small ones may run, match: {size: Small}, action: ignore}]}"
    result = run_sweep(KIND, policy=policy)
    assert {f.case.resource.name: f.step.name for f in result.swept.findings} == {"big": StepName.WARN, "small": StepName.NONE}


def test_all_pages_are_listed_and_only_long_running_ones_described(account: Account, run_sweep: Sweep):
    for index in range(230):
        seed(account, f"runs-{index}", status="Stopped" if index > 2 else "Started")
    result = run_sweep(KIND)
    assert len(result.swept.findings) == 230
    assert result.coverage(KIND).calls["sagemaker:ListMlflowTrackingServers"] == 3
    assert result.coverage(KIND).calls["sagemaker:DescribeMlflowTrackingServer"] == 3


def test_the_sandbox_stops_and_starts_one_as_sagemaker_does(account: Account, run_sweep: Sweep):
    seed(account)
    client = boto3.client("sagemaker")
    client.stop_mlflow_tracking_server(TrackingServerName="runs")
    assert run_sweep(KIND).state("runs") is State.EXEMPT
    with pytest.raises(client.exceptions.ConflictException):
        client.stop_mlflow_tracking_server(TrackingServerName="runs")
    client.start_mlflow_tracking_server(TrackingServerName="runs")
    assert client.describe_mlflow_tracking_server(TrackingServerName="runs")["TrackingServerStatus"] == "Started"
    assert run_sweep(KIND).state("runs") is State.YOUNG
