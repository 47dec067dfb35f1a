"""The process that plays the person at the command line: it imports the product once and forks for every command.

Started as `python -m play.actor`. It reads one command a line from its standard input, forks, and lets the child run the product's own
`main` under a clock, an environment and a working directory of its own, with its output in two files. What is inherited is what importing
left behind and the service models that boto3 brings along, nothing else: a command sees arguments, environment and files, as it would alone,
but starts in milliseconds.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import jinja2
import time_machine

import models_once
from fakes.shifted_clocks import compare_true_clocks

LEFT_OUT = ("__main__",)
"""Parts of the product that no command imports."""


def main() -> None:
    """Serve commands until the input ends."""
    _warm()
    _say({"ready": os.getpid()})
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _play(order)
        _say({"pid": pid})
        _, status = os.waitpid(pid, 0)
        _say({"status": os.waitstatus_to_exitcode(status)})


def _warm() -> None:
    """Import all of the product, and have its templates compiled, before the first fork."""
    for module in walk_packages(import_module("reaper").__path__, "reaper."):
        if not any(part in LEFT_OUT for part in module.name.split(".")):
            import_module(module.name)
    import_module("reaper.cli.sample").sample_message("warm@example.com", datetime.now(UTC))
    models_once.patch_with(setattr)
    for pages in [found for found in gc.get_objects() if isinstance(found, jinja2.Environment)]:
        for name in pages.list_templates(extensions=["j2"]):
            pages.get_template(name)
    models_once.warm()
    gc.freeze()


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _play(order: dict[str, Any]) -> None:
    """One command in a child of its own, which never returns."""
    for path, stream in ((os.devnull, 0), (order["out"], 1), (order["err"], 2)):
        file = os.open(path, os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["home"])
    sys.argv = [order["program"], *order["argv"]]
    time_machine.travel(order["now"], tick=True).start()
    compare_true_clocks()
    status = 70
    try:
        status = _status(PROGRAMS[order["program"]])
    finally:
        for file in (sys.stdout, sys.stderr):
            file.flush()
        os._exit(status)


def _status(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as exit_error:
        return exit_error.code if isinstance(exit_error.code, int) else int(exit_error.code is not None)
    return 0


def reaper() -> None:
    """The command line."""
    import_module("reaper.cli.main").main()


def click() -> None:
    """Open a snooze link and send its form, through the request handler that both clouds' pages share. Arguments: address and days."""
    import_module("play.visitor").visit(*sys.argv[1:])


PROGRAMS = {"reaper": reaper, "click": click}

if __name__ == "__main__":
    main()
