"""Online deployments with the endpoints they belong to: in bulk through Resource Graph, and one by one where it shows nothing.

Resource Graph leaves out what the identity may not read, so a workspace of which it shows no endpoint is asked itself.
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reaper.azure import resource_graph
from reaper.azure.request import ArmRequest, Json
from reaper.azure.workspaces import PERMISSIONS as UPPER
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace, is_workspace_gone, list_workspaces
from reaper.azure.workspaces import read_workspace_now as workspace_again
from reaper.errors import CloudError, Reason, gone_as_partial

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

ENDPOINT_ROOT = f"{PROVIDER}/workspaces/onlineEndpoints"
DEPLOYMENT_ROOT = f"{ENDPOINT_ROOT}/deployments"
ASSIGN_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
"""Needed on each user-assigned identity of an endpoint that is written, though nothing about it changes."""
READ_ENDPOINTS, READ_DEPLOYMENTS = f"{ENDPOINT_ROOT}/read", f"{DEPLOYMENT_ROOT}/read"
PERMISSIONS = (*UPPER, READ_ENDPOINTS, READ_DEPLOYMENTS)
GRAPH_TYPES = (f"{TYPE}/onlineEndpoints", f"{TYPE}/onlineEndpoints/deployments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment, its endpoint (empty where that did not come along) and its workspace, each as Azure gave it.

    `beside` are the names of the other deployments of its endpoint.
    """

    row: Json
    endpoint: Json
    workspace: Workspace
    siblings: frozenset[str] = frozenset()


def list_deployments(cloud: CloudSession) -> Iterator[Deployment]:
    """Every deployment, once, under however many spellings Azure lists it. What cannot be read of one workspace is noted.

    Raises CloudError when the workspaces cannot be listed.
    """
    seen: set[str] = set()
    for found in _listed_deployments(cloud):
        if (id_ := found.row["id"].lower()) not in seen:
            seen.add(id_)
            yield found


def _listed_deployments(cloud: CloudSession) -> Iterator[Deployment]:
    spaces = {space.id.lower(): space for space in list_workspaces(cloud)}
    shown = _rows_from_graph(cloud) if spaces else []
    of_type = {name.lower(): {r["id"].lower(): r for r in shown if r["type"].lower() == name.lower()} for name in GRAPH_TYPES}
    endpoints, leaves = (of_type[name.lower()] for name in GRAPH_TYPES)
    seen = {_id_above(id_, "onlineendpoints") for id_ in (*endpoints, *leaves)}
    of_endpoint: dict[str, list[str]] = {}
    for id_ in leaves:
        of_endpoint.setdefault(_id_above(id_, "deployments"), []).append(_last_segment(id_))
    for id_, row in leaves.items():
        above = _id_above(id_, "deployments")
        if space := spaces.get(_id_above(id_, "onlineendpoints")):
            beside = frozenset(of_endpoint[above]) - {_last_segment(id_)}
            yield Deployment(row=row, endpoint=endpoints.get(above, {}), workspace=space, siblings=beside)
    bare = [
        (endpoints[e], spaces[w])
        for e in endpoints
        if not _has_deployment(e, leaves) and (w := _id_above(e, "onlineendpoints")) in spaces
    ]
    for found in cloud.map_concurrently(lambda pair: _deployments_of_endpoint(cloud, *pair), bare):
        yield from found
    for found in cloud.map_concurrently(
        lambda space: _deployments_of_workspace(cloud, space), [s for id_, s in spaces.items() if id_ not in seen]
    ):
        yield from found


