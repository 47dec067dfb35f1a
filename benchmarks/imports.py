"""How long the entry points take to load. Every measurement is a fresh process; the fastest counts, because nothing makes a process too fast.

usage: imports.py [--times 9] [--before CHECKOUT]

With `--before`, a checkout of an earlier commit is measured in turns with this one, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import results

ROOT = Path(__file__).parent.parent
ENTRIES = {
    "reaper --help": ("import sys; sys.argv = ['reaper', '--help']; from reaper.cli.main import main; main()", 0.3),
    "Lambda handler": ("import reaper.aws.functions.sweep", 0.5),
    "Lambda workflow handler": ("import reaper.aws.functions.workflow", 0.5),
    "Lambda snooze handler": ("import reaper.aws.functions.snooze", 0.5),
    "function app": ("import function_app", 0.8),
    "import boto3": ("import boto3", None),
}
"""By name: the code, and the goal in seconds. The last one isn't part of the reaper: it shows how fast the machine was."""
TIMER = """
import json, resource, sys, time
wall, cpu = time.perf_counter(), time.process_time()
try:
    exec(sys.argv[1])
finally:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, memory, len(sys.modules)]), file=sys.stderr)
"""


def once(code: str, checkout: Path) -> tuple[float, float, float, int]:
    """Seconds on the wall, seconds of CPU, peak megabytes and modules of one fresh process; the start of Python itself is not counted."""
    paths = os.pathsep.join([str(checkout), str(checkout / "functions")])
    environ = {**os.environ, "PYTHONPATH": paths, "AWS_DEFAULT_REGION": "us-east-1"}
    command = [sys.executable, "-c", TIMER, code]
    completed = subprocess.run(command, env=environ, cwd=checkout, capture_output=True, text=True, check=True)
    wall, cpu, memory, modules = json.loads(completed.stderr.splitlines()[-1])
    return wall, cpu, memory, modules


def measured(name: str, checkouts: dict[str, Path], times: int) -> dict[str, Any]:
    """The fastest of each checkout, measured in turns. The first turn warms the compiled files and is left out."""
    code, goal = ENTRIES[name]
    turns = [{which: once(code, checkout) for which, checkout in checkouts.items()} for _ in range(times + 1)][1:]
    row: dict[str, Any] = {"goal": goal}
    for which in checkouts:
        best = [min(turn[which][i] for turn in turns) for i in range(4)]
        row[which] = dict(zip(("wall", "cpu", "mb", "modules"), best, strict=True))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9, help="fresh processes for each figure")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit to compare with")
    args = parser.parse_args()
    checkouts = {"now": ROOT, **({"before": args.before.resolve()} if args.before else {})}
    for name in ENTRIES:
        row = measured(name, checkouts, args.times)
        figures = ", ".join(f"{which} {row[which]['wall']:.2f} s ({row[which]['cpu']:.2f} s of CPU)" for which in checkouts)
        print(f"{name}: {figures}, goal {row['goal']}", file=sys.stderr, flush=True)
        results.put("imports", {name: row})


if __name__ == "__main__":
    main()
