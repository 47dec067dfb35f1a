"""Where a command writes its report: standard output, or a file that is checked before anything else happens. Errors, messages and progress go
to standard error.

A pipe whose reader has gone: https://docs.python.org/3/library/signal.html#note-on-sigpipe
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from reaper.errors import SettingsError
from reaper.finding import Report
from reaper.report.table import WIDE, Block, print_blocks, wrap
from reaper.text import clean_line

DEVICE_FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT, errno.EPIPE}
DEFAULT_WIDTH, MAX_WIDTH = 120, 200
"""Columns of a report outside a terminal, and the most on a wide terminal."""

error_console = Console(stderr=True, highlight=False, markup=False, emoji=False)
SPINNER_WIDTH = 3
"""Columns of the spinner, the blank after it, and the last column, where a terminal may wrap."""


class Format(StrEnum):
    """The formats of a report."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    MARKDOWN = "markdown"


FORMAT_BY_SUFFIX = {
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".json": Format.JSON,
    ".csv": Format.CSV,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".txt": Format.TEXT,
    "": Format.TEXT,
}


def choose_format(requested: Format | None, output: str) -> Format:
    """The requested format, else the one that the file's name implies. Raises SettingsError if the name implies none."""
    suffix = Path(output).suffix.lower()
    if requested is None and suffix not in FORMAT_BY_SUFFIX:
        known = ", ".join(name for name in FORMAT_BY_SUFFIX if name)
        raise SettingsError(f"--output {output!r}: no report format ends in {suffix}; use {known}, or set --format")
    return requested or FORMAT_BY_SUFFIX[suffix]


def check_writable(output: str) -> None:
    """Check that `output` can be written, and leave it unchanged. Raises SettingsError before the command does any work."""
    if not output.strip():
        raise SettingsError("--output '' names no file; name one or leave it out")
    path = Path(output)
    if output == "-" or (path.exists() and not path.is_file() and not path.is_dir() and os.access(path, os.W_OK)):
        return
    try:
        is_new = not (path.exists() or path.is_symlink())
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except (OSError, ValueError) as error:
        raise SettingsError(f"--output {output!r}: can't be written: {error}") from error


def write_report(report: Report, format: Format, output: str, origin: str = "", *, wide: bool = False) -> None:
    """Write the report. `origin` is what `reaper explain` needs on its command line to explain the same report."""
    if format is not Format.TEXT or output != "-":
        write_output(output, lambda: _rendered(report, format, wide))
        return
    from reaper.report import text

    console = Console(highlight=False)
    width, explain = report_width(console, os.environ, wide=wide), f"{own_command(sys.argv, os.environ)} explain NAME{origin}"
    sys.stdout.write(text.render(report, width=width, colour=has_colour(console), explain=explain))


def write_output(output: str, chunks: Callable[[], Iterable[str]]) -> None:
    """Write `chunks` to the file. If that fails, write them to standard output and raise SettingsError."""
    if output == "-":
        sys.stdout.writelines(chunks())
        return
    try:
        with Path(output).open("w", encoding="utf-8") as file:
            file.writelines(chunks())
    except (OSError, ValueError) as error:
        sys.stdout.writelines(chunks())
        raise SettingsError(f"--output {output!r}: can't be written, so it went to standard output: {error}") from error


def output_error(fault: Exception | None) -> OSError | None:
    """Why the output is incomplete: a device took no more data. Flushes standard output and, if that fails, discards all later output."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return error
    if isinstance(fault, OSError) and fault.errno in DEVICE_FULL and fault.filename is None:
        return fault  # a file that can't be opened doesn't count
    return None


def leave(status: int) -> NoReturn:
    """End the process. A call that hangs can't be stopped, and the interpreter would wait for the pool of its threads."""
    sys.stdout.flush()
    if any(thread.is_alive() for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.stderr.flush()
        os._exit(status)
    raise typer.Exit(status)


def has_colour(console: Console) -> bool:
    """Whether what is printed there may have colors."""
    return console.is_terminal and not console.no_color


def report_width(console: Console, environ: Mapping[str, str], *, wide: bool = False, otherwise: int = DEFAULT_WIDTH) -> int:
    """The columns of a report: the terminal's or COLUMNS, at most 200, else `otherwise`; if `wide`, so many that nothing is cut."""
    if wide:
        return WIDE
    is_known = console.is_terminal or environ.get("COLUMNS", "").isdecimal()
    return min(console.width, MAX_WIDTH) if is_known else otherwise


def fitted(console: Console, blocks: Iterable[Block], *, wide: bool = False) -> str:
    """The blocks as that console shows them."""
    return print_blocks(blocks, report_width(console, os.environ, wide=wide), has_colour(console))


def own_command(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """How to run this very command again: `reaper` if the shell finds it, else the path it was called by."""
    called = Path(argv[0])
    if called.name == "__main__.py":
        return "python -m reaper"
    on_path = shutil.which(called.name, path=environ.get("PATH"))
    is_on_path = on_path is not None and Path(on_path).absolute() == called.absolute()
    return called.name if is_on_path or called.name == argv[0] else shlex.quote(argv[0])


def _rendered(report: Report, format: Format, wide: bool) -> Iterable[str]:
    """The report in pieces. Each format's module, with what it needs, loads only when it's used."""
    module = import_module(f"reaper.report.{format.value}")
    if format is Format.JSON:
        pieces: Iterable[str] = module.chunks(report)
        return pieces
    return [module.render(report, WIDE) if wide and format is Format.TEXT else module.render(report)]


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


def print_message(text: str, kind: str = "", style: str = "", console: Console = error_console) -> None:
    """Print to standard error. On a terminal, lines break between words; one that is indented is for pasting and stays whole."""
    width = console.width if console.is_terminal else WIDE
    for line in Text.assemble((kind, style), " " if kind else "", text).split("\n", allow_blank=True):
        for part in [line] if line.plain.startswith("  ") else wrap(line, width):
            console.print(part, soft_wrap=True)


def print_result(text: str) -> None:
    """Print to standard output, in the same way."""
    print_message(text, console=Console(highlight=False, markup=False, emoji=False))


print_warning = partial(print_message, kind="warning", style="yellow")
print_error = partial(print_message, kind="error", style="bold red")
