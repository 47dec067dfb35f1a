"""What sweeps with a ledger ask CloudWatch for: of what an earlier one saw in use nothing until that might be too long ago."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest

from fakes.memory_ledger import InMemoryLedger
from fakes.sweeps import SweepOrder, sweep
from on_aws.conftest import DAY, HOUR, NOW
from reaper import registry
from reaper.aws import targets
from reaper.finding import Finding
from reaper.model import Confidence, State
from reaper.observing.cache import ConfigurationCache
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

ENDPOINT, COMPONENT, APP = "sagemaker-endpoint", "sagemaker-inference-component", "sagemaker-studio-app"


class Sweeps:
    """Sweeps of one kind that share a ledger."""

    def __init__(self, server: Server, kind: str = ENDPOINT) -> None:
        self.server, self.kind, self.ledger = server, kind, InMemoryLedger()

    def at(self, now: datetime, policy: str = "version: 1", *, writes: bool = True) -> tuple[dict[str, Finding], int]:
        """The findings by name, and how many metrics were requested for them."""
        self.server.now = now
        self.server.calls.clear()
        kept = ConfigurationCache(ledger=self.ledger, now=now, may_write=writes, report_failure=pytest.fail)
        order = SweepOrder(policy=parse_policy(policy, "policy", registry.kind_names()), now=now, cache=kept)
        report = sweep(targets.target_sessions(["us-east-1"], (), boto3.Session()), [registry.kind(self.kind)], order)
        queries = [call.params["MetricDataQueries"] for call in self.server.calls if call.operation == "GetMetricData"]
        return {f.case.resource.name: f for f in report.findings}, sum(map(len, queries))

    def hours(self, count: int) -> list[int]:
        """The metrics requested by so many hourly sweeps."""
        return [self.at(NOW + n * HOUR)[1] for n in range(count)]


def endpoint(account: Account, name: str, **uses: timedelta) -> Any:
    """One that lives; it is used every half hour from `since` ago to `until` ago."""
    made = account.endpoint(name, variants=[Variant(name="v")], created=NOW - 40 * DAY)
    account.alive(name, "v", NOW - 15 * DAY, NOW + 3 * DAY)
    if uses:
        pair = {"EndpointName": name, "VariantName": "v"}
        account.steady("AWS/SageMaker", "Invocations", pair, NOW - uses["since"], NOW - uses["until"], 3)
    return made


def test_an_endpoint_in_use_costs_one_metric_a_day(account: Account, server: Server):
    endpoint(account, "busy", since=5 * DAY, until=-3 * DAY)
    requested = Sweeps(server).hours(49)
    assert requested[0] == 1
    assert sum(requested[1:]) == 2
    assert set(requested) == {0, 1}


def test_an_idle_endpoint_costs_two_metrics_a_sweep(account: Account, server: Server):
    endpoint(account, "idle")
    assert Sweeps(server).hours(4) == [3, 2, 2, 2]


def test_an_endpoint_falls_idle_in_the_same_sweep_as_without_memory(account: Account, server: Server):
    endpoint(account, "ends", since=5 * DAY, until=-5 * HOUR)
    remembering = Sweeps(server)
    moments = [NOW + hour * HOUR for hour in range(34)]
    states = [[Sweeps(server).at(moment)[0], remembering.at(moment)[0]] for moment in moments]
    verdicts = [[found["ends"].case.verdict.state for found in pair] for pair in states]
    assert all(first == second for first, second in verdicts)
    assert {first for first, _ in verdicts} == {State.ACTIVE, State.IDLE}


def test_the_use_of_an_app_that_was_silent_before_is_seen(account: Account, server: Server):
    account.domain("d")
    account.user("ana", domain="d")
    account.space("lab", domain="d", owner="ana", created=NOW - 40 * DAY)
    app = account.app("lab", space="lab", domain="d", instance="ml.g5.xlarge", created=NOW - 40 * DAY)
    account.busy_steadily(app.arn, NOW - 15 * DAY, NOW, 0)
    account.busy_steadily(app.arn, NOW, NOW + DAY, 1)
    sweeps = Sweeps(server, APP)
    verdicts = [[f.case.verdict for f in sweeps.at(NOW + n * DAY)[0].values()] for n in range(2)]
    assert [(one.state, one.confidence) for [one] in verdicts] == [(State.IDLE, Confidence.PROVEN), (State.ACTIVE, None)]


def test_a_remembered_use_is_evidence_of_its_own(account: Account, server: Server):
    endpoint(account, "busy", since=5 * DAY, until=-3 * DAY)
    sweeps = Sweeps(server)
    for hour in range(2):
        verdict = (found := sweeps.at(NOW + hour * HOUR)[0]["busy"]).case.verdict
        if any(row.seen_at for row in found.case.evidence):
            assert verdict.because.startswith("an earlier sweep saw use ")
            assert found.case.evidence[0].seen_at == NOW.replace(microsecond=0)
            assert (found.case.busy_from, found.case.was_spared) == (None, True)
            return
    pytest.fail("its own hour began")


def test_an_audit_neither_uses_nor_writes_what_is_remembered(account: Account, server: Server):
    endpoint(account, "busy", since=5 * DAY, until=-3 * DAY)
    sweeps = Sweeps(server)
    sweeps.at(NOW)
    rows = dict(sweeps.ledger.named_rows)
    assert sweeps.at(NOW + HOUR / 4, writes=False)[1] == 1
    assert sweeps.ledger.named_rows == rows


def test_an_adapter_in_use_is_asked_about_for_its_base_with_a_shorter_rule(account: Account, server: Server):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))], created=NOW - 40 * DAY)
    base = account.component("base", "host", created=NOW - 40 * DAY, tags={"reaper:idle-after": "1h"})
    account.component("adapter", "host", base="base", created=NOW - 40 * DAY)
    account.steady(
        "/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized", {"InferenceComponentName": base.name},
        NOW - 15 * DAY, NOW + DAY, 5,
    )  # fmt: skip
    sweeps = Sweeps(server, COMPONENT)
    for hour in range(6):
        account.component_invoked("adapter", NOW + hour * HOUR - timedelta(minutes=20))
        assert sweeps.at(NOW + hour * HOUR)[0]["base"].case.verdict.state is State.ACTIVE
    server.now = NOW + 8 * HOUR
    assert sweeps.at(NOW + 8 * HOUR)[0]["base"].case.verdict.state is State.IDLE


def test_use_of_an_adapter_with_an_odd_status_counts_for_its_base(account: Account, server: Server):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))], created=NOW - 40 * DAY)
    account.component("base", "host", created=NOW - 40 * DAY)
    adapter = account.component("adapter", "host", base="base", created=NOW - 40 * DAY, tags={"reaper:idle-after": "1h"})
    account.steady(
        "/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized", {"InferenceComponentName": "base"},
        NOW - 15 * DAY, NOW + 3 * DAY, 5,
    )  # fmt: skip
    sweeps, policy = Sweeps(server, COMPONENT), "{version: 1, defaults: {idle_after: 5d}}"
    assert sweeps.at(NOW, policy)[0]["base"].case.verdict.state is State.IDLE
    adapter.status = "Odd"
    account.component_invoked("adapter", NOW + 12 * HOUR)
    assert sweeps.at(NOW + 2 * DAY, policy)[0]["base"].case.verdict.state is State.ACTIVE
