"""Undoing is for what the action changed, and for what undo recreated from its manifest: never for what was created since."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from on_aws.actions.stage import Stage
from on_aws.conftest import DAY, HOUR, NOW
from reaper.aws.sagemaker import RESTORED_TAG
from reaper.errors import LEFT_ALONE, CloudError
from reaper.model import StepName
from reaper.policy import tags
from reaper_sandbox.aws import autoscaling, scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import VARIANT
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

ENDPOINT, COMPONENT, NOTEBOOK = "sagemaker-endpoint", "sagemaker-inference-component", "sagemaker-notebook"
KEY = ("endpoint/e/variant/AllTraffic", VARIANT)


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, ENDPOINT)


def count(account: Account) -> int:
    return account.contents.endpoints["e"].variants[0].count


def anew(account: Account, **other: object) -> None:
    """Another resource of the same name, created an hour ago: by default with the same configuration and tags."""
    account.endpoint("e", **{"variants": [Variant(count=1)], "tags": {"owner": "lee"}, "created": NOW - HOUR} | other)


@pytest.mark.parametrize(
    "variant", [Variant(instance="ml.p4d.24xlarge"), Variant(model="newer")], ids=["dearer", "another model"]
)
def test_a_scale_in_is_not_undone_under_another_configuration(account: Account, stage: Stage, variant: Variant):
    account.endpoint("e", variants=[Variant(count=4)])
    _, manifest = stage.move("e", StepName.STOP)
    account.contents.endpoints["e"].config = "other"
    account.config("other", variants=[variant])
    with pytest.raises(CloudError, match="another configuration now, so the reaper left it alone") as raised:
        stage.undo(manifest)
    assert (raised.value.code, count(account)) == (LEFT_ALONE, 1)


def test_a_scale_in_is_not_undone_on_other_instance_types(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    _, manifest = stage.move("e", StepName.STOP)
    account.config("e-config", variants=[Variant(instance="ml.p4d.24xlarge")])
    with pytest.raises(CloudError, match="another configuration now"):
        stage.undo(manifest)
    assert count(account) == 1


def test_a_deleted_configuration_does_not_prevent_undoing_a_scale_in(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    _, manifest = stage.move("e", StepName.STOP)
    account.contents.configs.clear()
    stage.undo(manifest)
    assert count(account) == 4


def test_a_changed_count_stays_and_its_minimum_stays_lowered(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    scaled.variant(account, "e", least=3)
    _, manifest = stage.move("e", StepName.STOP)
    account.contents.endpoints["e"].variants[0].count = 2
    undone = stage.undo(manifest)
    assert (count(account), account.contents.scalable[KEY].least) == (2, 1)
    assert undone.not_restored[0] == (
        "The number of instances of AllTraffic is 2 now, not 1 as the stop left it and not 4 as before: "
        "it was changed since, so the reaper left it alone."
    )
    assert "restoring 3 would override the count of 2 set since" in undone.not_restored[1]
    assert not undone.run_again


def test_undoing_twice_leaves_counts_changed_in_between(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    _, manifest = stage.move("e", StepName.STOP)
    assert stage.undo(manifest).not_restored == ()
    account.contents.endpoints["e"].variants[0].count = 2
    stage.undo(manifest)
    assert count(account) == 2


def test_a_minimum_changed_since_stays(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    named = scaled.variant(account, "e", least=4, most=8)
    _, manifest = stage.move("e", StepName.STOP)
    autoscaling.register(account.contents, {**named, "MinCapacity": 2})
    account.contents.endpoints["e"].variants[0].count = 1
    undone = stage.undo(manifest)
    assert account.contents.scalable[KEY].least == 2
    assert "The autoscaling minimum of endpoint/e/variant/AllTraffic is 2 now" in undone.not_restored[0]


def test_undo_respects_todays_autoscaling_maximum(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=4)])
    named = scaled.variant(account, "e", least=3, most=4)
    _, manifest = stage.move("e", StepName.STOP)
    autoscaling.register(account.contents, {**named, "MinCapacity": 1, "MaxCapacity": 2})
    undone = stage.undo(manifest)
    assert stage.parameters("sagemaker:UpdateEndpointWeightsAndCapacities")[-1]["DesiredWeightsAndCapacities"] == [
        {"VariantName": "AllTraffic", "DesiredInstanceCount": 2}
    ]
    assert (count(account), account.contents.scalable[KEY].least) == (2, 2)
    assert undone.not_restored == (
        "The number of instances of AllTraffic is 2 instead of 4: its autoscaling allows no more than 2 today.",
        "The autoscaling minimum of endpoint/e/variant/AllTraffic is 2 instead of 3: its autoscaling allows no more than 2 today.",
    )


def test_a_maximum_at_the_stopped_count_is_reported(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=3)])
    named = scaled.variant(account, "e", least=2, most=4)
    _, manifest = stage.move("e", StepName.STOP)
    autoscaling.register(account.contents, {**named, "MinCapacity": 1, "MaxCapacity": 1})
    count_before = len(stage.parameters("sagemaker:UpdateEndpointWeightsAndCapacities"))
    undone = stage.undo(manifest)
    assert len(stage.parameters("sagemaker:UpdateEndpointWeightsAndCapacities")) == count_before
    assert (count(account), account.contents.scalable[KEY].least, len(undone.not_restored)) == (1, 1, 2)


@pytest.mark.parametrize("when", [NOW - HOUR, NOW + HOUR], ids=["seen earlier", "after the manifest"])
@pytest.mark.parametrize("variants", [[Variant(count=4)], [Variant(count=1)]], ids=["same configuration", "another"])
def test_a_deleted_endpoint_is_not_restored_over_a_new_one(account: Account, stage: Stage, when, variants: list[Variant]):
    account.endpoint("e", variants=[Variant(count=4)], tags={"owner": "lee"})
    account.contents.endpoints["e"].variants[0].count = 6
    _, manifest = stage.move("e", StepName.DELETE)
    anew(account, variants=variants, created=when)
    before = replace(account.contents.endpoints["e"])
    with pytest.raises(CloudError, match="e has been recreated since, so the reaper left it alone"):
        stage.undo(manifest)
    assert account.contents.endpoints["e"] == before
    assert account.contents.endpoints["e"].variants[0].count == variants[0].count


def test_a_restored_endpoint_is_recognized_by_its_tag(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=1)], tags={"owner": "lee"})
    account.contents.endpoints["e"].variants[0].count = 3
    _, manifest = stage.move("e", StepName.DELETE)
    server.now = NOW + HOUR
    server.world.settle_after = timedelta(minutes=10)
    assert stage.undo(manifest).run_again
    endpoint = account.contents.endpoints["e"]
    assert endpoint.tags == {"owner": "lee", RESTORED_TAG: (NOW - 30 * DAY).isoformat()}
    endpoint.tags = {**endpoint.tags, "owner": "kofi"}
    server.now = NOW + 2 * HOUR
    stage.undo(manifest)
    server.now = NOW + 3 * HOUR
    assert (stage.undo(manifest).run_again, count(account)) == (False, 3)


def test_counts_changed_on_a_restored_endpoint_stay(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=1)])
    account.contents.endpoints["e"].variants[0].count = 4
    _, manifest = stage.move("e", StepName.DELETE)
    server.now = NOW + HOUR
    stage.undo(manifest)
    account.contents.endpoints["e"].variants[0].count = 2
    account.contents.endpoints["e"].variants[0].weight = 0.5
    undone = stage.undo(manifest)
    assert (count(account), account.contents.endpoints["e"].variants[0].weight) == (2, 0.5)
    assert any(
        "number of instances of AllTraffic is 2 now and not 4: it was changed since" in text for text in undone.not_restored
    )


def test_an_endpoint_that_was_never_deleted_keeps_its_counts(account: Account, stage: Stage):
    account.endpoint("e", variants=[Variant(count=1)])
    account.contents.endpoints["e"].variants[0].count = 4
    resource = stage.again(stage.resource("e")).resource
    manifest = stage.manifest(resource, StepName.DELETE)
    account.contents.endpoints["e"].variants[0].count = 1
    stage.undo(manifest)
    assert count(account) == 1


def test_a_scale_in_can_be_undone_after_a_restored_deletion(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2, most=4)
    _, stopped = stage.move("e", StepName.STOP)
    resource = stage.again(stage.resource("e")).resource
    deleted = stage.manifest(resource, StepName.DELETE)
    stage.carry(resource, deleted)
    server.now = NOW + HOUR
    stage.undo(deleted)
    assert (count(account), account.contents.scalable[KEY].least) == (1, 1)
    assert stage.undo(stopped).not_restored == ()
    assert (count(account), account.contents.scalable[KEY].least) == (3, 2)


def test_no_earlier_action_is_mentioned_without_one(account: Account, stage: Stage):
    account.endpoint("e")
    _, manifest = stage.move("e", StepName.DELETE)
    assert stage.undo(manifest).not_restored == ()


def test_no_room_for_the_restored_tag_prevents_a_deletion(account: Account, stage: Stage):
    account.endpoint("e", tags={f"key{i}": "x" for i in range(50)})
    assert "it has 50 tags" in stage.bar("e", StepName.DELETE)
    with pytest.raises(CloudError, match="it has 50 tags"):
        stage.manifest(stage.resource("e"), StepName.DELETE)
    assert "e" in account.contents.endpoints


def test_unreadable_tags_leave_a_namesake_alone(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(count=4)])
    _, manifest = stage.move("e", StepName.STOP)
    server.rules.append(on("ListTags", denied()))
    with pytest.raises(CloudError) as raised:
        stage.undo(manifest)
    assert (raised.value.missing, count(account)) == ("sagemaker:ListTags", 1)


def test_the_restored_tag_does_not_protect():
    assert tags.read_tags({RESTORED_TAG: "2026-10-22T00:00:00+00:00"}, NOW).protected_because is None


@pytest.fixture
def part(server: Server, account: Account) -> Stage:
    account.endpoint("e", variants=[Variant(model=None, scaling=(1, 4), count=2)])
    account.component("one", "e", copies=3)
    scaled.wake(account, scaled.copies(account, "one", least=2), "wake-one")
    return Stage(server, COMPONENT)


def test_a_changed_component_gets_no_copies(account: Account, part: Stage):
    _, manifest = part.move("one", StepName.STOP)
    component = account.contents.components["one"]
    component.spec = {**component.spec, "ModelName": "dearer"}
    with pytest.raises(CloudError, match="has another specification, endpoint or variant now"):
        part.undo(manifest)
    assert account.contents.components["one"].copies == 0


def test_a_woken_component_keeps_its_copies(account: Account, part: Stage):
    _, manifest = part.move("one", StepName.STOP)
    account.contents.components["one"].copies = 1
    undone = part.undo(manifest)
    assert account.contents.components["one"].copies == 1
    assert account.contents.scalable["inference-component/one", autoscaling.COPIES].least == 0
    assert (undone.because, len(undone.not_restored)) == ("none of its copies changed", 2)


def test_a_deleted_component_is_not_put_on_a_recreated_endpoint(account: Account, part: Stage):
    _, manifest = part.move("one", StepName.DELETE)
    account.endpoint("e", variants=[Variant(model=None, scaling=(1, 4))], created=NOW - HOUR)
    with pytest.raises(CloudError, match="its endpoint e has been recreated since, so the reaper left it alone"):
        part.undo(manifest)
    assert account.contents.components == {}


def test_a_notebook_of_another_type_is_not_started(account: Account, server: Server):
    stage = Stage(server, NOTEBOOK)
    account.notebook("nb")
    _, manifest = stage.move("nb", StepName.STOP)
    account.notebook("nb", status="Stopped", instance="ml.p3.2xlarge")
    with pytest.raises(CloudError, match="recreated or got another instance type since"):
        stage.undo(manifest)
    assert account.contents.notebooks["nb"].status == "Stopped"
