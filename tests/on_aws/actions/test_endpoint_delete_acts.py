from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest

from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.acting.contract import NOTHING_EARLIER
from reaper.aws.sagemaker import RESTORED_TAG
from reaper.aws.session import CloudSession
from reaper.errors import CloudError
from reaper.model import StepName
from reaper_sandbox.aws import autoscaling, scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import VARIANT
from reaper_sandbox.aws.fault import denied, error, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
MINUTES = timedelta(minutes=10)


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, KIND)


def two_variants(account: Account) -> None:
    """Two variants under autoscaling whose numbers and weights are not those of the configuration any more."""
    blue, green = Variant(name="blue", instance="ml.g5.xlarge", weight=9.0), Variant(name="green", instance="ml.c5.xlarge")
    account.endpoint("e", variants=[blue, green], tags={"team": "growth", "owner": "lee@example.com"})
    config = account.contents.configs["e-config"]
    config.tags = {"repo": "models"}
    config.spec["DataCaptureConfig"] = {
        "EnableCapture": True, "InitialSamplingPercentage": 10, "DestinationS3Uri": "s3://captured/e", "CaptureOptions": [{"CaptureMode": "Input"}],
    }  # fmt: skip
    config.spec["KmsKeyId"] = "alias/models"
    for name, least, count, weight in (("blue", 2, 3, 4.0), ("green", 1, 1, 6.0)):
        variant = next(v for v in account.contents.endpoints["e"].variants if v.name == name)
        variant.count, variant.weight = count, weight
        named = scaled.variant(account, "e", name, least=least, most=5)
        scaled.track(account, named, f"track-{name}")
        scaled.wake(account, named, f"step-{name}")
        scaled.schedule(account, named)
    autoscaling.register(account.contents, {**named, "SuspendedState": {"DynamicScalingInSuspended": True}})


FORGOTTEN = {
    "CreationTime", "LastModifiedTime", "ScalableTargetARN", "PolicyARN", "ScheduledActionARN", "Alarms", "AlarmActions",
    "ResponseMetadata", "StateUpdatedTimestamp",
}  # fmt: skip
"""What is new on whatever is created again: birth, and the ARNs that hold a random id."""


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k not in FORGOTTEN}
    return [bare(v) for v in value] if isinstance(value, list) else value


def everything(name: str = "e", config: str = "e-config") -> dict[str, Any]:
    """All that AWS shows of an endpoint, its configuration, its components and its autoscaling, but for the mark of what was restored."""
    sagemaker, scaling = boto3.client("sagemaker"), boto3.client("application-autoscaling")
    endpoint, made = sagemaker.describe_endpoint(EndpointName=name), sagemaker.describe_endpoint_config(EndpointConfigName=config)
    rows = sagemaker.list_inference_components(EndpointNameEquals=name, SortBy="Name")["InferenceComponents"]
    parts = [sagemaker.describe_inference_component(InferenceComponentName=r["InferenceComponentName"]) for r in rows]
    arns = [endpoint["EndpointArn"], made["EndpointConfigArn"], *(p["InferenceComponentArn"] for p in parts)]
    namespace = {"ServiceNamespace": "sagemaker"}
    policies = scaling.describe_scaling_policies(**namespace)["ScalingPolicies"]
    alarms = [
        a for a in boto3.client("cloudwatch").describe_alarms()["MetricAlarms"] if not a["AlarmName"].startswith("TargetTr")
    ]
    by_arn = {p["PolicyARN"]: p["PolicyName"] for p in policies}
    state = {
        "endpoint": endpoint,
        "config": made,
        "components": parts,
        "tags": [
            sorted((t for t in sagemaker.list_tags(ResourceArn=arn)["Tags"] if t["Key"] != RESTORED_TAG), key=str) for arn in arns
        ],
        "targets": scaling.describe_scalable_targets(**namespace)["ScalableTargets"],
        "policies": policies,
        "actions": scaling.describe_scheduled_actions(**namespace)["ScheduledActions"],
        "alarms": alarms,
        "what the alarms set off": {a["AlarmName"]: [by_arn.get(one, one) for one in a["AlarmActions"]] for a in alarms},
    }
    return bare(state)


