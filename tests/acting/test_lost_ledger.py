"""An action that ends half done, and a ledger that is emptied or restored from a backup: its resource is left alone until a person restores it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from acting.test_interruption import Killed, killed_at, mails, nothing
from fakes.builders import DAY, HOUR
from fakes.fake_cloud import ACTS
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from fakes.memory_ledger import InMemoryLedger
from reaper.acting import restore
from reaper.acting.contract import Manifest, UndoResult
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.rows import Key, Row
from reaper.model import Mode, StepName
from reaper.pending.unfinished import digest_of, record_known

Rows = dict[Key, Row]


def half_done(at: str = "lowered", lose: Callable[[FakeDeployment, Rows], None] | None = None) -> FakeDeployment:
    """A thing with a minimum of 2, whose delete ended at that call, and a ledger that `lose` has taken from the deployment."""
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", "action: delete").replace("24h", "4h")))
    deployment.cloud.add("churn", minimum=2, tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    backup = dict(deployment.ledger.memory_store.rows)
    deployment.cloud.fail_on = killed_at(at)
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.cloud.fail_on = nothing
    deployment.channel.messages.clear()
    deployment.now += HOUR
    (lose or emptied)(deployment, backup)
    return deployment


def emptied(deployment: FakeDeployment, backup: Rows) -> None:
    deployment.ledger = InMemoryLedger()


def restored(deployment: FakeDeployment, backup: Rows) -> None:
    deployment.ledger = InMemoryLedger()
    deployment.ledger.memory_store.rows = backup


def settle(deployment: FakeDeployment) -> restore.RestoreResult:
    return restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context(), is_trusted=True)


def failures(deployment: FakeDeployment) -> list[str]:
    return [row.error or "" for row in deployment.sweep().coverage if row.is_own]


@pytest.mark.parametrize("lose", [emptied, restored])
def test_what_a_lost_ledger_left_half_done_is_told_and_left_alone(lose: Callable[[FakeDeployment, Rows], None]):
    deployment = half_done(lose=lose)
    for _ in range(8):
        report = deployment.sweep()
        [row] = [row for row in report.coverage if row.is_own]
        assert "the ledger doesn't know of an action on it" in (row.error or "")
        assert f"`reaper restore {deployment.cloud.id('churn')} --trust-manifest` settles it" in (row.error or "")
        assert finding_of(report, "churn").step.name is StepName.NONE
        deployment.now += DAY
    assert (deployment.cloud.things["churn"].minimum, deployment.cloud.log, mails(deployment)) == (0, [], [])


@pytest.mark.parametrize("lose", [emptied, restored])
def test_a_restore_settles_an_action_of_a_lost_ledger(lose: Callable[[FakeDeployment, Rows], None]):
    deployment = half_done(lose=lose)
    assert failures(deployment)
    with pytest.raises(SettingsError, match=r"doesn't name the manifest s3://manifests/\S+ .*--trust-manifest"):
        restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    assert settle(deployment).undone
    assert failures(deployment) == []
    assert finding_of(deployment.sweep_after(hours=5), "churn").step.name is StepName.WARN
    assert deployment.record("churn").lost_manifest is None


@pytest.mark.parametrize(
    ("refusal", "is_settled"),
    [
        pytest.param(CloudError.left_alone("restore", "it is another one now"), True, id="recreated"),
        pytest.param(CloudError(Reason.GONE, "restore", "it is gone"), True, id="gone"),
        pytest.param(CloudError(Reason.REFUSED, "restore", "run this again once it is in service"), False, id="not yet"),
        pytest.param(CloudError(Reason.DENIED, "restore", "no"), False, id="denied"),
    ],
)
def test_a_lost_action_ends_with_the_resource_that_it_was_about(refusal: CloudError, is_settled: bool):
    deployment = half_done()
    assert failures(deployment)

    def undo(cloud: object, manifest: Manifest) -> UndoResult:
        raise refusal

    context = replace(deployment.restore_context(), action_functions=lambda name: replace(ACTS, undo=undo))
    result = restore.restore_resource(deployment.cloud.id("churn"), context, is_trusted=True)
    assert (result.error is refusal, failures(deployment) == []) == (not is_settled, is_settled)
    settled = r"restore: it is .*; what s3://manifests/\S+ says wasn't restored, and it no longer blocks later actions"
    assert bool(re.fullmatch(settled, str(result.error))) is is_settled


def test_trust_settles_a_lost_action_whose_manifest_was_deleted():
    deployment = half_done()
    assert failures(deployment)
    deployment.store.texts.clear()
    with pytest.raises(CloudError) as raised:
        restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    assert (raised.value.reason, bool(failures(deployment))) == (Reason.GONE, True)
    assert str(settle(deployment).error).endswith("wasn't restored, and it no longer blocks later actions")
    assert failures(deployment) == []


def test_trust_settles_nothing_while_another_place_is_set():
    deployment = half_done()
    assert failures(deployment)
    context = deployment.restore_context()
    context = replace(context, archive=replace(context.archive, place="s3://others"))
    result = restore.restore_resource(deployment.cloud.id("churn"), context, is_trusted=True)
    assert "the manifest isn't in REAPER_MANIFESTS=s3://others" in str(result.error)
    assert failures(deployment)


def test_an_action_that_is_refused_in_every_sweep_is_no_lost_action():
    deployment = FakeDeployment(policy=policy(POLICY.replace("24h", "4h")))
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    for n in range(300):
        run, now = f"run-{n}", deployment.now - DAY + n * timedelta(minutes=5)
        deployment.store.texts[f"s3://manifests/{now:%Y-%m-%d}/{run}/{digest_of(deployment.cloud.id('churn'))}-stop-1.json"] = (
            "{}"
        )
        record_known(deployment.ledger, deployment.cloud.id("churn"), run, now, "about to be stopped")
    assert failures(deployment) == []


@pytest.mark.parametrize(("days", "is_found"), [(3, True), (5, False)], ids=["after a weekend", "too late"])
def test_a_lost_action_is_found_after_a_weekend_without_runs(days: int, is_found: bool):
    deployment = half_done()
    deployment.now += days * DAY
    assert bool(failures(deployment)) is is_found


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ANNOUNCE])
def test_a_run_that_does_not_act_hides_no_lost_action(mode: Mode):
    deployment = half_done()
    deployment.sweep(mode)
    deployment.now += HOUR
    assert failures(deployment)
    [row] = [row for row in deployment.sweep(mode).coverage if row.is_own]
    assert "the ledger doesn't know of an action" in (row.error or "")


@pytest.mark.parametrize("at", ["lower", "lowered", "carried"])
def test_a_crash_without_a_lost_ledger_is_no_lost_action(at: str):
    deployment = half_done(at, lose=lambda deployment, backup: None)
    deployment.sweep()
    assert failures(deployment) == []


def test_a_crash_right_after_the_manifest_is_no_lost_action():
    deployment = FakeDeployment(policy=policy(POLICY.replace("24h", "4h")))
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    write = deployment.store.write

    def killed_after(*args: str) -> str:
        write(*args)
        raise Killed

    deployment.store.write = killed_after  # type: ignore[method-assign]
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.store.write = write  # type: ignore[method-assign]
    deployment.now += HOUR
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.STOP
    assert len(deployment.store.texts) == 2
    assert failures(deployment) == []


def test_without_a_list_of_manifests_nothing_is_stopped_or_deleted():
    deployment = FakeDeployment(policy=policy(POLICY.replace("24h", "4h")))
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    listed = deployment.store.list_texts

    def denied(place: str) -> list[str]:
        raise CloudError(Reason.DENIED, "s3:ListBucket", "no", missing="s3:ListBucket")

    deployment.store.list_texts = denied  # type: ignore[method-assign]
    report = deployment.sweep()
    assert [row.missing for row in report.coverage if row.is_own] == ["s3:ListBucket"]
    assert (finding_of(report, "churn").step.name, deployment.cloud.log) == (StepName.NONE, [])
    deployment.store.list_texts = listed  # type: ignore[method-assign]
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.STOP


def test_a_run_leaves_the_ledger_of_another_deployment_alone():
    deployment = FakeDeployment(policy=policy(POLICY.replace("24h", "4h")))
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"})
    deployment.ledger.deployment = "one"
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.ledger.deployment = "two"
    before, sent = deployment.record("churn"), len(mails(deployment))
    report = deployment.sweep()
    assert "the ledger belongs to the deployment one, and this is two" in " ".join(row.error or "" for row in report.coverage)
    assert (deployment.cloud.log, deployment.record("churn"), len(mails(deployment))) == ([], before, sent)
    deployment.ledger.deployment = "one"
    assert finding_of(deployment.sweep(), "churn").step.name is StepName.STOP
