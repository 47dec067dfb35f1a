"""Application Auto Scaling of one region's SageMaker resources, as read: what scales what, and what would wake it from zero.

Target tracking can't leave zero, because its metrics stop with the last instance; only a step policy can whose alarm watches what is
asked for in vain: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reaper.acting.contract import Members, OwnChanges, Permit, any_members
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members, digest, unknown_members_clause
from reaper.aws.session import CloudSession
from reaper.aws.table import Row
from reaper.errors import ActionWithdrawn, CloudError, Reason, gone_as_partial

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


def read_autoscaling(cloud: CloudSession) -> Autoscaling:
    """All of the region's, in bulk: one call where nothing is scaled, three or a few more otherwise. Raises CloudError."""
    targets = tuple(_read_targets(cloud))
    policies = tuple(_read_policies(cloud)) if targets else ()
    return Autoscaling(targets=targets, policies=policies, alarms=_read_alarms(cloud, policies))


def read_autoscaling_or_none(cloud: CloudSession) -> Autoscaling | None:
    """The same for a sweep: None, and noted, when it can't be read."""
    return cloud.read_or_none(PERMISSIONS[0], lambda: read_autoscaling(cloud))


def read_autoscaling_of(cloud: CloudSession, ids: Iterable[str]) -> Autoscaling:
    """The same of those resource IDs only, such as `endpoint/x/variant/y`. Raises CloudError."""
    wanted = sorted(ids)
    targets = tuple(_read_targets(cloud, ResourceIds=wanted)) if wanted else ()
    scaled = sorted({target["ResourceId"] for target in targets})
    policies = tuple(policy for id_ in scaled for policy in _read_policies(cloud, ResourceId=id_))
    return Autoscaling(targets=targets, policies=policies, alarms=_read_alarms(cloud, policies))


def _read_targets(cloud: CloudSession, **filters: Any) -> Iterator[Row]:
    has = ("ResourceId", "ScalableDimension", "MinCapacity", "MaxCapacity")
    return cloud.paged_rows(SERVICE, "DescribeScalableTargets", "ScalableTargets", *has, **NAMESPACE_PARAMETER, **filters)


def _read_policies(cloud: CloudSession, **filters: Any) -> Iterator[Row]:
    named = ("PolicyName", "PolicyARN", "PolicyType", "ResourceId", "ScalableDimension")
    return cloud.paged_rows(SERVICE, "DescribeScalingPolicies", "ScalingPolicies", *named, **NAMESPACE_PARAMETER, **filters)


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
    if not alarm or not alarm.get("ActionsEnabled") or policy not in (alarm.get("AlarmActions") or ()):
        return False
    watched = {d.get("Name"): d.get("Value") for d in alarm.get("Dimensions") or ()}
    right = (alarm.get("Namespace"), alarm.get("MetricName"), watched) == ("AWS/SageMaker", metric, dict(dimensions))
    return right and _is_breached_by_one(alarm) and (metric not in SPARSE_METRICS or _needs_one_point(alarm))


def _is_breached_by_one(alarm: Row) -> bool:
    """Both metrics are 1 where something is asked for in vain: an alarm that waits for more may wait for ever."""
    level, compare = alarm.get("Threshold"), ABOVE_OPERATORS.get(alarm.get("ComparisonOperator", ""))
    if compare is None or not isinstance(level, (int, float)) or alarm.get("Unit") not in COUNT_UNITS:
        return False
    return compare(1.0, level)


