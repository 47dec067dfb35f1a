from __future__ import annotations

from typing import Any

import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State, Status, StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.bedrock import throughputs
from reaper_sandbox.aws.fault import cut, on
from reaper_sandbox.aws.server import Server
from reaper_sandbox.aws.signals import Signals

KIND = "bedrock-provisioned-throughput"
METRICS = ("Invocations", "InvocationClientErrors", "InvocationServerErrors", "InvocationThrottles")


def seed(account: Account, used: float | None = None, metric: str = "Invocations", **setup: Any) -> throughputs.Throughput:
    """One that was used so many days ago, or never."""
    one = throughputs.seed(account.contents, "units", **{"created": NOW - 60 * DAY, "tags": {"owner": "a@b.cd"}, **setup})
    if used is not None:
        Signals(account.contents).points("AWS/Bedrock", metric, {"ModelId": one.arn}, [(NOW - used * DAY, 3.0)])
    return one


def test_silence_after_a_use_is_likely_idle_at_most(account: Account, run_sweep: Sweep):
    seed(account, used=5, units=2, term="SixMonths")
    result = run_sweep(KIND, policy="{version: 1, defaults: {action: delete, act_on: likely}}")
    [finding] = result.swept.findings
    verdict, resource = finding.case.verdict, finding.case.resource
    assert (verdict.state, verdict.confidence) == (State.IDLE, Confidence.LIKELY)
    assert "no point above 0 in Invocations" in verdict.because
    assert (resource.size, finding.case.price) == ("anthropic.claude-v2 x2, SixMonths", None)
    assert (finding.step.name, finding.case.blocked) == (StepName.WARN, {})
    assert result.coverage(KIND).status is Status.OK


@pytest.mark.parametrize("metric", METRICS)
def test_any_call_shows_use(metric: str, account: Account, run_sweep: Sweep):
    seed(account, used=0.1, metric=metric)
    assert [f.case.verdict.state for f in run_sweep(KIND).swept.findings] == [State.ACTIVE]


@pytest.mark.parametrize(
    ("setup", "state"),
    [
        pytest.param({}, State.UNKNOWN, id="never a point: it may be the wrong series"),
        pytest.param({"used": 5, "created": NOW - HOUR}, State.YOUNG, id="just bought"),
    ],
)
def test_states(setup: dict[str, Any], state: State, account: Account, run_sweep: Sweep):
    seed(account, **setup)
    assert [f.case.verdict.state for f in run_sweep(KIND).swept.findings] == [state]


@pytest.mark.parametrize(("region", "status"), [("ap-east-1", Status.OK), ("us-east-1", Status.FAILED)])
def test_no_host_is_a_gap_only_where_aws_offers_the_service(region: str, status: Status, server: Server, run_sweep: Sweep):
    server.rules.append(on("ListProvisionedModelThroughputs", cut()))
    [row] = run_sweep(KIND, regions=(region,)).swept.coverage
    assert row.status is status
