"""The simulated Azure subscription of `azure_deployments.py`, in a process of its own, and what each of its deployments truly is.

usage: azure_cloud.py DEPLOYMENTS WORKSPACES SHARE LATENCY
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reaper_sandbox.azure.subscription import Endpoint, Workspace

SUBSCRIPTION = "77777777-7777-7777-7777-777777777777"
REGIONS = ("westeurope", "northeurope", "eastus", "westus2", "uksouth")
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SILENT = {"zeros": 45, "no-series": 20, "valueless": 10, "leftover": 15, "pipeline-down": 5, "young": 3, "updating": 2}
TRUTH = {"busy": "active", "pipeline-down": "unknown", "young": "young", "updating": "young"}
"""The right verdict; `idle` for every other story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One deployment to be. A `leftover` gets none of its endpoint's traffic; the deployment after it, on the same endpoint, gets all of it."""

    name: str
    endpoint: str
    workspace: int
    story: str
    used_ago: timedelta
    size: str
    count: int

    @property
    def truth(self) -> str:
        return TRUTH.get(self.story, "idle")


def plans(count: int, workspaces: int, share: float) -> Iterator[Plan]:
    """`count` deployments, of which `share` (0 to 1) are silent; the same in every process. Every fifth endpoint has two."""
    dice = random.Random(f"azure {count} {share}")
    silent = set(dice.sample(range(count), round(count * share)))
    endpoint = -1
    for index in range(count):
        endpoint += index % 6 != 5  # the sixth shares the endpoint of the fifth
        story = dice.choices(list(SILENT), list(SILENT.values()))[0] if index in silent else "busy"
        yield Plan(
            name=f"{story}-{index:05}",
            endpoint=f"endpoint-{endpoint:05}",
            workspace=endpoint % workspaces,
            story=story,
            used_ago=dice.choice([timedelta(), timedelta(), timedelta(), HOUR, 3 * HOUR]),
            size=dice.choice(["Standard_DS3_v2", "Standard_DS3_v2", "Standard_NC6s_v3"]),
            count=dice.choice([1, 1, 2]),
        )


def seed(spaces: list[Workspace], count: int, share: float, now: datetime) -> None:
    """Create them all."""
    endpoints: dict[str, Endpoint] = {}
    for plan in plans(count, len(spaces), share):
        if plan.endpoint not in endpoints:
            endpoints[plan.endpoint] = spaces[plan.workspace].endpoint(plan.endpoint)
        _deploy(endpoints[plan.endpoint], plan, now)


def _deploy(endpoint: Endpoint, plan: Plan, now: datetime) -> None:
    from reaper_sandbox.azure import signals

    born = now - 2 * HOUR if plan.story == "young" else now - 60 * DAY
    thing = endpoint.deployment(plan.name, size=plan.size, capacity=plan.count, created=born).tagged(
        {"owner": "ada@example.com", "team": f"team-{plan.workspace % 7}"}
    )
    since = max(born, now - 20 * DAY)
    endpoint.body["properties"]["traffic"] = {plan.name: 0 if plan.story == "leftover" else 100}
    signals.capacity(thing, since=since, until=now - 5 * DAY if plan.story == "pipeline-down" else None)
    if plan.story == "busy":
        signals.requests(thing, 3, since=since, until=now - plan.used_ago if plan.used_ago else None)
    elif plan.story == "valueless":
        signals.valueless_requests(thing)
    elif plan.story == "updating":
        thing.set("properties.provisioningState", "Updating")
    elif plan.story != "no-series":
        signals.requests(thing, 0, since=since, until=now - 5 * DAY if plan.story == "pipeline-down" else None)


def main() -> None:
    from reaper_sandbox.azure import fault
    from reaper_sandbox.azure.server import Server

    count, workspaces, share, latency = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with Server() as server:
        home = server.subscription(SUBSCRIPTION, "research")
        spaces = [home.workspace(f"space-{n:03}", region=REGIONS[n % len(REGIONS)]) for n in range(workspaces)]
        seed(spaces, count, share, now)
        if latency:
            server.rules.append(fault.on(".*", ".*", fault.latency(latency)))
        print(json.dumps(server.env), flush=True)
        for _ in sys.stdin:
            print(json.dumps(Counter(request.action for request in server.requests)), flush=True)
            server.requests.clear()


if __name__ == "__main__":
    main()
