"""Management groups: what lies below one, subscriptions and further groups, whether the identity can read these or not.

https://learn.microsoft.com/rest/api/managementgroups/management-groups/get-descendants
"""

from __future__ import annotations

from collections.abc import Iterator

from reaper_sandbox.azure.page import page
from reaper_sandbox.azure.refusal import no_management_group
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import route
from reaper_sandbox.azure.world import World

PATH = "/providers/Microsoft.Management/managementGroups"


def descendants(world: World, request: Request) -> Reply:
    """Everything below the group, at any depth."""
    name = request.names["group"].lower()
    parents = world.estate.parents
    if name not in parents.values() and name not in parents:
        raise no_management_group(request.names["group"])
    return page(world, request, [_body(world, child) for child in _below(parents, name)])


def _below(parents: dict[str, str], group: str) -> Iterator[str]:
    for child, parent in parents.items():
        if parent == group:
            yield child
            yield from _below(parents, child)


def _body(world: World, name: str) -> Json:
    known = world.estate.subscriptions.get(name)
    is_subscription = known is not None
    return {
        "id": f"/subscriptions/{name}" if is_subscription else f"{PATH}/{name}",
        "type": "/subscriptions" if is_subscription else "Microsoft.Management/managementGroups",
        "name": name,
        "properties": {"displayName": known or name, "parent": {"id": f"{PATH}/{world.estate.parents[name]}"}},
    }


VERSIONS = ("2020-05-01", "2021-04-01", "2023-04-01")
ROUTES = (
    route(
        "GET",
        PATH + r"/(?P<group>[^/]+)/descendants",
        descendants,
        "Microsoft.Management/managementGroups/descendants/read",
        VERSIONS,
    ),
)
