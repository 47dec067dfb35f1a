"""Which AWS accounts and Azure subscriptions to sweep, as settings, options and calls name them. Pure.

Account and unit IDs: https://docs.aws.amazon.com/organizations/latest/APIReference/API_OrganizationalUnit.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reaper.errors import SettingsError

SELF, ORGANIZATION = "self", "organization"
ACCOUNT_ID = re.compile(r"[0-9]{12}")
UNIT_ID = re.compile(r"ou-[0-9a-z]{4,32}-[0-9a-z]{8,32}")
ROLE_NAME = re.compile(r"([\w+=,.@-]+/)*[\w+=,.@-]{1,64}", re.ASCII)
EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
SUBSCRIPTION_ID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
MANAGEMENT_GROUP_ID = re.compile(r"[\w.()-]{1,90}", re.ASCII)
TARGET_ROLE = "ml-idle-reaper-target"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountScope:
    """The AWS accounts to sweep: those with these IDs, those of an organization, or those of its units. Nothing named: the credentials' own.

    `accounts` together with the organization or its units: only those of them that are in it, so that a call can't add one.
    `only_own_account`: no account but the credentials' own, whatever else is named.
    """

    accounts: tuple[str, ...] = ()
    organization: bool = False
    ous: tuple[str, ...] = ()
    only_own_account: bool = False


def parse_accounts(key: str, words: Sequence[str]) -> AccountScope:
    """The scope that `self`, `organization`, account IDs or unit IDs name. Raises SettingsError that names `key`."""
    units = tuple(word for word in words if word.startswith("ou-"))
    ids = tuple(word for word in words if word not in {SELF, ORGANIZATION, *units})
    scope = AccountScope(
        accounts=account_ids(key, ids),
        organization=ORGANIZATION in words,
        ous=unit_ids(key, units),
        only_own_account=SELF in words,
    )
    if SELF in words and len(words) > 1:
        raise SettingsError(f"{key}: self stands alone; to sweep other accounts as well, name your own by its ID")
    if ids and (units or scope.organization):
        other = units[0] if units else ORGANIZATION
        raise SettingsError(f"{key}: {ids[0]} and {other} don't go together; use account IDs, or organization, or unit IDs")
    return scope


def account_ids(key: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The IDs. Raises SettingsError that names `key` and the first that isn't an AWS account ID."""
    return _require_all(key, ids, ACCOUNT_ID, "isn't an AWS account ID; use 12 digits, with leading zeros")


def subscription_ids(key: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The IDs in the usual spelling. Raises SettingsError that names `key` and the first that isn't a subscription's ID."""
    expected = "isn't a subscription ID such as 00000000-0000-0000-0000-000000000000"
    return tuple(dict.fromkeys(map(str.lower, _require_all(key, ids, SUBSCRIPTION_ID, expected))))


def unit_ids(key: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The IDs. Raises SettingsError that names `key` and the first that isn't an organizational unit's ID."""
    return _require_all(key, ids, UNIT_ID, "isn't the ID of an organizational unit, such as ou-ab12-34cdefgh")


def _require_all(key: str, ids: Sequence[str], pattern: re.Pattern[str], otherwise: str) -> tuple[str, ...]:
    for one in ids:
        if not pattern.fullmatch(one):
            raise SettingsError(f"{key}: {one!r} {otherwise}")
    return tuple(dict.fromkeys(ids))


def role_name(key: str, text: str) -> str:
    """The name of the role to assume in other accounts, with its path if it has one. Raises SettingsError that names `key`."""
    name = text.removeprefix("/")
    if not ROLE_NAME.fullmatch(name):
        raise SettingsError(
            f"{key}={text!r} isn't a role's name; use NAME or PATH/NAME, without the ARN, because it is the same in each account"
        )
    return name


def external_id(key: str, text: str) -> str:
    """The external ID. Raises SettingsError that names `key` and not the ID."""
    if not EXTERNAL_ID.fullmatch(text):
        raise SettingsError(f"{key} isn't an external ID; use 2 to 1,224 letters, digits and +=,.@:/-")
    return text


def management_group_id(key: str, text: str) -> str:
    """The management group's ID. Raises SettingsError that names `key`."""
    if not MANAGEMENT_GROUP_ID.fullmatch(text):
        raise SettingsError(f"{key}={text!r} isn't a management group's ID; use its ID, not its display name")
    return text


def narrow_accounts(configured: AccountScope, asked: AccountScope) -> AccountScope:
    """`configured`, narrowed to what a call asks for. Raises SettingsError for an account, a unit or an organization outside it."""
    is_whole = configured.organization and not configured.ous
    if asked.organization and not is_whole:
        raise _outside("accounts", ORGANIZATION, configured)
    ous = () if is_whole else [unit for unit in asked.ous if unit not in configured.ous]
    others = [account for account in asked.accounts if configured.accounts and account not in configured.accounts]
    for key, outside in (("ous", ous), ("accounts", others)):
        if outside:
            raise _outside(key, outside[0], configured)
    is_own_by_default = not (configured.accounts or configured.organization or configured.ous)
    return replace(
        configured,
        accounts=asked.accounts or configured.accounts,
        ous=asked.ous or configured.ous,
        only_own_account=configured.only_own_account or asked.only_own_account or (is_own_by_default and bool(asked.accounts)),
    )


def _outside(key: str, name: str, configured: AccountScope) -> SettingsError:
    whole = "the whole organization" if configured.organization else "its own account"
    places = ", ".join((*configured.ous, *configured.accounts)) or whole
    return SettingsError(f"{key}: this deployment doesn't sweep {name!r}, only {places}; a call can only narrow them")
