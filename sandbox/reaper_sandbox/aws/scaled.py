"""Seed autoscaling: a scalable target with the policies that people set up, and the alarm that wakes it from zero.

https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html and endpoint-auto-scaling-zero-instances.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws import alarms, autoscaling
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import COPIES, VARIANT

WAKE = {
    "AdjustmentType": "ChangeInCapacity",
    "MetricAggregationType": "Average",
    "Cooldown": 300,
    "StepAdjustments": [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}],
}
TRACK = {
    "TargetValue": 5.0,
    "CustomizedMetricSpecification": {"MetricName": "ApproximateBacklogSizePerInstance", "Namespace": "AWS/SageMaker"},
    "ScaleInCooldown": 600,
}


def variant(account: Account, endpoint: str, name: str = "AllTraffic", *, least: int = 1, most: int = 4) -> dict[str, Any]:
    """A scalable target of one variant; gives the parameters that name it."""
    return _target(account, f"endpoint/{endpoint}/variant/{name}", VARIANT, least, most)


def copies(account: Account, component: str, *, least: int = 1, most: int = 4) -> dict[str, Any]:
    """A scalable target of one inference component; gives the parameters that name it."""
    return _target(account, f"inference-component/{component}", COPIES, least, most)


def track(account: Account, named: dict[str, Any], name: str = "track") -> None:
    """A target-tracking policy."""
    call = {**named, "PolicyName": name, "PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": TRACK}
    autoscaling.put_policy(account.contents, call)


def wake(account: Account, named: dict[str, Any], name: str = "wake", **alarm: Any) -> None:
    """A step policy with an alarm `<name>-alarm` on what is asked of it in vain; `alarm` changes the alarm's parameters."""
    policy = {**named, "PolicyName": name, "PolicyType": "StepScaling", "StepScalingPolicyConfiguration": WAKE}
    made = autoscaling.put_policy(account.contents, policy) or {}
    owner = named["ResourceId"].split("/")[1]
    component = named["ScalableDimension"] == COPIES
    watched = {
        "AlarmName": f"{name}-alarm", "Namespace": "AWS/SageMaker", "Statistic": "Maximum", "Period": 60,
        "EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "missing", "ActionsEnabled": True, "AlarmActions": [made["PolicyARN"]],
        "MetricName": "NoCapacityInvocationFailures" if component else "HasBacklogWithoutCapacity",
        "Dimensions": [{"Name": "InferenceComponentName" if component else "EndpointName", "Value": owner}],
    }  # fmt: skip
    alarms.put_alarm(account.contents, watched | alarm)


def schedule(account: Account, named: dict[str, Any], name: str = "mornings") -> None:
    """A scheduled action."""
    action = {"MinCapacity": 2, "MaxCapacity": 4}
    call = {**named, "ScheduledActionName": name, "Schedule": "cron(0 7 ? * MON-FRI *)", "Timezone": "Europe/Berlin"}
    autoscaling.put_action(account.contents, {**call, "ScalableTargetAction": action})


def _target(account: Account, id_: str, dimension: str, least: int, most: int) -> dict[str, Any]:
    named = {"ServiceNamespace": "sagemaker", "ResourceId": id_, "ScalableDimension": dimension}
    autoscaling.register(account.contents, {**named, "MinCapacity": least, "MaxCapacity": most})
    return named
