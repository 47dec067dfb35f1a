"""Subscriptions and their workspaces. Default workspaces, hubs, projects and feature stores come in one list.

https://learn.microsoft.com/rest/api/azureml/workspaces/list-by-subscription
Only Enabled and PastDue subscriptions are acted on. In the other states Azure takes no changes but deletions, so nothing could be put back:
https://learn.microsoft.com/azure/cost-management-billing/manage/subscription-states
Resource Graph lists resources in bulk, but only what the caller may read, without a word about the rest:
https://learn.microsoft.com/azure/governance/resource-graph/overview#permissions-in-azure-resource-graph"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.azure.requests import ArmRequest, Json, Tags, parse_row, read_tags, region_key, valid_rows
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PROVIDER = "Microsoft.MachineLearningServices"
TYPE = f"{PROVIDER}/workspaces"
READ_WORKSPACES = f"{TYPE}/read"
READ_SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
READ_GRAPH = "Microsoft.ResourceGraph/resources/read"
"""A name to count by: Resource Graph needs no permission of its own."""
PERMISSIONS = (READ_SUBSCRIPTION, READ_WORKSPACES)
CHANGEABLE_STATES = frozenset({"enabled", "pastdue"})
STANDALONE_KINDS = {"default", "featurestore"}
"""Kinds of workspaces that don't share their computes."""
GRAPH_PAGE_SIZE = 1000


Subscription = tuple[str | None, str | None]
"""A subscription's name, and why nothing in it may be changed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One workspace. `hub`: the hub that a project names. `guid`: the number that asset IDs use for it.

    `shares_computes`: it is a hub or a project, or of an unknown kind, so its computes may run jobs of projects that this identity can't
    see. `projects`: those that a hub names as its own (`associatedWorkspaces`). `hub` and `projects` are spelled like `key`.
    `is_unreadable`: its description can't be read, so it may belong to any hub, and its tags may say anything.
    """

    id: str
    name: str
    region: str
    tags: Tags
    kind: str = ""
    hub: str | None = None
    guid: str | None = None
    shares_computes: bool = False
    projects: tuple[str, ...] = ()
    is_unreadable: bool = False

    @property
    def key(self) -> str:
        """Its ID in the spelling that is used to compare IDs."""
        return comparable_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceList:
    """`has_hidden_rows`: some don't even say which workspace they are. `is_restricted`: only those of some resource groups may be read."""

    workspaces: list[Workspace]
    has_hidden_rows: bool = False
    is_restricted: bool = False


def read_subscription(cloud: CloudSession, *, again: bool = False) -> None:
    """Make the session's own subscription, read once for all kinds or at this moment `again`, part of the session's target. Raises CloudError.

    Read before anything else, because it tells a missing permission from an empty subscription.
    """
    request = ArmRequest(permission=READ_SUBSCRIPTION, path=cloud.home, required_keys=("subscriptionId",))
    read = partial(cloud.call, request)
    try:
        name, because = parse_subscription(read() if again else cloud.read_once("subscription", read))
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.endswith("SubscriptionNotFound"):
            raise
        text = f"missing permission {READ_SUBSCRIPTION} on {cloud.home}, or there is no such subscription ({error.code})"
        raise CloudError(Reason.DENIED, READ_SUBSCRIPTION, text, code=error.code, missing=READ_SUBSCRIPTION) from error
    cloud.target = replace(cloud.target, account_name=name, blocked_because=because)


def list_resources(cloud: CloudSession, *types: str) -> Iterator[Json]:
    """Every readable resource of these types in the subscription, through Resource Graph. Raises CloudError, also if the result is incomplete."""
    wanted = [name.lower() for name in types]
    named = ", ".join(f"'{name}'" for name in wanted)
    query, count = f"resources | where type in~ ({named}) | order by id asc", 0

    def request(token: str) -> ArmRequest:
        options = {"resultFormat": "objectArray", "$top": GRAPH_PAGE_SIZE} | ({"$skipToken": token} if token else {})
        body = {"subscriptions": [cloud.target.account], "query": query, "options": options}
        path = "/providers/Microsoft.ResourceGraph/resources"
        return ArmRequest(permission=READ_GRAPH, path=path, body=body, required_keys=("data",))

    for page in cloud.pages(request(""), "$skipToken", request):
        for row in valid_rows(READ_GRAPH, page["data"], ("id", "name", "type")):
            if row["type"].lower() not in wanted:
                raise CloudError(Reason.UNREADABLE, READ_GRAPH, f"a row has the type {row['type']!r}, which wasn't requested")
            count += 1
            yield row
    if str(page.get("resultTruncated")).lower() == "true":  # without a way to continue
        raise CloudError(Reason.PARTIAL, READ_GRAPH, f"the result was cut off after {count} rows")
    if isinstance(total := page.get("totalRecords"), int) and total > count:
        raise CloudError(Reason.PARTIAL, READ_GRAPH, f"{count} of {total} rows came back")


