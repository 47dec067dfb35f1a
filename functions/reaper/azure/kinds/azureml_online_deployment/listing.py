"""Online deployments with their endpoints: in bulk through Resource Graph, and one by one if it doesn't show them.

Resource Graph leaves out what the identity may not read, so a workspace without a single endpoint there is asked directly.
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reaper.azure import workspaces
from reaper.azure.requests import ArmRequest, Json
from reaper.azure.workspaces import PERMISSIONS as WORKSPACE_PERMISSIONS
from reaper.azure.workspaces import (
    PROVIDER,
    TYPE,
    Workspace,
    is_workspace_gone,
    list_workspaces,
    read_subscription_now,
    read_workspace_now,
    require_inside,
)
from reaper.errors import CloudError, Reason, gone_as_partial

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


ENDPOINT_ROOT = f"{PROVIDER}/workspaces/onlineEndpoints"
DEPLOYMENT_ROOT = f"{ENDPOINT_ROOT}/deployments"
ASSIGN_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
"""Needed on each user-assigned identity of an endpoint that is written, though nothing about it changes."""
READ_ENDPOINTS, READ_DEPLOYMENTS = f"{ENDPOINT_ROOT}/read", f"{DEPLOYMENT_ROOT}/read"
PERMISSIONS = (*WORKSPACE_PERMISSIONS, READ_ENDPOINTS, READ_DEPLOYMENTS)
GRAPH_TYPES = (f"{TYPE}/onlineEndpoints", f"{TYPE}/onlineEndpoints/deployments")
REQUIRED_KEYS = ("id", "name", "properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment, its endpoint (empty if that wasn't listed) and its workspace, each as Azure returned it.

    `siblings`: the names of the other deployments of its endpoint.
    """

    row: Json
    endpoint: Json
    workspace: Workspace
    siblings: frozenset[str] = frozenset()


def list_deployments(cloud: CloudSession) -> Iterable[Deployment]:
    """Every deployment, once, under however many spellings Azure lists it. What can't be read of a workspace is an error of the session.

    Raises CloudError if the workspaces can't be listed.
    """
    unique: dict[str, Deployment] = {}
    for deployment in _listed_deployments(cloud):
        unique.setdefault(deployment.row["id"].lower(), deployment)
    return unique.values()


def _listed_deployments(cloud: CloudSession) -> Iterator[Deployment]:
    spaces = {space.id.lower(): space for space in list_workspaces(cloud).workspaces}
    endpoints, deployments = _endpoints_and_deployments(_rows_from_graph(cloud) if spaces else [])
    yield from _join(endpoints, deployments, spaces)
    with_deployments = {_id_above(key, "deployments") for key in deployments}
    bare = [
        (endpoints[above], spaces[space_id])
        for above in endpoints
        if above not in with_deployments and (space_id := _id_above(above, "onlineendpoints")) in spaces
    ]
    for batch in cloud.map_concurrently(lambda pair: _deployments_of_endpoint(cloud, *pair), bare):
        yield from batch
    shown = {_id_above(key, "onlineendpoints") for key in (*endpoints, *deployments)}
    hidden = [space for space_id, space in spaces.items() if space_id not in shown]
    for batch in cloud.map_concurrently(lambda space: _deployments_of_workspace(cloud, space), hidden):
        yield from batch


