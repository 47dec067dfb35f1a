"""The whole way from first notice to action and its record. Each of these fails if its rule is removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, FakeDeployment, due, finding_of, only, policy, stopped
from fakes.histories import history_of
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.model import Mode, Result, Status, StepName
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.message import Audience
from reaper.record import CONFIRM_WITHIN


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing that has been idle for two months."""
    new_deployment = FakeDeployment()
    new_deployment.cloud.add("churn")
    return new_deployment


def test_a_warning_comes_first_and_the_stop_after_the_grace(deployment):
    moves = [
        only(deployment.sweep()).step.name,
        only(deployment.sweep_after(days=1)).step.name,
        only(deployment.sweep_after(days=1, hours=23)).step.name,
    ]
    assert moves == [StepName.WARN, StepName.NONE, StepName.NONE]
    assert not stopped(deployment)
    finding = only(deployment.sweep_after(hours=1))
    assert (finding.step.name, finding.outcome) == (
        StepName.STOP,
        Outcome(result=Result.DONE, because="it was stopped", begun=True, excess_usd_per_hour=0.0),
    )
    assert deployment.cloud.log == [(StepName.STOP, "churn", NOW + 3 * DAY)]
    assert [m.subject for m in deployment.channel.messages if "churn" in m.text]


def test_the_owner_gets_a_warning_with_the_date_and_then_the_stop(deployment):
    due(deployment).sweep()
    letters = [m.text for m in deployment.channel.messages if "kill" not in m.text]
    assert any("24 Nov 2026, 10:17 UTC" in text for text in letters)
    assert any("It was stopped." in text for text in letters)


def test_a_stop_is_recorded_and_the_next_sweep_leaves_it_alone(deployment):
    due(deployment).sweep()
    record = deployment.record("churn")
    assert (record.act.action, record.act.at, record.notice) == (StepName.STOP, deployment.now, None)
    assert record.act.manifest.address in deployment.store.texts
    finding = only(deployment.sweep_after(hours=1))
    assert finding.step.name is StepName.NONE
    assert "unchanged since the reaper's action" in finding.step.because
    assert [e.what for e in history_of(deployment.ledger, deployment.cloud.id("churn"))] == ["warned", "stopped"]


def test_a_late_outcome_is_reported_once_to_an_owner_no_longer_allowed(deployment):
    deployment.cloud.things["churn"].tags = {"owner": "ana@example.com"}
    due(deployment).channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.policy = policy(POLICY.replace("domains: [example.com]", "domains: [example.org]"))
    for _ in range(3):
        deployment.sweep_after(hours=4)
    recipients = [m.to for m in deployment.channel.messages if m.audience is Audience.OWNERS and "It was stopped." in m.text]
    assert recipients == ["ml-admins@example.com"]


def test_below_enforce_nothing_is_acted_on_and_nothing_announced(deployment):
    deployment.sweep(Mode.NOTIFY)
    deployment.now += 8 * DAY
    finding = only(deployment.sweep(Mode.NOTIFY))
    assert (finding.step.name, stopped(deployment), deployment.record("churn").notice.action) == (StepName.REMIND, False, None)


def test_notices_that_announced_no_stop_give_no_right_to_it(deployment):
    deployment.sweep(Mode.NOTIFY)
    deployment.now += 5 * DAY
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert not stopped(deployment)
    assert only(deployment.sweep_after(days=2)).step.name is StepName.NONE
    assert only(deployment.sweep_after(days=1)).step.name is StepName.STOP


def test_a_notice_of_a_stop_gives_no_right_to_delete(deployment):
    deployment.sweep()
    deployment.policy = policy(POLICY.replace("action: stop", "action: delete"))
    finding = only(deployment.sweep_after(days=4))
    assert (finding.step.name, stopped(deployment)) == (StepName.WARN, False)
    assert only(deployment.sweep_after(days=3)).step.name is StepName.DELETE
    assert "churn" not in deployment.cloud.things


