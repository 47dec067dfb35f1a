from __future__ import annotations

from typing import Any

import pytest

from reaper.aws import autoscaling
from reaper.aws.autoscaling import Autoscaling

ROW = {"ResourceId": "endpoint/e/variant/v", "ScalableDimension": autoscaling.VARIANT_DIMENSION}
STEPS = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 1}]}
ALARM = {
    "AlarmName": "a", "ActionsEnabled": True, "AlarmActions": ["arn:policy"], "ComparisonOperator": "GreaterThanThreshold", "Threshold": 0.0,
    "Namespace": "AWS/SageMaker", "MetricName": "HasBacklogWithoutCapacity", "Dimensions": [{"Name": "EndpointName", "Value": "e"}],
}  # fmt: skip


def wakes(
    target: dict[str, Any] | None = None, policy: dict[str, Any] | None = None, alarm: dict[str, Any] | None = None
) -> bool:
    """Whether it wakes where everything is as it should be but for what is given."""
    scaling = Autoscaling(
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
    return autoscaling.can_wake_variant(scaling, "e", "v")


def test_a_step_policy_on_the_backlog_wakes_an_endpoint():
    assert wakes()


def test_an_incomplete_wake_up_policy_does_not_count():
    assert not wakes(target={"MaxCapacity": 0})
    assert not wakes(target={"ResourceId": "endpoint/e/variant/other"})
    assert not wakes(policy={"PolicyType": "TargetTrackingScaling"})
    assert not wakes(policy={"ScalableDimension": autoscaling.COPIES_DIMENSION})
    assert not wakes(policy={"StepScalingPolicyConfiguration": {**STEPS, "StepAdjustments": [{"ScalingAdjustment": -1}]}})
    assert not wakes(policy={"Alarms": []})
    assert not wakes(alarm={"AlarmActions": ["arn:another"]})
    assert not wakes(alarm={"AlarmActions": None})
    assert not wakes(alarm={"Dimensions": []})


ABOVE, AT = "GreaterThanThreshold", "GreaterThanOrEqualToThreshold"


@pytest.mark.parametrize(
    ("alarm", "rings"),
    [
        pytest.param({"ComparisonOperator": AT, "Threshold": 1.0}, True, id="at least one"),
        pytest.param({"ComparisonOperator": ABOVE, "Threshold": 0.0}, True, id="more than none"),
        pytest.param({"ComparisonOperator": ABOVE, "Threshold": 0.5}, True, id="more than a half"),
        pytest.param({"ComparisonOperator": ABOVE, "Threshold": 1.0}, False, id="more than its highest value"),
        pytest.param({"ComparisonOperator": AT, "Threshold": 1.1}, False, id="at least more than its highest value"),
        pytest.param({"ComparisonOperator": AT, "Threshold": 1000.0}, False, id="a thousand"),
        pytest.param({"ComparisonOperator": "GreaterThanUpperThreshold", "Threshold": 0.0}, False, id="a band"),
        pytest.param({"ComparisonOperator": "LessThanThreshold", "Threshold": 5.0}, False, id="less"),
        pytest.param({"Threshold": None}, False, id="no threshold"),
        pytest.param({"Unit": "Percent"}, False, id="a unit without points"),
        pytest.param(
            {"DatapointsToAlarm": 3, "TreatMissingData": "notBreaching"}, True, id="three points that come every minute"
        ),
    ],
)
def test_an_alarm_counts_only_if_one_request_triggers_it(alarm: dict[str, Any], rings: bool):
    assert wakes(alarm=alarm) is rings


@pytest.mark.parametrize(
    ("alarm", "rings"),
    [
        pytest.param({}, True, id="one point"),
        pytest.param(
            {"EvaluationPeriods": 3, "DatapointsToAlarm": 1, "TreatMissingData": "notBreaching"}, True, id="one of three"
        ),
        pytest.param({"EvaluationPeriods": 3, "TreatMissingData": "missing"}, True, id="missing ones do not count"),
        pytest.param({"EvaluationPeriods": 3, "TreatMissingData": "notBreaching"}, False, id="missing ones count as none"),
        pytest.param({"EvaluationPeriods": 2, "TreatMissingData": "ignore"}, False, id="missing ones leave it as it is"),
        pytest.param({"Threshold": 5.0}, False, id="more than one request"),
    ],
)
def test_a_components_alarm_must_ring_for_one_failed_request(alarm: dict[str, Any], rings: bool):
    row = {"ResourceId": "inference-component/c", "ScalableDimension": autoscaling.COPIES_DIMENSION}
    policy = {**row, "PolicyName": "p", "PolicyARN": "arn:policy", "PolicyType": "StepScaling", "Alarms": [{"AlarmName": "a"}]}
    watched = {"MetricName": "NoCapacityInvocationFailures", "Dimensions": [{"Name": "InferenceComponentName", "Value": "c"}]}
    scaling = Autoscaling(
        targets=({**row, "MinCapacity": 0, "MaxCapacity": 2},),
        policies=({**policy, "StepScalingPolicyConfiguration": STEPS},),
        alarms={"a": {**ALARM, **watched, **alarm}},
    )
    assert autoscaling.can_wake_component(scaling, "c") is rings