def comparable_id(text: str) -> str:
    """An ID in the spelling used to compare IDs: Azure uses any case, with or without a slash at the end. A name stays a name."""
    bare = text.strip().strip("/").lower()
    return f"/{bare}" if "/" in bare else bare


def last_segment(resource_id: str) -> str:
    """The name at the end of an ID."""
    return resource_id.rpartition("/")[2]


def list_workspaces(cloud: CloudSession, *, quietly: bool = False) -> WorkspaceList:
    """Every workspace. What can't be read of the list are errors of the session, unless it is read `quietly`. Raises CloudError if the
    subscription can't be read.

    If only some resource groups may be read, these are the workspaces that Resource Graph shows. A workspace that can't be read is listed
    as unreadable: if it were left out, its jobs would be missing on its hub's computes.
    """
    read_subscription(cloud)
    denied: list[CloudError] = []
    try:
        rows, row_errors = cloud.list_once(READ_WORKSPACES, f"{cloud.home}/providers/{TYPE}", ("id",))
    except CloudError as error:
        rows, row_errors = [], []
        if error.reason is Reason.DENIED and error.operation == READ_WORKSPACES:
            denied = [error]
            rows = cloud.read_once("visible workspaces", lambda: list(list_resources(cloud, TYPE)))
        elif not error.code.endswith("MissingSubscriptionRegistration"):
            raise
    errors = [*denied, *row_errors]
    spaces: list[Workspace] = []
    for row in rows:
        try:
            spaces.append(parse_row(READ_WORKSPACES, row, _parse_workspace))
        except CloudError as error:
            errors.append(error)
            name = last_segment(row["id"])
            spaces.append(Workspace(id=row["id"], name=name, region="", tags=None, shares_computes=True, is_unreadable=True))
    for failure in () if quietly else errors:
        cloud.add_error(failure)
    return WorkspaceList(workspaces=spaces, has_hidden_rows=bool(row_errors), is_restricted=bool(denied))


def require_inside(cloud: CloudSession, resource_id: str, space: Workspace) -> None:
    """Raises CloudError unless the resource is in that workspace, and both are in the session's subscription.

    In a workflow both names come from what was handed over. Tags and metrics of another workspace must prove nothing about the resource.
    """
    subscription = f"{cloud.home}/".lower()
    is_inside = resource_id.lower().startswith(f"{space.id}/".lower()) and space.id.lower().startswith(subscription)
    if not is_inside or any(odd in resource_id for odd in ("/../", "?", "#", "%")):
        raise CloudError(Reason.REFUSED, READ_WORKSPACES, f"{resource_id} isn't in {space.id} of {subscription.strip('/')}")


def read_workspace_now(cloud: CloudSession, space: Workspace) -> Workspace:
    """The workspace as it is now, from the source itself. Raises CloudError."""
    row = cloud.call(ArmRequest(permission=READ_WORKSPACES, path=space.id, required_keys=("id", "name", "location")))
    return parse_row(READ_WORKSPACES, row, _parse_workspace)


def workspace_request(resource_id: str) -> ArmRequest:
    """Reads the workspace with that ID, or that of what is in it."""
    return ArmRequest(permission=READ_WORKSPACES, path=workspace_id(resource_id), required_keys=("id",))


def workspace_id(resource_id: str) -> str:
    """The ID of a workspace from its own or that of what is in it."""
    return "/".join(resource_id.split("/")[:9])


def parse_subscription(row: Json) -> Subscription:
    state = row["state"].strip() if isinstance(row.get("state"), str) else ""
    if state.lower() in CHANGEABLE_STATES:
        return display_name(row), None
    because = f"its subscription {f'is {state}' if state else 'has an unknown state'}, and the reaper acts only in subscriptions that are"
    return display_name(row), f"{because} Enabled or PastDue"


