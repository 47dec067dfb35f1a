"""What `reaper doctor` asks of AWS. Every call reads, and asks for next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import ClientError

from reaper import registry
from reaper.aws import metrics
from reaper.aws.doctor.rights import (
    NOTHING,
    Principal,
    Request,
    grant_line,
    known_principal,
    parse_principal,
    resource_arn,
    simulated_rights,
)
from reaper.aws.session import CloudSession, new_session
from reaper.aws.table import Table
from reaper.doctor.check import Right, asked_right
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
SERVICE_OF_PREFIX = {"tag": "resourcegroupstaggingapi"}
"""The SDK's name of a service by the prefix of its permissions, if the two differ."""
PROVISIONED_MODEL = "arn:{partition}:bedrock:{region}:{account}:provisioned-model/reaperdoctor"
ONE = {"MaxResults": 1}
SCALING = {"ServiceNamespace": "sagemaker", **ONE}
LOG = {"logGroupName": "/aws/sagemaker/NotebookInstances", "logStreamNamePrefix": NOTHING, "limit": 1}
APP = {"DomainId": f"d-{NOTHING}", "UserProfileName": NOTHING, "AppType": "JupyterServer", "AppName": NOTHING}
Probe = tuple[str, Mapping[str, Any]]


def probes_of(table: Table) -> dict[str, Probe]:
    """Its list, and the description of one by name."""
    listing = table.listing
    probes: dict[str, Probe] = {f"{listing.service}:{listing.list}": (listing.rows, {listing.page_size: 1})}
    if listing.describe:
        probes[f"{listing.service}:{listing.describe}"] = (listing.want, {listing.key("name"): NOTHING})
    return probes


PROBES: Mapping[str, Probe] = {
    **{
        permission: probe
        for kind in registry.kinds("aws")
        if isinstance(kind, Table)
        for permission, probe in probes_of(kind).items()
    },
    "application-autoscaling:DescribeScalableTargets": ("ScalableTargets", SCALING),
    "application-autoscaling:DescribeScalingPolicies": ("ScalingPolicies", SCALING),
    "application-autoscaling:DescribeScheduledActions": ("ScheduledActions", SCALING),
    "bedrock:ListTagsForResource": ("tags", {"resourceARN": PROVISIONED_MODEL}),
    "cloudwatch:DescribeAlarms": ("MetricAlarms", {"AlarmNames": [NOTHING], "MaxRecords": 1}),
    "ec2:DescribeRegions": ("Regions", {"AllRegions": False}),
    "logs:DescribeLogStreams": ("logStreams", LOG),
    "sagemaker:DescribeApp": ("Status", APP),
    "sagemaker:DescribeEndpointConfig": ("ProductionVariants", {"EndpointConfigName": NOTHING}),
    "sagemaker:DescribeModel": ("ModelName", {"ModelName": NOTHING}),
    "sagemaker:ListModels": ("Models", ONE),
    "sagemaker:ListSpaces": ("Spaces", ONE),
    "sts:GetCallerIdentity": ("Account", {}),
    "tag:GetResources": ("ResourceTagMappingList", {"ResourceTypeFilters": ["sagemaker:endpoint"], "ResourcesPerPage": 1}),
}
"""A harmless call for each permission that reads: a key of every true reply, and the parameters. It asks for a list of one row, or a description
of something that doesn't exist. IAM decides before a service looks for it, so a refusal says that the permission is missing, and "not found"
that it is there. What the kinds list and describe is in their tables."""


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


def reading_rights(cloud: CloudSession, permissions: Sequence[str]) -> list[Right]:
    """Whether each of the permissions is there, by a harmless call; what has no such call is simulated."""
    rights = list(cloud.map_concurrently(partial(_asked_right, cloud), [name for name in permissions if name in PROBES]))
    if others := [name for name in permissions if name not in PROBES]:
        rights += acting_rights(cloud, others, None)
    return rights


def acting_rights(cloud: CloudSession, permissions: Sequence[str], role: str | None) -> list[Right]:
    """Whether each of the permissions is there, by a simulation. `role`: the ARN of the role that a sweep assumes in this account."""
    request = Request(principal=_principal(cloud, role), actions=permissions)
    return simulated_rights([cloud, own_session(cloud.region)], request)  # the own identity sees the roles of its own account


def metric_rights(cloud: CloudSession, now: datetime) -> list[Right]:
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


def resource_of_address(principal: Principal, permission: str, address: str) -> str:
    """The ARN of what a setting's address names: in S3 an object, or with a slash at the end everything below."""
    scheme, _, place = address.partition(":")
    name = place.partition("#")[0] if scheme == "secretsmanager" else place
    stem, parts = f"arn:{principal.partition}", urlsplit(address) if "://" in address else None
    if scheme == "arn" or (scheme in {"ssm", "secretsmanager"} and name.startswith("arn:")):
        return address if scheme == "arn" else name
    if scheme == "s3" and parts:
        below = f"{parts.path or '/'}*" if parts.path in {"", "/"} or parts.path.endswith("/") else parts.path
        return f"{stem}:s3:::{parts.netloc}{'' if permission == 's3:ListBucket' else below}"
    if scheme == "dynamodb" and parts:
        return f"{stem}:dynamodb:*:{principal.account}:table/{parts.netloc}"
    if scheme == "ssm":
        return f"{stem}:ssm:*:{principal.account}:parameter/{name.strip('/')}"
    if scheme == "secretsmanager":
        return f"{stem}:secretsmanager:*:{principal.account}:secret:{name}-*"
    return resource_arn(principal, permission)


def workflow_rights(workflow: str) -> list[Right]:
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
    session = new_session()
    place = region or session.region_name or "us-east-1"
    return CloudSession(session, Target(cloud="aws", account="unknown", region=place), limits=LIMITS)


def own_rights(permission: str, resource: str, context: Mapping[str, str], region: str) -> list[Right]:
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


def _asked_right(cloud: CloudSession, permission: str) -> Right:
    prefix, _, operation = permission.partition(":")
    want, params = PROBES[permission]
    place = {"partition": cloud.partition, "region": cloud.region, "account": cloud.target.account}
    asked = {name: value.format(**place) if value is PROVISIONED_MODEL else value for name, value in params.items()}
    return _right_of(cloud, permission, lambda: cloud.call(SERVICE_OF_PREFIX.get(prefix, prefix), operation, want, **asked))


def _right_of(cloud: CloudSession, permission: str, ask: Callable[[], object]) -> Right:
    """What the call says. The command to grant it names the sort of resource that the permission is about."""

    def grant(missing: str) -> str:
        principal = _principal(cloud)
        return grant_line(principal, missing, resource_arn(principal, missing))

    return asked_right(permission, f"account {cloud.target.account} {cloud.region}", ask, grant)


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
