"""What we know how to bring back is all that the SDK knows of today; what is beyond it keeps a thing from being deleted."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from reaper.aws import recreation, sagemaker
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.kinds.sagemaker_endpoint import description
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription, endpoint_unrestorable_because
from reaper.aws.session import CloudSession
from reaper.model import Target
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

SPECIFIED = {*component.SPECIFICATION_MEMBERS, "Container"}
SHOWN = [
    ("sagemaker", "DescribeEndpointConfig", "", {*description.CONFIG_MEMBERS, *description.CONFIG_SERVICE_MEMBERS}),
    ("sagemaker", "DescribeEndpoint", "", {*description.ENDPOINT_MEMBERS, *description.ENDPOINT_SERVICE_MEMBERS}),
    ("sagemaker", "DescribeEndpoint", "ProductionVariants", {*description.VARIANT_MEMBERS, *description.VARIANT_SERVICE_MEMBERS}),
    (
        "sagemaker",
        "DescribeEndpoint",
        "ShadowProductionVariants",
        {*description.VARIANT_MEMBERS, *description.VARIANT_SERVICE_MEMBERS},
    ),
    ("sagemaker", "DescribeInferenceComponent", "", {*component.MEMBERS, *component.SERVICE_MEMBERS}),
    ("sagemaker", "DescribeInferenceComponent", "Specification", SPECIFIED),
    ("sagemaker", "DescribeInferenceComponent", "Specifications", {*SPECIFIED, "InstanceType"}),
    ("sagemaker", "DescribeInferenceComponent", "Specification.Container", {*component.CONTAINER_MEMBERS, "DeployedImage"}),
    (
        "cloudwatch",
        "DescribeAlarms",
        "MetricAlarms",
        {*recreation.ALARM_MEMBERS, *recreation.ALARM_SERVICE_MEMBERS},
    ),
    (
        "application-autoscaling",
        "DescribeScalableTargets",
        "ScalableTargets",
        {*recreation.TARGET_MEMBERS, *recreation.TARGET_SERVICE_MEMBERS},
    ),
    (
        "application-autoscaling",
        "DescribeScalingPolicies",
        "ScalingPolicies",
        {*recreation.POLICY_MEMBERS, *recreation.POLICY_SERVICE_MEMBERS},
    ),
    (
        "application-autoscaling",
        "DescribeScheduledActions",
        "ScheduledActions",
        {*recreation.SCHEDULED_ACTION_MEMBERS, *recreation.SCHEDULED_ACTION_SERVICE_MEMBERS},
    ),
]
TAKEN = [
    ("sagemaker", "CreateEndpointConfig", "", {*description.CONFIG_MEMBERS, "EndpointConfigName"}),
    ("sagemaker", "CreateInferenceComponent", "", set(component.MEMBERS)),
    ("sagemaker", "CreateInferenceComponent", "Specification", SPECIFIED),
    ("sagemaker", "CreateInferenceComponent", "Specification.Container", {*component.CONTAINER_MEMBERS, "Image"}),
    ("cloudwatch", "PutMetricAlarm", "", set(recreation.ALARM_MEMBERS)),
    ("application-autoscaling", "RegisterScalableTarget", "", set(recreation.TARGET_MEMBERS)),
    ("application-autoscaling", "PutScalingPolicy", "", set(recreation.POLICY_MEMBERS) - {"PolicyARN"}),
    ("application-autoscaling", "PutScheduledAction", "", set(recreation.SCHEDULED_ACTION_MEMBERS)),
]


def members(service: str, operation: str, path: str, *, of_input: bool) -> set[str]:
    """The members of a shape in the SDK's model; `path` leads from the operation's input or output to it."""
    model = boto3.client(service, region_name="us-east-1").meta.service_model.operation_model(operation)
    shape: Any = model.input_shape if of_input else model.output_shape
    for step in filter(None, path.split(".")):
        shape = shape.members[step]
        shape = getattr(shape, "member", shape)
    return set(shape.members) - {"NextToken"}


@pytest.mark.parametrize(("service", "operation", "path", "known"), SHOWN)
def test_every_member_that_the_sdk_shows_is_known(service: str, operation: str, path: str, known: set[str]):
    assert members(service, operation, path, of_input=False) == known


@pytest.mark.parametrize(("service", "operation", "path", "names"), TAKEN)
def test_every_stored_member_can_be_sent_back(service: str, operation: str, path: str, names: set[str]):
    assert names - members(service, operation, path, of_input=True) == set()


def test_the_sdk_lets_a_component_be_created_without_copies():
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    runtime = model.operation_model("CreateInferenceComponent").input_shape.members["RuntimeConfig"]
    assert runtime.members["CopyCount"].metadata["min"] == 0


NEW = {"QuantumConfig": {"Qubits": 4}}
CONFIG = {"EndpointConfigName": "c", "ProductionVariants": [{"VariantName": "v"}]}
ROW = {"EndpointName": "e", "ProductionVariants": [{"VariantName": "v"}]}


def described(config: dict[str, Any] = CONFIG, raw: dict[str, Any] = ROW) -> EndpointDescription:
    return EndpointDescription(
        status="InService", variants=(), is_asynchronous=False, may_host_components=False, reply=raw, config=config
    )


@pytest.mark.parametrize(
    ("description", "because"),
    [
        (described(), None),
        (described(config={}), "its configuration is gone or can't be read, so it can't be recreated"),
        (described(config=CONFIG | NEW), "the configuration c has QuantumConfig, which this version can't restore"),
        (described(raw=ROW | NEW), "it has QuantumConfig, which this version can't restore"),
        (described(raw=ROW | {"QuantumConfig": {}}), None),
        (
            described(raw={"ProductionVariants": [{"VariantName": "v", **NEW}]}),
            "its variant v has QuantumConfig, which this version can't restore",
        ),
        (
            described(raw=ROW | {"ShadowProductionVariants": [{"VariantName": "s", **NEW}]}),
            "its variant s has QuantumConfig, which this version can't restore",
        ),
    ],
)
def test_an_endpoint_with_unknown_members_is_not_restorable(description: EndpointDescription, because: str | None):
    assert endpoint_unrestorable_because(description) == because


@pytest.mark.parametrize(
    "row",
    [
        {"Specification": {"ModelName": "m"}} | NEW,
        {"Specification": {"ModelName": "m"} | NEW},
        {"Specifications": [{"Container": {"ArtifactUrl": "s3://m"} | NEW}]},
    ],
)
def test_a_component_with_unknown_members_is_not_restorable(row: dict[str, Any]):
    name = {"InferenceComponentName": "one"}
    assert component.unrestorable_because(name | row) == "the component one has QuantumConfig, which this version can't restore"
    assert component.unrestorable_because({**name, "Specification": {"ModelName": "m"}}) is None


@pytest.fixture
def cloud(server: Server) -> CloudSession:
    return CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def test_deleted_models_are_found_in_bulk(account: Account, cloud: CloudSession):
    for index in range(150):
        account.endpoint(f"e{index}", variants=[Variant(model=f"m{index:03}")])
    account.contents.lost_models |= {"m007", "m149"}
    assert sagemaker.deleted_models(cloud, {"m007", "m100"}) == {"m007"}
    assert cloud.calls["sagemaker:ListModels"] == 2


def test_no_models_are_listed_if_none_is_needed(cloud: CloudSession):
    assert (sagemaker.deleted_models(cloud, set()), dict(cloud.calls)) == (set(), {})


def test_unlistable_models_are_noted_and_block_nothing(cloud: CloudSession, server: Server):
    server.rules.append(on("ListModels", denied()))
    assert sagemaker.deleted_models(cloud, {"m"}) == set()
    assert [trouble.missing for trouble in cloud.errors] == ["sagemaker:ListModels"]


def test_too_many_models_to_list_block_nothing(account: Account, cloud: CloudSession, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sagemaker, "MAX_MODEL_PAGES", 1)
    for index in range(101):
        account.endpoint(f"e{index}", variants=[Variant(model=f"m{index:03}")])
    assert sagemaker.deleted_models(cloud, {"m100", "gone"}) == set()
    assert cloud.calls["sagemaker:ListModels"] == 1
