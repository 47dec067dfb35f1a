"""The workspaces of a subscription: default ones, hubs, projects and feature stores come in one list.

https://learn.microsoft.com/rest/api/azureml/workspaces/list-by-subscription
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure import resource_graph
from reaper.azure.arm_values import Tags, read_tags, region_key
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, ArmRequest
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PROVIDER = "Microsoft.MachineLearningServices"
READ_SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
PERMISSION = f"{PROVIDER}/workspaces/read"
PERMISSIONS = (READ_SUBSCRIPTION, PERMISSION)
TYPE = f"{PROVIDER}/workspaces"
STANDALONE_KINDS = {"default", "featurestore"}
"""Kinds of workspaces that share their computes with no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One workspace; `hub` names the hub that a project belongs to, `guid` is the number that asset ids know it by.

    `shared`: it is a hub or a project, or of a kind that nobody knows yet, so its computes may be at work for projects that this identity
    cannot even see. `projects` are those that a hub names as its own (`associatedWorkspaces`). Both are spelled as `key` is.
    `odd`: its description cannot be read, so it may belong to any hub, and its tags may say anything.
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
        """Its id, spelled the one way that ids are compared in."""
        return comparable_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceList:
    """The workspaces, and what is wrong with the list; `hidden`: there are rows that do not even say which workspace they are.

    `narrow`: only those of some resource groups are there, because no more may be read.
    """

    workspaces: list[Workspace]
    errors: list[CloudError]
    has_hidden_rows: bool = False
    is_restricted: bool = False


def comparable_id(text: str) -> str:
    """An id the one way that ids are compared in: Azure spells them in any case, with a slash at the end or without. A name stays a name."""
    bare = text.strip().strip("/").lower()
    return f"/{bare}" if "/" in bare else bare


def list_workspaces(cloud: CloudSession) -> list[Workspace]:
    """Every workspace. What is wrong with the list is noted. Raises CloudError when the subscription cannot be read."""
    return list_and_add_errors(cloud).workspaces


def list_and_add_errors(cloud: CloudSession) -> WorkspaceList:
    """Every workspace, with what is wrong with the list, which is noted. Raises CloudError when the subscription cannot be read."""
    found = read_workspace_list(cloud)
    for trouble in found.errors:
        cloud.add_error(trouble)
    return found


def read_workspace_list(cloud: CloudSession) -> WorkspaceList:
    """Every workspace, with what is wrong with the list. Raises CloudError when the subscription cannot be read.

    Where only some resource groups may be read, what Resource Graph shows of them is given. So is one that cannot be read, as an odd one:
    left out, its jobs would be missing on its hub's computes.
    """
    troubles: list[CloudError] = []
    cloud.set_account_name(cloud.read_once("subscription", lambda: _subscription_name(cloud)))
    try:
        found, lost = cloud.read_once("workspaces", lambda: _list_rows(cloud))
    except CloudError as error:
        if error.reason is not Reason.DENIED or error.operation != PERMISSION:
            raise
        troubles.append(error)
        found, lost = cloud.read_once("visible workspaces", lambda: (list(resource_graph.list_resources(cloud, TYPE)), []))
    narrow = bool(troubles)
    troubles += lost
    spaces = [_parse_or_unreadable(row, troubles) for row in found]
    return WorkspaceList(workspaces=spaces, errors=troubles, has_hidden_rows=bool(lost), is_restricted=narrow)


def read_workspace_now(cloud: CloudSession, space: Workspace) -> Workspace:
    """The workspace as it is now, from the source itself. Raises CloudError."""
    row = cloud.call(ArmRequest(permission=PERMISSION, path=space.id, required_keys=("id", "name", "location")))
    try:
        return _parse_workspace(row)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"{space.id} cannot be read ({error!r})") from error


def _subscription_name(cloud: CloudSession) -> str | None:
    """Its name for people, where it says one. Asked for first, because it tells a missing right from an empty subscription."""
    home = f"/subscriptions/{cloud.target.account}"
    try:
        reply = cloud.call(ArmRequest(permission=READ_SUBSCRIPTION, path=home, required_keys=("subscriptionId",)))
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.endswith("SubscriptionNotFound"):
            raise
        text = f"{READ_SUBSCRIPTION} is not allowed over scope {home}, or there is no such subscription ({error.code})"
        raise CloudError(Reason.DENIED, READ_SUBSCRIPTION, text, code=error.code, missing=READ_SUBSCRIPTION) from error
    name = reply.get("displayName")
    return name.strip() or None if isinstance(name, str) else None


def _list_rows(cloud: CloudSession) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows, and what is wrong with others."""
    path = f"/subscriptions/{cloud.target.account}/providers/{TYPE}"
    odd: list[CloudError] = []
    try:
        return list(cloud.paged_rows(PERMISSION, path, required_keys=("id",), on_bad_row=odd.append)), odd
    except CloudError as error:
        if not error.code.endswith("MissingSubscriptionRegistration"):
            raise
        return [], []


def _parse_or_unreadable(row: dict[str, Any], troubles: list[CloudError]) -> Workspace:
    try:
        return _parse_workspace(row)
    except UNREADABLE_REPLY_ERRORS as error:
        troubles.append(CloudError(Reason.UNREADABLE, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return Workspace(
            id=row["id"], name=row["id"].rpartition("/")[2], region="", tags=None, shares_computes=True, is_unreadable=True
        )


def _parse_workspace(row: dict[str, Any]) -> Workspace:
    properties = row.get("properties") or {}
    hub, guid = properties.get("hubResourceId"), properties.get("workspaceId")
    projects = properties.get("associatedWorkspaces") or []
    if not all(isinstance(row[key], str) for key in ("name", "location")):
        raise TypeError("its name or location is no text")
    if not isinstance(projects, list) or not all(isinstance(one, str) for one in projects):
        raise TypeError("its associatedWorkspaces are no list of texts")
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
        projects=tuple(comparable_id(one) for one in projects),
    )


def is_workspace_gone(cloud: CloudSession, space: Workspace, error: CloudError) -> bool:
    """Whether a list failed because its workspace is gone by now. A 404 for anything else is a failure like any other."""
    if error.reason is not Reason.GONE:
        return False
    try:
        cloud.call(ArmRequest(permission=PERMISSION, path=space.id, required_keys=("id",)))
    except CloudError as again:
        return again.reason is Reason.GONE
    return False
