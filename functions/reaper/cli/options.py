"""The options that commands share, and what they choose.

Typer reads the options of a command from its signature, so a command may have more than six parameters. No other function may: a command
collects its options at once (`read_places`) and passes one noun on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from reaper import duration, registry, settings
from reaper.errors import SettingsError
from reaper.scope import accounts as account_scope
from reaper.scope.accounts import AccountScope
from reaper.settings import Settings

MAX_VALID_FOR = timedelta(days=7)
"""How long a plan or a release may last. What is due or on hold changes too much in more time."""


class CloudName(StrEnum):
    """The clouds that --cloud accepts."""

    AWS = "aws"
    AZURE = "azure"
    ALL = "all"


RepeatedOption = list[str] | None
CloudOption = Annotated[CloudName, typer.Option("--cloud", help="Cloud to sweep")]
AccountOption = Annotated[RepeatedOption, typer.Option("--account", help="AWS account IDs, repeated or comma-separated")]
OrganizationOption = Annotated[bool, typer.Option("--organization", help="Every active AWS account of the organization")]
UnitOption = Annotated[
    RepeatedOption,
    typer.Option("--ou", help="IDs of organizational units, repeated or comma-separated; nested units are included"),
]
ExcludeAccountOption = Annotated[
    RepeatedOption, typer.Option("--exclude-account", help="AWS account IDs of the organization to leave out")
]
RoleNameOption = Annotated[
    str | None,
    typer.Option(
        "--role-name",
        help="Role to assume in other AWS accounts, with its path if it has one. Default: REAPER_TARGET_ROLE, else ml-idle-reaper-target",
        metavar="NAME",
    ),
]
ExternalIdOption = Annotated[
    str | None,
    typer.Option("--external-id", help="External ID that this role asks for. Default: REAPER_EXTERNAL_ID", metavar="ID"),
]
ManagementGroupOption = Annotated[
    str | None, typer.Option("--management-group", help="Azure management group; all its subscriptions", metavar="ID")
]
RegionOption = Annotated[RepeatedOption, typer.Option("--region", help="AWS regions, repeated or comma-separated, or all")]
SubscriptionOption = Annotated[
    RepeatedOption, typer.Option("--subscription", help="Azure subscription IDs, repeated or comma-separated")
]
KindOption = Annotated[
    RepeatedOption, typer.Option("--kind", help="Kinds of resources, repeated or comma-separated; globs allowed")
]
POLICY_HELP = "Policy file, s3:// or ssm: address, blob URL, or inline YAML. Default: REAPER_POLICY, else the built-in policy"
PolicyOption = Annotated[str | None, typer.Option("--policy", help=POLICY_HELP, metavar="FILE|URI")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderOptions:
    """The options that lead beyond one account or a list of subscriptions, as they were typed."""

    organization: bool = False
    ou: RepeatedOption = None
    exclude_account: RepeatedOption = None
    role_name: str | None = None
    external_id: str | None = None
    management_group: str | None = None


NOTHING_WIDER = WiderOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The cloud, places and kinds that options name. An empty tuple means no restriction.

    `scope`: the AWS accounts, None if no option names any.
    """

    cloud: str = "all"
    scope: AccountScope | None = None
    exclude_accounts: tuple[str, ...] = ()
    role_name: str | None = None
    external_id: str | None = None
    regions: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    management_group: str | None = None
    kinds: tuple[str, ...] = ()


