"""Steps that an engine repeats: what an act has begun isn't looked at again, and the latest conclude sends what is left to send."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fakes.records import an_act
from reaper.errors import CloudError, ConcludeTakenOver
from reaper.finding import Report
from reaper.model import Result, StepName
from reaper.record import before_action
from reaper.workflow import lease
from reaper.workflow.lease import RunLease
from reaper.workflow.store import ACT_ITEMS
from reaper_sandbox.aws.account import Account
from workflow.conftest import NOW, REGIONS, Scene

TWIN = RunLease(run="000000000002", holder="the twin", until=NOW + timedelta(days=9))


def steps(report: Report) -> dict[str, tuple[str, str]]:
    return {f.case.resource.name: (f.step.name.value, f.outcome.result.value) for f in report.findings}


def owners_mails(scene: Scene, owner: str = "ana@example.com") -> list[str]:
    return [mail for mail in scene.mails() if f"To: {owner}" in mail]


def begin(scene: Scene, run_id: str, region: str, *, made: bool) -> None:
    """A task of that run wrote its intent, perhaps made its call, and died."""
    account = Account(scene.server, region=region)
    resource_id, now = account.arn(f"endpoint/quiet-{region}"), scene.server.now
    record = scene.ledger.record(resource_id, now)
    begun = before_action(record, an_act(StepName.STOP, now, run_id, id=resource_id))
    assert scene.ledger.write_record(resource_id, begun, record.version, now)
    if made:
        account.contents.endpoints[f"quiet-{region}"].variants[0].count = 1


@pytest.mark.parametrize("made", [True, False], ids=["after its call", "before its call"])
def test_an_act_that_died_is_not_known_and_never_refused(due: Scene, made: bool):
    run_id = due.workflow.decided()
    begin(due, run_id, REGIONS[0], made=made)
    due.server.calls.clear()
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    calls = [call for call in due.server.calls if call.service == "sagemaker" and call.region == REGIONS[0]]
    assert [call.operation for call in calls if not call.operation.startswith(("Describe", "List"))] == [], "it is only looked at"
    report = due.workflow.conclude(run_id)
    assert steps(report) == {f"quiet-{REGIONS[0]}": ("stop", "failed"), f"quiet-{REGIONS[1]}": ("stop", "done")}
    [error] = [f.outcome.error for f in report.findings if f.outcome.result is Result.FAILED]
    assert "isn't known" in (error or "")


def test_an_act_that_is_repeated_after_it_ended_tells_what_it_did(due: Scene):
    run_id = due.workflow.acted()
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    assert set(steps(due.workflow.conclude(run_id)).values()) == {("stop", "done")}
    assert [due.instances(region) for region in REGIONS] == [1, 1]


def test_an_intent_without_a_result_is_not_known_whatever_act_returned(due: Scene):
    """A twin of act looked first, was refused, and returned later than the one that made the call and died."""
    run_id = due.workflow.decided()
    due.use(lambda settings: replace(settings, exclude_accounts=("123456789012",)))
    for item in due.workflow.items(run_id, ACT_ITEMS):
        due.workflow.act(run_id, item)
    begin(due, run_id, REGIONS[0], made=True)
    found = steps(due.workflow.conclude(run_id))
    assert found == {f"quiet-{REGIONS[0]}": ("stop", "failed"), f"quiet-{REGIONS[1]}": ("stop", "refused")}


def test_a_conclude_takes_over_from_a_killed_one_at_once(due: Scene):
    run_id = due.workflow.acted()
    lease.claim_conclude(due.ledger, replace(TWIN, run=run_id, until=due.server.now + timedelta(minutes=10)), due.server.now)
    due.workflow.deadline_in = timedelta(minutes=2)
    assert set(steps(due.workflow.conclude(run_id)).values()) == {("stop", "done")}
    assert (due.workflow.waited, len(owners_mails(due))) == ([], 2)


def test_a_conclude_stops_once_another_process_has_its_claim(scene: Scene):
    """The engine has repeated it, although it still runs: whatever it hasn't sent, the other one sends."""
    Account(scene.server, region=REGIONS[1]).contents.endpoints[f"quiet-{REGIONS[1]}"].tags = {"owner": "bo@example.com"}
    run_id, clock = scene.workflow.acted(), scene.workflow.clock

    def clock_of_twin() -> datetime:
        if len(scene.mails()) == 1:
            lease.claim_conclude(scene.ledger, replace(TWIN, run=run_id), clock())
        return clock()

    scene.workflow.clock = clock_of_twin
    with pytest.raises(ConcludeTakenOver):
        scene.workflow.conclude(run_id)
    assert len(scene.mails()) == 1
    scene.workflow.clock = clock
    scene.workflow.conclude(run_id)
    assert [len(owners_mails(scene, owner)) for owner in ("ana@example.com", "bo@example.com")] == [1, 1]


def test_a_conclude_without_the_time_for_every_message_fails(scene: Scene):
    run_id = scene.workflow.acted()
    scene.workflow.deadline_in = timedelta(seconds=30)
    with pytest.raises(CloudError, match="too little time"):
        scene.workflow.conclude(run_id)
    assert owners_mails(scene) == []
    scene.workflow.deadline_in = timedelta(minutes=15)
    assert set(steps(scene.workflow.conclude(run_id)).values()) == {("warn", "done")}
    assert len(owners_mails(scene)) == 1


def test_the_claim_of_another_run_does_not_end_a_claim(due: Scene):
    """A run that was stopped may still conclude while the next one does; a twin of the first must not send beside it."""
    now, ends = due.server.now, due.server.now + timedelta(minutes=10)
    first, other, twin = (
        RunLease(run=run, holder=holder, until=ends) for run, holder in (("one", "a"), ("two", "b"), ("one", "twin"))
    )
    lease.claim_conclude(due.ledger, first, now)
    lease.claim_conclude(due.ledger, other, now)
    assert [lease.has_claim(due.ledger, claim) for claim in (first, other, twin)] == [True, True, False]
    lease.release_conclude(due.ledger, twin, now)
    assert lease.has_claim(due.ledger, first)
    lease.claim_conclude(due.ledger, twin, now)
    assert [lease.has_claim(due.ledger, claim) for claim in (first, other, twin)] == [False, True, True]
    lease.release_conclude(due.ledger, twin, now)
    assert not lease.has_claim(due.ledger, first), "it stops, although nobody has the claim any more"


NAIVE = '[{"run": "one", "holder": "a", "until": "2026-11-24T10:00:00"}]'
UNKNOWN = '[{"run": "one", "holder": "a", "until": "2026-11-24T10:00:00Z", "since": ""}]'


@pytest.mark.parametrize("claims", ["nonsense", "5", '[["a"]]', '[{"run": "one"}]', "null", "", NAIVE, UNKNOWN])
def test_an_odd_claim_blocks_nothing(due: Scene, claims: str):
    version = due.ledger.read_row(lease.CONCLUDE_ROW).version
    assert due.ledger.write_row(lease.CONCLUDE_ROW, {"document": claims}, version)
    assert set(steps(due.workflow.run()).values()) == {("stop", "done")}
