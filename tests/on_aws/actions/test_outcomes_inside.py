"""What an action ends inside a host is an action of its own: its owner is told, even if the rest of the host's action never comes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from on_aws.actions import deployment as wired
from on_aws.actions.deployment import COMPONENT, ENDPOINT, AwsDeployment, announced, finding, later, on_call
from on_aws.actions.test_half_done import dying_after
from on_aws.conftest import DAY
from reaper.errors import CloudError, Reason
from reaper.model import Memory, Result, StepName
from reaper.notices.message import Audience
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import carried_out, cut, denied, error, on
from reaper_sandbox.aws.server import Server

OPERATIONS = {"delete": "DeleteInferenceComponent", "stop": "UpdateInferenceComponentRuntimeConfig"}


@pytest.fixture(params=["delete", "stop"])
def action(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def together(account: Account, server: Server, action: str) -> AwsDeployment:
    """A host of two components right before the sweep that acts. They have one owner, so that the host's notice counts for all."""
    wired.host(account, "one", "two")
    return announced(server, action, (ENDPOINT,))


def rows(deployment: AwsDeployment, account: Account) -> dict[str, Memory]:
    """The ledger's rows of the components."""
    ids = {name: account.arn(f"inference-component/{name}") for name in ("one", "two")}
    found = deployment.ledger.recall(ids.values(), deployment.now)
    return {name: found.get(id_, Memory()) for name, id_ in ids.items()}


def untold(deployment: AwsDeployment) -> set[str]:
    """The names of the resources whose hints remain."""
    [target] = deployment.ledger.unfinished_targets(deployment.now) or [None]
    return {hint.name for hint in deployment.ledger.unfinished(target, deployment.now)} if target else set()


