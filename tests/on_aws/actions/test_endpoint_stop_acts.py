from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from on_aws.actions.stage import WINDOW, Barred, Stage
from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper import registry
from reaper.acting.contract import HalfDone, done
from reaper.errors import CloudError, Reason
from reaper.model import State, StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import VARIANT
from reaper_sandbox.aws.fault import denied, garbage, lost, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
SCALABLE = "application-autoscaling"
HOST = Variant(model=None, scaling=(0, 4), count=2)


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, KIND)


def counts(account: Account, name: str = "e") -> dict[str, int]:
    return {v.name: v.count for v in account.contents.endpoints[name].variants}


def least(account: Account, id_: str = "endpoint/e/variant/AllTraffic", dimension: str = VARIANT) -> int:
    return account.contents.scalable[id_, dimension].least


def asynchronous(account: Account, *, count: int = 1, minimum: int = 1) -> dict[str, Any]:
    """An asynchronous endpoint with target tracking; gives the parameters that name its scalable target."""
    account.endpoint("e", asynchronous=True, variants=[Variant(count=count)])
    named = scaled.variant(account, "e", least=minimum)
    scaled.track(account, named)
    return named


def test_a_real_time_endpoint_goes_to_one_instance_and_back(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(name="a", count=3), Variant(name="b")])
    made, manifest = stage.made("e", StepName.STOP)
    assert counts(account) == {"a": 1, "b": 1}
    assert made == done("it is scaling in: a from 3 to 1")
    undone = stage.undo(manifest)
    assert counts(account) == {"a": 3, "b": 1}
    assert undone.not_restored == ()


def test_the_stop_warns_that_one_instance_breaks_a_rule_of_two():
    assert "is below the usual two" in registry.kind(KIND).actions[StepName.STOP].effect


def test_the_autoscaling_minimum_is_lowered_first_and_restored_by_undo(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)
    message, manifest = stage.move("e", StepName.STOP)
    order = [c.operation for c in server.calls if c.operation in ("RegisterScalableTarget", "UpdateEndpointWeightsAndCapacities")]
    assert order == ["RegisterScalableTarget", "UpdateEndpointWeightsAndCapacities"]
    assert (counts(account), least(account)) == ({"AllTraffic": 1}, 1), "autoscaling brings it back where its minimum stays"
    assert "minimum was lowered first" in message
    stage.undo(manifest)
    assert (counts(account), least(account)) == ({"AllTraffic": 3}, 2)
    assert account.contents.scalable["endpoint/e/variant/AllTraffic", VARIANT].most == 4


def test_a_failed_endpoint_scale_in_restores_the_minimum(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)
    server.rules.append(on("UpdateEndpointWeightsAndCapacities", denied()))
    with pytest.raises(CloudError) as raised:
        stage.move("e", StepName.STOP)
    assert raised.value.missing == "sagemaker:UpdateEndpointWeightsAndCapacities"
    assert stage.put_back("e").state is HalfDone.PUT_BACK
    assert (counts(account), least(account)) == ({"AllTraffic": 3}, 2)


def test_an_unlowered_minimum_leaves_the_instances_alone(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)
    server.rules.append(on("RegisterScalableTarget", denied()))
    with pytest.raises(CloudError):
        stage.move("e", StepName.STOP)
    assert counts(account) == {"AllTraffic": 3}


def test_undo_leaves_counts_raised_since_alone(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=2)])
    _, manifest = stage.move("e", StepName.STOP)
    account.contents.endpoints["e"].variants[0].count = 5
    stage.undo(manifest)
    assert counts(account) == {"AllTraffic": 5}


def test_an_async_endpoint_goes_to_zero_if_a_step_policy_wakes_it(account: Account, stage: Stage):
    scaled.wake(account, asynchronous(account))
    _, manifest = stage.move("e", StepName.STOP)
    assert (counts(account), least(account)) == ({"AllTraffic": 0}, 0)
    stage.undo(manifest)
    assert (counts(account), least(account)) == ({"AllTraffic": 1}, 1)


