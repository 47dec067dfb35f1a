"""AWS doesn't start notebooks on Amazon Linux 1 and 2 again, so the reaper neither stops them nor promises to."""

from __future__ import annotations

from datetime import timedelta

import boto3
import pytest

from fakes.memory_ledger import InMemoryLedger
from fakes.planned import plan_step
from fakes.sweeps import SweepOrder, sweep
from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper import registry
from reaper.aws import targets
from reaper.case import Coverage
from reaper.errors import CloudError
from reaper.model import State, Status, StepName
from reaper.notices import item
from reaper.observing import cache
from reaper.policy.parse import parse_policy
from reaper.record import NO_RECORD, NO_SNOOZES
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, error, garbage, on
from reaper_sandbox.aws.server import Server

KIND, DESCRIBE = "sagemaker-notebook", "sagemaker:DescribeNotebookInstance"
OLD = ["notebook-al1-v1", "notebook-al2-v1", "notebook-al2-v2", "notebook-al2-v3", ""]
NEW = ["notebook-al2023-v1", "notebook-al2023-v2"]
STOP_RULE = "{version: 1, rules: [{name: dev, action: stop, act_on: likely, match: {name: 'nb*'}}]}"
HOURS = "hours: {on: 'mon-sun 00:00-00:05', tz: UTC, force: true}"
HOURS_RULE = f"{{version: 1, rules: [{{name: dev, action: stop, act_on: likely, match: {{kind: {KIND}}}, {HOURS}}}]}}"


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, KIND)


def idle_notebook(account: Account, name: str = "nb", **more: str):
    """Silent for days, as `Busy` proves."""
    notebook = account.notebook(name, changed=NOW - 10 * DAY, **more)
    account.busy_steadily(notebook.arn, NOW - 15 * DAY, NOW)
    return notebook


@pytest.mark.parametrize("platform", OLD, ids=lambda name: name or "none")
@pytest.mark.parametrize("rule", [STOP_RULE, HOURS_RULE], ids=["stop", "hours"])
def test_an_old_platform_blocks_the_stop_before_any_notice(account: Account, run_sweep: Sweep, platform: str, rule: str):
    idle_notebook(account, PlatformIdentifier=platform)
    finding = run_sweep(KIND, policy=rule).findings["nb"]
    assert finding.case.verdict.state is State.IDLE
    assert "AWS doesn't start it again" in finding.case.blocked[StepName.STOP].because
    assert item.stop_command(finding.case) is None
    step = plan_step(finding.case, NO_RECORD, NO_SNOOZES, NOW)
    assert (step.name, "sets office hours" in step.because) == (StepName.WARN, False)
    assert finding.next.at is None


@pytest.mark.parametrize("platform", NEW)
def test_a_new_platform_is_stopped_as_before(account: Account, run_sweep: Sweep, platform: str):
    idle_notebook(account, PlatformIdentifier=platform)
    finding = run_sweep(KIND, policy=STOP_RULE).findings["nb"]
    assert finding.case.blocked[StepName.STOP] is None
    assert "stop-notebook-instance" in item.stop_command(finding.case).line


@pytest.mark.parametrize(
    ("platform", "step"), [("notebook-al2-v3", StepName.NONE), ("notebook-al2023-v1", StepName.WARN)], ids=["old", "new"]
)
def test_force_never_stops_an_old_one_in_use(account: Account, run_sweep: Sweep, platform: str, step: StepName):
    account.busy(idle_notebook(account, PlatformIdentifier=platform).arn, NOW - HOUR)
    finding = run_sweep(KIND, policy=HOURS_RULE).findings["nb"]
    assert finding.case.verdict.state is State.ACTIVE
    assert plan_step(finding.case, NO_RECORD, NO_SNOOZES, NOW).name is step


@pytest.mark.parametrize("fault", [denied(), garbage(), error(400)], ids=["denied", "garbled", "failed"])
def test_what_could_not_be_described_is_not_stopped(account: Account, server: Server, run_sweep: Sweep, fault):
    idle_notebook(account)
    server.rules.append(on("DescribeNotebookInstance", fault))
    result = run_sweep(KIND, policy=STOP_RULE)
    case = result.findings["nb"].case
    assert (case.verdict.state, item.stop_command(case)) == (State.IDLE, None)
    assert case.blocked[StepName.STOP].because == "its platform wasn't read, and AWS may not start it again"
    assert result.coverage(KIND).status is not Status.OK


def test_a_notebook_that_is_gone_since_is_not_stopped(account: Account, server: Server, run_sweep: Sweep):
    idle_notebook(account)
    server.rules.append(on("DescribeNotebookInstance", error(400, "ValidationException", "RecordNotFound")))
    result = run_sweep(KIND)
    assert "its platform wasn't read" in result.findings["nb"].case.blocked[StepName.STOP].because


