"""Online deployments with their endpoints: in bulk through Resource Graph, and one by one if it doesn't show them.

Resource Graph leaves out what the identity may not read, so a workspace without a single endpoint there is asked directly.
https://learn.microsoft.com/azure/governance/resource-graph/reference/supported-tables-resources
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from reaper.azure import workspaces
from reaper.azure.requests import ArmRequest, Json
from reaper.azure.workspaces import PERMISSIONS as WORKSPACE_PERMISSIONS
from reaper.azure.workspaces import (
    PROVIDER,
    TYPE,
    Workspace,
    comparable_id,
    list_workspaces,
    read_subscription_now,
    read_workspace_now,
    require_inside,
    workspace_request,
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
PAGE_LENGTH = 30
"""The number of rows that a page of a list is expected to have. It only decides how something is read."""
EMPTY: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment, its endpoint (empty if that wasn't listed) and its workspace, each as Azure returned it.

    `siblings`: the names of the other deployments of its endpoint.
    """

    row: Json
    endpoint: Json
    workspace: Workspace
    siblings: frozenset[str] = frozenset()


def list_deployments(cloud: CloudSession) -> Iterator[Deployment]:
    """Every deployment once, even if Azure lists it in several spellings. What can't be read of a workspace or an endpoint is an error of the
    session. Raises CloudError if the workspaces can't be listed.
    """
    spaces = {space.key: space for space in list_workspaces(cloud).workspaces}
    endpoints, deployments = _rows_from_graph(cloud) if spaces else ({}, {})
    shown = {_id_above(key, "onlineendpoints") for key in (*endpoints, *deployments)}
    hidden = [workspace_request(space.id) for key, space in spaces.items() if key not in shown]
    for rows in cloud.map_concurrently(partial(_list_below, cloud, READ_ENDPOINTS, "onlineEndpoints"), hidden):
        endpoints |= rows
    filled = {_id_above(key, "deployments") for key in deployments}
    bare = [
        endpoint_request(row["id"])
        for key, row in endpoints.items()
        if key not in filled and _id_above(key, "onlineendpoints") in spaces
    ]
    for rows in cloud.map_concurrently(partial(_list_below, cloud, READ_DEPLOYMENTS, "deployments"), bare):
        deployments |= rows
    yield from _join(endpoints, deployments, spaces)


def read_deployment_and_endpoint(
    cloud: CloudSession, deployment_id: str, current: Mapping[str, Json] = EMPTY
) -> tuple[Json, Json]:
    """A deployment and its endpoint as they are now, from the source itself unless `current` has them. Raises CloudError."""
    above = endpoint_id(deployment_id)
    row = current.get(deployment_id.lower()) or read_deployment(cloud, deployment_id)
    return row, current.get(above.lower()) or cloud.read_once(("endpoint", above.lower()), lambda: read_endpoint(cloud, above))


def list_current_rows(cloud: CloudSession, silent: Iterable[str], listed: Iterable[str]) -> dict[str, Json]:
    """The `silent` deployments and their endpoints as they are now, by ID in lower case, as far as lists take fewer calls than reading each.

    `listed`: the IDs of all deployments. What a list doesn't show, or what fails, is left out: it is read alone, which reports the failure.
    """
    rows: dict[str, Json] = {}
    wanted, known = set(silent), set(listed)
    for permission, collection in ((READ_DEPLOYMENTS, "deployments"), (READ_ENDPOINTS, "onlineEndpoints")):
        keys = {one.lower() for one in wanted}
        paths = [f"{above}/{collection}" for above in _parents_to_list(wanted, known, collection.lower())]
        for found in cloud.map_concurrently(partial(_list_quietly, cloud, permission), paths):
            rows |= {key: row for key, row in found.items() if key in keys}
        wanted, known = ({endpoint_id(one) for one in ids} for ids in (wanted, known))
    return rows


def _parents_to_list(wanted: Iterable[str], known: Iterable[str], collection: str) -> Iterator[str]:
    """The IDs of the parents whose collection takes fewer calls to list than its `wanted` members take to read."""
    parents = {_id_above(one, collection): one[: len(_id_above(one, collection))] for one in wanted}
    counts = Counter(_id_above(one, collection) for one in {one.lower() for one in wanted})
    lengths = Counter(_id_above(one, collection) for one in {one.lower() for one in known})
    return (above for key, above in parents.items() if counts[key] > math.ceil(lengths[key] / PAGE_LENGTH))


