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

from deploy.policies import Policies, Question
from deploy.test_template import NAMES, SAGEMAKER
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, Guard, denied
from reaper_sandbox.aws.server import Server

EXPRESSIONS = ("UpdateExpression", "ConditionExpression", "ProjectionExpression", "KeyConditionExpression")
WORDS = {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "IN", "BETWEEN"}
NAME = re.compile(r"(?<![:#\w])(?:#\w+|[A-Za-z_]\w*)\b(?!\s*\()")
"""A name or its placeholder in an expression: no value (`:now`) and no function (`attribute_not_exists(`)."""


def guard(server: Server, found: Policies) -> Guard:
    """A rule for the server that lets pass what these policies allow."""

    def rule(call: Call) -> Fault | None:
        return None if pass_all(found, questions(server, call)) else denied()

    return rule


def pass_all(found: Policies, asked: list[Question]) -> bool:
    """Whether all questions of one call are allowed; every one is asked."""
    answers = [found.allow(*question) for question in asked]
    return all(answers)


def questions(server: Server, call: Call) -> list[Question]:
    """All that IAM is asked for one call: its own action first, then what the service needs besides."""
    known = context(server, call)
    own = (call.action, asked_of(call), known)
    more = [(call.action, NAMES["SesConfigurationSet"], known)] if "ConfigurationSetName" in call.params else []
    return [own, *more, *_keys(call, own[1])]


def asked_of(call: Call) -> str:
    """The ARN that IAM would see."""
    given, stem = call.params, SAGEMAKER.replace("us-east-1", call.region)
    if call.service == "dynamodb":
        return NAMES["LedgerTable.Arn"]
    if call.service == "ses":
        return NAMES["SesIdentity"]
    if call.service == "secretsmanager":
        return _secret(given["SecretId"])
    if call.action == "sts:AssumeRole":
        return str(given["RoleArn"])
    if call.operation in {"RegisterScalableTarget", "DeregisterScalableTarget"}:
        return f"arn:aws:application-autoscaling:{call.region}:123456789012:scalable-target/0ec5"
    if call.service == "sagemaker" and "ResourceArn" in given:
        return str(given["ResourceArn"])
    if call.operation == "DeleteApp":
        home = given.get("SpaceName") or given["UserProfileName"]
        return f"{stem}app/{given['DomainId']}/{home}/{given['AppType']}/{given['AppName']}"
    if call.service == "sagemaker" and not call.operation.startswith("List"):
        for key, type_ in (("NotebookInstanceName", "notebook-instance"), ("ModelName", "model")):
            if key in given:
                return f"{stem}{type_}/{given[key]}"
        if call.operation in {"DeleteEndpoint", "UpdateEndpointWeightsAndCapacities"}:
            return f"{stem}endpoint/{given['EndpointName'].lower()}"
        if "InferenceComponentName" in given:
            return f"{stem}inference-component/{given['InferenceComponentName'].lower()}"
    return _read(call)


def _read(call: Call) -> str:
    """The same for what an audit does; `*` where the action knows no resource."""
    stem, given = SAGEMAKER.replace("us-east-1", call.region), call.params
    match call.action:
        case "sagemaker:DescribeEndpoint":
            return f"{stem}endpoint/{given['EndpointName'].lower()}"
        case "sagemaker:DescribeEndpointConfig":
            return f"{stem}endpoint-config/{given['EndpointConfigName'].lower()}"
        case "sagemaker:DescribeInferenceComponent":
            return f"{stem}inference-component/{given['InferenceComponentName'].lower()}"
        case "sagemaker:DescribeApp":
            home = given.get("SpaceName") or given["UserProfileName"]
            return f"{stem}app/{given['DomainId']}/{home}/{given['AppType']}/{given['AppName']}"
        case "cloudwatch:DescribeAlarms":
            return f"arn:aws:cloudwatch:{call.region}:123456789012:alarm:{given['AlarmNames'][0]}"
        case "logs:DescribeLogStreams":
            return f"arn:aws:logs:{call.region}:123456789012:log-group:{given['logGroupName']}:log-stream:"
        case "sns:Publish":
            return str(given["TopicArn"])
        case "s3:PutObject":
            return f"arn:aws:s3:::{given['Bucket']}/{given['Key']}"
        case "ssm:GetParameter":
            return f"arn:aws:ssm:{call.region}:123456789012:parameter{given['Name']}"
    return "*"


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
    found: dict[str, str | list[str]] = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    found["aws:RequestedRegion"] = call.region
    if "ServiceNamespace" in call.params:
        found["application-autoscaling:service-namespace"] = call.params["ServiceNamespace"]
    if "if-none-match" in call.headers:
        found["s3:if-none-match"] = call.headers["if-none-match"]
    if call.service == "ses":
        found["ses:FromAddress"] = parseaddr(call.params["FromEmailAddress"])[1]
    return found | (table_keys(call.params) if call.service == "dynamodb" else {})


def table_keys(given: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """DynamoDB's condition keys for the parameters of a request. A read without a projection names no attributes."""
    batch = [key for part in given.get("RequestItems", {}).values() for key in part["Keys"]]
    keys = [key for key in (given.get("Key"), given.get("Item"), *batch) if key]
    leading = [key["pk"]["S"] for key in keys] or [given["ExpressionAttributeValues"][":pk"]["S"]]
    found: dict[str, str | list[str]] = {"dynamodb:LeadingKeys": leading}
    names = sorted({*given.get("Item", {}), *_named(given)})
    if names:
        found["dynamodb:Attributes"] = sorted({*names, *given.get("Key", {})})
    return found | {f"dynamodb:{key}": given[key] for key in ("ReturnValues", "Select") if key in given}


def _named(given: Mapping[str, Any]) -> Iterator[str]:
    places = given.get("ExpressionAttributeNames", {})
    for expression in EXPRESSIONS:
        for word in NAME.findall(given.get(expression, "")):
            if word not in WORDS:
                yield places[word] if word.startswith("#") else word


def _keys(call: Call, arn: str) -> Iterator[Question]:
    """What the service that is called asks of the key that encrypts there, in the caller's name."""
    where = {"kms:ViaService": f"{call.service}.{call.region}.amazonaws.com"}
    for action in _encrypted(call.service, arn):
        yield action, NAMES["KmsKey"] if _ours(arn) else NAMES["ChannelKeys"][0], where


def _ours(arn: str) -> bool:
    return arn in {NAMES["LedgerTable.Arn"], NAMES["SummaryTopic"], NAMES["SnoozeSecret"]} or arn.startswith("arn:aws:s3:")


def _encrypted(service: str, arn: str) -> tuple[str, ...]:
    """https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html, .../AmazonS3/latest/userguide/UsingKMSEncryption.html"""
    asked: dict[str, tuple[str, ...]] = {
        "dynamodb": ("kms:Decrypt",),
        "secretsmanager": ("kms:Decrypt",),
        "s3": ("kms:GenerateDataKey",),
        "sns": ("kms:Decrypt", "kms:GenerateDataKey"),
    }
    return asked.get(service, ())