@pytest.mark.parametrize(
    "alarm",
    [
        pytest.param({"MetricName": "ApproximateBacklogSizePerInstance"}, id="a metric that stops with the last instance"),
        pytest.param({"Dimensions": [{"Name": "EndpointName", "Value": "other"}]}, id="another endpoint's"),
        pytest.param({"ActionsEnabled": False}, id="its actions are switched off"),
        pytest.param({"AlarmActions": []}, id="it sets nothing off"),
        pytest.param({"ComparisonOperator": "LessThanThreshold"}, id="it rings for less"),
        pytest.param({"Namespace": "Mine"}, id="another namespace"),
    ],
)
def test_an_alarm_that_cannot_wake_an_endpoint_keeps_one_instance(account: Account, stage: Stage, alarm: dict[str, Any]):
    scaled.wake(account, asynchronous(account, count=2), **alarm)
    _, _ = stage.move("e", StepName.STOP)
    assert counts(account) == {"AllTraffic": 1}


def test_target_tracking_alone_wakes_nothing(account: Account, stage: Stage):
    asynchronous(account)
    bar = stage.able("e")[StepName.STOP]
    assert bar
    assert (bar.already_done, "HasBacklogWithoutCapacity" in bar.because) == (True, True)


def test_scaling_out_that_is_suspended_wakes_nothing(account: Account, stage: Stage):
    scaled.wake(account, asynchronous(account))
    account.contents.scalable["endpoint/e/variant/AllTraffic", VARIANT].suspended = {"DynamicScalingOutSuspended": True}
    assert "would wake it" in stage.bar("e", StepName.STOP)


def test_a_policy_that_adds_a_percentage_of_nothing_wakes_nothing(account: Account, stage: Stage):
    scaled.wake(account, asynchronous(account))
    policy = account.contents.scalable["endpoint/e/variant/AllTraffic", VARIANT].policies["wake"]
    policy["StepScalingPolicyConfiguration"] = {**scaled.WAKE, "AdjustmentType": "PercentChangeInCapacity"}
    assert "would wake it" in stage.bar("e", StepName.STOP)


def test_the_wake_up_policy_must_exist_when_the_undo_state_is_read(account: Account, stage: Stage):
    scaled.wake(account, asynchronous(account))
    resource = stage.again(stage.resource("e")).resource
    account.contents.alarms.clear()
    with pytest.raises(CloudError, match="no more than one instance"):
        stage.manifest(resource, StepName.STOP)


@pytest.mark.parametrize("operation", ["DescribeScalableTargets", "DescribeScalingPolicies", "DescribeAlarms"])
@pytest.mark.parametrize("fault", [denied(), garbage()], ids=["denied", "garbled"])
def test_unreadable_autoscaling_blocks_the_stop_and_is_reported(
    account: Account, stage: Stage, server: Server, operation: str, fault: Any, run_sweep: Sweep
):
    scaled.wake(account, asynchronous(account))
    account.alive("e", "AllTraffic", NOW - 15 * DAY, NOW)
    server.rules.append(on(operation, fault))
    assert stage.bar("e", StepName.STOP) == "its scaling policies couldn't be read, so it may not scale up again automatically"
    result = run_sweep(KIND)
    assert result.state("e") is State.IDLE
    assert operation in (result.coverage(KIND).error or "")


def test_a_minimum_that_cannot_be_put_back_is_an_error(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)
    server.rules += [on("UpdateEndpointWeightsAndCapacities", denied())]
    refuse = on("RegisterScalableTarget", denied())
    server.rules.append(lambda call: refuse(call) if least(account) == 1 else None)
    with pytest.raises(CloudError, match="UpdateEndpointWeightsAndCapacities"):
        stage.move("e", StepName.STOP)
    with pytest.raises(CloudError, match="RegisterScalableTarget"):
        stage.put_back("e")


@pytest.mark.parametrize(
    ("variants", "because"),
    [
        ([Variant(memory_mb=2048, provisioned=2)], "serverless"),
        ([Variant(pools=(("ml.g5.xlarge", 2), ("ml.m5.large", 1)))], "pools of several instance types"),
        ([Variant()], "no more than one instance per variant"),
    ],
)
def test_an_unscalable_endpoint_says_why(account: Account, stage: Stage, variants: list[Variant], because: str):
    account.endpoint("e", variants=variants)
    assert because in stage.bar("e", StepName.STOP)