def test_only_those_that_run_are_described(account: Account, run_sweep: Sweep):
    idle_notebook(account)
    for status in ("Stopped", "Stopping", "Failed", "Updating"):
        account.notebook(f"nb-{status}", status=status)
    assert run_sweep(KIND).coverage(KIND).calls[DESCRIBE] == 1


class Sweeper:
    """Sweeps that share one ledger."""

    def __init__(self) -> None:
        self.ledger = InMemoryLedger()

    def run(self, policy: str = "version: 1") -> tuple[str, Coverage]:
        """What blocks its stop, and what was called."""
        known = cache.ConfigurationCache(ledger=self.ledger, now=NOW, may_write=True, report_failure=print)
        order = SweepOrder(policy=parse_policy(policy, "policy", registry.kind_names()), now=NOW, cache=known)
        report = sweep(targets.target_sessions(["us-east-1"], (), boto3.Session()), [registry.kind(KIND)], order)
        blocked = report.findings[0].case.blocked[StepName.STOP]
        return blocked.because if blocked else "", report.coverage[0]


@pytest.mark.parametrize(
    "policy",
    ["version: 1", "{version: 1, rules: [{name: all, action: delete, match: {name: '*'}}]}"],
    ids=["plain", "with deletes"],
)
def test_an_unchanged_notebook_is_described_once(account: Account, policy: str):
    idle_notebook(account, PlatformIdentifier="notebook-al2-v3")
    sweeper = Sweeper()
    (first, before), (second, after) = sweeper.run(policy), sweeper.run(policy)
    assert (first, before.calls[DESCRIBE], after.calls.get(DESCRIBE, 0)) == (second, 1, 0)
    assert "notebook-al2-v3 is older than Amazon Linux 2023" in second


def test_a_changed_notebook_is_described_again(account: Account):
    notebook = idle_notebook(account, PlatformIdentifier="notebook-al2-v3")
    sweeper = Sweeper()
    sweeper.run()
    notebook.extra["PlatformIdentifier"], notebook.changed = "notebook-al2023-v1", NOW - 2 * DAY
    because, after = sweeper.run()
    assert (because, after.calls[DESCRIBE]) == ("", 1)


@pytest.mark.parametrize("platform", OLD, ids=lambda name: name or "none")
def test_the_look_refuses_to_start_an_old_one(account: Account, stage: Stage, platform: str):
    account.notebook("nb", status="Stopped", PlatformIdentifier=platform)
    with pytest.raises(Barred, match="AWS doesn't start it again"):
        stage.move("nb", StepName.START)
    assert not stage.parameters("sagemaker:StartNotebookInstance")


def test_the_look_refuses_to_stop_one_that_was_replaced_by_an_old_one(account: Account, stage: Stage):
    notebook = account.notebook("nb")
    resource = stage.resource("nb")
    notebook.extra["PlatformIdentifier"] = "notebook-al2-v1"
    assert (
        "AWS doesn't start it again" in registry.kind(KIND).blocked_actions(stage.again(resource).resource)[StepName.STOP].because
    )


@pytest.mark.parametrize(
    ("platform", "instance", "words"),
    [
        (
            "notebook-al2-v3",
            "ml.t3.medium",
            "has to be moved to notebook-al2023-v1 .`aws sagemaker update-notebook-instance`",
        ),
        ("notebook-al2-v3", "ml.p3.2xlarge", "has to be recreated on notebook-al2023-v1"),
        ("notebook-al1-v1", "ml.t3.medium", "has to be recreated on notebook-al2023-v1"),
    ],
)
def test_an_undo_names_the_move(account: Account, stage: Stage, server: Server, platform: str, instance: str, words: str):
    notebook = account.notebook("nb", instance=instance)
    _, manifest = stage.move("nb", StepName.STOP)
    notebook.extra["PlatformIdentifier"] = platform
    with pytest.raises(CloudError, match=words):
        stage.undo(manifest)
    assert not stage.parameters("sagemaker:StartNotebookInstance")


def test_an_undo_starts_what_was_moved(account: Account, stage: Stage, server: Server):
    notebook = account.notebook("nb")
    _, manifest = stage.move("nb", StepName.STOP)
    notebook.extra["PlatformIdentifier"] = "notebook-al2-v3"
    client = boto3.client("sagemaker", region_name="us-east-1")
    with pytest.raises(client.exceptions.ClientError, match="can no longer be created or started"):
        client.start_notebook_instance(NotebookInstanceName="nb")
    client.update_notebook_instance(NotebookInstanceName="nb", PlatformIdentifier="notebook-al2023-v1")
    server.now = NOW + timedelta(minutes=5)
    assert stage.undo(manifest).because == "it is starting"
