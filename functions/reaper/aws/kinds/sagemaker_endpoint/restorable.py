"""What could be recreated from its description, and what prevents that: the members this version can restore. Pure, except `deleted_models`.

A description with any other member is of a newer service than this version knows, and isn't deleted. Tests compare the
tables with the SDK's own model: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription
from reaper.aws.sagemaker import ANY_REPLY_KEY
from reaper.errors import CloudError

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


CONFIG_MEMBERS = (
    "ProductionVariants", "ShadowProductionVariants", "DataCaptureConfig", "KmsKeyId", "AsyncInferenceConfig", "ExplainerConfig",
    "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation", "MetricsConfig", "CrossRegionTrafficConfig",
)  # fmt: skip
CONFIG_SERVICE_MEMBERS = {"EndpointConfigName", "EndpointConfigArn", "CreationTime"}
ENDPOINT_MEMBERS = (
    "EndpointName", "EndpointArn", "EndpointConfigName", "EndpointStatus", "CreationTime", "DataCaptureConfig",
    "LastDeploymentConfig",
)  # fmt: skip
ENDPOINT_SERVICE_MEMBERS = {
    "FailureReason", "LastModifiedTime", "PendingDeploymentSummary", "ProductionVariants", "ShadowProductionVariants",
    "AsyncInferenceConfig", "ExplainerConfig", "MetricsConfig", "CrossRegionTrafficConfig",
}  # fmt: skip
"""What the service adds, and what comes from the configuration."""
VARIANT_MEMBERS = (
    "VariantName", "CurrentInstanceCount", "DesiredInstanceCount", "CurrentWeight", "DesiredWeight", "InstancePools",
    "CurrentServerlessConfig", "ManagedInstanceScaling",
)  # fmt: skip
VARIANT_SERVICE_MEMBERS = {
    "DeployedImages", "VariantStatus", "DesiredServerlessConfig", "RoutingConfig", "CapacityReservationConfig",
    "AcceleratorPartitionLayouts",
}  # fmt: skip
COMPONENT_MEMBERS = ("InferenceComponentName", "EndpointName", "VariantName")
COMPONENT_SERVICE_MEMBERS = {
    "CreationTime", "LastModifiedTime", "EndpointArn", "InferenceComponentArn", "InferenceComponentStatus", "FailureReason",
    "Specification", "Specifications", "RuntimeConfig", "LastDeploymentConfig",
}  # fmt: skip
SPECIFICATION_MEMBERS = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CONTAINER_MEMBERS = ("ArtifactUrl", "Environment", "ContainerMetricsConfig")
ALARM_MEMBERS = (
    "AlarmName", "AlarmDescription", "ActionsEnabled", "OKActions", "AlarmActions", "InsufficientDataActions", "MetricName",
    "Namespace", "Statistic", "ExtendedStatistic", "Dimensions", "Period", "Unit", "EvaluationPeriods", "DatapointsToAlarm",
    "Threshold", "ComparisonOperator", "TreatMissingData", "EvaluateLowSampleCountPercentile", "Metrics", "ThresholdMetricId",
    "ActionConfiguration", "EvaluationWindow", "EvaluationInterval", "EvaluationCriteria", "WarmUpConfiguration",
)  # fmt: skip
ALARM_SERVICE_MEMBERS = {
    "AlarmArn", "AlarmConfigurationUpdatedTimestamp", "EvaluationState", "StateReason", "StateReasonData", "StateTransitionedTimestamp",
    "StateUpdatedTimestamp", "StateValue",
}  # fmt: skip
TARGET_MEMBERS = ("ResourceId", "ScalableDimension", "MinCapacity", "MaxCapacity", "SuspendedState")
TARGET_SERVICE_MEMBERS = {"CreationTime", "PredictedCapacity", "RoleARN", "ScalableTargetARN", "ServiceNamespace"}
"""The role is the service's own."""
POLICY_CONFIGURATIONS = tuple(
    f"{sort}PolicyConfiguration" for sort in ("StepScaling", "TargetTrackingScaling", "PredictiveScaling")
)
POLICY_MEMBERS = ("ResourceId", "ScalableDimension", "PolicyName", "PolicyARN", "PolicyType", *POLICY_CONFIGURATIONS)
POLICY_SERVICE_MEMBERS = {"Alarms", "CreationTime", "ServiceNamespace"}
SCHEDULED_ACTION_MEMBERS = (
    "ResourceId", "ScalableDimension", "ScheduledActionName", "Schedule", "Timezone", "StartTime", "EndTime",
    "ScalableTargetAction",
)  # fmt: skip
SCHEDULED_ACTION_SERVICE_MEMBERS = {"CreationTime", "ScheduledActionARN", "ServiceNamespace"}
RESTORED_TAG = "ml-idle-reaper:restored"
MAX_TAGS = 50
CONFIG_NOT_READ = "its configuration wasn't checked, because no rule asks to delete it"
MAX_MODEL_PAGES = 20


