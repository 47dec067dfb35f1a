"""What we know how to bring back is all that the SDK knows of today; what is beyond it keeps a thing from being deleted."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from reaper.aws import restorable
from reaper.aws.endpoint_description import Described
from reaper.aws.session import Cloud
from reaper.model import Target
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

SPECIFIED = {*restorable.SPECIFICATION, "Container"}
SHOWN = [
    ("sagemaker", "DescribeEndpointConfig", "", {*restorable.CONFIG, *restorable.CONFIGS_OWN}),
    ("sagemaker", "DescribeEndpoint", "", {*restorable.ENDPOINT, *restorable.ENDPOINTS_OWN}),
    ("sagemaker", "DescribeEndpoint", "ProductionVariants", {*restorable.VARIANT, *restorable.VARIANTS_OWN}),
    ("sagemaker", "DescribeEndpoint", "ShadowProductionVariants", {*restorable.VARIANT, *restorable.VARIANTS_OWN}),
    ("sagemaker", "DescribeInferenceComponent", "", {*restorable.COMPONENT, *restorable.COMPONENTS_OWN}),
    ("sagemaker", "DescribeInferenceComponent", "Specification", SPECIFIED),
    ("sagemaker", "DescribeInferenceComponent", "Specifications", {*SPECIFIED, "InstanceType"}),
    ("sagemaker", "DescribeInferenceComponent", "Specification.Container", {*restorable.CONTAINER, "DeployedImage"}),
    ("cloudwatch", "DescribeAlarms", "MetricAlarms", {*restorable.ALARM, *restorable.ALARMS_OWN}),
    ("application-autoscaling", "DescribeScalableTargets", "ScalableTargets", {*restorable.TARGET, *restorable.TARGETS_OWN}),
    ("application-autoscaling", "DescribeScalingPolicies", "ScalingPolicies", {*restorable.POLICY, *restorable.POLICIES_OWN}),
    ("application-autoscaling", "DescribeScheduledActions", "ScheduledActions", {*restorable.ACTION, *restorable.ACTIONS_OWN}),
]
TAKEN = [
    ("sagemaker", "CreateEndpointConfig", "", {*restorable.CONFIG, "EndpointConfigName"}),
    ("sagemaker", "CreateInferenceComponent", "", set(restorable.COMPONENT)),
    ("sagemaker", "CreateInferenceComponent", "Specification", SPECIFIED),
    ("sagemaker", "CreateInferenceComponent", "Specification.Container", {*restorable.CONTAINER, "Image"}),
    ("cloudwatch", "PutMetricAlarm", "", set(restorable.ALARM)),
    ("application-autoscaling", "RegisterScalableTarget", "", set(restorable.TARGET)),
    ("application-autoscaling", "PutScalingPolicy", "", set(restorable.POLICY) - {"PolicyARN"}),
    ("application-autoscaling", "PutScheduledAction", "", set(restorable.ACTION)),
]


def members(service: str, operation: str, path: str, *, given: bool) -> set[str]:
    """The members of a shape in the SDK's model; `path` leads from the operation's input or output to it."""
    model = boto3.client(service, region_name="us-east-1").meta.service_model.operation_model(operation)
    shape: Any = model.input_shape if given else model.output_shape
    for step in filter(None, path.split(".")):
        shape = shape.members[step]
        shape = getattr(shape, "member", shape)
    return set(shape.members) - {"NextToken"}


@pytest.mark.parametrize(("service", "operation", "path", "known"), SHOWN)
def test_every_member_that_the_sdk_shows_is_known(service: str, operation: str, path: str, known: set[str]):
    assert members(service, operation, path, given=False) == known


@pytest.mark.parametrize(("service", "operation", "path", "kept"), TAKEN)
def test_every_member_that_is_kept_can_be_given_back(service: str, operation: str, path: str, kept: set[str]):
    assert kept - members(service, operation, path, given=True) == set()


def test_the_sdk_lets_a_component_be_created_without_copies():
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    runtime = model.operation_model("CreateInferenceComponent").input_shape.members["RuntimeConfig"]
    assert runtime.members["CopyCount"].metadata["min"] == 0


NEW = {"QuantumConfig": {"Qubits": 4}}
CONFIG = {"EndpointConfigName": "c", "ProductionVariants": [{"VariantName": "v"}]}
ROW = {"EndpointName": "e", "ProductionVariants": [{"VariantName": "v"}]}


def described(config: dict[str, Any] = CONFIG, raw: dict[str, Any] = ROW) -> Described:
    return Described(status="InService", variants=(), asynchronous=False, hosts=False, raw=raw, config=config)


@pytest.mark.parametrize(
    ("found", "because"),
    [
        (described(), None),
        (described(config={}), "its configuration is gone or cannot be read, so it could not be created again"),
        (described(config=CONFIG | NEW), "the configuration c has QuantumConfig, which we do not know how to bring back"),
        (described(raw=ROW | NEW), "it has QuantumConfig, which we do not know how to bring back"),
        (described(raw=ROW | {"QuantumConfig": {}}), None),
        (
            described(raw={"ProductionVariants": [{"VariantName": "v", **NEW}]}),
            "its variant v has QuantumConfig, which we do not know how to bring back",
        ),
        (
            described(raw=ROW | {"ShadowProductionVariants": [{"VariantName": "s", **NEW}]}),
            "its variant s has QuantumConfig, which we do not know how to bring back",
        ),
    ],
)
def test_an_endpoint_with_what_we_do_not_know_is_not_restorable(found: Described, because: str | None):
    assert restorable.endpoint(found) == because


@pytest.mark.parametrize(
    "row",
    [
        {"Specification": {"ModelName": "m"}} | NEW,
        {"Specification": {"ModelName": "m"} | NEW},
        {"Specifications": [{"Container": {"ArtifactUrl": "s3://m"} | NEW}]},
    ],
)
def test_a_component_with_what_we_do_not_know_is_not_restorable(row: dict[str, Any]):
    name = {"InferenceComponentName": "one"}
    assert restorable.component(name | row) == "the component one has QuantumConfig, which we do not know how to bring back"
    assert restorable.component({**name, "Specification": {"ModelName": "m"}}) is None


@pytest.fixture
def cloud(server: Server) -> Cloud:
    return Cloud(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def test_models_that_were_deleted_are_found_in_bulk(account: Account, cloud: Cloud):
    for index in range(150):
        account.endpoint(f"e{index}", variants=[Variant(model=f"m{index:03}")])
    account.contents.lost_models |= {"m007", "m149"}
    assert restorable.gone(cloud, {"m007", "m100"}) == {"m007"}
    assert cloud.calls["sagemaker:ListModels"] == 2


def test_nothing_is_asked_where_no_model_is_needed(cloud: Cloud):
    assert (restorable.gone(cloud, set()), dict(cloud.calls)) == (set(), {})


def test_models_that_cannot_be_listed_are_noted_and_bar_nothing(cloud: Cloud, server: Server):
    server.rules.append(on("ListModels", denied()))
    assert restorable.gone(cloud, {"m"}) == set()
    assert [trouble.missing for trouble in cloud.troubles] == ["sagemaker:ListModels"]


def test_more_models_than_can_be_listed_bar_nothing(account: Account, cloud: Cloud, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(restorable, "PAGES_OF_MODELS", 1)
    for index in range(101):
        account.endpoint(f"e{index}", variants=[Variant(model=f"m{index:03}")])
    assert restorable.gone(cloud, {"m100", "gone"}) == set()
    assert cloud.calls["sagemaker:ListModels"] == 1