@pytest.mark.parametrize(
    ("status", "stop", "delete"),
    [
        ("InService", "", ""),
        ("Updating", "its status is Updating", "its status is Updating"),
        ("Creating", "its status is Creating", "its status is Creating"),
        ("SystemUpdating", "its status is SystemUpdating", "its status is SystemUpdating"),
        ("RollingBack", "its status is RollingBack", "its status is RollingBack"),
        ("Deleting", "it is being deleted already", "it is being deleted already"),
        ("Failed", "its status is Failed, in which it can't be scaled", ""),
        ("OutOfService", "its status is OutOfService, in which it can't be scaled", ""),
        ("UpdateRollbackFailed", "its status is UpdateRollbackFailed, in which it can't be scaled", ""),
        ("Novel", "its status is Novel", "its status is Novel"),
    ],
)
def test_status_decides_which_actions_are_blocked(account: Account, stage: Stage, status: str, stop: str, delete: str):
    account.endpoint("e", status=status, variants=[Variant(count=2)])
    assert (stage.bar("e", StepName.STOP), stage.bar("e", StepName.DELETE)) == (stop, delete)


def test_an_endpoint_without_a_closer_look_is_blocked(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=2)])
    account.alive("e", "AllTraffic", NOW - DAY, NOW)
    account.invoked("e", "AllTraffic", NOW - HOUR)
    assert {stage.bar("e", m) for m in (StepName.STOP, StepName.DELETE)} == {"it wasn't checked closely"}


def test_rereading_a_deleted_resource_raises_gone(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=2)])
    resource = stage.resource("e")
    account.contents.endpoints.clear()
    with pytest.raises(CloudError) as raised:
        stage.again(resource)
    assert raised.value.reason is Reason.GONE


def test_an_endpoint_updating_since_the_sweep_is_blocked(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=2)])
    resource = stage.resource("e")
    account.contents.endpoints["e"].status = "Updating"
    assert stage.again(resource).changing_because == "its status is Updating"
    with pytest.raises(Barred):
        stage.move("e", StepName.STOP)


def test_the_recheck_sees_traffic_since_the_sweep(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=2)])
    resource = stage.resource("e")
    account.alive("e", "AllTraffic", NOW - DAY, NOW)
    account.invoked("e", "AllTraffic", NOW - HOUR)
    used = [
        r
        for r in stage.again(resource).readings
        if r.signal == "Invocations" and r.series and any(v > 0 for v in r.series.values)
    ]
    assert used


def test_a_fleet_of_plain_endpoints_never_asks_for_autoscaling(account: Account, stage: Stage, server: Server):
    for index in range(5):
        account.endpoint(f"e{index}", variants=[Variant(count=2)])
    account.endpoint("busy", asynchronous=True)
    account.alive("busy", "AllTraffic", NOW - DAY, NOW)
    account.invoked("busy", "AllTraffic", NOW - HOUR)
    list(registry.kind(KIND).observe(cloud := stage.cloud(), list(registry.kind(KIND).discover(cloud)), WINDOW))
    assert not [name for name in cloud.calls if name.startswith(SCALABLE)]


def test_many_endpoints_that_could_sleep_cost_three_more_calls(account: Account, stage: Stage):
    for index in range(6):
        account.endpoint(f"e{index}", asynchronous=True)
        scaled.wake(account, scaled.variant(account, f"e{index}"), f"wake{index}")
    cloud = stage.cloud()
    list(registry.kind(KIND).observe(cloud, list(registry.kind(KIND).discover(cloud)), WINDOW))
    more = {n: c for n, c in cloud.calls.items() if n.startswith(SCALABLE) or n == "cloudwatch:DescribeAlarms"}
    assert more == {
        f"{SCALABLE}:DescribeScalableTargets": 1,
        f"{SCALABLE}:DescribeScalingPolicies": 1,
        "cloudwatch:DescribeAlarms": 1,
    }


def test_after_a_lost_reply_undo_restores_counts_and_minimum(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)
    server.world.settle_after = timedelta(minutes=10)
    server.rules.append(on("UpdateEndpointWeightsAndCapacities", lost(), times=1))
    resource = stage.again(stage.resource("e")).resource
    manifest = stage.manifest(resource, StepName.STOP)
    with pytest.raises(CloudError) as raised:
        stage.carry(resource, manifest)
    assert (raised.value.may_have_been_made, len(stage.parameters("sagemaker:UpdateEndpointWeightsAndCapacities"))) == (True, 1)
    assert (stage.put_back("e").state, counts(account), least(account)) == (HalfDone.DONE, {"AllTraffic": 1}, 1)
    server.now += timedelta(hours=1)
    stage.undo(manifest)
    assert (counts(account), least(account)) == ({"AllTraffic": 3}, 2)
