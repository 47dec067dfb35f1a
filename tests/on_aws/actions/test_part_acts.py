"""A call takes the capacity of one variant, so that several are scaled in, and brought back, one after the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from on_aws.actions.stage import Stage
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.acting import manifest as archives
from reaper.acting.contract import NOTHING_EARLIER, Manifest
from reaper.acting.manifest import Archive
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.model import BilledPart, StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import VARIANT
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, Guard, denied, error, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
MINUTES = timedelta(minutes=10)
RESIZE = "UpdateEndpointWeightsAndCapacities"
LIMIT = error(400, "ResourceLimitExceeded", "The account-level service limit is 2 Instances.")
BEFORE = {"a": 3, "b": 3, "c": 2}


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, KIND)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archives.open_archive(str(tmp_path), {})


def three(account: Account) -> None:
    """Of which b saves most; a and c are of one sort."""
    kinds = {"a": "ml.m5.large", "b": "ml.g5.xlarge", "c": "ml.m5.large"}
    account.endpoint("e", variants=[Variant(name=name, count=BEFORE[name], instance=kind) for name, kind in kinds.items()])
    for name in ("a", "b", "c"):
        scaled.variant(account, "e", name, least=2)


def counts(account: Account) -> dict[str, int]:
    return {v.name: v.count for v in account.contents.endpoints["e"].variants}


def least(account: Account) -> dict[str, int]:
    return {name: account.contents.scalable[f"endpoint/e/variant/{name}", VARIANT].least for name in ("a", "b", "c")}


def later(account: Account) -> None:
    """So long after its last change that it can be judged again."""
    account.contents.endpoints["e"].changed = NOW - 30 * DAY


def all_parts(account: Account, stage: Stage, archive: Archive) -> list[tuple[Outcome, Manifest]]:
    """Every part, each with the stored manifest of the one before."""
    moves: list[tuple[Outcome, Manifest]] = []
    previous = NOTHING_EARLIER
    while stage.able("e")[StepName.STOP] is None:
        made, manifest, previous = stage.stored_action("e", StepName.STOP, archive, earlier=previous)
        moves.append((made, archive.with_continued(manifest)))
        later(account)
    return moves


def refusing(variant: str, fault: Fault) -> Guard:
    """A guard against calls about that variant."""
    return lambda call: fault if call.operation == RESIZE and f"'{variant}'" in str(call.params) else None


def test_each_action_scales_in_one_variant_by_greatest_saving(account: Account, stage: Stage, archive: Archive):
    three(account)
    made = [one for one, _ in all_parts(account, stage, archive)]
    assert [one.part_done for one in made] == ["1 of 3 variants", "2 of 3 variants", None]
    assert [one.because.split(": ")[1].split(";")[0] for one in made] == ["b from 3 to 1", "a from 3 to 1", "c from 2 to 1"]
    assert all(len(call["DesiredWeightsAndCapacities"]) == 1 for call in stage.parameters(f"sagemaker:{RESIZE}"))
    assert (counts(account), least(account)) == ({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1})


def test_an_action_touches_the_autoscaling_of_its_own_variant_only(account: Account, stage: Stage):
    three(account)
    stage.move("e", StepName.STOP)
    assert (counts(account), least(account)) == ({"a": 3, "b": 1, "c": 2}, {"a": 2, "b": 1, "c": 2})


def test_a_remaining_variant_can_still_be_stopped(account: Account, stage: Stage):
    three(account)
    for _ in range(3):
        assert stage.able("e")[StepName.STOP] is None
        stage.move("e", StepName.STOP)
        later(account)
    bar = stage.able("e")[StepName.STOP]
    assert bar
    assert bar.already_done


def test_parts_after_stop_cover_the_next_action_only(account: Account, stage: Stage):
    three(account)
    parts = registry.kind(KIND).parts_after(stage.resource("e"), StepName.STOP)
    assert parts == tuple(
        BilledPart(component="Hosting", instance=kind, count=count)
        for kind, count in (("ml.m5.large", 3), ("ml.g5.xlarge", 1), ("ml.m5.large", 2))
    )


def test_variants_without_a_price_come_last_and_then_by_name(account: Account, stage: Stage, archive: Archive):
    odd = [Variant(name=name, count=9, instance="ml.unheard-of.large") for name in ("b", "a")]
    account.endpoint("e", variants=[*odd, Variant(name="z", count=2)])
    parts = all_parts(account, stage, archive)
    assert [[id_.rpartition("/")[2] for id_ in manifest.undo_state["wanted"]] for _, manifest in parts] == [["z"], ["a"], ["b"]]


def test_undoing_the_last_part_restores_every_variant(account: Account, stage: Stage, archive: Archive):
    three(account)
    _, last = all_parts(account, stage, archive)[-1]
    undone = stage.undo(last)
    assert (counts(account), least(account)) == (BEFORE, {"a": 2, "b": 2, "c": 2})
    assert (undone.not_restored, undone.run_again) == ((), False)


def test_undo_continues_once_the_endpoint_is_in_service(account: Account, stage: Stage, server: Server, archive: Archive):
    three(account)
    _, last = all_parts(account, stage, archive)[-1]
    server.world.settle_after = MINUTES
    results = []
    for round_ in range(3):
        server.now = NOW + round_ * 2 * MINUTES
        results.append(stage.undo(last))
    assert [one.run_again for one in results] == [True, True, False]
    assert results[0].not_restored == ("Not restored yet: the size of a, b; run this again once the endpoint is in service.",)
    assert (counts(account), least(account), results[2].not_restored) == (BEFORE, {"a": 2, "b": 2, "c": 2}, ())


def test_the_autoscaling_minimum_waits_for_its_variant(account: Account, stage: Stage, server: Server, archive: Archive):
    three(account)
    _, last = all_parts(account, stage, archive)[-1]
    server.world.settle_after = MINUTES
    stage.undo(last)
    assert (counts(account), least(account)) == ({"a": 1, "b": 1, "c": 2}, {"a": 1, "b": 1, "c": 2})


def test_one_part_alone_is_undone_by_its_own_manifest(account: Account, stage: Stage):
    three(account)
    _, first = stage.made("e", StepName.STOP)
    stage.undo(first)
    assert counts(account) == BEFORE


def test_a_refused_size_does_not_stop_other_variants(account: Account, stage: Stage, server: Server, archive: Archive):
    three(account)
    _, last = all_parts(account, stage, archive)[-1]
    server.rules.append(refusing("c", LIMIT))
    undone = stage.undo(last)
    assert (counts(account), least(account)) == ({"a": 3, "b": 3, "c": 1}, {"a": 2, "b": 2, "c": 1})
    assert undone.run_again
    assert "Not restored: the size or weight of c" in undone.not_restored[0]
    assert "ResourceLimitExceeded" in undone.not_restored[0]
    server.rules.clear()
    assert (stage.undo(last).run_again, counts(account)) == (False, BEFORE)


def test_undo_fails_if_every_size_is_refused(account: Account, stage: Stage, server: Server):
    three(account)
    _, manifest = stage.made("e", StepName.STOP)
    server.rules.append(on(RESIZE, denied()))
    with pytest.raises(CloudError) as raised:
        stage.undo(manifest)
    assert (raised.value.reason, least(account)["b"]) == (Reason.DENIED, 1)


def test_an_unreadable_earlier_manifest_is_reported_and_the_rest_restored(account: Account, stage: Stage, archive: Archive):
    three(account)
    _, last = all_parts(account, stage, archive)[-1]
    Path(last.undo_state["previous"]["address"]).unlink()
    with pytest.raises(CloudError, match="can't be read"):
        archive.with_continued(last)
    stage.undo(replace(last, continued=()))
    assert counts(account) == {"a": 1, "b": 1, "c": 2}


def test_an_unread_earlier_manifest_restarts_the_part_count(account: Account, stage: Stage, archive: Archive):
    three(account)
    _, _, previous = stage.stored_action("e", StepName.STOP, archive)
    later(account)
    made, manifest = stage.made("e", StepName.STOP, earlier=replace(previous, manifest=None))
    assert (made.part_done, manifest.undo_state["previous"]) == ("1 of 2 variants", previous.record)
    stage.undo(archive.with_continued(manifest))
    assert counts(account) == {"a": 3, "b": 1, "c": 2}


def _scaled_out(account: Account) -> None:
    account.contents.endpoints["e"].variants[1].count = 4


def _made_anew(account: Account) -> None:
    three(account)
    account.contents.endpoints["e"].created = NOW - 20 * DAY
    account.contents.endpoints["e"].variants[1].count = 1


@pytest.mark.parametrize("since", [_scaled_out, _made_anew], ids=["scaled out by its owner", "made anew"])
def test_an_undone_stop_is_not_continued(account: Account, stage: Stage, archive: Archive, since: Any):
    three(account)
    _, _, previous = stage.stored_action("e", StepName.STOP, archive)
    since(account)
    later(account)
    before = counts(account)
    _, manifest = stage.made("e", StepName.STOP, earlier=previous)
    assert manifest.undo_state["part"] == 1
    stage.undo(manifest)
    assert counts(account) == before


def test_a_finished_stop_is_not_undone_with_a_later_one(account: Account, stage: Stage, archive: Archive):
    account.endpoint("e", variants=[Variant(name="a", count=3), Variant(name="b")])
    _, _, previous = stage.stored_action("e", StepName.STOP, archive)
    account.contents.endpoints["e"].variants[1].count = 2
    later(account)
    made, manifest = stage.made("e", StepName.STOP, earlier=previous)
    stage.undo(manifest)
    assert (made.part_done, counts(account)) == (None, {"a": 1, "b": 2})


def test_a_manifest_of_two_variants_restores_both(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(name="a", count=3), Variant(name="b", count=2)])
    resource = stage.again(stage.resource("e")).resource
    old = stage.manifest(resource, StepName.STOP)
    old.undo_state.update(
        before={"endpoint/e/variant/a": 3, "endpoint/e/variant/b": 2},
        wanted={"endpoint/e/variant/a": 1, "endpoint/e/variant/b": 1},
    )
    for variant in account.contents.endpoints["e"].variants:
        variant.count = 1
    server.world.settle_after = MINUTES
    assert stage.undo(old).run_again
    server.now = NOW + 2 * MINUTES
    assert not stage.undo(old).run_again
    assert counts(account) == {"a": 3, "b": 2}


def watching(calls: list[Call]) -> list[list[dict[str, Any]]]:
    return [call.params["DesiredWeightsAndCapacities"] for call in calls if call.operation == RESIZE]


def test_restore_sets_all_weights_together_and_one_size_per_call(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(name="a", count=1), Variant(name="b", count=1)])
    for variant, count in zip(account.contents.endpoints["e"].variants, (2, 3), strict=True):
        variant.count, variant.weight = count, 5.0
    _, manifest = stage.made("e", StepName.DELETE)
    stage.undo(manifest)
    assert counts(account) == {"a": 2, "b": 3}
    assert watching(server.calls) == [
        [{"VariantName": "a", "DesiredWeight": 5.0}, {"VariantName": "b", "DesiredWeight": 5.0}],
        [{"VariantName": "a", "DesiredInstanceCount": 2}],
        [{"VariantName": "b", "DesiredInstanceCount": 3}],
    ]


def test_a_refused_size_does_not_stop_the_rest_of_a_restore(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(name="a"), Variant(name="b")])
    account.contents.endpoints["e"].variants[0].count = 4
    scaled.variant(account, "e", "b", least=1)
    _, manifest = stage.made("e", StepName.DELETE)
    server.rules.append(refusing("a", LIMIT))
    undone = stage.undo(manifest)
    assert (undone.run_again, "Not restored: the size or weight of a" in undone.not_restored[0]) == (True, True)
    assert set(account.contents.scalable) == {("endpoint/e/variant/b", VARIANT)}
    server.rules.clear()
    assert (stage.undo(manifest).run_again, counts(account)) == (False, {"a": 4, "b": 1})


def test_a_refused_size_now_set_by_autoscaling_is_reported(account: Account, stage: Stage, server: Server):
    account.endpoint("e", variants=[Variant(name="a")])
    account.contents.endpoints["e"].variants[0].count = 4
    scaled.variant(account, "e", "a", least=1)
    _, manifest = stage.made("e", StepName.DELETE)
    server.rules.append(on(RESIZE, LIMIT))
    assert stage.undo(manifest).run_again
    server.rules.clear()
    undone = stage.undo(manifest)
    assert (undone.run_again, counts(account)) == (False, {"a": 1})
    assert undone.not_restored[0] == "The number of instances of a is 1 now and not 4: its autoscaling sets it now."
