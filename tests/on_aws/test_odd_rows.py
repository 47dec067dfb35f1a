"""One row that cannot be read is one resource that is not judged: it hides no other, and what may protect it protects it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import boto3
import pytest

from fakes.sweeps import SweepOrder, assess_again, sweep
from on_aws.conftest import DAY, NOW, Result, Sweep
from reaper import registry
from reaper.aws import reader, targets
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.model import Resource, State, Target
from reaper.observe import faulty_fields, without_faults
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

LONG_AGO = NOW - 15 * DAY
NOTEBOOK, ENDPOINT, APP = "sagemaker-notebook", "sagemaker-endpoint", "sagemaker-studio-app"
COMPONENT = "sagemaker-inference-component"
POLICIES = {
    "no rule": "version: 1",
    "by name": "{version: 1, rules: [{name: a, match: {name: 'dev-*'}, action: notify}]}",
    "by tag": "{version: 1, rules: [{name: a, match: {tags: {env: 'pr*'}}, action: notify}]}",
    "by size": "{version: 1, rules: [{name: a, match: {size: 'ml.*'}, action: notify}]}",
}
OF_ONE = {
    NOTEBOOK: ("ListNotebookInstances", "NotebookInstances", "NotebookInstanceName"),
    COMPONENT: ("ListInferenceComponents", "InferenceComponents", "InferenceComponentName"),
}


def _house(account: Account, kind: str) -> None:
    """Two idle ones of a kind, `odd` and `other`, each apart from the other."""
    for name in ("odd", "other"):
        if kind == NOTEBOOK:
            account.notebook(name, changed=NOW - 5 * DAY)
        else:
            account.endpoint(name, variants=[Variant(model=None if kind == COMPONENT else "m")])
            account.alive(name, "AllTraffic", LONG_AGO, NOW)
        if kind == COMPONENT:
            account.component(name, name)
            account.component_alive(name, LONG_AGO, NOW)


def _odd_row(server: Server, kind: str, field: str, value: Any) -> None:
    operation, rows, named = OF_ONE[kind]

    def rewrite(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return data | {rows: [row | {field: value} if row[named] == "odd" else row for row in data[rows]]}

    server.rules.append(on(operation, Fault(rewrite=rewrite)))


def _by_end(result: Result) -> dict[str, State]:
    """The states by the last part of their names."""
    return {name.rpartition("/")[2]: f.case.verdict.state for name, f in result.findings.items()}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("field", ["NotebookInstanceName", "NotebookInstanceStatus", "InstanceType"])
def test_a_row_with_an_odd_field_is_unknown_under_any_rule(
    account: Account, server: Server, run_sweep: Sweep, field: str, policy: str
):
    _house(account, NOTEBOOK)
    _odd_row(server, NOTEBOOK, field, {})
    result = run_sweep(NOTEBOOK, policy=policy)
    assert _by_end(result) == {"odd": State.UNKNOWN, "other": State.IDLE}
    assert result.coverage(NOTEBOOK).status == "partial"
    assert all(bar for f in result.swept.findings if f.case.verdict.state is State.UNKNOWN for bar in f.case.blocked.values())


@pytest.mark.parametrize("field", ["InferenceComponentArn", "EndpointName"])
def test_a_component_without_an_endpoint_fails_its_kind(account: Account, server: Server, run_sweep: Sweep, field: str):
    _house(account, COMPONENT)
    _odd_row(server, COMPONENT, field, 5)
    result = run_sweep(COMPONENT)
    assert (result.findings, result.coverage(COMPONENT).status) == ({}, "failed")


@pytest.mark.parametrize("value", [5, [], "Novel"], ids=repr)
def test_a_host_whose_components_status_is_odd_is_unknown(account: Account, server: Server, run_sweep: Sweep, value: Any):
    _house(account, COMPONENT)
    _odd_row(server, COMPONENT, "InferenceComponentStatus", value)
    result = run_sweep(ENDPOINT)
    assert (result.state("odd"), result.state("other")) == (State.UNKNOWN, State.IDLE)


@pytest.mark.parametrize("value", [5, [5], {"a": 5}], ids=repr)
@pytest.mark.parametrize("field", ["EndpointStatus", "VariantName", "InstanceType"])
def test_an_odd_description_makes_only_its_endpoint_unknown(
    account: Account, server: Server, run_sweep: Sweep, field: str, value: Any
):
    _house(account, ENDPOINT)

    def rewrite(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        if not str(call.params).count("odd"):
            return data
        variants = [row | {field: value} for row in data["ProductionVariants"]]
        return data | ({field: value} if field == "EndpointStatus" else {"ProductionVariants": variants})

    server.rules.append(on("DescribeEndpointConfig" if field == "InstanceType" else "DescribeEndpoint", Fault(rewrite=rewrite)))
    result = run_sweep(ENDPOINT)
    assert (result.state("odd"), result.state("other")) == (State.UNKNOWN, State.IDLE)
    assert result.coverage(ENDPOINT).status == "partial"


# Tags


def _tagged_rows(server: Server, change: Any) -> None:
    """Changes the rows of what GetResources says."""

    def rewrite(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return data | {"ResourceTagMappingList": [new for row in data["ResourceTagMappingList"] for new in change(row)]}

    server.rules.append(on("GetResources", Fault(rewrite=rewrite), service="tag"))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    "odd", [{"Key": 5}, {"Key": []}, {"Key": ""}, {"Key": None}, {"Value": 5}, {"Value": {}}, {"Value": None}], ids=str
)
def test_a_tag_that_is_not_a_string_affects_only_its_resource(
    account: Account, server: Server, run_sweep: Sweep, odd: dict[str, Any], policy: str
):
    account.notebook("odd", changed=NOW - 5 * DAY, tags={"env": "prod"})
    account.notebook("other", changed=NOW - 5 * DAY, tags={"env": "dev"})
    _tagged_rows(
        server,
        lambda row: [row | {"Tags": [tag | odd for tag in row["Tags"]]}] if row["ResourceARN"].endswith("/odd") else [row],
    )
    result = run_sweep(NOTEBOOK, policy=policy)
    assert _by_end(result) == {"odd": State.UNKNOWN, "other": State.IDLE}
    assert "couldn't be read" in result.findings["odd"].case.verdict.because
    assert result.coverage(NOTEBOOK).status == "partial"


def _other_spelling(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return row | {"ResourceARN": row["ResourceARN"].replace("/JupyterLab/", "/jupyterlab/")} | fields


@pytest.mark.parametrize(
    ("change", "state"),
    [
        pytest.param(lambda row: [_other_spelling(row), row | {"Tags": []}], State.EXEMPT, id="kept under the old one"),
        pytest.param(lambda row: [row, _other_spelling(row, Tags=[])], State.EXEMPT, id="kept under the new one"),
        pytest.param(
            lambda row: [row, _other_spelling(row, Tags=[{"Key": "reaper:keep", "Value": "false"}])],
            State.UNKNOWN,
            id="they contradict each other",
        ),
        pytest.param(lambda row: [row, row | {"Tags": []}], State.EXEMPT, id="the same spelling twice"),
    ],
)
def test_a_tag_under_either_spelling_of_an_app_protects_it(
    account: Account, server: Server, run_sweep: Sweep, change: Any, state: State
):
    account.app(user="ana", created=NOW - 6 * DAY, tags={"reaper:keep": "true"})
    _tagged_rows(server, change)
    assert run_sweep(APP).state("ana/JupyterLab/default") is state


def test_tags_of_names_that_differ_in_case_stay_apart():
    tags_by_arn: reader.TagsByArn = {"arn:x/a": {"arn:x/A": {"team": "one"}, "arn:x/a": {"team": "two"}}}
    assert (reader.tags_of(tags_by_arn, "arn:x/A"), reader.tags_of(tags_by_arn, "arn:x/a")) == ({"team": "one"}, {"team": "two"})


# Whatever a kind yields


def _yielding(*resources: Any) -> Report:
    known = replace(registry.kind(NOTEBOOK), discover=lambda cloud: iter(resources))
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    policy = parse_policy(POLICIES["by name"], "policy", registry.kind_names())
    return sweep([cloud], [known], SweepOrder(policy=policy, now=NOW))


PLAIN = Resource(
    kind=NOTEBOOK,
    id="arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/plain",
    name="plain",
    target=Target(cloud="aws", account="123456789012", region="us-east-1"),
    region="us-east-1",
    created=NOW - 60 * DAY,
    status="Stopped",
)


@pytest.mark.parametrize("value", [5, [], b"x", {5: []}, object()], ids=lambda value: type(value).__name__)
def test_a_resource_whose_every_field_is_odd_hides_no_other(server: Server, value: Any):
    everything = {field.name: value for field in fields(Resource)}
    named = Resource(**{**everything, "id": PLAIN.id.replace("plain", "odd")})
    report = _yielding(Resource(**everything), named, value, PLAIN)
    assert {f.case.resource.name: f.case.verdict.state for f in report.findings} == {"odd": State.UNKNOWN, "plain": State.EXEMPT}
    assert [(c.status, c.resources) for c in report.coverage] == [("partial", 2)]


@pytest.mark.parametrize("field", [field.name for field in fields(Resource) if field.name not in {"id", "kind", "target"}])
def test_each_unreadable_field_is_reported_and_blocks_actions(server: Server, field: str):
    odd = replace(PLAIN, **{field: object()}, **({} if field == "status" else {"status": "InService"}))
    [finding] = _yielding(odd).findings
    assert finding.case.verdict.state is State.UNKNOWN
    assert all(bar and field in bar.because for bar in finding.case.blocked.values())


def test_a_resource_without_faults_stays_unchanged():
    assert faulty_fields(PLAIN) == []
    assert without_faults(PLAIN, [], "x", PLAIN.target) is PLAIN


def test_a_failed_judgement_of_one_leaves_the_others_judged(account: Account, server: Server):
    for name in ("odd", "other"):
        account.notebook(name, changed=NOW - 5 * DAY)
    known = registry.kind(NOTEBOOK)

    def observe(cloud: Any, resources: Any, window: Any) -> Any:
        for observation in known.observe(cloud, resources, window):
            odd = replace(observation.resource, created="yesterday", people={"owner": 5}, status=[])  # type: ignore[arg-type, dict-item]
            yield replace(observation, resource=odd) if observation.resource.name == "odd" else observation

    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    report = sweep([cloud], [replace(known, observe=observe)], order)
    cases = {f.case.resource.name: f.case for f in report.findings}
    assert {name: case.verdict.state for name, case in cases.items()} == {"odd": State.UNKNOWN, "other": State.IDLE}
    assert "couldn't be judged" in cases["odd"].verdict.because
    assert faulty_fields(cases["odd"].resource) == []
    assert [c.status for c in report.coverage] == ["partial"]


def test_an_odd_reply_in_the_recheck_is_a_failed_call(account: Account, server: Server):
    account.notebook("nb", changed=NOW - 5 * DAY)
    known = registry.kind(NOTEBOOK)
    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    [resource] = known.discover(cloud)
    with pytest.raises(CloudError, match="couldn't be understood"):
        assess_again(cloud, known, replace(resource, people={"owner": 5}), order)  # type: ignore[dict-item]


class _Unreadable(str):
    """A text that trips up code that looks into it."""

    __slots__ = ()

    def strip(self, *_: Any) -> str:
        raise TypeError("odd")


def test_tags_the_rules_fail_on_count_as_unreadable(server: Server):
    report = _yielding(replace(PLAIN, tags={_Unreadable("x"): "y"}), replace(PLAIN, id=f"{PLAIN.id}2", name="plain2"))
    because = {f.case.resource.name: f.case.verdict.because for f in report.findings}
    assert because["plain"] == "its tags couldn't be read, and a tag may protect it"
    assert (len(report.findings), [c.status for c in report.coverage]) == (2, ["partial"])


# The SDK's edge


@pytest.mark.parametrize("error", [OSError("no route"), ConnectionResetError("reset"), EOFError("over")], ids=repr)
def test_a_connection_that_breaks_in_the_sdk_is_a_failed_call(server: Server, error: Exception):
    session = boto3.Session()

    def broken(**_: Any) -> None:
        raise error

    session.events.register("before-send.sagemaker.ListEndpoints", broken)
    cloud = CloudSession(session, Target(cloud="aws", account="123456789012", region="us-east-1"))
    with pytest.raises(CloudError) as raised:
        cloud.call("sagemaker", "ListEndpoints", "Endpoints")
    assert raised.value.reason is (Reason.UNREACHABLE if isinstance(error, OSError) else Reason.UNREADABLE)


@pytest.mark.parametrize("token", [5, ["x"], {"a": "b"}], ids=repr)
def test_a_next_page_without_a_token_is_a_failed_call(account: Account, server: Server, token: Any):
    account.notebook("nb")
    server.rules.append(on("ListNotebookInstances", Fault(rewrite=lambda call, data: data | {"NextToken": token})))
    [cloud] = targets.target_sessions(["us-east-1"], (), boto3.Session())
    with pytest.raises(CloudError, match="its token for the next one is invalid"):
        list(cloud.paged_rows("sagemaker", "ListNotebookInstances", "NotebookInstances"))
