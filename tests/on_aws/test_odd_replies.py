"""Replies that are strange but not errors: none of them may turn into silence, into full coverage, or into the end of the whole sweep."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest

from fakes.sweeps import SweepOrder, assess_again, sweep
from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper import registry
from reaper.aws import targets
from reaper.model import Confidence, State
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
LONG_AGO = NOW - 15 * DAY


def silent(account: Account, name: str = "quiet", **setup: Any) -> None:
    account.endpoint(name, **setup)
    account.alive(name, "AllTraffic", LONG_AGO, NOW)


def rewriting(operation: str, change: Any) -> Any:
    """A guard that changes the reply of an operation."""
    return on(operation, Fault(rewrite=lambda call, data: change(call, data)))


def _first_page_only(change: Any) -> Any:
    def rewrite(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return data if call.params.get("NextToken") else change(data)

    return rewrite


def _rows(change: dict[str, Any]) -> Any:
    return lambda data: data | {"MetricDataResults": [row | change for row in data["MetricDataResults"]]}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            _rows({"StatusCode": "InternalError", "Values": [], "Timestamps": []}), id="an internal error on the first page"
        ),
        pytest.param(_rows({"Values": []}), id="times without values"),
        pytest.param(_rows({"Messages": [{"Code": "ArgumentError", "Value": "x"}]}), id="a message on a row"),
        pytest.param(
            lambda data: data | {"Messages": [{"Code": "MaxMetricsExceeded", "Value": "x"}]}, id="a message on the page"
        ),
    ],
)
@pytest.mark.parametrize("pages", [60, 100_800], ids=["many pages", "one page"])
def test_an_error_on_one_page_outlasts_the_next_page(account: Account, server: Server, run_sweep: Sweep, change: Any, pages: int):
    silent(account)
    server.world.page_points = pages
    server.rules.append(rewriting("GetMetricData", _first_page_only(change)))
    result = run_sweep(KIND)
    assert result.idle() == []
    assert result.coverage(KIND).status == "partial"


@pytest.mark.parametrize("count", [0, 1], ids=["no rows at all", "a row is missing"])
def test_missing_metric_results_are_reported(account: Account, server: Server, run_sweep: Sweep, count: int):
    silent(account)
    server.rules.append(
        rewriting("GetMetricData", lambda call, data: data | {"MetricDataResults": data["MetricDataResults"][:count]})
    )
    result = run_sweep(KIND)
    assert result.idle() == []
    assert result.coverage(KIND).status == "partial"


@pytest.mark.parametrize("change", [{"Values": None}, {"Timestamps": None}, {"Id": None}, {"StatusCode": None}], ids=str)
def test_null_fields_in_a_metric_row_prove_nothing(account: Account, server: Server, run_sweep: Sweep, change: dict[str, Any]):
    silent(account)
    server.rules.append(rewriting("GetMetricData", lambda call, data: _rows(change)(data)))
    result = run_sweep(KIND)
    assert result.idle() == []


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        ("ListMetrics", lambda call, data: data | {"Metrics": [{"Dimensions": [{"Name": "EndpointName"}]}]}),
        ("ListEndpoints", lambda call, data: data | {"Endpoints": [data["Endpoints"][0] | {"CreationTime": "yesterday"}]}),
        (
            "DescribeEndpoint",
            lambda call, data: data | {"ProductionVariants": [{"VariantName": "AllTraffic", "CurrentInstanceCount": "two"}]},
        ),
        ("GetResources", lambda call, data: data | {"ResourceTagMappingList": [{"ResourceARN": 7}]}),
    ],
    ids=["dimension without value", "unreadable time", "unreadable count", "arn that is a number"],
)
def test_one_odd_reply_never_ends_the_sweep_of_the_others(
    account: Account, server: Server, run_sweep: Sweep, operation: str, change: Any
):
    silent(account)
    account.notebook("nb", status="Stopped")
    server.rules.append(on(operation, Fault(rewrite=change), service="tag" if operation == "GetResources" else None))
    result = run_sweep(KIND, "sagemaker-notebook")
    assert "quiet" not in result.idle() or operation == "ListMetrics"
    assert {c.kind for c in result.swept.coverage} == {KIND, "sagemaker-notebook"}


def test_a_host_is_as_young_as_its_youngest_component(account: Account, run_sweep: Sweep):
    for name in ("new", "moving"):
        account.endpoint(name, variants=[Variant(model=None, scaling=(1, 2))])
        account.alive(name, "AllTraffic", LONG_AGO, NOW)
    account.component("fresh", "new", created=NOW - HOUR)
    account.component("half-made", "moving", status="Creating")
    result = run_sweep(KIND)
    assert (result.state("new"), result.state("moving")) == (State.YOUNG, State.YOUNG)


def test_a_host_without_components_is_idle_since_its_last_change(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))], changed=NOW - 9 * DAY)
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    verdict = run_sweep(KIND).findings["host"].case.verdict
    assert (verdict.state, verdict.confidence, verdict.idle_for) == (State.IDLE, Confidence.PROVEN, 9 * DAY)
    assert "it hosts no inference component" in verdict.because


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param({"config_deleted": True}, id="whether it has models is not known"),
        pytest.param({"variants": [Variant(model=None), Variant(name="other")]}, id="a variant has a model"),
    ],
)
def test_a_host_that_may_have_models_of_its_own_proves_nothing(account: Account, run_sweep: Sweep, setup: dict[str, Any]):
    account.endpoint("host", **{"variants": [Variant(model=None)], **setup})
    for name in ("AllTraffic", "other"):
        account.alive("host", name, LONG_AGO, NOW)
    assert run_sweep(KIND).state("host") is State.UNKNOWN


def test_a_host_without_components_or_heartbeat_proves_nothing(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW - 2 * DAY)
    assert run_sweep(KIND).state("host") is State.UNKNOWN


def test_a_host_whose_components_are_going_waits_for_them(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("going", "host", status="Deleting")
    assert run_sweep(KIND).state("host") is State.YOUNG


def test_callers_refused_at_zero_copies_count_for_the_endpoint_too(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("asleep", "host", copies=0)
    account.points("AWS/SageMaker", "NoCapacityInvocationFailures", {"InferenceComponentName": "asleep"}, [(NOW - HOUR, 3)])
    assert run_sweep(KIND).state("host") is State.ACTIVE


def test_components_are_listed_even_for_a_configuration_without_any(account: Account, run_sweep: Sweep):
    silent(account)
    account.component("hidden", "quiet")
    account.component_alive("hidden", LONG_AGO, NOW)
    account.component_invoked("hidden", NOW - HOUR)
    assert run_sweep(KIND).state("quiet") is State.ACTIVE


def test_an_adapter_under_specifications_is_its_bases_traffic(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("base", "host")
    account.component_alive("base", LONG_AGO, NOW)
    account.component("adapter", "host", base="base")
    account.component_invoked("adapter", NOW - 2 * HOUR)

    def plural(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in data.items() if k != "Specification"} | {"Specifications": [data["Specification"]]}

    server.rules.append(rewriting("DescribeInferenceComponent", plural))
    assert run_sweep("sagemaker-inference-component").state("base") is State.ACTIVE


def test_a_base_is_as_young_as_its_youngest_adapter(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("base", "host")
    account.component_alive("base", LONG_AGO, NOW)
    account.component("adapter", "host", base="base", created=NOW - HOUR)
    assert run_sweep("sagemaker-inference-component").state("base") is State.YOUNG


def test_components_whose_names_differ_in_case_only_are_both_reported(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    for name in ("Foo", "foo"):
        account.component(name, "host")
        account.component_alive(name, LONG_AGO, NOW)
    account.component_invoked("Foo", NOW - 2 * HOUR)
    result = run_sweep("sagemaker-inference-component")
    assert (result.state("Foo"), result.state("foo")) == (State.ACTIVE, State.IDLE)


def test_an_empty_series_proves_nothing_if_series_cannot_be_listed(account: Account, server: Server, run_sweep: Sweep):
    notebook = account.notebook("MyNotebook", changed=NOW - 5 * DAY)
    account.busy_steadily(notebook.arn.lower(), LONG_AGO, NOW, value=1)
    server.rules.append(on("ListMetrics", denied()))
    assert run_sweep("sagemaker-notebook").state("MyNotebook") is State.UNKNOWN


def test_user_activity_newer_than_the_health_check_is_believed(account: Account, run_sweep: Sweep):
    account.app(space="ana", used=NOW - HOUR, checked=NOW - 2 * HOUR)
    assert run_sweep("sagemaker-studio-app").state("ana/JupyterLab/default") is State.ACTIVE


@pytest.mark.parametrize("minute", [0, 10, 17, 25, 40, 55])
def test_a_long_look_back_judges_at_any_minute(account: Account, server: Server, run_sweep: Sweep, minute: int):
    now = NOW.replace(minute=minute)
    account.endpoint("quiet", created=NOW - 200 * DAY)
    account.alive("quiet", "AllTraffic", NOW - 120 * DAY, now + HOUR)
    server.now = now
    assert run_sweep(KIND, policy="{version: 1, defaults: {lookback: 100d}}", now=now).idle() == ["quiet"]


def test_one_tag_adds_no_calls_for_other_resources(account: Account, run_sweep: Sweep):
    for index in range(40):
        silent(account, f"e{index}", tags={"reaper:idle-after": "30m"} if index == 0 else {"team": "x"})
        account.invoked(f"e{index}", "AllTraffic", NOW - 2 * HOUR)
    assert run_sweep(KIND).coverage(KIND).calls.get("sagemaker:DescribeEndpoint", 0) == 1


def test_a_region_that_is_not_enabled_does_not_hide_the_others(account: Account, server: Server, run_sweep: Sweep):
    silent(account)
    server.rules.append(on(".*", denied(), region="eu-west-1"))
    result = run_sweep(KIND, regions=("eu-west-1", "us-east-1"))
    assert result.idle() == ["quiet"]
    assert result.coverage(KIND, "eu-west-1").status == "denied"


@pytest.mark.parametrize("shift", [timedelta(minutes=13), -15 * DAY, 2 * HOUR], ids=["between hours", "before", "after"])
def test_points_outside_the_window_prove_nothing(account: Account, server: Server, run_sweep: Sweep, shift: timedelta):
    silent(account)

    def moved(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        rows = [row | {"Timestamps": [t + shift for t in row["Timestamps"]]} for row in data["MetricDataResults"]]
        return data | {"MetricDataResults": rows}

    server.rules.append(rewriting("GetMetricData", moved))
    result = run_sweep(KIND)
    assert (result.idle(), result.coverage(KIND).status) == ([], "partial")


@pytest.mark.parametrize("minute", range(0, 60, 4))
def test_the_recheck_sees_the_same_hours_as_the_sweep(account: Account, server: Server, run_sweep: Sweep, minute: int):
    now = NOW.replace(minute=minute, second=40)
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", LONG_AGO, now + HOUR)
    account.invoked("quiet", "AllTraffic", NOW.replace(hour=7, minute=55))
    server.now = now
    policy = parse_policy("{version: 1, defaults: {idle_after: 2h}}", "policy", registry.kind_names())
    finding = run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 2h}}", now=now).findings["quiet"]
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    server.now = later = now + timedelta(minutes=3)
    again = assess_again(cloud, registry.kind(KIND), finding.case.resource, SweepOrder(policy=policy, now=later))
    states = (finding.case.verdict.state, again.verdict.state)
    assert states == (State.IDLE, State.IDLE)
    assert finding.case.verdict.last_busy == again.verdict.last_busy == NOW.replace(hour=8, minute=0)


@pytest.mark.parametrize(
    "kind", ["sagemaker-endpoint", "sagemaker-notebook", "sagemaker-studio-app", "sagemaker-inference-component"]
)
def test_a_row_listed_twice_is_reported_once_even_if_the_kind_fails(account: Account, run_sweep: Sweep, kind: str):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.component("part", "host")
    account.notebook("nb")
    account.app(space="ana")
    known = registry.kind(kind)

    def twice(cloud: Any) -> Any:
        rows = list(known.discover(cloud))
        return [*rows, *rows]

    def broken(cloud: Any, resources: Any, window: Any) -> Any:
        raise IndexError("list index out of range")

    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    for broken_kind in (replace(known, discover=twice), replace(known, discover=twice, observe=broken)):
        report = sweep([cloud], [broken_kind], order)
        assert [c.resources for c in report.coverage] == [len(report.findings)] == [1]
        assert ("couldn't be observed" in report.findings[0].case.verdict.because) == (broken_kind.observe is broken)


TRIPS = [IndexError, KeyError, LookupError, OverflowError, RecursionError, UnicodeError, TypeError, AttributeError]
TRIPS += [AssertionError, EOFError, StopIteration, OSError, TimeoutError, NotImplementedError]


@pytest.mark.parametrize("odd", TRIPS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("part", ["discover", "observe", "blocked_actions"])
def test_a_kind_that_trips_over_a_reply_fails_alone(account: Account, run_sweep: Sweep, odd: type[Exception], part: str):
    silent(account)
    account.notebook("nb", status="Stopped")

    def trip(*_: Any) -> Any:
        raise odd("odd")

    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    broken = replace(registry.kind("sagemaker-notebook"), **{part: trip})
    report = sweep([cloud], [broken, registry.kind(KIND)], order)
    states = {f.case.resource.name: f.case.verdict.state for f in report.findings}
    assert states["quiet"] is State.IDLE
    assert [c.status for c in report.coverage] == [
        {"discover": "failed", "observe": "partial", "blocked_actions": "ok"}[part],
        "ok",
    ]
    assert ("nb" in states) == (part != "discover")


def test_a_kind_that_runs_out_of_memory_ends_the_run(account: Account):
    def trip(*_: Any) -> Any:
        raise MemoryError

    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    with pytest.raises(MemoryError):
        sweep([cloud], [replace(registry.kind(KIND), discover=trip)], order)


@pytest.mark.parametrize("status", ["Creating", "Updating", "Deleting"])
def test_a_host_is_unsettled_while_a_component_is_described_so(account: Account, server: Server, run_sweep: Sweep, status: str):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    for name in ("moving", "resting"):
        account.component(name, "host")
    server.rules.append(_of_component("moving", {"InferenceComponentStatus": status}))
    verdict = run_sweep(KIND).findings["host"].case.verdict
    assert (verdict.state, verdict.because) == (State.YOUNG, f"its component moving is {status}")


def test_a_host_is_as_young_as_a_component_is_described(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("changed", "host")
    server.rules.append(_of_component("changed", {"LastModifiedTime": (NOW - HOUR).timestamp()}))
    assert run_sweep(KIND).state("host") is State.YOUNG


def test_a_host_is_unknown_while_a_components_described_status_is(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("novel", "host")
    server.rules.append(_of_component("novel", {"InferenceComponentStatus": "Hibernating"}))
    assert run_sweep(KIND).state("host") is State.UNKNOWN


def test_a_host_is_unknown_while_a_component_cannot_be_described(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None)])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("hidden", "host")
    server.rules.append(on("DescribeInferenceComponent", denied()))
    result = run_sweep(KIND)
    assert result.state("host") is State.UNKNOWN
    assert result.coverage(KIND).status != "ok"


def _of_component(name: str, fields: dict[str, Any]) -> Any:
    """A guard that changes the description of one component."""
    return rewriting(
        "DescribeInferenceComponent",
        lambda call, data: data | fields if call.params["InferenceComponentName"] == name else data,
    )
