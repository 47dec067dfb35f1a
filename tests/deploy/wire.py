"""What IAM is asked when a call comes over the wire: the action, the ARN, and the condition keys the service fills in.

The keys of DynamoDB count the names in update and condition expressions and those of the key, too:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html. What an AWS service asks of KMS on the
caller's behalf never comes over this wire, so it is derived from the call that makes it necessary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import parseaddr
from typing import Any

from deploy.policies import ACCOUNT, Policies, Question
from deploy.test_template import NAMES, SAGEMAKER
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, Guard, denied
from reaper_sandbox.aws.fleet import SEEDING
from reaper_sandbox.aws.server import Server

EXPRESSIONS = ("UpdateExpression", "ConditionExpression", "ProjectionExpression", "KeyConditionExpression")
WORDS = {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "IN", "BETWEEN"}
NAME = re.compile(r"(?<![:#\w])(?:#\w+|[A-Za-z_]\w*)\b(?!\s*\()")
"""A name or its placeholder in an expression: no value (`:now`) and no function (`attribute_not_exists(`)."""


def guard(server: Server, rights: Policies) -> Guard:
    """A rule for the server that lets pass what these policies allow."""

    def rule(call: Call) -> Fault | None:
        return None if pass_all(rights, questions(server, call)) else denied()

    return rule


def pass_all(rights: Policies, questions: list[Question]) -> bool:
    """Whether all questions of one call are allowed; every one is asked."""
    answers = [rights.allow(*question) for question in questions]
    return all(answers)


def questions(server: Server, call: Call) -> list[Question]:
    """All that IAM is asked for one call: its own action first, then what the service needs besides."""
    known = context(server, call)
    own = (call.action, asked_of(call), known)
    more = [(call.action, NAMES["SesConfigurationSet"], known)] if "ConfigurationSetName" in call.params else []
    return [own, *more, *_keys(call, own[1])]


def asked_of(call: Call) -> str:
    """The ARN that IAM would see."""
    parameters, stem = call.params, _stem(call)
    if call.service == "dynamodb":
        return NAMES["LedgerTable.Arn"]
    if call.service == "ses":
        return NAMES["SesIdentity"]
    if call.service == "secretsmanager":
        return _secret(parameters["SecretId"])
    if call.action == "sts:AssumeRole":
        return str(parameters["RoleArn"])
    if call.operation in {"RegisterScalableTarget", "DeregisterScalableTarget"}:
        return f"arn:aws:application-autoscaling:{call.region}:{call.account}:scalable-target/0ec5"
    if call.service == "sagemaker" and "ResourceArn" in parameters:
        return str(parameters["ResourceArn"])
    if call.action == "bedrock:ListTagsForResource":
        return str(parameters["resourceARN"])
    if call.operation == "DeleteApp":
        home = parameters.get("SpaceName") or parameters["UserProfileName"]
        return f"{stem}app/{parameters['DomainId']}/{home}/{parameters['AppType']}/{parameters['AppName']}"
    if call.service == "sagemaker" and not call.operation.startswith("List"):
        seeded = ((module.NAMED_BY, module.ARN_TYPE) for module in SEEDING)
        for key, type_ in (("NotebookInstanceName", "notebook-instance"), ("ModelName", "model"), *seeded):
            if key in parameters:
                return f"{stem}{type_}/{parameters[key]}"
        if call.operation in {"DeleteEndpoint", "UpdateEndpointWeightsAndCapacities"}:
            return f"{stem}endpoint/{parameters['EndpointName'].lower()}"
        if "InferenceComponentName" in parameters:
            return f"{stem}inference-component/{parameters['InferenceComponentName'].lower()}"
    return _read(call)


def _read(call: Call) -> str:
    """The same for what an audit does; `*` where the action knows no resource."""
    stem, parameters = _stem(call), call.params
    match call.action:
        case "sagemaker:DescribeEndpoint":
            return f"{stem}endpoint/{parameters['EndpointName'].lower()}"
        case "sagemaker:DescribeEndpointConfig":
            return f"{stem}endpoint-config/{parameters['EndpointConfigName'].lower()}"
        case "sagemaker:DescribeInferenceComponent":
            return f"{stem}inference-component/{parameters['InferenceComponentName'].lower()}"
        case "sagemaker:DescribeApp":
            home = parameters.get("SpaceName") or parameters["UserProfileName"]
            return f"{stem}app/{parameters['DomainId']}/{home}/{parameters['AppType']}/{parameters['AppName']}"
        case "cloudwatch:DescribeAlarms":
            return f"arn:aws:cloudwatch:{call.region}:{call.account}:alarm:{parameters['AlarmNames'][0]}"
        case "logs:DescribeLogStreams":
            return f"arn:aws:logs:{call.region}:{call.account}:log-group:{parameters['logGroupName']}:log-stream:"
        case "sns:Publish":
            return str(parameters["TopicArn"])
        case "s3:PutObject" | "s3:GetObject":
            return f"arn:aws:s3:::{parameters['Bucket']}/{parameters['Key']}"
        case "s3:ListBucket":
            return f"arn:aws:s3:::{parameters['Bucket']}"
        case "states:StartExecution" | "states:DescribeExecution":
            return str(parameters.get("executionArn") or parameters["stateMachineArn"])
        case "lambda:InvokeFunction":
            return str(parameters["FunctionName"])
        case "organizations:ListAccountsForParent" | "organizations:ListOrganizationalUnitsForParent":
            return f"arn:aws:organizations::{call.account}:ou/o-sandbox1234/{parameters['ParentId']}"
        case "ssm:GetParameter":
            return f"arn:aws:ssm:{call.region}:{call.account}:parameter{parameters['Name']}"
        case "ssm:GetDocument":
            return f"arn:aws:ssm:{call.region}:{call.account}:document/{parameters['Name']}"
        case "ssm:GetCalendarState":
            return f"arn:aws:ssm:{call.region}:{call.account}:document/{parameters['CalendarNames'][0]}"
    return "*"


def _stem(call: Call) -> str:
    """How the ARNs of SageMaker resources begin where the call goes."""
    return SAGEMAKER.replace("us-east-1", call.region).replace(ACCOUNT, call.account)


def _secret(name: str) -> str:
    if name.startswith("arn:"):
        return name
    stem = "arn:aws:secretsmanager:us-east-1:123456789012:secret"
    return NAMES["SnoozeSecret"] if name == "snooze" else f"{stem}:{name}-AbCdEf"


def context(server: Server, call: Call) -> dict[str, str | list[str]]:
    """What IAM knows of the request besides: where it goes, the resource's own tags, and what each service adds."""
    arn = asked_of(call).lower()
    shelves = server.world.region(call.account, call.region).shelves().values()
    tags = next((record.tags for shelf in shelves for record in shelf.values() if record.arn.lower() == arn), None) or {}
    keys: dict[str, str | list[str]] = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    keys["aws:RequestedRegion"] = call.region
    if "ServiceNamespace" in call.params:
        keys["application-autoscaling:service-namespace"] = call.params["ServiceNamespace"]
    if "if-none-match" in call.headers:
        keys["s3:if-none-match"] = call.headers["if-none-match"]
    if "Prefix" in call.params:
        keys["s3:prefix"] = call.params["Prefix"]
    if "FromEmailAddress" in call.params:
        keys["ses:FromAddress"] = parseaddr(call.params["FromEmailAddress"])[1]
    return keys | (table_keys(call.params) if call.service == "dynamodb" else {})


