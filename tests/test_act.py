"""Phase 3: only under a lease and of its own version, one after the other, with the writes around each action in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from reaper.act import act
from reaper.decide import decide
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.handover import Acted, Decided
from reaper.ledger.ledger import RunLeases
from reaper.limits import holds
from reaper.model import Mode, Result
from reaper.observe import observe


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def deployment() -> FakeDeployment:
    """One resource whose stop is due."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def decided_run(deployment: FakeDeployment) -> Decided:
    opened = deployment.open_run()
    return decide([observe(opened.run, next(iter(opened.observe)), opened.run.started_at)], opened.decide)


def acted(deployment: FakeDeployment, decided: Decided) -> Acted:
    leases = RunLeases(
        ledger=deployment.ledger, run_id=decided.run.id, clock=lambda: deployment.now, renewed_at=deployment.now, targets={TARGET}
    )
    return act(decided.for_target(TARGET), deployment.open_act(TARGET, leases))


def outcome(deployment: FakeDeployment, decided: Decided) -> Outcome:
    return acted(deployment, decided).outcomes[deployment.cloud.id("churn")]


def test_what_is_due_is_carried_out(deployment: FakeDeployment):
    result = acted(deployment, decided_run(deployment))
    assert result.outcomes[deployment.cloud.id("churn")].result is Result.DONE
    assert [name for _, name, _ in deployment.cloud.log] == ["churn"]
    assert result.calls["sagemaker-endpoint"]["sagemaker:DescribeEndpoint"] == 3, (
        "the first look, the last one, and one before the call"
    )


