"""An organization: its accounts and units, the roles in them, and what AWS Organizations answers about it.

    server.world.organization = Organization(members=[Member(id="111122223333", name="research")])

Callers other than the management account and delegated administrators are denied, and empty pages with a token occur:
https://docs.aws.amazon.com/organizations/latest/APIReference/API_ListAccounts.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reaper_sandbox.aws import token
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.world import Region

ORGANIZATION_ID, ROOT = "o-sandbox1234", "r-sand"
MAX_PAGE = 20
DEFAULT_REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
)
"""Those that every account has."""
NOT_IN_USE = Refusal("AWSOrganizationsNotInUseException", "Your account is not a member of an organization.")


@dataclass(slots=True, kw_only=True)
class Member:
    """An account. `parent`: the root or a unit. `has_state` False: its rows have only the older `Status`."""

    id: str
    name: str
    parent: str = ROOT
    state: str = "ACTIVE"
    has_state: bool = True


@dataclass(slots=True, kw_only=True)
class Unit:
    """An organizational unit."""

    id: str
    name: str
    parent: str = ROOT


@dataclass(slots=True, kw_only=True)
class TargetRole:
    """A role that other accounts may assume. `trusted`: that account; `principals`: patterns of `aws:PrincipalArn`; `external_id`: if it asks for one."""

    arn: str
    trusted: str = "123456789012"
    principals: Sequence[str] = ("*",)
    external_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Organization:
    """All of it. `regions`: the only regions that an account may use; one that isn't there has the default ones and isn't checked. `delegated`: who else may read it."""

    members: list[Member] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    roles: list[TargetRole] = field(default_factory=list)
    regions: dict[str, Sequence[str]] = field(default_factory=dict)
    management: str = "123456789012"
    delegated: set[str] = field(default_factory=set)
    page: int = MAX_PAGE

    def add(self, account: str, name: str, role: str | None = "ml-idle-reaper-target", **member: Any) -> Member:
        """An account, with a role of that name and path that the management account may assume."""
        new = Member(id=account, name=name, **member)
        self.members.append(new)
        if role:
            self.roles.append(TargetRole(arn=f"arn:aws:iam::{account}:role/{role}", trusted=self.management))
        return new


def list_accounts(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Every account, closed ones too."""
    found = _organization_of(region)
    return _page("ListAccounts", "Accounts", [_account(found, m) for m in found.members], params, found)


def list_accounts_for_parent(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """The accounts right below a root or unit."""
    found = _organization_of(region)
    _require_parent(found, params)
    rows = [_account(found, m) for m in found.members if m.parent == params["ParentId"]]
    return _page("ListAccountsForParent", "Accounts", rows, params, found)


def list_units_for_parent(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """The units right below a root or unit."""
    found = _organization_of(region)
    _require_parent(found, params)
    rows = [_unit(found, u) for u in found.units if u.parent == params["ParentId"]]
    return _page("ListOrganizationalUnitsForParent", "OrganizationalUnits", rows, params, found)


def describe_unit(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """One unit."""
    found = _organization_of(region)
    for unit in found.units:
        if unit.id == params["OrganizationalUnitId"]:
            return {"OrganizationalUnit": _unit(found, unit)}
    raise Refusal("OrganizationalUnitNotFoundException", "You specified an organizational unit that doesn't exist.")


def list_roots(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """The one root."""
    found = _organization_of(region)
    arn = f"arn:aws:organizations::{found.management}:root/{ORGANIZATION_ID}/{ROOT}"
    return {"Roots": [{"Id": ROOT, "Arn": arn, "Name": "Root", "PolicyTypes": []}]}


def describe_organization(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """The organization. Every member may ask for it."""
    found: Organization | None = region.world.organization
    if found is None or region.account not in {found.management, *(member.id for member in found.members)}:
        raise NOT_IN_USE
    arn = f"arn:aws:organizations::{found.management}:organization/{ORGANIZATION_ID}"
    return {"Organization": {"Id": ORGANIZATION_ID, "Arn": arn, "FeatureSet": "ALL", "MasterAccountId": found.management}}


def describe_regions(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """The enabled regions of the caller's account. None, for moto, if there is no organization."""
    found: Organization | None = region.world.organization
    if found is None:
        return None
    names = found.regions.get(region.account, DEFAULT_REGIONS)
    chosen = set(params.get("RegionName") or names)
    return {
        "regionInfo": [
            {"regionName": name, "regionEndpoint": f"ec2.{name}.amazonaws.com", "optInStatus": "opt-in-not-required"}
            for name in names
            if name in chosen
        ]
    }


def _organization_of(region: Region) -> Organization:
    """The organization, if there is one and the caller may read it."""
    found: Organization | None = region.world.organization
    if found is None:
        raise NOT_IN_USE
    if region.account not in {found.management, *found.delegated}:
        raise Refusal("AccessDeniedException", "You don't have permissions to access this resource.")
    return found


def _require_parent(found: Organization, params: dict[str, Any]) -> None:
    if params["ParentId"] not in {ROOT, *(unit.id for unit in found.units)}:
        raise Refusal("ParentNotFoundException", "You specified a parent that doesn't exist.")


def _account(found: Organization, member: Member) -> dict[str, Any]:
    arn = f"arn:aws:organizations::{found.management}:account/{ORGANIZATION_ID}/{member.id}"
    state = {"State": member.state, "Status": member.state} if member.has_state else {"Status": member.state}
    return {"Id": member.id, "Arn": arn, "Name": member.name, "Email": f"{member.id}@example.com", **state}


def _unit(found: Organization, unit: Unit) -> dict[str, Any]:
    arn = f"arn:aws:organizations::{found.management}:ou/{ORGANIZATION_ID}/{unit.id}"
    return {"Id": unit.id, "Arn": arn, "Name": unit.name}


def _page(
    operation: str, key: str, rows: Sequence[dict[str, Any]], params: dict[str, Any], found: Organization
) -> dict[str, Any]:
    """One page of the rows. The second page is always empty, as it may be with AWS."""
    size = min(found.page, int(params.get("MaxResults") or MAX_PAGE))
    pages = [rows[first : first + size] for first in range(0, len(rows), size)] or [[]]
    pages.insert(1, [])
    number = token.read(
        params.get("NextToken"), operation, Refusal("InvalidInputException", "You provided an invalid next token.")
    )
    following = token.write(operation, number + 1) if number + 1 < len(pages) else None
    return {key: pages[number], "NextToken": following}


OPERATIONS = {
    "ListAccounts": list_accounts,
    "ListAccountsForParent": list_accounts_for_parent,
    "ListOrganizationalUnitsForParent": list_units_for_parent,
    "DescribeOrganizationalUnit": describe_unit,
    "ListRoots": list_roots,
    "DescribeOrganization": describe_organization,
}
EC2_OPERATIONS = {"DescribeRegions": describe_regions}
