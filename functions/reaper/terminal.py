"""What the commands share: the error console, progress, the clock, and options that mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status as Spinner

from reaper import registry
from reaper import settings as knobs
from reaper.errors import SettingsError
from reaper.settings import Settings

err = Console(stderr=True, highlight=False)
Many = list[str] | None
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Policy file, s3://, ssm:, blob URL or inline YAML.", metavar="FILE|URI")
]


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def words(values: Many) -> tuple[str, ...]:
    """The values of an option that may be repeated, or separated by commas."""
    return knobs.words(",".join(values or ()))


def chosen(base: Settings, cloud: str, account: Many, region: Many, subscription: Many, kind: Many = None) -> Settings:
    """`base` under the options of a command. Raises SettingsError for one that has nothing to do with the cloud that is asked for."""
    for name, of, values in (("account", "aws", account), ("region", "aws", region), ("subscription", "azure", subscription)):
        if words(values) and cloud not in {of, "all"}:
            raise SettingsError(f"--{name} is for {of}, and --cloud {cloud} leaves that out: drop one of the two")
    kinds = knobs.known_kinds(words(kind), registry.names())
    if cloud != "all":
        knobs.kinds_of(cloud, words(kind), [k.name for k in registry.kinds(cloud)])
    return replace(
        base,
        cloud=cloud,
        regions=words(region) or base.regions,
        accounts=words(account),
        subscriptions=words(subscription) or base.subscriptions,
        kinds=kinds,
    )


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; one line per step elsewhere."""
    if not err.is_terminal:
        yield lambda text: err.print(text, markup=False, soft_wrap=True)
        return
    with Spinner("starting", console=err) as spinner:
        yield lambda text: spinner.update(text.replace("[", "\\["))
