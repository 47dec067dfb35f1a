"""Phase 2: leases, recalls, one plan, the plan file, limits and holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import DAY, HOUR, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import POLICY, FakeDeployment, policy, standing_holds
from fakes.records import a_record
from fakes.sample_findings import report
from reaper import plan
from reaper.decide import decide
from reaper.finding import Finding, Step, finding_of, judged_case
from reaper.handover import Decided, Observed
from reaper.model import AnnouncedAction, Mode, Result, State, Status, StepName
from reaper.observe import observe
from reaper.pending import plan_file
from reaper.record import Snooze
from reaper.run import OpenRun
from reaper.settings import Settings


def observed_run(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE) -> tuple[OpenRun, Observed]:
    """The next run, observed."""
    opened = deployment.open_run(mode)
    return opened, observe(opened.run, next(iter(opened.observe)), opened.run.started_at)


def decided_run(deployment: FakeDeployment, mode: Mode = Mode.ENFORCE) -> Decided:
    opened, observed = observed_run(deployment, mode)
    return decide([observed], opened.decide)


def only(decided: Decided) -> Finding:
    [decision] = decided.findings
    return decision


@pytest.fixture
def deployment() -> FakeDeployment:
    """One resource whose stop is due."""
    deployment = FakeDeployment(ledger=FailingLedger())
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def test_nothing_observed_is_an_error(deployment: FakeDeployment):
    with pytest.raises(ValueError, match="no part was observed"):
        decide([], deployment.open_run().decide)


def test_what_is_due_is_decided_once_with_the_version_of_its_row(deployment: FakeDeployment):
    decided = decided_run(deployment)
    assert (only(decided).step.name, only(decided).record_version) == (StepName.STOP, deployment.record("churn").version)
    assert decided.leased == (TARGET,)


def test_each_case_is_planned_once(deployment: FakeDeployment, monkeypatch: pytest.MonkeyPatch):
    planned: list[str] = []
    known = plan.plan_step

    def counted(view):
        planned.append(view.case.resource.id)
        return known(view)

    monkeypatch.setattr(plan, "plan_step", counted)
    decided_run(deployment)
    assert planned == [deployment.cloud.id("churn")]


def test_what_is_busy_and_not_remembered_needs_no_decision(deployment: FakeDeployment):
    deployment.cloud.add("busy", uses=[deployment.now - HOUR])
    assert only(decided_run(deployment)).case.resource.name == "churn"


@pytest.mark.parametrize("name", ["remembered", "on hours", "guest"])
def test_what_may_need_a_write_or_a_step_gets_a_decision(deployment: FakeDeployment, name: str):
    uses = {"uses": [deployment.now - HOUR]}
    deployment.cloud.add(name, **uses, **({"host": "churn"} if name == "guest" else {}))
    if name == "remembered":
        deployment.ledger.write_record(
            deployment.cloud.id(name), a_record(idle_since=deployment.now - 9 * DAY), 0, deployment.now
        )
    if name == "on hours":
        rule = '\nrules: [{name: office, match: {name: "on hours"}, hours: {on: "mon-fri 07:00-21:00", tz: UTC}}]'
        deployment.policy = policy(POLICY + rule)
    assert name in {d.case.resource.name for d in decided_run(deployment).findings}


def test_a_snoozed_resource_is_reported_exempt_and_kept_as_judged(deployment: FakeDeployment):
    snooze = Snooze(until=deployment.now + DAY, at=deployment.now)
    deployment.ledger.write_snooze(deployment.cloud.id("churn"), snooze, 0, deployment.now)
    decision = only(decided_run(deployment))
    assert (decision.case.verdict.state, judged_case(decision).verdict.state) == (State.EXEMPT, State.IDLE)


def test_a_part_of_another_version_is_refused(deployment: FakeDeployment):
    opened, observed = observed_run(deployment)
    old = replace(observed, run=replace(observed.run, version="0.0.1"))
    decided = decide([old], opened.decide)
    assert (only(decided).step.name, only(decided).record_version, decided.leased) == (StepName.NONE, None, ())
    [row] = decided.coverage
    assert (row.status, row.kind) == (Status.FAILED, "sagemaker-endpoint")
    assert "version 0.0.1 observed it" in (row.error or "")


def test_a_target_that_another_run_has_is_left_alone(deployment: FakeDeployment):
    assert deployment.ledger.take_lease(TARGET, "another run", deployment.now, HOUR)
    decided = decided_run(deployment)
    assert (only(decided).step.name, only(decided).record_version, decided.leased) == (StepName.NONE, None, ())
    assert only(decided).step.because == "another sweep is processing this target"


def test_the_leases_are_given_back_if_deciding_breaks_off(deployment: FakeDeployment):
    assert isinstance(deployment.ledger, FailingLedger)

    def end(call: str, id_: str) -> None:
        if call == "recall":
            raise MemoryError

    deployment.ledger.fail_on = end
    with pytest.raises(MemoryError):
        decided_run(deployment)
    assert deployment.ledger.take_lease(TARGET, "another run", deployment.now, HOUR)


def test_an_unfinished_action_of_an_unlisted_resource_is_closed(deployment: FakeDeployment):
    assert isinstance(deployment.ledger, FailingLedger)

    def end(call: str, name: str) -> None:
        if call == "carried":
            raise MemoryError

    deployment.cloud.fail_on = end
    with pytest.raises(MemoryError):
        deployment.sweep()
    deployment.cloud.fail_on = lambda call, name: None
    del deployment.cloud.things["churn"]
    deployment.now += HOUR
    decided = decided_run(deployment)
    [action] = decided.unreported
    assert (action.act.id, action.outcome.result) == (deployment.cloud.id("churn"), Result.FAILED)
    assert deployment.record("churn").act.result is Result.FAILED
    assert [row.kind for row in decided.coverage] == ["acts"]


def test_holds_are_recorded_by_deciding(deployment: FakeDeployment):
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    decision = only(decided_run(deployment))
    [hold] = standing_holds(deployment)
    assert (decision.step.name, decision.on_hold_since) == (StepName.HOLD, (hold.since,))


def test_holds_are_recorded_before_any_mail(deployment: FakeDeployment):
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    deployment.cloud.add("new")
    on_hold: list[int] = []
    deployment.channel.on_message = lambda message: on_hold.append(len(standing_holds(deployment)))
    deployment.sweep()
    assert on_hold == [1, 1]


def test_an_audit_says_what_is_due_and_writes_nothing(deployment: FakeDeployment):
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 0"))
    decided = decided_run(deployment, Mode.AUDIT)
    assert (only(decided).step.name, decided.leased) == (StepName.HOLD, ())
    assert standing_holds(deployment) == []


def test_an_audit_without_its_ledger_plans_without_memories(deployment: FakeDeployment):
    opened, observed = observed_run(deployment, Mode.AUDIT)
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
def test_a_plan_file_narrows_what_is_decided(deployment: FakeDeployment, agreed: dict, step: StepName, result: Result):
    opened, observed = observed_run(deployment)
    case = observed.cases[0]
    due = replace(finding_of(case, "", deployment.now), step=Step(name=StepName(agreed.get("move", "stop")), because=""))
    made = plan_file.plan_json(report(due), plan_file.scope_of(Settings()), deployment.now)
    file = plan_file.parse_plan(made, "p", deployment.now)
    [action] = file.acts
    action = replace(action, seen={**action.seen, **agreed.get("seen", {})})
    file = replace(file, acts=(action,) if agreed else ())
    decision = only(decide([observed], replace(opened.decide, agreed=file)))
    assert (decision.step.name, decision.outcome.result) == (step, result)


def test_what_is_due_is_reminded_of_in_a_run_that_only_announces(deployment: FakeDeployment):
    deployment.now += 5 * DAY
    decision = only(decided_run(deployment, Mode.ANNOUNCE))
    assert (decision.step.name, deployment.record("churn").notice.action) == (StepName.REMIND, AnnouncedAction.STOP)


def test_several_parts_are_one_decision_under_one_limit(deployment: FakeDeployment):
    west = FakeDeployment(ledger=deployment.ledger, regions=("eu-west-1",))
    west.cloud.add("west", region="eu-west-1")
    west.now = deployment.now - 3 * DAY
    west.sweep()
    deployment.policy = policy(POLICY.replace("max_acts: 20", "max_acts: 1"))
    opened, case = observed_run(deployment)
    west.now = deployment.now
    part = replace(observed_run(west)[1], run=opened.run)
    decided = decide(iter([case, part]), opened.decide)
    assert [d.step.name for d in decided.findings] == [StepName.HOLD, StepName.HOLD]
    assert len(decided.leased) == 2
