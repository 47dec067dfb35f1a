"""Application Auto Scaling of one region's SageMaker resources, as read: what scales what, and what would wake it from zero.

Target tracking can't leave zero, because its metrics stop with the last instance; only a step policy can whose alarm watches what is
asked for in vain: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reaper.aws.reader import Row
    from reaper.aws.session import CloudSession

UNREAD = "its scaling policies couldn't be read, so it may not scale up again automatically"
SERVICE = "application-autoscaling"
NAMESPACE_PARAMETER = {"ServiceNamespace": "sagemaker"}
VARIANT_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
COPIES_DIMENSION = "sagemaker:inference-component:DesiredCopyCount"
CAPACITY_DIMENSIONS = {VARIANT_DIMENSION, COPIES_DIMENSION}
MAX_ALARMS_PER_CALL = 100
SPARSE_METRICS = {"NoCapacityInvocationFailures"}
"""Metrics without any points while no request comes in; a backlog is published every minute."""
ABOVE_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
}
COUNT_UNITS = (None, "None", "Count")
"""An alarm on another unit sees no points."""
PERMISSIONS = (
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "cloudwatch:DescribeAlarms",
)
SCHEDULE_PERMISSION = "application-autoscaling:DescribeScheduledActions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """Scalable targets, their policies, and by name the alarms that set those off."""

    targets: tuple[Row, ...] = ()
    policies: tuple[Row, ...] = ()
    alarms: Mapping[str, Row] = field(default_factory=dict)


def read_autoscaling(cloud: CloudSession, ids: Collection[str] | None = None) -> Autoscaling:
    """All of the region's, in bulk, or of those resource IDs only, such as `endpoint/x/variant/y`: one call where nothing is scaled,
    three or a few more otherwise. Raises CloudError.
    """
    has = ("ResourceId", "ScalableDimension", "MinCapacity", "MaxCapacity")
    ask: dict[str, Any] = {**NAMESPACE_PARAMETER, **({} if ids is None else {"ResourceIds": sorted(ids)})}
    rows = cloud.paged_rows(SERVICE, "DescribeScalableTargets", "ScalableTargets", *has, **ask)
    targets = tuple(rows) if ids is None or ids else ()
    each = [None] if ids is None and targets else sorted({target["ResourceId"] for target in targets})
    policies = tuple(policy for id_ in each for policy in _read_policies(cloud, id_))
    return Autoscaling(targets=targets, policies=policies, alarms=_read_alarms(cloud, policies))


def read_autoscaling_or_none(cloud: CloudSession) -> Autoscaling | None:
    """The same for a sweep: None, and noted, when it can't be read."""
    return cloud.read_or_none(PERMISSIONS[0], lambda: read_autoscaling(cloud))


def _read_policies(cloud: CloudSession, id_: str | None) -> Iterator[Row]:
    ask = {**NAMESPACE_PARAMETER, **({"ResourceId": id_} if id_ else {})}
    has = ("PolicyName", "PolicyARN", "PolicyType", "ResourceId", "ScalableDimension")
    return cloud.paged_rows(SERVICE, "DescribeScalingPolicies", "ScalingPolicies", *has, **ask)


def variant_resource_id(endpoint: str, name: str) -> str:
    """How autoscaling calls a variant."""
    return f"endpoint/{endpoint}/variant/{name}"


def component_resource_id(name: str) -> str:
    """How autoscaling calls an inference component."""
    return f"inference-component/{name}"


def name_in(id_: str) -> str:
    """The variant or component that autoscaling calls so."""
    return id_.rpartition("/")[2]


def minimum_by_variant(scaling: Autoscaling | None, endpoint: str) -> dict[str, int]:
    """The fewest instances to which autoscaling may scale in each variant of an endpoint that it scales."""
    prefix = variant_resource_id(endpoint, "")
    scaled = {target_key(policy) for policy in scaling.policies} if scaling else set()
    return {
        target["ResourceId"].removeprefix(prefix): int(target["MinCapacity"])
        for target in (scaling.targets if scaling else ())
        if target["ResourceId"].startswith(prefix) and target_key(target) in scaled
    }


