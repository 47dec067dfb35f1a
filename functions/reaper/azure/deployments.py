"""Online deployments with the endpoints they belong to: in bulk through Resource Graph, and one by one where it shows nothing.

Resource Graph leaves out what the identity may not read, so a workspace of which it shows no endpoint is asked itself.
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reaper.azure import graph
from reaper.azure.call import Call, Json
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace, vanished, workspaces
from reaper.errors import CloudError

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

ENDPOINTS = f"{PROVIDER}/workspaces/onlineEndpoints/read"
DEPLOYMENTS = f"{PROVIDER}/workspaces/onlineEndpoints/deployments/read"
PERMISSIONS = (*UPPER, ENDPOINTS, DEPLOYMENTS)
TYPES = (f"{TYPE}/onlineEndpoints", f"{TYPE}/onlineEndpoints/deployments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment, its endpoint (empty where that did not come along) and its workspace, each as Azure gave it."""

    row: Json
    endpoint: Json
    workspace: Workspace


def deployments(cloud: Cloud) -> Iterator[Deployment]:
    """Every deployment, once, under however many spellings Azure lists it. What cannot be read of one workspace is noted.

    Raises CloudError when the workspaces cannot be listed.
    """
    seen: set[str] = set()
    for found in _listed(cloud):
        if (id_ := found.row["id"].lower()) not in seen:
            seen.add(id_)
            yield found


def _listed(cloud: Cloud) -> Iterator[Deployment]:
    spaces = {space.id.lower(): space for space in workspaces(cloud)}
    shown = _shown(cloud) if spaces else []
    of_type = {name.lower(): {r["id"].lower(): r for r in shown if r["type"].lower() == name.lower()} for name in TYPES}
    endpoints, leaves = (of_type[name.lower()] for name in TYPES)
    seen = {_above(id_, "onlineendpoints") for id_ in (*endpoints, *leaves)}
    for id_, row in leaves.items():
        if space := spaces.get(_above(id_, "onlineendpoints")):
            yield Deployment(row=row, endpoint=endpoints.get(_above(id_, "deployments"), {}), workspace=space)
    bare = [
        (endpoints[e], spaces[w]) for e in endpoints if not _has_leaf(e, leaves) and (w := _above(e, "onlineendpoints")) in spaces
    ]
    for found in cloud.each(lambda pair: _below(cloud, *pair), bare):
        yield from found
    for found in cloud.each(lambda space: _asked(cloud, space), [s for id_, s in spaces.items() if id_ not in seen]):
        yield from found


def again(cloud: Cloud, id_: str) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself. Raises CloudError."""
    above = id_[: len(_above(id_, "deployments"))]
    row = cloud.call(Call(permission=DEPLOYMENTS, path=id_, has=("id", "name", "properties")))
    endpoint = cloud.once(
        ("endpoint", above.lower()), lambda: cloud.call(Call(permission=ENDPOINTS, path=above, has=("id", "properties")))
    )
    return row, endpoint


def _shown(cloud: Cloud) -> list[Json]:
    """What Resource Graph shows. Where it fails, nothing: then every workspace is asked itself, which costs calls and loses nothing."""
    try:
        return list(graph.rows(cloud, *TYPES))
    except CloudError:
        return []


def _has_leaf(endpoint: str, leaves: Iterable[str]) -> bool:
    return any(leaf.startswith(f"{endpoint}/") for leaf in leaves)


def _below(cloud: Cloud, endpoint: Json, space: Workspace) -> list[Deployment]:
    """The deployments of an endpoint for which Resource Graph shows none: there are none, or this identity may not see them."""
    try:
        return list(_of(cloud, endpoint, space))
    except CloudError as error:
        if not vanished(cloud, space, error):
            cloud.note(error)
        return []


def _asked(cloud: Cloud, space: Workspace) -> list[Deployment]:
    try:
        endpoints = list(cloud.pages(ENDPOINTS, f"{space.id}/onlineEndpoints", has=("id", "name", "properties")))
        return [found for endpoint in endpoints for found in _of(cloud, endpoint, space)]
    except CloudError as error:
        if not vanished(cloud, space, error):
            cloud.note(error)
        return []


def _of(cloud: Cloud, endpoint: Mapping[str, str], space: Workspace) -> Iterator[Deployment]:
    for row in cloud.pages(DEPLOYMENTS, f"{endpoint['id']}/deployments", has=("id", "name", "properties")):
        yield Deployment(row=row, endpoint=dict(endpoint), workspace=space)


def _above(id_: str, collection: str) -> str:
    """The id of what `collection` hangs below, lower-cased."""
    return id_.lower().partition(f"/{collection}/")[0]
