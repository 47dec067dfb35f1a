"""The workspaces of a subscription: default ones, hubs, projects and feature stores come in one list.

https://learn.microsoft.com/rest/api/azureml/workspaces/list-by-subscription
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure import resource_graph, tags
from reaper.azure.request import UNREADABLE, Call
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

PROVIDER = "Microsoft.MachineLearningServices"
SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
PERMISSION = f"{PROVIDER}/workspaces/read"
PERMISSIONS = (SUBSCRIPTION, PERMISSION)
TYPE = f"{PROVIDER}/workspaces"
ALONE = {"default", "featurestore"}
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
    tags: tags.Tags
    kind: str = ""
    hub: str | None = None
    guid: str | None = None
    shared: bool = False
    projects: tuple[str, ...] = ()
    odd: bool = False

    @property
    def key(self) -> str:
        """Its id, spelled the one way that ids are compared in."""
        return plain(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The workspaces, and what is wrong with the list; `hidden`: there are rows that do not even say which workspace they are.

    `narrow`: only those of some resource groups are there, because no more may be read.
    """

    spaces: list[Workspace]
    troubles: list[CloudError]
    hidden: bool = False
    narrow: bool = False


def plain(text: str) -> str:
    """An id the one way that ids are compared in: Azure spells them in any case, with a slash at the end or without. A name stays a name."""
    bare = text.strip().strip("/").lower()
    return f"/{bare}" if "/" in bare else bare


def workspaces(cloud: Cloud) -> list[Workspace]:
    """Every workspace. What is wrong with the list is noted. Raises CloudError when the subscription cannot be read."""
    return noted(cloud).spaces


def noted(cloud: Cloud) -> Listed:
    """Every workspace, with what is wrong with the list, which is noted. Raises CloudError when the subscription cannot be read."""
    found = listed(cloud)
    for trouble in found.troubles:
        cloud.note(trouble)
    return found


def listed(cloud: Cloud) -> Listed:
    """Every workspace, with what is wrong with the list. Raises CloudError when the subscription cannot be read.

    Where only some resource groups may be read, what Resource Graph shows of them is given. So is one that cannot be read, as an odd one:
    left out, its jobs would be missing on its hub's computes.
    """
    troubles: list[CloudError] = []
    cloud.named(cloud.once("subscription", lambda: _subscription(cloud)))
    try:
        found, lost = cloud.once("workspaces", lambda: _listed(cloud))
    except CloudError as error:
        if error.trouble is not Trouble.DENIED or error.operation != PERMISSION:
            raise
        troubles.append(error)
        found, lost = cloud.once("visible workspaces", lambda: (list(resource_graph.rows(cloud, TYPE)), []))
    narrow = bool(troubles)
    troubles += lost
    spaces = [_read_or_odd(row, troubles) for row in found]
    return Listed(spaces=spaces, troubles=troubles, hidden=bool(lost), narrow=narrow)


def region(text: object) -> str:
    """A region's name the one way that prices and metrics hosts know it: `East US` is `eastus`."""
    return str(text or "").replace(" ", "").lower()


def again(cloud: Cloud, space: Workspace) -> Workspace:
    """The workspace as it is now, from the source itself. Raises CloudError."""
    row = cloud.call(Call(permission=PERMISSION, path=space.id, has=("id", "name", "location")))
    try:
        return _read(row)
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, PERMISSION, f"{space.id} cannot be read ({error!r})") from error


def _subscription(cloud: Cloud) -> str | None:
    """Its name for people, where it says one. Asked for first, because it tells a missing right from an empty subscription."""
    home = f"/subscriptions/{cloud.target.account}"
    try:
        reply = cloud.call(Call(permission=SUBSCRIPTION, path=home, has=("subscriptionId",)))
    except CloudError as error:
        if error.trouble is not Trouble.GONE and not error.code.endswith("SubscriptionNotFound"):
            raise
        text = f"{SUBSCRIPTION} is not allowed over scope {home}, or there is no such subscription ({error.code})"
        raise CloudError(Trouble.DENIED, SUBSCRIPTION, text, code=error.code, missing=SUBSCRIPTION) from error
    name = reply.get("displayName")
    return name.strip() or None if isinstance(name, str) else None


def _listed(cloud: Cloud) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows, and what is wrong with others."""
    path = f"/subscriptions/{cloud.target.account}/providers/{TYPE}"
    odd: list[CloudError] = []
    try:
        return list(cloud.pages(PERMISSION, path, has=("id",), odd=odd.append)), odd
    except CloudError as error:
        if not error.code.endswith("MissingSubscriptionRegistration"):
            raise
        return [], []


def _read_or_odd(row: dict[str, Any], troubles: list[CloudError]) -> Workspace:
    try:
        return _read(row)
    except UNREADABLE as error:
        troubles.append(CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return Workspace(id=row["id"], name=row["id"].rpartition("/")[2], region="", tags=None, shared=True, odd=True)


def _read(row: dict[str, Any]) -> Workspace:
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
        region=region(row["location"]),
        tags=tags.read(row.get("tags")),
        hub=plain(hub) if hub else None,
        guid=guid if isinstance(guid, str) else None,
        shared=bool(hub or projects) or kind not in ALONE,
        projects=tuple(plain(one) for one in projects),
    )


def vanished(cloud: Cloud, space: Workspace, error: CloudError) -> bool:
    """Whether a list failed because its workspace is gone by now. A 404 for anything else is a failure like any other."""
    if error.trouble is not Trouble.GONE:
        return False
    try:
        cloud.call(Call(permission=PERMISSION, path=space.id, has=("id",)))
    except CloudError as again:
        return again.trouble is Trouble.GONE
    return False
