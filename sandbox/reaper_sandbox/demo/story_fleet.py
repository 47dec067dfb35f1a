"""The fleet of the story: one team's endpoints and notebook on AWS, its GPU cluster and instances on Azure, and its policy.

Everything is set up at the start; later events are in `story_events`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.azure.subscription import Thing

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
STORY_START = datetime(2026, 11, 2, tzinfo=UTC)
"""A Monday. The story always plays in the same two weeks, so that two runs can be compared."""
STORY_END = STORY_START + 14 * DAY
OUTAGE_START = STORY_START + 9 * DAY + 6 * HOUR
"""The second Wednesday. From then on CloudWatch gets no Invocations of the shop, although it is in use."""
FLEET_CREATED_AT = STORY_START - 30 * DAY
MANAGER = "nina@example.com"
"""Of everyone with an endpoint."""
RESTORED_TAG = "ml-idle-reaper:restored"
REGION, SUBSCRIPTION = "us-east-1", "11111111-1111-1111-1111-111111111111"
STORY_POLICY = """\
# The story's policy: three days of notice, then stop. What a stop leaves of `recommender-*` is deleted later. Only `legacy-*` may be deleted at
# once, and dev notebooks keep office hours. Nothing is stopped or deleted in the weekend of a release.
version: 1
defaults: {action: stop, idle_after: 24h, grace: 3d, remind_every: 7d, freeze: [release]}
calendars:
  company-day: {dates: [2026-11-10, 2027-11-10]}
  release: {dates: [2026-11-14/2026-11-15]}
limits: {max_acts: 20, max_share: 25%, max_jump: 25%}
owners: {tags: [owner], domains: [example.com], fallback: ml-admins@example.com}
escalate: {after: 1 reminder, to: [tag:manager]}
notify_above: {usd_per_day: 3}
notices: {send: "mon-fri 09:00-20:00"}
accept: [{match: {name: fair-demo}, until: 2026-11-08, reason: the trade fair, by: pat}]
rules:
  - name: legacy may go
    match: {name: "legacy-*"}
    action: delete
  - name: one instance is too many
    match: {name: "recommender-*"}
    grace: 3d
    then: {action: delete, after: 5d}
  - name: dev machines keep office hours
    match: {name: "dev-*"}
    idle_after: 2h
    grace: 1h
    hours: {on: "mon-fri 09:00-19:00", tz: UTC, start: ours, except: [company-day]}
