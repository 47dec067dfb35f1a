"""Lost replies: what was carried out all the same is recorded, reported and can be undone; what was not never counts as done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import POLICY, FakeDeployment, only, policy
from reaper.acting import restore
from reaper.errors import CloudError, Reason
from reaper.model import Result, StepName
from reaper.notices.message import Audience


def due(action: str = "stop") -> FakeDeployment:
    """One resource whose owner was notified three days ago, so that the next sweep acts on it."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.policy = policy(POLICY.replace("action: stop", f"action: {action}"))
    deployment.cloud.add("churn", tags={"team": "risk"})
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    return deployment


def failing(deployment: FakeDeployment, at: str, trouble: Reason) -> None:
    """The call, or its answer (`carried`), fails like that."""

    def fail_on(call: str, name: str) -> None:
        if call == at:
            raise CloudError(trouble, "sagemaker:UpdateEndpoint", "no")

    deployment.cloud.fail_on = fail_on


def mails(deployment: FakeDeployment) -> list[str]:
    """What owners were sent."""
    return [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]


@pytest.mark.parametrize("trouble", [Reason.UNREACHABLE, Reason.UNREADABLE])
@pytest.mark.parametrize("action", ["stop", "delete"])
def test_an_action_that_worked_despite_an_error_can_be_undone(action, trouble):
    deployment = due(action)
    failing(deployment, "carried", trouble)
    finding = only(deployment.sweep())
    assert (finding.outcome.result, finding.outcome.begun) == (Result.DONE, True)
    assert "reply was lost" in mails(deployment)[0]
    deployment.cloud.fail_on = lambda call, name: None
    assert (deployment.record("churn").act.action, deployment.record("churn").act.result) == (
        StepName(action),
        Result.DONE,
    )
    assert restore.restore_resource(deployment.cloud.id("churn"), deployment.restore_context()).error is None
    assert deployment.cloud.things["churn"].tags == {"team": "risk"}


@pytest.mark.parametrize("trouble", [Reason.UNREACHABLE, Reason.UNREADABLE])
def test_a_lost_reply_leaves_the_intent_with_an_unknown_result(trouble):
    deployment = due()
    failing(deployment, "carry", trouble)
    finding = only(deployment.sweep())
    assert (finding.outcome.result, finding.outcome.begun) == (Result.FAILED, True)
    record = deployment.record("churn")
    assert (record.act.action, record.act.result, record.notice) == (StepName.STOP, Result.FAILED, None)
    assert record.act.manifest.address in deployment.store.texts


@pytest.mark.parametrize("trouble", [Reason.REFUSED, Reason.THROTTLED, Reason.DENIED])
def test_a_refused_call_withdraws_the_intent_and_keeps_the_notice(trouble):
    deployment = due()
    before = deployment.record("churn").notice.warned_at
    failing(deployment, "carry", trouble)
    assert only(deployment.sweep()).outcome.begun is False
    assert (deployment.record("churn").act, deployment.record("churn").notice.warned_at) == (None, before)
    deployment.cloud.fail_on = lambda call, name: None
    deployment.now += HOUR
    assert only(deployment.sweep()).outcome.result is Result.DONE


def once(deployment: FakeDeployment, name: str, answer: Callable[[Any], Any]) -> None:
    """The ledger's next intent is written, and then `answer` makes something else of the reply."""
    real = getattr(deployment.ledger, name)

    def lost(*args: Any, **named: Any) -> Any:
        written = real(*args, **named)
        if args[1].act:
            setattr(deployment.ledger, name, real)
            return answer(written)
        return written

    setattr(deployment.ledger, name, lost)


def unanswered(written: Any) -> Any:
    raise CloudError(Reason.UNREACHABLE, "dynamodb:UpdateItem", "no answer")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        pytest.param("write_record", unanswered, id="of the intent"),
        pytest.param("write_record", lambda written: False, id="of the intent, whose second try lost the race against the first"),
    ],
)
def test_an_intent_with_a_lost_reply_is_withdrawn_and_retried_later(name, answer):
    deployment = due()
    before = deployment.record("churn").notice.warned_at
    once(deployment, name, answer)
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert (deployment.record("churn").act, deployment.record("churn").notice.warned_at) == (None, before)
    deployment.now += HOUR
    assert only(deployment.sweep()).outcome.result is Result.DONE
    assert not [text for text in mails(deployment) if "isn't known" in text]


def test_no_call_is_made_if_the_lease_cannot_be_prolonged():
    deployment = due()
    real = deployment.ledger.take_lease

    def lease(*args: Any) -> bool:
        if deployment.record("churn").act:
            raise CloudError(Reason.UNREACHABLE, "dynamodb:PutItem", "no answer")
        return real(*args)

    deployment.ledger.take_lease = lease  # type: ignore[method-assign]
    finding = only(deployment.sweep())
    assert (finding.outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert deployment.record("churn").act is None


def test_a_failure_before_any_permit_changed_nothing():
    deployment = due()

    def carry(*args: Any) -> Any:
        raise CloudError(Reason.UNREACHABLE, "sagemaker:DescribeEndpoint", "no answer")

    deployment.acts = replace(deployment.acts, perform=carry)
    finding = only(deployment.sweep())
    assert (finding.outcome.result, finding.outcome.begun) == (Result.FAILED, False)
    assert deployment.record("churn").act is None
