"""What the command line takes to sweep many accounts in one process, through a role in each of them.

usage: accounts.py [--accounts 60] [--endpoints 12] [--regions 1 4] [--idle 5] [--before CHECKOUT] [--no-write]

The organization is simulated in another process, so the memory and CPU time are the command's alone. Each region of an account has
`--endpoints` endpoints. With `--before`, a checkout of an earlier commit sweeps the same accounts. The exit status is 1 if any verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fleet
import results
from organization import calls, cloud
from organization_cloud import REGIONS

HERE = Path(__file__).parent


def main() -> int:
    args, wrong = _arguments(), 0
    for regions in args.regions:
        row = _swept(args, regions, HERE.parent)
        if args.before:
            row["before"] = _swept(args, regions, args.before)
        print(json.dumps(row, indent=1), file=sys.stderr)
        wrong += row["wrong"]
        if not args.no_write:
            results.put("accounts", {f"{args.accounts:05} {args.endpoints:05} {regions} {args.idle:04.1f}": row})
    return 1 if wrong else 0


def _swept(args: argparse.Namespace, regions: int, checkout: Path) -> dict[str, Any]:
    """One sweep by the command of that checkout: what it took, and how many of its verdicts are wrong."""
    with tempfile.TemporaryDirectory() as folder, cloud(args, regions) as (process, env):
        policy, report, figures = (Path(folder) / name for name in ("policy.yaml", "report.json", "figures.json"))
        policy.write_text((HERE / "six_rules.yaml").read_text())
        options = ["--cloud", "aws", "--organization", "--region", ",".join(REGIONS[:regions]), "--policy", str(policy)]
        sweep = ["reaper", "sweep", *options, "--format", "json", "--output", str(report)]
        began = time.monotonic()
        command = [sys.executable, str(HERE / "launch.py"), str(figures), *sweep]
        environ = {**os.environ, **env, "PYTHONPATH": str(checkout.resolve() / "functions")}
        completed = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        wall = time.monotonic() - began
        if completed.returncode:
            raise RuntimeError(f"the sweep ended with {completed.returncode}: {completed.stderr[-2000:]}")
        measured = json.loads(figures.read_text())
        states = {row["name"]: row["state"] for row in json.loads(report.read_text())["findings"]}
        plans = list(fleet.mixed(args.accounts * regions * args.endpoints, args.idle / 100))
        return {
            "accounts": args.accounts,
            "regions": regions,
            "endpoints": len(plans),
            "calls": sum(calls(process).values()),
            "wall": round(wall, 1),
            "cpu": round(measured["cpu"], 1),
            "mb": round(measured["mb"]),
            "wrong": sum(states.get(plan.name) != plan.truth(ignored=True) for plan in plans),
        }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=60)
    parser.add_argument("--endpoints", type=int, default=12, help="in each region of each account")
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 4], choices=range(1, len(REGIONS) + 1))
    parser.add_argument("--idle", type=float, default=5, help="percent")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit to compare with")
    parser.set_defaults(latency=0.0)
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
