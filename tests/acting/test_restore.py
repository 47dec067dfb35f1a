"""Taking acts back: only what was made and still stands, only on the resource that it was made on, and never twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.records import a_record, changed
from reaper.acting import restore
from reaper.acting.contract import Manifest
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Result, StepName
from reaper.record import ManifestReference, Record, Snooze


def stopped(action: str = "stop", names: tuple[str, ...] = ("a", "b")) -> FakeDeployment:
    """Things that were warned of and acted on in run-2."""
    deployment = FakeDeployment()
    deployment.policy = policy(POLICY.replace("action: stop", f"action: {action}"))
    for name in names:
        deployment.cloud.add(name, tags={"team": name})
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    return deployment


def undone(deployment: FakeDeployment, run: str = "run-2", **fields: Any) -> dict[str, str]:
    """The result of undoing each action of a run, by name."""
    texts = {}
    for result in restore.undo_run(run, deployment.restore_context(), **fields):
        name = result.id.rpartition("/")[2]
        texts[name] = result.left_because or str(result.error or (result.undone and result.undone.because))
    return texts


def test_undoing_a_run_starts_everything_and_requires_new_notices():
    deployment = stopped()
    assert undone(deployment) == {"a": "it runs again", "b": "it runs again"}
    assert all(thing.running_since for thing in deployment.cloud.things.values())
    assert deployment.record("a") == a_record(
        called_at=deployment.now, notified_run="run-2", version=deployment.record("a").version
    )
    deployment.now += 2 * DAY
    assert {f.step.name for f in deployment.sweep().findings} == {StepName.WARN}


def test_deletes_are_undone_only_on_request():
    deployment = stopped("delete")
    assert "--deletes" in undone(deployment)["a"]
    assert deployment.cloud.things == {}
    assert undone(deployment, deletes=True)["a"] == "it runs again"
    assert deployment.cloud.things["a"].tags == {"team": "a"}


def test_what_was_refused_or_failed_is_not_undone():
    deployment = stopped(names=())
    for name in ("denied", "kept"):
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 3 * DAY

    def fail_on(call: str, name: str) -> None:
        if call == "carry" and name == "denied":
            raise DENIED

    def before_call(call: str, name: str) -> None:
        if call == "record" and name == "kept":
            snooze = Snooze(until=deployment.now + DAY)
            deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, 0, deployment.now)

    deployment.cloud.fail_on, deployment.cloud.before_call = fail_on, before_call
    run = deployment.sweep().run.id
    deployment.cloud.fail_on = deployment.cloud.before_call = lambda call, name: None
    for thing in deployment.cloud.things.values():
        thing.running_since = None
    assert all("not carried out" in text for text in undone(deployment, run).values())
    assert not any(thing.running_since for thing in deployment.cloud.things.values())


def test_what_was_undone_already_is_left_alone():
    deployment = stopped()
    undone(deployment)
    deployment.cloud.things["a"].running_since = None
    assert "already undone" in undone(deployment)["a"]
    assert deployment.cloud.things["a"].running_since is None


def test_a_later_act_is_not_forgotten_by_undoing_an_earlier_one():
    deployment = stopped(names=("a",))
    deployment.cloud.things["a"].running_since = deployment.cloud.things["a"].changed = deployment.now + HOUR
    deployment.now += 2 * DAY
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    manifest = deployment.record("a").act.manifest.address
    assert "followed by a later action" in undone(deployment, "run-2")["a"]
    assert deployment.record("a").act.manifest.address == manifest
    assert restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context()).error is None


@pytest.mark.parametrize("run", ["", "/", "..", "*", "run-2/../run-1"])
def test_an_invalid_run_id_is_refused(run):
    with pytest.raises(SettingsError, match="not a run ID"):
        list(restore.undo_run(run, stopped().restore_context()))


def test_a_run_that_left_nothing_says_so():
    with pytest.raises(SettingsError, match="stored nothing to undo"):
        list(restore.undo_run("run-99", stopped().restore_context()))


def test_a_manifest_that_cannot_be_read_does_not_stop_the_others():
    deployment = stopped()
    first = sorted(deployment.store.texts)[0]
    deployment.store.texts[first] = "nonsense"
    results = list(restore.undo_run("run-2", deployment.restore_context()))
    assert [isinstance(result, restore.RestoreResult) and result.error is None for result in results].count(True) == 1
    assert sum(1 for thing in deployment.cloud.things.values() if thing.running_since) == 1


def test_a_manifest_of_another_resource_is_refused():
    deployment = stopped()
    address = deployment.record("b").act.manifest.address
    with pytest.raises(SettingsError, match="is for"):
        restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context(), address)
    assert deployment.cloud.things["b"].running_since is None


def test_restore_without_an_action_is_refused():
    with pytest.raises(SettingsError, match="has no action on this resource"):
        restore.restore_resource("arn:aws:sagemaker:us-east-1:123456789012:endpoint/never", stopped().restore_context())


def test_a_restored_resource_is_reported_so_and_left_alone():
    deployment = stopped(names=("a",))
    assert restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context()).error is None
    deployment.cloud.things["a"].running_since = None
    again = restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context())
    assert again.undone is not None
    assert (again.undone.because, again.undone.not_restored, again.undone.run_again) == (
        f"already restored on {deployment.now:%Y-%m-%d %H:%M} UTC, by lee",
        (),
        False,
    )
    assert deployment.cloud.things["a"].running_since is None


def test_a_half_done_action_is_reported_and_not_repeated():
    deployment = stopped(names=())
    deployment.cloud.add("a")
    deployment.sweep()
    deployment.now += 3 * DAY

    def fail_on(call: str, name: str) -> None:
        if call == "carry":
            raise CloudError(Reason.PARTIAL, "sagemaker:UpdateEndpoint", "the minimum was lowered, and then nothing answered")

    deployment.cloud.fail_on = fail_on
    deployment.sweep()
    first = deployment.record("a").act.manifest.address
    deployment.cloud.fail_on = lambda call, name: None
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert deployment.cloud.log == []
    assert deployment.record("a").act.manifest.address == first
    assert deployment.record("a").act.result is Result.FAILED


def test_after_a_failure_it_can_be_tried_again():
    deployment = stopped(names=("a",))

    def fail_on(call: str, name: str) -> None:
        raise CloudError(Reason.THROTTLED, "sagemaker:Update", "still throttled")

    restore_context, good = deployment.restore_context(), deployment.restore_context().action_functions("any").undo

    def undo(yard: Any, manifest: Any) -> Any:
        deployment.cloud.fail_on("undo", manifest.name)
        return good(yard, manifest)

    restore_context = replace(
        restore_context, action_functions=lambda name: replace(deployment.restore_context().action_functions(name), undo=undo)
    )
    deployment.cloud.fail_on = fail_on
    assert "throttled" in str(restore.restore_resource(deployment.cloud.id("a"), restore_context).error)
    deployment.cloud.fail_on = lambda call, name: None
    assert restore.restore_resource(deployment.cloud.id("a"), restore_context).error is None
    assert deployment.cloud.things["a"].running_since == deployment.now


def swapped(deployment: FakeDeployment, name: str = "a") -> None:
    """The stored manifest, replaced by one with other tags."""
    address = deployment.record(name).act.manifest.address or ""
    deployment.store.texts[address] = deployment.store.texts[address].replace('"team"', '"crew"')


def test_a_swapped_manifest_is_refused_by_restore():
    deployment = stopped(names=("a",))
    swapped(deployment)
    with pytest.raises(CloudError, match="isn't as the reaper stored it"):
        restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context())
    address = deployment.record("a").act.manifest.address
    with pytest.raises(CloudError, match="isn't as the reaper stored it"):
        restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context(), address, is_trusted=True)
    assert not deployment.cloud.things["a"].running_since


def test_a_swapped_manifest_is_refused_by_undo():
    deployment = stopped()
    swapped(deployment)
    results = undone(deployment)
    assert "isn't as the reaper stored it" in results["a"]
    assert results["b"] == "it runs again"
    assert not deployment.cloud.things["a"].running_since


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_swapped_manifest_is_refused_however_its_address_is_written(is_trusted):
    deployment = stopped()
    swapped(deployment)
    address = deployment.record("a").act.manifest.address or ""
    variant = address.replace("run-2/", "run-2//")
    deployment.store.texts[variant] = deployment.store.texts[address]
    with pytest.raises(CloudError, match="isn't as the reaper stored it"):
        restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context(), variant, is_trusted=is_trusted)


def test_a_manifest_elsewhere_is_never_used_or_named():
    deployment = stopped(names=("a",))
    id_, record = deployment.cloud.id("a"), deployment.record("a")
    elsewhere = (record.act.manifest.address or "").replace("s3://manifests/", "s3://evil/")
    deployment.store.texts[elsewhere] = deployment.store.texts[record.act.manifest.address or ""]
    deployment.ledger.write_record(
        id_, changed(record, manifest=replace(record.act.manifest, address=elsewhere)), record.version, deployment.now
    )
    for options in ({}, {"address": elsewhere, "is_trusted": True}):
        with pytest.raises(CloudError, match="isn't in REAPER_MANIFESTS") as raised:
            restore.restore_resource(id_, deployment.restore_context(), **options)
        assert "evil" not in str(raised.value)
    assert not deployment.cloud.things["a"].running_since


def test_a_manifest_that_the_row_does_not_name_must_be_trusted():
    deployment = stopped(names=("a",))
    id_, record = deployment.cloud.id("a"), deployment.record("a")
    deployment.ledger.write_record(id_, Record(), record.version, deployment.now)
    with pytest.raises(SettingsError, match="--trust-manifest"):
        restore.restore_resource(id_, deployment.restore_context(), record.act.manifest.address)
    assert not deployment.cloud.things["a"].running_since
    assert restore.restore_resource(id_, deployment.restore_context(), record.act.manifest.address, is_trusted=True).error is None
    assert deployment.cloud.things["a"].running_since


def test_a_manifest_is_shown_before_anything_is_created():
    deployment = stopped("delete", names=("a",))
    seen: list[tuple[str, bool]] = []
    context = replace(deployment.restore_context(), show=lambda shown: seen.append((shown.name, "a" in deployment.cloud.things)))
    assert restore.restore_resource(deployment.cloud.id("a"), context).error is None
    assert seen == [("a", False)]


def test_an_unknown_member_of_a_record_stops_the_restore():
    deployment = stopped(names=("a",))
    id_, record = deployment.cloud.id("a"), deployment.record("a")
    address = record.act.manifest.address or ""
    deployment.store.texts[address] = deployment.store.texts[address].replace('"instance"', '"cosmos": 1, "instance"')
    deployment.ledger.write_record(id_, changed(record, manifest=None), record.version, deployment.now)
    result = restore.restore_resource(id_, deployment.restore_context(), address, is_trusted=True)
    assert "unknown member cosmos" in str(result.error)
    assert not deployment.cloud.things["a"].running_since


def acted_on_again(deployment: FakeDeployment, name: str = "a") -> Manifest:
    """The manifest of an action on it that follows another one, which wasn't undone."""
    deployment.cloud.things[name].running_since = deployment.now
    deployment.now += 2 * DAY
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    reference = deployment.record(name).act.manifest
    assert reference is not None
    return deployment.archive.read_manifest(reference)


