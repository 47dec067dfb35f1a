"""Where a command writes its report: a file that is known to take it before anything is done, or standard output.

What standard output does when nobody reads on: https://docs.python.org/3/library/signal.html#note-on-sigpipe
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from reaper.errors import SettingsError

DEVICE_FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT, errno.EPIPE}


def check_writable(output: str) -> None:
    """Make sure that `output` can be written, and change nothing. Raises SettingsError: then nothing has been done yet."""
    if not output.strip():
        raise SettingsError("--output '' names no file: leave it out, or name one")
    path = Path(output)
    if output == "-" or (path.exists() and not path.is_file() and not path.is_dir() and os.access(path, os.W_OK)):
        return
    try:
        new = not (path.exists() or path.is_symlink())
        with path.open("a", encoding="utf-8"):
            pass
        if new:
            path.unlink()
    except (OSError, ValueError) as error:
        raise SettingsError(f"--output {output!r}: cannot be written: {error}") from error


def write_output(output: str, chunks: Callable[[], Iterable[str]]) -> None:
    """Write what `chunks` gives. Where the file does not take it, standard output gets it all, and SettingsError says so."""
    if output == "-":
        sys.stdout.writelines(chunks())
        return
    try:
        with Path(output).open("w", encoding="utf-8") as file:
            file.writelines(chunks())
    except (OSError, ValueError) as error:
        sys.stdout.writelines(chunks())
        raise SettingsError(f"--output {output!r}: cannot be written, so it is on standard output instead: {error}") from error


def device_full_error(error: Exception | None) -> OSError | None:
    """The error, where it is of a device that takes no more; a file that cannot be opened is none of these."""
    return error if isinstance(error, OSError) and error.errno in DEVICE_FULL and error.filename is None else None


def flush_error() -> OSError | None:
    """Push out what standard output still holds; gives the error where it takes no more, and is quiet about the rest from then on."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return error
    return None
