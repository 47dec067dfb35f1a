"""Autoscale settings of Azure Monitor: each keeps the number of instances of one resource within bounds.

https://learn.microsoft.com/rest/api/monitor/autoscalesettings/list-by-subscription
"""

from __future__ import annotations

from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.refusal import no_subscription
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import SUB, route
from reaper_sandbox.azure.world import World


def body(target: str, name: str, region: str, least: int, most: int) -> Json:
    """An enabled setting with one profile. Azure writes its numbers as texts."""
    group = target.partition("/providers/")[0]
    capacity = {"minimum": str(least), "maximum": str(most), "default": str(least)}
    return {
        "id": f"{group}/providers/Microsoft.Insights/autoscalesettings/{name}",
        "name": name,
        "type": "Microsoft.Insights/autoscaleSettings",
        "location": region,
        "tags": {},
        "properties": {
            "enabled": True,
            "name": name,
            "targetResourceUri": target,
            "profiles": [{"name": "default", "capacity": capacity, "rules": []}],
            "notifications": [],
        },
    }


def several(world: World, request: Request) -> Reply:
    """The settings of a subscription."""
    subscription = request.names["sub"].lower()
    if subscription not in world.estate.subscriptions:
        raise no_subscription(subscription)
    home = f"/subscriptions/{subscription}/"
    return page(world, request, [one for one in world.autoscale if one["id"].lower().startswith(home)])


VERSIONS = ("2015-04-01", "2021-05-01-preview", "2022-10-01")
ROUTES = (
    route(
        "GET",
        SUB + r"/providers/Microsoft\.Insights/autoscalesettings",
        several,
        "Microsoft.Insights/autoscaleSettings/read",
        VERSIONS,
    ),
)
