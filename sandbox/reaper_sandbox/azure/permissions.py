"""What the identity may do at a scope: everything, but for what the guards of `rights` grant or refuse there.

https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource
"""

from __future__ import annotations

from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.rights import Limit
from reaper_sandbox.azure.route import route
from reaper_sandbox.azure.world import World


def permissions(world: World, request: Request) -> Reply:
    """One entry, as one role would have it."""
    limits = [rule for rule in world.rules if isinstance(rule, Limit) and rule.scope.fullmatch(request.scope)]
    granted = [text for limit in limits if limit.grants for text in limit.texts]
    refused = [text for limit in limits if not limit.grants for text in limit.texts]
    entry = {"actions": granted or ["*"], "notActions": refused, "dataActions": [], "notDataActions": []}
    return page(world, request, [entry])


ROUTES = (
    route(
        "GET",
        r"(?P<home>/subscriptions/.+)/providers/Microsoft\.Authorization/permissions",
        permissions,
        "Microsoft.Authorization/permissions/read",
        ("2018-07-01", "2022-04-01"),
    ),
)