@pytest.mark.parametrize("config_deleted", [False, True], ids=["configuration kept", "configuration deleted meanwhile"])
def test_an_autoscaled_endpoint_of_two_variants_is_restored_in_full(account: Account, stage: Stage, config_deleted: bool):
    two_variants(account)
    before = everything()
    assert {v["VariantName"]: (v["CurrentInstanceCount"], v["CurrentWeight"]) for v in before["endpoint"]["ProductionVariants"]} == {
        "blue": (3, 4.0), "green": (1, 6.0)
    }  # fmt: skip
    message, manifest = stage.move("e", StepName.DELETE)
    assert (account.contents.endpoints, account.contents.scalable) == ({}, {})
    assert message == "it is being deleted with its autoscaling; its configuration e-config stays"
    assert "e-config" in account.contents.configs
    if config_deleted:
        account.contents.configs.clear()
    undone = stage.undo(manifest)
    after = everything()
    for part in before:
        assert after[part] == before[part], part
    assert undone.because == "it was recreated"
    assert undone.not_restored == ("The tags of its autoscaling are lost.",)


def test_another_run_restores_what_needs_the_endpoint_in_service(account: Account, stage: Stage, server: Server):
    two_variants(account)
    before = everything()
    _, manifest = stage.move("e", StepName.DELETE)
    server.world.settle_after = MINUTES
    first = stage.undo(manifest)
    assert first.not_restored[0] == (
        "Not restored yet: numbers of instances, autoscaling. Its status is Creating; run this again once the endpoint is in service."
    )
    assert account.contents.scalable == {}
    server.now = NOW + 2 * MINUTES
    second = stage.undo(manifest)
    assert "Its status is Updating" in second.not_restored[0]
    server.now = NOW + 4 * MINUTES
    assert "Not restored yet: the size of" not in " ".join(stage.undo(manifest).not_restored)
    server.now = NOW + 6 * MINUTES
    third = stage.undo(manifest)
    assert third.not_restored == ("The tags of its autoscaling are lost.",)
    assert everything() == before
    made = {
        name: len(stage.parameters(f"application-autoscaling:{name}")) for name in ("RegisterScalableTarget", "PutScalingPolicy")
    }
    assert stage.undo(manifest).not_restored == third.not_restored
    assert {name: len(stage.parameters(f"application-autoscaling:{name}")) for name in made} == made


def test_undoing_a_running_deletion_says_to_wait(account: Account, stage: Stage, server: Server):
    account.endpoint("e")
    server.world.settle_after = MINUTES
    _, manifest = stage.move("e", StepName.DELETE)
    with pytest.raises(CloudError, match="still being deleted; run this again once it is gone"):
        stage.undo(manifest)


def test_another_run_leaves_autoscaled_counts_alone(account: Account, stage: Stage):
    two_variants(account)
    _, manifest = stage.move("e", StepName.DELETE)
    stage.undo(manifest)
    account.contents.endpoints["e"].variants[0].count = 5
    stage.undo(manifest)
    assert account.contents.endpoints["e"].variants[0].count == 5


def test_a_new_endpoint_of_the_same_name_is_left_alone(account: Account, stage: Stage):
    account.endpoint("e")
    _, manifest = stage.move("e", StepName.DELETE)
    account.endpoint("e", variants=[Variant(count=4)])
    account.contents.endpoints["e"].config = "another"
    with pytest.raises(CloudError, match="left it alone"):
        stage.undo(manifest)
    assert account.contents.endpoints["e"].variants[0].count == 4


def test_a_recreated_configuration_is_not_used(account: Account, stage: Stage):
    account.endpoint("e")
    _, manifest = stage.move("e", StepName.DELETE)
    account.config("e-config", variants=[Variant(instance="ml.p4d.24xlarge")])
    with pytest.raises(CloudError, match="another configuration has the name"):
        stage.undo(manifest)
    assert account.contents.endpoints == {}