def test_a_new_manifest_names_the_one_before_with_its_hash():
    deployment = stopped(names=("a",))
    before = deployment.record("a")
    latest = acted_on_again(deployment)
    assert latest.undo_state["previous"] == {"address": before.act.manifest.address, "sha256": before.act.manifest.sha256}
    assert latest.undo_state["is_continued"]


def test_an_earlier_manifest_elsewhere_or_swapped_is_never_continued():
    for break_it in (swapped, moved_elsewhere):
        deployment = stopped(names=("a",))
        break_it(deployment)
        latest = acted_on_again(deployment)
        assert (latest.run, latest.undo_state["is_continued"]) == ("run-4", False)


def moved_elsewhere(deployment: FakeDeployment) -> None:
    record = deployment.record("a")
    deployment.ledger.write_record(
        deployment.cloud.id("a"),
        changed(record, manifest=ManifestReference(address="s3://evil/x.json", sha256="0")),
        record.version,
        deployment.now,
    )


def test_undoing_a_deletion_names_the_action_before_it():
    deployment = stopped(names=("a",))
    first = deployment.record("a").act.manifest.address
    deployment.policy = policy(POLICY.replace("action: stop", "action: delete"))
    acted_on_again(deployment)
    result = restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context())
    assert result.undone is not None
    command = f"reaper restore {deployment.cloud.id('a')} --manifest {first} --trust-manifest"
    assert result.undone.not_restored == (f"An earlier action changed it too; `{command}` undoes that action.",)


