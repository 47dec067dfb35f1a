from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws import autoscaling, scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import COPIES, VARIANT
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import Client

NAMED = {"ServiceNamespace": "sagemaker", "ResourceId": "endpoint/e/variant/AllTraffic", "ScalableDimension": VARIANT}


@pytest.fixture
def account(server: Server) -> Account:
    seeded = Account(server)
    seeded.endpoint("e", variants=[Variant(count=3)])
    return seeded


@pytest.fixture
def scaling(client: Client) -> Any:
    return client("application-autoscaling")


def test_only_a_new_scalable_target_needs_both_limits(account: Account, scaling: Any) -> None:
    with pytest.raises(ClientError, match="MinCapacity and MaxCapacity"):
        scaling.register_scalable_target(**NAMED, MinCapacity=1)
    scaling.register_scalable_target(**NAMED, MinCapacity=2, MaxCapacity=4)
    scaling.register_scalable_target(**NAMED, MinCapacity=1)
    [target] = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"MinCapacity": 5, "MaxCapacity": 4}, "Maximum capacity cannot be less"),
        ({"MinCapacity": 0, "MaxCapacity": 4}, "at least 1 for a real-time variant"),
        ({"ResourceId": "endpoint/none/variant/x", "MinCapacity": 1, "MaxCapacity": 4}, "No active resource"),
    ],
)
def test_contradictory_limits_are_refused(account: Account, scaling: Any, change: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        scaling.register_scalable_target(**{**NAMED, **change})


def test_a_new_target_needs_its_resource_in_service(account: Account, server: Server, scaling: Any) -> None:
    account.contents.endpoints["e"].status = "Creating"
    with pytest.raises(ClientError, match="No active resource"):
        scaling.register_scalable_target(**NAMED, MinCapacity=1, MaxCapacity=4)


def test_autoscaling_undoes_whatever_goes_below_its_minimum(account: Account, client: Client, scaling: Any) -> None:
    scaling.register_scalable_target(**NAMED, MinCapacity=2, MaxCapacity=4)
    client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName="e", DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 1}]
    )
    assert account.contents.endpoints["e"].variants[0].count == 2


def test_deleting_an_endpoint_removes_its_scalable_targets_only(account: Account, client: Client) -> None:
    named = scaled.variant(account, "e")
    scaled.track(account, named)
    scaled.wake(account, named)
    assert len(account.contents.alarms) == 2
    client("sagemaker").delete_endpoint(EndpointName="e")
    assert (account.contents.scalable, list(account.contents.alarms)) == ({}, ["wake-alarm"])


def test_policies_name_the_alarms_that_set_them_off(account: Account, client: Client, scaling: Any) -> None:
    scaled.wake(account, scaled.variant(account, "e"))
    [policy] = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert [a["AlarmName"] for a in policy["Alarms"]] == ["wake-alarm"]
    [alarm] = client("cloudwatch").describe_alarms(AlarmNames=["wake-alarm", "none"])["MetricAlarms"]
    assert alarm["AlarmActions"] == [policy["PolicyARN"]]


def test_lists_come_in_pages_of_fifty(account: Account, scaling: Any) -> None:
    for index in range(120):
        account.endpoint(f"n{index}")
        scaled.variant(account, f"n{index}")
    first = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")
    assert len(first["ScalableTargets"]) == 50
    pages = scaling.get_paginator("describe_scalable_targets").paginate(ServiceNamespace="sagemaker")
    assert sum(len(page["ScalableTargets"]) for page in pages) == 120


def test_the_policy_of_a_deleted_target_is_not_found(account: Account, scaling: Any) -> None:
    with pytest.raises(scaling.exceptions.ObjectNotFoundException):
        scaling.deregister_scalable_target(**NAMED)


def test_scalable_targets_of_other_services_are_motos(account: Account) -> None:
    assert {handler(account.contents, {"ServiceNamespace": "dynamodb"}) for handler in autoscaling.OPERATIONS.values()} == {None}


def test_an_endpoint_with_components_cannot_be_deleted(account: Account, server: Server, client: Client) -> None:
    server.world.settle_after = timedelta(minutes=1)
    account.endpoint("h", variants=[Variant(model=None, scaling=(0, 2))])
    account.component("c", "h")
    sagemaker = client("sagemaker")
    sagemaker.delete_inference_component(InferenceComponentName="c")
    with pytest.raises(ClientError, match="inference components attached"):
        sagemaker.delete_endpoint(EndpointName="h")
    server.now = server.now + timedelta(minutes=2)
    sagemaker.delete_endpoint(EndpointName="h")


def test_managed_instances_follow_the_copies(account: Account, client: Client) -> None:
    account.endpoint("h", variants=[Variant(model=None, scaling=(0, 2), count=2)])
    account.component("c", "h")
    scaled.copies(account, "c", least=1)
    sagemaker, host = client("sagemaker"), account.contents.endpoints["h"]
    sagemaker.update_inference_component_runtime_config(InferenceComponentName="c", DesiredRuntimeConfig={"CopyCount": 0})
    assert (account.contents.components["c"].copies, host.variants[0].count) == (1, 2), "held by autoscaling"
    account.contents.scalable["inference-component/c", COPIES].least = 0
    sagemaker.update_inference_component_runtime_config(InferenceComponentName="c", DesiredRuntimeConfig={"CopyCount": 0})
    assert (account.contents.components["c"].copies, host.variants[0].count) == (0, 0)


def test_the_model_of_a_configuration_exists_until_it_is_lost(account: Account, client: Client) -> None:
    sagemaker = client("sagemaker")
    assert sagemaker.describe_model(ModelName="model")["ModelName"] == "model"
    account.contents.lost_models.add("model")
    with pytest.raises(ClientError, match="Could not find model"):
        sagemaker.describe_model(ModelName="model")
