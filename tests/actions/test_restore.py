"""Taking acts back: only what was made and still stands, only on the resource that it was made on, and never twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, Enforcer, policy
from reaper.actions import restore
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Memory, Result, StepName


def stopped(action: str = "stop", names: tuple[str, ...] = ("a", "b")) -> Enforcer:
    """Things that were warned of and acted on in run-2."""
    there = Enforcer()
    there.policy = policy(POLICY.replace("action: stop", f"action: {action}"))
    for name in names:
        there.depot.add(name, tags={"team": name})
    there.sweep()
    there.now += 3 * DAY
    there.sweep()
    return there


def undone(there: Enforcer, run: str = "run-2", **given: Any) -> dict[str, str]:
    """What became of each act of a run, by name."""
    said = {}
    for done in restore.undo_run(run, there.bench(), **given):
        name = done.id.rpartition("/")[2]
        said[name] = (
            done.because if isinstance(done, restore.NotUndone) else str(done.error or (done.undone and done.undone.because))
        )
    return said


def test_everything_that_a_run_stopped_runs_again_and_needs_a_new_notice():
    there = stopped()
    assert undone(there) == {"a": "it runs again", "b": "it runs again"}
    assert all(thing.up for thing in there.depot.things.values())
    assert there.memory("a") == replace(Memory(), version=there.memory("a").version)
    there.now += 2 * DAY
    assert {f.step.name for f in there.sweep().findings} == {StepName.WARN}


def test_deletes_are_brought_back_only_where_that_is_asked_for():
    there = stopped("delete")
    assert "--deletes" in undone(there)["a"]
    assert there.depot.things == {}
    assert undone(there, deletes=True)["a"] == "it runs again"
    assert there.depot.things["a"].tags == {"team": "a"}


def test_what_was_refused_or_failed_is_not_undone():
    there = stopped(names=())
    for name in ("denied", "kept"):
        there.depot.add(name)
    there.sweep()
    there.now += 3 * DAY

    def blunder(call: str, name: str) -> None:
        if call == "carry" and name == "denied":
            raise DENIED

    def meanwhile(call: str, name: str) -> None:
        if call == "record" and name == "kept":
            memory = there.memory(name)
            there.ledger.remember(there.depot.id(name), replace(memory, snoozed_until=there.now + DAY), memory.version, there.now)

    there.depot.blunder, there.depot.meanwhile = blunder, meanwhile
    run = there.sweep().run.id
    there.depot.blunder = there.depot.meanwhile = lambda call, name: None
    for thing in there.depot.things.values():
        thing.up = None
    assert all("was not made" in said for said in undone(there, run).values())
    assert not any(thing.up for thing in there.depot.things.values())


def test_what_was_undone_already_is_left_alone():
    there = stopped()
    undone(there)
    there.depot.things["a"].up = None
    assert "taken back already" in undone(there)["a"]
    assert there.depot.things["a"].up is None


def test_a_later_act_is_not_forgotten_by_undoing_an_earlier_one():
    there = stopped(names=("a",))
    there.depot.things["a"].up = there.depot.things["a"].changed = there.now + HOUR
    there.now += 2 * DAY
    there.sweep()
    there.now += 3 * DAY
    there.sweep()
    manifest = there.memory("a").manifest_address
    assert "something was done since" in undone(there, "run-2")["a"]
    assert there.memory("a").manifest_address == manifest
    assert restore.restore_resource(there.depot.id("a"), there.bench()).error is None


@pytest.mark.parametrize("run", ["", "/", "..", "*", "run-2/../run-1"])
def test_what_is_no_run_is_refused(run):
    with pytest.raises(SettingsError, match="is no run"):
        list(restore.undo_run(run, stopped().bench()))


def test_a_run_that_left_nothing_says_so():
    with pytest.raises(SettingsError, match="left nothing to take back"):
        list(restore.undo_run("run-99", stopped().bench()))


def test_a_manifest_that_cannot_be_read_does_not_stop_the_others():
    there = stopped()
    first = sorted(there.store.texts)[0]
    there.store.texts[first] = "nonsense"
    said = list(restore.undo_run("run-2", there.bench()))
    assert [isinstance(done, restore.RestoreResult) and done.error is None for done in said].count(True) == 1
    assert sum(1 for thing in there.depot.things.values() if thing.up) == 1


def test_a_manifest_of_another_resource_is_refused():
    there = stopped()
    address = there.memory("b").manifest_address
    with pytest.raises(SettingsError, match="is about"):
        restore.restore_resource(there.depot.id("a"), there.bench(), address)
    assert there.depot.things["b"].up is None


def test_nothing_known_to_take_back_says_so():
    with pytest.raises(SettingsError, match="knows of no act on it"):
        restore.restore_resource("arn:aws:sagemaker:us-east-1:123456789012:endpoint/never", stopped().bench())


def test_what_is_back_already_is_said_to_be_and_left_alone():
    there = stopped(names=("a",))
    assert restore.restore_resource(there.depot.id("a"), there.bench()).error is None
    there.depot.things["a"].up = None
    again = restore.restore_resource(there.depot.id("a"), there.bench())
    assert again.undone is not None
    assert (again.undone.because, again.undone.not_restored, again.undone.run_again) == (
        f"it is back already, since {there.now:%Y-%m-%d %H:%M} UTC, by lee",
        (),
        False,
    )
    assert there.depot.things["a"].up is None


def test_an_action_that_may_be_half_made_is_told_and_not_repeated_under_its_notice():
    there = stopped(names=())
    there.depot.add("a")
    there.sweep()
    there.now += 3 * DAY

    def blunder(call: str, name: str) -> None:
        if call == "carry":
            raise CloudError(Reason.PARTIAL, "sagemaker:UpdateEndpoint", "the minimum was lowered, and then nothing answered")

    there.depot.blunder = blunder
    there.sweep()
    first = there.memory("a").manifest_address
    there.depot.blunder = lambda call, name: None
    there.now += 2 * HOUR
    there.sweep()
    assert there.depot.log == []
    assert there.memory("a").manifest_address == first
    assert there.memory("a").last_action_result is Result.FAILED


def test_after_a_failure_it_can_be_tried_again():
    there = stopped(names=("a",))

    def blunder(call: str, name: str) -> None:
        raise CloudError(Reason.THROTTLED, "sagemaker:Update", "still throttled")

    bench, good = there.bench(), there.bench().action_functions("any").undo

    def undo(yard: Any, manifest: Any) -> Any:
        there.depot.blunder("undo", manifest.name)
        return good(yard, manifest)

    bench = replace(bench, action_functions=lambda name: replace(there.bench().action_functions(name), undo=undo))
    there.depot.blunder = blunder
    assert "throttled" in str(restore.restore_resource(there.depot.id("a"), bench).error)
    there.depot.blunder = lambda call, name: None
    assert restore.restore_resource(there.depot.id("a"), bench).error is None
    assert there.depot.things["a"].up == there.now


def test_what_went_with_its_host_is_brought_back_by_restoring_that():
    there = Enforcer(policy=policy(POLICY.replace("action: stop", "action: delete")))
    for name, host in (("host", ""), ("inner", "host")):
        there.depot.add(name, host=host)
    there.sweep()
    there.now += 3 * DAY
    there.sweep()
    assert there.depot.things == {}
    host, inner = there.depot.id("host"), there.depot.id("inner")
    with pytest.raises(SettingsError, match=f"it went with {host} in run run-2: `reaper restore {host}` brings both back"):
        restore.restore_resource(inner, there.bench())
    restore.restore_resource(host, there.bench())
    assert set(there.depot.things) == {"host", "inner"}


def test_a_manifest_outside_the_configured_place_is_undone_only_where_a_person_names_it():
    there = stopped(names=("a",))
    id_, memory = there.depot.id("a"), there.memory("a")
    elsewhere = (memory.manifest_address or "").replace("s3://manifests/", "s3://evil/")
    there.store.texts[elsewhere] = there.store.texts[memory.manifest_address or ""]
    there.ledger.remember(id_, replace(memory, manifest_address=elsewhere), memory.version, there.now)
    with pytest.raises(CloudError, match="does not lie in REAPER_MANIFESTS"):
        restore.restore_resource(id_, there.bench())
    assert not there.depot.things["a"].up
    assert restore.restore_resource(id_, there.bench(), elsewhere).undone
    assert there.depot.things["a"].up


def test_a_new_manifest_names_one_outside_the_configured_place_which_is_never_read():
    there = stopped(names=("a",))
    memory = there.memory("a")
    there.ledger.remember(there.depot.id("a"), replace(memory, manifest_address="s3://evil/x.json"), memory.version, there.now)
    there.depot.things["a"].up = there.now
    there.now += 2 * DAY
    there.sweep()
    there.now += 3 * DAY
    there.sweep()
    latest = there.archive.read_manifest(there.memory("a").manifest_address or "")
    assert (latest.run, latest.undo_state["previous"], latest.undo_state["elsewhere"]) == ("run-4", "s3://evil/x.json", True)