def test_undoing_a_deletion_never_names_a_manifest_elsewhere():
    deployment = stopped(names=("a",))
    moved_elsewhere(deployment)
    deployment.policy = policy(POLICY.replace("action: stop", "action: delete"))
    acted_on_again(deployment)
    result = restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context())
    assert result.undone is not None
    assert result.undone.not_restored == ("An earlier action changed it too; its manifest isn't in REAPER_MANIFESTS.",)


def test_a_swapped_link_of_a_chain_restores_the_rest_and_says_so():
    deployment = stopped(names=("a",))
    first = deployment.record("a")
    latest = acted_on_again(deployment)
    second = replace(latest, undo_state={**latest.undo_state, "part": 2})
    stored = deployment.archive.store_manifest(replace(second, run="run-5"), 9)
    record = deployment.record("a")
    new = changed(record, manifest=stored)
    deployment.ledger.write_record(deployment.cloud.id("a"), new, record.version, deployment.now)
    deployment.store.texts[first.act.manifest.address or ""] += " "
    result = restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context())
    assert result.undone is not None
    assert (result.undone.because, result.undone.run_again) == ("it runs again", True)
    assert "Not restored: what the previous action removed" in result.undone.not_restored[0]
    assert deployment.record("a").act.manifest.address == stored.address


