"""What could be created again from its description, and what stands against it: the members that we know how to bring back. Pure, but for `gone`.

A description that has a member beyond these is of a newer service than this version knows, and is not deleted from. Tests compare the
tables with the SDK's own model: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from reaper.aws.endpoint_description import Described
from reaper.aws.plain_json import DONE
from reaper.errors import CloudError

if TYPE_CHECKING:
    from reaper.aws.session import Cloud

CONFIG = (
    "ProductionVariants", "ShadowProductionVariants", "DataCaptureConfig", "KmsKeyId", "AsyncInferenceConfig", "ExplainerConfig",
    "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation", "MetricsConfig", "CrossRegionTrafficConfig",
)  # fmt: skip
CONFIGS_OWN = {"EndpointConfigName", "EndpointConfigArn", "CreationTime"}
ENDPOINT = (
    "EndpointName", "EndpointArn", "EndpointConfigName", "EndpointStatus", "CreationTime", "DataCaptureConfig",
    "LastDeploymentConfig",
)  # fmt: skip
ENDPOINTS_OWN = {
    "FailureReason", "LastModifiedTime", "PendingDeploymentSummary", "ProductionVariants", "ShadowProductionVariants",
    "AsyncInferenceConfig", "ExplainerConfig", "MetricsConfig", "CrossRegionTrafficConfig",
}  # fmt: skip
"""What the service adds, and what comes from the configuration."""
VARIANT = (
    "VariantName", "CurrentInstanceCount", "DesiredInstanceCount", "CurrentWeight", "DesiredWeight", "InstancePools",
    "CurrentServerlessConfig", "ManagedInstanceScaling",
)  # fmt: skip
VARIANTS_OWN = {
    "DeployedImages", "VariantStatus", "DesiredServerlessConfig", "RoutingConfig", "CapacityReservationConfig",
    "AcceleratorPartitionLayouts",
}  # fmt: skip
COMPONENT = ("InferenceComponentName", "EndpointName", "VariantName")
COMPONENTS_OWN = {
    "CreationTime", "LastModifiedTime", "EndpointArn", "InferenceComponentArn", "InferenceComponentStatus", "FailureReason",
    "Specification", "Specifications", "RuntimeConfig", "LastDeploymentConfig",
}  # fmt: skip
SPECIFICATION = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CONTAINER = ("ArtifactUrl", "Environment", "ContainerMetricsConfig")
ALARM = (
    "AlarmName", "AlarmDescription", "ActionsEnabled", "OKActions", "AlarmActions", "InsufficientDataActions", "MetricName",
    "Namespace", "Statistic", "ExtendedStatistic", "Dimensions", "Period", "Unit", "EvaluationPeriods", "DatapointsToAlarm",
    "Threshold", "ComparisonOperator", "TreatMissingData", "EvaluateLowSampleCountPercentile", "Metrics", "ThresholdMetricId",
    "ActionConfiguration", "EvaluationWindow", "EvaluationInterval", "EvaluationCriteria", "WarmUpConfiguration",
)  # fmt: skip
ALARMS_OWN = {
    "AlarmArn", "AlarmConfigurationUpdatedTimestamp", "EvaluationState", "StateReason", "StateReasonData", "StateTransitionedTimestamp",
    "StateUpdatedTimestamp", "StateValue",
}  # fmt: skip
TARGET = ("ResourceId", "ScalableDimension", "MinCapacity", "MaxCapacity", "SuspendedState")
TARGETS_OWN = {"CreationTime", "PredictedCapacity", "RoleARN", "ScalableTargetARN", "ServiceNamespace"}
"""The role is the service's own."""
CONFIGURATIONS = tuple(f"{sort}PolicyConfiguration" for sort in ("StepScaling", "TargetTrackingScaling", "PredictiveScaling"))
POLICY = ("ResourceId", "ScalableDimension", "PolicyName", "PolicyARN", "PolicyType", *CONFIGURATIONS)
POLICIES_OWN = {"Alarms", "CreationTime", "ServiceNamespace"}
ACTION = (
    "ResourceId", "ScalableDimension", "ScheduledActionName", "Schedule", "Timezone", "StartTime", "EndTime",
    "ScalableTargetAction",
)  # fmt: skip
ACTIONS_OWN = {"CreationTime", "ScheduledActionARN", "ServiceNamespace"}
MARK = "ml-idle-reaper:restored"
MOST_TAGS = 50
PAGES_OF_MODELS = 20


