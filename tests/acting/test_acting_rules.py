"""Each rule of acting alone, where nothing else would keep the action from being made: without the rule its test fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, only, policy
from fakes.records import a_record
from reaper.ledger import ledger
from reaper.ledger.ledger import update_record
from reaper.ledger.rows import Category
from reaper.model import Mode, Result, StepName
from reaper.notices.message import Audience
from reaper.record import Snooze

QUICK = POLICY.replace("idle_after: 24h", "idle_after: 4h")
HOURS = '\nrules: [{name: office, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'


def due(*names: str, action: str = "stop", **fields: Any) -> FakeDeployment:
    """Those resources, with notices sent three days ago, so that the next sweep acts on them."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.policy = policy(QUICK.replace("action: stop", f"action: {action}"))
    for name in names:
        deployment.cloud.add(name, **fields)
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    return deployment


def on_a_host() -> FakeDeployment:
    """What is due takes two calls, because it has a minimum, and lives on a host."""
    deployment = due("inner", minimum=2, host="host")
    deployment.cloud.add("host")
    return deployment


def snoozed(deployment: FakeDeployment, name: str, lasting: timedelta = DAY) -> None:
    """Its owner clicks on the link in a mail."""
    snooze = Snooze(until=deployment.now + lasting, at=deployment.now, by="lee@example.com")
    assert deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, deployment.snooze(name).version, deployment.now)


def at_first_call(deployment: FakeDeployment, what: Callable[[], None]) -> None:
    """That happens while the first call is on its way."""

    def before_call(call: str, name: str) -> None:
        if call == "lower":
            what()

    deployment.cloud.before_call = before_call


def disowned(deployment: FakeDeployment, name: str) -> None:
    """Its owner says that it isn't theirs."""
    snooze = Snooze(disowned_by="lee@example.com", disowned_at=deployment.now)
    assert deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, 0, deployment.now)


def unreadable_snooze(deployment: FakeDeployment, name: str) -> None:
    """A snooze of it that nobody can read."""
    snoozed(deployment, name)
    rows = deployment.ledger.memory_store.rows  # type: ignore[attr-defined]
    [key] = [key for key in rows if (key.category, key.name) == (Category.SNOOZE, deployment.cloud.id(name))]
    rows[key] = replace(rows[key], columns={"document": "{"})


@pytest.mark.parametrize("name", ["host", "inner"])
@pytest.mark.parametrize("say", [snoozed, disowned, unreadable_snooze])
def test_what_a_person_says_between_two_calls_ends_the_action(name: str, say: Callable[[FakeDeployment, str], None]):
    deployment = on_a_host()
    at_first_call(deployment, lambda: say(deployment, name))
    finding = finding_of(deployment.sweep(), "inner")
    assert (finding.outcome.result, finding.outcome.begun, deployment.cloud.log) == (Result.REFUSED, True, [])
    assert "interrupted" in str(finding.outcome.because)
    assert deployment.cloud.things["inner"].minimum == 2


def test_another_write_of_its_record_between_two_calls_ends_the_action():
    deployment = on_a_host()
    id_ = deployment.cloud.id("inner")
    change = partial(replace, seen_idle_at=deployment.now - HOUR)
    at_first_call(deployment, lambda: update_record(deployment.ledger, id_, change, deployment.now))
    assert finding_of(deployment.sweep(), "inner").outcome.result is Result.REFUSED
    assert (deployment.cloud.log, deployment.cloud.things["inner"].minimum) == ([], 2)


def test_a_row_that_cannot_be_read_between_two_calls_ends_the_action():
    deployment = on_a_host()
    assert deployment.ledger.write_record(deployment.cloud.id("host"), a_record(idle_since=deployment.now), 0, deployment.now)
    at_first_call(deployment, lambda: deployment.ledger.unreadable_ids.add(deployment.cloud.id("host")))  # type: ignore[attr-defined]
    assert finding_of(deployment.sweep(), "inner").outcome.result is Result.REFUSED
    assert deployment.cloud.log == []


def test_a_lease_that_is_lost_between_two_calls_ends_the_action():
    deployment = on_a_host()

    def taken() -> None:
        deployment.now += ledger.LEASE + HOUR / 60
        assert deployment.ledger.take_lease(TARGET, "another", deployment.now, ledger.LEASE)

    at_first_call(deployment, taken)
    assert finding_of(deployment.sweep(), "inner").outcome.begun
    assert deployment.cloud.log == []


def test_a_snooze_of_the_host_keeps_what_lives_in_it():
    deployment = due("host", "inner")
    deployment.cloud.things["inner"].host = "host"
    deployment.cloud.things["host"].blocked_because = "its alarm is being looked into"
    snoozed(deployment, "host")
    assert finding_of(deployment.sweep(), "inner").case.verdict.because.startswith("its host is snoozed until")
    assert deployment.cloud.log == []


@pytest.mark.parametrize("swept", [True, False], ids=["swept during the snooze", "not swept during the snooze"])
def test_a_snooze_of_the_host_answers_its_guests_notices(swept: bool):
    deployment = due("inner", host="host")
    deployment.cloud.add("host", blocked_because="its alarm is being looked into")
    snoozed(deployment, "host")
    if swept:
        deployment.now += HOUR
        deployment.sweep()
    deployment.now += 2 * DAY
    assert finding_of(deployment.sweep(), "inner").step.name is StepName.WARN
    assert deployment.cloud.log == []


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda deployment, thing: thing.uses.append(deployment.now), id="used"),
        pytest.param(lambda deployment, thing: setattr(thing, "changed", deployment.now), id="changed"),
        pytest.param(lambda deployment, thing: setattr(thing, "tags", {"owner": "sam@example.com"}), id="handed over"),
        pytest.param(lambda deployment, thing: snoozed(deployment, thing.name, HOUR), id="snoozed"),
        pytest.param(
            lambda deployment, thing: thing.metric_gaps.append((deployment.now, deployment.now + 2 * HOUR)),
            id="without metrics for two hours",
        ),
        pytest.param(lambda deployment, thing: setattr(thing, "created", deployment.now), id="made anew"),
    ],
)
def test_the_mail_about_a_part_is_void_after(what: Any):
    deployment = due("churn", variants=2)
    assert only(deployment.sweep()).outcome.part_done == "1 of 2 variants"
    deployment.now += DAY
    what(deployment, deployment.cloud.things["churn"])
    deployment.now += 2 * DAY
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert len(deployment.cloud.log) == 1


