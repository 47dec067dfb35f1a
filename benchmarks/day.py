"""How many metrics the sweeps of a simulated day ask CloudWatch for, which is most of what they cost, against one sweep that asks everything.

usage: day.py [--endpoints 10000] [--policy default six] [--every 60 30] [--no-write]

One endpoint in twenty is idle, the others are used all the time. The simulated cloud is a process of its own, and it counts. The sweeps are
made in this process by the clock of the simulated day, in mode notify with one SQLite ledger. Neither the first sweep with an empty ledger
counts nor, for CPU time, the first of the day. *before* is the same sweep after the uses in the ledger were deleted: what every sweep asked for,
and took, before they were remembered. The exit status is 1 where any verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import endpoints
import fleet
import results

from sandbox import Fleet, Serving, serving

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
GOALS = {("default", 60): 3.1, ("default", 30): 5.3, ("six", 60): 5.2, ("six", 30): 7.4}
"""By policy and minutes between two sweeps: how many times the metrics of one sweep that asks everything."""
IDLE_SHARE = 0.05


def plans(count: int) -> Iterator[fleet.Plan]:
    """The fleet: tags, names and sizes as in `fleet.mixed`."""
    dice = random.Random("idle")
    idle = set(dice.sample(range(count), round(count * IDLE_SHARE)))
    for index, plan in enumerate(fleet.mixed(count, 0)):
        used_ago, story = (5 * DAY, "idle") if index in idle else (None, "busy")
        yield fleet.Plan(name=plan.name, story=story, used_ago=used_ago, instance=plan.instance, count=plan.count, tags=plan.tags)


def main() -> int:
    args, wrong = _arguments(), 0
    wanted = Fleet(name="day", count=args.endpoints)
    with serving(wanted) as cloud:
        os.environ |= cloud.env
        for policy in args.policy:
            asking = _swept(cloud, policy, [datetime.now(UTC) + n * HOUR for n in range(6)], remembers=False)[1:]
            before = asking[0] | {"cpu": median(sweep["cpu"] for sweep in asking)}
            for every in args.every:
                row = _row(cloud, policy, every, before) | {"endpoints": args.endpoints}
                print(json.dumps(row), file=sys.stderr, flush=True)
                wrong += row["wrong"]
                if not args.no_write:
                    results.put("day", {f"{policy} {every}": row})
    return 1 if wrong else 0


def _row(cloud: Serving, policy: str, every: int, before: dict[str, Any]) -> dict[str, Any]:
    start, step = datetime.now(UTC).replace(minute=17, second=0, microsecond=0), timedelta(minutes=every)
    moments = [start - step + n * step for n in range(DAY // step + 1)]
    sweeps = _swept(cloud, policy, moments, remembers=True)[1:]
    requested = sum(sweep["metrics"] for sweep in sweeps)
    return {
        "policy": policy,
        "every": every,
        "sweeps": len(sweeps),
        "before": before["metrics"],
        "requested": requested,
        "times": round(requested / before["metrics"], 2),
        "times_before": len(sweeps),
        "goal": GOALS[policy, every],
        "cpu": round(median(sweep["cpu"] for sweep in sweeps[1:]), 2),
        "cpu_before": round(before["cpu"], 2),
        "wrong": sum(sweep["wrong"] for sweep in sweeps),
    }


def _swept(cloud: Serving, policy: str, moments: list[datetime], *, remembers: bool) -> list[dict[str, Any]]:
    """A sweep at each of these moments: the metrics it asked for, its CPU time, and its wrong verdicts."""
    from reaper.model import Mode
    from reaper.policy.file import load_policy
    from reaper.run import run
    from reaper.settings import Settings

    took: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        file.write_text(endpoints.POLICIES[policy] + f"channels: [{{type: folder, path: {json.dumps(f'{folder}/mails')}}}]\n")
        settings = Settings(mode=Mode.NOTIFY, cloud="aws", kinds=("sagemaker-endpoint",), ledger=f"sqlite:///{folder}/ledger.db")
        for moment in moments:
            cloud.set_clock(moment)
            if took and not remembers:
                _forget_uses(str(settings.ledger), moment)
            began = time.process_time()
            report = run(settings, load_policy(str(file)), lambda moment=moment: moment)  # type: ignore[misc]
            cpu = time.process_time() - began
            states = {f.case.resource.name: f.case.verdict.state.value for f in report.findings}
            took.append({"cpu": cpu, "metrics": cloud.metrics(), "wrong": _wrong(states, policy)})
    return took


def _forget_uses(address: str, now: datetime) -> None:
    from reaper.ledger.opening import open_ledger
    from reaper.observing.cache import PACKED_COLUMN

    ledger, name = open_ledger(address, {}), "cache sagemaker-endpoint aws/123456789012/us-east-1 0"
    row = ledger.read_row(name)
    assert ledger.write_row(name, {PACKED_COLUMN: row.values[PACKED_COLUMN]}, row.version, now)
    ledger.close()


def _wrong(states: dict[str, str], policy: str) -> int:
    right = {plan.name: plan.truth(policy == "six") for plan in plans(len(states))}
    wrong = Counter((truth, states.get(name)) for name, truth in right.items() if states.get(name) != truth)
    for pair, count in wrong.most_common(5):
        print(f"  wrong: {count} x {pair[0]}, not {pair[1]}", file=sys.stderr)
    return wrong.total()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=10_000)
    parser.add_argument("--policy", nargs="+", choices=sorted(endpoints.POLICIES), default=["default", "six"])
    parser.add_argument("--every", type=int, nargs="+", choices=[30, 60], default=[60, 30], help="minutes between two sweeps")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
