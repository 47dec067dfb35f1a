"""The doctor as the roles of the template: the stack's own policies satisfy it, and what they don't grant is only what the doctor needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import boto3
import pytest

from deploy.company import company
from deploy.hub import hub
from deploy.principals import OWN_KEY, TEST_KEY, Principals, principals
from deploy.test_target_role import HUB, HUB_ROLE
from deploy.test_template import NAMES
from on_aws.test_lambda_event import CONTEXT
from reaper.aws.functions import sweep
from reaper_sandbox.aws.server import Server

POLICY = """
version: 1
defaults: {action: delete}
owners: {fallback: admins@example.com}
channels: [{type: ses, from: reaper@example.com, region: us-east-1}]
"""
ONLY_THE_DOCTOR_NEEDS = {"iam:SimulatePrincipalPolicy", "s3:ListBucket", "ses:GetEmailIdentity", "ses:GetAccount"}


@pytest.fixture
def stack(cloudformation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Principals]:
    """The stack's table and bucket, and the function's settings and key, under the template's policies for mode enforce."""
    with Server(datetime.now(UTC)) as server:
        for name, value in (server.env | {"AWS_ACCESS_KEY_ID": TEST_KEY}).items():
            monkeypatch.setenv(name, value)
        table = cloudformation["Resources"]["LedgerTable"]["Properties"]
        schema = {key: table[key] for key in ("AttributeDefinitions", "KeySchema", "BillingMode")}
        boto3.client("dynamodb").create_table(TableName="ledger", **schema)
        boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=POLICY, Type="String")
        boto3.client("s3").create_bucket(Bucket="reports-bucket")
        for name, value in {
            "AWS_ACCESS_KEY_ID": OWN_KEY,
            "REAPER_MODE": "enforce",
            "REAPER_POLICY": f"ssm:{NAMES['PolicyParameter']}",
            "REAPER_REGIONS": "us-east-1,eu-west-1",
            "REAPER_REPORTS": "s3://reports-bucket/reports",
            "REAPER_LEDGER": "dynamodb://ledger",
            "REAPER_MANIFESTS": "s3://reports-bucket/manifests",
            "REAPER_ROLE": NAMES["EnforceRole.Arn"],
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it has the test's own key
        yield principals(server, cloudformation)


def test_the_stacks_roles_lack_nothing_but_what_only_the_doctor_needs(stack: Principals):
    answer = sweep.handler({"doctor": True}, CONTEXT)  # type: ignore[arg-type]
    assert [check for check in answer["checks"] if check["status"] == "fix"] == []
    assert {check["missing"] for check in answer["checks"]} - {None} == ONLY_THE_DOCTOR_NEEDS
    denied = {action for action, _ in stack.role.denied + stack.own.denied}
    assert denied <= {*ONLY_THE_DOCTOR_NEEDS, "kms:Decrypt"}, "the last one would decrypt what it may not read"


def test_the_function_of_an_organization_sees_its_workflow(cloudformation, target_template, monkeypatch: pytest.MonkeyPatch):
    """As itself, although every account that it sweeps has a role of its own."""
    with company(cloudformation, "enforce", monkeypatch) as deployed:
        settings = {
            "AWS_ACCESS_KEY_ID": OWN_KEY,
            "REAPER_REGIONS": "us-east-1",
            "REAPER_EXCLUDE_ACCOUNTS": HUB,
            "REAPER_EXTERNAL_ID": "x-1",
            "REAPER_WORKFLOW": NAMES["Workflow"],
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        deployed.server.world.principals[OWN_KEY] = HUB_ROLE
        guard = hub(deployed.server, cloudformation, target_template)
        answer = sweep.handler({"doctor": True}, CONTEXT)  # type: ignore[arg-type]
    because = {(check["check"], check["status"]): check["because"] for check in answer["checks"]}
    assert because["credentials.aws", "ok"] == "signed in as arn:aws:sts::123456789012:user/moto"
    assert because["workflow", "ok"] == "1 permission for the workflow granted in ml-idle-reaper-sweep"
    assert "states:StartExecution" in because["workflow", "unknown"]
    assert "s3:PutObject" in because["runs", "unknown"], "it may not simulate, and writes nothing to find out"
    [without_role] = [check for check in answer["checks"] if check["status"] == "fix"]
    assert (without_role["check"], without_role["missing"]) == ("targets.aws", "sts:AssumeRole")
    assert without_role["fix"].startswith("Check the target role there"), "this identity may assume it already"
    assert {check["fix"] for check in answer["checks"] if check["missing"] in ONLY_THE_DOCTOR_NEEDS} == {None}
    assert {action for action, _ in guard.own.denied} <= {*ONLY_THE_DOCTOR_NEEDS, "iam:GetRole", "kms:Decrypt"}