def read_deployment_and_endpoint(cloud: CloudSession, id_: str) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself. Raises CloudError."""
    above = endpoint_id(id_)
    return read_deployment(cloud, id_), cloud.read_once(("endpoint", above.lower()), lambda: read_endpoint(cloud, above))


def read_deployment_now(cloud: CloudSession, id_: str, space: Workspace) -> Deployment:
    """A deployment with all that it hangs on, nothing of it remembered from before. Raises CloudError."""
    above = endpoint_id(id_)
    row = read_deployment(cloud, id_)
    with gone_as_partial():
        rows = cloud.paged_rows(READ_DEPLOYMENTS, f"{above}/deployments", required_keys=("id", "name", "properties"))
        beside = frozenset(_last_segment(other["id"].lower()) for other in rows) - {_last_segment(id_.lower())}
        return Deployment(row=row, endpoint=read_endpoint(cloud, above), workspace=workspace_again(cloud, space), siblings=beside)


def read_deployment(cloud: CloudSession, id_: str) -> Json:
    """A deployment as it is now. Raises CloudError."""
    return cloud.call(ArmRequest(permission=READ_DEPLOYMENTS, path=id_, required_keys=("id", "name", "properties")))


def read_endpoint(cloud: CloudSession, id_: str) -> Json:
    """An endpoint as it is now. Raises CloudError."""
    return cloud.call(ArmRequest(permission=READ_ENDPOINTS, path=id_, required_keys=("id", "properties")))


def endpoint_id(id_: str) -> str:
    """The id of the endpoint that a deployment belongs to."""
    return id_[: len(_id_above(id_, "deployments"))]


def _rows_from_graph(cloud: CloudSession) -> list[Json]:
    """What Resource Graph shows. Where it fails, nothing: then every workspace is asked itself, which costs calls and loses nothing."""
    try:
        return list(resource_graph.list_resources(cloud, *GRAPH_TYPES))
    except CloudError:
        return []


def _has_deployment(above: str, leaves: Iterable[str]) -> bool:
    return any(leaf.startswith(f"{above}/") for leaf in leaves)


def is_gone(cloud: CloudSession, id_: str) -> bool:
    """Whether a deployment or endpoint is not there any more, asked at the source. Raises CloudError.

    Resource Graph shows for minutes what was deleted.
    """
    try:
        read_deployment(cloud, id_) if "/deployments/" in id_.lower() else read_endpoint(cloud, id_)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        return True
    return False


def _deployments_of_endpoint(cloud: CloudSession, above: Json, space: Workspace) -> list[Deployment]:
    """The deployments of one endpoint. What cannot be read of it is noted, and hides nothing of another's."""
    try:
        return list(_list_deployments_of(cloud, above, space))
    except CloudError as error:
        if not _is_known_gone(cloud, above["id"], error):
            cloud.add_error(error)
        return []


def _is_known_gone(cloud: CloudSession, id_: str, error: CloudError) -> bool:
    try:
        return error.reason is Reason.GONE and is_gone(cloud, id_)
    except CloudError:
        return False


def _deployments_of_workspace(cloud: CloudSession, space: Workspace) -> list[Deployment]:
    path, has = f"{space.id}/onlineEndpoints", ("id", "name", "properties")
    try:
        endpoints = list(cloud.paged_rows(READ_ENDPOINTS, path, required_keys=has, on_bad_row=cloud.add_error))
    except CloudError as error:
        if not is_workspace_gone(cloud, space, error):
            cloud.add_error(error)
        return []
    return [found for above in endpoints for found in _deployments_of_endpoint(cloud, above, space)]


def _list_deployments_of(cloud: CloudSession, above: Mapping[str, str], space: Workspace) -> Iterator[Deployment]:
    path, has = f"{above['id']}/deployments", ("id", "name", "properties")
    rows = list(cloud.paged_rows(READ_DEPLOYMENTS, path, required_keys=has, on_bad_row=cloud.add_error))
    names = frozenset(_last_segment(row["id"].lower()) for row in rows)
    for row in rows:
        yield Deployment(row=row, endpoint=dict(above), workspace=space, siblings=names - {_last_segment(row["id"].lower())})


def _last_segment(id_: str) -> str:
    return id_.rpartition("/")[2]


def _id_above(id_: str, collection: str) -> str:
    """The id of what `collection` hangs below, lower-cased."""
    return id_.lower().partition(f"/{collection}/")[0]
