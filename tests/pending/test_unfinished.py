"""What earlier runs did and didn't get to report: reported once to the owner at that time, and never a notice to a new owner."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from fakes.builders import DAY, NOW, TARGET
from fakes.fake_cloud import ACTS, DENIED, FakeSession
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.memory_ledger import InMemoryLedger
from fakes.records import an_act
from reaper.acting.contract import Manifest, Permit, done
from reaper.finding import Outcome
from reaper.model import Resource, Result, StepName
from reaper.notices.message import Audience, Message
from reaper.pending import unfinished
from reaper.record import Record


def in_parts(yard: FakeSession, one: Resource, manifest: Manifest, permit: Permit) -> Outcome:
    """The first action leaves a second one."""
    with permit():
        thing, first = yard.cloud.thing("carry", one.name), not yard.cloud.log
        yard.cloud.log.append((manifest.action, one.name, yard.cloud.clock()))
        thing.changed = yard.cloud.clock()
    return done("it is scaling in", "1 of 2 variants" if first else None)


def unreported(deployment: FakeDeployment, **fields: Any) -> None:
    """One thing that was acted on while no mail went out."""
    deployment.cloud.add("churn", **fields)
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.is_closed = True
    deployment.sweep()
    deployment.channel.is_closed = False
    deployment.channel.messages.clear()


def readers(deployment: FakeDeployment) -> list[str]:
    return [m.to for m in deployment.channel.messages if m.audience is Audience.OWNERS]


def test_a_late_mail_to_an_earlier_owner_is_no_notice_to_the_new_one():
    deployment = FakeDeployment(acts=replace(ACTS, perform=in_parts))
    unreported(deployment, tags={"reaper:owner": "ann@example.com"})
    deployment.cloud.things["churn"].tags = {"reaper:owner": "bob@example.com"}
    deployment.sweep_after(hours=6)
    assert readers(deployment) == ["ann@example.com"]
    while len(deployment.cloud.log) == 1:
        before = readers(deployment)
        deployment.sweep_after(hours=6)
    assert before == ["ann@example.com", "bob@example.com"]


def test_an_unreported_stop_is_reported_if_its_rule_has_hours_by_now():
    deployment = FakeDeployment()
    unreported(deployment, tags={})
    deployment.policy = policy(POLICY + "rules: [{name: office, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]\n")
    deployment.sweep_after(hours=6)
    assert readers(deployment) == ["ml-admins@example.com"]


def test_an_open_action_of_what_is_not_listed_is_closed_and_untold():
    ledger, host = InMemoryLedger(), "arn:aws:sagemaker:us-east-1:123456789012:endpoint/host"
    ledger.write_record(host, Record(act=an_act(StepName.DELETE, NOW - DAY, "r0", id=host)), 0, NOW)
    settled = unfinished.settle_target(TARGET, {}, ledger.recall_target(TARGET, NOW), ledger, "run-9", NOW)
    assert ([each.act.id for each in settled.unreported], settled.closed, settled.is_finished) == (
        [host],
        settled.unreported,
        False,
    )
    assert ledger.record(host, NOW).act.result is Result.FAILED


def test_an_action_of_the_run_itself_stays_open():
    ledger, id_ = InMemoryLedger(), "arn:aws:sagemaker:us-east-1:123456789012:endpoint/e"
    ledger.write_record(id_, Record(act=an_act(StepName.STOP, NOW, "run-9", id=id_)), 0, NOW)
    settled = unfinished.settle_target(TARGET, {}, ledger.recall_target(TARGET, NOW), ledger, "run-9", NOW)
    assert (settled.unreported, settled.closed, settled.is_finished) == ((), (), False)
    assert ledger.record(id_, NOW).act.result is None


def test_a_finished_action_is_reported_if_the_target_is_unreadable_now():
    deployment = FakeDeployment()
    unreported(deployment, tags={})

    def denied(call: str, name: str) -> None:
        if call == "list":
            raise DENIED

    deployment.cloud.fail_on = denied
    deployment.sweep_after(hours=6)
    assert readers(deployment) == ["ml-admins@example.com"]
    deployment.sweep_after(hours=6)
    assert len(readers(deployment)) == 1


def test_a_run_without_its_lease_sends_nothing_more():
    deployment = FakeDeployment()
    unreported(deployment, tags={})
    for name in "ab":
        deployment.cloud.add(name, tags={"reaper:owner": f"{name}@example.com"})

    def taken_over(message: Message) -> None:
        deployment.now += timedelta(minutes=16)
        deployment.ledger.take_lease(TARGET, "another run", deployment.now, timedelta(hours=1))

    deployment.channel.on_message = taken_over
    deployment.sweep_after(hours=6)
    assert readers(deployment) == ["a@example.com"]