def test_without_a_lease_from_deciding_every_action_is_refused(deployment: FakeDeployment):
    refused = outcome(deployment, replace(decided_run(deployment), leased=()))
    assert (refused.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "no lease" in (refused.because or "")


def test_a_policy_that_changed_since_the_run_began_refuses_every_action(deployment: FakeDeployment):
    decided = decided_run(deployment)
    opened = deployment.open_act
    deployment.open_act = lambda *given: replace(opened(*given), policy_sha256="f" * 64)  # type: ignore[method-assign]
    refused = outcome(deployment, decided)
    assert (refused.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "the policy has changed" in (refused.because or "")


def test_without_a_lease_at_the_time_of_the_action_it_is_refused(deployment: FakeDeployment):
    decided = decided_run(deployment)
    deployment.now += HOUR
    assert deployment.ledger.take_lease(TARGET, "another run", deployment.now, HOUR)
    refused = outcome(deployment, decided)
    assert (refused.result, refused.because, deployment.cloud.log) == (
        Result.REFUSED,
        "another sweep has taken over this target",
        [],
    )


def test_what_another_version_decided_is_refused(deployment: FakeDeployment):
    decided = decided_run(deployment)
    refused = outcome(deployment, replace(decided, run=replace(decided.run, version="0.0.1")))
    assert (refused.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "version 0.0.1 decided it" in (refused.because or "")


def test_a_second_act_of_the_same_run_makes_no_second_call(deployment: FakeDeployment):
    decided = decided_run(deployment)
    acted(deployment, decided)
    again = outcome(deployment, decided)
    assert (again.result, again.begun, len(deployment.cloud.log)) == (Result.DONE, True, 1)


def test_an_act_that_died_after_its_call_is_not_refused(deployment: FakeDeployment):
    """Its repeated task finds the resource changed, by its own call."""
    decided = decided_run(deployment)

    def die(call: str, name: str) -> None:
        if call == "carried":
            raise Killed

    deployment.cloud.fail_on = die
    with pytest.raises(Killed):
        acted(deployment, decided)
    deployment.cloud.fail_on = lambda call, name: None
    assert (outcome(deployment, decided).result, len(deployment.cloud.log)) == (Result.PLANNED, 1)


def test_an_intent_that_cannot_be_looked_for_allows_no_call(deployment: FakeDeployment):
    decided = decided_run(deployment)
    calls = iter(range(99))

    def fail_first(call: str, id_: str) -> None:
        if call == "recall" and next(calls) == 0:
            raise CloudError(Reason.UNREACHABLE, "dynamodb:BatchGetItem", "no answer")

    assert isinstance(deployment.ledger, FailingLedger)
    deployment.ledger.fail_on = fail_first
    refused = outcome(deployment, decided)
    assert (refused.result, deployment.cloud.log) == (Result.REFUSED, [])


def test_the_writes_around_an_action_come_in_their_order(deployment: FakeDeployment):
    decided = decided_run(deployment)
    order: list[str] = []
    assert isinstance(deployment.ledger, FailingLedger)
    deployment.ledger.fail_on = lambda call, id_: order.append(call) if call not in {"lease", "history"} else None
    deployment.store.fail_on = lambda call, name: order.append("manifest")
    deployment.cloud.before_permit = lambda: order.append("ask")
    deployment.cloud.fail_on = lambda call, name: order.append(call) if call in {"look", "carry", "carried"} else None
    acted(deployment, decided)
    assert order == [
        "row",
        "look",
        "recall",
        "row",
        "look",
        "write row",
        "note",
        "noted",
        "manifest",
        "remember",
        "remembered",
        "ask",
        "look",
        "recall",
        "row",
        "carry",
        "carried",
        "remember",
        "remembered",
        "note",
        "noted",
    ]


def test_one_action_that_fails_does_not_stop_the_next(deployment: FakeDeployment):
    deployment.cloud.add("other", instance="ml.t3.medium")
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 3 * DAY
    decided = decided_run(deployment)

    def fail(call: str, name: str) -> None:
        if (call, name) == ("record", "churn"):
            raise ValueError("an odd reply")

    deployment.cloud.fail_on = fail
    result = acted(deployment, decided)
    results = {id_.rpartition("/")[2]: outcome.result for id_, outcome in result.outcomes.items()}
    assert results == {"churn": Result.REFUSED, "other": Result.DONE}


# --- max_acts, whatever was decided


def many_due() -> FakeDeployment:
    """Five resources whose stop is due, where decide let all of them pass."""
    deployment = FakeDeployment(ledger=FailingLedger())
    for index in range(5):
        deployment.cloud.add(f"idle-{index}")
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def limited_outcomes(deployment: FakeDeployment, decided: Decided) -> list[Result]:
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 2"))
    return sorted(outcome.result for outcome in acted(deployment, decided).outcomes.values())


def test_acting_stops_at_max_acts_whatever_was_decided():
    deployment = many_due()
    decided = decided_run(deployment)
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 2"))
    outcomes = acted(deployment, decided).outcomes.values()
    assert (len(deployment.cloud.log), sorted(o.result for o in outcomes)) == (2, [Result.DONE] * 2 + [Result.REFUSED] * 3)
    why = "3 actions in account 123456789012 (1 due, 2 in the last 22 hours) exceed max_acts: 2"
    because = f"{why}; the next run decides again"
    assert {o.because for o in outcomes if o.result is Result.REFUSED} == {because}


def test_released_actions_do_not_count_toward_max_acts_in_acting():
    deployment = many_due()
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    assert limited_outcomes(deployment, decided_run(deployment)) == [Result.DONE] * 5


def test_what_cannot_be_counted_is_not_carried_out():
    deployment = many_due()
    decided, writes, write_row = decided_run(deployment), iter(range(99)), deployment.ledger.write_row

    def first_write_fails(name: str, *given: Any) -> bool:
        if name.startswith("acted") and next(writes) == 0:
            raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "still throttled")
        return write_row(name, *given)

    deployment.ledger.write_row = first_write_fails  # type: ignore[method-assign]
    outcomes = acted(deployment, decided).outcomes.values()
    assert sorted(o.result for o in outcomes) == [Result.DONE] * 4 + [Result.REFUSED]
    assert [o.because for o in outcomes if o.result is Result.REFUSED and "couldn't be counted" in (o.because or "")]


def test_a_repeated_task_counts_what_it_began_before():
    deployment = many_due()
    decided = decided_run(deployment)
    limited_outcomes(deployment, decided)
    limited_outcomes(deployment, decided)
    assert len(deployment.cloud.log) == 2
