"""The rights that the unattended page gives to a pipeline: enough for every resource of the stack, and nothing of what it keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import boto3
import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from moto import mock_aws

from deploy import policies, sam
from deploy.translate import translate

UNATTENDED = (sam.ROOT / "docs/deploy-aws-unattended.md").read_text()
TRUST, RIGHTS = (
    block.replace("ACCOUNT", policies.ACCOUNT).replace("REGION", policies.REGION)
    for block in re.findall(r"```json\n(.*?)```", UNATTENDED, re.DOTALL)
)
HERE = f"{policies.REGION}:{policies.ACCOUNT}"
ROLE = f"arn:aws:iam::{policies.ACCOUNT}:role/ml-idle-reaper-SweepRole-1A2B"
FUNCTION = f"arn:aws:lambda:{HERE}:function:ml-idle-reaper-SweepFunction-1A2B"
TOPIC, BUCKET = f"arn:aws:sns:{HERE}:ml-idle-reaper-SummaryTopic-1A2B", "arn:aws:s3:::ml-idle-reaper-reportbucket-1a2b"
ARNS = {
    "AWS::CloudWatch::Alarm": f"arn:aws:cloudwatch:{HERE}:alarm:ml-idle-reaper-ErrorAlarm-1A2B",
    "AWS::CloudWatch::Dashboard": f"arn:aws:cloudwatch::{policies.ACCOUNT}:dashboard/ml-idle-reaper-{policies.REGION}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{HERE}:table/ml-idle-reaper-LedgerTable-1A2B",
    "AWS::Events::EventBus": f"arn:aws:events:{HERE}:event-bus/ml-idle-reaper-alarms",
    "AWS::Events::EventBusPolicy": f"arn:aws:events:{HERE}:event-bus/ml-idle-reaper-alarms",
    "AWS::Events::Rule": f"arn:aws:events:{HERE}:rule/ml-idle-reaper-AlarmRule-1A2B",
    "AWS::IAM::ManagedPolicy": f"arn:aws:iam::{policies.ACCOUNT}:policy/ml-idle-reaper-AuditPolicy-1A2B",
    "AWS::IAM::Role": ROLE,
    "AWS::Lambda::EventInvokeConfig": FUNCTION,
    "AWS::Lambda::EventSourceMapping": f"arn:aws:lambda:{HERE}:event-source-mapping:0f2c",
    "AWS::Lambda::Function": FUNCTION,
    "AWS::Lambda::Permission": FUNCTION,
    "AWS::Lambda::Url": FUNCTION,
    "AWS::Logs::LogGroup": f"arn:aws:logs:{HERE}:log-group:ml-idle-reaper-SweepLogs-1A2B",
    "AWS::S3::Bucket": BUCKET,
    "AWS::S3::BucketPolicy": BUCKET,
    "AWS::SNS::Subscription": TOPIC,
    "AWS::SNS::Topic": TOPIC,
    "AWS::SNS::TopicPolicy": TOPIC,
    "AWS::SQS::Queue": f"arn:aws:sqs:{HERE}:ml-idle-reaper-AlarmQueue-1A2B",
    "AWS::SQS::QueuePolicy": f"arn:aws:sqs:{HERE}:ml-idle-reaper-AlarmQueue-1A2B",
    "AWS::Scheduler::Schedule": f"arn:aws:scheduler:{HERE}:schedule/default/ml-idle-reaper-SweepFunctionClock-1A2B",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{HERE}:stateMachine:ml-idle-reaper-sweep",
    "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{HERE}:secret:SnoozeSecret-1A2B",
}
"""What CloudFormation names a resource of each type. A secret is named without the stack."""
UNSCOPED = {"cloudwatch:DescribeAlarms", "logs:DescribeLogGroups", "logs:DescribeResourcePolicies", "logs:DescribeIndexPolicies"}
UNSCOPED |= {
    "secretsmanager:GetRandomPassword",
    "sns:Unsubscribe",
    "sns:GetSubscriptionAttributes",
    "sns:SetSubscriptionAttributes",
}
"""Asked of no resource, or of one that has not got the stack's name."""
OF_OTHERS = r"(ec2|elasticfilesystem|firehose|kinesis|kms|s3files|s3tables):|iam:(Attach|Detach)(User|Group)Policy|iam:CreateServiceLinkedRole"
ITEMS = r"dynamodb:(Scan|Query|\w*Item|ImportTable|\w*TableReplica|DeleteResourcePolicy|PutResourcePolicy|\w*Kinesis\w*|UpdateContributorInsights)$"
OBJECTS = r"s3:(Get|Put|Delete)Object(Acl|Version|Metadata)?$|s3:REST"
REPLICAS = r"secretsmanager:(ReplicateSecretToRegions|RemoveRegionsFromReplication)$"
UNUSED = re.compile(
    f"{OF_OTHERS}|{ITEMS}|{OBJECTS}|{REPLICAS}|lambda:(GetCodeSigningConfig|GetLayerVersion|PassCapacityProvider)"
)
"""What AWS lists for features that the template has not: replicas, imports, streams, layers, networks; keys have a statement of their own."""


