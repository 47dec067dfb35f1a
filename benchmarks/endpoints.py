"""What a sweep of many endpoints takes, under the built-in policy and under one as people write it, and whether its verdicts are right.

usage: endpoints.py [--endpoints 1000 10000 50000] [--idle 0 2 10] [--policy default six fifteen] [--no-ledger] [--latency 30]
                    [--fleet hard] [--no-write]

Every row is a process of its own against a simulated cloud in another. `--idle` is the percentage of endpoints that are silent; most of these
are idle, the others are asynchronous, serverless, young, or without metrics. Unless `--no-ledger`, each fleet is swept twice more in mode
notify with a SQLite ledger: what one sweep has learnt of a configuration may spare the next one a call. Rows go into RESULTS.md,
unless `--no-write`. The exit status is 1 where any verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import results

from sandbox import HERE, Fleet, Serving, Took, serving

POLICIES = {
    "default": "version: 1\nowners: {domains: [example.com]}\n",
    "six": (HERE / "six_rules.yaml").read_text(),
    "fifteen": (HERE / "fifteen_rules.yaml").read_text(),
}
PRICE_RULES = {"six": timedelta(hours=6), "fifteen": timedelta(hours=2)}
"""The shortest `idle_after` of a rule about prices."""
SWEEP = ["reaper", "sweep", "--cloud", "aws", "--kind", "sagemaker-endpoint", "--format", "json", "--output"]


def main() -> int:
    args, wrong = _arguments(), 0
    for count in args.endpoints:
        for idle in args.idle:
            for policy in args.policy:
                wanted = Fleet(name=args.fleet, count=count, share=idle / 100, latency=args.latency / 1000)
                for sweep, row in _rows(wanted, policy, not args.no_ledger):
                    print(summary(row), file=sys.stderr, flush=True)
                    wrong += row["wrong"]
                    if not args.no_write:
                        results.put(
                            "endpoints",
                            {f"{count:06} {idle:04.1f} {policy}{' at night' if args.fleet == 'night' else ''} {sweep}": row},
                        )
    return 1 if wrong else 0


def summary(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    return (
        f"{row['endpoints']} endpoints, {row['silent']} silent, {row['policy']} policy, {row['sweep']} sweep: {row['calls']} calls "
        f"(goal {row['goal_calls']}), {row['wall']:.1f} s, {row['cpu']:.1f} s of CPU, {row['mb']:.0f} MB, {row['wrong']} wrong verdicts"
    )


def _rows(wanted: Fleet, policy: str, ledger: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sweeps of one fleet: an audit without memory, then two in mode notify that share a ledger."""
    with serving(wanted) as cloud, tempfile.TemporaryDirectory() as folder:
        for sweep in ["audit", *(["first", "second"] if ledger else [])]:
            took, states = _swept(cloud, Path(folder), POLICIES[policy], sweep != "audit")
            yield sweep, _row(wanted, policy, sweep, took) | {"wrong": _wrong(wanted, policy, states)}


def _swept(cloud: Serving, folder: Path, policy: str, remembering: bool) -> tuple[Took, dict[str, str]]:
    """One sweep by the real command: what it took, and the state of each endpoint by name."""
    file, report = folder / "policy.yaml", folder / "report.json"
    channel = f"channels: [{{type: folder, path: {json.dumps(str(folder / 'mails'))}}}]\n" if remembering else ""
    file.write_text(policy + channel)
    environ = {"REAPER_LEDGER": f"sqlite:///{folder / 'ledger.db'}"} if remembering else {}
    command = [*SWEEP, str(report), "--policy", str(file), "--mode", "notify" if remembering else "audit"]
    took = cloud.measure(sys.executable, command, environ)
    if took.status:
        raise RuntimeError(f"the sweep ended with {took.status}: {took.err[-2000:]}")
    return took, {row["name"]: row["state"] for row in json.loads(report.read_text())["findings"]}


def _row(wanted: Fleet, policy: str, sweep: str, took: Took) -> dict[str, Any]:
    silent = sum(plan.silent for plan in wanted.plans())
    priced = sum(plan.may_be_expensive(PRICE_RULES[policy]) for plan in wanted.plans()) if policy in PRICE_RULES else 0
    each, more = (1, 0) if sweep == "second" else (2, 2)
    return {
        "endpoints": wanted.count,
        "silent": silent,
        "perhaps_expensive": priced,
        "policy": f"{policy} at night" if wanted.name == "night" else policy,
        "sweep": sweep,
        "latency_ms": round(wanted.latency * 1000),
        "calls": took.total,
        "goal_calls": round(0.04 * wanted.count) + each * silent + more * priced,
        "wall": round(took.wall, 2),
        "cpu": round(took.cpu, 2),
        "mb": round(took.mb, 1),
        "by_action": dict(took.calls),
    }


def _wrong(wanted: Fleet, policy: str, states: Mapping[str, str]) -> int:
    """How many verdicts are not what the fleet was made to be; the first few are printed."""
    right = {plan.name: (plan.story, plan.truth(policy in PRICE_RULES)) for plan in wanted.plans()}
    wrong = Counter(
        f"{story} is {truth}, not {states.get(name, 'missing')}"
        for name, (story, truth) in right.items()
        if states.get(name) != truth
    )
    for text, count in wrong.most_common(5):
        print(f"  wrong: {count} x {text}", file=sys.stderr)
    return wrong.total() + len(states.keys() - right.keys())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--idle", type=float, nargs="+", default=[0, 2, 10], help="percent")
    parser.add_argument("--policy", nargs="+", choices=sorted(POLICIES), default=["default", "six"])
    parser.add_argument("--latency", type=float, default=30, help="milliseconds that each call takes")
    parser.add_argument("--no-ledger", action="store_true", help="only the audit, not the two sweeps with a ledger")
    parser.add_argument(
        "--fleet", choices=["mixed", "night", "hard"], default="mixed", help="hard is for its verdicts, and never written down"
    )
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    args = parser.parse_args()
    args.no_write = args.no_write or args.fleet == "hard"
    return args


if __name__ == "__main__":
    sys.exit(main())