def _needs_one_point(alarm: Row) -> bool:
    """A metric with points only where a request fails may show one point and then none for long. An alarm that needs several rings
    then only where it takes no account of missing ones.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
    """
    needed = alarm.get("DatapointsToAlarm") or alarm.get("EvaluationPeriods") or 1
    return bool(needed == 1 or alarm.get("TreatMissingData", "missing") in {"missing", "breaching"})


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
TARGET_KEY = ("ResourceId", "ScalableDimension")
MEMBERS_BY_TABLE: Mapping[str, tuple[tuple[str, ...], set[str]]] = {
    "targets": (TARGET_MEMBERS, TARGET_SERVICE_MEMBERS),
    "policies": (POLICY_MEMBERS, POLICY_SERVICE_MEMBERS),
    "actions": (SCHEDULED_ACTION_MEMBERS, SCHEDULED_ACTION_SERVICE_MEMBERS),
    "alarms": (ALARM_MEMBERS, ALARM_SERVICE_MEMBERS),
}
"""What recreates each, and what the service adds."""
SAVED_MEMBERS: Members = {name: any_members(*members) for name, (members, _) in MEMBERS_BY_TABLE.items()}
SavedAutoscaling = Row
"""`targets`, `policies`, `actions` and `alarms`, each a list of parameters for the call that recreates it."""
RESTORE_PERMISSIONS = (
    *PERMISSIONS,
    "application-autoscaling:DescribeScheduledActions",
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:PutScheduledAction",
    "cloudwatch:PutMetricAlarm",
)


def read_autoscaling_state(cloud: CloudSession, ids: Collection[str], *, will_be_deleted: bool = False) -> SavedAutoscaling:
    """All autoscaling of those resource ids. Raises CloudError if it `will_be_deleted` with them and has something this version can't restore."""
    scaling = read_autoscaling_of(cloud, ids)
    scaled = sorted({target["ResourceId"] for target in scaling.targets})
    actions = [row for id_ in scaled for row in _read_scheduled_actions(cloud, ResourceId=id_)]
    rows = {
        "targets": scaling.targets,
        "policies": scaling.policies,
        "actions": actions,
        "alarms": tuple(scaling.alarms.values()),
    }
    for name, some_rows in rows.items() if will_be_deleted else ():
        _require_known_members(some_rows, *MEMBERS_BY_TABLE[name])
    return {name: [chosen_members(row, *MEMBERS_BY_TABLE[name][0]) for row in some_rows] for name, some_rows in rows.items()}


def _require_known_members(rows: Iterable[Row], members: Collection[str], service_members: Collection[str]) -> None:
    """`service_members` are set by the service. Raises CloudError for any but those and `members`."""
    for row in rows:
        if odd := unknown_members_clause(row, members, service_members):
            name = row.get("AlarmName") or row.get("PolicyName") or row.get("ScheduledActionName") or "the scalable target"
            raise CloudError(Reason.REFUSED, "application-autoscaling:DescribeScalableTargets", f"its autoscaling: {name} {odd}")


def autoscaling_digest(saved: SavedAutoscaling, resource_id: str) -> str:
    """What a person may change of the autoscaling of one resource ID, but for its minimum, in short."""
    targets = [{k: v for k, v in row.items() if k != "MinCapacity"} for row in _saved_rows(saved, "targets", {resource_id})]
    policies = _saved_rows(saved, "policies", {resource_id})
    alarms = [alarm for policy in policies for alarm in _saved_alarms(policy, saved)]
    return digest([targets, policies, alarms, _saved_rows(saved, "actions", {resource_id})])


def deregister_targets(cloud: CloudSession, saved: SavedAutoscaling, permit: Permit, own_changes: OwnChanges) -> list[str]:
    """Deregister scalable targets, and with them their policies and scheduled actions. Returns what couldn't be deregistered.

    DeleteEndpoint removes those of its variants, so one that is gone is no failure.
    """
    remaining: list[str] = []
    for target in saved["targets"]:
        named = {name: target[name] for name in TARGET_KEY}
        try:
            with permit(own_changes, may_be_gone=True):
                cloud.change(SERVICE, "DeregisterScalableTarget", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **named)
        except ActionWithdrawn as reason:  # what it belonged to is gone all the same
            return [*remaining, f"its autoscaling stays ({reason})"]
        except CloudError as error:
            if error.code != "ObjectNotFoundException" and error.reason is not Reason.GONE:
                remaining.append(f"the scalable target of {target['ResourceId']} couldn't be deregistered ({error})")
    return remaining


