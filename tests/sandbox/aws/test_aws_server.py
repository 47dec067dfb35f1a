"""The server: what it records, what it leads SDKs to, and how it keeps accounts, regions and runs apart."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import query_params
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client


def test_the_environment_leads_boto3_here(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    assert boto3.Session().client("sts").get_caller_identity()["Account"] == "123456789012"
    assert [c.action for c in server.calls] == ["sts:GetCallerIdentity"]


CALLS: list[Any] = [
    pytest.param("sagemaker", "list_endpoints", {"MaxResults": 7}, "sagemaker:ListEndpoints", "json", id="json"),
    pytest.param("cloudwatch", "list_metrics", {"Namespace": "N"}, "cloudwatch:ListMetrics", "json", id="cloudwatch"),
    pytest.param("resourcegroupstaggingapi", "get_resources", {"ResourcesPerPage": 9}, "tag:GetResources", "json", id="tagging"),
    pytest.param("sns", "list_topics", {"NextToken": "1"}, "sns:ListTopics", "query", id="query"),
    pytest.param("ec2", "describe_regions", {}, "ec2:DescribeRegions", "ec2", id="ec2"),
    pytest.param("s3", "get_object", {"Bucket": "bucket", "Key": "a/b"}, "s3:GetObject", "rest-xml", id="rest-xml"),
    pytest.param("s3", "list_objects_v2", {"Bucket": "bucket", "EncodingType": "url"}, "s3:ListBucket", "rest-xml", id="an action of another name"),
    pytest.param("lambda", "invoke", {"FunctionName": "f"}, "lambda:InvokeFunction", "rest-json", id="rest-json"),
    pytest.param("scheduler", "get_schedule", {"Name": "s"}, "scheduler:GetSchedule", "rest-json", id="scheduler"),
    pytest.param("sesv2", "get_account", {}, "ses:GetAccount", "rest-json", id="sesv2"),
    pytest.param("ssm", "get_parameter", {"Name": "/x"}, "ssm:GetParameter", "json", id="ssm"),
    pytest.param("application-autoscaling", "describe_scalable_targets", {"ServiceNamespace": "sagemaker"},
                 "application-autoscaling:DescribeScalableTargets", "json", id="autoscaling"),
]  # fmt: skip


@pytest.mark.parametrize(("service", "method", "params", "action", "protocol"), CALLS)
def test_every_protocol_is_recorded(
    server: Server, client: Client, service: str, method: str, params: dict[str, Any], action: str, protocol: str
) -> None:
    try:
        getattr(client(service), method)(**params)
    except ClientError as error:
        assert error.response["Error"]["Code"] not in ("500", "InternalFailure")  # noqa: PT017
    call = server.calls[-1]
    if service in ("cloudwatch", "resourcegroupstaggingapi"):  # which one they speak depends on the SDK's version
        protocol = call.protocol
    assert (call.action, call.protocol, call.region, call.account) == (action, protocol, "us-east-1", "123456789012")
    assert call.params == params


def test_a_query_form_is_read_into_nested_parameters() -> None:
    form = "Action=Publish&Version=1&Tags.member.1.Key=a&Tags.member.2.Key=b&RegionName.1=x&Attributes.entry.1.Value.Type=String"
    expected = {
        "Action": "Publish",
        "Tags": [{"Key": "a"}, {"Key": "b"}],
        "RegionName": ["x"],
        "Attributes": [{"Value": {"Type": "String"}}],
    }
    assert query_params(form) == expected


def test_a_compressed_body_is_read(server: Server, client: Client, account: Account) -> None:
    data = [
        {"MetricName": f"m{i}", "Value": 1.0, "Timestamp": NOW, "Dimensions": [{"Name": "n" * 60, "Value": "v"}]}
        for i in range(200)
    ]
    client("cloudwatch").put_metric_data(Namespace="Mine", MetricData=data)
    assert len(server.calls[-1].params["MetricData"]) == 200


def test_an_assumed_role_sees_its_own_account_only(server: Server, client: Client) -> None:
    Account(server, "123456789012").endpoint("home")
    Account(server, "210987654321").endpoint("away")
    reply = client("sts").assume_role(RoleArn="arn:aws:iam::210987654321:role/reaper", RoleSessionName="reaper")["Credentials"]
    away = client(
        "sagemaker",
        aws_access_key_id=reply["AccessKeyId"],
        aws_secret_access_key=reply["SecretAccessKey"],
        aws_session_token=reply["SessionToken"],
    )
    assert [e["EndpointName"] for e in away.list_endpoints()["Endpoints"]] == ["away"]
    assert server.calls[-1].account == "210987654321"
    assert [e["EndpointName"] for e in client("sagemaker").list_endpoints()["Endpoints"]] == ["home"]


def test_regions_share_nothing(server: Server, client: Client) -> None:
    Account(server, region="eu-west-1").endpoint("irish")
    assert client("sagemaker").list_endpoints()["Endpoints"] == []
    [row] = client("sagemaker", "eu-west-1").list_endpoints()["Endpoints"]
    assert row["EndpointArn"] == "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/irish"


def test_moto_answers_all_other_services(client: Client) -> None:
    s3, ssm, table = client("s3"), client("ssm"), client("dynamodb")
    s3.create_bucket(Bucket="reports")
    s3.put_object(Bucket="reports", Key="2026/r.json", Body=b"{}")
    assert s3.get_object(Bucket="reports", Key="2026/r.json")["Body"].read() == b"{}"
    ssm.put_parameter(Name="/policy", Value="version: 1", Type="String")
    assert ssm.get_parameter(Name="/policy")["Parameter"]["Value"] == "version: 1"
    table.create_table(
        TableName="ledger",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    table.put_item(TableName="ledger", Item={"id": {"S": "a"}})
    assert table.get_item(TableName="ledger", Key={"id": {"S": "a"}})["Item"] == {"id": {"S": "a"}}
    topic = client("sns").create_topic(Name="summary")["TopicArn"]
    assert client("sns").publish(TopicArn=topic, Message="hello")["MessageId"]
    sagemaker = client("sagemaker")
    sagemaker.create_model(ModelName="m", ExecutionRoleArn="arn:aws:iam::123456789012:role/r", PrimaryContainer={"Image": "i"})
    assert [m["ModelName"] for m in sagemaker.list_models()["Models"]] == ["m"]


def test_cloudformation_deploys_here(client: Client) -> None:
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "from-a-stack"}}}}
    client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(template))
    assert any("from-a-stack" in t["TopicArn"] for t in client("sns").list_topics()["Topics"])


def test_an_unknown_operation_is_refused_at_once(client: Client) -> None:
    with pytest.raises(ClientError, match="UnknownOperationException"):
        client("sagemaker").list_partner_apps()


def test_nothing_survives_the_server(session: boto3.Session) -> None:
    for _ in range(2):
        with Server(NOW) as server:
            sns = session.client("sns", endpoint_url=server.url)
            assert sns.list_topics()["Topics"] == []
            sns.create_topic(Name="left-behind")


def test_the_clock_can_be_stepped(server: Server, account: Account, client: Client) -> None:
    server.world.settle_after = timedelta(minutes=5)
    account.notebook("nb")
    sagemaker = client("sagemaker")
    sagemaker.stop_notebook_instance(NotebookInstanceName="nb")
    assert sagemaker.describe_notebook_instance(NotebookInstanceName="nb")["NotebookInstanceStatus"] == "Stopping"
    server.now = NOW + timedelta(minutes=5)
    described = sagemaker.describe_notebook_instance(NotebookInstanceName="nb")
    assert (described["NotebookInstanceStatus"], described["LastModifiedTime"]) == ("Stopped", NOW)


def test_many_threads_are_answered_at_once_and_all_recorded(server: Server, account: Account, client: Client) -> None:
    account.endpoint("e")
    sagemaker = client("sagemaker")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"], range(100)))
    assert (set(replies), len(server.calls)) == ({"InService"}, 100)


def test_without_a_set_time_the_clock_is_real() -> None:
    server = Server()
    assert server.now.tzinfo is not None
    assert server.now <= server.now