def table_keys(parameters: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """DynamoDB's condition keys for the parameters of a request. A read without a projection names no attributes."""
    batch = [key for part in parameters.get("RequestItems", {}).values() for key in part["Keys"]]
    keys = [key for key in (parameters.get("Key"), parameters.get("Item"), *batch) if key]
    leading = [key["pk"]["S"] for key in keys] or [parameters["ExpressionAttributeValues"][":pk"]["S"]]
    context_keys: dict[str, str | list[str]] = {"dynamodb:LeadingKeys": leading}
    names = sorted({*parameters.get("Item", {}), *_named(parameters)})
    if names:
        context_keys["dynamodb:Attributes"] = sorted({*names, *parameters.get("Key", {})})
    return context_keys | {f"dynamodb:{key}": parameters[key] for key in ("ReturnValues", "Select") if key in parameters}


def _named(parameters: Mapping[str, Any]) -> Iterator[str]:
    places = parameters.get("ExpressionAttributeNames", {})
    for expression in EXPRESSIONS:
        for word in NAME.findall(parameters.get(expression, "")):
            if word not in WORDS:
                yield places[word] if word.startswith("#") else word


def _keys(call: Call, arn: str) -> Iterator[Question]:
    """What the service that is called asks of the key that encrypts there, in the caller's name."""
    where = {"kms:ViaService": f"{call.service}.{call.region}.amazonaws.com"}
    for action in _encrypted(call.action, arn):
        yield action, NAMES["KmsKey"] if _ours(arn) else NAMES["ChannelKeys"][0], where


def _ours(arn: str) -> bool:
    return arn in {NAMES["LedgerTable.Arn"], NAMES["SummaryTopic"], NAMES["SnoozeSecret"]} or arn.startswith("arn:aws:s3:")


def _encrypted(action: str, arn: str) -> tuple[str, ...]:
    """A bucket that isn't the stack's has no key here. https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html, .../AmazonS3/latest/userguide/UsingKMSEncryption.html"""
    arns: dict[str, tuple[str, ...]] = {
        "dynamodb": ("kms:Decrypt",),
        "secretsmanager": ("kms:Decrypt",),
        "s3:PutObject": ("kms:GenerateDataKey",),
        "s3:GetObject": ("kms:Decrypt",),
        "sns": ("kms:Decrypt", "kms:GenerateDataKey"),
    }
    if arn.startswith("arn:aws:s3:") and not arn.startswith(f"arn:aws:s3:::{NAMES['ReportBucket']}"):
        return ()
    return arns.get(action, arns.get(action.partition(":")[0], ()))
