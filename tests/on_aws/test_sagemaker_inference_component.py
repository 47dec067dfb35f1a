from __future__ import annotations

import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-inference-component"
LONG_AGO = NOW - 15 * DAY


@pytest.fixture
def host(account: Account) -> Account:
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    return account


def silent(account: Account, name: str, **setup: object) -> None:
    account.component(name, "host", **setup)
    account.component_alive(name, LONG_AGO, NOW)


def test_a_silent_component_is_proven_idle_without_a_price(host: Account, run_sweep: Sweep):
    silent(host, "Quiet")
    finding = run_sweep(KIND).findings["Quiet"]
    assert (finding.case.verdict.state, finding.case.verdict.confidence, finding.case.price) == (
        State.IDLE,
        Confidence.PROVEN,
        None,
    )


def test_components_share_the_price_of_their_endpoint(host: Account, run_sweep: Sweep):
    """Each reserves 1,024 MB a copy. One without copies and an adapter reserve nothing."""
    for name, copies in (("one", 1), ("three", 3), ("asleep", 0)):
        silent(host, name, copies=copies)
    host.component("adapter", "host", base="one")
    findings = run_sweep(KIND, "sagemaker-endpoint").findings
    price = findings["host"].case.price
    shares = {name: findings[name].host_share for name in ("one", "three", "asleep", "adapter")}
    assert {name: share and share.usd_per_hour for name, share in shares.items()} == {
        "one": price.usd_per_hour / 4,
        "three": pytest.approx(price.usd_per_hour * 3 / 4),
        "asleep": None,
        "adapter": None,
    }
    assert (shares["one"].source, shares["one"].as_of) == ("25% of its host's price: snapshot", price.as_of)
    assert [findings[name].case.price for name in shares] == [None] * 4, "the endpoint's own line counts it"


def test_an_unreadable_component_hides_the_shares_of_the_others(host: Account, server: Server, run_sweep: Sweep):
    silent(host, "read")
    silent(host, "unread")
    server.rules.append(lambda call: denied() if call.params.get("InferenceComponentName") == "unread" else None)
    assert {finding.host_share for finding in run_sweep(KIND, "sagemaker-endpoint").findings.values()} == {None}


def test_only_a_components_own_traffic_counts(host: Account, run_sweep: Sweep):
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


def test_failed_requests_for_capacity_count_as_use(host: Account, run_sweep: Sweep):
    silent(host, "asleep")
    host.points("AWS/SageMaker", "NoCapacityInvocationFailures", {"InferenceComponentName": "asleep"}, [(NOW - HOUR, 3)])
    assert run_sweep(KIND).state("asleep") is State.ACTIVE


@pytest.mark.parametrize(
    ("setup", "state"),
    [
        pytest.param({"copies": 0}, State.EXEMPT, id="no copies"),
        pytest.param({"created": NOW - HOUR}, State.YOUNG, id="new"),
    ],
)
def test_each_status_has_its_verdict(host: Account, run_sweep: Sweep, setup: dict, state: State):
    silent(host, "c", **setup)
    assert run_sweep(KIND).state("c") is state


def test_a_component_without_a_heartbeat_is_unknown(host: Account, run_sweep: Sweep):
    host.component("c", "host")
    assert run_sweep(KIND).state("c") is State.UNKNOWN
