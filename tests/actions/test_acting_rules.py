"""Each rule of acting alone, where nothing else would keep the action from being made: without the rule its test fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import Frail
from fakes.fake_deployment import POLICY, Enforcer, of, only, policy
from reaper.ledger import lease
from reaper.model import Mode, Result, StepName
from reaper.notices.message import Audience

QUICK = POLICY.replace("idle_after: 24h", "idle_after: 4h")
HOURS = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'


def due(*names: str, action: str = "stop", **given: Any) -> Enforcer:
    """Those things, told of three days ago, so that the next sweep acts on them."""
    there = Enforcer(ledger=Frail())
    there.policy = policy(QUICK.replace("action: stop", f"action: {action}"))
    for name in names:
        there.depot.add(name, **given)
    there.sweep()
    there.now += 3 * DAY
    there.post.messages.clear()
    return there


def housed(slow: bool = False) -> Enforcer:
    """An endpoint with two components, all due to be deleted; the components are told of, but left to their host."""
    there = Enforcer(ledger=Frail())
    there.policy = policy(QUICK.replace("action: stop", "action: delete"))
    there.depot.add("host", slow=slow)
    for name in ("inner-1", "inner-2"):
        there.depot.add(name, host="host", barred="left to its host")
    there.sweep()
    there.now += 3 * DAY
    return there


def snoozed(there: Enforcer, name: str, lasting: timedelta = DAY) -> None:
    """Its owner clicks on the link in a mail."""
    memory = there.memory(name)
    kept = replace(memory, snoozed_until=there.now + lasting, snoozed_at=there.now, snoozed_by="lee@example.com")
    assert there.ledger.remember(there.depot.id(name), kept, memory.version, there.now)


def at_call(there: Enforcer, nth: int, what: Callable[[], None]) -> None:
    """That happens while the call of that number is on its way."""
    calls: list[str] = []

    def meanwhile(call: str, name: str) -> None:
        calls.extend([call] * (call == "carry"))
        if call == "carry" and len(calls) == nth:
            what()

    there.depot.meanwhile = meanwhile


def deleted(there: Enforcer) -> list[str]:
    return [name for _, name, _ in there.depot.log]


@pytest.mark.parametrize("name", ["host", "inner-1", "inner-2"])
def test_a_snooze_between_two_calls_ends_the_action(name: str):
    there = housed()
    at_call(there, 1, lambda: snoozed(there, name))
    found = of(there.sweep(), "host")
    assert (found.outcome.result, found.outcome.begun, deleted(there)) == (Result.FAILED, True, ["inner-1"])
    assert "broken off" in str(found.outcome.error)
    assert there.memory("host").last_action_result is Result.FAILED


def test_a_row_that_cannot_be_read_between_two_calls_ends_the_action():
    there = housed()
    at_call(there, 1, lambda: there.ledger.garbled.add(there.depot.id("inner-2")))  # type: ignore[attr-defined]
    there.ledger.remember(there.depot.id("inner-2"), there.memory("inner-2"), there.memory("inner-2").version, there.now)
    assert of(there.sweep(), "host").outcome.result is Result.FAILED
    assert deleted(there) == ["inner-1"]


def test_a_lease_that_is_lost_between_two_calls_ends_the_action():
    there = housed()

    def taken() -> None:
        there.now += lease.LEASE + HOUR / 60
        assert there.ledger.take_lease(TARGET, "another", there.now, lease.LEASE)

    at_call(there, 1, taken)
    assert of(there.sweep(), "host").outcome.result is Result.FAILED
    assert deleted(there) == ["inner-1"]


def test_a_snooze_of_the_host_keeps_what_lives_in_it():
    there = due("host", "inner")
    there.depot.things["inner"].host = "host"
    there.depot.things["host"].barred = "its alarm is being looked into"
    snoozed(there, "host")
    assert of(there.sweep(), "inner").case.verdict.because.startswith("what it lives in is kept by lee@example.com")
    assert there.depot.log == []


@pytest.mark.parametrize("swept", [True, False], ids=["swept during the snooze", "not swept during the snooze"])
def test_a_snooze_of_the_host_answers_the_notices_of_what_lives_in_it(swept: bool):
    there = due("inner", host="host")
    there.depot.add("host", barred="its alarm is being looked into")
    snoozed(there, "host")
    if swept:
        there.now += HOUR
        there.sweep()
    there.now += 2 * DAY
    assert of(there.sweep(), "inner").step.name is StepName.WARN
    assert there.depot.log == []


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda there, thing: thing.uses.append(there.now), id="used"),
        pytest.param(lambda there, thing: setattr(thing, "changed", there.now), id="changed"),
        pytest.param(lambda there, thing: setattr(thing, "tags", {"owner": "sam@example.com"}), id="handed over"),
        pytest.param(lambda there, thing: snoozed(there, thing.name, HOUR), id="snoozed"),
        pytest.param(
            lambda there, thing: thing.deaf.append((there.now, there.now + 2 * HOUR)), id="without metrics for two hours"
        ),
        pytest.param(lambda there, thing: setattr(thing, "created", there.now), id="made anew"),
    ],
)
def test_the_mail_about_a_part_is_void_after(what: Any):
    there = due("churn", variants=2)
    assert only(there.sweep()).outcome.part_done == "1 of 2 variants"
    there.now += DAY
    what(there, there.depot.things["churn"])
    there.now += 2 * DAY
    assert only(there.sweep()).step.name is StepName.WARN
    assert len(there.depot.log) == 1


def test_the_mail_about_a_part_is_the_notice_for_the_rest_and_no_other_is_sent():
    there = due("churn", variants=2)
    there.sweep()
    there.now += 3 * DAY - HOUR
    assert only(there.sweep()).step.name is StepName.NONE
    there.now += HOUR
    assert only(there.sweep()).outcome.result is Result.DONE
    assert there.depot.things["churn"].up is None
    assert len([m for m in there.post.messages if m.audience is Audience.OWNERS]) == 2


def test_a_later_notice_is_not_taken_for_the_mail_about_a_part():
    there = due("churn", variants=2)
    there.sweep()
    thing = there.depot.things["churn"]
    thing.uses.append(there.now + HOUR)
    there.now += DAY
    assert only(there.sweep()).step.name is StepName.WARN
    thing.deaf.append((there.now + HOUR, there.now + 3 * HOUR))
    there.now += 3 * DAY
    assert only(there.sweep()).step.name is StepName.WARN, "after a time without proof another notice is needed"
    assert len(there.depot.log) == 1


def test_what_a_slow_delete_leaves_is_told_and_deleted_as_an_action_of_its_own():
    there = housed(slow=True)
    found = of(there.sweep(), "host")
    assert (found.outcome.part_done, deleted(there)) == ("what lived inside it", ["inner-1", "inner-2"])
    first = there.memory("host").manifest_address
    there.now += 3 * DAY
    assert only(there.sweep()).outcome.result is Result.DONE
    assert there.archive.read_manifest(there.memory("host").manifest_address or "").undo_state["previous"] == first


def test_what_is_made_again_by_hand_inside_an_unfinished_delete_is_left_alone():
    there = housed(slow=True)
    there.sweep()
    there.now += DAY
    there.depot.add("host", created=there.now, up=there.now)
    there.now += 3 * DAY
    assert only(there.sweep()).step.name is StepName.WARN
    assert "host" in there.depot.things


def office(**given: Any) -> Enforcer:
    """A thing whose owner was told of its office hours on a Monday at 19:17, an hour of grace."""
    there = Enforcer(ledger=Frail())
    there.policy = policy(QUICK.replace("grace: 3d", "grace: 1h") + HOURS)
    there.now += 2 * DAY + 9 * HOUR
    there.depot.add("churn", **given)
    assert only(there.sweep()).step.name is StepName.WARN
    return there


def test_an_enrolment_is_the_notice_for_every_evening_and_starts_and_uses_leave_it_alone():
    there = office()
    for day in range(4):
        there.depot.things["churn"].uses.append(there.now)
        there.now = there.now.replace(hour=22)
        assert (only(there.sweep()).outcome.result, there.depot.things["churn"].up) == (Result.DONE, None), day
        there.now = (there.now + DAY).replace(hour=8)
        assert only(there.sweep()).step.name is StepName.START
    assert len([m for m in there.post.messages if m.audience is Audience.OWNERS]) == 1


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda there: setattr(there.depot.things["churn"], "tags", {"owner": "sam@example.com"}), id="handed over"),
        pytest.param(lambda there: setattr(there, "policy", policy(QUICK + HOURS.replace("21:00", "20:00"))), id="other hours"),
        pytest.param(lambda there: setattr(there.depot.things["churn"], "created", there.now), id="made anew"),
        pytest.param(lambda there: snoozed(there, "churn", HOUR), id="snoozed"),
    ],
)
def test_an_enrolment_is_void_and_replaced_a_week_later_after_it_was(what: Any):
    there = office()
    there.now += HOUR / 4
    what(there)
    there.now += DAY + 4 * HOUR
    assert only(there.sweep()).step.name is StepName.NONE
    there.now += 6 * DAY
    assert only(there.sweep()).step.name is StepName.WARN
    assert there.depot.log == []


def test_a_notice_that_was_not_repeated_for_two_weeks_lapses():
    there = due("churn")
    there.now += 14 * DAY + HOUR
    assert only(there.sweep()).step.name is StepName.WARN
    assert there.depot.log == []


def test_a_reminder_keeps_a_notice_from_lapsing():
    there = due("churn")
    there.now += 10 * DAY
    there.sweep(Mode.ANNOUNCE)
    there.now += 10 * DAY
    assert only(there.sweep()).step.name is StepName.STOP


def test_a_lowered_mode_neither_mails_nor_writes_about_what_was_announced():
    there = due("churn")
    there.now += 5 * DAY
    before = there.memory("churn")
    there.sweep(Mode.NOTIFY)
    assert [m for m in there.post.messages if m.audience is Audience.OWNERS] == []
    after = there.memory("churn")
    assert (after.announced_action, after.act_not_before, after.warned_at) == (
        before.announced_action,
        before.act_not_before,
        before.warned_at,
    )
    assert only(there.sweep()).step.name is StepName.STOP


def test_leases_of_all_targets_are_prolonged_while_one_is_acted_on():
    there = Enforcer(ledger=Frail(), regions=("us-east-1", "eu-west-1"))
    there.policy = policy(QUICK)
    for index in range(4):
        there.depot.add(f"thing-{index}")
    there.depot.add("elsewhere", region="eu-west-1")
    there.sweep()
    there.now += 3 * DAY
    free: list[bool] = []

    def meanwhile(call: str, name: str) -> None:
        if call == "carry":
            there.now += timedelta(minutes=8)
            far = replace(TARGET, region="eu-west-1")
            free.append(there.ledger.take_lease(far, "another", there.now, timedelta(seconds=1)))

    there.depot.meanwhile = meanwhile
    results = {f.outcome.result for f in there.sweep().findings}
    assert (free, results) == ([False] * 5, {Result.DONE})
