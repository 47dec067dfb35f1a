"""Components that vanish, change or can't be described between the list and their description, and what model latency shows."""

from __future__ import annotations

from datetime import timedelta

from on_aws.conftest import DAY, HOUR, NOW, Result, Sweep
from reaper.model import State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

LONG_AGO = NOW - 15 * DAY
IDLE, YOUNG, UNKNOWN = State.IDLE, State.YOUNG, State.UNKNOWN


def _asked(result: Result, name: str) -> State:
    return result.findings[name].case.verdict.state


def test_a_vanished_component_is_no_adapter_of_its_siblings(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    for name in ("stays", "goes"):
        account.component(name, "host")
        account.component_alive(name, LONG_AGO, NOW)

    def vanish(call: Call) -> None:
        if call.operation == "DescribeInferenceComponent":
            account.contents.components.pop("goes", None)

    server.rules.append(vanish)
    result = run_sweep("sagemaker-inference-component")
    assert (_asked(result, "stays"), _asked(result, "goes")) == (IDLE, UNKNOWN)


def test_traffic_of_a_vanished_component_counts_for_its_siblings(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    for name in ("base", "adapter"):
        account.component(name, "host")
        account.component_alive(name, LONG_AGO, NOW)
    account.component_invoked("adapter", NOW - 2 * HOUR)

    def vanish(call: Call) -> None:
        if call.operation == "DescribeInferenceComponent":
            account.contents.components.pop("adapter", None)

    server.rules.append(vanish)
    assert _asked(run_sweep("sagemaker-inference-component"), "base") is State.ACTIVE


def test_an_undescribed_sibling_may_be_an_adapter(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    for name in ("stays", "dark"):
        account.component(name, "host")
        account.component_alive(name, LONG_AGO, NOW)

    def dark(call: Call) -> Fault | None:
        mine = call.params.get("InferenceComponentName") == "dark"
        return denied() if call.operation == "DescribeInferenceComponent" and mine else None

    server.rules.append(dark)
    assert _asked(run_sweep("sagemaker-inference-component"), "stays") is UNKNOWN


def test_a_component_changed_since_the_listing_is_young(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("part", "host")
    account.component_alive("part", LONG_AGO, NOW)
    changed = {"LastModifiedTime": NOW - timedelta(minutes=1)}
    server.rules.append(on("DescribeInferenceComponent", Fault(rewrite=lambda call, data: data | changed)))
    assert _asked(run_sweep("sagemaker-inference-component"), "part") is YOUNG


def test_components_are_read_by_normalized_utilization_only(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("part", "host")
    run_sweep("sagemaker-inference-component")
    queries = {
        (q["MetricStat"]["Metric"]["Namespace"], q["MetricStat"]["Metric"]["MetricName"])
        for call in server.calls
        if call.operation == "GetMetricData"
        for q in call.params["MetricDataQueries"]
    }
    names = {metric for namespace, metric in queries if namespace == "/aws/sagemaker/InferenceComponents"}
    assert names == {"CPUUtilizationNormalized", "GPUUtilizationNormalized"}


def test_zeros_of_model_latency_are_silence(account: Account, run_sweep: Sweep):
    account.endpoint("queue", asynchronous=True)
    account.alive("queue", "AllTraffic", LONG_AGO, NOW)
    pair = {"EndpointName": "queue", "VariantName": "AllTraffic"}
    account.points("AWS/SageMaker", "ModelLatency", pair, [(NOW - n * HOUR, 0.0) for n in range(1, 48)])
    assert run_sweep("sagemaker-endpoint").idle() == ["queue"]


def test_positive_model_latency_is_activity(account: Account, run_sweep: Sweep):
    account.endpoint("queue", asynchronous=True)
    account.alive("queue", "AllTraffic", LONG_AGO, NOW)
    pair = {"EndpointName": "queue", "VariantName": "AllTraffic"}
    account.points("AWS/SageMaker", "ModelLatency", pair, [(NOW - 3 * HOUR, 850.0)])
    assert _asked(run_sweep("sagemaker-endpoint"), "queue") is State.ACTIVE
