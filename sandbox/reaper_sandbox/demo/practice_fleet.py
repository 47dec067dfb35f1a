"""The fleet to practice on: the demo's, and endpoints of which several instances run, so that some can be stopped; and its policy."""

from __future__ import annotations

from datetime import datetime

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import serve, use
from reaper_sandbox.aws.fleet.traffic import DAY, ago, tags
from reaper_sandbox.aws.records import Variant

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
    match: {{kind: sagemaker-endpoint, name: "draft-*"}}
    action: delete
"""
IDLE_ENDPOINTS = {
    "fraud-idle": ("dana", Variant(instance="ml.m5.xlarge", count=3), 6),
    "ranker-idle": ("lee", Variant(instance="ml.g5.xlarge", count=2), 5),
    "draft-translator": ("mika", Variant(instance="ml.g4dn.xlarge"), 8),
}
"""What is added to the demo's fleet: owner, the only variant, and the days of silence."""


def add_endpoints(account: Account, now: datetime) -> None:
    """Add these endpoints to one region of an account."""
    for name, (owner, variant, days) in IDLE_ENDPOINTS.items():
        account.endpoint(name, variants=(variant,), created=now - 45 * DAY, tags=tags(owner, "practice"))
        serve(account, name, (variant,), now)
        use(account, name, variant.name, now, ago(now, days))