@pytest.mark.parametrize("when", ["before the sweep", "since the sweep"])
def test_an_endpoint_without_its_configuration_is_not_deleted(account: Account, stage: Stage, when: str):
    account.endpoint("e")
    resource = stage.resource("e")
    account.contents.configs.clear()
    if when == "before the sweep":
        with pytest.raises(Barred, match="can't be recreated"):
            stage.move("e", StepName.DELETE)
    else:
        with pytest.raises(CloudError, match="can't be recreated"):
            stage.manifest(resource, StepName.DELETE)
    assert "e" in account.contents.endpoints


@pytest.mark.parametrize("when", ["before the sweep", "since the sweep"])
def test_a_resource_without_its_model_is_not_deleted(account: Account, stage: Stage, when: str):
    account.endpoint("e")
    resource = stage.resource("e")
    account.contents.lost_models.add("model")
    if when == "before the sweep":
        assert stage.bar("e", StepName.DELETE) == "its model model is gone, so it can't be recreated"
    else:
        with pytest.raises(CloudError, match="its model model is gone"):
            stage.manifest(resource, StepName.DELETE)
    assert "e" in account.contents.endpoints


class Newer:
    """A session of a newer SDK: one operation shows a member that is new to us."""

    def __init__(self, cloud: CloudSession, operation: str) -> None:
        self._cloud, self._operation = cloud, operation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)

    def call(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any]:
        return self._cloud.call(service, operation, want, **params) | self._new(operation)

    def find(self, service: str, operation: str, want: str, **params: Any) -> dict[str, Any] | None:
        return self.call(service, operation, want, **params)

    def paged_rows(self, service: str, operation: str, *names: str, **params: Any) -> Iterator[dict[str, Any]]:
        return (row | self._new(operation) for row in self._cloud.paged_rows(service, operation, *names, **params))

    def _new(self, operation: str) -> dict[str, Any]:
        return {"QuantumConfig": {"Qubits": 4}} if operation == self._operation else {}


@pytest.mark.parametrize(
    "operation",
    [
        "DescribeEndpointConfig",
        "DescribeAlarms",
        "DescribeScalingPolicies",
        "DescribeScalableTargets",
        "DescribeScheduledActions",
    ],
)
def test_unknown_members_prevent_a_deletion(account: Account, stage: Stage, operation: str):
    two_variants(account)
    resource = stage.resource("e")
    with pytest.raises(CloudError, match="QuantumConfig, which this version can't restore"):
        registry.action_functions(KIND).read_undo_state(
            Newer(stage.cloud(), operation), resource, StepName.DELETE, NOTHING_EARLIER
        )  # type: ignore[arg-type]


def test_unknown_members_do_not_prevent_a_scale_in(account: Account, stage: Stage):
    two_variants(account)
    resource = stage.again(stage.resource("e")).resource
    record = registry.action_functions(KIND).read_undo_state(
        Newer(stage.cloud(), "DescribeAlarms"), resource, StepName.STOP, NOTHING_EARLIER
    )  # type: ignore[arg-type]
    assert record["wanted"] == {"endpoint/e/variant/blue": 1}


@pytest.mark.parametrize(
    "asynchronous", [{"asynchronous": True}, {"shadows": [Variant(name="shadow")]}], ids=["asynchronous", "shadow"]
)
def test_async_and_shadow_endpoints_are_restored(account: Account, stage: Stage, asynchronous: dict[str, Any]):
    account.endpoint("e", **asynchronous)
    before = everything()
    _, manifest = stage.move("e", StepName.DELETE)
    stage.undo(manifest)
    assert everything() == before


def test_serverless_is_restored_with_its_provisioned_concurrency(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(memory_mb=2048, provisioned=2)])
    variant = account.contents.endpoints["e"].variants[0]
    variant.serverless = {**(variant.serverless or {}), "ProvisionedConcurrency": 5}
    before = everything()
    _, manifest = stage.move("e", StepName.DELETE)
    stage.undo(manifest)
    assert everything() == before


