"""Commands of the product in processes of their own, started in a moment.

Of the second that a command takes most goes into importing SDKs. Here that was done once, by a process that then forks for each command:
the child runs the installed script with its own arguments, environment, folder and streams, imports the product anew, and ends as any
process ends. Where the interpreter itself would start differently, an ordinary process is started.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

REAPER = Path(sys.executable).with_name("reaper")
ITS_OWN = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")
"""What an interpreter goes by when it starts. When its output is written makes no difference: it is read when the command is over."""
SDKS = (
    "boto3",
    "typer",
    "rich.console",
    "rich.table",
    "jinja2",
    "yaml",
    "pydantic",
    "azure.identity",
    "azure.mgmt.core",
    "requests",
)
"""What takes long to import and is not ours."""


def reaper(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run([REAPER, *arguments], capture_output=True, text=True)`."""
    if not hasattr(os, "fork") or _start(env) != _start(os.environ):
        return subprocess.run(
            [REAPER, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
        )
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        order = {
            "argv": [str(REAPER), *arguments],
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "streams": [os.devnull, str(out), str(err)],
            "timeout": timeout,
        }
        status = _asked(order)
        if status is None:
            raise subprocess.TimeoutExpired([REAPER, *arguments], timeout)
        return subprocess.CompletedProcess([REAPER, *arguments], status, out.read_text(), err.read_text())


def _start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(ITS_OWN) and name != "PYTHONUNBUFFERED"}


def _asked(order: dict[str, Any]) -> int | None:
    parent = _parent()
    assert parent.stdin
    assert parent.stdout
    parent.stdin.write(json.dumps(order) + "\n")
    parent.stdin.flush()
    answer = parent.stdout.readline()
    if not answer:
        raise RuntimeError("the process that forks is gone")
    status: int | None = json.loads(answer)
    return status


@cache
def _parent() -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.path.dirname(__file__)
    )
    atexit.register(_ended, started)
    return started


def _ended(parent: subprocess.Popen[str]) -> None:
    parent.communicate(timeout=10)


def main() -> None:
    """Serve orders until the input ends. Returns in each child, too: there the command is over."""
    from contextlib import suppress
    from importlib import import_module

    import models_once

    sys.path.pop(0)  # this folder, where modules have names that others have too
    for name in SDKS:
        with suppress(ImportError):
            import_module(name)
    models_once.patch_with(setattr)
    models_once.warm()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _play(order)
            return
        sys.stdout.write(json.dumps(_waited(child, order["timeout"])) + "\n")
        sys.stdout.flush()


def _waited(child: int, timeout: float) -> int | None:
    """Its status; None where it had to be killed."""
    import signal
    import threading

    late: list[int] = []
    alarm = threading.Timer(timeout, lambda: (late.append(child), os.kill(child, signal.SIGKILL)))
    alarm.start()
    _, status = os.waitpid(child, 0)
    alarm.cancel()
    alarm.join()
    return None if late else os.waitstatus_to_exitcode(status)


def _play(order: dict[str, Any]) -> None:
    import runpy
    import time

    for stream, path in enumerate(order["streams"]):
        file = os.open(path, os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (what was read ahead is the parent's)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    sys.argv = order["argv"]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
