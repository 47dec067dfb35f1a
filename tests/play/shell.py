"""Runs commands as a person at the command line does: arguments, environment and files go in; status, output and files come out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from play.clock import Clock

TESTS = Path(__file__).parents[1]
PRODUCT = TESTS.parent / "functions"
"""Where the product is imported from."""
KILLED = -9
"""The status of a command that was killed, as `subprocess` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One command that is over."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        """Whether it was killed before it ended."""
        return self.status == KILLED


class Shell:
    """Commands one after the other. `pid` is the one that is running, for a test that kills it."""

    def __init__(self, home: Path, clock: Clock, environ: Mapping[str, str], product: Path = PRODUCT) -> None:
        self.home, self.clock, self.environ, self.product = home, clock, dict(environ), product
        self.pid: int | None = None
        self._actor: subprocess.Popen[str] | None = None

    def __enter__(self) -> Shell:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
        path = os.pathsep.join([str(TESTS), str(self.product)])
        self._actor = subprocess.Popen(
            [sys.executable, "-m", "play.actor"],
            env={**plain, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear("ready")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._actor:
            self._actor.communicate()

    def __call__(self, *argv: str, program: str = "reaper", **environ: str) -> Done:
        """Run one command, from the play's present moment on."""
        out, err = self.home / "stdout", self.home / "stderr"
        for file in (out, err):
            file.write_bytes(b"")
        order = {
            "program": program,
            "argv": argv,
            "env": {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environ, **environ},
            "home": str(self.home),
            "out": str(out),
            "err": str(err),
            "now": self.clock.now.timestamp(),
        }
        self.clock.run()
        self._tell(order)
        self.pid = self._hear("pid")
        status = self._hear("status")
        self.pid = None
        self.clock.stand()
        return Done(argv=argv, status=status, stdout=out.read_text(), stderr=err.read_text())

    def _tell(self, order: Mapping[str, Any]) -> None:
        assert self._actor
        assert self._actor.stdin
        self._actor.stdin.write(json.dumps(order) + "\n")
        self._actor.stdin.flush()

    def _hear(self, what: str) -> int:
        assert self._actor
        assert self._actor.stdout
        line = self._actor.stdout.readline()
        if not line:
            raise RuntimeError("the actor is gone; what it said last is above")
        return int(json.loads(line)[what])