def restore_autoscaling(cloud: CloudSession, saved: SavedAutoscaling, ids: Collection[str]) -> list[str]:
    """Recreate what is missing of the autoscaling of those resource IDs, which are in service. Returns what couldn't be recreated."""
    now = read_autoscaling(cloud)
    lost: list[str] = []
    present = {target_key(row) for row in now.targets}
    gone = [t for t in _saved_rows(saved, "targets", ids) if target_key(t) not in present]
    _restore_each(lost, gone, lambda row: register_target(cloud.call, row, **row))
    policies = {(*target_key(row), row["PolicyName"]): row for row in now.policies}
    before = [(policies.get((*target_key(p), p["PolicyName"])), p) for p in _saved_rows(saved, "policies", ids)]
    missing = [policy for present, policy in before if not _has_all_alarms(present, policy, saved)]
    _restore_each(lost, missing, lambda row: _restore_policy(cloud, row, saved))
    wanted = _saved_rows(saved, "actions", ids)
    actions = {(*target_key(row), row["ScheduledActionName"]) for row in (_read_scheduled_actions(cloud) if wanted else ())}
    absent = [row for row in wanted if (*target_key(row), row["ScheduledActionName"]) not in actions]
    _restore_each(
        lost, absent, lambda row: cloud.call(SERVICE, "PutScheduledAction", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **row)
    )
    return lost


def _has_all_alarms(present: Row | None, policy: Row, saved: SavedAutoscaling) -> bool:
    """Whether the policy is there and all its alarms set it off: one made by a run that then failed has none of them yet."""
    alarm_names = {alarm["AlarmName"] for alarm in (present or {}).get("Alarms") or ()}
    return present is not None and alarm_names >= {alarm["AlarmName"] for alarm in _saved_alarms(policy, saved)}


def _saved_alarms(policy: Row, saved: SavedAutoscaling) -> list[Row]:
    """The recorded alarms of a step policy; target tracking makes its own."""
    arn = policy["PolicyARN"]
    return [a for a in saved["alarms"] if policy["PolicyType"] == "StepScaling" and arn in a.get("AlarmActions", ())]


def _restore_policy(cloud: CloudSession, policy: Row, saved: SavedAutoscaling) -> None:
    """Recreate the policy, and point the alarms of the old one to it: as they are now or, if they are gone, as they were."""
    params = {name: policy[name] for name in POLICY_MEMBERS if name in policy and name != "PolicyARN"}
    arn = cloud.call(SERVICE, "PutScalingPolicy", "PolicyARN", **NAMESPACE_PARAMETER, **params)["PolicyARN"]
    for alarm in _saved_alarms(policy, saved):
        rows = cloud.call("cloudwatch", "DescribeAlarms", "MetricAlarms", AlarmNames=[alarm["AlarmName"]])["MetricAlarms"]
        _require_known_members(rows[:1], *MEMBERS_BY_TABLE["alarms"])
        latest = chosen_members(rows[0], *ALARM_MEMBERS) if rows else dict(alarm)
        others = [one for one in latest.get("AlarmActions", ()) if one not in (policy["PolicyARN"], arn)]
        cloud.call("cloudwatch", "PutMetricAlarm", ANY_REPLY_KEY, **{**latest, "AlarmActions": [*others, arn]})


def _restore_each(lost: list[str], rows: Iterable[Row], make: Any) -> None:
    for row in rows:
        try:
            make(row)
        except CloudError as error:
            name = row.get("PolicyName") or row.get("ScheduledActionName") or "scalable target"
            lost.append(f"Autoscaling of {row['ResourceId']}: {name} couldn't be recreated ({error}).")


def register_target(send: Callable[..., Any], target: Row, **change: Any) -> None:
    """`send`: the session's `call` or `change`. A target that is not found does not mean that the resource is gone."""
    named = {name: target[name] for name in TARGET_KEY}
    changed = {name: value for name, value in change.items() if name not in TARGET_KEY}
    with gone_as_partial():
        send(SERVICE, "RegisterScalableTarget", ANY_REPLY_KEY, **NAMESPACE_PARAMETER, **named, **changed)


def _read_scheduled_actions(cloud: CloudSession, **filters: Any) -> list[dict[str, Any]]:
    has = ("ScheduledActionName", *TARGET_KEY)
    rows = cloud.paged_rows(SERVICE, "DescribeScheduledActions", "ScheduledActions", *has, **NAMESPACE_PARAMETER, **filters)
    return list(rows)


def _saved_rows(saved: SavedAutoscaling, name: str, ids: Collection[str]) -> list[Row]:
    return [row for row in saved[name] if row["ResourceId"] in ids]
