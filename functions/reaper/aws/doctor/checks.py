"""What `reaper doctor` asks of AWS. Every call reads, and asks for next to nothing.

The permissions are those of the kinds' tables, and the SDK's description of each operation says how to ask: for a list of one row, or for the
description of something that doesn't exist. IAM decides before a service looks for it, so a refusal says that the permission is missing, and "not
found" that it is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from reaper.aws import metrics
from reaper.aws.doctor.rights import (
    NOTHING,
    Principal,
    Request,
    grant_line,
    known_principal,
    parse_principal,
    resource_of_address,
    simulated_rights,
)
from reaper.aws.session import IAM_PREFIXES, CloudSession, new_session
from reaper.aws.stores import dynamodb, texts
from reaper.doctor.check import Check, asked_right
from reaper.errors import CloudError, Reason
from reaper.model import Target

METRIC_PERMISSIONS = metrics.PERMISSIONS
LIMITS = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
"""Half a minute at the worst."""
METRICS = (
    ("AWS/SageMaker", "Invocations", "EndpointName"),
    ("/aws/sagemaker/Endpoints", "CPUUtilization", "EndpointName"),
    ("/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized", "InferenceComponentName"),
    ("MLIdleReaper", "Busy", "Resource"),
)
"""A metric of each namespace that the kinds read, with its dimension."""
READS = re.compile(r"[\w-]+:(?:BatchGet|Get|List|Describe|Query)[A-Z]?\w*")
"""Permissions whose calls change nothing; no others are made."""
PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "application-autoscaling:DescribeScalableTargets": {"ServiceNamespace": "sagemaker"},
    "application-autoscaling:DescribeScalingPolicies": {"ServiceNamespace": "sagemaker"},
    "bedrock:ListTagsForResource": {"resourceARN": "arn:{partition}:bedrock:{region}:{account}:provisioned-model/reaperdoctor"},
    "logs:DescribeLogStreams": {"logGroupName": "/aws/sagemaker/NotebookInstances"},
    "sagemaker:DescribeApp": {"DomainId": f"d-{NOTHING}", "AppType": "JupyterServer", "UserProfileName": NOTHING},
}
"""What is more than a name, by permission."""


def question(cloud: CloudSession, permission: str) -> tuple[str, str, dict[str, object]]:
    """The call that shows whether a permission to read is there: service, operation, and parameters for one row or for nothing."""
    prefix, _, operation = permission.partition(":")
    service = next((name for name, known in IAM_PREFIXES.items() if known == prefix), prefix)
    sdk: Any = new_session()._session
    shape = sdk.get_service_model(service).operation_model(operation).input_shape
    place = {"partition": cloud.partition, "region": cloud.region, "account": cloud.target.account}
    params: dict[str, object] = dict.fromkeys(shape.required_members if shape else (), NOTHING)
    params |= {name: value.format(**place) for name, value in PARAMETERS.get(permission, {}).items()}
    paging = sdk.get_paginator_model(service)._paginator_config.get(operation, {})
    return service, operation, params | ({paging["limit_key"]: 1} if "limit_key" in paging else {})


def describe_caller(sessions: Sequence[CloudSession], role: str | None) -> str:
    """Who the reaper is: `role`, which it assumes for its own account, if there is one, else the process's own identity. The role of another
    account is never it. Raises CloudError.
    """
    own = own_session()
    account = parse_principal(role or _caller(own)).account
    at_home = next((session for session in sessions if session.target.account == account), own)
    return f"signed in as {_caller(at_home)}"


def reply_date() -> str | None:
    """The time at AWS, from the header of a reply, even of a refusal; None if it has none. Raises CloudError if nothing answered."""
    try:
        reply = own_session().call("sts", "GetCallerIdentity", "Arn")
    except CloudError as error:
        if not isinstance(error.__cause__, ClientError):
            raise
        reply = dict(error.__cause__.response)
    date: str | None = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return date


def reading_rights(cloud: CloudSession, permissions: Sequence[str]) -> list[Check]:
    """Whether each of the permissions is there, by a call that reads; any other permission is simulated."""
    asked = {permission: question(cloud, permission) for permission in permissions if READS.fullmatch(permission)}
    others = [permission for permission in permissions if permission not in asked]

    def ask(permission: str) -> Check:
        service, operation, params = asked[permission]
        return _right_of(cloud, permission, lambda: cloud.call(service, operation, "ResponseMetadata", **params))

    return [*cloud.map_concurrently(ask, list(asked)), *(acting_rights(cloud, others, None) if others else ())]


def acting_rights(cloud: CloudSession, permissions: Sequence[str], role: str | None) -> list[Check]:
    """Whether each of the permissions is there, by a simulation. `role`: the ARN of the role that a sweep assumes in this account."""
    request = Request(principal=_principal(cloud, role), actions=permissions)
    return simulated_rights([cloud, own_session(cloud.region)], request)  # the own identity sees the roles of its own account


def metric_rights(cloud: CloudSession, now: datetime) -> list[Check]:
    """Whether metrics of every namespace can be read here."""
    get, list_ = METRIC_PERMISSIONS
    list_params = {"Namespace": "AWS/SageMaker", "MetricName": "Invocations"}
    return [
        _right_of(cloud, get, lambda: _read_metrics(cloud, now)),
        _right_of(cloud, list_, lambda: cloud.call("cloudwatch", "ListMetrics", "Metrics", **list_params)),
    ]


def own_grant_line(permission: str, address: str) -> str:
    """The command that grants the process's own identity a permission on the store, secret or topic at `address`. Raises CloudError."""
    principal = _principal(own_session())
    return grant_line(principal, permission, resource_of_address(principal, permission, address))


