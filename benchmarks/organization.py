"""What a sweep of a whole organization takes: 500 accounts, 4 regions each, 100,000 endpoints, of which one in twenty is silent.

usage: organization.py [--accounts 500] [--endpoints 50] [--idle 5] [--width 10] [--latency 30] [--no-write]

The real phases of the workflow run against a simulated organization in another process: each call to it takes `--latency` milliseconds more,
and each call to the ledger and the store LEDGER_MS and STORE_MS. Every phase that a workflow runs once (list, decide, conclude) is a process of
its own; the items of observe are spread over two processes for each core. The wall time is what a state machine with `--width` items
at once would take: each item's own time, one after the other in the first free slot. The largest payload is the longest JSON that any
state of the machine gets or returns.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fleet
import results

HERE = Path(__file__).parent
START_S = 1.5
"""Seconds for the start of a child and its function, in addition to what is measured."""


def main() -> int:
    args = _arguments()
    with tempfile.TemporaryDirectory() as folder, cloud(args) as (process, env):
        home = Path(folder)
        listed = _phase(home, env, "list")
        items = listed["answer"]["items"]
        processes = 2 * (os.cpu_count() or 1)
        shares = [range(start, items, processes) for start in range(processes)]
        with ThreadPoolExecutor(len(shares)) as pool:
            observed = list(pool.map(lambda share: _phase(home, env, "observe", *map(str, share)), shares))
        counts = calls(process)
        decided, concluded = _phase(home, env, "decide"), _phase(home, env, "conclude")
        wrong = _wrong(args, json.loads((home / "states.json").read_text()))
    seconds = [seconds for part in observed for seconds in part["seconds"]]
    row = {
        "accounts": args.accounts,
        "endpoints": args.accounts * 4 * args.endpoints,
        "silent": round(args.accounts * 4 * args.endpoints * args.idle / 100),
        "latency_ms": args.latency,
        "width": args.width,
        "calls": sum(counts.values()),
        "assumed": counts["sts:AssumeRole"],
        "list_s": round(listed["wall"], 1),
        "observe_s": round(_scheduled(seconds, args.width), 1),
        "longest_item_s": round(max(seconds), 1),
        "decide_s": round(decided["wall"], 1),
        "decide_mb": round(decided["mb"]),
        "conclude_s": round(concluded["wall"], 1),
        "conclude_mb": round(concluded["mb"]),
        "payload_kb": round(max(part["payload"] for part in [listed, *observed, decided, concluded]) / 1024, 1),
        "report_mb": round(concluded["answer"]["report"] / 1024**2),
        "findings": concluded["answer"]["findings"],
        "idle": concluded["answer"]["idle"],
        "gaps": concluded["answer"]["gaps"],
        "wrong": wrong,
    }
    row["wall"] = round(row["list_s"] + row["observe_s"] + row["decide_s"] + row["conclude_s"] + 3 * START_S, 1)
    print(json.dumps(row, indent=1), file=sys.stderr)
    if not args.no_write:
        results.put("organization", {f"{args.accounts:05} {args.endpoints:05} {args.idle:04.1f}": row})
    return 1 if wrong or row["gaps"] else 0


def _wrong(args: argparse.Namespace, states: Mapping[str, str]) -> int:
    """How many verdicts are not what the fleet was made to be."""
    plans = fleet.mixed(args.accounts * 4 * args.endpoints, args.idle / 100)
    return sum(states.get(plan.name) != plan.truth(ignored=True) for plan in plans)


def _scheduled(seconds: Sequence[float], width: int) -> float:
    """When the last item ends, if each begins in the first free of `width` slots."""
    slots = [0.0] * width
    for each in seconds:
        heapq.heappush(slots, heapq.heappop(slots) + each + START_S)
    return max(slots)


def _phase(home: Path, env: Mapping[str, str], *words: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "organization_phase.py"), str(home), *words]
    completed = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise RuntimeError(f"{words[0]} ended with {completed.returncode}: {completed.stderr[-3000:]}")
    measured: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    print(f"{words[0]}: {measured['wall']:.1f} s, {measured['mb']:.0f} MB", file=sys.stderr, flush=True)
    return measured


@contextmanager
def cloud(args: argparse.Namespace, regions: int = 4) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The organization in a process of its own, and the variables that lead there."""
    words = [str(args.accounts), str(args.endpoints), str(args.idle / 100), str(args.latency / 1000), str(regions)]
    command = [sys.executable, str(HERE / "organization_cloud.py"), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def calls(cloud: subprocess.Popen[str]) -> Counter[str]:
    """The calls so far, by action."""
    assert cloud.stdin
    assert cloud.stdout
    cloud.stdin.write("calls\n")
    cloud.stdin.flush()
    return Counter(json.loads(cloud.stdout.readline()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=500)
    parser.add_argument("--endpoints", type=int, default=50, help="in each region of each account")
    parser.add_argument("--idle", type=float, default=5, help="percent")
    parser.add_argument("--width", type=int, default=10, help="items at once")
    parser.add_argument("--latency", type=float, default=30, help="milliseconds that each call takes")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
