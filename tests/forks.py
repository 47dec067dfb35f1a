"""Commands in processes of their own, started in a moment.

Of the seconds that a command takes most goes into importing SDKs and the product. Here that was done once, by a process that then forks for
each command: the child runs the installed script with its own arguments, environment, folder and streams, and ends as any process ends.
Where the interpreter itself would start differently, an ordinary process is started. `e2e/test_loading.py` has what a start may import.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import forking

REAPER = Path(sys.executable).with_name("reaper")
ITS_OWN = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")
"""What an interpreter goes by when it starts. When its output is written makes no difference: it is read when the command is over."""
OURS = (forking.OURS, "reaper_sandbox.", "requests", "typer.rich_utils", "azure.mgmt.machinelearningservices")
"""What our own commands import sooner or later."""


def reaper(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run([REAPER, *arguments], capture_output=True, text=True)`."""
    return run([str(REAPER), *arguments], env, cwd, timeout)


def run(
    argv: list[str], env: Mapping[str, str], cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """The same for any script in Python."""
    if not hasattr(os, "fork") or start(env) != start(os.environ):
        command = argv if argv[0] == str(REAPER) else [sys.executable, *argv]
        return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull) as nothing:
        streams = [file.fileno() for file in (nothing, out, err)]
        with forking.order(ours(), argv, dict(env), str(cwd or Path.cwd()), streams) as caller:
            caller.settimeout(timeout)
            with caller.makefile() as answer:
                process = int(answer.readline())
                try:
                    status = int(answer.readline())
                except TimeoutError:
                    os.kill(process, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(argv, timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, status, out.read(), err.read())


def start(env: Mapping[str, str]) -> dict[str, str]:
    """What of an environment an interpreter goes by."""
    return {name: value for name, value in env.items() if name.startswith(ITS_OWN) and name != "PYTHONUNBUFFERED"}


def stand_in(program: Path = REAPER, modules: tuple[str, ...] = OURS) -> Path:
    """A folder for a PATH with a program of that name, which does what that one in Python does: its interpreter forks for it."""
    if not hasattr(os, "fork"):
        return program.parent
    address = server(str(program.with_name("python")), modules)
    script = Path(address).with_name(program.name)
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{forking.__file__}" call "{address}" "{program}" "$@"\n')
    script.chmod(0o755)
    return script.parent


def ours() -> str:
    """The address of the process that has imported the product."""
    return server(str(REAPER.with_name("python")), OURS)


@cache
def server(python: str, modules: tuple[str, ...]) -> str:
    """The address of a process of that interpreter that has imported these modules."""
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    address = f"{folder.name}/door"
    command = [python, forking.__file__, "serve", address, *modules]
    plain = start(os.environ) | {"PATH": os.environ["PATH"]}
    started = subprocess.Popen(command, env=plain, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_ended, started, folder)
    assert started.stdout
    while (line := started.stdout.readline()) != "ready\n":
        assert line, "the process that forks is gone"
    return address


def _ended(started: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]) -> None:
    started.communicate(timeout=10)
    folder.cleanup()