def can_wake_variant(scaling: Autoscaling, endpoint: str, name: str) -> bool:
    """Whether a request would bring an asynchronous endpoint's variant back from zero."""
    watched = ("HasBacklogWithoutCapacity", {"EndpointName": endpoint})
    return _can_wake(scaling, (variant_resource_id(endpoint, name), VARIANT_DIMENSION), *watched)


def can_wake_component(scaling: Autoscaling, name: str) -> bool:
    """Whether a request would bring an inference component back from no copies."""
    watched = ("NoCapacityInvocationFailures", {"InferenceComponentName": name})
    return _can_wake(scaling, (component_resource_id(name), COPIES_DIMENSION), *watched)


def _can_wake(scaling: Autoscaling, key: tuple[str, str], metric: str, dimensions: Mapping[str, str]) -> bool:
    targets = [t for t in scaling.targets if target_key(t) == key and int(t["MaxCapacity"]) > 0]
    free = any(not (t.get("SuspendedState") or {}).get("DynamicScalingOutSuspended") for t in targets)
    return free and any(
        _alarm_triggers(scaling.alarms.get(name), policy["PolicyARN"], metric, dimensions)
        for policy in scaling.policies
        if target_key(policy) == key and _adds_capacity(policy)
        for name in _alarm_names(policy)
    )


def target_key(row: Row) -> tuple[str, str]:
    """What tells a scalable target, and what belongs to it, from any other."""
    return row["ResourceId"], row["ScalableDimension"]


def _adds_capacity(policy: Row) -> bool:
    """A step policy that adds a fixed number: a percentage of nothing is nothing."""
    steps = policy.get("StepScalingPolicyConfiguration") or {}
    fixed = steps.get("AdjustmentType") in {"ChangeInCapacity", "ExactCapacity"}
    return (
        policy["PolicyType"] == "StepScaling"
        and fixed
        and any(step.get("ScalingAdjustment", 0) > 0 for step in steps.get("StepAdjustments") or ())
    )


def _alarm_triggers(alarm: Row | None, policy: str, metric: str, dimensions: Mapping[str, str]) -> bool:
    """Whether one request in vain sets it off. Both metrics are 1 then: an alarm that waits for more may wait for ever. A metric with
    points only where a request fails may show one point and then none for long. An alarm that needs several rings then only where it
    takes no account of missing ones.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
    """
    if not alarm or not alarm.get("ActionsEnabled") or policy not in (alarm.get("AlarmActions") or ()):
        return False
    watched = {d.get("Name"): d.get("Value") for d in alarm.get("Dimensions") or ()}
    if (alarm.get("Namespace"), alarm.get("MetricName"), watched) != ("AWS/SageMaker", metric, dict(dimensions)):
        return False
    level, compare = alarm.get("Threshold"), ABOVE_OPERATORS.get(alarm.get("ComparisonOperator", ""))
    if compare is None or not isinstance(level, (int, float)) or alarm.get("Unit") not in COUNT_UNITS or not compare(1.0, level):
        return False
    needed = alarm.get("DatapointsToAlarm") or alarm.get("EvaluationPeriods") or 1
    return metric not in SPARSE_METRICS or needed == 1 or alarm.get("TreatMissingData", "missing") in {"missing", "breaching"}


def _alarm_names(policy: Row) -> list[str]:
    return [str(a["AlarmName"]) for a in policy.get("Alarms") or () if a.get("AlarmName")]


def _read_alarms(cloud: CloudSession, policies: Iterable[Row]) -> dict[str, Row]:
    """The alarms of all step policies; target tracking keeps alarms of its own."""
    names = sorted({name for policy in policies if policy["PolicyType"] == "StepScaling" for name in _alarm_names(policy)})
    alarms: dict[str, Row] = {}
    for start in range(0, len(names), MAX_ALARMS_PER_CALL):
        batch = names[start : start + MAX_ALARMS_PER_CALL]
        rows = cloud.paged_rows(
            "cloudwatch", "DescribeAlarms", "MetricAlarms", "AlarmName", AlarmNames=batch, MaxRecords=MAX_ALARMS_PER_CALL
        )
        alarms |= {row["AlarmName"]: row for row in rows}
    return alarms