def test_the_mail_about_a_part_is_the_only_notice_for_the_rest():
    deployment = due("churn", variants=2)
    deployment.sweep()
    deployment.now += 3 * DAY - HOUR
    assert only(deployment.sweep()).step.name is StepName.NONE
    deployment.now += HOUR
    assert only(deployment.sweep()).outcome.result is Result.DONE
    assert deployment.cloud.things["churn"].running_since is None
    assert len([m for m in deployment.channel.messages if m.audience is Audience.OWNERS]) == 2


def test_a_later_notice_is_not_taken_for_the_mail_about_a_part():
    deployment = due("churn", variants=2)
    deployment.sweep()
    thing = deployment.cloud.things["churn"]
    thing.uses.append(deployment.now + HOUR)
    deployment.now += DAY
    assert only(deployment.sweep()).step.name is StepName.WARN
    thing.metric_gaps.append((deployment.now + HOUR, deployment.now + 3 * HOUR))
    deployment.now += 3 * DAY
    assert only(deployment.sweep()).step.name is StepName.WARN, "after a time without proof another notice is needed"
    assert len(deployment.cloud.log) == 1


def office(**fields: Any) -> FakeDeployment:
    """A resource whose owner got the enrolment notice on a Monday at 19:17, with an hour of grace."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.kind_name = STARTABLE
    deployment.policy = policy(QUICK.replace("grace: 3d", "grace: 1h") + HOURS)
    deployment.now += 2 * DAY + 9 * HOUR
    deployment.cloud.add("churn", **fields)
    assert only(deployment.sweep()).step.name is StepName.WARN
    return deployment


def test_an_enrolment_stays_valid_through_starts_and_use():
    deployment = office()
    for day in range(4):
        deployment.cloud.things["churn"].uses.append(deployment.now)
        deployment.now = deployment.now.replace(hour=22)
        assert (only(deployment.sweep()).outcome.result, deployment.cloud.things["churn"].running_since) == (Result.DONE, None), (
            day
        )
        deployment.now = (deployment.now + DAY).replace(hour=8)
        assert only(deployment.sweep()).step.name is StepName.START
    assert len([m for m in deployment.channel.messages if m.audience is Audience.OWNERS]) == 1


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(
            lambda deployment: setattr(deployment.cloud.things["churn"], "tags", {"owner": "sam@example.com"}), id="handed over"
        ),
        pytest.param(
            lambda deployment: setattr(deployment, "policy", policy(QUICK + HOURS.replace("21:00", "20:00"))), id="other hours"
        ),
        pytest.param(lambda deployment: setattr(deployment.cloud.things["churn"], "created", deployment.now), id="made anew"),
        pytest.param(lambda deployment: snoozed(deployment, "churn", HOUR), id="snoozed"),
    ],
)
def test_an_enrolment_is_void_and_replaced_a_week_later_after_it_was(what: Any):
    deployment = office()
    deployment.now += HOUR / 4
    what(deployment)
    deployment.now += DAY + 4 * HOUR
    assert only(deployment.sweep()).step.name is StepName.NONE
    deployment.now += 6 * DAY
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert deployment.cloud.log == []


def test_a_notice_that_was_not_repeated_for_two_weeks_lapses():
    deployment = due("churn")
    deployment.now += 14 * DAY + HOUR
    assert only(deployment.sweep()).step.name is StepName.WARN
    assert deployment.cloud.log == []


def test_a_reminder_keeps_a_notice_from_lapsing():
    deployment = due("churn")
    deployment.now += 10 * DAY
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 10 * DAY
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_a_lowered_mode_neither_mails_nor_writes_about_announced_actions():
    deployment = due("churn")
    deployment.now += 5 * DAY
    before = deployment.record("churn")
    deployment.sweep(Mode.NOTIFY)
    assert [m for m in deployment.channel.messages if m.audience is Audience.OWNERS] == []
    after = deployment.record("churn")
    assert (after.notice.action, after.notice.not_before, after.notice.warned_at) == (
        before.notice.action,
        before.notice.not_before,
        before.notice.warned_at,
    )
    assert only(deployment.sweep()).step.name is StepName.STOP


def test_leases_of_all_targets_are_prolonged_while_one_is_acted_on():
    deployment = FakeDeployment(ledger=FailingLedger(), regions=("us-east-1", "eu-west-1"))
    deployment.policy = policy(QUICK)
    for index in range(4):
        deployment.cloud.add(f"thing-{index}")
    deployment.cloud.add("elsewhere", region="eu-west-1")
    deployment.sweep()
    deployment.now += 3 * DAY
    free: list[bool] = []

    def before_call(call: str, name: str) -> None:
        if call == "carry":
            deployment.now += timedelta(minutes=8)
            far = replace(TARGET, region="eu-west-1")
            free.append(deployment.ledger.take_lease(far, "another", deployment.now, timedelta(seconds=1)))

    deployment.cloud.before_call = before_call
    results = {f.outcome.result for f in deployment.sweep().findings}
    assert (free, results) == ([False] * 5, {Result.DONE})
