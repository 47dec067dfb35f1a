"""What the commands share: the error console, progress, the clock, how wide the terminal is, and options that mean the same everywhere."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from reaper import registry
from reaper import settings as knobs
from reaper.errors import SettingsError
from reaper.settings import Settings
from reaper.text import clean_line

error_console = Console(stderr=True, highlight=False, markup=False, emoji=False)
DEFAULT_WIDTH, MAX_WIDTH = 120, 200
"""Columns of a report that no terminal shows, and of one on a very wide terminal."""
SPINNER_WIDTH = 3
"""Columns of the spinner, the blank behind it, and the last one, which a terminal may wrap at."""
RepeatedOption = list[str] | None
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Policy file, s3://, ssm:, blob URL or inline YAML.", metavar="FILE|URI")
]


def current_time() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def split_values(values: RepeatedOption) -> tuple[str, ...]:
    """The values of an option that may be repeated, or separated by commas."""
    return knobs.split_words(",".join(values or ()))


def with_options(
    base: Settings,
    cloud: str,
    account: RepeatedOption,
    region: RepeatedOption,
    subscription: RepeatedOption,
    kind: RepeatedOption = None,
) -> Settings:
    """`base` under the options of a command. Raises SettingsError for one that has nothing to do with the cloud that is asked for."""
    given = {"account": account, "region": region, "subscription": subscription, "kind": kind}
    for name, values in given.items():
        if any(not knobs.split_words(value) for value in values or ()):
            raise SettingsError(f"--{name} '' names nothing: leave it out to ask for all")
    for name, of, values in (("account", "aws", account), ("region", "aws", region), ("subscription", "azure", subscription)):
        if split_values(values) and cloud not in {of, "all"}:
            raise SettingsError(f"--{name} is for {of}, and --cloud {cloud} leaves that out: drop one of the two")
    kinds = knobs.expand_kinds(split_values(kind), registry.kind_names())
    if cloud != "all":
        knobs.require_kinds_of_cloud(cloud, split_values(kind), [k.name for k in registry.kinds(cloud)])
    return replace(
        base,
        cloud=cloud,
        regions=split_values(region) or base.regions,
        accounts=split_values(account),
        subscriptions=split_values(subscription) or base.subscriptions,
        kinds=kinds,
    )


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """One line that changes, on a terminal; one line per step elsewhere."""
    if not error_console.is_terminal or error_console.is_dumb_terminal:
        yield lambda text: error_console.print(text, soft_wrap=True)
        return
    with Spinner("starting", console=error_console) as spinner:
        yield lambda text: spinner.update(fit_one_line(text, error_console.width))


def fit_one_line(text: str, width: int) -> Text:
    """The text beside a spinner in a terminal that wide: a line that went on in the next one would stay there for good."""
    line = Text(clean_line(text, len(text)))
    line.truncate(max(1, width - SPINNER_WIDTH), overflow="ellipsis")
    return line


def report_width(out: Console, environ: Mapping[str, str]) -> int:
    """How wide a report on standard output is: as the terminal, as COLUMNS says where there is none, else 120; at most 200."""
    return min(out.width, MAX_WIDTH) if out.is_terminal or environ.get("COLUMNS", "").isdecimal() else DEFAULT_WIDTH


def own_command(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """How this very command is called again from here: `reaper` where the shell finds it, else the path it was called by."""
    called = Path(argv[0])
    if called.name == "__main__.py":
        return "python -m reaper"
    found = shutil.which(called.name, path=environ.get("PATH"))
    known = found is not None and Path(found).absolute() == called.absolute()
    return called.name if known or called.name == argv[0] else shlex.quote(argv[0])
