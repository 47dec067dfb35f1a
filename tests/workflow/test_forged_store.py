"""What a person who may write to the run store can reach: rows dropped, limits diluted, mails misled. Never an action, an account or another policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.workflow_runs import folder_store
from reaper import handover
from reaper.calendars.office_hours import Hours
from reaper.errors import CloudError
from reaper.finding import Finding, Outcome, Report, Step
from reaper.handover import Acted, Decided
from reaper.model import Account as SweptAccount
from reaper.model import Mode, Result, Status, StepName
from reaper.policy.file import POLICY_CHANGED, load_policy
from reaper.record import Snooze
from reaper.workflow import lease
from reaper.workflow.lease import RUN_LEASE, RunLease
from reaper.workflow.store import ACT_ITEMS, DECIDED
from reaper.workflow.stored_run import EngineState, StoredRun, require_run, store_run
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from workflow.conftest import REGIONS, Scene

FORGER = "999999999999"
Change = Callable[[Scene, str], None]


def folder(scene: Scene, run_id: str) -> Path:
    return scene.home / "runs" / run_id


def counts(scene: Scene) -> list[int]:
    return [scene.instances(region) for region in REGIONS]


def conclude_after_act(scene: Scene, run_id: str) -> Report:
    for item in scene.workflow.items(run_id, ACT_ITEMS):
        scene.workflow.act(run_id, item)
    return scene.workflow.conclude(run_id)


def forge_decided(scene: Scene, run_id: str, change: Callable[[Decided], Decided]) -> None:
    """Replace the decisions, those for each target too."""
    store = folder_store(folder(scene, run_id))
    decided = change(handover.load_decided(store.read(DECIDED) or ""))
    store.write(DECIDED, handover.dump(decided))
    targets = list(dict.fromkeys(d.case.resource.target for d in decided.findings if d.step.name is StepName.STOP))
    for number, target in enumerate(targets):
        store.write(f"decided/{number}.json", handover.dump(decided.for_target(target)))
    store.write(ACT_ITEMS, json.dumps([{"item": number} for number in range(len(targets))]))


def everything_stops(decided: Decided) -> Decided:
    stop = Step(name=StepName.STOP, because="I say so")
    return replace(decided, findings=tuple(replace(d, step=stop, record_version=1) for d in decided.findings))


def test_forged_decisions_stop_nothing_without_a_notice(scene: Scene):
    run_id = scene.workflow.decided()
    forge_decided(scene, run_id, everything_stops)
    report = conclude_after_act(scene, run_id)
    assert {f.outcome.result for f in report.findings} == {Result.REFUSED}
    assert counts(scene) == [3, 3]


MORE = tuple(f"more-{number}" for number in range(4))


def forged_crowd(scene: Scene) -> tuple[str, Decided]:
    """A run that saw nothing, so that it put nothing on hold, and the forged decision to stop all five endpoints of a region. `max_acts` is 2."""
    account = Account(scene.server, region=REGIONS[0])
    for name in MORE:
        account.endpoint(name, variants=(Variant(count=3),), tags={"owner": "ana@example.com"})
        account.alive(name, "AllTraffic", scene.server.now - timedelta(days=20), scene.server.now + timedelta(days=90))
    limits = "max_share: 100%, max_acts: 2, max_jump: 100%"
    scene.use(lambda settings: replace(settings, policy=scene.policy.replace("max_share: 100%", limits), regions=REGIONS[:1]))
    scene.workflow.run()
    scene.later(days=3)
    run_id = scene.workflow.observed()
    store = folder_store(folder(scene, run_id))
    part = handover.load_observed(store.read("observed/0.json") or "")
    store.write("observed/0.json", handover.dump(replace(part, cases=())))
    scene.workflow.decide(run_id)
    stop = Step(name=StepName.STOP, because="I say so")
    forged = tuple(Finding(case=case, step=stop, record_version=1) for case in part.cases)
    decided = handover.load_decided(store.read(DECIDED) or "")
    return run_id, replace(decided, leased=part.targets, findings=forged).for_target(part.targets[0])


def stopped_of_crowd(scene: Scene) -> int:
    endpoints = Account(scene.server, region=REGIONS[0]).contents.endpoints
    return sum(endpoints[name].variants[0].count < 3 for name in (*MORE, f"quiet-{REGIONS[0]}"))


def test_decisions_spread_over_many_parts_stop_at_max_acts(scene: Scene):
    run_id, decided = forged_crowd(scene)
    for number, decision in enumerate(decided.findings):
        part = replace(decided, findings=(decision,))
        folder_store(folder(scene, run_id)).write(f"decided/{number}.json", handover.dump(part))
    for number in range(len(decided.findings)):
        scene.workflow.act(run_id, {"item": number})
    assert stopped_of_crowd(scene) == 2


def test_forged_office_hours_stop_at_max_acts(scene: Scene):
    run_id, decided = forged_crowd(scene)
    hours = Hours(days=frozenset(range(7)), start=1, end=2, tz="UTC")
    cases = [replace(d.case, rule=replace(d.case.rule, hours=hours)) for d in decided.findings]
    forged = tuple(replace(d, case=case) for d, case in zip(decided.findings, cases, strict=True))
    folder_store(folder(scene, run_id)).write("decided/0.json", handover.dump(replace(decided, findings=forged)))
    scene.workflow.act(run_id, {"item": 0})
    assert stopped_of_crowd(scene) == 2


def test_an_action_under_another_resources_name_is_refused(due: Scene):
    """Its intent would be in one record, and its outcome and its mail would be about another resource."""
    run_id = due.workflow.decided()

    def renamed(decided: Decided) -> Decided:
        ids = (replace(d.case.resource, id=f"{d.case.resource.id}-2") for d in decided.findings)
        cases = [replace(d.case, resource=one) for d, one in zip(decided.findings, ids, strict=True)]
        return replace(decided, findings=tuple(replace(d, case=c) for d, c in zip(decided.findings, cases, strict=True)))

    forge_decided(due, run_id, renamed)
    report = conclude_after_act(due, run_id)
    assert (counts(due), [f for f in report.findings if f.outcome.result is Result.DONE]) == ([3, 3], [])


def tag_keep(scene: Scene, run_id: str) -> None:
    for region in REGIONS:
        Account(scene.server, region=region).contents.endpoints[f"quiet-{region}"].tags["reaper:keep"] = "true"


def use_it(scene: Scene, run_id: str) -> None:
    for region in REGIONS:
        Account(scene.server, region=region).invoked(f"quiet-{region}", "AllTraffic", scene.server.now - timedelta(minutes=30))


def snooze(scene: Scene, run_id: str) -> None:
    for region in REGIONS:
        resource_id, now = Account(scene.server, region=region).arn(f"endpoint/quiet-{region}"), scene.server.now
        snooze = Snooze(until=now + timedelta(days=9), at=now, by="ana@example.com")
        assert scene.ledger.write_snooze(resource_id, snooze, 0, now)


@pytest.mark.parametrize("protect", [tag_keep, use_it, snooze])
def test_forged_parts_stop_nothing_that_the_re_check_protects(due: Scene, protect: Change):
    """What was observed before, and was true then, under the name of a run that would see something else."""
    old = due.workflow.observed()
    protect(due, old)
    run_id = str(due.workflow.list()["run"])
    run = require_run(folder_store(folder(due, run_id)), due.workflow.engines[run_id]).run
    for item in due.workflow.items(run_id):
        name = f"observed/{item['item']}.json"
        part = handover.load_observed(folder_store(folder(due, old)).read(name) or "")
        folder_store(folder(due, run_id)).write(name, handover.dump(replace(part, run=run)))
    due.workflow.decide(run_id)
    forge_decided(due, run_id, everything_stops)
    report = conclude_after_act(due, run_id)
    assert {(f.step.name, f.outcome.result) for f in report.findings} <= {("stop", Result.REFUSED), ("none", Result.PLANNED)}
    assert counts(due) == [3, 3]


def test_parts_that_another_run_observed_are_failed_rows(due: Scene):
    old, run_id = due.workflow.observed(), str(due.workflow.list()["run"])
    for item in due.workflow.items(run_id):
        name = f"observed/{item['item']}.json"
        folder_store(folder(due, run_id)).write(name, folder_store(folder(due, old)).read(name) or "")
    assert due.workflow.decide(run_id)["actions"] == 0
    rows = [row for row in due.workflow.conclude(run_id).coverage if row.cloud == "aws"]
    assert {row.status for row in rows} == {Status.FAILED}
    assert all("it belongs to another run" in (row.error or "") for row in rows)


def test_decisions_of_another_run_are_not_carried_out(due: Scene):
    old, run_id = due.workflow.decided(), due.workflow.decided()
    for name in (DECIDED, "decided/0.json"):
        folder_store(folder(due, run_id)).write(name, folder_store(folder(due, old)).read(name) or "")
    for step in (due.workflow.decide, due.workflow.conclude):
        with pytest.raises(CloudError, match="it belongs to another run"):
            step(run_id)
    with pytest.raises(CloudError, match="it belongs to another run"):
        due.workflow.act(run_id, {"item": 0})
    assert counts(due) == [3, 3]


def test_results_of_another_run_are_a_row_and_the_ledger_decides(due: Scene):
    run_id = due.workflow.decided()
    store = folder_store(folder(due, run_id))
    decided = handover.load_decided(store.read(DECIDED) or "")
    for number, target in enumerate(decided.leased):
        done = {d.case.resource.id: Outcome(result=Result.DONE, begun=True) for d in decided.for_target(target).findings}
        forged = Acted(run=replace(decided.run, id="another"), target=target, outcomes=done)
        store.write(f"acted/{number}.json", handover.dump(forged))
    report = due.workflow.conclude(run_id)
    assert {f.outcome.result for f in report.findings} == {Result.REFUSED}
    assert any("it belongs to another run" in (row.error or "") for row in report.coverage if row.kind == "acts")


def test_an_action_outside_what_was_listed_is_not_even_tried(due: Scene):
    run_id = due.workflow.decided()

    def elsewhere(decided: Decided) -> Decided:
        target = replace(decided.leased[0], account=FORGER)
        moved = (replace(d, case=replace(d.case, resource=replace(d.case.resource, target=target))) for d in decided.findings)
        return replace(decided, leased=(target,), findings=tuple(moved))

    forge_decided(due, run_id, elsewhere)
    due.server.calls.clear()
    with pytest.raises(CloudError, match=f"account '{FORGER}' isn't part of run"):
        due.workflow.act(run_id, {"item": 0})
    assert [call for call in due.server.calls if call.action == "sts:AssumeRole"] == []


def raise_mode(stored: StoredRun) -> StoredRun:
    return replace(stored, run=replace(stored.run, mode=Mode.ENFORCE))


def add_account(stored: StoredRun) -> StoredRun:
    added = SweptAccount(cloud="aws", id=FORGER, name="mine", regions=REGIONS, is_own=False)
    return replace(stored, accounts=(*stored.accounts, added))


@pytest.mark.parametrize("change", [raise_mode, add_account])
@pytest.mark.parametrize("in_place", [True, False], ids=["in its place", "beside it"])
def test_a_forged_run_leads_no_step_anywhere(due: Scene, change: Callable[[StoredRun], StoredRun], in_place: bool):
    due.use(lambda settings: replace(settings, mode=Mode.ANNOUNCE))
    run_id = due.workflow.observed()
    store, engine = folder_store(folder(due, run_id)), due.workflow.engines[run_id]
    forged = change(require_run(store, engine))
    digest = store_run(forged, store).listed_sha256
    due.use(lambda settings: replace(settings, mode=Mode.ENFORCE))
    if not in_place:
        assert due.workflow.decide(run_id)["actions"] == 0
        assert due.workflow.conclude(run_id).run.mode is Mode.ANNOUNCE
        return
    store.write(f"run-{engine.listed_sha256}.json", store.read(f"run-{digest}.json") or "")
    for step in (lambda: due.workflow.observe(run_id, {"item": 0}), lambda: due.workflow.decide(run_id)):
        with pytest.raises(CloudError, match="was changed since the run was listed"):
            step()
    assert counts(due) == [3, 3]


def test_a_run_that_was_stored_before_the_first_step_is_not_believed(due: Scene):
    run_id = "0123456789ab"
    due.workflow.list(run_id)
    store, engine = folder_store(folder(due, run_id)), due.workflow.engines[run_id]
    store_run(add_account(require_run(store, engine)), store)
    due.workflow.list(run_id)
    listed = require_run(store, due.workflow.engines[run_id])
    assert [account.id for account in listed.accounts] == ["123456789012"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"execution": "execution-of-another"}, id="another execution"),
        pytest.param({"run": "000000000000"}, id="another run"),
        pytest.param({"policy_sha256": "0" * 64}, id="another policy"),
    ],
)
def test_steps_check_that_the_run_is_their_callers(due: Scene, other: dict[str, Any]):
    run_id = due.workflow.decided()
    due.workflow.engines[run_id] = replace(due.workflow.engines[run_id], **other)
    for step in (lambda: due.workflow.act(run_id, {"item": 0}), lambda: due.workflow.conclude(run_id)):
        with pytest.raises(CloudError, match="isn't the run that called"):
            step()
    assert counts(due) == [3, 3]


@pytest.mark.parametrize("number", [-1, 99])
def test_an_items_number_is_looked_up_in_what_the_run_listed(due: Scene, number: int):
    run_id = str(due.workflow.list()["run"])
    with pytest.raises(CloudError, match=f"has no item {number}"):
        due.workflow.observe(run_id, {"item": number, "account": FORGER, "regions": list(REGIONS)})


def test_a_run_that_someone_made_up_does_not_act(due: Scene):
    """It has everything but the lease: a store, decisions, and an execution of its own."""
    run_id = due.workflow.decided()
    store, engine = folder_store(folder(due, run_id)), due.workflow.engines[run_id]
    stored = require_run(store, engine)
    made_up = replace(stored, execution="mine", run=replace(stored.run, id="feedfeedfeed"))
    own = folder_store(folder(due, "feedfeedfeed"))
    due.workflow.engines["feedfeedfeed"] = store_run(made_up, own)
    for number in (0, 1):
        part = handover.load_decided(store.read(f"decided/{number}.json") or "")
        own.write(f"decided/{number}.json", handover.dump(replace(part, run=made_up.run)))
        due.workflow.act("feedfeedfeed", {"item": number})
    acted = handover.load_acted(own.read("acted/0.json") or "")
    assert {outcome.because for outcome in acted.outcomes.values()} == {"this run has ended, or another one has taken over"}
    assert counts(due) == [3, 3]


def test_a_run_that_was_taken_over_neither_decides_nor_acts(due: Scene):
    run_id, late = due.workflow.decided(), due.workflow.observed()
    other = RunLease(run="the next", holder="next", until=due.server.now + RUN_LEASE)
    assert lease.take_run_lease(due.ledger, other, lambda holder: False, due.server.now) is None
    with pytest.raises(CloudError, match="another run has taken over"):
        due.workflow.decide(late)
    report = conclude_after_act(due, run_id)
    assert ({f.outcome.result for f in report.findings}, counts(due)) == ({Result.REFUSED}, [3, 3])


# The policy


def test_the_store_has_no_policy(due: Scene):
    run_id = due.workflow.acted()
    assert [p.name for p in folder(due, run_id).rglob("*.json") if "max_share" in p.read_text()] == []
    engine: EngineState = due.workflow.engines[run_id]
    assert engine.policy_sha256 == load_policy(due.policy).sha256


def test_nothing_is_observed_under_a_policy_that_has_changed(due: Scene):
    run_id = str(due.workflow.list()["run"])
    with pytest.raises(CloudError, match="policy has changed"):
        due.workflow.under(due.policy + "# changed\n").observe(run_id, {"item": 0})


def gone(scene: Scene) -> str:
    return str(scene.home / "gone.yaml")


@pytest.mark.parametrize("other", [lambda scene: scene.policy + "# changed\n", gone], ids=["changed", "unreadable"])
def test_nothing_is_decided_under_a_policy_that_has_changed(due: Scene, other: Callable[[Scene], str]):
    run_id = due.workflow.observed()
    changed = due.workflow.under(other(due))
    assert changed.decide(run_id)["actions"] == 0
    rows = [row for row in changed.conclude(run_id).coverage if row.cloud == "aws"]
    assert {row.status for row in rows} == {Status.FAILED}
    assert all(POLICY_CHANGED in (row.error or "") or "can't be read" in (row.error or "") for row in rows)


def test_no_action_is_begun_while_the_policy_cannot_be_read(due: Scene):
    run_id = due.workflow.decided()
    unreadable = due.workflow.under(gone(due))
    for item in due.workflow.items(run_id, ACT_ITEMS):
        unreadable.act(run_id, item)
    outcomes = [f.outcome for f in due.workflow.conclude(run_id).findings]
    assert {outcome.result for outcome in outcomes} == {Result.REFUSED}
    assert all("the policy can't be read" in (outcome.because or "") for outcome in outcomes)
    assert counts(due) == [3, 3]


@pytest.mark.parametrize("other", [lambda scene: scene.policy + "# changed\n", gone], ids=["changed", "unreadable"])
def test_once_the_policy_has_changed_only_outcomes_are_told(scene: Scene, other: Callable[[Scene], str]):
    run_id = scene.workflow.acted()
    report = scene.workflow.under(other(scene)).conclude(run_id)
    assert {(f.step.name, f.outcome.result) for f in report.findings} == {(StepName.NONE, Result.PLANNED)}
    assert any(row.kind == "policy" and "only outcomes were reported" in (row.error or "") for row in report.coverage)
    assert [mail for mail in scene.mails() if "To: ana@example.com" in mail] == []
    assert {(f.step.name, f.outcome.result) for f in scene.workflow.run().findings} == {(StepName.WARN, Result.DONE)}


def test_outcomes_under_an_unreadable_policy_are_told_by_the_next_run(due: Scene):
    run_id, before = due.workflow.acted(), due.mails()
    report = due.workflow.under(gone(due)).conclude(run_id)
    assert {(f.step.name, f.outcome.result) for f in report.findings} == {(StepName.STOP, Result.DONE)}
    assert [row.status for row in report.coverage if row.kind == "policy"] == [Status.FAILED]
    assert due.mails() == before
    due.workflow.run()
    [told] = [mail for mail in due.mails() if mail not in before and "To: ana@example.com" in mail]
    assert "scaled in" in told
