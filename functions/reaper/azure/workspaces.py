"""The workspaces of a subscription: default workspaces, hubs, projects and feature stores come in one list.

https://learn.microsoft.com/rest/api/azureml/workspaces/list-by-subscription
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure import resource_graph, subscriptions
from reaper.azure.arm_values import Tags, read_tags, region_key
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, ArmRequest
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PROVIDER = "Microsoft.MachineLearningServices"
PERMISSION = f"{PROVIDER}/workspaces/read"
PERMISSIONS = (subscriptions.READ_SUBSCRIPTION, PERMISSION)
TYPE = f"{PROVIDER}/workspaces"
STANDALONE_KINDS = {"default", "featurestore"}
"""Kinds of workspaces that don't share their computes."""


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
    """The workspaces, and the errors of the list. `has_hidden_rows`: some rows don't even say which workspace they are.

    `is_restricted`: only the workspaces of some resource groups may be read.
    """

    workspaces: list[Workspace]
    errors: list[CloudError]
    has_hidden_rows: bool = False
    is_restricted: bool = False


def comparable_id(text: str) -> str:
    """An ID in the spelling used to compare IDs: Azure uses any case, with or without a slash at the end. A name stays a name."""
    bare = text.strip().strip("/").lower()
    return f"/{bare}" if "/" in bare else bare


def list_workspaces(cloud: CloudSession) -> list[Workspace]:
    """Every workspace. Errors of the list become the session's. Raises CloudError if the subscription can't be read."""
    return list_and_add_errors(cloud).workspaces


def list_and_add_errors(cloud: CloudSession) -> WorkspaceList:
    """Every workspace and the errors of the list, which become the session's too. Raises CloudError if the subscription can't be read."""
    listed = read_workspace_list(cloud)
    for error in listed.errors:
        cloud.add_error(error)
    return listed


def read_workspace_list(cloud: CloudSession) -> WorkspaceList:
    """Every workspace, and the errors of the list. Raises CloudError if the subscription can't be read.

    If only some resource groups may be read, these are the workspaces that Resource Graph shows. A workspace that can't be read is listed
    as unreadable: if it were left out, its jobs would be missing on its hub's computes.
    """
    errors: list[CloudError] = []
    subscriptions.read_subscription(cloud)
    try:
        rows, row_errors = cloud.read_once("workspaces", lambda: _list_rows(cloud))
    except CloudError as error:
        if error.reason is not Reason.DENIED or error.operation != PERMISSION:
            raise
        errors.append(error)
        rows, row_errors = cloud.read_once("visible workspaces", lambda: (list(resource_graph.list_resources(cloud, TYPE)), []))
    is_restricted = bool(errors)
    errors += row_errors
    spaces = [_parse_or_unreadable(row, errors) for row in rows]
    return WorkspaceList(workspaces=spaces, errors=errors, has_hidden_rows=bool(row_errors), is_restricted=is_restricted)


def require_inside(cloud: CloudSession, resource_id: str, space: Workspace) -> None:
    """Raises CloudError unless the resource is in that workspace, and both are in the session's subscription.

    In a workflow both names come from what was handed over. Tags and metrics of another workspace must prove nothing about the resource.
    """
    subscription = f"/subscriptions/{cloud.target.account}/".lower()
    is_inside = resource_id.lower().startswith(f"{space.id}/".lower()) and space.id.lower().startswith(subscription)
    if not is_inside or any(odd in resource_id for odd in ("/../", "?", "#", "%")):
        raise CloudError(Reason.REFUSED, PERMISSION, f"{resource_id} isn't in {space.id} of {subscription.strip('/')}")


def read_workspace_now(cloud: CloudSession, space: Workspace) -> Workspace:
    """The workspace as it is now, from the source itself. Raises CloudError."""
    row = cloud.call(ArmRequest(permission=PERMISSION, path=space.id, required_keys=("id", "name", "location")))
    try:
        return _parse_workspace(row)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{space.id} can't be read ({error!r})") from error


def _list_rows(cloud: CloudSession) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows, and the errors of other rows."""
    path = f"/subscriptions/{cloud.target.account}/providers/{TYPE}"
    errors: list[CloudError] = []
    try:
        return list(cloud.paged_rows(PERMISSION, path, required_keys=("id",), on_bad_row=errors.append)), errors
    except CloudError as error:
        if not error.code.endswith("MissingSubscriptionRegistration"):
            raise
        return [], []


def _parse_or_unreadable(row: dict[str, Any], errors: list[CloudError]) -> Workspace:
    try:
        return _parse_workspace(row)
    except UNREADABLE_REPLY_ERRORS as error:
        errors.append(CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} can't be read ({error!r})"))
        return Workspace(
            id=row["id"], name=row["id"].rpartition("/")[2], region="", tags=None, shares_computes=True, is_unreadable=True
        )


def _parse_workspace(row: dict[str, Any]) -> Workspace:
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


def is_workspace_gone(cloud: CloudSession, space: Workspace, error: CloudError) -> bool:
    """Whether a list failed because its workspace is gone by now. A 404 for anything else is an ordinary failure."""
    if error.reason is not Reason.GONE:
        return False
    try:
        cloud.call(ArmRequest(permission=PERMISSION, path=space.id, required_keys=("id",)))
    except CloudError as second_error:
        return second_error.reason is Reason.GONE
    return False
