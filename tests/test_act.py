"""Phase 3: only under a lease and of its own version, one after the other, with the writes around each action in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from reaper.act import act
from reaper.case import Outcome
from reaper.decide import decide
from reaper.handover import Acted, Decided
from reaper.ledger.lease import RunLeases
from reaper.model import Memory, Mode, Result
from reaper.observe import observe


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
    return decide([observe(opened.run, opened.observe, opened.run.started_at)], opened.decide)


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
    assert result.calls[0].calls["sagemaker:DescribeEndpoint"] == 1


def test_without_a_lease_from_deciding_every_action_is_refused(deployment: FakeDeployment):
    refused = outcome(deployment, replace(decided_run(deployment), leased=()))
    assert (refused.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert "no lease" in (refused.because or "")


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
    assert (again.already_done or again.result is Result.REFUSED, len(deployment.cloud.log)) == (True, 1)


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
        "manifest",
        "begin",
        "began",
        "remember",
        "remembered",
        "ask",
        "recall",
        "row",
        "carry",
        "carried",
        "recall",
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


def test_a_guest_of_a_stopped_host_is_recorded_before_any_mail():
    deployment = FakeDeployment()
    deployment.policy = policy(POLICY.replace("action: stop", "action: delete"))
    deployment.cloud.add("host")
    deployment.cloud.add("guest", host="host", blocked_because="left to its host")
    deployment.sweep()
    deployment.now += 3 * DAY
    result = acted(deployment, decided_run(deployment))
    guest = deployment.cloud.id("guest")
    assert result.outcomes[guest].host_id == deployment.cloud.id("host")
    assert guest in {hint.id for hint in deployment.ledger.unfinished(TARGET, deployment.now)}
    assert [entry.what for entry in deployment.ledger.history(guest)][-1] == "went"
    assert deployment.memory("guest") != Memory()
