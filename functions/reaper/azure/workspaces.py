"""The workspaces of a subscription: default ones, hubs, projects and feature stores come in one list.

https://learn.microsoft.com/rest/api/azureml/workspaces/list-by-subscription
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure import graph, tags
from reaper.azure.call import UNREADABLE, Call
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

PROVIDER = "Microsoft.MachineLearningServices"
SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
PERMISSION = f"{PROVIDER}/workspaces/read"
PERMISSIONS = (SUBSCRIPTION, PERMISSION)
TYPE = f"{PROVIDER}/workspaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One workspace; `hub` is the id of the hub that a project belongs to, lower-cased, `guid` the number that asset ids know it by.

    `shared`: it is a hub or a project, so its computes may be at work for projects that this identity cannot even see. `projects` are those
    that a hub names as its own (`associatedWorkspaces`), lower-cased.
    `odd`: its description cannot be read, so it may belong to any hub, and its tags may say anything.
    """

    id: str
    name: str
    region: str
    tags: tags.Tags
    hub: str | None = None
    guid: str | None = None
    shared: bool = False
    projects: tuple[str, ...] = ()
    odd: bool = False


def workspaces(cloud: Cloud) -> list[Workspace]:
    """Every workspace. Raises CloudError when the subscription cannot be read.

    Where only some resource groups may be read, that is noted, and what Resource Graph shows of them is given. So is one that cannot be
    read, as an odd one: left out, its jobs would be missing on its hub's computes.
    """
    try:
        found, odd = cloud.once("workspaces", lambda: _listed(cloud))
    except CloudError as error:
        if error.trouble is not Trouble.DENIED or error.operation != PERMISSION:
            raise
        cloud.note(error)
        found, odd = cloud.once("visible workspaces", lambda: (list(graph.rows(cloud, TYPE)), []))
    for trouble in odd:
        cloud.note(trouble)
    return [_read_or_odd(cloud, row) for row in found]


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


def _listed(cloud: Cloud) -> tuple[list[dict[str, Any]], list[CloudError]]:
    """The rows, and what is wrong with others. The subscription first, because it tells a missing right from an empty subscription."""
    home = f"/subscriptions/{cloud.target.account}"
    _readable(cloud, home)
    odd: list[CloudError] = []
    try:
        return list(cloud.pages(PERMISSION, f"{home}/providers/{TYPE}", has=("id",), odd=odd.append)), odd
    except CloudError as error:
        if not error.code.endswith("MissingSubscriptionRegistration"):
            raise
        return [], []


def _readable(cloud: Cloud, home: str) -> None:
    try:
        cloud.call(Call(permission=SUBSCRIPTION, path=home, has=("subscriptionId",)))
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        text = f"{SUBSCRIPTION} is not allowed over scope {home}, or there is no such subscription ({error.code})"
        raise CloudError(Trouble.DENIED, SUBSCRIPTION, text, code=error.code, missing=SUBSCRIPTION) from error


def _read_or_odd(cloud: Cloud, row: dict[str, Any]) -> Workspace:
    try:
        return _read(row)
    except UNREADABLE as error:
        cloud.note(CloudError(Trouble.GARBLED, PERMISSION, f"{row['id']} cannot be read ({error!r})"))
        return Workspace(id=row["id"], name=row["id"].rpartition("/")[2], region="", tags=None, shared=True, odd=True)


def _read(row: dict[str, Any]) -> Workspace:
    properties = row.get("properties") or {}
    hub, guid = properties.get("hubResourceId"), properties.get("workspaceId")
    projects = properties.get("associatedWorkspaces") or []
    if not all(isinstance(row[key], str) for key in ("name", "location")):
        raise TypeError("its name or location is no text")
    if not isinstance(projects, list) or not all(isinstance(one, str) for one in projects):
        raise TypeError("its associatedWorkspaces are no list of texts")
    return Workspace(
        id=row["id"],
        name=row["name"],
        region=region(row["location"]),
        tags=tags.read(row.get("tags")),
        hub=hub.lower() if hub else None,
        guid=guid if isinstance(guid, str) else None,
        shared=bool(hub or projects) or str(row.get("kind")).lower() in {"hub", "project"},
        projects=tuple(one.lower().rstrip("/") for one in projects),
    )


def unseen(space: Workspace, sight: list[Workspace]) -> str | None:
    """Why jobs of projects out of sight may be at work on the computes of `space`; None where all that its hub serves is among `sight`.

    A hub names its projects, a project its hub only: where the hub is out of sight, so may be any of its projects.
    """
    if not space.shared:
        return None
    hub = next((other for other in sight if other.id.lower() == (space.hub or space.id.lower())), None)
    if hub is None or hub.odd:
        named = _last(space.hub or space.id)
        return f"it belongs to the hub {named}, which is out of sight, and so may be projects whose jobs run on it"
    known = {text.lower() for other in sight for text in (other.id, other.name, other.guid or other.id)}
    lost = [_last(one) for one in hub.projects if one not in known]
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return (
        f"it belongs to a hub whose projects {', '.join(lost[:3])}{more} are out of sight, and so are their jobs"
        if lost
        else None
    )


def _last(id_: str | None) -> str:
    return str(id_).rpartition("/")[2]


def vanished(cloud: Cloud, space: Workspace, error: CloudError) -> bool:
    """Whether a list failed because its workspace is gone by now. A 404 for anything else is a failure like any other."""
    if error.trouble is not Trouble.GONE:
        return False
    try:
        cloud.call(Call(permission=PERMISSION, path=space.id, has=("id",)))
    except CloudError as again:
        return again.trouble is Trouble.GONE
    return False