def test_an_announced_date_holds_after_the_policy_is_shortened(deployment):
    deployment.sweep()
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h"))
    assert only(deployment.sweep_after(days=1)).step.name is StepName.NONE
    assert only(deployment.sweep_after(days=2)).step.name is StepName.STOP


def test_a_notice_that_no_channel_took_does_not_count(deployment):
    deployment.channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    assert only(deployment.sweep_after(days=4)).step.name is StepName.WARN
    assert not stopped(deployment)


def test_use_after_the_notice_ends_the_idle_period(deployment):
    deployment.sweep()
    deployment.cloud.things["churn"].uses.append(deployment.now + 2 * DAY)
    assert only(deployment.sweep_after(days=2, hours=12)).case.verdict.state == "active"
    assert only(deployment.sweep_after(days=1)).step.name is StepName.WARN
    assert not stopped(deployment)


def test_a_new_owner_gets_a_notice_before_any_action(deployment):
    due(deployment).cloud.things["churn"].tags = {"owner": "sam@example.com"}
    finding = only(deployment.sweep())
    assert (finding.step.name, deployment.cloud.log) == (StepName.WARN, [])
    assert deployment.record("churn").notice.to == "sam@example.com"
    assert only(deployment.sweep_after(days=3)).step.name is StepName.STOP


def test_without_a_manifest_nothing_is_acted_on(deployment):
    due(deployment).store.full = True
    report = deployment.sweep()
    finding = only(report)
    assert (finding.outcome.result, deployment.cloud.log) == (Result.FAILED, [])
    assert "couldn't be stored" in (finding.outcome.error or "")
    [row] = [c for c in report.coverage if c.kind == "acts"]
    assert (row.status, row.missing) == (Status.FAILED, "s3:PutObject")
    deployment.store.full = False
    assert only(deployment.sweep_after(minutes=15)).outcome.result is Result.DONE


def test_a_denied_action_names_its_permission_and_is_tried_again(deployment):
    def fail_on(call: str, name: str) -> None:
        if call == "carry":
            raise DENIED

    due(deployment).cloud.fail_on = fail_on
    report = deployment.sweep()
    assert only(report).outcome.result is Result.FAILED
    assert [c.missing for c in report.coverage if c.kind == "acts"] == ["sagemaker:DeleteEndpoint"]
    assert deployment.record("churn").act is None
    deployment.cloud.fail_on = lambda call, name: None
    assert only(deployment.sweep_after(minutes=15)).outcome.result is Result.DONE


def test_an_action_that_may_have_happened_is_not_repeated_too_soon(deployment):
    def fail_on(call: str, name: str) -> None:
        if call == "carry":
            raise CloudError(Reason.UNREACHABLE, "sagemaker:UpdateEndpoint", "read timed out")

    due(deployment).cloud.fail_on = fail_on
    finding = only(deployment.sweep())
    assert (finding.outcome.result, finding.outcome.begun) == (Result.FAILED, True)
    assert "it isn't known whether the action was carried out" in str(finding.outcome.error)
    deployment.cloud.fail_on = lambda call, name: None
    assert only(deployment.sweep_after(minutes=15)).step.name is StepName.NONE
    assert only(deployment.sweep_after(seconds=CONFIRM_WITHIN.total_seconds())).step.name is StepName.NONE
    assert only(deployment.sweep_after(days=1)).step.name is StepName.WARN
    assert only(deployment.sweep_after(days=3)).step.name is StepName.STOP


def test_one_failure_never_stops_the_others():
    deployment = FakeDeployment()
    for name in ("a", "b", "c"):
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 3 * DAY

    def fail_on(call: str, name: str) -> None:
        if call == "carry" and name == "b":
            raise DENIED
        if call == "look" and name == "a":
            raise KeyError("EndpointStatus")

    deployment.cloud.fail_on = fail_on
    results = {f.case.resource.name: f.outcome.result for f in deployment.sweep().findings}
    assert results == {"a": Result.REFUSED, "b": Result.FAILED, "c": Result.DONE}