def needed() -> Iterator[tuple[str, str, str]]:
    """Type, action and resource of all that AWS says CloudFormation calls to make, change, read and remove what the template has."""
    stack = translate(sam.ROOT / "template.yaml")
    for type_ in sorted({r["Type"] for r in stack["Resources"].values()}):
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(policies.REGION, type_).schema["handlers"]
        for action in sorted({a for verb in set(handlers) - {"list"} for a in handlers[verb]["permissions"]}):
            if not UNUSED.match(action) and (action.startswith("iam:") or action.split(":")[0] in ARNS[type_]):
                yield type_, action, resource(type_, action)


def resource(type_: str, action: str) -> str:
    """What an action is asked of."""
    return "*" if action in UNSCOPED else ROLE if action.startswith("iam:") and "Role" in action else ARNS[type_]


@pytest.mark.parametrize("type_", sorted(ARNS))
def test_a_pipeline_may_make_change_and_remove_what_the_stack_has(type_: str):
    allowed = {"iam:PassedToService": "lambda.amazonaws.com", "lambda:FunctionArn": FUNCTION}
    questions = [(action, on) for of, action, on in needed() if of == type_]
    assert len(questions) > 0
    denied = [ask for ask in questions if not policies.evaluate([json.loads(RIGHTS)], *ask, allowed)]
    assert denied == []


@pytest.mark.parametrize(
    ("action", "on"),
    [
        ("ssm:PutParameter", f"arn:aws:ssm:{HERE}:parameter/ml-idle-reaper/policy"),
        ("s3:PutObject", "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-1a2b/ml-idle-reaper/code"),
        ("s3:GetObject", "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-1a2b/ml-idle-reaper/code"),
        ("cloudformation:DescribeStacks", f"arn:aws:cloudformation:{HERE}:stack/aws-sam-cli-managed-default/1a2b"),
        ("cloudformation:CreateChangeSet", f"arn:aws:cloudformation:{HERE}:stack/ml-idle-reaper/1a2b"),
        ("cloudformation:CreateChangeSet", "arn:aws:cloudformation:us-east-1:aws:transform/Serverless-2016-10-31"),
        ("cloudformation:GetTemplateSummary", "*"),
        ("events:PutRule", f"arn:aws:events:{HERE}:rule/ml-idle-reaper-alarms/ml-idle-reaper-ForwardedAlarmRule-1A2B"),
        ("iam:CreateRole", f"arn:aws:iam::{policies.ACCOUNT}:role/ml-idle-reaper/ml-idle-reaper-SweepRole-1A2B"),
        ("logs:CreateLogGroup", f"arn:aws:logs:{HERE}:log-group:/aws/vendedlogs/states/ml-idle-reaper-sweep"),
    ],
)
def test_a_pipeline_may_do_what_sam_and_its_own_steps_do(action: str, on: str):
    assert policies.evaluate([json.loads(RIGHTS)], action, on, {})


@pytest.mark.parametrize(
    ("action", "on", "names"),
    [
        ("dynamodb:PutItem", ARNS["AWS::DynamoDB::Table"], {}),
        ("dynamodb:GetItem", ARNS["AWS::DynamoDB::Table"], {}),
        ("s3:GetObject", f"{BUCKET}/manifests/1/a.json", {}),
        ("s3:DeleteObjectVersion", f"{BUCKET}/manifests/1/a.json", {}),
        ("iam:PassRole", ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}),
        ("iam:PutRolePolicy", f"arn:aws:iam::{policies.ACCOUNT}:role/deploy-ml-idle-reaper", {}),
        ("iam:CreateUser", f"arn:aws:iam::{policies.ACCOUNT}:user/ml-idle-reaper-me", {}),
        ("lambda:UpdateFunctionCode", f"arn:aws:lambda:{HERE}:function:somebody-elses", {}),
        ("lambda:DeleteEventSourceMapping", "*", {"lambda:FunctionArn": f"arn:aws:lambda:{HERE}:function:somebody-elses"}),
        ("events:PutPermission", f"arn:aws:events:{HERE}:event-bus/default", {}),
        ("cloudformation:DeleteStack", f"arn:aws:cloudformation:{HERE}:stack/somebody-elses/1", {}),
        ("sagemaker:StopNotebookInstance", f"arn:aws:sagemaker:{HERE}:notebook-instance/a", {}),
    ],
)
def test_a_pipeline_may_not_touch_what_is_kept_or_another_s(action: str, on: str, names: dict[str, str]):
    assert not policies.evaluate([json.loads(RIGHTS)], action, on, names)


def test_iam_takes_the_pipelines_role_as_the_page_makes_it():
    [commands] = [b for b in re.findall(r"```sh\n(.*?)```", UNATTENDED, re.DOTALL) if "create-role" in b]
    [name] = re.findall(r"--role-name (\S+) --assume", commands)
    assert f"role/{name}" in UNATTENDED, "which the workflow takes on"
    with mock_aws():
        iam = boto3.client("iam", region_name=policies.REGION)
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)
        iam.put_role_policy(RoleName=name, PolicyName="deploy", PolicyDocument=RIGHTS)
        assert iam.get_role_policy(RoleName=name, PolicyName="deploy")["PolicyDocument"] == json.loads(RIGHTS)
    assert len(re.sub(r"\s", "", RIGHTS)) <= 10_240, "all that a role takes inline, white space not counted"
