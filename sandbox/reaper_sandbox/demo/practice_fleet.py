"""The fleet to practice on: the demo's, with endpoints that can be stopped, and two more accounts in the same organization; and its policy."""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import serve, use
from reaper_sandbox.aws.fleet.traffic import DAY, ago, tags
from reaper_sandbox.aws.organization import Organization, TargetRole
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

PRACTICE_POLICY = """\
# The policy to practice with. Edit it, then run `reaper policy check {policy}`.
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 1d, remind_every: 7d}}
limits: {{max_acts: 8, max_share: 60%}}
owners: {{tags: ["reaper:owner", owner, email], domains: [example.com], fallback: ml-admins@example.com}}
channels: [{{type: folder, path: {mail}}}]
rules:
  - name: production is left alone
    match: {{tags: {{env: [prod, production]}}}}
    action: ignore
  - name: drafts may go
    match: {{kind: [sagemaker-endpoint, sagemaker-inference-component], name: "draft-*"}}
    action: delete
"""
HUB = "123456789012"
MEMBERS = {"210987654321": "vision research", "345678901234": "recommendations"}
"""The other accounts of the organization, whose management account is the hub."""
RESTORE_ROLE = "OrganizationAccountAccessRole"
"""The role that AWS Organizations creates in each account. It may create resources, which the role of a sweep may not."""
IDLE_ENDPOINTS = {
    HUB: {
        "fraud-idle": ("dana", Variant(instance="ml.m5.xlarge", count=3), 6),
        "ranker-idle": ("lee", Variant(instance="ml.g5.xlarge", count=2), 5),
        "draft-translator": ("mika", Variant(instance="ml.g4dn.xlarge"), 8),
    },
    "210987654321": {
        "segmentation-idle": ("noor", Variant(instance="ml.g5.2xlarge", count=2), 7),
        "draft-captions": ("noor", Variant(instance="ml.g4dn.xlarge"), 4),
    },
    "345678901234": {"similar-items-idle": ("lee", Variant(instance="ml.c5.2xlarge", count=4), 9)},
}
"""Endpoints by account, in addition to the demo's: owner, the only variant, and the days of silence."""
BUSY_ENDPOINTS = {"210987654321": "segmentation-busy", "345678901234": "home-page-busy"}


def add_organization(server: Server, now: datetime) -> None:
    """Add the organization, with the endpoints of its accounts in us-east-1. Each member has a role for sweeps, and one for restoring."""
    organization = server.world.organization = Organization()
    organization.add(HUB, "platform", role=None)
    for account_id, name in MEMBERS.items():
        organization.add(account_id, name)
        organization.roles.append(TargetRole(arn=f"arn:aws:iam::{account_id}:role/{RESTORE_ROLE}"))
    for account_id, endpoints in IDLE_ENDPOINTS.items():
        account = Account(server, account_id)
        for name, (owner, variant, days) in endpoints.items():
            _add_endpoint(account, name, owner, variant, now)
            use(account, name, variant.name, now, ago(now, days))
    for account_id, name in BUSY_ENDPOINTS.items():
        account = Account(server, account_id)
        _add_endpoint(account, name, "ciara", Variant(count=2), now)
        use(account, name, "AllTraffic", now, now - timedelta(minutes=25), peak=900)


def _add_endpoint(account: Account, name: str, owner: str, variant: Variant, now: datetime) -> None:
    account.endpoint(name, variants=(variant,), created=now - 45 * DAY, tags=tags(owner, "practice"))
    serve(account, name, (variant,), now)
