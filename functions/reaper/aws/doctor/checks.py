"""What `reaper doctor` asks of AWS: what an identity may do, by calls that read or by a simulation, and the command that grants one
permission on one resource. Every call reads, and asks for next to nothing.

The permissions are those of the kinds' tables, and the SDK's description of each operation says how to ask: for a list of one row, or for the
description of something that doesn't exist. IAM decides before a service looks for it, so a refusal says that the permission is missing, and "not
found" that it is there.

ARNs of callers: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns. Resource types by action:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html

https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html knows the policies of the role or user, its permissions
boundary and most service control policies. It doesn't know session policies, and it can't judge service control policies with global condition
keys: what only such a policy would deny is unknown.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import ClientError

from reaper.aws import metrics
from reaper.aws.session import IAM_PREFIXES, CloudSession, new_session
from reaper.aws.stores import dynamodb, texts
from reaper.doctor.check import Check, CheckStatus, asked_right, unasked_rights
from reaper.errors import CloudError, Reason
from reaper.model import Target

ANY = "*"
NOTHING = "ml-idle-reaper-doctor"
"""A name that nothing should have. If something has it, it is only described."""
SSO_PREFIX = "AWSReservedSSO_"
"""Begins the names of the roles that IAM Identity Center owns. Only it can change them."""
SAGEMAKER_OPERATION = re.compile(r"(?!List)[A-Z][a-z]+(\w+?)(?:WeightsAndCapacities|RuntimeConfig)?")
"""A verb, and the type of the resource as ARNs have it, but in camel case. `List...` operations know no resource."""
OTHER_RESOURCES = {
    "application-autoscaling:RegisterScalableTarget": "scalable-target/{name}",
    "application-autoscaling:DeregisterScalableTarget": "scalable-target/{name}",
    "application-autoscaling:PutScalingPolicy": "scalable-target/{name}",
    "application-autoscaling:PutScheduledAction": "scalable-target/{name}",
    "cloudwatch:DescribeAlarms": "alarm:{name}",
    "cloudwatch:PutMetricAlarm": "alarm:{name}",
    "logs:DescribeLogStreams": "log-group:/aws/sagemaker/NotebookInstances:*",
    "sagemaker:AddTags": "endpoint/{name}",
    "sagemaker:ListTags": "endpoint/{name}",
    "iam:PassRole": "role/{name}",
}
"""The resource in the ARN of other actions. Tags are asked about for one of the types that have them."""
ELSEWHERE_ADVICE = (
    "Allow {permission} to the role {name} in each of these accounts. What a sweep needs is in infra/aws/target-role.yaml, so update its "
    "stack set: Acting=yes grants actions."
)
MAX_ACTIONS = 50
"""Actions in one call."""
ELSEWHERE = "in other accounts the doctor's session can only read what a sweep reads, so it can't simulate there"
ELSEWHERE_FIX = "To check them, run reaper doctor --mode enforce with credentials of that account."


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. `name`: of the role or user; a role's path isn't in the ARN that STS shows. `partition`: `aws`, `aws-cn` or `aws-us-gov`.

    `is_elsewhere`: it belongs to another account than the credentials in use, which can't change it.
    """

    arn: str
    type: Literal["role", "user", "sso-role", "other"]
    name: str
    partition: str
    account: str
    is_elsewhere: bool = False


