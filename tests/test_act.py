"""Phase 3: only under a lease and of its own version, one after the other, with the writes around each action in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import Frail
from fakes.fake_deployment import POLICY, Enforcer, policy
from reaper.act import act
from reaper.decide import decide
from reaper.handover import Acted, Decided
from reaper.ledger.lease import RunLeases
from reaper.model import Memory, Mode, Outcome, Result
from reaper.observe import observe


@pytest.fixture
def there() -> Enforcer:
    """One resource whose stop is due."""
    deployment = Enforcer(ledger=Frail())
    deployment.depot.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def decided_run(there: Enforcer) -> Decided:
    opened = there.open_run()
    return decide([observe(opened.run, opened.observe, opened.run.started_at)], opened.decide)


def acted(there: Enforcer, decided: Decided) -> Acted:
    leases = RunLeases(
        ledger=there.ledger, run_id=decided.run.id, clock=lambda: there.now, renewed_at=there.now, targets={TARGET}
    )
    return act(decided.for_target(TARGET), there.open_act(TARGET, leases))


def outcome(there: Enforcer, decided: Decided) -> Outcome:
    return acted(there, decided).outcomes[there.depot.id("churn")]


def test_what_is_due_is_carried_out(there: Enforcer):
    done = acted(there, decided_run(there))
    assert done.outcomes[there.depot.id("churn")].result is Result.DONE
    assert [name for _, name, _ in there.depot.log] == ["churn"]
    assert done.calls[0].calls["sagemaker:DescribeEndpoint"] == 1


def test_without_a_lease_from_deciding_every_action_is_refused(there: Enforcer):
    refused = outcome(there, replace(decided_run(there), leased=()))
    assert (refused.result, there.depot.log) == (Result.REFUSED, [])
    assert "no lease" in (refused.because or "")


def test_without_a_lease_at_the_time_of_the_action_it_is_refused(there: Enforcer):
    decided = decided_run(there)
    there.now += HOUR
    assert there.ledger.take_lease(TARGET, "another run", there.now, HOUR)
    refused = outcome(there, decided)
    assert (refused.result, refused.because, there.depot.log) == (
        Result.REFUSED,
        "another sweep has taken over this target",
        [],
    )


def test_what_another_version_decided_is_refused(there: Enforcer):
    decided = decided_run(there)
    refused = outcome(there, replace(decided, run=replace(decided.run, version="0.0.1")))
    assert (refused.result, there.depot.log) == (Result.REFUSED, [])
    assert "version 0.0.1 decided it" in (refused.because or "")


def test_a_second_act_of_the_same_run_makes_no_second_call(there: Enforcer):
    decided = decided_run(there)
    acted(there, decided)
    again = outcome(there, decided)
    assert (again.already_done or again.result is Result.REFUSED, len(there.depot.log)) == (True, 1)


def test_the_writes_around_an_action_come_in_their_order(there: Enforcer):
    decided = decided_run(there)
    order: list[str] = []
    assert isinstance(there.ledger, Frail)
    there.ledger.blunder = lambda call, id_: order.append(call) if call not in {"lease", "history"} else None
    there.store.blunder = lambda call, name: order.append("manifest")
    there.depot.asking = lambda: order.append("ask")
    there.depot.blunder = lambda call, name: order.append(call) if call in {"look", "carry", "carried"} else None
    acted(there, decided)
    assert order == [
        "look",
        "recall",
        "manifest",
        "begin",
        "began",
        "remember",
        "remembered",
        "ask",
        "recall",
        "carry",
        "carried",
        "recall",
        "remember",
        "remembered",
        "note",
        "noted",
    ]


def test_one_action_that_fails_does_not_stop_the_next(there: Enforcer):
    there.depot.add("other", instance="ml.t3.medium")
    there.sweep(Mode.ANNOUNCE)
    there.now += 3 * DAY
    decided = decided_run(there)

    def fail(call: str, name: str) -> None:
        if (call, name) == ("record", "churn"):
            raise ValueError("an odd reply")

    there.depot.blunder = fail
    done = acted(there, decided)
    results = {id_.rpartition("/")[2]: outcome.result for id_, outcome in done.outcomes.items()}
    assert results == {"churn": Result.REFUSED, "other": Result.DONE}


def test_what_went_with_its_host_leaves_a_trace_before_any_mail():
    there = Enforcer()
    there.policy = policy(POLICY.replace("action: stop", "action: delete"))
    there.depot.add("host")
    there.depot.add("guest", host="host", barred="left to its host")
    there.sweep()
    there.now += 3 * DAY
    done = acted(there, decided_run(there))
    guest = there.depot.id("guest")
    assert done.outcomes[guest].host_id == there.depot.id("host")
    assert guest in {hint.id for hint in there.ledger.unfinished(TARGET, there.now)}
    assert [entry.what for entry in there.ledger.history(guest)][-1] == "went"
    assert there.memory("guest") != Memory()
