from __future__ import annotations

import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, garbage, on, partial
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-inference-component"
LONG_AGO = NOW - 15 * DAY


@pytest.fixture
def host(account: Account) -> Account:
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    return account


def silent(account: Account, name: str, **given: object) -> None:
    account.component(name, "host", **given)
    account.component_alive(name, LONG_AGO, NOW)


def test_silence_under_its_own_heartbeat_is_proven_idle_without_a_price_of_its_own(host: Account, run_sweep: Sweep):
    silent(host, "Quiet")
    found = run_sweep(KIND).found["Quiet"]
    assert (found.case.verdict.state, found.case.verdict.confidence, found.price) == (State.IDLE, Confidence.PROVEN, None)


def test_its_own_traffic_counts_and_its_neighbours_does_not(host: Account, run_sweep: Sweep):
    silent(host, "used")
    silent(host, "quiet")
    host.component_invoked("used", NOW - 2 * HOUR)
    result = run_sweep(KIND)
    assert (result.state("used"), result.state("quiet")) == (State.ACTIVE, State.IDLE)


def test_traffic_of_an_adapter_is_its_bases_traffic(host: Account, run_sweep: Sweep):
    silent(host, "base")
    host.component("adapter", "host", base="base")
    host.component("idle-adapter", "host", base="base")
    host.component_invoked("adapter", NOW - 2 * HOUR)
    result = run_sweep(KIND)
    assert result.state("base") is State.ACTIVE
    assert result.state("idle-adapter") is State.EXEMPT


def test_somebody_who_asks_for_it_in_vain_is_use_too(host: Account, run_sweep: Sweep):
    silent(host, "asleep")
    host.points("AWS/SageMaker", "NoCapacityInvocationFailures", {"InferenceComponentName": "asleep"}, [(NOW - HOUR, 3)])
    assert run_sweep(KIND).state("asleep") is State.ACTIVE


@pytest.mark.parametrize(
    ("given", "state"),
    [
        pytest.param({"copies": 0}, State.EXEMPT, id="no copies"),
        pytest.param({"status": "Creating"}, State.YOUNG, id="creating"),
        pytest.param({"status": "Updating"}, State.YOUNG, id="updating"),
        pytest.param({"status": "Deleting"}, State.EXEMPT, id="being deleted"),
        pytest.param({"created": NOW - HOUR}, State.YOUNG, id="new"),
        pytest.param({"tags": {"reaper:keep": "1"}}, State.EXEMPT, id="kept"),
    ],
)
def test_every_state_has_its_verdict(host: Account, run_sweep: Sweep, given: dict, state: State):
    silent(host, "c", **given)
    assert run_sweep(KIND).state("c") is state


def test_without_a_heartbeat_it_is_unknown(host: Account, run_sweep: Sweep):
    host.component("c", "host")
    assert run_sweep(KIND).state("c") is State.UNKNOWN


def test_a_keep_tag_on_its_endpoint_protects_it(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)], tags={"reaper:keep": "true"})
    silent(account, "c")
    assert run_sweep(KIND).state("c") is State.EXEMPT


@pytest.mark.parametrize(
    ("operation", "fault", "status", "missing"),
    [
        ("ListInferenceComponents", denied(), "denied", "sagemaker:ListInferenceComponents"),
        ("ListInferenceComponents", garbage(), "failed", None),
        ("DescribeInferenceComponent", denied(), "denied", "sagemaker:DescribeInferenceComponent"),
        ("GetMetricData", denied(), "denied", "cloudwatch:GetMetricData"),
        ("GetMetricData", partial("Invocations"), "partial", None),
        ("GetResources", denied(), "denied", "tag:GetResources"),
    ],
)
def test_no_fault_makes_it_idle(host: Account, server: Server, run_sweep: Sweep, operation, fault, status, missing):
    silent(host, "c")
    server.rules.append(on(operation, fault))
    result = run_sweep(KIND)
    assert result.idle() == []
    assert (result.coverage(KIND).status, result.coverage(KIND).missing) == (status, missing)
