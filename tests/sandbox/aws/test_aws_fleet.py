"""The demo's story: its names, its docstring and its data say the same, and seeding is fast enough for fleets of any size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from reaper_sandbox.aws import fleet
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.traffic import office
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def listed(client: Client, region: str) -> Iterable[tuple[str, str]]:
    """Kind and name of everything in a region that is not deleted."""
    sagemaker = client("sagemaker", region)
    for page in sagemaker.get_paginator("list_endpoints").paginate():
        yield from (("sagemaker-endpoint", e["EndpointName"]) for e in page["Endpoints"])
    for page in sagemaker.get_paginator("list_inference_components").paginate():
        yield from (("sagemaker-inference-component", c["InferenceComponentName"]) for c in page["InferenceComponents"])
    for page in sagemaker.get_paginator("list_notebook_instances").paginate():
        yield from (("sagemaker-notebook", n["NotebookInstanceName"]) for n in page["NotebookInstances"])
    for page in sagemaker.get_paginator("list_apps").paginate():
        for app in page["Apps"]:
            if app["Status"] != "Deleted":
                home = app.get("SpaceName") or app["UserProfileName"]
                yield "sagemaker-studio-app", f"{home}/{app['AppType']}/{app['AppName']}"


def test_seeded_names_and_expected_verdicts_match(server: Server, client: Client) -> None:
    fleet.settle(server, NOW)
    resources = {(kind, name, region) for region in ("us-east-1", "eu-west-1") for kind, name in listed(client, region)}
    assert resources == {(e.kind, name, e.region) for name, e in fleet.STORY.items()}


def test_the_docstring_lists_the_same_verdicts() -> None:
    verdicts = dict(
        re.findall(r"^    ([\w/-]+) +(active|exempt|young|unknown|idle proven|idle likely) ", fleet.__doc__ or "", re.MULTILINE)
    )
    assert verdicts == {name: " ".join(filter(None, (e.state, e.confidence))) for name, e in fleet.STORY.items()}


def test_the_fleet_has_every_verdict_and_mostly_owners(server: Server, client: Client) -> None:
    fleet.settle(server, NOW)
    assert {e.state for e in fleet.EXPECTED.values()} == {"active", "idle", "young", "exempt", "unknown"}
    rows = client("resourcegroupstaggingapi").get_resources(ResourcesPerPage=100)["ResourceTagMappingList"]
    assert sum("owner" in {t["Key"] for t in row["Tags"]} for row in rows) > 30


@pytest.mark.parametrize("until", [NOW, NOW - 9 * DAY, NOW - 6 * HOUR])
def test_office_traffic_ends_on_time_and_pauses_at_night(until: Any) -> None:
    points = list(office("x", NOW - 15 * DAY, until, 100))
    assert max(when for when, _ in points) == until
    assert all(count >= 1 for _, count in points)
    noon = [n for when, n in points if when.hour == 13 and when.weekday() < 5]
    night = [n for when, n in points if when.hour == 3]
    assert min(noon) > max(night)
    assert points == list(office("x", NOW - 15 * DAY, until, 100))


def test_ten_thousand_endpoints_are_compact_and_all_listed(server: Server, account: Account, client: Client) -> None:
    for i in range(10_000):
        account.endpoint(f"e{i:05d}", tags={"team": f"t{i % 7}"})
        account.alive(f"e{i:05d}", "AllTraffic", NOW - 14 * DAY, NOW)
    sagemaker, cloudwatch = client("sagemaker"), client("cloudwatch")
    names = [
        e["EndpointName"] for p in sagemaker.get_paginator("list_endpoints").paginate(MaxResults=100) for e in p["Endpoints"]
    ]
    assert (len(names), len(set(names)), len(server.calls)) == (10_000, 10_000, 100)
    pages = cloudwatch.get_paginator("list_metrics").paginate(Namespace="/aws/sagemaker/Endpoints")
    assert sum(len(p["Metrics"]) for p in pages) == 10_000


def test_a_seeded_resource_can_have_any_state(account: Account, client: Client) -> None:
    endpoint = account.endpoint("e")
    endpoint.status = "RollingBack"
    endpoint.changed = NOW - HOUR
    endpoint.variants[0].count = 5
    reply = client("sagemaker").describe_endpoint(EndpointName="e")
    assert (reply["EndpointStatus"], reply["LastModifiedTime"]) == ("RollingBack", NOW - HOUR)
    assert reply["ProductionVariants"][0]["CurrentInstanceCount"] == 5
