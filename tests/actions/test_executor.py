"""The whole way from first notice to act, and everything that must keep an act from being made. Each of these breaks when its rule goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET, resource
from fakes.failing_ledger import Frail
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, Enforcer, of, only, policy
from reaper.errors import CloudError, Reason
from reaper.model import AnnouncedAction, Memory, Mode, Outcome, Result, Status, StepName
from reaper.notices.channels.delivery import OpenChannel
from reaper.notices.message import Audience
from reaper.plan import CONFIRM_WITHIN


@pytest.fixture
def there() -> Enforcer:
    """One thing that has been idle for two months."""
    found = Enforcer()
    found.depot.add("churn")
    return found


def due(there: Enforcer) -> Enforcer:
    """The same, warned of more than three days ago, so that the next sweep stops it."""
    assert only(there.sweep()).step.name is StepName.WARN
    there.now += 3 * DAY
    return there


def stopped(there: Enforcer) -> bool:
    return any(move in {StepName.STOP, StepName.DELETE} for move, _, _ in there.depot.log)


def test_first_a_warning_then_silence_then_after_the_grace_it_is_stopped(there):
    moves = [only(there.sweep()).step.name, only(there.later(days=1)).step.name, only(there.later(days=1, hours=23)).step.name]
    assert moves == [StepName.WARN, StepName.NONE, StepName.NONE]
    assert not stopped(there)
    found = only(there.later(hours=1))
    assert (found.step.name, found.outcome) == (StepName.STOP, Outcome(result=Result.DONE, because="it was stopped", begun=True))
    assert there.depot.log == [(StepName.STOP, "churn", NOW + 3 * DAY)]
    assert [m.subject for m in there.post.messages if "churn" in m.text]


def test_its_owner_hears_of_the_warning_with_the_date_and_then_of_the_stop(there):
    due(there).sweep()
    letters = [m.text for m in there.post.messages if "kill" not in m.text]
    assert any("24 Nov 2026, 10:17 UTC" in text for text in letters)
    assert any("It was stopped." in text for text in letters)


def test_after_the_stop_the_ledger_knows_it_and_the_next_sweep_leaves_it_alone(there):
    due(there).sweep()
    memory = there.memory("churn")
    assert (memory.last_action, memory.last_action_at, memory.warned_at) == (StepName.STOP, there.now, None)
    assert memory.manifest_address in there.store.texts
    found = only(there.later(hours=1))
    assert found.step.name is StepName.NONE
    assert "as the reaper left it" in found.step.because
    assert [e.what for e in there.ledger.history(there.depot.id("churn"))] == ["warned", "stopped", "told"]


def test_a_late_outcome_is_told_once_even_when_its_owner_may_no_longer_be_mailed(there):
    there.depot.things["churn"].tags = {"owner": "ana@example.com"}
    due(there).post.shut = True
    there.sweep()
    there.post.shut = False
    there.policy = policy(POLICY.replace("domains: [example.com]", "domains: [example.org]"))
    for _ in range(3):
        there.later(hours=4)
    told = [m.to for m in there.post.messages if m.audience is Audience.OWNERS and "It was stopped." in m.text]
    assert told == ["ml-admins@example.com"]


def test_below_enforce_nothing_is_acted_on_and_nothing_announced(there):
    there.sweep(Mode.NOTIFY)
    there.now += 8 * DAY
    found = only(there.sweep(Mode.NOTIFY))
    assert (found.step.name, stopped(there), there.memory("churn").announced_action) == (StepName.REMIND, False, None)


def test_notices_that_announced_no_stop_give_no_right_to_it(there):
    there.sweep(Mode.NOTIFY)
    there.now += 5 * DAY
    assert only(there.sweep()).step.name is StepName.WARN
    assert not stopped(there)
    assert only(there.later(days=2)).step.name is StepName.NONE
    assert only(there.later(days=1)).step.name is StepName.STOP


def test_a_notice_of_a_stop_gives_no_right_to_delete(there):
    there.sweep()
    there.policy = policy(POLICY.replace("action: stop", "action: delete"))
    found = only(there.later(days=4))
    assert (found.step.name, stopped(there)) == (StepName.WARN, False)
    assert only(there.later(days=3)).step.name is StepName.DELETE
    assert "churn" not in there.depot.things


def test_what_was_promised_holds_although_the_policy_got_shorter(there):
    there.sweep()
    there.policy = policy(POLICY.replace("grace: 3d", "grace: 1h"))
    assert only(there.later(days=1)).step.name is StepName.NONE
    assert only(there.later(days=2)).step.name is StepName.STOP


def test_a_notice_that_no_channel_took_does_not_count(there):
    there.post.shut = True
    there.sweep()
    there.post.shut = False
    assert only(there.later(days=4)).step.name is StepName.WARN
    assert not stopped(there)


def test_use_after_the_notice_ends_the_spell(there):
    there.sweep()
    there.depot.things["churn"].uses.append(there.now + 2 * DAY)
    assert only(there.later(days=2, hours=12)).case.verdict.state == "active"
    assert only(there.later(days=1)).step.name is StepName.WARN
    assert not stopped(there)


def test_a_new_owner_is_told_before_anything_is_done_to_it(there):
    due(there).depot.things["churn"].tags = {"owner": "sam@example.com"}
    found = only(there.sweep())
    assert (found.step.name, there.depot.log) == (StepName.WARN, [])
    assert there.memory("churn").notified_owner == "sam@example.com"
    assert only(there.later(days=3)).step.name is StepName.STOP


def used(there: Enforcer) -> None:
    there.depot.things["churn"].uses.append(there.now)


def tagged(there: Enforcer, **tags: str) -> None:
    there.depot.things["churn"].tags = {key.replace("_", ":", 1).replace("_", "-"): value for key, value in tags.items()}


def kept(there: Enforcer) -> None:
    id_ = there.depot.id("churn")
    memory = there.ledger.recall([id_], there.now)[id_]
    snoozed = replace(memory, snoozed_until=there.now + DAY, snoozed_by="lee@example.com")
    assert there.ledger.remember(id_, snoozed, memory.version, there.now)


def changed(there: Enforcer) -> None:
    there.depot.things["churn"].changed = there.now


def updating(there: Enforcer) -> None:
    there.depot.things["churn"].status = "Updating"


def barred(there: Enforcer) -> None:
    there.depot.things["churn"].barred = "its last alarm is being looked into"


def unreadable(there: Enforcer) -> None:
    there.depot.things["churn"].tags = None


@pytest.mark.parametrize(
    ("call", "what", "said"),
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
        pytest.param("look", barred, "its last alarm is being looked into", id="nothing can be done to it now"),
        pytest.param("look", updating, "its status is Updating", id="it is being updated"),
        pytest.param("look", kept, "kept by lee@example.com", id="kept by its owner before the ledger was read"),
        pytest.param("observe", kept, "kept by lee@example.com", id="kept by its owner while its metrics were read"),
        pytest.param("record", kept, "it may be snoozed", id="kept by its owner after the ledger was read"),
    ],
)
def test_whatever_happened_in_between_keeps_it_from_being_stopped(there: Enforcer, call: str, what: Any, said: str):
    due(there)
    happened: list[str] = []

    def meanwhile(now: str, name: str) -> None:
        # The first look at its metrics is the sweep's own.
        happened.append(now)
        if now == call and (call != "observe" or happened.count("observe") == 2) and not happened.count("done"):
            happened.append("done")
            what(there)

    there.depot.meanwhile = meanwhile
    found = only(there.sweep())
    assert (found.step.name, found.outcome.result) == (StepName.STOP, Result.REFUSED)
    assert said in (found.outcome.because or "")
    assert there.depot.log == []


def test_what_is_gone_by_then_is_a_success_that_says_so(there):
    due(there).depot.meanwhile = lambda call, name: there.depot.things.pop(name, None) if call == "look" else None
    found = only(there.sweep())
    assert found.outcome == Outcome(result=Result.DONE, because="it is gone already", already_done=True)


def test_what_somebody_stopped_by_then_is_a_success_that_says_so(there):
    def meanwhile(call: str, name: str) -> None:
        if call == "look":
            there.depot.things[name].up = None

    due(there).depot.meanwhile = meanwhile
    found = only(there.sweep())
    assert found.outcome == Outcome(
        result=Result.DONE, because="nothing was left to do: it is stopped already", already_done=True
    )
    assert there.depot.log == []


@pytest.mark.parametrize("call", ["look", "observe", "record"])
def test_what_cannot_be_read_again_is_refused(there: Enforcer, call: str):
    due(there)
    seen: list[str] = []

    def blunder(now: str, name: str) -> None:
        seen.append(now)
        if now == call and (call != "observe" or seen.count("observe") == 2):
            raise CloudError(Reason.THROTTLED, "sagemaker:Describe", "still throttled")

    there.depot.blunder = blunder
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert "still throttled" in (found.outcome.because or "")


def test_without_a_manifest_nothing_is_acted_on(there):
    due(there).store.full = True
    report = there.sweep()
    found = only(report)
    assert (found.outcome.result, there.depot.log) == (Result.FAILED, [])
    assert "couldn't be stored" in (found.outcome.error or "")
    [row] = [c for c in report.coverage if c.kind == "acts"]
    assert (row.status, row.missing) == (Status.FAILED, "s3:PutObject")
    there.store.full = False
    assert only(there.later(minutes=15)).outcome.result is Result.DONE


def test_a_denied_act_is_a_failure_with_its_permission_and_is_tried_again(there):
    def blunder(call: str, name: str) -> None:
        if call == "carry":
            raise DENIED

    due(there).depot.blunder = blunder
    report = there.sweep()
    assert only(report).outcome.result is Result.FAILED
    assert [c.missing for c in report.coverage if c.kind == "acts"] == ["sagemaker:DeleteEndpoint"]
    assert there.memory("churn").last_action is None
    there.depot.blunder = lambda call, name: None
    assert only(there.later(minutes=15)).outcome.result is Result.DONE


def test_an_act_that_may_have_happened_is_not_made_again_before_it_could_be_seen(there):
    def blunder(call: str, name: str) -> None:
        if call == "carry":
            raise CloudError(Reason.UNREACHABLE, "sagemaker:UpdateEndpoint", "read timed out")

    due(there).depot.blunder = blunder
    found = only(there.sweep())
    assert (found.outcome.result, found.outcome.begun) == (Result.FAILED, True)
    assert "it isn't known whether it was made" in str(found.outcome.error)
    there.depot.blunder = lambda call, name: None
    assert only(there.later(minutes=15)).step.name is StepName.NONE
    assert only(there.later(seconds=CONFIRM_WITHIN.total_seconds())).step.name is StepName.WARN
    assert only(there.later(days=3)).step.name is StepName.STOP


def test_one_failure_never_stops_the_others():
    there = Enforcer()
    for name in ("a", "b", "c"):
        there.depot.add(name)
    there.sweep()
    there.now += 3 * DAY

    def blunder(call: str, name: str) -> None:
        if call == "carry" and name == "b":
            raise DENIED
        if call == "look" and name == "a":
            raise KeyError("EndpointStatus")

    there.depot.blunder = blunder
    results = {f.case.resource.name: f.outcome.result for f in there.sweep().findings}
    assert results == {"a": Result.REFUSED, "b": Result.FAILED, "c": Result.DONE}


def test_a_run_whose_time_is_nearly_over_begins_no_act_and_says_so(there):
    due(there).deadline = there.now + timedelta(minutes=1)
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert "time is nearly over" in (found.outcome.because or "")
    there.deadline = there.now + timedelta(minutes=3)
    assert only(there.later(minutes=1)).outcome.result is Result.DONE


def test_a_memory_that_cannot_be_read_protects_its_thing_and_spoils_no_other():
    there = Enforcer(ledger=Frail())
    for name in ("churn", "other"):
        there.depot.add(name)
    there.sweep()
    there.ledger.garbled = {there.depot.id("churn")}  # type: ignore[attr-defined]
    report = there.later(days=3)
    assert (of(report, "churn").step.name, of(report, "other").outcome.result) == (StepName.NONE, Result.DONE)
    assert [name for _, name, _ in there.depot.log] == ["other"]
    assert "ledger" in [c.kind for c in report.coverage]


def test_two_sweeps_at_once_act_once(there):
    due(there)
    again: list[Any] = []

    def meanwhile(call: str, name: str) -> None:
        if call == "record" and not again:
            again.append(None)
            again.append(only(there.sweep()))

    there.depot.meanwhile = meanwhile
    first = only(there.sweep())
    assert first.outcome.result is Result.DONE
    assert again[1].step.name is StepName.NONE
    assert there.depot.log == [(StepName.STOP, "churn", there.now)]


def test_a_sweep_that_lost_its_lease_acts_on_nothing_more(there):
    due(there)

    real, turns = there.ledger.take_lease, []

    def lease(*given: Any) -> bool:
        turns.append(given)
        return len(turns) == 1 and real(*given)

    there.ledger.take_lease = lease  # type: ignore[method-assign]
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert "taken over" in (found.outcome.because or "")


def test_while_another_sweep_has_the_target_nothing_is_done(there):
    assert due(there).ledger.take_lease(TARGET, "somebody else", there.now, timedelta(hours=1))
    found = only(there.sweep())
    assert (found.step.name, there.depot.log) == (StepName.NONE, [])


def test_an_action_that_a_killed_sweep_left_open_is_told_once_and_never_continued(there):
    class Killed(BaseException):
        pass

    def killed(call: str, name: str) -> None:
        if call == "carry":
            raise Killed

    due(there).depot.blunder = killed
    with pytest.raises(Killed):
        there.sweep()
    there.depot.blunder = lambda call, name: None
    assert there.memory("churn").last_action is StepName.STOP
    there.post.messages.clear()
    report = there.later(minutes=16)
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "isn't known whether it was made" in str(c.error)] == ["acts"]
    [letter] = [m for m in there.post.messages if m.audience is Audience.OWNERS]
    assert "It isn't known whether it was made" in letter.text
    assert "reaper restore" in letter.text
    there.post.messages.clear()
    assert only(there.later(hours=1)).step.name is StepName.WARN
    assert not [m for m in there.post.messages if "isn't known" in m.text]
    assert there.depot.log == []


def test_what_was_stopped_and_runs_again_is_told_of_anew_before_another_stop(there):
    due(there).sweep()
    there.depot.things["churn"].up = there.depot.things["churn"].changed = there.now + HOUR
    assert only(there.later(days=2)).step.name is StepName.WARN
    assert only(there.later(days=3)).step.name is StepName.STOP
    assert len(there.depot.log) == 2


def test_a_channel_that_missed_a_notice_is_named_although_another_took_it(there):
    class Shut:
        def send(self, message: Any) -> str:
            raise CloudError(Reason.REFUSED, "ses:SendEmail", "quota exceeded")

    there.more = [OpenChannel(name="ses", readers=frozenset(Audience), sender=Shut())]
    found = only(there.sweep())
    assert found.outcome.result is Result.DONE
    assert "ses: ses:SendEmail: quota exceeded" in (found.outcome.error or "")


def test_what_office_hours_stop_they_start_again_and_a_start_needs_no_manifest(there):
    hours = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
    there.policy = policy(POLICY.replace("grace: 3d", "grace: 1h") + hours)
    assert only(there.sweep()).step.name is StepName.WARN
    assert only(there.later(hours=2)).outcome.result is Result.DONE
    stored = there.memory("churn").manifest_address
    found = only(there.later(days=2))
    assert (found.step.name, found.outcome.because) == (StepName.START, "it was started")
    assert (list(there.store.texts), there.memory("churn").manifest_address) == ([stored], stored)
    assert "started" in [entry.what for entry in there.ledger.history(there.depot.id("churn"))]
    assert only(there.later(minutes=15)).step.name is StepName.NONE


def test_a_notice_about_another_shape_gives_no_right_to_act(there):
    there.depot.things["churn"].fingerprint = "minimum 2 of 4"
    due(there).depot.things["churn"].fingerprint = "minimum 4 of 4"
    assert only(there.sweep()).step.name is StepName.WARN
    assert there.depot.log == []


def test_the_grace_runs_from_when_the_notice_was_taken_not_from_when_the_sweep_began(there):
    send = there.post.send

    def slowly(message: Any) -> str:
        there.now += timedelta(minutes=20)
        return send(message)

    there.post.send = slowly  # type: ignore[method-assign]
    there.sweep()
    assert there.memory("churn").act_not_before == there.memory("churn").warned_at + 3 * DAY  # type: ignore[operator]
    there.post.send = send  # type: ignore[method-assign]
    there.now = NOW + 3 * DAY
    assert only(there.sweep()).step.name is StepName.NONE


def inside(there: Enforcer, **given: Any) -> None:
    """Something that lives in it and would go with it."""
    there.depot.things["churn"].contained = (
        resource(id="arn:inner", name="inner", kind="sagemaker-inference-component", **given),
    )


def test_what_lives_inside_is_protected_by_its_own_rule(there):
    inside(there)
    there.policy = policy(POLICY + 'rules: [{name: quiet, match: {kind: "sagemaker-inference-component"}, action: ignore}]\n')
    due(there)
    assert only(there.sweep()).case.blocked[StepName.STOP].because == "inner inside it is protected: rule 'quiet' says ignore"
    assert there.depot.log == []


def test_what_lives_inside_and_whose_tags_are_unknown_is_protected(there):
    inside(there, tags=None)
    due(there)
    assert only(there.sweep()).case.blocked[StepName.STOP].because == "inner inside it is protected: its tags can't be read"
    assert there.depot.log == []


def test_what_lives_inside_is_protected_by_its_own_snooze(there):
    inside(there)
    due(there).ledger.remember("arn:inner", Memory(snoozed_until=there.now + DAY, snoozed_by="bob@example.com"), 0, there.now)
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert "inner inside it is kept by bob@example.com" in (found.outcome.because or "")


@pytest.mark.parametrize(
    ("owner", "memory", "because"),
    [
        pytest.param("fay@example.com", Memory(), "belongs to another owner, who has not been told", id="another owner"),
        pytest.param(
            "fay@example.com",
            Memory(warned_at=NOW + DAY),
            "belongs to another owner, who has not been told",
            id="told of nothing",
        ),
        pytest.param(None, Memory(warned_at=NOW + DAY), "the last mail about inner inside it no longer said", id="taken back"),
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
            "belongs to another owner, who has not been told",
            id="another owner than the one who was told",
        ),
        pytest.param(
            "fay@example.com",
            Memory(warned_at=NOW - 40 * DAY, announced_action=AnnouncedAction.STOP, act_not_before=NOW - 37 * DAY),
            "belongs to another owner, who has not been told",
            id="another owner, told so long ago that it lapsed",
        ),
    ],
)
def test_what_lives_inside_goes_only_when_its_own_owner_was_told(there, owner, memory, because):
    inside(there, **({"tags": {"owner": owner}} if owner else {}))
    due(there).ledger.remember("arn:inner", memory, 0, there.now)
    found = only(there.sweep())
    assert (found.outcome.result is Result.REFUSED) is bool(because), found.outcome
    assert (because or "") in (found.outcome.because or "")
    assert stopped(there) is not bool(because), (found.step, found.outcome)


def test_what_was_gone_already_is_no_news_and_no_saving(there):
    due(there).depot.meanwhile = lambda call, name: there.depot.things.pop(name, None) if call == "look" else None
    before = len(there.post.messages)
    there.sweep()
    assert [m for m in there.post.messages[before:] if "saving" in m.subject or m.audience == "owners"] == []


def test_a_kind_that_trips_over_what_it_could_not_observe_bars_every_move_and_ends_no_sweep(there):
    def blunder(call: str, name: str) -> None:
        if call == "observe":
            raise CloudError(Reason.UNREACHABLE, "cloudwatch:GetMetricData", "no answer")

    due(there).depot.blunder = blunder
    found = only(there.sweep())
    assert "couldn't be understood" in found.case.blocked[StepName.STOP].because
    assert (found.case.verdict.state, there.depot.log) == ("unknown", [])


@pytest.mark.parametrize("what", ["remember", "add_history"])
def test_a_ledger_that_fails_after_the_act_is_a_failure_of_the_report_and_the_act_stays_done(there, what):
    due(there)
    real = getattr(there.ledger, what)

    def failing(*given: Any) -> Any:
        if there.depot.log:
            raise CloudError(Reason.UNREACHABLE, f"dynamodb:{what}", "no answer")
        return real(*given)

    setattr(there.ledger, what, failing)
    report = there.sweep()
    assert only(report).outcome.result is Result.DONE
    assert [c.error for c in report.coverage if c.kind == "acts"] == [f"dynamodb:{what}: no answer"]


def test_what_is_gone_at_the_call_itself_is_a_success_but_no_saving_of_ours(there):
    due(there).depot.meanwhile = lambda call, name: there.depot.things.pop(name, None) if call == "carry" else None
    found = only(there.sweep())
    assert found.outcome == Outcome(result=Result.DONE, because="it was gone already", already_done=True)
    assert (there.depot.log, there.memory("churn").warned_at) == ([], None)


def test_a_ledger_of_a_newer_version_is_left_alone_and_the_report_says_so(there):
    due(there).ledger.write_row("format", {"number": "3"}, there.ledger.read_row("format").version, there.now)
    before = there.memory("churn")
    report = there.sweep()
    assert only(report).step.name is StepName.NONE
    assert [c.kind for c in report.coverage if "install a newer version" in str(c.error)] == ["ledger"]
    assert not stopped(there)
    assert there.memory("churn") == before
