from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from on_aws.actions.stage import Stage
from on_aws.conftest import HOUR, NOW
from reaper import registry
from reaper.acting.contract import HalfDone
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import COPIES
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import denied, error, garbage, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-inference-component"
KEY = ("inference-component/One", COPIES)
MINUTES = timedelta(minutes=10)


@pytest.fixture
def stage(server: Server, account: Account) -> Stage:
    account.endpoint("e", variants=[Variant(model=None, scaling=(1, 4), count=2)], tags={"team": "language"})
    account.component("One", "e", copies=3, tags={"owner": "kofi"})
    return Stage(server, KIND)


def woken(account: Account, **alarm: object) -> None:
    scaled.wake(account, scaled.copies(account, "One", least=2), **alarm)


def test_copies_go_to_zero_under_autoscaling_and_come_back(account: Account, stage: Stage, server: Server):
    woken(account)
    message, manifest = stage.move("One", StepName.STOP)
    order = [
        c.operation for c in server.calls if c.operation in ("RegisterScalableTarget", "UpdateInferenceComponentRuntimeConfig")
    ]
    assert order == ["RegisterScalableTarget", "UpdateInferenceComponentRuntimeConfig"]
    assert (account.contents.components["One"].copies, account.contents.scalable[KEY].least) == (0, 0)
    assert message == "its 3 copies are scaling to zero; a request scales it up again; the autoscaling minimum was lowered first"
    stage.undo(manifest)
    assert (account.contents.components["One"].copies, account.contents.scalable[KEY].least) == (3, 2)


def test_a_component_without_a_wake_up_policy_keeps_its_copies(account: Account, stage: Stage):
    assert "NoCapacityInvocationFailures would wake it" in stage.bar("One", StepName.STOP)
    woken(account, MetricName="Invocations")
    assert "NoCapacityInvocationFailures would wake it" in stage.bar("One", StepName.STOP)


def test_the_wake_up_policy_must_exist_when_the_undo_state_is_read(account: Account, stage: Stage):
    woken(account)
    resource = stage.again(stage.resource("One")).resource
    account.contents.alarms.clear()
    with pytest.raises(CloudError, match="nothing would scale it up"):
        stage.manifest(resource, StepName.STOP)


@pytest.mark.parametrize("operation", ["DescribeScalableTargets", "DescribeScalingPolicies", "DescribeAlarms"])
@pytest.mark.parametrize("fault", [denied(), garbage()], ids=["denied", "garbled"])
def test_unreadable_autoscaling_blocks_the_stop_and_is_reported(
    account: Account, stage: Stage, server: Server, operation: str, fault
):
    woken(account)
    server.rules.append(on(operation, fault))
    cloud = stage.cloud()
    bar = registry.kind(KIND).blocked_actions(stage.resource("One", cloud))[StepName.STOP]
    assert bar == Blocked(because="its scaling policies couldn't be read, so it may not scale up again automatically")
    assert operation in str(cloud.errors[0])


def test_a_failed_component_stop_restores_the_minimum(account: Account, stage: Stage, server: Server):
    woken(account)
    server.rules.append(on("UpdateInferenceComponentRuntimeConfig", denied()))
    with pytest.raises(CloudError):
        stage.move("One", StepName.STOP)
    assert stage.put_back("One").state is HalfDone.PUT_BACK
    assert (account.contents.components["One"].copies, account.contents.scalable[KEY].least) == (3, 2)


@pytest.mark.parametrize(
    ("setup", "stop", "delete"),
    [
        pytest.param({"status": "Updating"}, "its status is Updating", "its status is Updating", id="updating"),
        pytest.param({"status": "Creating"}, "its status is Creating", "its status is Creating", id="creating"),
        pytest.param({"status": "Deleting"}, "it is being deleted already", "it is being deleted already", id="deleting"),
        pytest.param({"status": "Failed"}, "its status is Failed, in which it can't be scaled", "", id="failed"),
        pytest.param({"copies": 0}, "it runs no copies already", "", id="no copies"),
        pytest.param({"copies": 1}, "", "", id="in service"),
    ],
)
def test_status_decides_which_actions_are_blocked(account: Account, stage: Stage, setup: dict, stop: str, delete: str):
    woken(account)
    account.component("One", "e", **setup)
    assert (stage.bar("One", StepName.STOP), stage.bar("One", StepName.DELETE)) == (stop, delete)


def test_nothing_is_done_to_an_adapter_or_to_its_base(account: Account, stage: Stage):
    woken(account)
    account.component("adapter", "e", base="One")
    assert "adapter inside One" in stage.bar("adapter", StepName.STOP)
    assert "adapter inside One" in stage.bar("adapter", StepName.DELETE)
    assert (stage.bar("One", StepName.STOP), stage.bar("One", StepName.DELETE)) == (
        "the adapter adapter is on it; delete it first",
        "the adapter adapter is on it; delete it first",
    )


def test_the_recheck_sees_an_adapters_traffic_since_the_sweep(account: Account, stage: Stage):
    account.component("adapter", "e", base="One")
    resource = stage.resource("One")
    account.component_invoked("adapter", NOW - 2 * HOUR)
    used = [r for r in stage.again(resource).readings if r.series and any(v > 0 for v in r.series.values)]
    assert [r.signal for r in used] == ["Invocations of adapter adapter"]


def test_the_recheck_merges_the_endpoints_tags(account: Account, stage: Stage):
    resource = stage.resource("One")
    account.contents.endpoints["e"].tags = {"reaper:keep": "true"}
    assert stage.again(resource).resource.tags == {"reaper:keep": "true", "owner": "kofi"}
    assert resource.tags == {"team": "language", "owner": "kofi"}