def test_an_alarm_changed_since_keeps_the_change(account: Account, stage: Stage):
    two_variants(account)
    _, manifest = stage.move("e", StepName.DELETE)
    account.contents.alarms["step-blue-alarm"]["Threshold"] = 7.0
    account.contents.alarms["step-blue-alarm"]["AlarmActions"].append("arn:aws:sns:us-east-1:123456789012:pager")
    stage.undo(manifest)
    alarm = account.contents.alarms["step-blue-alarm"]
    arn = account.contents.scalable["endpoint/e/variant/blue", VARIANT].policies["step-blue"]["PolicyARN"]
    assert (alarm["Threshold"], alarm["AlarmActions"]) == (7.0, ["arn:aws:sns:us-east-1:123456789012:pager", arn])


def test_a_deleted_alarm_is_restored(account: Account, stage: Stage):
    two_variants(account)
    before = copy.deepcopy(account.contents.alarms["step-blue-alarm"])
    _, manifest = stage.move("e", StepName.DELETE)
    account.contents.alarms.clear()
    stage.undo(manifest)
    after = account.contents.alarms["step-blue-alarm"]
    assert {k: v for k, v in after.items() if k != "AlarmActions"} == {k: v for k, v in before.items() if k != "AlarmActions"}


MODERN = {
    "ActionConfiguration": {"AlarmTagsPropagation": {"Enabled": True}},
    "EvaluationWindow": {"SlidingWindow": {}},
    "EvaluationInterval": 30,
    "WarmUpConfiguration": {"WarmUpPeriodDurationInMinutes": 5},
}


@pytest.mark.parametrize("gone", [False, True], ids=["still there", "gone meanwhile"])
def test_an_alarm_is_restored_with_every_setting(account: Account, stage: Stage, gone: bool):
    two_variants(account)
    account.contents.alarms["step-blue-alarm"] |= MODERN
    _, manifest = stage.move("e", StepName.DELETE)
    if gone:
        account.contents.alarms.clear()
    stage.undo(manifest)
    alarm = account.contents.alarms["step-blue-alarm"]
    assert {name: alarm.get(name) for name in MODERN} == MODERN


def test_the_next_run_points_an_alarm_to_its_policy(account: Account, stage: Stage, server: Server):
    two_variants(account)
    _, manifest = stage.move("e", StepName.DELETE)
    server.rules.append(on("PutMetricAlarm", denied()))
    assert stage.undo(manifest).run_again
    server.rules.clear()
    assert not stage.undo(manifest).run_again
    arn = account.contents.scalable["endpoint/e/variant/blue", VARIANT].policies["step-blue"]["PolicyARN"]
    assert account.contents.alarms["step-blue-alarm"]["AlarmActions"] == [arn]


def test_lost_autoscaling_is_reported_and_the_rest_restored(account: Account, stage: Stage, server: Server):
    two_variants(account)
    _, manifest = stage.move("e", StepName.DELETE)
    server.rules.append(on("PutScalingPolicy", error(400, "ValidationException", "no")))
    undone = stage.undo(manifest)
    assert sum("couldn't be recreated" in text for text in undone.not_restored) == 4
    assert len(account.contents.scalable) == 2


@pytest.mark.parametrize(
    "operation", ["DeleteEndpoint", "DescribeScalableTargets", "ListTags", "DescribeModel", "DescribeScheduledActions"]
)
def test_a_denied_delete_is_reported_and_deletes_nothing(account: Account, stage: Stage, server: Server, operation: str):
    two_variants(account)
    resource = stage.again(stage.resource("e")).resource
    server.rules.append(on(operation, denied()))
    with pytest.raises(CloudError) as raised:
        stage.carry(resource, stage.manifest(resource, StepName.DELETE))
    assert (raised.value.missing or "").endswith(operation)
    assert (set(account.contents.endpoints), len(account.contents.scalable)) == ({"e"}, 2)


def test_models_and_configurations_are_never_deleted(account: Account, stage: Stage):
    two_variants(account)
    stage.move("e", StepName.DELETE)
    assert not stage.parameters("sagemaker:DeleteModel")
    assert not stage.parameters("sagemaker:DeleteEndpointConfig")
    assert account.contents.configs["e-config"].created < NOW - DAY
