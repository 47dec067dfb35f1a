"""The identity that asks, the command that grants it one permission on one resource, and a harmless call for each permission. Pure.

ARNs of callers: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns. Resource types by action:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

ANY = "*"
SSO_PREFIX = "AWSReservedSSO_"
"""Begins the names of the roles that IAM Identity Center owns. Only it can change them."""
SAGEMAKER_TYPES = {
    "App": "app",
    "Endpoint": "endpoint",
    "EndpointConfig": "endpoint-config",
    "EndpointWeightsAndCapacities": "endpoint",
    "InferenceComponent": "inference-component",
    "InferenceComponentRuntimeConfig": "inference-component",
    "MlflowTrackingServer": "mlflow-tracking-server",
    "Model": "model",
    "NotebookInstance": "notebook-instance",
}
"""The type in the ARN by what an operation's name ends with. `List...` operations know no resource."""
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


class PrincipalType(StrEnum):
    """What IAM can attach a policy to, or not."""

    ROLE = "role"
    USER = "user"
    SSO_ROLE = "sso-role"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. `name`: of the role or user; a role's path isn't in the ARN that STS shows.

    `is_elsewhere`: it belongs to another account than the credentials in use, which can't change it.
    """

    arn: str
    type: PrincipalType
    name: str
    is_elsewhere: bool = False

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`."""
        return self.arn.split(":")[1]

    @property
    def account(self) -> str:
        """Twelve digits."""
        return self.arn.split(":")[4]

    @property
    def is_root(self) -> bool:
        """Whether it is the account's root user, which may do everything."""
        return self.arn.endswith(":root")


def parse_principal(arn: str) -> Principal:
    """The principal of an ARN as sts:GetCallerIdentity returns it, or of a role's or user's own ARN."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        parts = ["arn", "aws", "iam", "", "", arn]
        arn = ":".join(parts)
    sort, _, rest = parts[5].partition("/")
    name = rest.partition("/")[0] if sort == "assumed-role" else rest.rpartition("/")[2]
    if sort in {"assumed-role", "role"}:
        type_ = PrincipalType.SSO_ROLE if name.startswith(SSO_PREFIX) else PrincipalType.ROLE
        return Principal(arn=arn, type=type_, name=name)
    return Principal(arn=arn, type=PrincipalType.USER if sort == "user" else PrincipalType.OTHER, name=name)


def resource_arn(principal: Principal, permission: str, region: str = ANY, name: str = ANY) -> str:
    """An ARN of the sort that the permission is about; `*` for one that knows no resource."""
    service, _, operation = permission.partition(":")
    resource = OTHER_RESOURCES.get(permission)
    if resource is None and service == "sagemaker" and not operation.startswith("List"):
        noun = re.sub(r"^[A-Z][a-z]+", "", operation)
        resource = f"{SAGEMAKER_TYPES[noun]}/{{name}}" if noun in SAGEMAKER_TYPES else None
    if resource is None:
        return ANY
    place = "" if service == "iam" else region
    return f"arn:{principal.partition}:{service}:{place}:{principal.account}:{resource.format(name=name)}"


def grant_line(principal: Principal, permission: str, resource: str) -> str:
    """The command that allows the permission on the resource. Each has a policy of its own, so that none overwrites another, not even one for
    the same permission on another resource.

    A role in another account needs the same statements as in all the others, so its template grants them.
    """
    if principal.is_elsewhere:
        return ELSEWHERE_ADVICE.format(permission=permission, name=principal.name)
    statement = {"Effect": "Allow", "Action": permission, "Resource": resource}
    document = shlex.quote(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    policy = f"reaper-{permission.replace(':', '-')}"
    if resource != ANY:
        policy += f"-{sha256(resource.encode()).hexdigest()[:8]}"
    if (who := principal.type.value) in {"role", "user"}:
        return f"aws iam put-{who}-policy --{who}-name {principal.name} --policy-name {policy} --policy-document {document}"
    is_sso = principal.type is PrincipalType.SSO_ROLE
    where = f"the permission set of {principal.name} in IAM Identity Center" if is_sso else principal.arn
    return f"Add this statement to {where}: {json.dumps(statement)}"


NOTHING = "ml-idle-reaper-doctor"
"""A name that nothing should have. If something has it, it is only described."""
SERVICE_OF_PREFIX = {"tag": "resourcegroupstaggingapi"}
"""The SDK's name of a service by the prefix of its permissions, if the two differ."""
ONE = {"MaxResults": 1}
SCALING = {"ServiceNamespace": "sagemaker", **ONE}
PROBES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "application-autoscaling:DescribeScalableTargets": ("ScalableTargets", SCALING),
    "application-autoscaling:DescribeScalingPolicies": ("ScalingPolicies", SCALING),
    "application-autoscaling:DescribeScheduledActions": ("ScheduledActions", SCALING),
    "cloudwatch:DescribeAlarms": ("MetricAlarms", {"AlarmNames": [NOTHING], "MaxRecords": 1}),
    "ec2:DescribeRegions": ("Regions", {"AllRegions": False}),
    "logs:DescribeLogStreams": (
        "logStreams", {"logGroupName": "/aws/sagemaker/NotebookInstances", "logStreamNamePrefix": NOTHING, "limit": 1}
    ),
    "sagemaker:DescribeApp": (
        "Status", {"DomainId": f"d-{NOTHING}", "UserProfileName": NOTHING, "AppType": "JupyterServer", "AppName": NOTHING}
    ),
    "sagemaker:DescribeEndpoint": ("EndpointStatus", {"EndpointName": NOTHING}),
    "sagemaker:DescribeEndpointConfig": ("ProductionVariants", {"EndpointConfigName": NOTHING}),
    "sagemaker:DescribeInferenceComponent": ("EndpointName", {"InferenceComponentName": NOTHING}),
    "sagemaker:DescribeMlflowTrackingServer": ("TrackingServerSize", {"TrackingServerName": NOTHING}),
    "sagemaker:DescribeModel": ("ModelName", {"ModelName": NOTHING}),
    "sagemaker:DescribeNotebookInstance": ("NotebookInstanceStatus", {"NotebookInstanceName": NOTHING}),
    "sagemaker:ListApps": ("Apps", ONE),
    "sagemaker:ListEndpoints": ("Endpoints", ONE),
    "sagemaker:ListInferenceComponents": ("InferenceComponents", ONE),
    "sagemaker:ListMlflowTrackingServers": ("TrackingServerSummaries", ONE),
    "sagemaker:ListModels": ("Models", ONE),
    "sagemaker:ListNotebookInstances": ("NotebookInstances", ONE),
    "sagemaker:ListSpaces": ("Spaces", ONE),
    "sts:GetCallerIdentity": ("Account", {}),
    "tag:GetResources": ("ResourceTagMappingList", {"ResourceTypeFilters": ["sagemaker:endpoint"], "ResourcesPerPage": 1}),
}  # fmt: skip
"""A harmless call for each permission that reads: a key of every true reply, and the parameters. It asks for a list of one row, or a description
of something that doesn't exist. IAM decides before a service looks for it, so a refusal says that the permission is missing, and "not found"
that it is there."""
