"""An organization of four accounts with three regions each, and the deployment of its hub: table, bucket, policy and settings as in the template.

In every region of every account there is one idle endpoint of the same owner. One account has no target role.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from deploy import step_functions
from deploy.principals import TEST_KEY
from deploy.step_functions import Workflow
from deploy.test_template import NAMES
from fakes.lambda_context import lambda_context
from reaper.aws.functions import workflow as workflow_function
from reaper.aws.functions.event import event_settings
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.policy.file import load_policy
from reaper.report.json import report_json
from reaper.run import run
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import Organization
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

HUB, RESEARCH, APPS, FORGOTTEN = "123456789012", "222222222222", "333333333333", "444444444444"
"""The last one has no role."""
ACCOUNTS = {HUB: "hub", RESEARCH: "research", APPS: "apps", FORGOTTEN: "forgotten"}
REGIONS = ("us-east-1", "eu-west-1", "eu-central-1")
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
OWNER = "ana@example.com"
POLICY = """
version: 1
defaults: {action: stop, idle_after: 24h, grace: 3d}
limits: {max_share: 100%, max_acts: 20}
owners: {tags: [owner], domains: [example.com], fallback: admins@example.com}
channels: [{type: ses, from: reaper@example.com, region: us-east-1}]
"""
ENDPOINTS = {"kinds": ["sagemaker-endpoint"], "regions": ["us-east-1"]}
"""A run over less, which is quicker."""
CONTEXT = lambda_context("target")


def days_pass(ledger: Ledger, ids: Iterable[str], days: int = 4) -> None:
    """The ledger as if everything in it had been written so many days earlier: the functions read the real clock."""
    now = datetime.now(UTC)

    def moved(stored: Any, *names: str) -> Any:
        return replace(stored, **{name: at - timedelta(days=days) for name in names if (at := getattr(stored, name))})

    for id_, known in ledger.recall(ids, now).readable.items():
        notice = known.notice and moved(known.notice, "warned_at", "reminded_at", "not_before")
        earlier = replace(moved(known, "idle_since", "seen_idle_at"), notice=notice)
        assert ledger.write_record(id_, earlier, known.version, now)


@dataclass
class Company:
    """The clouds of the company, and the state machine over them. `environ`: the settings of the deployed functions."""

    server: Server
    environ: Mapping[str, str]
    workflow: Workflow

    @property
    def ledger(self) -> Ledger:
        return opening.open_ledger("dynamodb://ledger", {})

    def counts(self) -> dict[str, int]:
        """How many instances each endpoint runs, by its name."""
        return {
            endpoint_name(account, region): Account(self.server, account, region)
            .contents.endpoints[endpoint_name(account, region)]
            .variants[0]
            .count
            for account in ACCOUNTS
            for region in REGIONS
        }

    def report(self, ended: Mapping[str, Any]) -> dict[str, Any]:
        """The report that an execution stored."""
        assert ended["status"] == "SUCCEEDED", (ended.get("error"), ended.get("cause"))
        bucket, _, key = ended["output"]["stored"].removeprefix("s3://").partition("/")
        report: dict[str, Any] = json.loads(boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
        return report

    def mails(self) -> list[dict[str, Any]]:
        """Every mail that SES was asked to send."""
        return [call.params for call in self.server.calls if call.operation == "SendEmail"]

    def mails_to(self, address: str) -> list[dict[str, Any]]:
        return [mail for mail in self.mails() if address in mail["Destination"]["ToAddresses"]]

    def days_pass(self, report: Mapping[str, Any], days: int = 4) -> None:
        """The ledger as if everything in it had been written so many days earlier: the functions read the real clock."""
        days_pass(self.ledger, [f["id"] for f in report["findings"]], days)

    def due(self) -> None:
        """Have the owner notified of everything, in one process, and let the grace period pass."""
        settings = event_settings(os.environ, ENDPOINTS)
        report = report_json(run(settings, load_policy(settings.policy), lambda: datetime.now(UTC)))
        self.days_pass(report)
        self.server.calls.clear()

    def sweep(self) -> dict[str, Any]:
        """The report of an execution over the endpoints of one region."""
        return self.report(self.workflow.run(ENDPOINTS))


def endpoint_name(account: str, region: str) -> str:
    return f"{ACCOUNTS[account]}-{region}"


def invoke(event: dict[str, Any]) -> dict[str, Any]:
    """The handler in this very process."""
    answer: dict[str, Any] = workflow_function.handler(event, CONTEXT)  # type: ignore[arg-type]
    return answer


def seed(server: Server) -> None:
    """The organization and its endpoints."""
    server.world.organization = organization = Organization()
    for account, name in ACCOUNTS.items():
        organization.add(account, name, role=None if account in {HUB, FORGOTTEN} else "ml-idle-reaper-target")
        organization.regions[account] = REGIONS
        for region in REGIONS:
            there, endpoint = Account(server, account, region), endpoint_name(account, region)
            there.endpoint(endpoint, variants=[Variant(count=3)], tags={"owner": OWNER})
            there.alive(endpoint, "AllTraffic", NOW - 15 * DAY, NOW + DAY)


def deploy(server: Server, cloudformation: Mapping[str, Any], mode: str) -> dict[str, str]:
    """The stack's own table and bucket, and the settings that it gives the functions."""
    table = cloudformation["Resources"]["LedgerTable"]["Properties"]
    schema = {key: table[key] for key in ("AttributeDefinitions", "KeySchema", "BillingMode")}
    boto3.client("dynamodb").create_table(TableName="ledger", **schema)
    boto3.client("sesv2").create_email_identity(EmailIdentity="reaper@example.com")
    boto3.client("s3").create_bucket(Bucket="reports-bucket")
    boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=POLICY, Type="String")
    return {
        "REAPER_MODE": mode,
        "REAPER_POLICY": f"ssm:{NAMES['PolicyParameter']}",
        "REAPER_REGIONS": ",".join(REGIONS),
        "REAPER_ACCOUNTS": "organization",
        "REAPER_REPORTS": "s3://reports-bucket/reports",
        "REAPER_RUNS": "s3://reports-bucket/runs",
        "REAPER_WORKFLOW": NAMES["Workflow"],
        "REAPER_DEPLOYMENT": "arn:aws:cloudformation:us-east-1:123456789012:stack/ml-idle-reaper/1f0c",
        **({"REAPER_LEDGER": "dynamodb://ledger"} if mode != "audit" else {}),
        **(
            {"REAPER_MANIFESTS": "s3://reports-bucket/manifests", "REAPER_ROLE": NAMES["EnforceRole.Arn"]}
            if mode == "enforce"
            else {}
        ),
    }


@contextmanager
def company(cloudformation: Mapping[str, Any], mode: str, patch: pytest.MonkeyPatch) -> Iterator[Company]:
    """The company with its deployment. Its functions run in this process, one after the other as separate processes would."""
    with Server(NOW) as server:
        for name, value in (server.env | {"AWS_ACCESS_KEY_ID": TEST_KEY}).items():
            patch.setenv(name, value)
        seed(server)
        environ = deploy(server, cloudformation, mode)
        for name, value in environ.items():
            patch.setenv(name, value)
        boto3.setup_default_session()
        with step_functions.deployed(
            server, cloudformation, dict.fromkeys(("WorkflowFunction", "TargetFunction"), invoke)
        ) as machine:
            yield Company(server, environ, machine)
        boto3.DEFAULT_SESSION = None  # type: ignore[assignment]