"""
BUSY_ENDPOINTS = ("search", "checkout", "ranking", "suggest", "forecast", "returns", "reviews", "vision")
"""Endpoints in use day and night."""
SILENT_ENDPOINTS = {
    "recommender-old": ("lee", (Variant(instance="ml.g5.xlarge", count=3),), 6),
    "churn-model": ("tom", (Variant(instance="ml.m5.2xlarge", count=2),), 4),
    "fraud-scorer": ("ana", (Variant(instance="ml.g4dn.xlarge", count=2),), 3),
    "pricing-ab": ("sam", (Variant(instance="ml.m5.xlarge", count=2),), 5),
    "fair-demo": ("pat", (Variant(instance="ml.m5.large", count=2),), 3),
    "gb300-trial": ("ana", (Variant(instance="ml.p6e-gb300.36xlarge", count=2),), 2),
    "legacy-ranker": (
        "lee",
        (Variant(name="blue", instance="ml.m5.xlarge", count=2), Variant(name="green", instance="ml.m5.xlarge", weight=0.2)),
        12,
    ),
}
"""Endpoints that fell silent: owner, variants, and the days of silence when the story begins."""


def set_up_clouds(aws: Aws, azure: Azure) -> None:
    """Fill both clouds as they are when the story begins."""
    account = Account(aws, region=REGION)
    for name in BUSY_ENDPOINTS:
        add_endpoint(account, name, "shop", (Variant(count=2),))
        add_requests(account, name, FLEET_CREATED_AT, OUTAGE_START)
    for name, (owner, variants, days) in SILENT_ENDPOINTS.items():
        add_endpoint(account, name, owner, variants)
        add_requests(account, name, FLEET_CREATED_AT, STORY_START - days * DAY, variants[0].name)
    scaled.track(account, scaled.variant(account, "legacy-ranker", "blue", least=2, most=6))
    add_notebook(account)
    vision = azure.subscription(SUBSCRIPTION, "research").workspace("vision", created=FLEET_CREATED_AT)
    gpus = vision.cluster("gpu-nightly", nodes=(2, 8), created=FLEET_CREATED_AT).tagged(owner="kim@example.com")
    signals.nodes(gpus, active=0, idle=2, since=FLEET_CREATED_AT)
    idle_instance = vision.instance("kim-sandbox", size="STANDARD_NC6S_V3", created=FLEET_CREATED_AT).tagged(
        owner="kim@example.com"
    )
    signals.busy(idle_instance, 0, since=FLEET_CREATED_AT)
    notes = vision.instance("max-notes", size="STANDARD_DS1_V2", created=FLEET_CREATED_AT).tagged(owner="max@example.com")
    signals.busy(notes, 0, since=FLEET_CREATED_AT)
    add_office_work(vision.instance("dev-ana", size="STANDARD_DS3_V2", created=FLEET_CREATED_AT).tagged(owner="ana@example.com"))


def add_endpoint(account: Account, name: str, owner: str, variants: tuple[Variant, ...]) -> None:
    """An endpoint with an owner, whose instances report for the whole story."""
    account.endpoint(
        name, variants=variants, created=FLEET_CREATED_AT, tags={"owner": f"{owner}@example.com", "manager": MANAGER}
    )
    for variant in variants:
        account.alive(name, variant.name, FLEET_CREATED_AT, STORY_END)


def add_requests(account: Account, name: str, since: datetime, until: datetime, variant: str = "AllTraffic") -> None:
    """Twelve requests every five minutes."""
    account.steady("AWS/SageMaker", "Invocations", variant_dimensions(name, variant), since, until, 12)


def endpoint_snapshot(account: Account, name: str) -> dict[str, Any]:
    """An endpoint's variants, configuration, tags and autoscaling, to compare it with after a restore.

    Leaves out times, ARNs, and the tag that marks what a restore created.
    """
    endpoint = account.contents.endpoints[name]
    targets = {key: target for key, target in account.contents.scalable.items() if f"/{name}/" in key[0]}
    return {
        "variants": [(v.name, v.spec, v.count, v.weight) for v in endpoint.variants],
        "configuration": (endpoint.config, account.contents.configs[endpoint.config].spec),
        "tags": {key: value for key, value in (endpoint.tags or {}).items() if key != RESTORED_TAG},
        "autoscaling": {
            key: (target.least, target.most, [_without_generated_keys(policy) for policy in target.policies.values()])
            for key, target in targets.items()
        },
    }


def _without_generated_keys(policy: dict[str, Any]) -> dict[str, Any]:
    """A scaling policy without what AWS generates for each one."""
    return {key: value for key, value in policy.items() if key not in {"PolicyARN", "CreationTime"}}


def variant_dimensions(name: str, variant: str) -> Mapping[str, str]:
    """The dimensions of a variant's metrics."""
    return {"EndpointName": name, "VariantName": variant}


def add_notebook(account: Account) -> None:
    """Mia's notebook, in use until four."""
    mia = account.notebook("dev-mia", instance="ml.m5.4xlarge", created=FLEET_CREATED_AT, tags={"owner": "mia@example.com"})
    account.busy_steadily(mia.arn, FLEET_CREATED_AT, STORY_END, 0)
    for since, until in work_periods(16):
        account.busy_steadily(mia.arn, since, until, 1)


def add_office_work(instance: Thing) -> None:
    """Ana's instance, in use until four."""
    signals.busy(instance, 0, since=FLEET_CREATED_AT)
    for since, until in work_periods(16):
        signals.busy(instance, 1, since=since, until=until)


def work_periods(end: int) -> Iterator[tuple[datetime, datetime]]:
    """When people work: from ten, once the reaper starts their machines at half past nine, and from eight before that."""
    for day in (STORY_START + number * DAY for number in range(-7, 14)):
        if day.weekday() < 5:
            yield day + (8 if day <= STORY_START else 10) * HOUR, day + end * HOUR
