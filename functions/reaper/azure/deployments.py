"""Online deployments with the endpoints they belong to: in bulk through Resource Graph, and one by one where it shows nothing.

Resource Graph leaves out what the identity may not read, so a workspace of which it shows no endpoint is asked itself.
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reaper.azure import resource_graph
from reaper.azure.request import Call, Json
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace, vanished, workspaces
from reaper.azure.workspaces import again as workspace_again
from reaper.errors import CloudError, Trouble, aside

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

UPPER_ROOT = f"{PROVIDER}/workspaces/onlineEndpoints"
ROOT = f"{UPPER_ROOT}/deployments"
ASSIGN = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
"""Needed on each user-assigned identity of an endpoint that is written, though nothing about it changes."""
ENDPOINTS, DEPLOYMENTS = f"{UPPER_ROOT}/read", f"{ROOT}/read"
PERMISSIONS = (*UPPER, ENDPOINTS, DEPLOYMENTS)
TYPES = (f"{TYPE}/onlineEndpoints", f"{TYPE}/onlineEndpoints/deployments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment, its endpoint (empty where that did not come along) and its workspace, each as Azure gave it.

    `beside` are the names of the other deployments of its endpoint.
    """

    row: Json
    endpoint: Json
    workspace: Workspace
    beside: frozenset[str] = frozenset()


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
    of_endpoint: dict[str, list[str]] = {}
    for id_ in leaves:
        of_endpoint.setdefault(_above(id_, "deployments"), []).append(_name(id_))
    for id_, row in leaves.items():
        above = _above(id_, "deployments")
        if space := spaces.get(_above(id_, "onlineendpoints")):
            beside = frozenset(of_endpoint[above]) - {_name(id_)}
            yield Deployment(row=row, endpoint=endpoints.get(above, {}), workspace=space, beside=beside)
    bare = [
        (endpoints[e], spaces[w]) for e in endpoints if not _has_leaf(e, leaves) and (w := _above(e, "onlineendpoints")) in spaces
    ]
    for found in cloud.each(lambda pair: _below(cloud, *pair), bare):
        yield from found
    for found in cloud.each(lambda space: _asked(cloud, space), [s for id_, s in spaces.items() if id_ not in seen]):
        yield from found


def again(cloud: Cloud, id_: str) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself. Raises CloudError."""
    above = endpoint_id(id_)
    return one(cloud, id_), cloud.once(("endpoint", above.lower()), lambda: endpoint(cloud, above))


def fresh(cloud: Cloud, id_: str, space: Workspace) -> Deployment:
    """A deployment with all that it hangs on, nothing of it remembered from before. Raises CloudError."""
    above = endpoint_id(id_)
    row = one(cloud, id_)
    with aside():
        rows = cloud.pages(DEPLOYMENTS, f"{above}/deployments", has=("id", "name", "properties"))
        beside = frozenset(_name(other["id"].lower()) for other in rows) - {_name(id_.lower())}
        return Deployment(row=row, endpoint=endpoint(cloud, above), workspace=workspace_again(cloud, space), beside=beside)


def one(cloud: Cloud, id_: str) -> Json:
    """A deployment as it is now. Raises CloudError."""
    return cloud.call(Call(permission=DEPLOYMENTS, path=id_, has=("id", "name", "properties")))


def endpoint(cloud: Cloud, id_: str) -> Json:
    """An endpoint as it is now. Raises CloudError."""
    return cloud.call(Call(permission=ENDPOINTS, path=id_, has=("id", "properties")))


def endpoint_id(id_: str) -> str:
    """The id of the endpoint that a deployment belongs to."""
    return id_[: len(_above(id_, "deployments"))]


def _shown(cloud: Cloud) -> list[Json]:
    """What Resource Graph shows. Where it fails, nothing: then every workspace is asked itself, which costs calls and loses nothing."""
    try:
        return list(resource_graph.rows(cloud, *TYPES))
    except CloudError:
        return []


def _has_leaf(above: str, leaves: Iterable[str]) -> bool:
    return any(leaf.startswith(f"{above}/") for leaf in leaves)


def gone(cloud: Cloud, id_: str) -> bool:
    """Whether a deployment or endpoint is not there any more, asked at the source. Raises CloudError.

    Resource Graph shows for minutes what was deleted.
    """
    try:
        one(cloud, id_) if "/deployments/" in id_.lower() else endpoint(cloud, id_)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        return True
    return False


def _below(cloud: Cloud, above: Json, space: Workspace) -> list[Deployment]:
    """The deployments of one endpoint. What cannot be read of it is noted, and hides nothing of another's."""
    try:
        return list(_of(cloud, above, space))
    except CloudError as error:
        if not _vanished(cloud, above["id"], error):
            cloud.note(error)
        return []


def _vanished(cloud: Cloud, id_: str, error: CloudError) -> bool:
    try:
        return error.trouble is Trouble.GONE and gone(cloud, id_)
    except CloudError:
        return False


def _asked(cloud: Cloud, space: Workspace) -> list[Deployment]:
    path, has = f"{space.id}/onlineEndpoints", ("id", "name", "properties")
    try:
        endpoints = list(cloud.pages(ENDPOINTS, path, has=has, odd=cloud.note))
    except CloudError as error:
        if not vanished(cloud, space, error):
            cloud.note(error)
        return []
    return [found for above in endpoints for found in _below(cloud, above, space)]


def _of(cloud: Cloud, above: Mapping[str, str], space: Workspace) -> Iterator[Deployment]:
    path, has = f"{above['id']}/deployments", ("id", "name", "properties")
    rows = list(cloud.pages(DEPLOYMENTS, path, has=has, odd=cloud.note))
    names = frozenset(_name(row["id"].lower()) for row in rows)
    for row in rows:
        yield Deployment(row=row, endpoint=dict(above), workspace=space, beside=names - {_name(row["id"].lower())})


def _name(id_: str) -> str:
    return id_.rpartition("/")[2]


def _above(id_: str, collection: str) -> str:
    """The id of what `collection` hangs below, lower-cased."""
    return id_.lower().partition(f"/{collection}/")[0]
