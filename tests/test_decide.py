"""Phase 2: leases, recalls, one plan, the plan file, limits and holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import Frail
from fakes.fake_deployment import POLICY, Enforcer, policy
from reaper import plan
from reaper.actions import hold_ledger, plan_file
from reaper.actions.plan_file import PlanFile
from reaper.decide import decide
from reaper.handover import Decided, Decision, Observed
from reaper.model import AnnouncedAction, Memory, Mode, Result, State, Status, StepName
from reaper.observe import observe
from reaper.run import OpenRun


def observed_run(there: Enforcer, mode: Mode = Mode.ENFORCE) -> tuple[OpenRun, Observed]:
    """The next run, observed."""
    opened = there.open_run(mode)
    return opened, observe(opened.run, opened.observe, opened.run.started_at)


def decided_run(there: Enforcer, mode: Mode = Mode.ENFORCE) -> Decided:
    opened, observed = observed_run(there, mode)
    return decide([observed], opened.decide)


def only(decided: Decided) -> Decision:
    [decision] = decided.decisions
    return decision


@pytest.fixture
def there() -> Enforcer:
    """One resource whose stop is due."""
    deployment = Enforcer(ledger=Frail())
    deployment.depot.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def test_nothing_observed_is_an_error(there: Enforcer):
    with pytest.raises(ValueError, match="no part was observed"):
        decide([], there.open_run().decide)


def test_what_is_due_is_decided_once_with_the_version_of_its_row(there: Enforcer):
    decided = decided_run(there)
    assert (only(decided).step.name, only(decided).row_version) == (StepName.STOP, there.memory("churn").version)
    assert decided.leased == (TARGET,)


def test_each_case_is_planned_once(there: Enforcer, monkeypatch: pytest.MonkeyPatch):
    planned: list[str] = []
    known = plan.plan_steps

    def counted(cases, *given, **more):
        cases = list(cases)
        planned.extend(case.resource.id for case in cases)
        return known(cases, *given, **more)

    monkeypatch.setattr(plan, "plan_steps", counted)
    decided_run(there)
    assert planned == [there.depot.id("churn")]


def test_what_is_busy_and_not_remembered_needs_no_decision(there: Enforcer):
    there.depot.add("busy", uses=[there.now - HOUR])
    assert only(decided_run(there)).case.resource.name == "churn"


@pytest.mark.parametrize("name", ["remembered", "on hours", "guest"])
def test_what_may_need_a_write_or_a_step_gets_a_decision(there: Enforcer, name: str):
    uses = {"uses": [there.now - HOUR]}
    there.depot.add(name, **uses, **({"host": "churn"} if name == "guest" else {}))
    if name == "remembered":
        there.ledger.remember(there.depot.id(name), Memory(idle_since=there.now - 9 * DAY), 0, there.now)
    if name == "on hours":
        rule = '\nrules: [{name: office, match: {name: "on hours"}, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
        there.policy = policy(POLICY + rule)
    assert name in {d.case.resource.name for d in decided_run(there).decisions}


def test_a_snoozed_resource_is_reported_exempt_and_kept_as_judged(there: Enforcer):
    memory = there.memory("churn")
    snoozed = replace(memory, snoozed_until=there.now + DAY, snoozed_at=there.now)
    there.ledger.remember(there.depot.id("churn"), snoozed, memory.version, there.now)
    decision = only(decided_run(there))
    assert (decision.verdict.state, decision.case.verdict.state) == (State.EXEMPT, State.IDLE)


def test_a_part_of_another_version_is_refused(there: Enforcer):
    opened, observed = observed_run(there)
    old = replace(observed, run=replace(observed.run, version="0.0.1"))
    decided = decide([old], opened.decide)
    assert (only(decided).step.name, only(decided).row_version, decided.leased) == (StepName.NONE, None, ())
    [row] = decided.coverage
    assert (row.status, row.kind) == (Status.FAILED, "sagemaker-endpoint")
    assert "version 0.0.1 observed it" in (row.error or "")


def test_a_target_that_another_run_has_is_left_alone(there: Enforcer):
    assert there.ledger.take_lease(TARGET, "another run", there.now, HOUR)
    decided = decided_run(there)
    assert (only(decided).step.name, only(decided).row_version, decided.leased) == (StepName.NONE, None, ())
    assert only(decided).step.because == "another sweep is processing this target"


def test_the_leases_are_given_back_if_deciding_breaks_off(there: Enforcer):
    assert isinstance(there.ledger, Frail)

    def end(call: str, id_: str) -> None:
        if call == "recall":
            raise MemoryError

    there.ledger.blunder = end
    with pytest.raises(MemoryError):
        decided_run(there)
    assert there.ledger.take_lease(TARGET, "another run", there.now, HOUR)


def test_an_unfinished_action_of_an_unlisted_resource_is_recalled_and_closed(there: Enforcer):
    assert isinstance(there.ledger, Frail)

    def end(call: str, name: str) -> None:
        if call == "carried":
            raise MemoryError

    there.depot.blunder = end
    with pytest.raises(MemoryError):
        there.sweep()
    there.depot.blunder = lambda call, name: None
    del there.depot.things["churn"]
    there.now += HOUR
    decided = decided_run(there)
    [action] = decided.untold
    assert (action.hint.id, action.outcome.result) == (there.depot.id("churn"), Result.FAILED)
    assert there.memory("churn").last_action_result is Result.FAILED
    assert [row.kind for row in decided.coverage] == ["acts"]


def test_holds_are_recorded_by_deciding(there: Enforcer):
    there.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    decision = only(decided_run(there))
    [hold] = hold_ledger.current_holds(there.ledger)
    assert (decision.step.name, decision.on_hold_since) == (StepName.HOLD, (hold.since,))


def test_holds_are_recorded_before_any_mail(there: Enforcer):
    there.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    there.depot.add("new")
    on_hold: list[int] = []
    there.post.heard = lambda message: on_hold.append(len(hold_ledger.current_holds(there.ledger)))
    there.sweep()
    assert on_hold == [1, 1]


def test_an_audit_says_what_is_due_and_writes_nothing(there: Enforcer):
    there.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    decided = decided_run(there, Mode.AUDIT)
    assert (only(decided).step.name, decided.leased) == (StepName.HOLD, ())
    assert hold_ledger.current_holds(there.ledger) == []


def test_an_audit_without_its_ledger_plans_as_if_nothing_were_remembered(there: Enforcer):
    opened, observed = observed_run(there, Mode.AUDIT)
    decided = decide([observed], replace(opened.decide, ledger=None))
    assert only(decided).step.name is StepName.WARN


@pytest.mark.parametrize(
    ("agreed", "step", "result"),
    [
        pytest.param({}, StepName.NONE, Result.PLANNED, id="not in the plan"),
        pytest.param({"move": "delete"}, StepName.STOP, Result.REFUSED, id="another action"),
        pytest.param({"move": "stop", "seen": {"status": "Failed"}}, StepName.STOP, Result.REFUSED, id="changed since"),
        pytest.param({"move": "stop"}, StepName.STOP, Result.PLANNED, id="as agreed"),
    ],
)
def test_a_plan_file_narrows_what_is_decided(there: Enforcer, agreed: dict, step: StepName, result: Result):
    opened, observed = observed_run(there)
    case = observed.cases[0]
    seen = plan_file._resource_state(case) | agreed.get("seen", {})
    actions = {case.resource.id: {"id": case.resource.id, **agreed, "seen": seen}} if agreed else {}
    file = PlanFile(actions_by_id=actions, held_count=0, scope={}, policy_sha256="", made_at=there.now)
    decision = only(decide([observed], replace(opened.decide, agreed=file)))
    assert (decision.step.name, decision.outcome.result) == (step, result)


def test_what_is_due_is_reminded_of_in_a_run_that_only_announces(there: Enforcer):
    there.now += 5 * DAY
    decision = only(decided_run(there, Mode.ANNOUNCE))
    assert (decision.step.name, there.memory("churn").announced_action) == (StepName.REMIND, AnnouncedAction.STOP)


def test_several_parts_are_one_decision_under_one_limit(there: Enforcer):
    west = Enforcer(ledger=there.ledger, regions=("eu-west-1",))
    west.depot.add("west", region="eu-west-1")
    west.now = there.now - 3 * DAY
    west.sweep()
    there.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 1"))
    opened, here = observed_run(there)
    west.now = there.now
    part = replace(observed_run(west)[1], run=opened.run)
    decided = decide(iter([here, part]), opened.decide)
    assert [d.step.name for d in decided.decisions] == [StepName.HOLD, StepName.HOLD]
    assert len(decided.leased) == 2
