"""Studio apps of spaces and user profiles. Deleted ones stay listed; their ARNs keep the case of the app type.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.records import App
from reaper_sandbox.aws.reply import Refusal, invalid
from reaper_sandbox.aws.sagemaker import tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region

Key = tuple[str, str, str, str]


def list_apps(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Oldest first; no ARN, no change time, no filter by status."""
    settle(region)
    apps = [
        a
        for a in chosen(region.apps.values(), params, order="Ascending")
        if params.get("DomainIdEquals") in (None, a.domain)
        and params.get("UserProfileNameEquals") in (None, a.user)
        and params.get("SpaceNameEquals") in (None, a.space)
    ]
    rows, following = page(region, "ListApps", apps, params)
    return {"Apps": [_summary(a) for a in rows], "NextToken": following}


def describe_app(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its ARN and its two timestamps."""
    app = find(region, params)
    return _summary(app) | {"AppArn": app.arn, "LastUserActivityTimestamp": app.used, "LastHealthCheckTimestamp": app.checked}


def create_app(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """For a space or a user profile of a domain that exists."""
    settle(region)
    key, now = _key(params), region.now
    if key in region.apps and region.apps[key].status != "Deleted":
        raise Refusal("ResourceInUse", f"App {params['AppName']} already exists.")
    home = region.spaces if params.get("SpaceName") else region.users
    if params["DomainId"] not in region.domains or key[:2] not in home:
        raise invalid(f"Unable to find {key[1]} in Domain {params['DomainId']}.")
    app = App(
        domain=key[0], space=params.get("SpaceName"), user=params.get("UserProfileName"), type=key[2], name=key[3],
        arn=arn(region, key), created=now, resources=params.get("ResourceSpec") or {}, used=now, checked=now,
        tags=tags.read(params.get("Tags")),
    )  # fmt: skip
    region.apps[key] = app
    begin(region, app, "Pending", "InService")
    return {"AppArn": app.arn}


def delete_app(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Its space keeps the files; its row stays in the list."""
    app = find(region, params)
    if app.status in ("Deleted", "Deleting"):
        raise Refusal("ResourceNotFound", f"App {app.name} has already been deleted.")
    begin(region, app, "Deleting", "Deleted")
    return {}


def find(region: Region, params: dict[str, Any]) -> App:
    """The app that the parameters name. Raises ResourceNotFound."""
    settle(region)
    key = _key(params)
    if key not in region.apps:
        raise Refusal("ResourceNotFound", f"App {params['AppName']} of type {params['AppType']} does not exist.")
    return region.apps[key]


def arn(region: Region, key: Key) -> str:
    """The app type is lower-cased in it."""
    domain, home, kind, name = key
    return region.arn(f"app/{domain}/{home}/{kind}/{name}")


def _key(params: dict[str, Any]) -> Key:
    space, user = params.get("SpaceName"), params.get("UserProfileName")
    if bool(space) == bool(user):
        raise invalid("Exactly one of UserProfileName and SpaceName must be given.")
    return params["DomainId"], str(space or user), params["AppType"], params["AppName"]


def _summary(app: App) -> dict[str, Any]:
    return {
        "DomainId": app.domain,
        "UserProfileName": app.user,
        "SpaceName": app.space,
        "AppType": app.type,
        "AppName": app.name,
        "Status": app.status,
        "CreationTime": app.created,
        "ResourceSpec": app.resources,
    }


OPERATIONS = {"ListApps": list_apps, "DescribeApp": describe_app, "CreateApp": create_app, "DeleteApp": delete_app}