def unknown_members_clause(row: Mapping[str, Any], *known: Collection[str]) -> str | None:
    """The clause that names the unknown members that hold something; None without any."""
    names = {name for some in known for name in some} | {ANY_REPLY_KEY}
    unknown = sorted(name for name, value in row.items() if name not in names and value not in (None, {}, []))
    return f"has {', '.join(unknown)}, which this version can't restore" if unknown else None


def endpoint_unrestorable_because(endpoint: EndpointDescription) -> str | None:
    """The clause that says why the endpoint itself can't be recreated."""
    if not endpoint.config:
        return "its configuration is gone or can't be read, so it can't be recreated"
    if odd := config_unrestorable_because(endpoint.config) or unknown_members_clause(
        endpoint.reply, ENDPOINT_MEMBERS, ENDPOINT_SERVICE_MEMBERS
    ):
        return odd if odd.startswith("the configuration") else f"it {odd}"
    variants = (*(endpoint.reply.get("ProductionVariants") or ()), *(endpoint.reply.get("ShadowProductionVariants") or ()))
    return next(
        (
            f"its variant {v['VariantName']} {odd}"
            for v in variants
            if (odd := unknown_members_clause(v, VARIANT_MEMBERS, VARIANT_SERVICE_MEMBERS))
        ),
        None,
    )


def config_unrestorable_because(row: Mapping[str, Any]) -> str | None:
    """The clause that says why a configuration can't be recreated."""
    odd = unknown_members_clause(row, CONFIG_MEMBERS, CONFIG_SERVICE_MEMBERS)
    return f"the configuration {row.get('EndpointConfigName')} {odd}" if odd else None


def component_unrestorable_because(row: Mapping[str, Any]) -> str | None:
    """The clause that says why an inference component can't be recreated; adapters never are."""
    specs = [s for s in (row.get("Specification"), *(row.get("Specifications") or ())) if s]
    name = row.get("InferenceComponentName")
    if not specs or any(s.get("BaseInferenceComponentName") for s in specs):
        return f"{name} is an adapter or has no readable specification, so the reaper won't delete its host"
    odd = [
        unknown_members_clause(row, COMPONENT_MEMBERS, COMPONENT_SERVICE_MEMBERS),
        *(unknown_members_clause(s, SPECIFICATION_MEMBERS, ("Container",)) for s in specs),
    ]
    odd += [unknown_members_clause(s.get("Container") or {}, CONTAINER_MEMBERS, ("DeployedImage",)) for s in specs]
    return next((f"the component {name} {one}" for one in odd if one), None)


def copy_count(row: Mapping[str, Any]) -> int:
    """How many copies a component is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def model_names(*rows: Mapping[str, Any]) -> set[str]:
    """The models that variants or specifications name, within configurations and components as described."""
    names: set[str] = set()
    for row in rows:
        inner = [row.get("Specification"), *(row.get("Specifications") or ())]
        inner += [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
        names |= {str(part["ModelName"]) for part in inner if part and part.get("ModelName")}
    return names


def missing_model_because(needed: Collection[str], deleted: Collection[str]) -> str | None:
    """The clause for a model that is needed and gone."""
    missing = sorted(set(needed) & set(deleted))
    return f"its model {missing[0]} is gone, so it can't be recreated" if missing else None


def no_room_for_tag_because(own_tags: Mapping[str, str] | None) -> str | None:
    """The clause for tags that leave no room for the one that marks a recreated resource (`actions.identity`)."""
    keys = [key for key in {**(own_tags or {}), RESTORED_TAG: ""} if not key.startswith("aws:")]
    if len(keys) <= MAX_TAGS:
        return None
    return f"it has {MAX_TAGS} tags, which leaves no room for the tag that marks a recreated resource"


def deleted_models(cloud: CloudSession, wanted: Collection[str]) -> set[str]:
    """Those of the models that were deleted, in bulk, from the newest on.

    None of them if that can't be read, which is noted, or if there are too many models to list: right before a deletion each one is
    read.
    """
    missing, remaining = set(wanted), MAX_MODEL_PAGES * 100
    try:
        for row in cloud.paged_rows("sagemaker", "ListModels", "Models", "ModelName", MaxResults=100) if missing else ():
            missing.discard(row["ModelName"])
            remaining -= 1
            if not missing or not remaining:
                return set()
    except CloudError as error:
        cloud.add_error(error)
        return set()
    return missing
