from __future__ import annotations

from typing import Any

from reaper.aws import scaling
from reaper.aws.scaling import Scaling

ROW = {"ResourceId": "endpoint/e/variant/v", "ScalableDimension": scaling.VARIANT}
STEPS = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 1}]}
ALARM = {
    "AlarmName": "a", "ActionsEnabled": True, "AlarmActions": ["arn:policy"], "ComparisonOperator": "GreaterThanThreshold",
    "Namespace": "AWS/SageMaker", "MetricName": "HasBacklogWithoutCapacity", "Dimensions": [{"Name": "EndpointName", "Value": "e"}],
}  # fmt: skip


def wakes(
    target: dict[str, Any] | None = None, policy: dict[str, Any] | None = None, alarm: dict[str, Any] | None = None
) -> bool:
    """Whether it wakes where everything is as it should be but for what is given."""
    found = Scaling(
        targets=({**ROW, "MinCapacity": 0, "MaxCapacity": 2, **(target or {})},),
        policies=(
            {
                **ROW,
                "PolicyName": "p",
                "PolicyARN": "arn:policy",
                "PolicyType": "StepScaling",
                "Alarms": [{"AlarmName": "a"}],
                "StepScalingPolicyConfiguration": STEPS,
                **(policy or {}),
            },
        ),
        alarms={"a": {**ALARM, **(alarm or {})}},
    )
    return scaling.wakes_variant(found, "e", "v")


def test_a_step_policy_with_an_alarm_on_the_backlog_wakes_it():
    assert wakes()


def test_nothing_less_does():
    assert not wakes(target={"MaxCapacity": 0})
    assert not wakes(target={"ResourceId": "endpoint/e/variant/other"})
    assert not wakes(policy={"PolicyType": "TargetTrackingScaling"})
    assert not wakes(policy={"ScalableDimension": scaling.COPIES})
    assert not wakes(policy={"StepScalingPolicyConfiguration": {**STEPS, "StepAdjustments": [{"ScalingAdjustment": -1}]}})
    assert not wakes(policy={"Alarms": []})
    assert not wakes(alarm={"AlarmActions": ["arn:another"]})
    assert not wakes(alarm={"AlarmActions": None})
    assert not wakes(alarm={"Dimensions": []})
