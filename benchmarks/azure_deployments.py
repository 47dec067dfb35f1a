"""What a sweep of many Azure ML online deployments takes, and whether its verdicts are right.

usage: azure_deployments.py [--deployments 150 1000 5000] [--idle 5 25] [--workspaces 50] [--latency 30] [--before CHECKOUT] [--no-write]

The subscription is simulated in another process, so the memory and CPU time are the command's alone. `--idle` is the percentage of deployments
that are silent; most of these are idle, the others young or without metrics. With `--before`, a checkout of an earlier commit sweeps the same
subscription, and every finding must be the same but for its dates. The exit status is 1 if any verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import azure_cloud
import results

from sandbox import HERE, Serving, Took

POLICY = "version: 1\nowners: {domains: [example.com]}\n"
SWEEP = ["reaper", "sweep", "--cloud", "azure", "--kind", "azureml-online-deployment", "--format", "json", "--output"]
SAME = ("state", "confidence", "rule", "size", "usd_per_hour", "step", "tags", "owner", "error")
"""The parts of a finding that two versions must agree on. The others change with the time of the sweep."""
CLOCK = timedelta(minutes=15)
"""The most that passes between two sweeps that are compared."""
Findings = dict[str, dict[str, Any]]


def main() -> int:
    args, wrong = _arguments(), 0
    for count in args.deployments:
        for idle in args.idle:
            row = _row(args, count, idle / 100)
            print(json.dumps(row), file=sys.stderr, flush=True)
            wrong += row["wrong"]
            if not args.no_write:
                results.put("azure", {f"{count:06} {idle:04.1f}": row})
    return 1 if wrong else 0


def _row(args: argparse.Namespace, count: int, share: float) -> dict[str, Any]:
    words = [str(count), str(args.workspaces), str(share), str(args.latency / 1000)]
    command = [sys.executable, str(HERE / "azure_cloud.py"), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            cloud = Serving(process)
            took, findings = _swept(cloud, HERE.parent)
            before = {}
            if args.before:
                earlier, findings_before = _swept(cloud, args.before)
                before = {"before": _figures(earlier, count)}
                _require_same(findings_before, findings)
        finally:
            process.kill()
    states = {row["name"].partition("/")[2]: row["state"] for row in findings.values()}
    plans = list(azure_cloud.plans(count, args.workspaces, share))
    wrong = Counter(f"{p.story} is {p.truth}, not {states.get(p.name)}" for p in plans if states.get(p.name) != p.truth)
    for text, times in wrong.most_common(5):
        print(f"  wrong: {times} x {text}", file=sys.stderr)
    facts = {
        "deployments": count,
        "workspaces": args.workspaces,
        "silent": round(count * share),
        "latency_ms": round(args.latency),
    }
    return {**facts, **_figures(took, count), "by_action": dict(took.calls), "wrong": wrong.total(), **before}


def _figures(took: Took, count: int) -> dict[str, Any]:
    total = took.total
    each = {"calls": total, "each": round(total / count, 3), "wall": round(took.wall, 1), "cpu": round(took.cpu, 1)}
    return {**each, "mb": round(took.mb)}


def _swept(cloud: Serving, checkout: Path) -> tuple[Took, Findings]:
    """One sweep by the command of that checkout: what it took, and its findings by ID."""
    with tempfile.TemporaryDirectory() as folder:
        policy, report = Path(folder) / "policy.yaml", Path(folder) / "report.json"
        policy.write_text(POLICY)
        environ = {"PYTHONPATH": str(checkout.resolve() / "functions"), "REAPER_SUBSCRIPTIONS": azure_cloud.SUBSCRIPTION}
        took = cloud.measure(sys.executable, [*SWEEP, str(report), "--policy", str(policy), "--mode", "audit"], environ)
        if took.status:
            raise RuntimeError(f"the sweep ended with {took.status}: {took.err[-2000:]}")
        return took, {row["id"]: row for row in json.loads(report.read_text())["findings"]}


def _require_same(before: Findings, now: Findings) -> None:
    """Raises RuntimeError if a finding differs. What is in use right now was last used some minutes later in the second sweep."""
    for resource_id in before.keys() | now.keys():
        one, two = (found.get(resource_id) or {} for found in (before, now))
        used = [datetime.fromisoformat(row["last_busy"]) for row in (one, two) if row.get("last_busy")]
        if any(one.get(key) != two.get(key) for key in SAME) or len(used) == 1 or (used and max(used) - min(used) > CLOCK):
            raise RuntimeError(f"{resource_id} differs: {one} before, {two} now")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deployments", type=int, nargs="+", default=[150, 1_000, 5_000])
    parser.add_argument("--workspaces", type=int, default=50)
    parser.add_argument("--idle", type=float, nargs="+", default=[5, 25], help="percent")
    parser.add_argument("--latency", type=float, default=30, help="milliseconds that each call takes")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit to compare with")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
