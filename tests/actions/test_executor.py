"""The whole way from first notice to action, and everything that must prevent an action. Each of these fails if its rule is removed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET, resource
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, only, policy
from reaper.case import Outcome
from reaper.errors import CloudError, Reason
from reaper.model import AnnouncedAction, Memory, Mode, Result, Status, StepName
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.message import Audience
from reaper.planning.possible_actions import CONFIRM_WITHIN


@pytest.fixture
def deployment() -> FakeDeployment:
    """One thing that has been idle for two months."""
    new_deployment = FakeDeployment()
    new_deployment.cloud.add("churn")
    return new_deployment


def due(deployment: FakeDeployment) -> FakeDeployment:
    """The same, warned of more than three days ago, so that the next sweep stops it."""
    assert only(deployment.sweep()).step.name is StepName.WARN
    deployment.now += 3 * DAY
    return deployment


def stopped(deployment: FakeDeployment) -> bool:
    return any(move in {StepName.STOP, StepName.DELETE} for move, _, _ in deployment.cloud.log)


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
        Outcome(result=Result.DONE, because="it was stopped", begun=True),
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
    memory = deployment.memory("churn")
    assert (memory.last_action, memory.last_action_at, memory.warned_at) == (StepName.STOP, deployment.now, None)
    assert memory.manifest_address in deployment.store.texts
    finding = only(deployment.sweep_after(hours=1))
    assert finding.step.name is StepName.NONE
    assert "unchanged since the reaper's action" in finding.step.because
    assert [e.what for e in deployment.ledger.history(deployment.cloud.id("churn"))] == ["warned", "stopped", "told"]


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
    assert (finding.step.name, stopped(deployment), deployment.memory("churn").announced_action) == (StepName.REMIND, False, None)


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
    assert deployment.memory("churn").notified_owner == "sam@example.com"
    assert only(deployment.sweep_after(days=3)).step.name is StepName.STOP


def used(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].uses.append(deployment.now)


def tagged(deployment: FakeDeployment, **tags: str) -> None:
    deployment.cloud.things["churn"].tags = {key.replace("_", ":", 1).replace("_", "-"): value for key, value in tags.items()}


def snooze_by_owner(deployment: FakeDeployment) -> None:
    id_ = deployment.cloud.id("churn")
    memory = deployment.ledger.recall([id_], deployment.now)[id_]
    snoozed = replace(memory, snoozed_until=deployment.now + DAY, snoozed_by="lee@example.com")
    assert deployment.ledger.remember(id_, snoozed, memory.version, deployment.now)


def changed(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].changed = deployment.now


def updating(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].status = "Updating"


def blocked_because(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].blocked_because = "its last alarm is being looked into"


def unreadable(deployment: FakeDeployment) -> None:
    deployment.cloud.things["churn"].tags = None


@pytest.mark.parametrize(
    ("call", "what", "message"),
    [
        pytest.param("look", used, "it is active now", id="used between judging and acting"),
        pytest.param("look", lambda t: tagged(t, reaper_keep="true"), "kept by tag reaper:keep", id="a keep tag was put on"),
        pytest.param(
            "look", lambda t: tagged(t, reaper_kep="true"), "did you mean reaper:keep", id="a misspelt keep tag was put on"
        ),
        pytest.param(
            "look", lambda t: tagged(t, reaper_action="notify"), "no longer allow it to be stopped", id="a tag lowered the action"
        ),
        pytest.param("look", unreadable, "its tags can't be read", id="its tags cannot be read any more"),
        pytest.param("look", changed, "it is young now", id="it was changed a moment ago"),
        pytest.param("look", lambda t: tagged(t, reaper_owner="new@example.com"), "idle for more than", id="it was handed over"),
        pytest.param("look", blocked_because, "its last alarm is being looked into", id="nothing can be done to it now"),
        pytest.param("look", updating, "its status is Updating", id="it is being updated"),
        pytest.param("look", snooze_by_owner, "by lee@example.com", id="kept by its owner before the ledger was read"),
        pytest.param("observe", snooze_by_owner, "by lee@example.com", id="kept by its owner while its metrics were read"),
        pytest.param("record", snooze_by_owner, "it may be snoozed", id="kept by its owner after the ledger was read"),
    ],
)
def test_a_change_since_the_notice_prevents_the_stop(deployment: FakeDeployment, call: str, what: Any, message: str):
    due(deployment)
    happened: list[str] = []

    def before_call(now: str, name: str) -> None:
        # The first look at its metrics is the sweep's own.
        happened.append(now)
        if now == call and (call != "observe" or happened.count("observe") == 2) and not happened.count("done"):
            happened.append("done")
            what(deployment)

    deployment.cloud.before_call = before_call
    finding = only(deployment.sweep())
    assert (finding.step.name, finding.outcome.result) == (StepName.STOP, Result.REFUSED)
    assert message in (finding.outcome.because or "")
    assert deployment.cloud.log == []


def test_a_resource_gone_meanwhile_is_a_success(deployment):
    due(deployment).cloud.before_call = lambda call, name: deployment.cloud.things.pop(name, None) if call == "look" else None
    finding = only(deployment.sweep())
    assert finding.outcome == Outcome(result=Result.DONE, because="it no longer exists", already_done=True)


def test_a_resource_stopped_meanwhile_is_a_success(deployment):
    def before_call(call: str, name: str) -> None:
        if call == "look":
            deployment.cloud.things[name].running_since = None

    due(deployment).cloud.before_call = before_call
    finding = only(deployment.sweep())
    assert finding.outcome == Outcome(result=Result.DONE, because="nothing to do: it is stopped already", already_done=True)
    assert deployment.cloud.log == []


@pytest.mark.parametrize("call", ["look", "observe", "record"])
def test_what_cannot_be_read_again_is_refused(deployment: FakeDeployment, call: str):
    due(deployment)
    calls: list[str] = []

    def fail_on(now: str, name: str) -> None:
        calls.append(now)
        if now == call and (call != "observe" or calls.count("observe") == 2):
            raise CloudError(Reason.THROTTLED, "sagemaker:Describe", "still throttled")

    deployment.cloud.fail_on = fail_on
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "still throttled" in (finding.outcome.because or "")


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
    assert deployment.memory("churn").last_action is None
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
    assert only(deployment.sweep_after(seconds=CONFIRM_WITHIN.total_seconds())).step.name is StepName.WARN
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


def test_an_unreadable_memory_protects_only_its_resource():
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
    assert deployment.memory("churn").last_action is StepName.STOP
    deployment.channel.messages.clear()
    report = deployment.sweep_after(minutes=16)
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "isn't known whether the action was carried out" in str(c.error)] == ["acts"]
    [letter] = [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert "It isn't known whether the action was carried out" in letter.text
    assert "reaper restore" in letter.text
    deployment.channel.messages.clear()
    assert only(deployment.sweep_after(hours=1)).step.name is StepName.WARN
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

    deployment.more = [OpenChannel(name="ses", readers=frozenset(Audience), sender=Shut())]
    finding = only(deployment.sweep())
    assert finding.outcome.result is Result.DONE
    assert "ses: ses:SendEmail: quota exceeded" in (finding.outcome.error or "")


def test_office_hours_start_what_they_stopped_without_a_manifest(deployment):
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    deployment.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert only(deployment.sweep_after(hours=2)).outcome.result is Result.DONE
    stored = deployment.memory("churn").manifest_address
    finding = only(deployment.sweep_after(days=2))
    assert (finding.step.name, finding.outcome.because) == (StepName.START, "it was started")
    assert (list(deployment.store.texts), deployment.memory("churn").manifest_address) == ([stored], stored)
    assert "started" in [entry.what for entry in deployment.ledger.history(deployment.cloud.id("churn"))]
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
    assert deployment.memory("churn").act_not_before == deployment.memory("churn").warned_at + 3 * DAY  # type: ignore[operator]
    deployment.channel.send = send  # type: ignore[method-assign]
    deployment.now = NOW + 3 * DAY
    assert only(deployment.sweep()).step.name is StepName.NONE


def inside(deployment: FakeDeployment, **fields: Any) -> None:
    """Something that lives in it and would go with it."""
    deployment.cloud.things["churn"].contained = (
        resource(id="arn:inner", name="inner", kind="sagemaker-inference-component", **fields),
    )


def test_what_lives_inside_is_protected_by_its_own_rule(deployment):
    inside(deployment)
    deployment.policy = policy(
        POLICY + 'rules: [{name: quiet, match: {kind: "sagemaker-inference-component"}, action: ignore}]\n'
    )
    due(deployment)
    assert (
        only(deployment.sweep()).case.blocked[StepName.STOP].because == "inner inside it is protected: rule 'quiet' says ignore"
    )
    assert deployment.cloud.log == []


def test_what_lives_inside_and_whose_tags_are_unknown_is_protected(deployment):
    inside(deployment, tags=None)
    due(deployment)
    assert only(deployment.sweep()).case.blocked[StepName.STOP].because == "inner inside it is protected: its tags can't be read"
    assert deployment.cloud.log == []


def test_what_lives_inside_is_protected_by_its_own_snooze(deployment):
    inside(deployment)
    due(deployment).ledger.remember(
        "arn:inner", Memory(snoozed_until=deployment.now + DAY, snoozed_by="bob@example.com"), 0, deployment.now
    )
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "by bob@example.com" in (finding.outcome.because or "")


@pytest.mark.parametrize(
    ("owner", "memory", "because"),
    [
        pytest.param("fay@example.com", Memory(), "belongs to another owner, who has not been notified", id="another owner"),
        pytest.param(
            "fay@example.com",
            Memory(warned_at=NOW + DAY),
            "belongs to another owner, who has not been notified",
            id="told of nothing",
        ),
        pytest.param(
            None, Memory(warned_at=NOW + DAY), "the last notice about inner inside it doesn't announce", id="taken back"
        ),
        pytest.param(
            None,
            Memory(warned_at=NOW + 2 * DAY, announced_action=AnnouncedAction.STOP, act_not_before=NOW + 5 * DAY),
            "inner inside it is announced for 2026-11-26",
            id="announced for later",
        ),
        pytest.param(None, Memory(), None, id="the same owner"),
        pytest.param(None, Memory(warned_at=NOW - DAY), None, id="told of nothing before"),
        pytest.param(
            "fay@example.com",
            Memory(warned_at=NOW, announced_action=AnnouncedAction.STOP, act_not_before=NOW + 3 * DAY),
            None,
            id="another owner, who was told",
        ),
        pytest.param(
            "fay@example.com",
            Memory(
                warned_at=NOW,
                announced_action=AnnouncedAction.STOP,
                act_not_before=NOW + 3 * DAY,
                notified_owner="gus@example.com",
            ),
            "belongs to another owner, who has not been notified",
            id="another owner than the one who was told",
        ),
        pytest.param(
            "fay@example.com",
            Memory(warned_at=NOW - 40 * DAY, announced_action=AnnouncedAction.STOP, act_not_before=NOW - 37 * DAY),
            "belongs to another owner, who has not been notified",
            id="another owner, told so long ago that it lapsed",
        ),
    ],
)
def test_a_guest_is_affected_only_after_a_notice_to_its_owner(deployment, owner, memory, because):
    inside(deployment, **({"tags": {"owner": owner}} if owner else {}))
    due(deployment).ledger.remember("arn:inner", memory, 0, deployment.now)
    finding = only(deployment.sweep())
    assert (finding.outcome.result is Result.REFUSED) is bool(because), finding.outcome
    assert (because or "") in (finding.outcome.because or "")
    assert stopped(deployment) is not bool(because), (finding.step, finding.outcome)


def test_what_was_gone_already_is_no_news_and_no_saving(deployment):
    due(deployment).cloud.before_call = lambda call, name: deployment.cloud.things.pop(name, None) if call == "look" else None
    before = len(deployment.channel.messages)
    deployment.sweep()
    assert [m for m in deployment.channel.messages[before:] if "saving" in m.subject or m.audience == "owners"] == []


def test_a_kind_that_fails_on_an_unobserved_resource_blocks_every_action(deployment):
    def fail_on(call: str, name: str) -> None:
        if call == "observe":
            raise CloudError(Reason.UNREACHABLE, "cloudwatch:GetMetricData", "no answer")

    due(deployment).cloud.fail_on = fail_on
    finding = only(deployment.sweep())
    assert "couldn't be understood" in finding.case.blocked[StepName.STOP].because
    assert (finding.case.verdict.state, deployment.cloud.log) == ("unknown", [])


@pytest.mark.parametrize("what", ["remember", "add_history"])
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
    assert (deployment.cloud.log, deployment.memory("churn").warned_at) == ([], None)


def test_a_ledger_of_a_newer_version_is_left_alone_and_the_report_says_so(deployment):
    due(deployment).ledger.write_row("format", {"number": "3"}, deployment.ledger.read_row("format").version, deployment.now)
    before = deployment.memory("churn")
    report = deployment.sweep()
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "install a newer version" in str(c.error)] == ["ledger"]
    assert not stopped(deployment)
    assert deployment.memory("churn") == before