def writing_rights(address: str) -> list[Check]:
    """Whether the process's own identity may write to the ledger or store at `address`, by a simulation. Raises CloudError."""
    writes = [name for name in dynamodb.PERMISSIONS if not READS.fullmatch(name)]
    permissions = writes if address.startswith("dynamodb:") else [texts.PERMISSION_OF_OPERATION["PutObject"]]
    cloud = own_session()
    principal = _principal(cloud)
    one, all_ = (resource_of_address(principal, permissions[0], address, *place) for place in ((cloud.region, NOTHING), ()))
    return simulated_rights([cloud], Request(principal=principal, actions=permissions, resource=one, grant_on=all_))


def workflow_rights(workflow: str) -> list[Check]:
    """Whether the process's own identity may see the executions of that state machine, and start one, by a simulation. Raises CloudError."""
    _, _, _, region, *_, name = workflow.split(":")
    executions = workflow.replace(":stateMachine:", ":execution:")
    cloud = own_session(region)

    def describe() -> None:
        try:
            cloud.call("stepfunctions", "DescribeExecution", "status", executionArn=f"{executions}:{NOTHING}")
        except CloudError as error:
            if error.code != "ExecutionDoesNotExist":
                raise

    return [
        asked_right(
            "states:DescribeExecution", name, describe, lambda missing: grant_line(_principal(cloud), missing, f"{executions}:*")
        ),
        *own_rights("states:StartExecution", workflow, {}, region),
    ]


def own_session(region: str | None = None) -> CloudSession:
    """The process's own credentials, as the ledger, the stores and the channels use them."""
    session, only = new_session(), os.environ.get("REAPER_REGIONS", "").strip()
    place = region or session.region_name or (only if re.fullmatch(r"[a-z0-9-]+-\d", only) else "us-east-1")
    return CloudSession(session, Target(cloud="aws", account="unknown", region=place), limits=LIMITS)


def own_rights(permission: str, resource: str, context: Mapping[str, str], region: str) -> list[Check]:
    """Whether the process's own identity may do this on that resource, by a simulation. Raises CloudError."""
    cloud = own_session(region)
    request = Request(principal=_principal(cloud), actions=[permission], resource=resource, context=context)
    return simulated_rights([cloud], request)


def _caller(cloud: CloudSession) -> str:
    return str(cloud.call("sts", "GetCallerIdentity", "Arn")["Arn"])


def _principal(cloud: CloudSession, role: str | None = None) -> Principal:
    """Who asks, and whether it belongs to another account than the process's own credentials."""
    principal = known_principal(_caller(cloud), role)
    return replace(principal, is_elsewhere=principal.account != parse_principal(_caller(own_session())).account)


def _right_of(cloud: CloudSession, permission: str, ask: Callable[[], object]) -> Check:
    place = f"account {cloud.target.account} {cloud.region}"
    return asked_right(permission, place, ask, lambda missing: grant_line(_principal(cloud), missing))


def _read_metrics(cloud: CloudSession, now: datetime) -> None:
    """Raises CloudError if the call fails or one of the metrics is forbidden, although the others can be read."""
    queries = [
        {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {"Namespace": space, "MetricName": name, "Dimensions": [{"Name": dimension, "Value": NOTHING}]},
                "Period": 3600,
                "Stat": "Sum",
            },
        }
        for number, (space, name, dimension) in enumerate(METRICS)
    ]
    end = now.replace(minute=0, second=0, microsecond=0)
    params = {"MetricDataQueries": queries, "StartTime": end - timedelta(hours=1), "EndTime": end}
    reply = cloud.call("cloudwatch", "GetMetricData", "MetricDataResults", **params)
    hidden = [row["Id"] for row in reply["MetricDataResults"] if row.get("StatusCode") == "Forbidden"]
    if hidden:
        names = ", ".join(" ".join(METRICS[int(id_[1:])]) for id_ in hidden)
        get = METRIC_PERMISSIONS[0]
        raise CloudError(Reason.DENIED, get, f"forbidden for {names}", code="Forbidden", missing=get)
