"""Studio domains, user profiles and spaces.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeSpace.html
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from reaper_sandbox.aws.records import Domain, Space, User
from reaper_sandbox.aws.reply import Refusal, invalid
from reaper_sandbox.aws.sagemaker import tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region


def create_domain(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Its id has nothing to do with its name."""
    title, now = params["DomainName"], region.now
    name = f"d-{sha256(f'{region.account} {region.name} {title}'.encode()).hexdigest()[:12]}"
    extra = {k: v for k, v in params.items() if k not in ("DomainName", "Tags")}
    arn = region.arn(f"domain/{name}")
    region.domains[name] = Domain(
        name=name, arn=arn, title=title, created=now, changed=now, extra=extra, tags=tags.read(params.get("Tags"))
    )
    begin(region, region.domains[name], "Pending", "InService")
    return {"DomainArn": arn, "DomainId": name}


def list_domains(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Every domain of the region."""
    settle(region)
    rows, following = page(region, "ListDomains", list(region.domains.values()), params)
    return {
        "Domains": [{"DomainArn": d.arn, "DomainId": d.name, "DomainName": d.title} | _times(d) for d in rows],
        "NextToken": following,
    }


def describe_domain(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With the settings it was created with."""
    settle(region)
    domain = region.domains.get(params["DomainId"])
    if domain is None:
        raise _missing("Domain", params["DomainId"])
    return domain.extra | {"DomainArn": domain.arn, "DomainId": domain.name, "DomainName": domain.title} | _times(domain)


def delete_domain(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Only an empty one."""
    name = params["DomainId"]
    if name not in region.domains:
        raise _missing("Domain", name)
    if any(domain == name for domain, _ in (*region.users, *region.spaces)):
        raise Refusal("ResourceInUse", f"Unable to delete Domain {name} because it still has user profiles or spaces.")
    begin(region, region.domains[name], "Deleting", "")
    return {}


def create_user(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """In a domain that exists."""
    domain, name, now = params["DomainId"], params["UserProfileName"], region.now
    _refuse(region, region.users, domain, name)
    arn = region.arn(f"user-profile/{domain}/{name}")
    extra = {k: v for k, v in params.items() if k not in ("DomainId", "UserProfileName", "Tags")}
    region.users[domain, name] = User(
        name=name, arn=arn, domain=domain, created=now, changed=now, extra=extra, tags=tags.read(params.get("Tags"))
    )
    begin(region, region.users[domain, name], "Pending", "InService")
    return {"UserProfileArn": arn}


def list_users(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Oldest first."""
    settle(region)
    users = _of_domain(chosen(region.users.values(), params, order="Ascending"), params, "UserProfileNameContains")
    rows, following = page(region, "ListUserProfiles", users, params)
    return {"UserProfiles": [{"DomainId": u.domain, "UserProfileName": u.name} | _times(u) for u in rows], "NextToken": following}


def describe_user(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its settings."""
    user: User = _find(region, region.users, params["DomainId"], params["UserProfileName"], "UserProfile")
    return user.extra | {"DomainId": user.domain, "UserProfileArn": user.arn, "UserProfileName": user.name} | _times(user)


def delete_user(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Not while it has apps."""
    user = _find(region, region.users, params["DomainId"], params["UserProfileName"], "UserProfile")
    _refuse_with_apps(region, user.domain, user.name)
    begin(region, user, "Deleting", "")
    return {}


def create_space(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """In a domain that exists; private ones have an owner."""
    domain, name, now = params["DomainId"], params["SpaceName"], region.now
    _refuse(region, region.spaces, domain, name)
    arn = region.arn(f"space/{domain}/{name}")
    extra = {k: v for k, v in params.items() if k not in ("DomainId", "SpaceName", "Tags", "OwnershipSettings")}
    region.spaces[domain, name] = Space(
        name=name, arn=arn, domain=domain, created=now, changed=now, extra=extra, tags=tags.read(params.get("Tags")),
        owner=params.get("OwnershipSettings", {}).get("OwnerUserProfileName"),
    )  # fmt: skip
    begin(region, region.spaces[domain, name], "Pending", "InService")
    return {"SpaceArn": arn}


def list_spaces(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Oldest first; no ARN."""
    settle(region)
    spaces = _of_domain(chosen(region.spaces.values(), params, order="Ascending"), params, "SpaceNameContains")
    rows, following = page(region, "ListSpaces", spaces, params)
    shown = []
    for space in rows:
        owner = {"OwnerUserProfileName": space.owner} if space.owner else None
        kind = space.extra.get("SpaceSettings", {}).get("AppType")
        summary = {
            "OwnershipSettingsSummary": owner,
            "SpaceSettingsSummary": {"AppType": kind} if kind else None,
            "SpaceSharingSettingsSummary": {"SharingType": "Private" if owner else "Shared"},
        }
        shown.append({"DomainId": space.domain, "SpaceName": space.name} | summary | _times(space))
    return {"Spaces": shown, "NextToken": following}


def describe_space(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its owner and settings."""
    space: Space = _find(region, region.spaces, params["DomainId"], params["SpaceName"], "Space")
    owner = {"OwnerUserProfileName": space.owner} if space.owner else None
    names = {"DomainId": space.domain, "SpaceArn": space.arn, "SpaceName": space.name, "OwnershipSettings": owner}
    return space.extra | names | _times(space)


def delete_space(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Not while it has apps; its storage goes with it."""
    space = _find(region, region.spaces, params["DomainId"], params["SpaceName"], "Space")
    _refuse_with_apps(region, space.domain, space.name)
    begin(region, space, "Deleting", "")
    return {}


def _refuse(region: Region, shelf: dict[tuple[str, str], Any], domain: str, name: str) -> None:
    if domain not in region.domains:
        raise invalid(f"Unable to find Domain {domain}.")
    if (domain, name) in shelf:
        raise Refusal("ResourceInUse", f"{name} already exists in Domain {domain}.")


def _refuse_with_apps(region: Region, domain: str, home: str) -> None:
    if any(key[:2] == (domain, home) and app.status != "Deleted" for key, app in region.apps.items()):
        raise Refusal("ResourceInUse", f"Unable to delete {home} because it still has apps.")


def _find(region: Region, shelf: dict[tuple[str, str], Any], domain: str, name: str, kind: str) -> Any:
    settle(region)
    if (domain, name) not in shelf:
        raise _missing(kind, name)
    return shelf[domain, name]


def _missing(kind: str, name: str) -> Refusal:
    return Refusal("ResourceNotFound", f"{kind} {name} does not exist.")


def _of_domain(rows: list[Any], params: dict[str, Any], contains: str) -> list[Any]:
    part = params.get(contains, "")
    return [r for r in rows if params.get("DomainIdEquals") in (None, r.domain) and part in r.name]


def _times(record: Any) -> dict[str, Any]:
    return {"Status": record.status, "CreationTime": record.created, "LastModifiedTime": record.changed}


OPERATIONS = {
    "CreateDomain": create_domain,
    "ListDomains": list_domains,
    "DescribeDomain": describe_domain,
    "DeleteDomain": delete_domain,
    "CreateUserProfile": create_user,
    "ListUserProfiles": list_users,
    "DescribeUserProfile": describe_user,
    "DeleteUserProfile": delete_user,
    "CreateSpace": create_space,
    "ListSpaces": list_spaces,
    "DescribeSpace": describe_space,
    "DeleteSpace": delete_space,
}
