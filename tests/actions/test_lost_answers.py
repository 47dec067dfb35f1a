"""Answers that got lost: what was carried out all the same is known, told and can be undone, and what was not is never taken for done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.failing_ledger import Frail
from fakes.fake_deployment import POLICY, Enforcer, only, policy
from reaper.actions import restore
from reaper.errors import CloudError, Reason
from reaper.model import Result, StepName
from reaper.notices.message import Audience


def due(action: str = "stop") -> Enforcer:
    """One thing whose owner was told three days ago, so that the next sweep acts on it."""
    there = Enforcer(ledger=Frail())
    there.policy = policy(POLICY.replace("action: stop", f"action: {action}"))
    there.depot.add("churn", tags={"team": "risk"})
    there.sweep()
    there.now += 3 * DAY
    there.post.messages.clear()
    return there


def failing(there: Enforcer, at: str, trouble: Reason, retried: bool) -> None:
    """The call, or its answer (`carried`), fails like that."""

    def blunder(call: str, name: str) -> None:
        if call == at:
            raise CloudError(trouble, "sagemaker:UpdateEndpoint", "no", retried=retried)

    there.depot.blunder = blunder


def mails(there: Enforcer) -> list[str]:
    """What owners were sent."""
    return [m.text for m in there.post.messages if m.audience is Audience.OWNERS]


@pytest.mark.parametrize(
    ("action", "trouble"),
    [
        pytest.param("stop", Reason.REFUSED, id="in-progress, said the second try to stop it"),
        pytest.param("stop", Reason.THROTTLED, id="throttled on the second try to stop it"),
        pytest.param("stop", Reason.UNREACHABLE, id="nothing answered the stop"),
        pytest.param("delete", Reason.GONE, id="could not find it, said the second try to delete it"),
        pytest.param("delete", Reason.REFUSED, id="being deleted already, said the second try"),
    ],
)
def test_what_was_carried_out_although_the_answer_says_no_is_done_and_can_be_undone(action, trouble):
    there = due(action)
    failing(there, "carried", trouble, retried=True)
    found = only(there.sweep())
    assert (found.outcome.result, found.outcome.begun) == (Result.DONE, True)
    assert "reply to that got lost" in mails(there)[0]
    there.depot.blunder = lambda call, name: None
    assert (there.memory("churn").last_action, there.memory("churn").last_action_result) == (StepName(action), Result.DONE)
    assert restore.restore_resource(there.depot.id("churn"), there.bench()).error is None
    assert there.depot.things["churn"].tags == {"team": "risk"}


@pytest.mark.parametrize("trouble", [Reason.REFUSED, Reason.THROTTLED, Reason.UNREACHABLE, Reason.GONE, Reason.UNREADABLE])
def test_a_refusal_of_the_second_try_leaves_the_intent_and_says_that_it_is_not_known(trouble):
    there = due()
    failing(there, "carry", trouble, retried=True)
    found = only(there.sweep())
    assert (found.outcome.result, found.outcome.begun) == (Result.FAILED, True)
    memory = there.memory("churn")
    assert (memory.last_action, memory.last_action_result, memory.warned_at) == (StepName.STOP, Result.FAILED, None)
    assert memory.manifest_address in there.store.texts


@pytest.mark.parametrize("trouble", [Reason.REFUSED, Reason.THROTTLED, Reason.DENIED])
def test_a_refusal_of_the_only_try_takes_the_intent_back_and_keeps_the_notice(trouble):
    there = due()
    before = there.memory("churn").warned_at
    failing(there, "carry", trouble, retried=False)
    assert only(there.sweep()).outcome.begun is False
    assert (there.memory("churn").last_action, there.memory("churn").warned_at) == (None, before)
    there.depot.blunder = lambda call, name: None
    there.now += HOUR
    assert only(there.sweep()).outcome.result is Result.DONE


def once(there: Enforcer, name: str, answer: Callable[[Any], Any]) -> None:
    """The ledger's next intent is written, and then `answer` makes something else of the reply."""
    real = getattr(there.ledger, name)

    def lost(*given: Any, **named: Any) -> Any:
        written = real(*given, **named)
        if name != "remember" or given[1].last_action_run:
            setattr(there.ledger, name, real)
            return answer(written)
        return written

    setattr(there.ledger, name, lost)


def unanswered(written: Any) -> Any:
    raise CloudError(Reason.UNREACHABLE, "dynamodb:UpdateItem", "no answer")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        pytest.param("add_unfinished", unanswered, id="of the hint"),
        pytest.param("remember", unanswered, id="of the intent"),
        pytest.param("remember", lambda written: False, id="of the intent, whose second try lost the race against the first"),
    ],
)
def test_an_intent_whose_answer_got_lost_is_taken_back_and_the_action_comes_later(name, answer):
    there = due()
    before = there.memory("churn").warned_at
    once(there, name, answer)
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert (there.memory("churn").last_action, there.memory("churn").warned_at) == (None, before)
    assert there.ledger.unfinished(found.case.resource.target, there.now) == []
    there.now += HOUR
    assert only(there.sweep()).outcome.result is Result.DONE
    assert not [text for text in mails(there) if "isn't known" in text]


def test_a_lease_that_cannot_be_prolonged_before_the_call_is_no_call():
    there = due()
    real = there.ledger.take_lease

    def lease(*given: Any) -> bool:
        if there.memory("churn").last_action_run:
            raise CloudError(Reason.UNREACHABLE, "dynamodb:PutItem", "no answer")
        return real(*given)

    there.ledger.take_lease = lease  # type: ignore[method-assign]
    found = only(there.sweep())
    assert (found.outcome.result, there.depot.log) == (Result.REFUSED, [])
    assert there.memory("churn").last_action is None


def test_what_fails_before_leave_was_asked_for_was_surely_not_made():
    there = due()

    def carry(*given: Any) -> Any:
        raise CloudError(Reason.UNREACHABLE, "sagemaker:DescribeEndpoint", "no answer")

    there.acts = replace(there.acts, perform=carry)
    found = only(there.sweep())
    assert (found.outcome.result, found.outcome.begun) == (Result.FAILED, False)
    assert there.memory("churn").last_action is None
