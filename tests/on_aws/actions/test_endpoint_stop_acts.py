from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from on_aws.actions.stage import WINDOW, Barred, Stage
from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper import registry
from reaper.acting.contract import ActionResult, HalfDone
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import State, StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import COPIES, VARIANT
from reaper_sandbox.aws.fault import denied, error, garbage, lost, on
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
    assert made == ActionResult(because="it is scaling in: a from 3 to 1")
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


def host(account: Account, *names: str, wakes: bool = True, variant: Variant = HOST) -> None:
    """A host of components, each with autoscaling that wakes it."""
    account.endpoint("e", variants=[variant])
    for name in names:
        account.component(name, "e", copies=2)
        named = scaled.copies(account, name, least=1)
        if wakes:
            scaled.wake(account, named, f"wake-{name}")


def test_a_host_goes_to_zero_through_its_components_and_back(account: Account, stage: Stage):
    host(account, "one", "two")
    message, manifest = stage.move("e", StepName.STOP)
    assert {c.copies for c in account.contents.components.values()} == {0}
    assert (counts(account), least(account, "inference-component/one", COPIES)) == ({"AllTraffic": 0}, 0)
    assert "component one from 2 to zero copies" in message
    stage.undo(manifest)
    assert {c.copies for c in account.contents.components.values()} == {2}
    assert least(account, "inference-component/one", COPIES) == 1


def test_a_host_of_components_without_copies_is_already_stopped(account: Account, stage: Stage):
    host(account, "one", "two")
    for one in account.contents.components.values():
        one.copies = 0
    bar = stage.able("e")[StepName.STOP]
    assert bar
    assert (bar.because, bar.already_done) == ("its components already have no copies; SageMaker releases its instances", True)
    account.contents.components["two"].copies = 1
    assert stage.able("e")[StepName.STOP] is None


def test_a_half_scaled_in_host_gets_back_the_minimum_of_the_rest(account: Account, stage: Stage, server: Server):
    host(account, "one", "two")
    refuse = on("UpdateInferenceComponentRuntimeConfig", denied())
    server.rules.append(lambda call: refuse(call) if any(not c.copies for c in account.contents.components.values()) else None)
    with pytest.raises(CloudError, match="UpdateInferenceComponentRuntimeConfig"):
        stage.move("e", StepName.STOP)
    settled = stage.put_back("e")
    assert settled.state is HalfDone.LEFT  # a part of the stop took effect: it isn't as it was
    assert "inference-component/one was scaled to zero" in settled.because
    assert "the autoscaling minimum of inference-component/two is 1 again" in settled.because
    assert least(account, "inference-component/two", COPIES) == 1


def test_a_vanished_component_does_not_mean_a_vanished_endpoint(account: Account, stage: Stage):
    host(account, "one", "two")
    resource = stage.again(stage.resource("e")).resource
    manifest = stage.manifest(resource, StepName.STOP)
    del account.contents.components["one"]
    with pytest.raises(ActionWithdrawn, match="its settings, contents changed"):
        stage.carry(resource, manifest)
    assert (account.contents.components["two"].copies, least(account, "inference-component/two", COPIES)) == (2, 1)


@pytest.mark.parametrize("operation", ["RegisterScalableTarget", "UpdateInferenceComponentRuntimeConfig"])
def test_a_component_that_vanishes_at_its_call_is_no_vanished_endpoint(
    account: Account, stage: Stage, server: Server, operation: str
):
    host(account, "one", "two")
    server.rules.append(on(operation, error(400, "ValidationException", 'Could not find inference component "one".')))
    with pytest.raises(CloudError) as raised:
        stage.move("e", StepName.STOP)
    assert raised.value.reason is not Reason.GONE
    assert not raised.value.may_have_been_made


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


def test_a_host_with_a_component_nothing_wakes_is_not_stopped(account: Account, stage: Stage):
    host(account, "one", "two")
    del account.contents.alarms["wake-two-alarm"]
    assert "would wake its component two" in stage.bar("e", StepName.STOP)


@pytest.mark.parametrize("variant", [Variant(model=None, scaling=(1, 4)), Variant(model=None, count=2)])
def test_a_host_whose_instances_may_not_go_to_zero_is_not_scaled_in(account: Account, stage: Stage, variant: Variant):
    host(account, "one", variant=variant)
    assert "ManagedInstanceScaling" in stage.bar("e", StepName.STOP)


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


@pytest.mark.parametrize("tags", [{"reaper:keep": "true"}, {"reaper:kepp": "true"}, {"reaper:keep-until": "2027-01-01"}])
@pytest.mark.parametrize("when", ["before the sweep", "since the sweep"])
def test_a_component_protected_by_tags_protects_its_endpoint(account: Account, stage: Stage, tags: dict, when: str):
    host(account, "one", "two")
    resource = stage.resource("e")
    account.contents.components["two"].tags = tags
    if when == "before the sweep":
        assert all("two inside it is protected" in stage.bar("e", m) for m in (StepName.STOP, StepName.DELETE))
    else:
        account.contents.components["two"].tags = tags
        able = registry.kind(KIND).blocked_actions(stage.again(resource).resource)
        assert all("two inside it is protected" in able[m].because for m in (StepName.STOP, StepName.DELETE))


def test_a_components_current_tags_protect_if_the_bulk_ones_lag(account: Account, stage: Stage):
    host(account, "one")
    resource = stage.resource("e")
    account.contents.components["one"].tags = {"reaper:keep": "true"}
    fresh = registry.action_functions(KIND).read_now(stage.cloud(), resource)
    account.contents.components["one"].tags = None
    [observation] = registry.kind(KIND).observe(stage.cloud(), [fresh], WINDOW)
    able = registry.kind(KIND).blocked_actions(observation.resource)
    assert all("one inside it is protected" in able[m].because for m in (StepName.STOP, StepName.DELETE))


def test_a_component_allowing_only_a_stop_forbids_the_deletion(account: Account, stage: Stage):
    host(account, "one")
    account.contents.components["one"].tags = {"reaper:action": "stop"}
    assert (stage.bar("e", StepName.STOP), "allows no more" in stage.bar("e", StepName.DELETE)) == ("", True)


def test_components_whose_tags_cannot_be_read_protect_their_endpoint(account: Account, stage: Stage, server: Server):
    host(account, "one")
    resource = stage.resource("e")
    server.rules.append(on("GetResources", denied()))
    assert "tags couldn't be read" in stage.bar("e", StepName.DELETE)
    server.rules[:] = [on("ListTags", denied())]
    with pytest.raises(CloudError):
        stage.again(resource)


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
