"""The look before an action ends with the resource, and so does the one before each call: what changes between any two of them ends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY
from fakes.fake_cloud import FakeResource
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy
from reaper.errors import CloudError, Reason
from reaper.model import Result
from reaper.record import Record

CHANGES: dict[str, Callable[[FakeDeployment, FakeResource], Any]] = {
    "a keep tag": lambda deployment, thing: setattr(thing, "tags", {"reaper:keep": "true"}),
    "any tag": lambda deployment, thing: setattr(thing, "tags", {"note": "mine"}),
    "unreadable tags": lambda deployment, thing: setattr(thing, "tags", None),
    "another status": lambda deployment, thing: setattr(thing, "status", "Updating"),
    "another size": lambda deployment, thing: setattr(thing, "instance", "ml.g5.2xlarge"),
    "a change": lambda deployment, thing: setattr(thing, "changed", deployment.now),
    "made again": lambda deployment, thing: setattr(thing, "created", deployment.now),
    "stopped by hand": lambda deployment, thing: setattr(thing, "running_since", None),
}
MOMENTS = ("observe", "record", "write", "begun", "permitted")
"""After the first look: with the metrics, with the undo state, with the manifest, with the intent, and with the permit."""


def due(action: str = "stop", **fields: Any) -> FakeDeployment:
    deployment = FakeDeployment(policy=policy(POLICY.replace("action: stop", f"action: {action}")))
    deployment.cloud.add("churn", tags={"owner": "lee@example.com"}, **fields)
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.channel.messages.clear()
    return deployment


def happening(deployment: FakeDeployment, moment: str, change: Callable[[], Any]) -> None:
    """The change comes once, at that moment of the action."""
    looked: list[str] = []

    def once(call: str, name: str) -> None:
        looked.extend([call] if call == "look" else [])
        if call == moment and looked and "changed" not in looked:
            looked.append("changed")
            change()

    def begun(id_: str, record: Record, *args: Any) -> bool:
        if record.act and record.act.result is None:
            once("begun", id_)
        return real(id_, record, *args)

    real = deployment.ledger.write_record
    deployment.ledger.write_record = begun  # type: ignore[method-assign]
    deployment.cloud.before_call = once
    deployment.store.fail_on = once
    deployment.cloud.before_permit = lambda: once("permitted", "")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_change_between_two_reads_ends_the_action(moment: str, change: str):
    deployment = due()
    happening(deployment, moment, lambda: CHANGES[change](deployment, deployment.cloud.things["churn"]))
    outcome = finding_of(deployment.sweep(), "churn").outcome
    assert (outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
    assert deployment.record("churn").act is None
    if moment in {"observe", "record"}:
        assert deployment.store.texts == {}, "the look ends with the resource, before anything is stored or written"


@pytest.mark.parametrize("change", ["a keep tag", "unreadable tags", "another size", "made again"])
def test_a_change_before_the_main_call_ends_the_action(change: str):
    deployment = due("delete", minimum=2)
    calls: list[str] = []

    def lowered(call: str, name: str) -> None:
        if call == "lowered":
            calls.append(call)
            CHANGES[change](deployment, deployment.cloud.things["churn"])

    deployment.cloud.fail_on = lowered
    outcome = finding_of(deployment.sweep(), "churn").outcome
    left = change == "made again"
    assert (outcome.result, outcome.begun) == (Result.FAILED if left else Result.REFUSED, True)
    assert (deployment.cloud.log, calls) == ([], ["lowered"])
    assert deployment.cloud.things["churn"].minimum == (0 if left else 2)


def test_a_throttled_action_is_tried_once_more_after_the_others():
    deployment = FakeDeployment()
    for name in ("churn", "other"):
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 3 * DAY
    tries: list[str] = []

    def throttled(call: str, name: str) -> None:
        if call == "carry":
            tries.append(name)
            if tries.count("churn") == len(tries):
                raise CloudError(Reason.THROTTLED, "sagemaker:UpdateEndpoint", "too many")

    deployment.cloud.fail_on = throttled
    report = deployment.sweep()
    assert tries == ["churn", "other", "churn"]
    assert finding_of(report, "churn").outcome.result is Result.DONE


def test_an_action_throttled_twice_waits_for_the_next_run():
    deployment = due()
    tries: list[str] = []

    def throttled(call: str, name: str) -> None:
        if call == "carry":
            tries.append(name)
            raise CloudError(Reason.THROTTLED, "sagemaker:UpdateEndpoint", "too many")

    deployment.cloud.fail_on = throttled
    before = deployment.record("churn").notice.warned_at
    assert finding_of(deployment.sweep(), "churn").outcome.result is Result.FAILED
    assert (tries, deployment.record("churn").notice.warned_at) == (["churn", "churn"], before)


def test_a_throttled_action_is_looked_at_again_before_its_second_try():
    deployment = due()

    def throttled(call: str, name: str) -> None:
        if call == "carry":
            deployment.cloud.things["churn"].uses.append(deployment.now)
            deployment.now += timedelta(minutes=1)
            raise CloudError(Reason.THROTTLED, "sagemaker:UpdateEndpoint", "too many")

    deployment.cloud.fail_on = throttled
    outcome = finding_of(deployment.sweep(), "churn").outcome
    assert (outcome.result, deployment.cloud.log) == (Result.REFUSED, [])
