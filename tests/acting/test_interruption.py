"""An action that ends between a side change and its main call: put back if that is certain, left alone otherwise, told once either way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import ACTS, KIND, STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, only, policy
from fakes.records import changed, open_targets
from reaper.acting import restore
from reaper.acting.contract import ActionFunctions, UndoResult
from reaper.errors import CloudError, Interrupted, Reason
from reaper.handover import Acted, Decided
from reaper.limits import holds
from reaper.limits.holds import Breaker, HoldRow
from reaper.model import Mode, Pause, Result, StepName
from reaper.notices.message import Audience
from reaper.pending import stop_switch
from reaper.pending.unfinished import change_open_targets


class Killed(BaseException):
    """The process ends here."""


def nothing(call: str, name: str) -> None:
    """Nothing fails."""


def killed_at(which: str) -> Callable[[str, str], None]:
    """The process ends at that call."""

    def fail_on(call: str, name: str) -> None:
        if call == which:
            raise Killed

    return fail_on


def interrupted(at: str = "lowered", action: str = "delete") -> FakeDeployment:
    """A thing with a minimum of 2, whose action ended at that call. The lease of the run that died is over."""
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", f"action: {action}").replace("24h", "4h")))
    deployment.cloud.add("churn", minimum=2, tags={"owner": "lee@example.com"})
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    deployment.cloud.fail_on = killed_at(at)
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.cloud.fail_on = nothing
    deployment.now += HOUR
    return deployment


def mails(deployment: FakeDeployment) -> list[str]:
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def test_a_side_change_without_its_action_is_put_back():
    deployment = interrupted()
    assert deployment.cloud.things["churn"].minimum == 0
    step = finding_of(deployment.sweep(), "churn").step
    assert (step.name, "an action on it was interrupted" in step.because) == (StepName.NONE, True)
    assert deployment.cloud.things["churn"].minimum == 2
    [mail] = mails(deployment)
    assert "It wasn't deleted. An earlier run was interrupted" in mail
    assert "its minimum is 2 again" in mail
    assert "may have been" not in mail
    [summary] = [m.text for m in deployment.channel.messages if m.audience is Audience.ADMINS and "is 2 again" in m.text]
    assert "put back yet" not in summary
    for _ in range(3):
        deployment.sweep_after(minutes=30)
    assert (len(mails(deployment)), deployment.record("churn").act.notified_at is not None) == (1, True)
    assert open_targets(deployment.ledger) == []


@pytest.mark.parametrize("at", ["lowered", "lower"])
def test_silence_since_a_put_back_is_too_short_for_a_notice(at):
    deployment = interrupted(at)
    deployment.sweep()
    deployment.now += 3 * HOUR - timedelta(minutes=1) - (HOUR if at == "lower" else timedelta())
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.step.name, finding.case.verdict.state) == (StepName.NONE, "young")
    assert finding_of(deployment.sweep_after(hours=2), "churn").step.name is StepName.WARN


def test_an_action_that_took_effect_all_the_same_is_done():
    deployment = interrupted("carried")
    deployment.sweep()
    assert deployment.record("churn").act.result is Result.DONE
    assert deployment.cloud.put_back == []
    [mail] = mails(deployment)
    assert "deleted" in mail


def test_a_run_that_a_person_ends_says_what_it_may_have_put_back():
    deployment = interrupted()

    def end_after_acting(value: Any) -> Any:
        if isinstance(value, Acted):
            raise KeyboardInterrupt
        return value

    deployment.hand_over = end_after_acting
    with pytest.raises(Interrupted, match=r"^What an earlier run left half done may have been put back"):
        deployment.sweep()
    assert deployment.cloud.put_back


def test_an_action_that_changed_nothing_is_closed():
    deployment = interrupted("lower")
    deployment.sweep()
    assert (deployment.cloud.put_back, deployment.record("churn").act.result) == ([], Result.REFUSED)
    assert len(mails(deployment)) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"minimum": 5}, id="a person's minimum"),
        pytest.param({"created": True}, id="made again"),
    ],
)
def test_what_was_changed_since_is_left_alone(change):
    deployment = interrupted()
    thing = deployment.cloud.things["churn"]
    thing.minimum, thing.created = change.get("minimum", 0), deployment.now if "created" in change else thing.created
    deployment.sweep()
    assert (deployment.cloud.put_back, thing.minimum) == ([], change.get("minimum", 0))
    [mail] = mails(deployment)
    assert "it stays as it is" in mail


def test_a_change_of_more_than_a_day_ago_is_left_alone():
    deployment = interrupted()
    deployment.now += DAY
    deployment.sweep()
    assert (deployment.cloud.put_back, deployment.cloud.things["churn"].minimum) == ([], 0)
    assert "more than a day ago" in mails(deployment)[0]
    assert not deployment.record("churn").act.changes


def test_a_put_back_that_fails_is_tried_again_and_blocks_meanwhile():
    deployment = interrupted()

    def refused(call: str, name: str) -> None:
        if call == "put back":
            raise CloudError(Reason.THROTTLED, "sagemaker:Update", "too many")

    deployment.cloud.fail_on = refused
    for _ in range(4):
        report = deployment.sweep_after(hours=2)
        assert finding_of(report, "churn").step.name is StepName.NONE
        assert any("too many" in (row.error or "") for row in report.coverage)
    assert (deployment.cloud.log, mails(deployment)) == ([], [])
    deployment.cloud.fail_on = nothing
    deployment.sweep_after(hours=2)
    assert (deployment.cloud.things["churn"].minimum, len(mails(deployment))) == (2, 1)


def test_a_kind_that_this_version_does_not_know_is_reported(monkeypatch: pytest.MonkeyPatch):
    deployment = interrupted()
    opened = deployment.open_act

    def unknown(name: str) -> ActionFunctions[Any]:
        raise KeyError(name)

    monkeypatch.setattr(deployment, "open_act", lambda *args: replace(opened(*args), action_functions=unknown))
    report = deployment.sweep()
    assert any("this version can't put back" in (row.error or "") for row in report.coverage)
    assert deployment.record("churn").act.changes


def test_an_interrupted_action_of_an_unlisted_target_is_settled_too():
    deployment = interrupted()
    change_open_targets(deployment.ledger, [TARGET], [])
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, len(mails(deployment))) == (2, 1)
    deployment.sweep()
    assert open_targets(deployment.ledger) == []


def test_an_interrupted_action_dated_ahead_waits_for_that_time():
    deployment = interrupted()
    right = deployment.now
    deployment.now -= 3 * HOUR
    for mode in (Mode.ENFORCE, Mode.ANNOUNCE):
        deployment.sweep(mode)
    assert (deployment.cloud.put_back, mails(deployment)) == ([], [])
    deployment.now = right
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, len(mails(deployment))) == (2, 1)


def test_an_interrupted_action_dated_over_7_days_ahead_is_left_alone():
    deployment = interrupted()
    deployment.now = NOW - 9 * DAY
    deployment.sweep()
    assert (deployment.cloud.put_back, deployment.record("churn").act.changes) == ([], ())
    assert "that date lies ahead, so what it changed stays as it is" in mails(deployment)[0]


def test_only_what_the_ledger_says_of_it_is_believed():
    deployment = interrupted()

    def forged(value: Any) -> Any:
        acts = [replace(each.act, kind="another", name="another", owner="mallory@example.com") for each in value.interrupted]
        forged = [replace(each, act=act) for each, act in zip(value.interrupted, acts, strict=True)]
        return replace(value, interrupted=tuple(forged))

    deployment.hand_over = lambda value: forged(value) if isinstance(value, Decided) else value
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, len(deployment.cloud.put_back)) == (2, 1)
    [told] = [m for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert (told.to, "another" in told.text) == ("lee@example.com", False)


def test_a_pause_holds_a_put_back():
    deployment = interrupted()
    stop_switch.set_pause(deployment.ledger, Pause(until=deployment.now + 2 * HOUR, by="lee"), deployment.now)
    deployment.sweep()
    assert deployment.cloud.things["churn"].minimum == 0
    deployment.sweep_after(hours=3)
    assert deployment.cloud.things["churn"].minimum == 2


def test_a_run_whose_time_is_over_leaves_a_put_back_to_the_next():
    deployment = interrupted()
    deployment.deadline = deployment.now
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, mails(deployment)) == (0, [])
    deployment.deadline = None
    deployment.sweep_after(minutes=30)
    assert (deployment.cloud.things["churn"].minimum, len(mails(deployment))) == (2, 1)


@pytest.mark.parametrize("mode", [Mode.ANNOUNCE, Mode.NOTIFY])
def test_below_enforce_it_is_blocked_and_told_with_the_command(mode):
    deployment = interrupted()
    for _ in range(3):
        report = deployment.sweep(mode)
        assert "an action on it was interrupted" in finding_of(report, "churn").step.because
        assert any("reaper restore" in (row.error or "") for row in report.coverage)
        deployment.now += HOUR
    [mail] = mails(deployment)
    assert ("was interrupted" in mail, "reaper restore" in mail, deployment.cloud.put_back) == (True, True, [])
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, len(mails(deployment))) == (2, 2)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({"lapsed_at": NOW + 3 * DAY + 5 * HOUR}, id="that ended since the notice"),
        pytest.param({"since": NOW, "because": "a jump"}, id="of more than two days"),
    ],
)
def test_a_jump_of_the_idle_share_brings_no_notice_about_it(times):
    deployment = interrupted()
    place = Breaker(target="aws/123456789012/us-east-1", kind=KIND, **times)
    row = holds.row_columns(HoldRow(breakers=(place,)))
    assert deployment.ledger.write_row(holds.row_name("aws/123456789012"), row, 0)
    deployment.now += 5 * HOUR
    step = finding_of(deployment.sweep(Mode.ANNOUNCE), "churn").step
    assert (step.name, "an action on it was interrupted" in step.because) == (StepName.NONE, True)
    assert len(mails(deployment)) == 1, "that it was interrupted"


def test_restore_closes_it_and_keeps_the_time_of_the_call():
    deployment = interrupted()
    result = restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())
    assert (result.error, deployment.cloud.things["churn"].minimum) == (None, 2)
    record = deployment.record("churn")
    assert (record.act, record.called_at) == (None, deployment.now)
    deployment.sweep()
    assert (deployment.cloud.put_back, mails(deployment)) == ([], [])


def test_a_restore_while_it_is_put_back_tells_nothing_untrue():
    deployment = interrupted()

    def restored(call: str, name: str) -> None:
        if call == "was put back":
            restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context())

    deployment.cloud.fail_on = restored
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, mails(deployment)) == (2, [])
    assert not any("FAILED" in message.text for message in deployment.channel.messages)


def test_a_restore_that_fails_leaves_it_to_be_put_back():
    deployment = interrupted()

    def denied(session: object, manifest: object) -> NoReturn:
        raise CloudError(Reason.DENIED, "sagemaker:Update", "not allowed")

    context = replace(deployment.restore_context(), action_functions=lambda name: replace(ACTS, undo=denied))
    result = restore.restore_resource(deployment.cloud.id("churn"), context)
    assert (result.undone, deployment.cloud.things["churn"].minimum) == (None, 0)
    report = deployment.sweep(Mode.ANNOUNCE)
    assert "an action on it was interrupted" in finding_of(report, "churn").step.because
    deployment.sweep()
    assert (deployment.cloud.things["churn"].minimum, len(deployment.cloud.put_back)) == (2, 1)


def test_a_restore_to_run_again_closes_it():
    deployment = interrupted()

    def unfinished(session: object, manifest: object) -> UndoResult:
        return UndoResult(because="it is being recreated", run_again=True)

    context = replace(deployment.restore_context(), action_functions=lambda name: replace(ACTS, undo=unfinished))
    restore.restore_resource(deployment.cloud.id("churn"), context)
    record = deployment.record("churn")
    assert (record.act.result, record.act.changes, bool(record.act.manifest)) == (Result.FAILED, (), True)


def test_an_action_that_fails_halfway_is_put_back_at_once():
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", "action: delete")))
    deployment.cloud.add("churn", minimum=2)
    deployment.sweep()
    deployment.now += 3 * DAY

    def tagged(call: str, name: str) -> None:
        if call == "lowered":
            deployment.cloud.things["churn"].tags = {"reaper:keep": "true"}

    deployment.cloud.fail_on = tagged
    finding = only(deployment.sweep())
    assert (finding.outcome.result, finding.outcome.begun) == (Result.REFUSED, True)
    assert "its tags changed a moment ago" in (finding.outcome.because or "")
    assert (deployment.cloud.things["churn"].minimum, deployment.cloud.log) == (2, [])
    assert deployment.record("churn").act.changes == ()


def test_a_start_is_never_blocked():
    deployment = interrupted()
    record = deployment.record("churn")
    stopped = changed(record, result=None)
    assert stopped.act.changes
    thing = deployment.cloud.things["churn"]
    thing.running_since, thing.changed = None, deployment.now - 10 * DAY
    deployment.now = deployment.now.replace(hour=8) + DAY
    deployment.cloud.kind_name = STARTABLE
    deployment.policy = policy(POLICY + "rules: [{name: office, hours: {on: 'mon-sun 07:00-19:00', tz: UTC, start: all}}]\n")
    step = finding_of(deployment.sweep(), "churn").step
    assert step.name is StepName.START
