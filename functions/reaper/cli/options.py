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
from reaper.report.brief import clean
from reaper.settings import Settings

err = Console(stderr=True, highlight=False, markup=False, emoji=False)
USUAL, WIDEST = 120, 200
"""Columns of a report that no terminal shows, and of one on a very wide terminal."""
SPINNER = 3
"""Columns of the spinner, the blank behind it, and the last one, which a terminal may wrap at."""
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
    given = {"account": account, "region": region, "subscription": subscription, "kind": kind}
    for name, values in given.items():
        if any(not knobs.words(value) for value in values or ()):
            raise SettingsError(f"--{name} '' names nothing: leave it out to ask for all")
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
    """One line that changes, on a terminal; one line per step elsewhere."""
    if not err.is_terminal or err.is_dumb_terminal:
        yield lambda text: err.print(text, soft_wrap=True)
        return
    with Spinner("starting", console=err) as spinner:
        yield lambda text: spinner.update(one_line(text, err.width))


def one_line(text: str, width: int) -> Text:
    """The text beside a spinner in a terminal that wide: a line that went on in the next one would stay there for good."""
    line = Text(clean(text, len(text)))
    line.truncate(max(1, width - SPINNER), overflow="ellipsis")
    return line


def width(out: Console, environ: Mapping[str, str]) -> int:
    """How wide a report on standard output is: as the terminal, as COLUMNS says where there is none, else 120; at most 200."""
    return min(out.width, WIDEST) if out.is_terminal or environ.get("COLUMNS", "").isdecimal() else USUAL


def command(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """How this very command is called again from here: `reaper` where the shell finds it, else the path it was called by."""
    called = Path(argv[0])
    if called.name == "__main__.py":
        return "python -m reaper"
    found = shutil.which(called.name, path=environ.get("PATH"))
    known = found is not None and Path(found).absolute() == called.absolute()
    return called.name if known or called.name == argv[0] else shlex.quote(argv[0])