def _endpoints_and_deployments(rows: Iterable[Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The rows of both types, each by its ID in lower case."""
    by_type: dict[str, dict[str, Json]] = {name.lower(): {} for name in GRAPH_TYPES}
    for row in rows:
        by_type[row["type"].lower()][row["id"].lower()] = row
    endpoints, deployments = (by_type[name.lower()] for name in GRAPH_TYPES)
    return endpoints, deployments


def _join(
    endpoints: Mapping[str, Json], deployments: Mapping[str, Json], spaces: Mapping[str, Workspace]
) -> Iterator[Deployment]:
    """Each deployment with its endpoint, its workspace and its siblings."""
    names: dict[str, list[str]] = {}
    for key in deployments:
        names.setdefault(_id_above(key, "deployments"), []).append(_last_segment(key))
    for key, row in deployments.items():
        above = _id_above(key, "deployments")
        if space := spaces.get(_id_above(key, "onlineendpoints")):
            siblings = frozenset(names[above]) - {_last_segment(key)}
            yield Deployment(row=row, endpoint=endpoints.get(above, {}), workspace=space, siblings=siblings)


def read_deployment_and_endpoint(cloud: CloudSession, deployment_id: str) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself. Raises CloudError."""
    above = endpoint_id(deployment_id)
    row = read_deployment(cloud, deployment_id)
    return row, cloud.read_once(("endpoint", above.lower()), lambda: read_endpoint(cloud, above))


def read_deployment_now(cloud: CloudSession, deployment_id: str, space: Workspace) -> Deployment:
    """A deployment with everything it depends on, all read now, the subscription's state included. Raises CloudError.

    The deployment comes last, after its endpoint: a call before it may wait for minutes, and what it shows must be as of now.
    """
    require_inside(cloud, deployment_id, space)
    above = endpoint_id(deployment_id)
    try:
        with gone_as_partial():
            read_subscription_now(cloud)
            space = read_workspace_now(cloud, space)
            rows = cloud.paged_rows(READ_DEPLOYMENTS, f"{above}/deployments", required_keys=REQUIRED_KEYS)
            names = frozenset(_last_segment(other["id"].lower()) for other in rows)
            endpoint = read_endpoint(cloud, above)
    except CloudError:
        read_deployment(cloud, deployment_id)  # if it is gone itself, that is the reason
        raise
    row = read_deployment(cloud, deployment_id)
    return Deployment(row=row, endpoint=endpoint, workspace=space, siblings=names - {_last_segment(deployment_id.lower())})


def read_deployment(cloud: CloudSession, deployment_id: str) -> Json:
    return cloud.call(ArmRequest(permission=READ_DEPLOYMENTS, path=deployment_id, required_keys=REQUIRED_KEYS))


def read_endpoint(cloud: CloudSession, endpoint: str) -> Json:
    return cloud.call(endpoint_request(endpoint))


def endpoint_request(endpoint: str) -> ArmRequest:
    return ArmRequest(permission=READ_ENDPOINTS, path=endpoint, required_keys=("id", "properties"))


def endpoint_id(deployment_id: str) -> str:
    """The ID of the endpoint that a deployment belongs to."""
    return deployment_id[: len(_id_above(deployment_id, "deployments"))]


def _rows_from_graph(cloud: CloudSession) -> list[Json]:
    """What Resource Graph shows; nothing if it fails. Then each workspace is asked directly, which costs calls and loses nothing."""
    try:
        return list(workspaces.list_resources(cloud, *GRAPH_TYPES))
    except CloudError:
        return []


def is_gone(cloud: CloudSession, resource_id: str) -> bool:
    """Whether a deployment or endpoint no longer exists, according to the source itself. Raises CloudError.

    Resource Graph goes on showing deleted resources for minutes.
    """
    read = read_deployment if "/deployments/" in resource_id.lower() else read_endpoint
    try:
        read(cloud, resource_id)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        return True
    return False


def _deployments_of_endpoint(cloud: CloudSession, above: Json, space: Workspace) -> list[Deployment]:
    """The deployments of one endpoint. What can't be read of it is an error of the session, and hides nothing of another endpoint."""
    path = f"{above['id']}/deployments"
    try:
        rows = list(cloud.paged_rows(READ_DEPLOYMENTS, path, required_keys=REQUIRED_KEYS, on_bad_row=cloud.add_error))
    except CloudError as error:
        if not _is_known_gone(cloud, above["id"], error):
            cloud.add_error(error)
        return []
    names = {row["id"]: _last_segment(row["id"].lower()) for row in rows}
    others = {name: frozenset(names.values()) - {name} for name in names.values()}
    return [Deployment(row=row, endpoint=above, workspace=space, siblings=others[names[row["id"]]]) for row in rows]


def _is_known_gone(cloud: CloudSession, resource_id: str, error: CloudError) -> bool:
    try:
        return error.reason is Reason.GONE and is_gone(cloud, resource_id)
    except CloudError:
        return False


def _deployments_of_workspace(cloud: CloudSession, space: Workspace) -> list[Deployment]:
    path = f"{space.id}/onlineEndpoints"
    try:
        endpoints = list(cloud.paged_rows(READ_ENDPOINTS, path, required_keys=REQUIRED_KEYS, on_bad_row=cloud.add_error))
    except CloudError as error:
        if not is_workspace_gone(cloud, space, error):
            cloud.add_error(error)
        return []
    return [deployment for above in endpoints for deployment in _deployments_of_endpoint(cloud, above, space)]


def _list_deployments_of(cloud: CloudSession, above: Mapping[str, str], space: Workspace) -> Iterator[Deployment]:
    path = f"{above['id']}/deployments"
    rows = list(cloud.paged_rows(READ_DEPLOYMENTS, path, required_keys=REQUIRED_KEYS, on_bad_row=cloud.add_error))
    names = frozenset(_last_segment(row["id"].lower()) for row in rows)
    for row in rows:
        yield Deployment(row=row, endpoint=dict(above), workspace=space, siblings=names - {_last_segment(row["id"].lower())})


def _last_segment(resource_id: str) -> str:
    return resource_id.rpartition("/")[2]


def _id_above(resource_id: str, collection: str) -> str:
    """The ID of the parent of `collection`, in lower case."""
    return resource_id.lower().partition(f"/{collection}/")[0]
