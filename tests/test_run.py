"""The composition of the four phases: whole runs over the fake cloud, also with JSON at each joint."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, Enforcer, of, policy
from reaper import handover
from reaper.actions import hold_ledger
from reaper.handover import Acted, Decided, Observed
from reaper.model import Mode, Report, Result, StepName
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


def snooze(there: Enforcer, name: str) -> None:
    memory = there.memory(name)
    snoozed = replace(memory, snoozed_until=there.now + 30 * DAY, snoozed_at=there.now, snoozed_by="jo@example.com")
    assert there.ledger.remember(there.depot.id(name), snoozed, memory.version, there.now)


def eventful(there: Enforcer) -> list[Report]:
    """Two weeks with notices, a snooze, reminders, stops, deletes with guests, parts, holds, office hours and a failing channel."""
    there.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 2") + RULES)
    there.regions = ("us-east-1", "eu-west-1")
    there.depot.add("snoozed", tags={"owner": "jo@example.com"})
    there.depot.add("idle", tags={"owner": "jo@example.com"})
    there.depot.add("pair", variants=2)
    there.depot.add("busy", uses=[there.now])
    there.depot.add("west", region="eu-west-1")
    there.depot.add("hint", vague=True)
    there.depot.add("old-host")
    there.depot.add("old-guest", host="old-host", barred="left to its host")
    there.depot.add("office-box")
    there.depot.add("unreadable", tags=None)
    reports = [there.sweep(Mode.AUDIT), there.sweep(Mode.NOTIFY), there.sweep()]
    snooze(there, "snoozed")
    for day in range(14):
        there.post.shut = day in {6, 7, 8}
        if day == 5:
            hold_ledger.release_hold(there.ledger, "lee", there.now, timedelta(days=2))
        there.now += DAY if day % 3 else DAY - 13 * HOUR
        reports.append(there.sweep())
    return reports


def test_a_run_is_the_same_with_json_at_each_joint():
    plain, passed = Enforcer(), Enforcer(hand_over=through_json)
    for before, after in zip(eventful(plain), eventful(passed), strict=True):
        assert before == after
    assert plain.post.messages == passed.post.messages
    assert plain.depot.log == passed.depot.log
    assert {StepName.STOP, StepName.DELETE} <= {step for step, _, _ in plain.depot.log}


def test_the_eventful_weeks_have_every_step():
    reports = eventful(Enforcer())
    steps = {f.step.name for report in reports for f in report.findings}
    assert steps >= set(StepName) - {StepName.START}
    outcomes = [f.outcome for report in reports for f in report.findings]
    assert {o.result for o in outcomes} >= {Result.DONE, Result.FAILED, Result.PLANNED}
    assert any(o.host_id for o in outcomes)
    assert any(o.part_done for o in outcomes)


@pytest.mark.parametrize("mode", [Mode.AUDIT, Mode.NOTIFY, Mode.ANNOUNCE])
def test_below_enforce_no_act_crosses_a_joint(mode: Mode):
    crossed: list[type] = []

    def note(value: HandedOver) -> HandedOver:
        crossed.append(type(value))
        return value

    there = Enforcer(hand_over=note)
    there.depot.add("churn")
    there.sweep()
    there.now += 3 * DAY
    crossed.clear()
    there.sweep(mode)
    assert (crossed, there.depot.log) == ([Observed, Decided], [])


def test_an_audit_writes_nothing():
    there = Enforcer()
    there.depot.add("churn")
    writes: list[str] = []
    for name in ("remember", "write_row", "take_lease", "add_history", "record_statistics", "forget_before", "add_unfinished"):
        setattr(there.ledger, name, lambda *_, name=name: writes.append(name))
    there.sweep(Mode.AUDIT)
    assert (writes, there.post.messages) == ([], [])


def test_the_target_of_the_most_expensive_action_comes_first():
    there = Enforcer(regions=("eu-west-1", "us-east-1"))
    there.depot.add("cheap", region="eu-west-1", instance="ml.t3.medium")
    there.depot.add("expensive", instance="ml.p4d.24xlarge")
    there.sweep()
    there.later(days=3)
    assert [name for _, name, _ in there.depot.log] == ["expensive", "cheap"]


def test_the_leases_are_given_back_if_acting_breaks_off():
    there = Enforcer()
    there.depot.add("churn")
    there.sweep()
    there.now += 3 * DAY

    def broken(call: str, name: str) -> None:
        raise MemoryError(call) if call == "look" else KeyError

    there.depot.blunder = lambda call, name: broken(call, name) if call == "look" else None
    with pytest.raises(MemoryError):
        there.sweep()
    there.depot.blunder = lambda call, name: None
    assert of(there.sweep(), "churn").outcome.result is Result.DONE


def test_what_is_snoozed_between_decide_and_act_is_not_stopped():
    there = Enforcer()
    there.depot.add("churn")
    there.sweep()
    there.now += 3 * DAY

    def meanwhile(value: HandedOver) -> HandedOver:
        if isinstance(value, Decided):
            snooze(there, "churn")
        return value

    there.hand_over = meanwhile
    finding = of(there.sweep(), "churn")
    assert (finding.outcome.result, there.depot.log) == (Result.REFUSED, [])


def test_the_calls_of_acting_are_in_the_coverage():
    there = Enforcer()
    there.depot.add("churn")
    before = there.sweep().coverage[0].calls
    there.now += 3 * DAY + timedelta(minutes=1)
    after = there.sweep().coverage[0].calls
    assert after["sagemaker:DescribeEndpoint"] > before.get("sagemaker:DescribeEndpoint", 0)


def test_acted_is_what_crosses_for_each_target():
    crossed: list[Acted] = []

    def note(value: HandedOver) -> HandedOver:
        if isinstance(value, Acted):
            crossed.append(value)
        return value

    there = Enforcer(regions=("eu-west-1", "us-east-1"), hand_over=note)
    there.depot.add("west", region="eu-west-1")
    there.depot.add("east")
    there.sweep()
    there.later(days=3)
    assert {acted.target.region: list(acted.outcomes) for acted in crossed} == {
        "eu-west-1": [there.depot.id("west")],
        "us-east-1": [there.depot.id("east")],
    }
