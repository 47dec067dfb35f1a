"""The options that say which accounts, regions and subscriptions a command looks at; the deployment's ledger, and sessions for commands that
change something.

A command takes them as one parameter, `places`, with more of its own in a subclass. `with_place_options` turns it into one option for each
field, since Typer reads the options of a command from its signature.
"""

from __future__ import annotations

import functools
import getpass
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from reaper import registry, settings
from reaper.cli.options import ExternalIdOption, PolicyOption
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.model import Mode, Target
from reaper.sessions import list_accounts, open_account, session_of
from reaper.settings import AccountScope, Settings

if TYPE_CHECKING:
    from reaper.sessions import CloudSession

OTHER_ACCOUNT = (
    "it is in AWS account {account}, to which the current credentials don't belong; use that account's, or name a role in it with --role-name. "
    "The role of a sweep won't do, because it may not create anything"
)


CloudName = Literal["aws", "azure", "all"]
RepeatedOption = list[str] | None
KindOption = Annotated[
    RepeatedOption, typer.Option("--kind", help="Kinds of resources, repeated or comma-separated; globs allowed")
]

MODE_HELP = (
    "Run mode: audit only reports, notify also sends notices, announce also puts the date of the action in them, enforce also acts. "
    "Default: REAPER_MODE, else audit"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """The options of places, as they were typed."""

    cloud: Annotated[CloudName | None, typer.Option(help="Cloud to sweep")] = "all"
    account: Annotated[RepeatedOption, typer.Option(help="AWS account IDs, repeated or comma-separated")] = None
    organization: Annotated[bool, typer.Option("--organization", help="Every active AWS account of the organization")] = False
    ou: Annotated[
        RepeatedOption,
        typer.Option(help="IDs of organizational units, repeated or comma-separated; nested units are included"),
    ] = None
    exclude_account: Annotated[RepeatedOption, typer.Option(help="AWS account IDs of the organization to leave out")] = None
    role_name: Annotated[
        str | None,
        typer.Option(
            help="Role to assume in other AWS accounts, with its path if it has one. Default: REAPER_TARGET_ROLE, else ml-idle-reaper-target",
            metavar="NAME",
        ),
    ] = None
    external_id: ExternalIdOption = None
    region: Annotated[RepeatedOption, typer.Option(help="AWS regions, repeated or comma-separated, or all")] = None
    subscription: Annotated[RepeatedOption, typer.Option(help="Azure subscription IDs, repeated or comma-separated")] = None
    management_group: Annotated[str | None, typer.Option(help="Azure management group; all its subscriptions", metavar="ID")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(PlaceOptions):
    """What one sweep is: its places, its kinds of resources, its policy and its mode."""

    kind: KindOption = None
    policy: PolicyOption = None
    mode: Annotated[
        str | None,
        typer.Option("--mode", help=MODE_HELP, metavar="|".join(Mode), autocompletion=lambda: [mode.value for mode in Mode]),
    ] = None


def with_place_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its parameter `places`, a PlaceOptions, as options."""
    as_option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    hints = get_type_hints(command, include_extras=True)
    form: type[PlaceOptions] = hints.pop("places")
    field_hints = get_type_hints(form, include_extras=True)
    place_options = [as_option(field.name, annotation=field_hints[field.name], default=field.default) for field in fields(form)]

    @functools.wraps(command)
    def run_command(**given: Any) -> None:
        typed = form(**{option.name: given.pop(option.name) for option in place_options})
        command(places=typed, **given)

    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        options += place_options if name == "places" else [as_option(name, annotation=hints[name], default=parameter.default)]
    run_command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run_command.__annotations__ = {option.name: option.annotation for option in options}
    return run_command


def chosen_settings(sweep: SweepOptions) -> Settings:
    """The settings of the environment and of the options that every sweep has. Raises SettingsError."""
    base = settings.from_env(os.environ)
    return replace(
        with_places(base, sweep, sweep.kind),
        mode=settings.MODE.read_or(base.mode, "--mode", sweep.mode),
        policy=base.policy if sweep.policy is None else sweep.policy,
    )


def with_places(base: Settings, typed: PlaceOptions, kind: RepeatedOption = None) -> Settings:
    """`base`, narrowed to what the options name. What no option names stays as the environment sets it; what that excludes stays excluded.

    Raises SettingsError for an empty or invalid option, one that --cloud excludes, two that don't go together, and excluded accounts
    without an organization to exclude them from.
    """
    cloud = typed.cloud or "all"
    _require_valid_together(cloud, typed, kind)
    scope = None
    if typed.account or typed.organization or typed.ou:
        accounts = settings.ACCOUNT_ID.read_all("--account", settings.split_words(typed.account))
        ous = settings.UNIT_ID.read_all("--ou", settings.split_words(typed.ou))
        scope = AccountScope(accounts=accounts, organization=typed.organization, ous=ous)
    excluded = settings.ACCOUNT_ID.read_all("--exclude-account", settings.split_words(typed.exclude_account))
    chosen = replace(
        base,
        **(asdict(scope) if scope else {}),
        cloud=cloud,
        exclude_accounts=tuple(dict.fromkeys((*base.exclude_accounts, *excluded))),
        role_name=settings.ROLE_NAME.read_or(base.role_name, "--role-name", typed.role_name),
        external_id=settings.EXTERNAL_ID.read_or(base.external_id, "--external-id", typed.external_id),
        regions=settings.split_words(typed.region) or base.regions,
    )
    if typed.subscription or typed.management_group:
        group = settings.MANAGEMENT_GROUP_ID.read_or(None, "--management-group", typed.management_group)
        subscriptions = settings.SUBSCRIPTION_ID.read_all("--subscription", settings.split_words(typed.subscription))
        chosen = replace(chosen, subscriptions=subscriptions, management_group=group)
    patterns = settings.split_words(kind)
    chosen = replace(chosen, kinds=settings.expand_kinds(patterns, registry.kind_names()))
    if cloud != "all":
        settings.require_kinds_of_cloud(cloud, patterns, [known.name for known in registry.kinds(cloud)])
    if excluded and not (chosen.organization or chosen.ous):
        raise SettingsError("--exclude-account leaves accounts of an organization out; add --organization or --ou, or drop it")
    return chosen


def _require_valid_together(cloud: str, typed: PlaceOptions, kind: RepeatedOption) -> None:
    aws = {"account": typed.account, "region": typed.region, "ou": typed.ou, "exclude-account": typed.exclude_account}
    azure = {"subscription": typed.subscription}
    for name, values in {**aws, **azure, "kind": kind}.items():
        if any(not settings.split_words(value) for value in values or ()):
            raise SettingsError(f"--{name} '' is empty; leave it out to include all")
    alone = {"organization": typed.organization, "role-name": typed.role_name, "external-id": typed.external_id}
    _require_cloud(cloud, "aws", {**aws, **alone})
    _require_cloud(cloud, "azure", {**azure, "management-group": typed.management_group})
    given = {name for name, value in {**aws, **azure, **alone, "management-group": typed.management_group}.items() if value}
    for name, other in (("account", "organization"), ("account", "ou"), ("subscription", "management-group")):
        if {name, other} <= given:
            raise SettingsError(f"--{name} and --{other} don't go together; drop one of the two")


def _require_cloud(cloud: str, its_cloud: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value and cloud not in {its_cloud, "all"}:
            raise SettingsError(f"--{name} is for {its_cloud}, but --cloud {cloud} excludes it; drop one of the two")


def ledger_address(settings: Settings) -> str:
    """The address of the deployment's ledger, else of the user's own."""
    return settings.ledger or opening.default_address(os.environ)


def ledger_label(settings: Settings) -> str:
    """The address for people; it says if the ledger is only the user's own."""
    address = ledger_address(settings)
    return address if settings.ledger else f"{address} (your own: REAPER_LEDGER is not set)"


def open_ledger_to_write(settings: Settings) -> Ledger:
    """The ledger, marked with the format that this version writes."""
    ledger = opening.open_ledger(ledger_address(settings), os.environ)
    opening.ensure_format(ledger)
    return ledger


def open_named_ledger(settings: Settings) -> tuple[Ledger, str]:
    """The ledger that REAPER_LEDGER names, and its address.

    Raises SettingsError if it is unset, because the deployment doesn't read your own, and if it is a file that doesn't exist: no sweep reads a
    ledger that this command has just created.
    """
    if not settings.ledger or settings.ledger.startswith("memory:"):
        raise SettingsError(
            "this command changes a deployment's ledger; set REAPER_LEDGER to it, such as dynamodb://TABLE, table://ACCOUNT/TABLE or sqlite:///PATH"
        )
    opening.require_existing(settings.ledger)
    return open_ledger_to_write(settings), settings.ledger


def session_opener(settings: Settings, role_name: str | None) -> Callable[[Target], CloudSession]:
    """A function that opens a session of a target for restoring, once for each. `role_name`: what to assume in other AWS accounts.

    It raises CloudError if the credentials in use belong to another account and no role was named: the role of a sweep may not create anything.
    """
    chosen = replace(settings, mode=Mode.ENFORCE, role_name=role_name or settings.role_name)

    @cache
    def open_session(target: Target) -> CloudSession:
        only = replace(chosen, cloud="azure", subscriptions=(target.account,), management_group=None)
        if target.cloud == "aws":
            scope = asdict(AccountScope(accounts=(target.account,)))
            only = replace(chosen, cloud="aws", regions=(target.region or "",), exclude_accounts=(), **scope)
        try:
            [account] = list_accounts(only, target.cloud)
            if not account.is_own and role_name is None:
                raise CloudError(Reason.REFUSED, "restore", OTHER_ACCOUNT.format(account=target.account))
            return session_of(target, *open_account(chosen, account, may_act=True))
        except SettingsError as error:
            raise CloudError(Reason.REFUSED, "restore", str(error)) from error

    return open_session


def current_user() -> str:
    """The name of the person at the command line, for the ledger's history."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unknown user at the command line"
