"""Cloud Custodian and the script that most people write first, compared with the reaper: the same fleets, over the same wire, in the same run.

usage: peers.py [--endpoints 1000] [--latency 30]

On the mixed fleet (one in fifty silent) calls, time and memory are compared; on the hard one, and on the hard one without the
right to read metrics, the verdicts. The others report idle endpoints only, so only these count: endpoints wrongly called idle, and idle
endpoints that were missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results

from sandbox import HERE, Fleet, Serving, Took, serving

CUSTODIAN = HERE.parent / ".venv-c7n" / "bin" / "python"
Found = tuple[Took, dict[str, str]]
"""What it took, and by name the verdict on each endpoint that it said anything of."""


def reaper(cloud: Serving, folder: Path) -> Found:
    """A sweep under the built-in policy."""
    report = folder / "report.json"
    command = ["reaper", "sweep", "--cloud", "aws", "--kind", "sagemaker-endpoint", "--format", "json", "--output", str(report)]
    took = cloud.measure(sys.executable, command)
    return took, {row["name"]: row["state"] for row in json.loads(report.read_text())["findings"]}


def naive(cloud: Serving, folder: Path) -> Found:
    """The script. Where metrics are denied it ends with an error, which says nothing wrong of anything."""
    took = cloud.measure(sys.executable, [str(HERE / "naive.py")])
    return took, dict.fromkeys(json.loads(took.out) if took.status == 0 else (), "idle")


def custodian(cloud: Serving, folder: Path) -> Found:
    """Cloud Custodian with a cache that is thrown away, as in a fresh container."""
    command = [str(HERE / "custodian.py"), "run", "--cache-period", "0", "-s", str(folder), str(HERE / "custodian.yaml")]
    took = cloud.measure(CUSTODIAN, command)
    rows = json.loads((folder / "idle-endpoints" / "resources.json").read_text())
    return took, {row["EndpointName"]: "idle" for row in rows}


TOOLS: dict[str, Callable[[Serving, Path], Found]] = {"reaper": reaper, "custodian": custodian, "naive": naive}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=1_000)
    parser.add_argument("--latency", type=float, default=30, help="milliseconds that each call takes on the mixed fleet")
    args = parser.parse_args()
    fleets = {
        "mixed": Fleet(name="mixed", count=args.endpoints, share=0.02, latency=args.latency / 1000),
        "hard": Fleet(name="hard", count=args.endpoints),
        "hard, metrics denied": Fleet(name="hard", count=args.endpoints, denied=True),
    }
    for name, wanted in fleets.items():
        results.put("peers", {f"{name}: {tool}": row for tool, row in compared(name, wanted).items()})


def compared(name: str, wanted: Fleet) -> dict[str, dict[str, Any]]:
    """A row for each tool on one fleet."""
    plans = list(wanted.plans())
    idle = {plan.name for plan in plans if plan.truth(False) == "idle" and not wanted.denied}
    rows = {}
    with serving(wanted) as cloud:
        for tool, run in TOOLS.items():
            with tempfile.TemporaryDirectory() as folder:
                took, states = run(cloud, Path(folder))
            idle_names = {name for name, state in states.items() if state == "idle"}
            rows[tool] = row = _row(name, wanted, took) | {
                "tool": tool,
                "wrongly_idle": len(idle_names - idle),
                "missed": len(idle - idle_names),
                "stories": sorted({plan.story for plan in plans if plan.name in idle_names ^ idle}),
                "status": took.status,
            }
            print(f"{name}, {tool}: {row}", file=sys.stderr, flush=True)
    return rows


def _row(name: str, wanted: Fleet, took: Took) -> dict[str, Any]:
    figures = {"calls": took.total, "wall": round(took.wall, 2), "cpu": round(took.cpu, 2), "mb": round(took.mb, 1)}
    return {
        "fleet": name,
        "endpoints": wanted.count,
        "latency_ms": round(wanted.latency * 1000),
        "by_action": dict(took.calls),
        **figures,
    }


if __name__ == "__main__":
    main()