def strange(row: Mapping[str, Any], *known: Collection[str]) -> str | None:
    """The clause that names the members that hold something and are not known; None where there is none."""
    names = {name for some in known for name in some} | {DONE}
    unknown = sorted(name for name, value in row.items() if name not in names and value not in (None, {}, []))
    return f"has {', '.join(unknown)}, which we do not know how to bring back" if unknown else None


def endpoint(found: Described) -> str | None:
    """The clause that says why the endpoint could not be created again; what hangs on it aside."""
    if found.recalled:
        return "whether its configuration is still there was not looked at, as no rule asks to delete it"
    if not found.config:
        return "its configuration is gone or cannot be read, so it could not be created again"
    if odd := config(found.config) or strange(found.raw, ENDPOINT, ENDPOINTS_OWN):
        return odd if odd.startswith("the configuration") else f"it {odd}"
    variants = (*(found.raw.get("ProductionVariants") or ()), *(found.raw.get("ShadowProductionVariants") or ()))
    return next((f"its variant {v['VariantName']} {odd}" for v in variants if (odd := strange(v, VARIANT, VARIANTS_OWN))), None)


def config(row: Mapping[str, Any]) -> str | None:
    """The clause that says why a configuration could not be."""
    odd = strange(row, CONFIG, CONFIGS_OWN)
    return f"the configuration {row.get('EndpointConfigName')} {odd}" if odd else None


def component(row: Mapping[str, Any]) -> str | None:
    """The clause that says why an inference component could not be; adapters are not brought back."""
    specs = [s for s in (row.get("Specification"), *(row.get("Specifications") or ())) if s]
    name = row.get("InferenceComponentName")
    if not specs or any(s.get("BaseInferenceComponentName") for s in specs):
        return f"{name} is an adapter, or does not say what it is made of: what hosts it is not deleted"
    odd = [strange(row, COMPONENT, COMPONENTS_OWN), *(strange(s, SPECIFICATION, ("Container",)) for s in specs)]
    odd += [strange(s.get("Container") or {}, CONTAINER, ("DeployedImage",)) for s in specs]
    return next((f"the component {name} {one}" for one in odd if one), None)


def copies(row: Mapping[str, Any]) -> int:
    """How many copies a component is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def models(*rows: Mapping[str, Any]) -> set[str]:
    """The models that variants or specifications name, within configurations and components as described."""
    found: set[str] = set()
    for row in rows:
        inner = [row.get("Specification"), *(row.get("Specifications") or ())]
        inner += [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
        found |= {str(one["ModelName"]) for one in inner if one and one.get("ModelName")}
    return found


def without(needed: Collection[str], gone: Collection[str]) -> str | None:
    """The clause for a model that is needed and gone."""
    missing = sorted(set(needed) & set(gone))
    return f"its model {missing[0]} is gone, so it could not be created again" if missing else None


def crowded(own: Mapping[str, str] | None) -> str | None:
    """The clause for tags that leave no room for the mark by which what is created again is known (`acts.same`)."""
    kept = [key for key in {**(own or {}), MARK: ""} if not key.startswith("aws:")]
    if len(kept) <= MOST_TAGS:
        return None
    return f"it has {MOST_TAGS} tags, and none is left by which what is created again could be known"


def gone(cloud: Cloud, wanted: Collection[str]) -> set[str]:
    """Those of the models that were deleted, in bulk, from the newest on.

    None of them where that cannot be read, which is noted, or where there are too many models to list: the record, right before a
    deletion, asks for each one.
    """
    missing, left = set(wanted), PAGES_OF_MODELS * 100
    try:
        for row in cloud.pages("sagemaker", "ListModels", "Models", "ModelName", MaxResults=100) if missing else ():
            missing.discard(row["ModelName"])
            left -= 1
            if not missing or not left:
                return set()
    except CloudError as error:
        cloud.note(error)
        return set()
    return missing
