"""What the commands share: the error console, progress, the clock, and options that mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status as Spinner

from reaper import settings as knobs

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


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; one line per step elsewhere."""
    if not err.is_terminal:
        yield lambda text: err.print(text, markup=False, soft_wrap=True)
        return
    with Spinner("starting", console=err) as spinner:
        yield lambda text: spinner.update(text.replace("[", "\\["))