@pytest.mark.parametrize("wanted", ["churn-blue", "blue", "chur…lue", "endpoint/churn-blue"])
def test_a_name_or_a_part_that_only_one_has_names_what_is_restored(wanted: str):
    deployment = stopped(names=("churn-blue", "churn-green"))
    assert restore.resource_id_of(wanted, deployment.restore_context()) == deployment.cloud.id("churn-blue")


def test_a_part_of_two_names_restores_neither_and_lists_both():
    deployment = stopped(names=("churn-blue", "churn-green"))
    with pytest.raises(SettingsError, match="fits 2 resources, and nothing was restored") as caught:
        restore.resource_id_of("churn", deployment.restore_context())
    assert [line for line in str(caught.value).splitlines() if line.startswith("  reaper restore")] == [
        f"  reaper restore {deployment.cloud.id(name)}" for name in ("churn-blue", "churn-green")
    ]


def test_only_what_was_acted_on_is_found_by_name():
    deployment = stopped(names=("churn-blue",))
    deployment.cloud.add("churn-green")
    deployment.sweep()
    assert restore.resource_id_of("churn", deployment.restore_context()) == deployment.cloud.id("churn-blue")
    with pytest.raises(SettingsError, match="no action on a resource of that name; did you mean churn-blue"):
        restore.resource_id_of("chrun-blue", deployment.restore_context())


def test_a_restored_resource_is_still_found_and_makes_a_part_ambiguous():
    deployment = stopped(names=("churn-blue", "churn-green"))
    restore.restore_resource(deployment.cloud.id("churn-blue"), deployment.restore_context())
    assert restore.resource_id_of("churn-blue", deployment.restore_context()) == deployment.cloud.id("churn-blue")
    with pytest.raises(SettingsError, match="fits 2 resources"):
        restore.resource_id_of("churn", deployment.restore_context())


def test_the_beginning_of_a_run_id_will_do_if_only_one_has_it():
    deployment = stopped(names=("a",))
    assert undone(deployment, "run") == {"a": "it runs again"}
