"""Endpoints, configurations and inference components: what they show, and what they refuse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

DAY = timedelta(days=1)
PLAIN = {
    "VariantName": "v",
    "ModelName": "m",
    "InstanceType": "ml.g6e.48xlarge",
    "InitialInstanceCount": 2,
    "InitialVariantWeight": 3,
}
HOST = {"VariantName": "v", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
ROLE = "arn:aws:iam::123456789012:role/r"


@pytest.fixture
def sagemaker(client: Client) -> Any:
    """The SageMaker client."""
    return client("sagemaker")


def refusal(call: Any, **params: Any) -> str:
    """Code and message of the refusal."""
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return f"{error['Code']}: {error['Message']}"


def test_an_endpoint_is_created_updated_and_deleted(sagemaker: Any) -> None:
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[PLAIN])
    arn = sagemaker.create_endpoint(EndpointName="MyEndpoint", EndpointConfigName="c", Tags=[{"Key": "a", "Value": "b"}])[
        "EndpointArn"
    ]
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:endpoint/MyEndpoint"
    reply = sagemaker.describe_endpoint(EndpointName="MyEndpoint")
    assert (reply["EndpointStatus"], reply["CreationTime"], reply["EndpointConfigName"]) == ("InService", NOW, "c")
    [variant] = reply["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"], variant["DesiredWeight"]) == (2, 3.0, 3.0)
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]
    sagemaker.delete_endpoint(EndpointName="MyEndpoint")
    gone = f'ValidationException: Could not find endpoint "{arn}".'
    assert refusal(sagemaker.describe_endpoint, EndpointName="MyEndpoint") == gone
    assert refusal(sagemaker.delete_endpoint, EndpointName="MyEndpoint") == gone
    assert (
        sagemaker.describe_endpoint_config(EndpointConfigName="c")["ProductionVariants"][0]["InstanceType"] == "ml.g6e.48xlarge"
    )


def test_describing_a_deleted_configuration_is_refused(sagemaker: Any, account: Account) -> None:
    account.endpoint("e", config_deleted=True)
    name = sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"]
    message = refusal(sagemaker.describe_endpoint_config, EndpointConfigName=name)
    assert message.startswith('ValidationException: Could not find endpoint configuration "arn:aws:sagemaker:')
    account.endpoint("f")
    sagemaker.delete_endpoint_config(EndpointConfigName="f-config")
    assert "Could not find" in refusal(sagemaker.describe_endpoint_config, EndpointConfigName="f-config")
    assert "Could not find" in refusal(sagemaker.create_endpoint, EndpointName="g", EndpointConfigName="f-config")


def test_creating_an_existing_name_is_refused(sagemaker: Any, account: Account) -> None:
    account.endpoint("e")
    assert "Cannot create already existing endpoint" in refusal(
        sagemaker.create_endpoint, EndpointName="e", EndpointConfigName="e-config"
    )
    again = refusal(sagemaker.create_endpoint_config, EndpointConfigName="e-config", ProductionVariants=[PLAIN])
    assert "Cannot create already existing endpoint configuration" in again


@pytest.mark.parametrize("status", ["Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"])
def test_an_endpoint_refuses_changes_while_it_is_changing(sagemaker: Any, account: Account, status: str) -> None:
    account.endpoint("e", status=status)
    text = "ValidationException: Cannot update in-progress endpoint"
    weights = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}]
    assert refusal(sagemaker.delete_endpoint, EndpointName="e").startswith(text)
    assert refusal(sagemaker.update_endpoint, EndpointName="e", EndpointConfigName="e-config").startswith(text)
    scaled = refusal(sagemaker.update_endpoint_weights_and_capacities, EndpointName="e", DesiredWeightsAndCapacities=weights)
    assert scaled.startswith(text)


def test_a_failed_endpoint_can_be_deleted(sagemaker: Any, account: Account) -> None:
    account.endpoint("e", status="Failed", variants=(), failure="No capacity.")
    reply = sagemaker.describe_endpoint(EndpointName="e")
    assert (reply["FailureReason"], "ProductionVariants" in reply) == ("No capacity.", False)
    sagemaker.delete_endpoint(EndpointName="e")
    assert sagemaker.list_endpoints()["Endpoints"] == []


def test_changes_last_as_long_as_the_world_says(server: Server, sagemaker: Any, account: Account) -> None:
    server.world.settle_after = timedelta(minutes=4)
    account.endpoint("e")
    sagemaker.create_endpoint_config(EndpointConfigName="next", ProductionVariants=[PLAIN])
    sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="next")
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"] == "Updating"
    server.now = NOW + timedelta(minutes=4)
    reply = sagemaker.describe_endpoint(EndpointName="e")
    assert (reply["EndpointStatus"], reply["EndpointConfigName"], reply["LastModifiedTime"]) == ("InService", "next", NOW)
    sagemaker.create_endpoint(EndpointName="new", EndpointConfigName="next")
    assert "ProductionVariants" not in sagemaker.describe_endpoint(EndpointName="new")
    sagemaker.delete_endpoint(EndpointName="e")
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"] == "Deleting"
    server.now = NOW + timedelta(minutes=9)
    assert [e["EndpointName"] for e in sagemaker.list_endpoints()["Endpoints"]] == ["new"]


def test_scaling_keeps_weights_and_refuses_zero_for_real_time_variants(sagemaker: Any, account: Account) -> None:
    account.endpoint("plain", variants=(Variant(name="a", weight=2), Variant(name="b")))
    account.endpoint("queued", asynchronous=True)
    scale = sagemaker.update_endpoint_weights_and_capacities
    scale(EndpointName="plain", DesiredWeightsAndCapacities=[{"VariantName": "a", "DesiredInstanceCount": 4}])
    shown = {v["VariantName"]: v for v in sagemaker.describe_endpoint(EndpointName="plain")["ProductionVariants"]}
    assert (shown["a"]["CurrentInstanceCount"], shown["a"]["CurrentWeight"], shown["b"]["CurrentInstanceCount"]) == (4, 2.0, 1)
    zero = [{"VariantName": "a", "DesiredInstanceCount": 0}]
    assert "ValidationException" in refusal(scale, EndpointName="plain", DesiredWeightsAndCapacities=zero)
    assert "ValidationException" in refusal(scale, EndpointName="plain", DesiredWeightsAndCapacities=[{"VariantName": "x"}])
    scale(EndpointName="queued", DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 0}])
    assert sagemaker.describe_endpoint(EndpointName="queued")["ProductionVariants"][0]["CurrentInstanceCount"] == 0


def test_a_call_takes_many_weights_or_the_capacity_of_one_variant(sagemaker: Any, account: Account) -> None:
    account.endpoint("e", variants=(Variant(name="a"), Variant(name="b")))
    scale = sagemaker.update_endpoint_weights_and_capacities
    weights = [{"VariantName": name, "DesiredWeight": 3.0} for name in ("a", "b")]
    two = [{"VariantName": name, "DesiredInstanceCount": 3} for name in ("a", "b")]
    for mixed in (two, [weights[0], two[1]]):
        assert "ValidationException" in refusal(scale, EndpointName="e", DesiredWeightsAndCapacities=mixed)
    assert [(v.count, v.weight) for v in account.contents.endpoints["e"].variants] == [(1, 1.0), (1, 1.0)]
    scale(EndpointName="e", DesiredWeightsAndCapacities=weights)
    scale(EndpointName="e", DesiredWeightsAndCapacities=two[:1])
    assert [(v.count, v.weight) for v in account.contents.endpoints["e"].variants] == [(3, 3.0), (1, 3.0)]


def test_each_sort_of_endpoint_has_its_own_description(sagemaker: Any, account: Account) -> None:
    account.endpoint("shadowed", shadows=(Variant(name="shadow"),))
    account.endpoint("queued", asynchronous=True)
    account.endpoint("serverless", variants=(Variant(memory_mb=2048, provisioned=3),))
    account.endpoint("host", variants=(Variant(model=None, scaling=(0, 4)),))
    account.endpoint("pooled", variants=(Variant(instance=None, count=3, pools=(("ml.g5.xlarge", 1), ("ml.g6.xlarge", 2))),))
    shown = {n: sagemaker.describe_endpoint(EndpointName=n) for n in ("shadowed", "queued", "serverless", "host", "pooled")}
    assert [v["VariantName"] for v in shown["shadowed"]["ShadowProductionVariants"]] == ["shadow"]
    assert shown["queued"]["AsyncInferenceConfig"]["OutputConfig"]
    serverless = shown["serverless"]["ProductionVariants"][0]
    assert serverless["CurrentServerlessConfig"] == {"MemorySizeInMB": 2048, "MaxConcurrency": 20, "ProvisionedConcurrency": 3}
    assert "CurrentInstanceCount" not in serverless
    host = shown["host"]["ProductionVariants"][0]
    assert (host["ManagedInstanceScaling"]["MinInstanceCount"], "DeployedImages" in host) == (0, False)
    assert "ModelName" not in sagemaker.describe_endpoint_config(EndpointConfigName="host-config")["ProductionVariants"][0]
    pools = shown["pooled"]["ProductionVariants"][0]["InstancePools"]
    assert [(p["InstanceType"], p["CurrentInstanceCount"]) for p in pools] == [("ml.g5.xlarge", 1), ("ml.g6.xlarge", 2)]
    config = sagemaker.describe_endpoint_config(EndpointConfigName="shadowed-config")
    assert config["ShadowProductionVariants"][0]["InstanceType"] == "ml.m5.large"


def test_only_hosts_of_components_scale_themselves(sagemaker: Any) -> None:
    managed = PLAIN | {"ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2}}
    create = sagemaker.create_endpoint_config
    refused = refusal(create, EndpointConfigName="c", ProductionVariants=[managed])
    assert "only supported for inference component endpoints" in refused
    assert "ExecutionRoleArn" in refusal(create, EndpointConfigName="c", ProductionVariants=[HOST])
    create(EndpointConfigName="c", ProductionVariants=[HOST], ExecutionRoleArn=ROLE)


def test_lists_come_in_pages_of_ten_unless_asked_otherwise(sagemaker: Any, account: Account) -> None:
    for i in range(25):
        account.endpoint(f"e{i:02d}", created=NOW - i * DAY)
    assert len(sagemaker.list_endpoints()["Endpoints"]) == 10
    pages = list(sagemaker.get_paginator("list_endpoints").paginate(MaxResults=7))
    assert [len(p["Endpoints"]) for p in pages] == [7, 7, 7, 4]
    assert [e["EndpointName"] for p in pages for e in p["Endpoints"]] == [f"e{i:02d}" for i in range(25)]
    assert "less than or equal to 100" in refusal(sagemaker.list_endpoints, MaxResults=101)
    assert "ValidationException" in refusal(sagemaker.list_endpoints, NextToken="made-up")
    other = sagemaker.list_endpoint_configs(MaxResults=5)["NextToken"]
    assert "ValidationException" in refusal(sagemaker.list_endpoints, NextToken=other)


def test_the_last_page_may_have_an_empty_token(server: Server, sagemaker: Any, account: Account) -> None:
    server.world.last_token = ""
    account.endpoint("e")
    assert sagemaker.list_endpoints()["NextToken"] == ""


def test_lists_filter_and_sort(sagemaker: Any, account: Account) -> None:
    account.endpoint("alpha", created=NOW - 9 * DAY, changed=NOW - DAY)
    account.endpoint("beta", created=NOW - 5 * DAY, status="Failed")

    def names(**params: Any) -> list[str]:
        return [e["EndpointName"] for e in sagemaker.list_endpoints(**params)["Endpoints"]]

    assert names() == ["beta", "alpha"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["alpha", "beta"]
    assert names(StatusEquals="Failed") == ["beta"]
    assert names(NameContains="alp") == ["alpha"]
    assert names(CreationTimeBefore=NOW - 6 * DAY) == ["alpha"]
    assert names(LastModifiedTimeAfter=NOW - 2 * DAY) == ["alpha"]


def test_names_that_differ_by_case_are_two_endpoints(sagemaker: Any, account: Account) -> None:
    account.endpoint("Demo", tags={"a": "1"})
    account.endpoint("demo", tags={"a": "2"})
    arns = {e["EndpointName"]: e["EndpointArn"] for e in sagemaker.list_endpoints()["Endpoints"]}
    assert {n: sagemaker.list_tags(ResourceArn=a)["Tags"][0]["Value"] for n, a in arns.items()} == {"Demo": "1", "demo": "2"}


def test_a_component_has_a_lower_case_arn_and_copies_that_may_go_to_zero(sagemaker: Any, account: Account) -> None:
    account.endpoint("Host", variants=(Variant(model=None),))
    spec = {"ModelName": "m", "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}}
    create = sagemaker.create_inference_component
    named = {"InferenceComponentName": "MyIC", "EndpointName": "Host", "Specification": spec}
    arn = create(**named, RuntimeConfig={"CopyCount": 2})["InferenceComponentArn"]
    assert arn.endswith(":inference-component/myic")
    [row] = sagemaker.list_inference_components(EndpointNameEquals="Host")["InferenceComponents"]
    assert (row["InferenceComponentName"], row["InferenceComponentArn"], row["EndpointName"]) == ("MyIC", arn, "Host")
    sagemaker.update_inference_component_runtime_config(InferenceComponentName="MyIC", DesiredRuntimeConfig={"CopyCount": 0})
    reply = sagemaker.describe_inference_component(InferenceComponentName="MyIC")
    assert reply["RuntimeConfig"] == {"DesiredCopyCount": 0, "CurrentCopyCount": 0}
    sagemaker.delete_inference_component(InferenceComponentName="MyIC")
    assert "Could not find" in refusal(sagemaker.describe_inference_component, InferenceComponentName="MyIC")


def test_a_component_refuses_changes_while_it_is_changing(sagemaker: Any, account: Account) -> None:
    account.endpoint("host", variants=(Variant(model=None),))
    account.component("ic", "host", status="Updating")
    account.component("adapter", "host", base="ic")
    assert "ValidationException" in refusal(sagemaker.delete_inference_component, InferenceComponentName="ic")
    wanted = {"InferenceComponentName": "ic", "DesiredRuntimeConfig": {"CopyCount": 0}}
    assert "ValidationException" in refusal(sagemaker.update_inference_component_runtime_config, **wanted)
    adapter = sagemaker.describe_inference_component(InferenceComponentName="adapter")
    assert (adapter["Specification"], "RuntimeConfig" in adapter) == ({"BaseInferenceComponentName": "ic"}, False)