def parse_principal(arn: str) -> Principal:
    """The principal of an ARN as sts:GetCallerIdentity returns it, or of a role's or user's own ARN."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        parts = ["arn", "aws", "iam", "", "", arn]
    _, partition, _, _, account, resource = parts
    sort, _, rest = resource.partition("/")
    name = rest.partition("/")[0] if sort == "assumed-role" else rest.rpartition("/")[2]
    type_: Literal["role", "user", "sso-role", "other"] = "user" if sort == "user" else "other"
    if sort in {"assumed-role", "role"}:
        type_ = "sso-role" if name.startswith(SSO_PREFIX) else "role"
    return Principal(arn=":".join(parts), type=type_, name=name, partition=partition, account=account)


def resource_arn(principal: Principal, permission: str, region: str = ANY, name: str = ANY) -> str:
    """An ARN of the sort that the permission is about; `*` for one that knows no resource."""
    service, _, operation = permission.partition(":")
    resource = OTHER_RESOURCES.get(permission)
    if resource is None and service == "sagemaker" and (noun := SAGEMAKER_OPERATION.fullmatch(operation)):
        resource = re.sub(r"\B(?=[A-Z])", "-", noun[1]).lower() + "/{name}"
    if resource is None:
        return ANY
    place = "" if service == "iam" else region
    return f"arn:{principal.partition}:{service}:{place}:{principal.account}:{resource.format(name=name)}"


def resource_of_address(principal: Principal, permission: str, address: str, region: str = ANY, name: str = ANY) -> str:
    """The ARN of what a setting's address names: in S3 an object, or with a slash at the end `name` below it."""
    scheme, _, place = address.partition(":")
    secret = place.partition("#")[0]
    stem, parts = f"arn:{principal.partition}", urlsplit(address) if "://" in address else None
    if scheme == "arn" or (scheme in {"ssm", "secretsmanager"} and secret.startswith("arn:")):
        return address if scheme == "arn" else secret
    if scheme == "s3" and parts:
        below = f"{parts.path or '/'}{name}" if parts.path in {"", "/"} or parts.path.endswith("/") else parts.path
        return f"{stem}:s3:::{parts.netloc}{'' if permission == 's3:ListBucket' else below}"
    if scheme == "dynamodb" and parts:
        return f"{stem}:dynamodb:{region}:{principal.account}:table/{parts.netloc}"
    if scheme == "ssm":
        return f"{stem}:ssm:{region}:{principal.account}:parameter/{place.strip('/')}"
    if scheme == "secretsmanager":
        return f"{stem}:secretsmanager:{region}:{principal.account}:secret:{secret}-*"
    return resource_arn(principal, permission)