def _list_quietly(cloud: CloudSession, permission: str, path: str) -> dict[str, Json]:
    with suppress(CloudError):
        rows = cloud.paged_rows(permission, path, required_keys=REQUIRED_KEYS, on_bad_row=lambda error: None)
        return {row["id"].lower(): row for row in rows}
    return {}


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
    return cloud.call(deployment_request(deployment_id))


def read_endpoint(cloud: CloudSession, endpoint: str) -> Json:
    return cloud.call(endpoint_request(endpoint))


def deployment_request(deployment_id: str) -> ArmRequest:
    return ArmRequest(permission=READ_DEPLOYMENTS, path=deployment_id, required_keys=REQUIRED_KEYS)


def endpoint_request(endpoint: str) -> ArmRequest:
    return ArmRequest(permission=READ_ENDPOINTS, path=endpoint, required_keys=("id", "properties"))


def endpoint_id(deployment_id: str) -> str:
    """The ID of the endpoint that a deployment belongs to."""
    return deployment_id[: len(_id_above(deployment_id, "deployments"))]


def _rows_from_graph(cloud: CloudSession) -> tuple[dict[str, Json], dict[str, Json]]:
    """The endpoints and deployments that Resource Graph shows, by ID in lower case.

    None if it fails: then each workspace is asked directly, which costs calls and loses nothing.
    """
    by_type: dict[str, dict[str, Json]] = {name.lower(): {} for name in GRAPH_TYPES}
    with suppress(CloudError):
        for row in list(workspaces.list_resources(cloud, *GRAPH_TYPES)):
            by_type[row["type"].lower()].setdefault(row["id"].lower(), row)
    endpoints, deployments = by_type.values()
    return endpoints, deployments


def is_gone(cloud: CloudSession, resource_id: str) -> bool:
    """Whether a deployment or endpoint no longer exists. Raises CloudError.

    Resource Graph goes on showing deleted resources for minutes, so Azure ML itself is asked.
    """
    request = deployment_request if "/deployments/" in resource_id.lower() else endpoint_request
    return cloud.find(request(resource_id)) is None


def _list_below(cloud: CloudSession, permission: str, collection: str, above: ArmRequest) -> dict[str, Json]:
    """What the resource that `above` reads has in that collection, by ID in lower case. What can't be read is an error of the session; of a
    resource that is gone, there is nothing.
    """
    rows: dict[str, Json] = {}
    path = f"{above.path}/{collection}"
    try:
        for row in cloud.paged_rows(permission, path, required_keys=REQUIRED_KEYS, on_bad_row=cloud.add_error):
            if _id_above(row["id"], collection.lower()) == comparable_id(above.path):
                rows.setdefault(row["id"].lower(), row)
            else:
                cloud.add_error(CloudError(Reason.UNREADABLE, permission, f"{row['id']} isn't below {above.path}"))
    except CloudError as error:
        if not cloud.failed_as_gone(error, above):
            cloud.add_error(error)
        return {}
    return rows


def _join(
    endpoints: Mapping[str, Json], deployments: Mapping[str, Json], spaces: Mapping[str, Workspace]
) -> Iterator[Deployment]:
    """Each deployment of a listed workspace with its endpoint and its siblings."""
    names: dict[str, set[str]] = defaultdict(set)
    for key in deployments:
        names[_id_above(key, "deployments")].add(_last_segment(key))
    for key, row in deployments.items():
        above = _id_above(key, "deployments")
        if space := spaces.get(_id_above(key, "onlineendpoints")):
            siblings = frozenset(names[above] - {_last_segment(key)})
            yield Deployment(row=row, endpoint=endpoints.get(above, {}), workspace=space, siblings=siblings)


def _last_segment(resource_id: str) -> str:
    return resource_id.rpartition("/")[2]


def _id_above(resource_id: str, collection: str) -> str:
    """The ID of the parent of `collection`, in lower case."""
    return resource_id.lower().partition(f"/{collection}/")[0]
