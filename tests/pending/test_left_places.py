"""A place that leaves, such as an account: nothing acts there, notices lapse, snoozes and manifests stay, and what was done is still told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import FakeDeployment, only, stopped
from fakes.records import an_act, open_targets
from reaper.errors import CloudError, Reason
from reaper.model import Mode, Result, Status, StepName
from reaper.notices.message import Audience
from reaper.pending.unfinished import OPEN_TARGETS_ROW, change_open_targets
from reaper.record import ManifestReference, Snooze, before_action

ELSEWHERE = ["eu-west-1"]
LEFT = replace(TARGET, region="us-east-1")


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing in a place that was swept until today."""
    made = FakeDeployment(ledger=FailingLedger())
    made.cloud.add("churn", tags={"reaper:owner": "ann@example.com"})
    return made


def stopped_untold(deployment: FakeDeployment) -> FakeDeployment:
    """Its stop was carried out while no mail went out."""
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.is_closed = True
    deployment.sweep()
    assert stopped(deployment)
    deployment.channel.is_closed = False
    deployment.channel.messages.clear()
    return deployment


def sweep_elsewhere(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE, **after: float):
    deployment.now += timedelta(**after)
    return deployment.sweep(mode, regions=ELSEWHERE)


def letters(deployment: FakeDeployment) -> list[tuple[str, bool]]:
    """Who got a mail, and whether it says that something was stopped."""
    return [(m.to, "It was stopped." in m.text) for m in deployment.channel.messages if m.audience is Audience.OWNERS]


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ANNOUNCE, Mode.ENFORCE])
def test_an_untold_stop_is_told_once_by_a_run_that_lists_it_no_more(deployment: FakeDeployment, mode: Mode):
    stopped_untold(deployment)
    for _ in range(3):
        sweep_elsewhere(deployment, mode, hours=6)
    assert letters(deployment) == [("ann@example.com", True)]
    assert open_targets(deployment.ledger) == []


def test_an_open_action_is_closed_and_told_as_unknown(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += 3 * DAY
    case = only(deployment.sweep(Mode.AUDIT)).case
    record = deployment.record("churn")
    id_, now = case.resource.id, deployment.now
    begun = an_act(
        StepName.STOP,
        now,
        "run-0",
        id=id_,
        name="churn",
        owner="ann@example.com",
        manifest=ManifestReference(address="s3://manifests/m", sha256="f" * 64),
    )
    assert deployment.ledger.write_record(id_, before_action(record, begun), record.version, now)
    change_open_targets(deployment.ledger, [], [LEFT])
    deployment.channel.messages.clear()
    report = sweep_elsewhere(deployment, hours=6)
    [row] = [row for row in report.coverage if row.kind == "acts"]
    assert (row.status, f"`reaper restore {case.resource.id}`" in str(row.error)) == (Status.FAILED, True)
    assert deployment.record("churn").act.result is Result.FAILED
    [mail] = [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert "It isn't known whether the action was carried out" in mail
    sweep_elsewhere(deployment, hours=6)
    assert len([m for m in deployment.channel.messages if m.audience is Audience.OWNERS]) == 1


def test_another_runs_lease_there_keeps_this_run_out(deployment: FakeDeployment):
    stopped_untold(deployment)
    deployment.ledger.take_lease(LEFT, "another run", deployment.now + HOUR, DAY)
    sweep_elsewhere(deployment, hours=1)
    assert letters(deployment) == []
    deployment.ledger.give_back_lease(LEFT, "another run")
    sweep_elsewhere(deployment, hours=1)
    assert letters(deployment) == [("ann@example.com", True)]


def test_its_lease_is_given_back(deployment: FakeDeployment):
    sweep_elsewhere(stopped_untold(deployment))
    assert deployment.ledger.take_lease(LEFT, "another run", deployment.now, HOUR)


def test_an_audit_tells_and_writes_nothing(deployment: FakeDeployment):
    sweep_elsewhere(stopped_untold(deployment), Mode.AUDIT)
    assert letters(deployment) == []
    assert open_targets(deployment.ledger) == [LEFT]


def test_a_ledger_that_cannot_list_the_places_is_a_failed_row(deployment: FakeDeployment):
    stopped_untold(deployment)

    def fail_on(call: str, name: str) -> None:
        if (call, name) == ("row", "open targets"):
            raise CloudError(Reason.DENIED, "dynamodb:GetItem", "not allowed", missing="dynamodb:GetItem")

    deployment.ledger.fail_on = fail_on  # type: ignore[attr-defined]
    report = sweep_elsewhere(deployment, hours=1)
    assert [row.missing for row in report.coverage if row.kind == "ledger"] == ["dynamodb:GetItem"]


def test_nothing_is_acted_on_in_a_place_that_left(deployment: FakeDeployment):
    deployment.sweep()
    for _ in range(4):
        sweep_elsewhere(deployment, days=3)
    assert not stopped(deployment)


def test_its_notices_lapse_and_count_no_more_if_it_returns(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += 3 * DAY
    for _ in range(8):
        sweep_elsewhere(deployment, days=2)
    assert (only(deployment.sweep()).step.name, stopped(deployment)) == (StepName.WARN, False)
    assert only(deployment.sweep_after(days=3)).outcome.result is Result.DONE


def test_its_snoozes_and_manifests_stay(deployment: FakeDeployment):
    stopped_untold(deployment)
    id_, record = deployment.cloud.id("churn"), deployment.record("churn")
    snooze = Snooze(until=deployment.now + 60 * DAY, by="ann@example.com")
    assert deployment.ledger.write_snooze(id_, snooze, 0, deployment.now)
    for _ in range(10):
        sweep_elsewhere(deployment, days=3)
    kept = deployment.record("churn")
    assert (deployment.snooze("churn").until, kept.act.manifest) == (snooze.until, record.act.manifest)
    assert kept.act.manifest.address in deployment.store.texts


def test_nothing_is_done_in_a_place_that_no_later_run_would_look_at(deployment: FakeDeployment):
    deployment.sweep()
    deployment.now += 3 * DAY

    def fail(call: str, name: str) -> None:
        if (call, name) == ("write row", OPEN_TARGETS_ROW):
            raise CloudError(Reason.THROTTLED, "ledger", "too many requests")

    deployment.ledger.fail_on = fail
    finding = only(report := deployment.sweep())
    assert (finding.step.name, deployment.cloud.log) == (StepName.HOLD, [])
    assert "the targets with actions couldn't be written" in finding.step.because
    assert any(row.kind == "ledger" and row.status is Status.FAILED for row in report.coverage)
    deployment.ledger.fail_on = lambda call, name: None
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_a_left_place_whose_lease_fails_is_a_failed_row(deployment: FakeDeployment):
    stopped_untold(deployment)

    def fail(call: str, name: str) -> None:
        if call == "lease" and open_targets(deployment.ledger):
            raise CloudError(Reason.DENIED, "dynamodb:PutItem", "denied")

    deployment.ledger.fail_on = fail
    report = sweep_elsewhere(deployment)
    assert any("dynamodb:PutItem" in (row.error or "") for row in report.coverage)
    assert letters(deployment) == []
