"""What lies above workspaces: subscriptions, their states, and resource groups. https://learn.microsoft.com/rest/api/resources/subscriptions"""

from __future__ import annotations

from reaper_sandbox.azure.identity import TENANT
from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.refusal import no_subscription
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import SUB, route
from reaper_sandbox.azure.world import World

CHANGEABLE_STATES = ("Enabled", "PastDue")
"""In the others Azure refuses PUT, PATCH and POST: https://learn.microsoft.com/azure/cost-management-billing/manage/subscription-states"""


def subscriptions(world: World, request: Request) -> Reply:
    """The subscriptions that the identity can see; one without rights is simply not in the list."""
    unreadable = {one.lower() for one in world.unreadable}
    shown = [_body(world, sub) for sub in world.estate.subscriptions if sub not in unreadable]
    return page(world, request, shown)


def subscription(world: World, request: Request) -> Reply:
    """One subscription."""
    sub = request.names["sub"].lower()
    if sub not in world.estate.subscriptions:
        raise no_subscription(sub)
    return Reply(body=_body(world, sub))


def groups(world: World, request: Request) -> Reply:
    """The resource groups of a subscription."""
    sub = request.names["sub"].lower()
    if sub not in world.estate.subscriptions:
        raise no_subscription(sub)
    start = f"/subscriptions/{sub}/resourceGroups"
    rows = [{"id": f"{start}/{name}", "name": name} for (of, _), name in world.estate.groups.items() if of == sub]
    return page(world, request, rows)


def _body(world: World, sub: str) -> Json:
    policies = {"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"}
    return {
        "id": f"/subscriptions/{sub}",
        "subscriptionId": sub,
        "tenantId": TENANT,
        "displayName": world.estate.subscriptions[sub],
        "state": world.estate.states.get(sub, "Enabled"),
        "authorizationSource": "RoleBased",
        "subscriptionPolicies": policies,
    }


VERSIONS = ("2016-06-01", "2018-06-01", "2019-06-01", "2019-11-01", "2020-01-01", "2021-01-01", "2021-04-01", "2022-12-01")
ROUTES = (
    route("GET", "/subscriptions", subscriptions, "", VERSIONS),
    route("GET", SUB, subscription, "Microsoft.Resources/subscriptions/read", VERSIONS),
    route("GET", SUB + "/resourcegroups", groups, "Microsoft.Resources/subscriptions/resourceGroups/read", VERSIONS),
)