def read_places(
    cloud: str,
    account: RepeatedOption,
    region: RepeatedOption,
    subscription: RepeatedOption,
    kind: RepeatedOption = None,
    wider: WiderOptions = NOTHING_WIDER,
) -> Places:
    """The places that the options name. Raises SettingsError for an empty or invalid option, one that `cloud` excludes, and two that don't go
    together.
    """
    aws = {"account": account, "region": region, "ou": wider.ou, "exclude-account": wider.exclude_account}
    azure = {"subscription": subscription}
    for name, values in {**aws, **azure, "kind": kind}.items():
        if any(not settings.split_words(value) for value in values or ()):
            raise SettingsError(f"--{name} '' is empty; leave it out to include all")
    alone = {"organization": wider.organization, "role-name": wider.role_name, "external-id": wider.external_id}
    _require_cloud(cloud, "aws", {**aws, **alone})
    _require_cloud(cloud, "azure", {**azure, "management-group": wider.management_group})
    _require_apart({"account": account}, {"organization": wider.organization, "ou": wider.ou})
    _require_apart({"subscription": subscription}, {"management-group": wider.management_group})
    return Places(
        cloud=cloud,
        scope=_account_scope(account, wider),
        exclude_accounts=account_scope.account_ids("--exclude-account", _split_values(wider.exclude_account)),
        role_name=None if wider.role_name is None else account_scope.role_name("--role-name", wider.role_name),
        external_id=None if wider.external_id is None else account_scope.external_id("--external-id", wider.external_id),
        regions=_split_values(region),
        subscriptions=_split_values(subscription),
        management_group=_management_group(wider),
        kinds=_chosen_kinds(cloud, kind),
    )


def with_places(base: Settings, places: Places) -> Settings:
    """`base`, narrowed to `places`. What no option names stays as the environment sets it; what that excludes stays excluded.

    Raises SettingsError if accounts are excluded, but no organization is swept.
    """
    names_azure = bool(places.subscriptions or places.management_group)
    chosen = replace(
        base,
        **(asdict(places.scope) if places.scope else {}),
        cloud=places.cloud,
        regions=places.regions or base.regions,
        exclude_accounts=tuple(dict.fromkeys((*base.exclude_accounts, *places.exclude_accounts))),
        role_name=places.role_name or base.role_name,
        external_id=places.external_id or base.external_id,
        subscriptions=places.subscriptions if names_azure else base.subscriptions,
        management_group=places.management_group if names_azure else base.management_group,
        kinds=places.kinds,
    )
    if places.exclude_accounts and not (chosen.organization or chosen.ous):
        raise SettingsError("--exclude-account leaves accounts of an organization out; add --organization or --ou, or drop it")
    return chosen


def with_external_id(base: Settings, external_id: str | None) -> Settings:
    """`base` with the external ID that an option names. Raises SettingsError for an invalid one."""
    return base if external_id is None else replace(base, external_id=account_scope.external_id("--external-id", external_id))


def _account_scope(account: RepeatedOption, wider: WiderOptions) -> AccountScope | None:
    if not (account or wider.organization or wider.ou):
        return None
    return AccountScope(
        accounts=account_scope.account_ids("--account", _split_values(account)),
        organization=wider.organization,
        ous=account_scope.unit_ids("--ou", _split_values(wider.ou)),
    )


def _management_group(wider: WiderOptions) -> str | None:
    group = wider.management_group
    return None if group is None else account_scope.management_group_id("--management-group", group)


def _chosen_kinds(cloud: str, kind: RepeatedOption) -> tuple[str, ...]:
    patterns = _split_values(kind)
    kinds = settings.expand_kinds(patterns, registry.kind_names())
    if cloud != "all":
        settings.require_kinds_of_cloud(cloud, patterns, [k.name for k in registry.kinds(cloud)])
    return kinds


def _require_cloud(cloud: str, its_cloud: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value and cloud not in {its_cloud, "all"}:
            raise SettingsError(f"--{name} is for {its_cloud}, but --cloud {cloud} excludes it; drop one of the two")


def _require_apart(first: Mapping[str, object], others: Mapping[str, object]) -> None:
    for name, value in first.items():
        for other, other_value in others.items():
            if value and other_value:
                raise SettingsError(f"--{name} and --{other} don't go together; drop one of the two")


def parse_validity(option: str, text: str) -> timedelta:
    """The duration that an option sets, at most a week. Raises SettingsError that names the option."""
    try:
        return duration.parse_duration(text, MAX_VALID_FOR)
    except ValueError as error:
        raise SettingsError(f"{option} {text!r}: {error}") from error


def current_time() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def _split_values(values: Sequence[str] | None) -> tuple[str, ...]:
    return settings.split_words(",".join(values or ()))
