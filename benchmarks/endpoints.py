"""How many calls, how much memory and how much time a sweep of many endpoints takes. Figures of one run; no test depends on them.

usage: endpoints.py [--serve N BUSY LATENCY]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

NOW = datetime.now(UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def serve(count: int, busy: int, latency: float) -> None:
    """A sandbox with that many endpoints, the first `busy` of them in use, each call answered `latency` seconds late."""
    from reaper.sandbox.aws import fault
    from reaper.sandbox.aws.account import Account
    from reaper.sandbox.aws.server import Server

    with Server(NOW) as server:
        account = Account(server)
        for index in range(count):
            name = f"endpoint-{index:06}"
            account.endpoint(name, tags={"team": f"team-{index % 7}"})
            account.alive(name, "AllTraffic", NOW - 15 * DAY, NOW + DAY)
            if index < busy:
                account.invoked(name, "AllTraffic", NOW - HOUR)
        if latency:
            server.rules.append(fault.on(".*", fault.latency(latency)))
        print(json.dumps(server.env), flush=True)
        threading.Event().wait()


@contextmanager
def serving(count: int, busy: int, latency: float = 0) -> Iterator[dict[str, str]]:
    """The environment that leads to such a sandbox, in a process of its own so that its memory is not ours."""
    command = [sys.executable, __file__, "--serve", str(count), str(busy), str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def measure(count: int, busy: int, latency: float = 0) -> None:
    """Sweep once with the real command and print what it took."""
    with serving(count, busy, latency) as environ:
        code = "import resource, sys; from reaper.cli import app\ntry: app()\nfinally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        command = [sys.executable, "-c", code, "sweep", "--cloud", "aws", "--kind", "sagemaker-endpoint", "--format", "json"]
        began = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=True)
        seconds = time.monotonic() - began
    totals = json.loads(done.stdout)["totals"]
    megabytes = int(done.stderr.split()[-1]) / 1024
    idle = totals["by_state"]["idle"]
    print(
        f"{count:>6} endpoints, {idle:>5} idle, {latency * 1000:>3.0f} ms a call: {totals['calls']:>6} calls "
        f"({totals['calls'] / count:.3f} each), {seconds:5.1f} s, peak {megabytes:4.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        measure(1_000, 1_000)
        measure(1_000, 1_000, 0.03)
        measure(1_000, 900, 0.03)
        measure(10_000, 10_000)
        measure(10_000, 9_000)
