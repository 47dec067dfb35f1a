"""Every fault as botocore sees it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from botocore.parsers import ResponseParserError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import (
    Fault,
    cut,
    denied,
    empty,
    error,
    forbidden,
    garbage,
    latency,
    lost,
    on,
    partial,
    rate_limit,
    throttled,
)
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

SERVICES = {
    "sagemaker": "list_endpoints",
    "cloudwatch": "list_metrics",
    "resourcegroupstaggingapi": "get_resources",
    "logs": "describe_log_groups",
    "sns": "list_topics",
    "sts": "get_caller_identity",
    "s3": "list_buckets",
    "ec2": "describe_regions",
    "lambda": "list_functions",
    "dynamodb": "list_tables",
}


def refused(client: Client, service: str) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        getattr(client(service), SERVICES[service])()
    response: dict[str, Any] = dict(caught.value.response)
    return response


@pytest.mark.parametrize("service", SERVICES)
def test_access_denied_names_the_action_in_every_protocol(server: Server, client: Client, service: str) -> None:
    server.rules.append(on(".*", denied(resource="arn:aws:x:::y")))
    error = refused(client, service)["Error"]
    call = server.calls[-1]
    who = "User: arn:aws:sts::123456789012:assumed-role/reaper/x is not authorized to perform: "
    why = f" on resource: arn:aws:x:::y because no identity-based policy allows the {call.action} action"
    assert error["Message"] == f"{who}{call.action}{why}"
    own = {
        "sns": "AuthorizationError",
        "ec2": "UnauthorizedOperation",
        "cloudwatch": "AccessDenied",
        "sts": "AccessDenied",
        "s3": "AccessDenied",
    }
    assert error["Code"] == own.get(service, "AccessDeniedException")


@pytest.mark.parametrize("service", SERVICES)
def test_throttled_calls_are_retried_in_every_protocol(server: Server, client: Client, service: str) -> None:
    server.rules.append(on(".*", throttled(), times=1))
    getattr(client(service, attempts=3), SERVICES[service])()
    assert len(server.calls) == 2


@pytest.mark.parametrize("service", SERVICES)
def test_a_server_error_shows_its_status(server: Server, client: Client, service: str) -> None:
    server.rules.append(on(".*", error(503)))
    response = refused(client, service)
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == ("ServiceUnavailable", 503)


@pytest.mark.parametrize("service", SERVICES)
def test_a_cut_connection_ends_without_a_reply(server: Server, client: Client, service: str) -> None:
    server.rules.append(on(".*", cut(), times=1))
    with pytest.raises(ConnectionClosedError):
        getattr(client(service), SERVICES[service])()
    getattr(client(service), SERVICES[service])()


@pytest.mark.parametrize("service", SERVICES)
def test_garbage_never_looks_like_a_list(server: Server, client: Client, account: Account, service: str) -> None:
    account.endpoint("there")
    server.rules.append(on(".*", garbage()))
    try:
        reply = getattr(client(service), SERVICES[service])()
    except (ResponseParserError, ClientError):
        return
    assert set(reply) == {"ResponseMetadata"}


@pytest.mark.parametrize("service", SERVICES)
def test_an_empty_reply_has_no_members(server: Server, client: Client, account: Account, service: str) -> None:
    account.endpoint("there")
    server.rules.append(on(".*", empty()))
    reply = getattr(client(service), SERVICES[service])()
    assert not [key for key, value in reply.items() if key != "ResponseMetadata" and value]


def test_latency_delays_the_true_answer(server: Server, client: Client, account: Account) -> None:
    account.endpoint("slow")
    server.rules.append(on("ListEndpoints", latency(0.2)))
    before = time.monotonic()
    assert len(client("sagemaker").list_endpoints()["Endpoints"]) == 1
    assert time.monotonic() - before >= 0.2


def test_guards_are_asked_in_order_until_one_ends_the_call(server: Server, client: Client) -> None:
    operations: list[str] = []

    def watch(call: Call) -> Fault | None:
        operations.append(call.operation)
        return None

    server.rules[:] = [on("ListEndpoints", latency(0.01)), watch, on("ListEndpoints", denied()), watch]
    refused(client, "sagemaker")
    assert operations == ["ListEndpoints"]


def test_a_guard_matches_the_whole_operation_its_region_and_its_service(server: Server, client: Client) -> None:
    server.rules.append(on("List.*", denied(), region="eu-west-1", service="sagemaker"))
    client("sagemaker").list_endpoints()
    client("cloudwatch", "eu-west-1").list_metrics()
    with pytest.raises(ClientError):
        client("sagemaker", "eu-west-1").list_endpoints()
    server.rules[:] = [on("ListEndpoint", denied())]
    client("sagemaker").list_endpoints()


def test_a_fault_happens_as_often_as_requested(server: Server, client: Client) -> None:
    server.rules.append(on("ListEndpoints", error(500), times=2))
    client("sagemaker", attempts=3).list_endpoints()
    assert len(server.calls) == 3


def test_the_rate_limit_lets_a_burst_through_and_refills_over_time() -> None:
    seconds = [0.0]
    guard = rate_limit(5, burst=2, operation="List.*", clock=lambda: seconds[0])
    listing = Call(service="sagemaker", operation="ListEndpoints", region="us-east-1")
    assert [guard(listing) is None for _ in range(3)] == [True, True, False]
    seconds[0] = 0.21
    assert [guard(listing) is None for _ in range(2)] == [True, False]
    assert guard(Call(service="sagemaker", operation="DescribeEndpoint", region="us-east-1")) is None


def metric_data(client: Client) -> dict[str, Any]:
    queries = [
        {"Id": name.lower(), "MetricStat": {"Metric": {"Namespace": "N", "MetricName": name}, "Period": 3600, "Stat": "Sum"}}
        for name in ("Hits", "Cpu")
    ]
    reply = client("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=NOW - timedelta(hours=10), EndTime=NOW)
    return {row["Id"]: row for row in reply["MetricDataResults"]}


def test_partial_data_is_cut_short_and_marked(server: Server, client: Client, account: Account) -> None:
    for name in ("Hits", "Cpu"):
        account.steady("N", name, {}, NOW - timedelta(hours=10), NOW, 1)
    server.rules.append(on("GetMetricData", partial("Hits")))
    rows = metric_data(client)
    assert (rows["hits"]["StatusCode"], len(rows["hits"]["Values"]), len(rows["hits"]["Timestamps"])) == ("PartialData", 5, 5)
    assert rows["hits"]["Messages"]
    assert (rows["cpu"]["StatusCode"], len(rows["cpu"]["Values"])) == ("Complete", 10)


def test_forbidden_metrics_come_without_values(server: Server, client: Client, account: Account) -> None:
    for name in ("Hits", "Cpu"):
        account.steady("N", name, {}, NOW - timedelta(hours=10), NOW, 1)
    server.rules.append(on("GetMetricData", forbidden("Cpu")))
    rows = metric_data(client)
    assert (rows["cpu"]["StatusCode"], rows["cpu"]["Values"]) == ("Forbidden", [])
    assert rows["hits"]["StatusCode"] == "Complete"


@pytest.mark.parametrize("service", ["sns", "sagemaker"])
def test_a_lost_reply_follows_a_call_that_took_effect(server: Server, client: Client, account: Account, service: str) -> None:
    account.endpoint("e")
    server.rules.append(on("CreateTopic|DeleteEndpoint", lost(), times=1))
    with pytest.raises(ConnectionClosedError):
        client("sns").create_topic(Name="t") if service == "sns" else client("sagemaker").delete_endpoint(EndpointName="e")
    remaining = client("sns").list_topics()["Topics"] if service == "sns" else client("sagemaker").list_endpoints()["Endpoints"]
    assert len(remaining) == (1 if service == "sns" else 0)


def test_the_retry_after_a_lost_reply_meets_the_update_that_it_began(server: Server, client: Client, account: Account) -> None:
    account.endpoint("e")
    server.world.settle_after = timedelta(minutes=10)
    server.rules.append(on("UpdateEndpointWeightsAndCapacities", lost(), times=1))
    wanted = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint") as raised:
        client("sagemaker", attempts=3).update_endpoint_weights_and_capacities(
            EndpointName="e", DesiredWeightsAndCapacities=wanted
        )
    assert raised.value.response["ResponseMetadata"]["RetryAttempts"] == 1
    assert account.contents.endpoints["e"].variants[0].count == 3
