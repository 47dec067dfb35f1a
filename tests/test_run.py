"""The composition of the four phases: whole runs over the fake cloud, also with JSON at each joint."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from reaper import handover
from reaper.finding import Report
from reaper.handover import Acted, Decided, Observed
from reaper.limits import holds
from reaper.model import Mode, Result, StepName
from reaper.record import Snooze
from reaper.run import HandedOver

RULES = """
rules:
  - name: office
    match: {name: "office-*"}
    hours: {on: "mon-fri 07:00-21:00", tz: UTC}
  - name: gone for good
    match: {name: "old-*"}
    action: delete
"""


def through_json(value: HandedOver) -> HandedOver:
    """The value as a workflow would pass it on."""
    text = handover.dump(value)
    if isinstance(value, Observed):
        return handover.load_observed(text)
    return handover.load_decided(text) if isinstance(value, Decided) else handover.load_acted(text)


def snooze(deployment: FakeDeployment, name: str) -> None:
    snooze = Snooze(until=deployment.now + 30 * DAY, at=deployment.now, by="jo@example.com")
    assert deployment.ledger.write_snooze(deployment.cloud.id(name), snooze, deployment.snooze(name).version, deployment.now)


def eventful(deployment: FakeDeployment) -> list[Report]:
    """Two weeks with notices, a snooze, reminders, stops, deletes, parts, holds, office hours and a failing channel."""
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 2") + RULES)
    deployment.regions = ("us-east-1", "eu-west-1")
    deployment.cloud.add("snoozed", tags={"owner": "jo@example.com"})
    deployment.cloud.add("idle", tags={"owner": "jo@example.com"})
    deployment.cloud.add("pair", variants=2)
    deployment.cloud.add("busy", uses=[deployment.now])
    deployment.cloud.add("west", region="eu-west-1")
    deployment.cloud.add("hint", without_heartbeat=True)
    deployment.cloud.add("old-host")
    deployment.cloud.add("guest", host="busy", blocked_because="adapters are on it")
    deployment.cloud.add("office-box")
    deployment.cloud.add("unreadable", tags=None)
    reports = [deployment.sweep(Mode.AUDIT), deployment.sweep(Mode.NOTIFY), deployment.sweep()]
    snooze(deployment, "snoozed")
    for day in range(14):
        deployment.channel.is_closed = day in {6, 7, 8}
        if day == 5:
            holds.release_actions(deployment.ledger, "lee", deployment.now, timedelta(days=2))
        deployment.now += DAY if day % 3 else DAY - 13 * HOUR
        reports.append(deployment.sweep())
    return reports


def test_a_run_is_the_same_with_json_at_each_joint():
    plain, passed = FakeDeployment(), FakeDeployment(hand_over=through_json)
    for before, after in zip(eventful(plain), eventful(passed), strict=True):
        assert before == after
    assert plain.channel.messages == passed.channel.messages
    assert plain.cloud.log == passed.cloud.log
    assert {StepName.STOP, StepName.DELETE} <= {step for step, _, _ in plain.cloud.log}


def test_the_eventful_weeks_have_every_step():
    reports = eventful(FakeDeployment())
    steps = {f.step.name for report in reports for f in report.findings}
    assert steps >= set(StepName) - {StepName.START}
    outcomes = [f.outcome for report in reports for f in report.findings]
    assert {o.result for o in outcomes} >= {Result.DONE, Result.FAILED, Result.PLANNED}
    assert any(o.part_done for o in outcomes)


@pytest.mark.parametrize("mode", [Mode.AUDIT, Mode.NOTIFY, Mode.ANNOUNCE])
def test_below_enforce_no_act_crosses_a_joint(mode: Mode):
    crossed: list[type] = []

    def note(value: HandedOver) -> HandedOver:
        crossed.append(type(value))
        return value

    deployment = FakeDeployment(hand_over=note)
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY
    crossed.clear()
    deployment.sweep(mode)
    assert (crossed, deployment.cloud.log) == ([Observed, Decided], [])


def test_an_audit_writes_nothing():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    writes: list[str] = []
    for name in ("remember", "write_row", "take_lease", "add_history", "record_statistics", "forget_before", "add_unfinished"):
        setattr(deployment.ledger, name, lambda *_, name=name: writes.append(name))
    deployment.sweep(Mode.AUDIT)
    assert (writes, deployment.channel.messages) == ([], [])


def test_the_target_of_the_most_expensive_action_comes_first():
    deployment = FakeDeployment(regions=("eu-west-1", "us-east-1"))
    deployment.cloud.add("cheap", region="eu-west-1", instance="ml.t3.medium")
    deployment.cloud.add("expensive", instance="ml.p4d.24xlarge")
    deployment.sweep()
    deployment.sweep_after(days=3)
    assert [name for _, name, _ in deployment.cloud.log] == ["expensive", "cheap"]


def test_the_leases_are_given_back_if_acting_breaks_off():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY

    def broken(call: str, name: str) -> None:
        raise MemoryError(call) if call == "look" else KeyError

    deployment.cloud.fail_on = lambda call, name: broken(call, name) if call == "look" else None
    with pytest.raises(MemoryError):
        deployment.sweep()
    deployment.cloud.fail_on = lambda call, name: None
    assert finding_of(deployment.sweep(), "churn").outcome.result is Result.DONE


def test_what_is_snoozed_between_decide_and_act_is_not_stopped():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY

    def before_call(value: HandedOver) -> HandedOver:
        if isinstance(value, Decided):
            snooze(deployment, "churn")
        return value

    deployment.hand_over = before_call
    finding = finding_of(deployment.sweep(), "churn")
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])


def test_the_calls_of_acting_are_in_the_coverage():
    deployment = FakeDeployment()
    deployment.cloud.add("churn")
    before = deployment.sweep().coverage[0].calls
    deployment.now += 3 * DAY + timedelta(minutes=1)
    after = deployment.sweep().coverage[0].calls
    assert after["sagemaker:DescribeEndpoint"] > before.get("sagemaker:DescribeEndpoint", 0)


def test_acted_is_what_crosses_for_each_target():
    crossed: list[Acted] = []

    def note(value: HandedOver) -> HandedOver:
        if isinstance(value, Acted):
            crossed.append(value)
        return value

    deployment = FakeDeployment(regions=("eu-west-1", "us-east-1"), hand_over=note)
    deployment.cloud.add("west", region="eu-west-1")
    deployment.cloud.add("east")
    deployment.sweep()
    deployment.sweep_after(days=3)
    assert {acted.target.region: list(acted.outcomes) for acted in crossed} == {
        "eu-west-1": [deployment.cloud.id("west")],
        "us-east-1": [deployment.cloud.id("east")],
    }
