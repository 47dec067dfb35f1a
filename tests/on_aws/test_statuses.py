"""Every status that the installed SDK knows has its verdict, in the list and in the description; any other proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
import pytest

from on_aws.conftest import DAY, HOUR, NOW, Result, Sweep
from reaper.model import State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

LONG_AGO = NOW - 15 * DAY
IDLE, YOUNG, EXEMPT, UNKNOWN = State.IDLE, State.YOUNG, State.EXEMPT, State.UNKNOWN
VERDICTS = {
    ("sagemaker-endpoint", "EndpointStatus"): {
        "InService": IDLE,
        "OutOfService": IDLE,
        "Failed": IDLE,  # the instances of this one run
        "UpdateRollbackFailed": IDLE,
        "Creating": YOUNG,
        "Updating": YOUNG,
        "SystemUpdating": YOUNG,
        "RollingBack": YOUNG,
        "Deleting": EXEMPT,
    },
    ("sagemaker-inference-component", "InferenceComponentStatus"): {
        "InService": IDLE,
        "Failed": IDLE,
        "Creating": YOUNG,
        "Updating": YOUNG,
        "Deleting": EXEMPT,
    },
    ("sagemaker-notebook", "NotebookInstanceStatus"): {
        "InService": IDLE,
        "Stopped": EXEMPT,
        "Failed": UNKNOWN,
        "Pending": YOUNG,
        "Stopping": YOUNG,
        "Updating": YOUNG,
        "Deleting": YOUNG,
        "PendingMaintenance": YOUNG,
        "InMaintenance": YOUNG,
    },
    ("sagemaker-studio-app", "AppStatus"): {
        "InService": IDLE,
        "Pending": YOUNG,
        "Failed": EXEMPT,
        "Deleting": EXEMPT,
        "Deleted": EXEMPT,
    },
}
KEYS = {"AppStatus": "Status"}
LISTS = {
    "EndpointStatus": ("ListEndpoints", "Endpoints"),
    "InferenceComponentStatus": ("ListInferenceComponents", "InferenceComponents"),
    "NotebookInstanceStatus": ("ListNotebookInstances", "NotebookInstances"),
    "AppStatus": ("ListApps", "Apps"),
}
DESCRIBED = {
    "EndpointStatus": "DescribeEndpoint",
    "InferenceComponentStatus": "DescribeInferenceComponent",
    "AppStatus": "DescribeApp",
}
EVERY = [pytest.param(kind, enum, status, id=f"{kind} {status}") for (kind, enum), known in VERDICTS.items() for status in known]


@cache
def _statuses(enum: str) -> set[str]:
    return set(boto3.Session().client("sagemaker", region_name="us-east-1").meta.service_model.shape_for(enum).enum)


@pytest.fixture
def silent(account: Account) -> dict[str, str]:
    """One silent resource of each kind; their names by kind."""
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", LONG_AGO, NOW)
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("part", "host")
    account.component_alive("part", LONG_AGO, NOW)
    account.busy_steadily(account.notebook("nb", changed=NOW - 10 * DAY).arn, LONG_AGO, NOW)
    account.busy_steadily(account.app(space="ana").arn, LONG_AGO, NOW)
    return {
        "sagemaker-endpoint": "quiet",
        "sagemaker-inference-component": "part",
        "sagemaker-notebook": "nb",
        "sagemaker-studio-app": "ana/JupyterLab/default",
    }


def _listed(enum: str, status: str) -> Callable[[Call], Fault | None]:
    operation, rows = LISTS[enum]
    key = KEYS.get(enum, enum)
    return on(operation, Fault(rewrite=lambda call, data: data | {rows: [row | {key: status} for row in data[rows]]}))


def _described(enum: str, status: str) -> Callable[[Call], Fault | None]:
    return on(DESCRIBED[enum], Fault(rewrite=lambda call, data: data | {KEYS.get(enum, enum): status}))


@pytest.mark.parametrize(("kind", "enum"), list(VERDICTS))
def test_every_status_of_the_sdk_has_a_tested_verdict(kind: str, enum: str):
    assert set(VERDICTS[kind, enum]) == _statuses(enum)


@pytest.mark.parametrize(("kind", "enum", "status"), EVERY)
def test_a_listed_status_has_its_verdict(
    server: Server, run_sweep: Sweep, silent: dict[str, str], kind: str, enum: str, status: str
):
    server.rules.append(_listed(enum, status))
    if enum in DESCRIBED:
        server.rules.append(_described(enum, status))
    result = run_sweep(kind)
    if status == "Deleted":
        assert result.findings == {}
        return
    case = result.findings[silent[kind]].case
    assert case.verdict.state is VERDICTS[kind, enum][status], case.verdict.because
    assert "doesn't recognize" not in case.verdict.because


@pytest.mark.parametrize(("kind", "enum", "status"), [one for one in EVERY if one.values[1] in DESCRIBED])
def test_a_status_that_changed_since_the_list_has_its_verdict(
    server: Server, run_sweep: Sweep, silent: dict[str, str], kind: str, enum: str, status: str
):
    server.rules.append(_described(enum, status))
    case = run_sweep(kind).findings[silent[kind]].case
    assert case.verdict.state is VERDICTS[kind, enum][status], case.verdict.because


@pytest.mark.parametrize("change", [_listed, _described])
@pytest.mark.parametrize(("kind", "enum"), [pair for pair in VERDICTS if pair[1] in DESCRIBED])
def test_a_status_of_a_newer_service_is_unknown(
    server: Server, run_sweep: Sweep, silent: dict[str, str], kind: str, enum: str, change: Any
):
    server.rules.append(_described(enum, "Hibernating"))
    server.rules.append(change(enum, "Hibernating"))
    verdict = run_sweep(kind).findings[silent[kind]].case.verdict
    assert (verdict.state, "doesn't recognize its status Hibernating" in verdict.because) == (UNKNOWN, True)


def test_a_notebook_status_of_a_newer_service_is_unknown(server: Server, run_sweep: Sweep, silent: dict[str, str]):
    server.rules.append(_listed("NotebookInstanceStatus", "Hibernating"))
    verdict = run_sweep("sagemaker-notebook").findings["nb"].case.verdict
    assert (verdict.state, "doesn't recognize" in verdict.because) == (UNKNOWN, True)


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


def test_components_are_read_by_normalized_utilization_only(server: Server, run_sweep: Sweep, silent: dict[str, str]):
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
