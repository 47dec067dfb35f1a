"""The simulated cloud in a process of its own, so that its memory and CPU time are not the sweep's, and a way to measure a command against it.

usage: sandbox.py mixed|night|hard|day COUNT SHARE LATENCY NOW [--denied]     (this is how `serving` starts it)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fleet

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Which fleet to serve: each call is answered `latency` seconds late; `denied`: the right to read metrics is missing."""

    name: str
    count: int
    share: float = 0.0
    latency: float = 0.0
    denied: bool = False

    def plans(self) -> Iterator[fleet.Plan]:
        """The endpoints that it consists of."""
        if self.name == "day":
            import day

            return day.plans(self.count)
        if self.name == "hard":
            return fleet.hard(self.count)
        return fleet.mixed(self.count, self.share, at_night=self.name == "night")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one command took. `mb` is the peak of its memory, `calls` what reached the cloud, by action, `status` how it ended."""

    wall: float
    cpu: float
    mb: float
    calls: Mapping[str, int]
    status: int
    out: str
    err: str

    @property
    def total(self) -> int:
        """All calls."""
        return sum(self.calls.values())


class Serving:
    """A sandbox that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.env: dict[str, str] = self._answer()

    def calls(self) -> dict[str, int]:
        """What was asked since the last time, by action."""
        counts: dict[str, int] = self._ask("calls")
        return counts

    def metrics(self) -> int:
        """How many metrics were requested since the last time calls or metrics were counted."""
        return int(self._ask("metrics"))

    def set_clock(self, now: datetime) -> None:
        """Let the cloud believe that it is `now`."""
        self._ask(now.isoformat())

    def measure(self, python: str | Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> Took:
        """Run `arguments` (a module or a script, and what follows) with that Python against the sandbox. Raises where it broke.

        Statuses up to 3 are answers: `reaper` ends with 3 where something could not be read, and any script of Python's with 1.
        """
        self.calls()
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder) / "figures.json"
            command = [str(python), str(HERE / "launch.py"), str(figures), *arguments]
            began = time.monotonic()
            completed = subprocess.run(
                command, env={**os.environ, **self.env, **(environ or {})}, capture_output=True, text=True, check=False
            )
            wall = time.monotonic() - began
            if not 0 <= completed.returncode <= 3 or not figures.exists():
                raise RuntimeError(f"{arguments[0]} ended with {completed.returncode}: {completed.stderr[-2000:]}")
            measured = json.loads(figures.read_text())
        return Took(
            wall=wall,
            cpu=measured["cpu"],
            mb=measured["mb"],
            calls=self.calls(),
            status=completed.returncode,
            out=completed.stdout,
            err=completed.stderr,
        )

    def _ask(self, question: str) -> Any:
        assert self._process.stdin
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


@contextmanager
def serving(wanted: Fleet) -> Iterator[Serving]:
    """That fleet, until the block is left."""
    words = [wanted.name, str(wanted.count), str(wanted.share), str(wanted.latency), *(["--denied"] if wanted.denied else [])]
    command = [sys.executable, __file__, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()


def serve(wanted: Fleet) -> None:
    """Be the sandbox, until standard input ends."""
    from reaper_sandbox.aws import fault
    from reaper_sandbox.aws.account import Account
    from reaper_sandbox.aws.server import Server

    now = datetime.now(UTC)
    with Server() as server:
        fleet.seed(Account(server), wanted.plans(), now)
        if wanted.latency:
            server.rules.append(fault.on(".*", fault.latency(wanted.latency)))
        if wanted.denied:
            server.rules.append(fault.on("GetMetricData|GetMetricStatistics", fault.denied()))
        print(json.dumps(server.env), flush=True)
        for line in sys.stdin:
            if line.strip() not in {"calls", "metrics"}:
                server.now = datetime.fromisoformat(line.strip())
                print("null", flush=True)
                continue
            counts = Counter(call.action for call in server.calls)
            metrics = sum(len(call.params["MetricDataQueries"]) for call in server.calls if call.operation == "GetMetricData")
            server.calls.clear()
            print(json.dumps(metrics if line.strip() == "metrics" else counts), flush=True)


if __name__ == "__main__":
    name, count, share, latency = sys.argv[1:5]
    serve(Fleet(name=name, count=int(count), share=float(share), latency=float(latency), denied="--denied" in sys.argv))