def display_name(row: Any) -> str | None:
    name = row.get("displayName") if isinstance(row, dict) else None
    return name.strip() or None if isinstance(name, str) else None


def _parse_workspace(row: Json) -> Workspace:
    properties = row.get("properties") or {}
    hub, guid = properties.get("hubResourceId"), properties.get("workspaceId")
    projects = properties.get("associatedWorkspaces") or []
    if not all(isinstance(row[key], str) for key in ("name", "location")):
        raise TypeError("its name or location isn't a string")
    if not isinstance(projects, list) or not all(isinstance(project, str) for project in projects):
        raise TypeError("its associatedWorkspaces aren't a list of strings")
    kind = str(row.get("kind") or "").strip().lower()
    return Workspace(
        id=row["id"],
        name=row["name"],
        kind=kind,
        region=region_key(row["location"]),
        tags=read_tags(row.get("tags")),
        hub=comparable_id(hub) if hub else None,
        guid=guid if isinstance(guid, str) else None,
        shares_computes=bool(hub or projects) or kind not in STANDALONE_KINDS,
        projects=tuple(comparable_id(project) for project in projects),
    )


COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
ASSET_PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
SEGMENT_PATTERN = r"[^/?#:@\s]+"
WORKSPACE_PATTERN = rf"(?P<group>subscriptions/{SEGMENT_PATTERN}/resourceGroups/{SEGMENT_PATTERN})/(?:providers/{re.escape(PROVIDER)}/)?workspaces/(?P<space>{SEGMENT_PATTERN})"
VERSION_PATTERN = (
    rf"(?P<collection>models|environments|codes)/(?P<name>{SEGMENT_PATTERN})/versions/(?P<version>{SEGMENT_PATTERN})"
)
SPELLINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:azureml:)?/{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://locations/{SEGMENT_PATTERN}/workspaces/(?P<guid>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml://registries/(?P<registry>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml:(?P<name>{SEGMENT_PATTERN}):(?P<version>{SEGMENT_PATTERN})",
    )
)


def assets_of(row: Mapping[str, Any], space: Workspace) -> Iterator[tuple[str, object, str | None]]:
    """The assets that a deployment in `space` names: type, reference, and path, which is empty in a registry and None if not understood."""
    properties = row["properties"]
    code = properties.get("codeConfiguration") or {}
    named = {"model": properties.get("model"), "environment": properties.get("environmentId")}
    named["code"] = code.get("codeId") if isinstance(code, dict) else code
    return ((sort, reference, _path(sort, reference, space)) for sort, reference in named.items() if reference not in (None, ""))


def unclear_because(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why the deployment alone doesn't say what it would be recreated from; None if it does."""
    odd = (f"its {sort} isn't understood ({reference})" for sort, reference, path in assets_of(row, space) if path is None)
    return next((f"{text}, so it might not be possible to recreate it" for text in odd), None)


def require_assets(cloud: CloudSession, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What it would be recreated from, archived versions too, and how each is known to exist. Raises CloudError for one that isn't."""
    found: list[Json] = []
    for sort, reference, path in assets_of(row, space):
        permission, because = f"{TYPE}/{COLLECTIONS[sort]}/versions/read", "it exists"
        if path is None:
            raise CloudError(Reason.REFUSED, permission, f"its {sort} isn't understood ({reference})")
        if path == "":
            because = "it is in a registry, which these permissions can't read: it is assumed to exist"
        elif cloud.find(ArmRequest(permission=permission, path=path, required_keys=("id", "properties"))) is None:
            text = f"its {sort} {reference} no longer exists, so it couldn't be recreated"
            raise CloudError(Reason.REFUSED, permission, text)
        found.append({"what": sort, "id": reference, "because": because})
    return found


def _path(sort: str, reference: object, space: Workspace) -> str | None:
    matches = (spelling.fullmatch(reference) for spelling in SPELLINGS) if isinstance(reference, str) else iter(())
    match, collection = next(filter(None, matches), None), COLLECTIONS[sort]
    if match is None or match.groupdict().get("collection", collection).lower() != collection:
        return None
    parts, home = match.groupdict(), space.id
    if parts.get("registry"):
        return ""
    if "group" in parts:
        home = f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    elif "guid" in parts and parts["guid"].lower() != (space.guid or "").lower():
        return None
    return f"{home}/{collection}/{parts['name']}/versions/{parts['version']}"
