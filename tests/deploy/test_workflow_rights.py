"""The workflow as deployed: the built bundle as the functions of the state machine, as the roles of both templates and nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import boto3
import pytest

from deploy import step_functions
from deploy.company import ENDPOINTS, FORGOTTEN, HUB, RESEARCH, Company, deploy
from deploy.hub import Hub, hub
from deploy.principals import OWN_KEY, TEST_KEY
from deploy.sandboxes import Sandboxes
from deploy.test_bundle import bundle, libraries
from deploy.test_enforce import AFTER, BEFORE, DUE, NOW, POLICY, seed_actions, state
from deploy.test_target_role import HUB_ROLE
from deploy.test_template import NAMES
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault
from reaper_sandbox.aws.organization import Organization, TargetRole
from reaper_sandbox.aws.server import Server

__all__ = ["bundle", "libraries"]
HOME = ("us-east-1",)
ENGINES_OWN = {
    *("states:StartExecution", "states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"),
    *("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "kms:Encrypt", "logs:CreateLogStream", "logs:PutLogEvents"),
    *(f"logs:{verb}LogDelivery" for verb in ("Create", "Get", "Update", "Delete")),
    *("logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
}
"""What Step Functions needs for itself, and its interpreter here doesn't."""


@dataclass
class Deployment:
    """The company, the guard on every call, and the sandboxes of its functions."""

    company: Company
    guard: Hub
    sandboxes: Sandboxes


@pytest.fixture
def deployment(bundle, libraries, cloudformation, target_template, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """One region; in the hub and in one more account there is a resource for each action of each kind."""
    with Server(NOW) as server:
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # an earlier test may have left its key there
        for name, value in (server.env | {"AWS_ACCESS_KEY_ID": TEST_KEY}).items():
            monkeypatch.setenv(name, value)
        server.world.principals[OWN_KEY] = HUB_ROLE
        server.world.organization = organization = Organization()
        for account, name in ((HUB, "hub"), (RESEARCH, "research"), (FORGOTTEN, "forgotten")):
            organization.add(account, name, role=None, parent="ou-sand-research0" if account == RESEARCH else "r-sand")
            organization.regions[account] = HOME
        arn = f"arn:aws:iam::{RESEARCH}:role/ml-idle-reaper-target"
        organization.roles.append(TargetRole(arn=arn, principals=("*/ml-idle-reaper/*",), external_id="x-1"))
        for account in (HUB, RESEARCH):
            seed_actions(Account(server, account))
        environ = deploy(server, cloudformation, "enforce")
        boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=POLICY, Type="String", Overwrite=True)
        settings = {"REAPER_REGIONS": "all", "REAPER_EXTERNAL_ID": "x-1"}
        sandboxes = Sandboxes(libraries, bundle, server.env | environ | settings)
        functions = dict.fromkeys(("WorkflowFunction", "TargetFunction"), sandboxes)
        with step_functions.deployed(server, cloudformation, functions, width=2) as machine:
            guard = hub(server, cloudformation, target_template)
            yield Deployment(Company(server, environ, machine), guard, sandboxes)
        sandboxes.close()


def test_acts_in_two_accounts_need_exactly_the_rights_of_both_templates(deployment: Deployment):
    company, guard = deployment.company, deployment.guard
    first = company.report(company.workflow.run())
    company.days_pass(first)
    second = company.report(company.workflow.run())
    for account in (HUB, RESEARCH):
        done = {
            f["name"] for f in second["findings"] if f["account"] == account and f["outcome"] == "done" and f["step"] != "warn"
        }
        assert done >= DUE, [(f["name"], f["step"], f["outcome"], f["error"]) for f in second["findings"]]
        assert state(Account(company.server, account)) == AFTER
    failed = {(row["account"], row["status"], row["missing"]) for row in second["coverage"] if row["status"] != "ok"}
    assert failed == {(FORGOTTEN, "denied", "sts:AssumeRole")}
    assert guard.own.denied == []
    assert guard.enforcing.role.denied == []
    assert guard.machine.denied == []
    assert guard.target(RESEARCH).denied == []
    assert guard.target(RESEARCH).unused() == {"sts:GetCallerIdentity"}, "which AWS allows everybody; the rest is used"
    assert guard.machine.unused() == ENGINES_OWN
    units = {"organizations:ListAccountsForParent", "organizations:ListOrganizationalUnitsForParent"}
    by_hand = {"states:StartExecution"}
    assert {a for a in guard.own.unused() if a.split(":")[0] in {"organizations", "states", "sts", "s3"}} == units | by_hand
    assert guard.trusts
    assert all(guard.trusts)


@dataclass
class Killer:
    """A rule that kills a function at its first call that scales an endpoint: in the hub before it is carried out, elsewhere after that."""

    sandboxes: Sandboxes
    killed: set[str] = field(default_factory=set)

    def __call__(self, call: Call) -> Fault | None:
        is_first = call.operation == "UpdateEndpointWeightsAndCapacities" and call.account not in self.killed
        if not (is_first and self.sandboxes.kill("act", call.account)):
            return None
        self.killed.add(call.account)
        return Fault(closed=True) if call.account == HUB else Fault(lost=True)


def test_killed_functions_leave_nothing_untold_or_done_twice(deployment: Deployment):
    company = deployment.company
    company.days_pass(company.report(company.workflow.run(ENDPOINTS)))
    company.server.rules.append(Killer(deployment.sandboxes))
    company.server.calls.clear()
    killed = company.report(company.workflow.run(ENDPOINTS))
    counts = {
        account: Account(company.server, account).contents.endpoints["out"].variants[0].count for account in (HUB, RESEARCH)
    }
    assert counts == {HUB: BEFORE["out"], RESEARCH: AFTER["out"]}
    unreported = {f["account"]: (f["outcome"], f["error"]) for f in killed["findings"] if f["name"] == "out"}
    assert unreported == dict.fromkeys((HUB, RESEARCH), ("failed", "it isn't known whether the action was carried out"))
    [row] = [row["error"] for row in killed["coverage"] if row["kind"] == "acts"]
    assert "Runtime.ExitError" in row
    assert "(and 1 more)" in row
    again = company.report(company.workflow.run(ENDPOINTS))
    assert {f["step"] for f in again["findings"] if f["name"] == "out" and f["account"] == RESEARCH} != {"stop"}
    scaled = [c.account for c in company.server.calls if c.operation == "UpdateEndpointWeightsAndCapacities"]
    assert scaled.count(RESEARCH) == 1
    subjects = [mail["Content"]["Simple"]["Subject"]["Data"] for mail in company.mails()]
    assert subjects.count("1 idle ML resource was scaled in; 1 action was interrupted, and nothing has changed") == 1
