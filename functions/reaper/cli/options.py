"""The options that commands share, and what they choose.

Typer reads the options of a command from its signature, so a command may have more than six parameters. No other function may: a command
collects its options at once (`read_places`) and passes one noun on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from reaper import duration, registry, settings
from reaper.errors import SettingsError
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
AccountOption = Annotated[
    RepeatedOption, typer.Option("--account", help="AWS account IDs, repeated or comma-separated; must match the credentials")
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
class Places:
    """The cloud, places and kinds that options name. An empty tuple means no restriction."""

    cloud: str = "all"
    accounts: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


def read_places(
    cloud: str,
    account: RepeatedOption,
    region: RepeatedOption,
    subscription: RepeatedOption,
    kind: RepeatedOption = None,
) -> Places:
    """The places that the options name. Raises SettingsError for an empty option or one that `cloud` excludes."""
    options = {"account": account, "region": region, "subscription": subscription, "kind": kind}
    for name, values in options.items():
        if any(not settings.split_words(value) for value in values or ()):
            raise SettingsError(f"--{name} '' is empty; leave it out to include all")
    for name, its_cloud in (("account", "aws"), ("region", "aws"), ("subscription", "azure")):
        if options[name] and cloud not in {its_cloud, "all"}:
            raise SettingsError(f"--{name} is for {its_cloud}, but --cloud {cloud} excludes it; drop one of the two")
    patterns = _split_values(kind)
    kinds = settings.expand_kinds(patterns, registry.kind_names())
    if cloud != "all":
        settings.require_kinds_of_cloud(cloud, patterns, [k.name for k in registry.kinds(cloud)])
    return Places(
        cloud=cloud,
        accounts=_split_values(account),
        regions=_split_values(region),
        subscriptions=_split_values(subscription),
        kinds=kinds,
    )


def with_places(base: Settings, places: Places) -> Settings:
    """`base`, narrowed to `places`. Regions and subscriptions that no option names stay as the environment sets them."""
    return replace(
        base,
        cloud=places.cloud,
        regions=places.regions or base.regions,
        accounts=places.accounts,
        subscriptions=places.subscriptions or base.subscriptions,
        kinds=places.kinds,
    )


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
