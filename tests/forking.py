"""A process that imported once and forks for each command, and the program that stands for such a command on a PATH.

usage: forking.py serve ADDRESS MODULE... (a package with a dot behind it: all of its modules)     forking.py call ADDRESS PROGRAM ARGUMENT...
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any, NoReturn, TextIO

OURS = "reaper."
NOT_IMPORTED = ("reaper.__main__", "reaper.aws.functions", "reaper.azure.functions")
"""The other entry points."""


def order(address: str, argv: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> socket.socket:
    """Give an order; what comes back are two lines, the process and its exit status."""
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(address)
    socket.send_fds(caller, [b"."], streams)
    caller.sendall(json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode() + b"\n")
    return caller


def call(address: str, *argv: str) -> int:
    """Be that command: its status."""
    with order(address, list(argv), dict(os.environ), os.getcwd(), [0, 1, 2]) as caller, caller.makefile() as answer:
        answer.readline()
        return int(answer.readline())


def serve(address: str, *modules: str) -> None:
    """Take orders until the input ends."""
    import gc
    import select
    import signal

    before = dict(os.environ)
    for name in modules:
        _import(name)
    if OURS in modules:
        _warm()
    by_import = {name: value for name, value in os.environ.items() if name not in before}
    gc.freeze()
    running: dict[int, socket.socket] = {}
    ended, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([door, ended, sys.stdin], [], [])[0]):
            if door in ready:
                caller = door.accept()[0]
                command = os.fork()
                if command == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _play(caller, by_import)
                running[command] = caller
                caller.sendall(f"{command}\n".encode())
            if ended in ready:
                ended.recv(4096)
                _tell(running)
    os._exit(0)


def _tell(running: dict[int, socket.socket]) -> None:
    """Send the exit status of each command that is over."""
    while running:
        command, status = os.waitpid(-1, os.WNOHANG)
        if not command:
            return
        with running.pop(command) as caller:
            caller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _import(name: str) -> None:
    from contextlib import suppress
    from importlib import import_module
    from pkgutil import walk_packages

    if not name.endswith("."):
        with suppress(ImportError):
            import_module(name)
        return
    for module in walk_packages(import_module(name[:-1]).__path__, name):
        if not module.name.startswith(NOT_IMPORTED):
            import_module(module.name)


def _warm() -> None:
    """Have the product's templates compiled and its services' models read."""
    import gc
    from datetime import UTC, datetime

    import jinja2

    import models_once
    from reaper.cli import sample

    models_once.patch_with(setattr)
    models_once.warm()
    sample.sample_message("warm@example.com", datetime.now(UTC))
    for pages in [found for found in gc.get_objects() if isinstance(found, jinja2.Environment)]:
        for name in pages.list_templates(extensions=["j2"]):
            pages.get_template(name)


def _play(caller: socket.socket, by_import: dict[str, str]) -> NoReturn:
    """Be the command, to its end; what was inherited is not cleared away. `by_import`: variables that importing sets."""
    import atexit
    import runpy
    import threading
    import time
    import traceback

    _, streams, *_ = socket.recv_fds(caller, 1, 3)
    with caller.makefile() as orders:
        wanted = json.loads(orders.readline())
    caller.close()
    for stream, file in enumerate(streams):
        os.dup2(file, stream)
        os.close(file)
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        setattr(sys, name, _anew(stream))
    os.environ.clear()
    os.environ.update(by_import | wanted["env"])
    time.tzset()
    os.chdir(wanted["cwd"])
    sys.argv = wanted["argv"]
    status: Any = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        status = 1
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _anew(stream: Any) -> TextIO:
    """As an interpreter opens it: what it is now, a file, a pipe or a terminal, is not what it was."""
    number, is_read = stream.fileno(), stream is sys.stdin
    buffering = 1 if stream is sys.stderr else -1
    return open(number, "r" if is_read else "w", buffering, stream.encoding, stream.errors, closefd=False)


if __name__ == "__main__":
    if sys.argv[1] == "call":
        sys.exit(call(*sys.argv[2:]))
    if OURS in sys.argv:
        import models_once  # noqa: F401
    sys.path.pop(0)  # this folder, where modules have names that others have too
    serve(*sys.argv[2:])
