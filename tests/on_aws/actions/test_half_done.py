"""A stop that ends after it lowered an autoscaling minimum: put back where that is certain, left alone otherwise, by the same run or the next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from on_aws.actions import deployment as wired
from on_aws.actions.deployment import COMPONENT, AwsDeployment, Killed, announced, finding, later, on_call
from on_aws.actions.test_looks import MINIMUM, PART_MINIMUM, hosted
from on_aws.conftest import DAY
from reaper.model import Mode, Pause, Result, State, StepName
from reaper.pending import stop_switch
from reaper.record import Record, Snooze
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, carried_out, denied, error, garbage, on, throttled
from reaper_sandbox.aws.server import Server

LOWER, RESIZE = "RegisterScalableTarget", "UpdateEndpointWeightsAndCapacities"


def dying_after(deployment: AwsDeployment, operation: str, times: int = 1) -> None:
    """The run dies once that call was made so often, before its next permit."""

    def fail_on(call: str, name: str) -> None:
        if call == "row" and deployment.changes().count(operation) >= times:
            deployment.ledger.fail_on = lambda call, name: None
            raise Killed

    deployment.ledger.fail_on = fail_on


def died(account: Account, server: Server) -> AwsDeployment:
    """A deployment an hour after its run died, which had lowered the minimum of an autoscaled endpoint."""
    wired.autoscaled(account)
    deployment = announced(server)
    dying_after(deployment, LOWER)
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.now += timedelta(hours=1)
    server.now = deployment.now
    server.calls.clear()
    return deployment


def count(account: Account) -> int:
    return account.contents.endpoints["e"].variants[0].count


def least(account: Account, key: tuple[str, str] = MINIMUM) -> int:
    return account.contents.scalable[key].least


def record(deployment: AwsDeployment, account: Account) -> Record:
    id_ = account.arn("endpoint/e")
    return deployment.ledger.record(id_, deployment.now)


def test_a_lowered_minimum_is_put_back_by_the_next_run(account: Account, server: Server):
    deployment = died(account, server)
    assert (count(account), least(account)) == (3, 1)
    report = deployment.sweep()
    assert (count(account), least(account), deployment.changes()) == (3, 2, [LOWER])
    one = finding(report, "e")
    assert (one.step.name, "an action on it was interrupted" in one.step.because) == (StepName.NONE, True)
    [mail] = deployment.mails()
    assert "the autoscaling minimum of endpoint/e/variant/AllTraffic is 2 again" in mail
    assert record(deployment, account).act.changes == ()


def test_silence_counts_from_the_put_back(account: Account, server: Server):
    deployment = died(account, server)
    deployment.sweep()
    assert finding(later(deployment, hours=20), "e").case.verdict.state is State.YOUNG
    assert finding(later(deployment, hours=5), "e").step.name is StepName.WARN
    assert deployment.changes() == [LOWER]


def test_a_run_that_died_before_its_first_call_changed_nothing(account: Account, server: Server):
    wired.autoscaled(account)
    deployment = announced(server)

    def fail_on(call: str, name: str) -> None:
        if call == "remembered" and record(deployment, account).act:
            deployment.ledger.fail_on = lambda call, name: None
            raise Killed

    deployment.ledger.fail_on = fail_on
    with pytest.raises(Killed):
        deployment.sweep()
    later(deployment, hours=1)
    assert (deployment.changes(), least(account)) == ([], 2)
    assert "nothing had changed" in deployment.mails()[0]


def test_a_scale_in_that_took_effect_is_done(account: Account, server: Server):
    deployment = _died_after_resize(account, server)
    deployment.sweep()
    assert (deployment.changes(), count(account), least(account)) == ([], 1, 1)
    assert record(deployment, account).act.result is Result.DONE


def _died_after_resize(account: Account, server: Server) -> AwsDeployment:
    """The run dies before it can record that the scale-in was done."""
    wired.autoscaled(account)
    deployment = announced(server)

    def fail_on(call: str, name: str) -> None:
        if call == "remember" and RESIZE in deployment.changes():
            deployment.ledger.fail_on = lambda call, name: None
            raise Killed

    deployment.ledger.fail_on = fail_on
    with pytest.raises(Killed):
        deployment.sweep()
    deployment.now += timedelta(hours=1)
    server.calls.clear()
    return deployment


def _raised(account: Account) -> None:
    account.contents.scalable[MINIMUM].least = 3


def _limited(account: Account) -> None:
    account.contents.scalable[MINIMUM].most = 1


def _registered_again(account: Account) -> None:
    account.contents.scalable[MINIMUM].created = account.server.now


def _removed(account: Account) -> None:
    del account.contents.scalable[MINIMUM]


def _made_anew(account: Account) -> None:
    account.contents.endpoints["e"].created = account.server.now - timedelta(minutes=10)


def _updated(account: Account) -> None:
    account.contents.endpoints["e"].changed = account.server.now - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        pytest.param(_raised, "it was changed to 3 since", id="a person's minimum"),
        pytest.param(_limited, "its autoscaling was changed since", id="a person's maximum"),
        pytest.param(_registered_again, "its autoscaling was changed since", id="registered again"),
        pytest.param(_removed, "it is gone", id="without autoscaling"),
        pytest.param(_made_anew, "it has been recreated since", id="made anew"),
        pytest.param(_updated, "what it scales was changed since", id="endpoint changed"),
    ],
)
def test_a_later_change_is_left_alone(account: Account, server: Server, change: Callable[[Account], Any], because: str):
    deployment = died(account, server)
    change(account)
    before = account.contents.scalable.get(MINIMUM)
    kept = before.least if before else None
    deployment.sweep()
    assert deployment.changes() == []
    assert (account.contents.scalable[MINIMUM].least if before else None) == kept
    assert because in deployment.mails()[0]
    assert record(deployment, account).act.changes == ()


def test_a_deleted_endpoint_is_left_alone(account: Account, server: Server):
    deployment = died(account, server)
    account.contents.endpoints.clear()
    deployment.sweep()
    assert deployment.changes() == []
    assert "it no longer exists" in deployment.mails()[0]


def test_an_interrupted_stop_of_a_component_is_put_back(account: Account, server: Server):
    hosted(account)
    deployment = announced(server, kinds=(COMPONENT,))
    dying_after(deployment, LOWER)
    with pytest.raises(Killed):
        deployment.sweep()
    later(deployment, hours=1)
    assert (least(account, PART_MINIMUM), account.contents.components["one"].copies) == (1, 2)


def test_a_put_back_that_fails_blocks_and_is_tried_again(account: Account, server: Server):
    deployment = died(account, server)
    server.rules.append(on(LOWER, denied()))
    for _ in range(3):
        report = later(deployment, hours=1)
        assert finding(report, "e").step.name is StepName.NONE
        assert any("RegisterScalableTarget" in (row.error or "") for row in report.coverage)
    assert (least(account), deployment.mails()) == (1, [])
    server.rules.clear()
    later(deployment, hours=1)
    assert (least(account), len(deployment.mails())) == (2, 1)


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.usefixtures("no_sleep")
@pytest.mark.parametrize("fault", [error(500), carried_out(error(500)), throttled()], ids=["not made", "made", "throttled"])
def test_putting_back_reads_again_before_it_retries(account: Account, server: Server, fault: Any):
    deployment = died(account, server)
    server.rules.append(on(LOWER, fault, times=1))
    deployment.sweep()
    assert least(account) == 2
    sent = [at for at, call in enumerate(server.calls) if call.operation == LOWER]
    assert len(sent) == (1 if fault.lost else 2)
    assert "DescribeScalableTargets" in [c.operation for c in server.calls[sent[0] : sent[-1] if len(sent) > 1 else None]]
    assert "is 2 again" in deployment.mails()[0]


@pytest.mark.usefixtures("no_sleep")
@pytest.mark.parametrize(("fault", "times"), [(garbage(), 1), (throttled(), 8)], ids=["garbage", "throttled"])
def test_putting_back_looks_again_after_a_look_that_failed(account: Account, server: Server, fault: Fault, times: int):
    deployment = died(account, server)
    server.rules.append(on("DescribeScalableTargets", fault, times=times))
    deployment.sweep()
    assert (least(account), deployment.changes()) == (2, [LOWER])


@pytest.mark.usefixtures("no_sleep")
def test_a_persons_minimum_between_two_tries_stays(account: Account, server: Server):
    deployment = died(account, server)
    server.rules.append(on(LOWER, error(500), times=1))
    on_call(
        server,
        lambda call: call.operation == "DescribeScalableTargets" and LOWER in deployment.changes(),
        lambda: _raised(account),
    )
    deployment.sweep()
    assert (least(account), deployment.changes()) == (3, [LOWER])


def test_a_pause_holds_a_put_back(account: Account, server: Server):
    deployment = died(account, server)
    stop_switch.set_pause(deployment.ledger, Pause(by="lee", at=deployment.now), deployment.now)
    deployment.sweep()
    assert (deployment.changes(), least(account)) == ([], 1)


def test_below_enforce_it_is_blocked_and_told(account: Account, server: Server):
    deployment = died(account, server)
    report = deployment.sweep(mode=Mode.NOTIFY)
    assert (deployment.changes(), finding(report, "e").step.name) == ([], StepName.NONE)
    assert "reaper restore" in deployment.mails()[0]


def test_a_change_of_more_than_a_day_ago_stays(account: Account, server: Server):
    deployment = died(account, server)
    later(deployment, hours=24)
    assert (deployment.changes(), least(account)) == ([], 1)
    assert "more than a day ago" in deployment.mails()[0]


def between(server: Server, do: Callable[[], Any]) -> None:
    """That happens right after the minimum was lowered."""
    seen: list[Call] = []

    def is_next(call: Call) -> bool:
        seen.extend([call] if call.operation == LOWER else [])
        return bool(seen) and call.operation == "DescribeEndpoint"

    on_call(server, is_next, do)


def _pause(deployment: AwsDeployment, account: Account) -> None:
    stop_switch.set_pause(deployment.ledger, Pause(by="lee", at=deployment.now), deployment.now)


def _snooze(deployment: AwsDeployment, account: Account) -> None:
    id_, now = account.arn("endpoint/e"), deployment.now
    assert deployment.ledger.write_snooze(id_, Snooze(until=now + 3 * DAY, at=now), 0, now)


def _tag(deployment: AwsDeployment, account: Account) -> None:
    account.contents.endpoints["e"].tags = {"reaper:keep": "true"}


def _resize(deployment: AwsDeployment, account: Account) -> None:
    account.contents.endpoints["e"].variants[0].count = 4


@pytest.mark.parametrize(
    ("do", "because"),
    [
        (_pause, "the stop switch is on"),
        (_snooze, "may be snoozed"),
        (_tag, "its tags changed"),
        (_resize, "its settings changed"),
    ],
    ids=["pause", "snooze", "tag", "size"],
)
def test_what_happens_after_the_minimum_was_lowered_ends_the_stop(
    account: Account, server: Server, do: Callable[[AwsDeployment, Account], None], because: str
):
    wired.autoscaled(account)
    deployment = announced(server)
    between(server, lambda: do(deployment, account))
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes()) == (Result.REFUSED, [LOWER, LOWER])
    assert least(account) == 2
    assert because in (outcome.because or "")
    assert "is 2 again" in (outcome.because or "")


def test_a_minimum_set_by_a_person_meanwhile_stays(account: Account, server: Server):
    wired.autoscaled(account)
    deployment = announced(server)
    between(server, lambda: _raised(account))
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes(), least(account)) == (Result.FAILED, [LOWER], 3)
    assert "it was changed to 3 since" in (outcome.error or "")


def test_a_scale_in_that_is_refused_puts_the_minimum_back(account: Account, server: Server):
    wired.autoscaled(account)
    deployment = announced(server)
    server.rules.append(on(RESIZE, denied()))
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, deployment.changes()) == (Result.REFUSED, [LOWER, RESIZE, LOWER])
    assert (count(account), least(account)) == (3, 2)


def test_a_put_back_that_fails_at_once_is_left_to_the_next_run(account: Account, server: Server):
    wired.autoscaled(account)
    deployment = announced(server)
    server.rules += [on(RESIZE, denied()), lambda call: denied() if call.operation == LOWER and least(account) == 1 else None]
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, "it couldn't be put back yet" in (outcome.error or ""), least(account)) == (Result.FAILED, True, 1)
    server.rules.clear()
    later(deployment, hours=1)
    assert least(account) == 2


def test_every_change_of_a_stop_is_in_its_row_before_the_first_call(account: Account, server: Server):
    wired.autoscaled(account)
    deployment = announced(server)
    rows: list[Record] = []
    on_call(server, lambda call: call.operation == LOWER, lambda: rows.append(record(deployment, account)))
    deployment.sweep()
    assert {(c.what, c.before, c.ours) for c in rows[0].act.changes or ()} == {
        ("minimum of endpoint/e/variant/AllTraffic", 2, 1),
        ("endpoint/e/variant/AllTraffic", 3, 1),
    }
    assert rows[0].act.created == account.contents.endpoints["e"].created
