"""Standard error: errors, messages and the progress of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from reaper.text import clean_line

error_console = Console(stderr=True, highlight=False, markup=False, emoji=False)
SPINNER_WIDTH = 3
"""Columns of the spinner, the blank after it, and the last column, where a terminal may wrap."""


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """Show progress as one changing line on a terminal, else as one line per step."""
    if not error_console.is_terminal or error_console.is_dumb_terminal:
        yield print_message
        return
    with Spinner("starting", console=error_console) as spinner:
        yield lambda text: spinner.update(fit_one_line(text, error_console.width))


def fit_one_line(text: str, width: int) -> Text:
    """The text that fits beside a spinner in a terminal of that width. A line that wrapped would never be erased."""
    line = Text(clean_line(text, len(text)))
    line.truncate(max(1, width - SPINNER_WIDTH), overflow="ellipsis")
    return line


def print_message(text: str) -> None:
    """Print a line to standard error, as long as it is."""
    error_console.print(text, soft_wrap=True)


def print_warning(text: str) -> None:
    """Print a warning to standard error."""
    error_console.print("warning", style="yellow", end=" ")
    print_message(text)


def print_error(text: str) -> None:
    """Print an error to standard error."""
    error_console.print("error", style="bold red", end=" ")
    print_message(text)
