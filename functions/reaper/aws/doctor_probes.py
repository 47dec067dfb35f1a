"""A harmless call for each permission that reads: a list of one row, or a description of something that doesn't exist. Data.

IAM decides before a service looks for what is asked about, so a refusal says that the permission is missing, and "not found" that it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOTHING = "ml-idle-reaper-doctor"
"""A name that nothing should have. If something has it, it is only described."""
SERVICE_OF_PREFIX = {"tag": "resourcegroupstaggingapi"}
"""The SDK's name of a service by the prefix of its permissions, if the two differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What to ask. `want`: a key of every true reply."""

    want: str
    params: Mapping[str, Any] = field(default_factory=dict)


ONE = {"MaxResults": 1}
PROBES: Mapping[str, Probe] = {
    "application-autoscaling:DescribeScalableTargets": Probe(want="ScalableTargets", params={"ServiceNamespace": "sagemaker", **ONE}),
    "application-autoscaling:DescribeScalingPolicies": Probe(want="ScalingPolicies", params={"ServiceNamespace": "sagemaker", **ONE}),
    "application-autoscaling:DescribeScheduledActions": Probe(want="ScheduledActions", params={"ServiceNamespace": "sagemaker", **ONE}),
    "cloudwatch:DescribeAlarms": Probe(want="MetricAlarms", params={"AlarmNames": [NOTHING], "MaxRecords": 1}),
    "ec2:DescribeRegions": Probe(want="Regions", params={"AllRegions": False}),
    "logs:DescribeLogStreams": Probe(
        want="logStreams", params={"logGroupName": "/aws/sagemaker/NotebookInstances", "logStreamNamePrefix": NOTHING, "limit": 1}
    ),
    "sagemaker:DescribeApp": Probe(
        want="Status", params={"DomainId": f"d-{NOTHING}", "UserProfileName": NOTHING, "AppType": "JupyterServer", "AppName": NOTHING}
    ),
    "sagemaker:DescribeEndpoint": Probe(want="EndpointStatus", params={"EndpointName": NOTHING}),
    "sagemaker:DescribeEndpointConfig": Probe(want="ProductionVariants", params={"EndpointConfigName": NOTHING}),
    "sagemaker:DescribeInferenceComponent": Probe(want="EndpointName", params={"InferenceComponentName": NOTHING}),
    "sagemaker:DescribeMlflowTrackingServer": Probe(want="TrackingServerSize", params={"TrackingServerName": NOTHING}),
    "sagemaker:DescribeModel": Probe(want="ModelName", params={"ModelName": NOTHING}),
    "sagemaker:DescribeNotebookInstance": Probe(want="NotebookInstanceStatus", params={"NotebookInstanceName": NOTHING}),
    "sagemaker:ListApps": Probe(want="Apps", params=ONE),
    "sagemaker:ListEndpoints": Probe(want="Endpoints", params=ONE),
    "sagemaker:ListInferenceComponents": Probe(want="InferenceComponents", params=ONE),
    "sagemaker:ListMlflowTrackingServers": Probe(want="TrackingServerSummaries", params=ONE),
    "sagemaker:ListModels": Probe(want="Models", params=ONE),
    "sagemaker:ListNotebookInstances": Probe(want="NotebookInstances", params=ONE),
    "sagemaker:ListSpaces": Probe(want="Spaces", params=ONE),
    "sts:GetCallerIdentity": Probe(want="Account"),
    "tag:GetResources": Probe(
        want="ResourceTagMappingList", params={"ResourceTypeFilters": ["sagemaker:endpoint"], "ResourcesPerPage": 1}
    ),
}  # fmt: skip