def test_a_component_is_restored_with_tags_copies_and_autoscaling(account: Account, stage: Stage):
    woken(account)
    before = replace(account.contents.components["One"])
    message, manifest = stage.move("One", StepName.DELETE)
    assert (account.contents.components, account.contents.scalable) == ({}, {})
    assert message == "it is being deleted; its endpoint and model stay"
    undone = stage.undo(manifest)
    after = account.contents.components["One"]
    same = ("name", "arn", "endpoint", "variant", "copies", "status", "spec")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert after.tags == {**(before.tags or {}), "ml-idle-reaper:restored": before.created.isoformat()}
    assert (account.contents.scalable[KEY].least, list(account.contents.scalable[KEY].policies)) == (2, ["wake"])
    arn = account.contents.scalable[KEY].policies["wake"]["PolicyARN"]
    assert account.contents.alarms["wake-alarm"]["AlarmActions"] == [arn]
    assert undone.because == "it was recreated"


def test_a_components_autoscaling_waits_until_it_is_in_service(account: Account, stage: Stage, server: Server):
    woken(account)
    _, manifest = stage.move("One", StepName.DELETE)
    server.world.settle_after = MINUTES
    first = stage.undo(manifest)
    assert "Its status is Creating; run this again" in first.not_restored[0]
    server.now = NOW + 2 * MINUTES
    assert stage.undo(manifest).not_restored == ("The tags of its autoscaling are lost.",)
    assert KEY in account.contents.scalable


def test_the_autoscaling_of_a_component_goes_while_it_is_being_deleted(account: Account, stage: Stage, server: Server):
    woken(account)
    server.world.settle_after = MINUTES
    message, _ = stage.move("One", StepName.DELETE)
    assert (account.contents.components["One"].status, account.contents.scalable) == ("Deleting", {})
    assert message == "it is being deleted; its endpoint and model stay"


def test_a_component_recreated_after_its_deletion_keeps_its_autoscaling(account: Account, stage: Stage, server: Server):
    woken(account)

    def recreate(call: Call) -> None:
        if "One" not in account.contents.components:
            account.component("One", "e", copies=1, created=NOW)

    server.rules.append(recreate)
    message, _ = stage.move("One", StepName.DELETE)
    assert "its autoscaling stays (its creation time, last change, tags, settings changed a moment ago)" in message
    assert KEY in account.contents.scalable


def test_a_container_is_recreated_from_the_image_as_specified(account: Account, stage: Stage):
    shown = {"SpecifiedImage": "repo/serve:1", "ResolvedImage": "repo/serve@sha256:1"}
    component = account.contents.components["One"]
    component.spec = {
        "Container": {"DeployedImage": shown, "Environment": {"A": "b"}},
        "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
    }
    _, manifest = stage.move("One", StepName.DELETE)
    stage.undo(manifest)
    assert account.contents.components["One"].spec["Container"] == {"Image": "repo/serve:1", "Environment": {"A": "b"}}


def test_a_resource_without_its_model_is_not_deleted(account: Account, stage: Stage):
    account.contents.lost_models.add("model")
    assert stage.bar("One", StepName.DELETE) == "its model model is gone, so it can't be recreated"
    with pytest.raises(CloudError, match="its model model is gone"):
        stage.manifest(stage.resource("One"), StepName.DELETE)


def test_a_component_without_copies_is_restored_without_copies(account: Account, stage: Stage):
    account.component("One", "e", copies=0)
    _, manifest = stage.move("One", StepName.DELETE)
    undone = stage.undo(manifest)
    assert (account.contents.components["One"].copies, undone.not_restored) == (0, ())


def test_a_component_refused_without_copies_gets_one_and_says_so(account: Account, stage: Stage, server: Server):
    account.component("One", "e", copies=0)
    _, manifest = stage.move("One", StepName.DELETE)
    refuse = on("CreateInferenceComponent", error(400, "ValidationException", "CopyCount must be greater than 0"))
    server.rules.append(lambda call: refuse(call) if (call.params.get("RuntimeConfig") or {}).get("CopyCount") == 0 else None)
    undone = stage.undo(manifest)
    assert account.contents.components["One"].copies == 1
    assert "One has one copy instead of 0" in undone.not_restored[0]


def test_a_component_without_its_endpoint_is_not_restored(account: Account, stage: Stage):
    _, manifest = stage.move("One", StepName.DELETE)
    account.contents.endpoints.clear()
    with pytest.raises(CloudError) as raised:
        stage.undo(manifest)
    assert "Could not find endpoint" in str(raised.value)
    assert account.contents.components == {}


def test_rereading_a_deleted_resource_raises_gone(account: Account, stage: Stage):
    resource = stage.resource("One")
    account.contents.components.clear()
    with pytest.raises(CloudError) as raised:
        stage.again(resource)
    assert raised.value.reason is Reason.GONE


@pytest.mark.parametrize("operation", ["DescribeInferenceComponent", "ListTags", "ListInferenceComponents"])
def test_an_unreadable_component_is_left_alone(account: Account, stage: Stage, server: Server, operation: str):
    resource = stage.resource("One")
    server.rules.append(on(operation, denied()))
    with pytest.raises(CloudError) as raised:
        registry.action_functions(KIND).read_now(stage.cloud(), resource)
    assert raised.value.missing == f"sagemaker:{operation}"