def test_a_run_whose_time_is_nearly_over_begins_no_act_and_says_so(deployment):
    due(deployment).deadline = deployment.now + timedelta(minutes=1)
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "time is nearly over" in (finding.outcome.because or "")
    deployment.deadline = deployment.now + timedelta(minutes=3)
    assert only(deployment.sweep_after(minutes=1)).outcome.result is Result.DONE


def test_an_unreadable_record_protects_only_its_resource():
    deployment = FakeDeployment(ledger=FailingLedger())
    for name in ("churn", "other"):
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.ledger.unreadable_ids = {deployment.cloud.id("churn")}  # type: ignore[attr-defined]
    report = deployment.sweep_after(days=3)
    assert (finding_of(report, "churn").step.name, finding_of(report, "other").outcome.result) == (StepName.NONE, Result.DONE)
    assert [name for _, name, _ in deployment.cloud.log] == ["other"]
    assert "ledger" in [c.kind for c in report.coverage]


def test_two_sweeps_at_once_act_once(deployment):
    due(deployment)
    again: list[Any] = []

    def before_call(call: str, name: str) -> None:
        if call == "record" and not again:
            again.append(None)
            again.append(only(deployment.sweep()))

    deployment.cloud.before_call = before_call
    first = only(deployment.sweep())
    assert first.outcome.result is Result.DONE
    assert again[1].step.name is StepName.NONE
    assert deployment.cloud.log == [(StepName.STOP, "churn", deployment.now)]


def test_a_sweep_that_lost_its_lease_acts_on_nothing_more(deployment):
    due(deployment)

    real, turns = deployment.ledger.take_lease, []

    def lease(*args: Any) -> bool:
        turns.append(args)
        return len(turns) == 1 and real(*args)

    deployment.ledger.take_lease = lease  # type: ignore[method-assign]
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "taken over" in (finding.outcome.because or "")


def test_while_another_sweep_has_the_target_nothing_is_done(deployment):
    assert due(deployment).ledger.take_lease(TARGET, "somebody else", deployment.now, timedelta(hours=1))
    finding = only(deployment.sweep())
    assert (finding.step.name, deployment.cloud.log) == (StepName.NONE, [])