def grant_line(principal: Principal, permission: str, resource: str = "") -> str:
    """The command that allows the permission on the resource, by default on all of the sort that it is about. Each has a policy of its own, so that none overwrites another, not even one for
    the same permission on another resource.

    A role in another account needs the same statements as in all the others, so its template grants them.
    """
    if principal.is_elsewhere:
        return ELSEWHERE_ADVICE.format(permission=permission, name=principal.name)
    resource = resource or resource_arn(principal, permission)
    statement = {"Effect": "Allow", "Action": permission, "Resource": resource}
    document = shlex.quote(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    policy = f"reaper-{permission.replace(':', '-')}"
    if resource != ANY:
        policy += f"-{sha256(resource.encode()).hexdigest()[:8]}"
    if (who := principal.type) in {"role", "user"}:
        return f"aws iam put-{who}-policy --{who}-name {principal.name} --policy-name {policy} --policy-document {document}"
    is_sso = principal.type == "sso-role"
    where = f"the permission set of {principal.name} in IAM Identity Center" if is_sso else principal.arn
    return f"Add this statement to {where}: {json.dumps(statement)}"


def known_principal(caller: str, role: str | None) -> Principal:
    """The principal behind the caller's ARN. If the settings name its role, that ARN has the path, too."""
    principal = parse_principal(caller)
    named = parse_principal(role) if role else principal
    return named if (named.name, named.account) == (principal.name, principal.account) else principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for what. `resource`: the ARN, if the actions aren't about what their names say, and `grant_on`, that of all such resources.

    `context`: condition keys of the request.
    """

    principal: Principal
    actions: Sequence[str]
    resource: str = ""
    grant_on: str = ""
    context: Mapping[str, str] = field(default_factory=dict)


def simulated_rights(sessions: Sequence[CloudSession], request: Request) -> list[Check]:
    """Whether the principal may do these actions. The first of `sessions` that may simulate is used."""
    principal = request.principal
    place = f"account {principal.account}"
    if principal.arn.endswith(":root"):
        return [Check(permission=action, place=place) for action in request.actions]
    if principal.type == "other":
        return unasked_rights(request.actions, place, f"IAM simulates roles and users only, not {principal.arn}")
    errors: list[CloudError] = []
    for session in sessions:
        try:
            return _simulate(session, request)
        except CloudError as error:
            errors.append(error)
    if principal.is_elsewhere:
        return [replace(right, fix=ELSEWHERE_FIX) for right in unasked_rights(request.actions, place, ELSEWHERE)]
    return unasked_rights(request.actions, place, "the simulation failed", errors[0])


def _simulate(session: CloudSession, request: Request) -> list[Check]:
    source = _policy_source(session, request.principal)
    context = {
        "aws:RequestedRegion": session.region,
        "application-autoscaling:service-namespace": "sagemaker",
        "iam:PassedToService": "sagemaker.amazonaws.com",
        **request.context,
    }
    entries = [{"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"} for key, value in context.items()]
    by_resource: dict[str, list[str]] = defaultdict(list)
    for action in request.actions:
        by_resource[request.resource or resource_arn(request.principal, action, session.region, NOTHING)].append(action)
    rights = []
    for resource, actions in by_resource.items():
        for start in range(0, len(actions), MAX_ACTIONS):
            batch = actions[start : start + MAX_ACTIONS]
            asked: dict[str, Any] = {
                "PolicySourceArn": source,
                "ActionNames": batch,
                "ResourceArns": [resource],
                "ContextEntries": entries,
            }
            keys = ("EvaluationResults", "EvalActionName", "EvalDecision")
            rows = session.paged_rows("iam", "SimulatePrincipalPolicy", *keys, token_key="Marker", **asked)
            found = {row["EvalActionName"].lower(): row for row in rows}
            rights += [_right(request, action, found.get(action.lower())) for action in batch]
    return rights


def _policy_source(session: CloudSession, principal: Principal) -> str:
    """The ARN of the role or user itself. STS doesn't show the path of an assumed role, so IAM is asked for it."""
    if ":assumed-role/" not in principal.arn:
        return principal.arn
    role = session.call("iam", "GetRole", "Role", RoleName=principal.name)["Role"]
    if not isinstance(role, dict) or not isinstance(role.get("Arn"), str):
        raise CloudError(Reason.UNREADABLE, "iam:GetRole", "the reply has no ARN")
    return str(role["Arn"])


def _right(request: Request, action: str, row: Mapping[str, Any] | None) -> Check:
    """What one result means: only a plain denial says that a permission is missing."""
    principal = request.principal
    right = partial(Check, permission=action, place=f"account {principal.account}")
    if row is None:
        return right(status=CheckStatus.UNKNOWN, because="the simulation left it out")
    if row["EvalDecision"] == "allowed":
        return right()
    if (row.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations") is False:
        because = "the simulation says that a service control policy denies it; with conditions on global keys it may be wrong"
        return right(status=CheckStatus.UNKNOWN, because=because, missing=action)
    fix = f"Change what denies {action} to {principal.name}; another statement that allows it doesn't help."
    if (row.get("PermissionsBoundaryDecisionDetail") or {}).get("AllowedByPermissionsBoundary") is False:
        denial = "its permissions boundary doesn't allow it"
    elif row["EvalDecision"] == "explicitDeny":
        names = sorted({str(s.get("SourcePolicyId")) for s in row.get("MatchedStatements") or () if s.get("SourcePolicyId")})
        denial = f"a policy denies it explicitly ({', '.join(names) or 'unnamed'})"
    else:
        denial = "no policy allows it"
        fix = grant_line(principal, action, request.grant_on or request.resource)
    because = f"IAM would deny it to {principal.name}: {denial}"
    return right(status=CheckStatus.FIX, because=because, fix=fix, missing=action)


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