def test_each_component_has_an_intent_and_a_hint_before_its_call(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    before: list[tuple[Memory, set[str]]] = []
    on_call(
        server,
        lambda call: call.operation == OPERATIONS[action],
        lambda: before.append((rows(deployment, account)["one"], untold(deployment))),
    )
    deployment.sweep()
    [(row, hints)] = before
    assert (row.last_action, row.last_action_result, row.last_action_run) == (StepName(action), None, "run-2")
    assert hints == {"e", "one"}
    assert {row.last_action_result for row in rows(deployment, account).values()} == {Result.DONE}


def test_an_owner_is_told_although_the_hosts_action_was_refused(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    refuse, seen = on(OPERATIONS[action], denied()), []

    def second(call: Call):
        seen.extend([call] if call.operation == OPERATIONS[action] else [])
        return refuse(call) if len(seen) > 1 else None

    server.rules.append(second)
    assert finding(deployment.sweep(), "e").outcome.result is Result.FAILED
    assert {name: row.last_action_result for name, row in rows(deployment, account).items()} == {"one": Result.DONE, "two": None}
    later(deployment, minutes=20)
    assert any("1. one" in text or ". one\n" in text for text in deployment.mails())
    assert not any(". two\n" in text for text in deployment.mails())


def test_an_owner_is_told_although_a_sibling_was_snoozed(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    two = account.arn("inference-component/two")

    def snooze() -> None:
        row = deployment.ledger.recall([two], deployment.now).get(two, Memory())
        snoozed = Memory(snoozed_until=deployment.now + 3 * DAY, snoozed_at=deployment.now)
        deployment.ledger.remember(two, snoozed, row.version, deployment.now, {"snoozed_until", "snoozed_at"})

    seen: list[Call] = []

    def next_read(call: Call) -> bool:
        seen.extend([call] if call.operation == OPERATIONS[action] else [])
        return bool(seen) and call.operation == "DescribeEndpoint"

    on_call(server, next_read, snooze)
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes().count(OPERATIONS[action])) == (Result.FAILED, 1)
    later(deployment, minutes=20)
    assert any(". one\n" in text for text in deployment.mails())


def test_an_owner_is_told_although_the_run_was_killed(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    dying_after(deployment, OPERATIONS[action])
    with pytest.raises(wired.Killed):
        deployment.sweep()
    assert rows(deployment, account)["one"].last_action_result is Result.DONE
    later(deployment, hours=1)
    assert any(". one\n" in text for text in deployment.mails())
    assert len([text for text in deployment.mails() if ". one\n" in text]) == 1
    assert untold(deployment) == set()


@pytest.mark.parametrize("fault", [error(500), cut()], ids=["500", "broken connection"])
def test_a_lost_reply_about_a_component_is_not_known(account: Account, server: Server, action: str, fault):
    deployment = together(account, server, action)
    server.rules.append(on(OPERATIONS[action], carried_out(fault), times=1))
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes().count(OPERATIONS[action])) == (Result.FAILED, 1)
    row = rows(deployment, account)["one"]
    assert (row.last_action_result, "isn't known" in (row.last_action_because or "")) == (Result.FAILED, True)


def test_an_owner_is_told_although_components_could_not_be_listed(account: Account, server: Server):
    wired.host(account, "one", "two")
    account.contents.components["one"].tags = {"reaper:owner": "ada@example.com"}
    deployment = announced(server, "delete", (ENDPOINT, COMPONENT))
    deployment.kinds = (ENDPOINT,)
    assert finding(deployment.sweep(), "e").outcome.result is Result.DONE
    later(deployment, minutes=20)
    told = [m.to for m in deployment.channel.messages if m.audience is Audience.OWNERS and ". one\n" in m.text]
    assert told == ["ada@example.com"]


def test_a_component_whose_call_was_refused_keeps_its_row(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    server.rules.append(on(OPERATIONS[action], denied()))
    deployment.sweep()
    assert {row.last_action for row in rows(deployment, account).values()} == {None}
    assert "one" not in untold(deployment)


@pytest.mark.parametrize("error", [Reason.UNREACHABLE, Reason.GONE])
def test_a_ledger_that_fails_before_a_components_call_ends_nothing(account: Account, server: Server, action: str, error: Reason):
    deployment = together(account, server, action)
    one, failed = account.arn("inference-component/one"), []

    def lose_the_reply(call: str, name: str) -> None:
        if (call, name) == ("remembered", one) and not failed:
            failed.append(call)
            raise CloudError(error, "dynamodb:PutItem", "no reply")

    deployment.ledger.fail_on = lose_the_reply
    outcome = finding(deployment.sweep(), "e").outcome
    assert (failed, outcome.result is Result.DONE, OPERATIONS[action] in deployment.changes()) == (["remembered"], False, False)
    assert "one" not in untold(deployment)
    later(deployment, minutes=20)
    assert not any(". one\n" in text for text in deployment.mails())


def test_a_result_that_could_not_be_written_is_written_with_its_mail(account: Account, server: Server, action: str):
    wired.host(account, "one", "two")
    deployment = announced(server, action, (ENDPOINT, COMPONENT))
    one, failed = account.arn("inference-component/one"), []

    def fail_once(call: str, name: str) -> None:
        if (call, name) == ("remember", one) and OPERATIONS[action] in deployment.changes() and not failed:
            failed.append(call)
            raise CloudError(Reason.UNREACHABLE, "dynamodb:PutItem", "no reply")

    deployment.ledger.fail_on = fail_once
    deployment.sweep()
    later(deployment, minutes=20)
    row = rows(deployment, account)["one"]
    assert (failed, row.last_action_run, row.last_action_result) == (["remember"], "run-2", Result.DONE)
    assert row.last_action_told_at


def test_a_ledger_that_vanishes_before_a_components_call_is_no_deletion(account: Account, server: Server):
    deployment = together(account, server, "delete")
    one, gone = account.arn("inference-component/one"), []

    def vanish(call: str, name: str) -> None:
        if gone and call in {"row", "recall", "remember"}:
            raise CloudError(Reason.GONE, "dynamodb:GetItem", "Requested resource not found")
        gone.extend([call] if (call, name) == ("remembered", one) else [])

    deployment.ledger.fail_on = vanish
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes()) == (Result.REFUSED, [])


def test_what_goes_with_its_host_keeps_no_manifest_of_an_earlier_action(account: Account, server: Server, action: str):
    deployment = together(account, server, action)
    one, before = account.arn("inference-component/one"), rows(deployment, account)["one"]
    earlier = replace(
        before,
        last_action=StepName.STOP,
        last_action_at=deployment.now - 30 * DAY,
        last_action_run="run-0",
        last_action_result=Result.DONE,
        last_action_told_at=deployment.now - 30 * DAY,
        manifest_address="s3://manifests/earlier.json",
        manifest_sha256="0" * 64,
    )
    assert deployment.ledger.remember(one, earlier, before.version, deployment.now)
    deployment.sweep()
    row = rows(deployment, account)["one"]
    assert (row.last_action_run, row.manifest_address, row.manifest_sha256) == ("run-2", None, None)


def test_the_report_says_what_became_of_components(account: Account, server: Server):
    wired.host(account, "one", "two")
    deployment = announced(server, "delete", (ENDPOINT, COMPONENT))
    dying = on("DeleteEndpoint", error(400, "ValidationException", "no"))
    server.rules.append(dying)
    report = deployment.sweep()
    assert finding(report, "e").outcome.result is Result.FAILED
    assert {finding(report, name).outcome.result for name in ("one", "two")} == {Result.DONE}
    everyone = [m.text for m in deployment.channel.messages if m.audience is Audience.OWNERS]
    assert any(". one\n" in text and ". two\n" in text for text in everyone)


def test_a_slow_host_says_which_components_went(account: Account, server: Server, monkeypatch: pytest.MonkeyPatch):
    deployment = together(account, server, "delete")
    server.world.settle_after = timedelta(minutes=30)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, outcome.part_done) == (Result.DONE, "its 2 components; the endpoint remains")
    assert {row.last_action_result for row in rows(deployment, account).values()} == {Result.DONE}
    assert "DeleteEndpoint" not in deployment.changes()