def test_an_action_of_a_killed_sweep_is_reported_once_and_not_continued(deployment):
    class Killed(BaseException):
        pass

    def killed(call: str, name: str) -> None:
        if call == "carry":
            raise Killed

    due(deployment).cloud.fail_on = killed
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.cloud.fail_on = lambda call, name: None
    assert deployment.record("churn").act.action is StepName.STOP
    deployment.channel.messages.clear()
    report = deployment.sweep_after(minutes=16)
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "isn't known whether the action was carried out" in str(c.error)] == ["acts"]
    [letter] = [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert "It isn't known whether the action was carried out" in letter.text
    assert "reaper restore" in letter.text
    deployment.channel.messages.clear()
    assert only(deployment.sweep_after(hours=1)).case.rule.idle_after == DAY
    assert only(deployment.sweep_after(hours=1)).step.name is StepName.NONE
    assert only(deployment.sweep_after(days=1)).step.name is StepName.WARN
    assert not [m for m in deployment.channel.messages if "isn't known" in m.text]
    assert deployment.cloud.log == []


def test_a_restarted_resource_gets_a_new_notice_before_another_stop(deployment):
    due(deployment).sweep()
    deployment.cloud.things["churn"].running_since = deployment.cloud.things["churn"].changed = deployment.now + HOUR
    assert only(deployment.sweep_after(days=2)).step.name is StepName.WARN
    assert only(deployment.sweep_after(days=3)).step.name is StepName.STOP
    assert len(deployment.cloud.log) == 2


def test_a_failed_channel_is_named_if_another_accepted_the_notice(deployment):
    class Shut:
        def send(self, message: Any) -> str:
            raise CloudError(Reason.REFUSED, "ses:SendEmail", "quota exceeded")

    deployment.more = [OpenChannel(name="ses", readers=frozenset(Audience), sender=Shut(), is_mail=True)]
    finding = only(deployment.sweep())
    assert finding.outcome.result is Result.DONE
    assert "ses: ses:SendEmail: quota exceeded" in (finding.outcome.error or "")


def test_office_hours_start_what_they_stopped_without_a_manifest(deployment):
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert only(deployment.sweep_after(hours=2)).outcome.result is Result.DONE
    stored = deployment.record("churn").act.manifest.address
    finding = only(deployment.sweep_after(days=2))
    assert (finding.step.name, finding.outcome.because) == (StepName.START, "it was started")
    assert (list(deployment.store.texts), deployment.record("churn").act.manifest.address) == ([stored], stored)
    assert "started" in [entry.what for entry in history_of(deployment.ledger, deployment.cloud.id("churn"))]
    assert only(deployment.sweep_after(minutes=15)).step.name is StepName.NONE


def test_a_notice_about_another_shape_gives_no_right_to_act(deployment):
    deployment.cloud.things["churn"].fingerprint = "minimum 2 of 4"
    due(deployment).cloud.things["churn"].fingerprint = "minimum 4 of 4"
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert deployment.cloud.log == []


def test_the_grace_begins_when_the_notice_is_accepted(deployment):
    send = deployment.channel.send

    def slowly(message: Any) -> str:
        deployment.now += timedelta(minutes=20)
        return send(message)

    deployment.channel.send = slowly  # type: ignore[method-assign]
    deployment.sweep()
    assert deployment.record("churn").notice.not_before == deployment.record("churn").notice.warned_at + 3 * DAY  # type: ignore[operator]
    deployment.channel.send = send  # type: ignore[method-assign]
    deployment.now = NOW + 3 * DAY
    assert only(deployment.sweep()).step.name is StepName.NONE


def test_what_was_gone_already_is_no_news_and_no_saving(deployment):
    due(deployment).cloud.before_call = lambda call, name: deployment.cloud.things.pop(name, None) if call == "look" else None
    before = len(deployment.channel.messages)
    deployment.sweep()
    assert [m for m in deployment.channel.messages[before:] if "saving" in m.subject or m.audience == "owners"] == []


@pytest.mark.parametrize("what", ["write_record", "add_history"])
def test_an_action_stays_done_if_the_ledger_fails_after_it(deployment, what):
    due(deployment)
    real = getattr(deployment.ledger, what)

    def failing(*args: Any) -> Any:
        if deployment.cloud.log:
            raise CloudError(Reason.UNREACHABLE, f"dynamodb:{what}", "no answer")
        return real(*args)

    setattr(deployment.ledger, what, failing)
    report = deployment.sweep()
    assert only(report).outcome.result is Result.DONE
    assert [c.error for c in report.coverage if c.kind == "acts"] == [f"dynamodb:{what}: no answer"]


def test_a_resource_gone_at_the_call_is_a_success_without_savings(deployment):
    due(deployment).cloud.before_call = lambda call, name: deployment.cloud.things.pop(name, None) if call == "carry" else None
    finding = only(deployment.sweep())
    assert finding.outcome == Outcome(result=Result.DONE, because="it no longer exists", already_done=True)
    assert (deployment.cloud.log, deployment.record("churn").notice) == ([], None)


def test_a_ledger_of_a_newer_version_is_left_alone_and_the_report_says_so(deployment):
    due(deployment).ledger.write_row("format", {"number": "4"}, deployment.ledger.read_row("format").version)
    before = deployment.record("churn")
    report = deployment.sweep()
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "install a newer version" in str(c.error)] == ["ledger"]
    assert not stopped(deployment)
    assert deployment.record("churn") == before
