"""How each section of RESULTS.md reads."""

from __future__ import annotations

from collections.abc import Mapping

from results import Renderer, Row, measured, table

HEAD = """# Results

Written by the scripts in this folder; rows that were not measured again stay as they were. Calls are counted by the pretend cloud, not by
whoever made them. CPU time and the peak of memory are those of the measured process alone. A wall time is only as good as the machine
was quiet: cloud and command share its cores. Reproduce it with `make bench`, `make bench-peers` and `python benchmarks/imports.py`.
"""
GOALS = {1_000: {"wall": 3.0}, 10_000: {"cpu": 30.0, "mb": 150.0}, 50_000: {"wall": 900.0, "mb": 1024.0}}
"""By number of endpoints; the one for 10,000 is meant at 10 % silent, the one for 1,000 at none."""


def endpoints(rows: Mapping[str, Row]) -> str:
    """One line a sweep, and which goals are met."""
    heads = ["endpoints", "silent", "policy", "sweep", "calls", "goal", "wall s", "CPU s", "peak MB", "wrong", "goals"]
    lines = [
        [
            f"{row['endpoints']:,}", f"{row['silent']:,}", row["policy"], row["sweep"], f"{row['calls']:,}",
            f"{row['goal_calls']:,}", f"{row['wall']:.1f}", f"{row['cpu']:.1f}", f"{row['mb']:.0f}", str(row["wrong"]), _goals(row),
        ]
        for _, row in sorted(rows.items())
    ]  # fmt: skip
    return f"""## Endpoints

`make bench` (parts of it: `python benchmarks/endpoints.py --endpoints 1000 --idle 0`). {measured(rows)}
Each call is answered {_latency(rows)} ms late. *Silent* endpoints show no invocations; most are idle, the others asynchronous, serverless,
young or without metrics. *audit* has no memory; *first* and *second* are two sweeps in mode notify with one SQLite ledger, messages
included. *goal*: 0.04 calls for each endpoint, and 2 for each silent one (1 in the second sweep, though asynchronous ones, hosts and pools need 2 in each), and 2 for each that a price rule may be
for and that was silent for as long as that rule asks (0 in the second). *wrong*: verdicts that differ from what the fleet was made to be.

{table(heads, lines)}"""


def peers(rows: Mapping[str, Row]) -> str:
    """One line a tool and fleet, with ratios to ours."""
    heads = ["fleet", "tool", "calls", "wall s", "CPU s", "peak MB", "wrongly idle", "missed", "exit status", "wrong about"]
    lines = []
    for key, row in sorted(rows.items(), key=lambda pair: (pair[1]["fleet"] != "mixed", pair[0].replace("ours", ""))):
        us = rows[f"{row['fleet']}: ours"]
        figures = [_ratio(row[name], us[name], digits) for name, digits in (("calls", 0), ("wall", 1), ("cpu", 1), ("mb", 0))]
        counts = [str(row["wrongly_idle"]), str(row["missed"]), str(row["status"])]
        lines.append([row["fleet"], key.rpartition(": ")[2], *figures, *counts, ", ".join(row["stories"]) or "nothing"])
    count = ", ".join(sorted({f"{row['endpoints']:,}" for row in rows.values()}))
    return f"""## Beside others

`make bench-peers`. {measured(rows)}
{count} endpoints. *mixed*: one in fifty silent, each call {_latency(rows)} ms late. *hard*: twelve stories in equal parts, no delay;
then the same where nobody may read metrics and nothing can be known to be idle. What each was asked:

* **ours**: `reaper sweep` under the built-in policy.
* **custodian**: Cloud Custodian, with `custodian.yaml`: in service, older than a day, no invocation for a day. The released version has
  no metrics filter for SageMaker endpoints and so cannot be asked this; `custodian.py` adds one that asks for every production variant.
* **naive**: `naive.py`: list, describe, GetMetricStatistics for each production variant.

The others say "idle" or nothing, so only that is held against them. In brackets: how many times ours.

{table(heads, lines)}"""


def imports(rows: Mapping[str, Row]) -> str:
    """One line an entry point."""
    heads = ["entry point", "goal s", "wall s", "CPU s", "peak MB", "modules", "before: CPU s", "now / before"]
    lines = [[name, _or_none(row["goal"]), *_loaded(row["now"]), *_before(row)] for name, row in rows.items()]
    return f"""## Loading

`python benchmarks/imports.py --before CHECKOUT`. {measured(rows)}
The fastest of several fresh processes, without the start of Python itself. `import boto3` is none of ours: on a quiet machine it takes
about 0.13 s, so it says how busy this one was, and the goals are meant for a quiet one. Whatever is not loaded here is loaded when it is
used: a sweep pays for pydantic and its SDK all the same, `--help` and a link's page do not.

{table(heads, lines)}"""


def _goals(row: Row) -> str:
    """Which of the goals for that many endpoints are met."""
    more = GOALS.get(row["endpoints"], {}) if row["endpoints"] != 1_000 or not row["silent"] else {}
    goals = {"calls": row["goal_calls"], "wrong": 0, **more}
    missed = [name for name, goal in goals.items() if row[name] > goal]
    verdict = f"missed: {', '.join(missed)}" if missed else "met"
    return f"{verdict} (busy machine)" if missed and row["load"] > 3 else verdict


def _latency(rows: Mapping[str, Row]) -> str:
    return ", ".join(sorted({str(row["latency_ms"]) for row in rows.values() if row["latency_ms"]})) or "0"


def _ratio(value: float, ours: float, digits: int) -> str:
    return f"{value:,.{digits}f}" + (f" ({value / ours:.1f}x)" if ours and value != ours else "")


def _or_none(goal: float | None) -> str:
    return "–" if goal is None else f"{goal}"


def _loaded(figures: Row) -> list[str]:
    return [f"{figures['wall']:.2f}", f"{figures['cpu']:.2f}", f"{figures['mb']:.0f}", str(figures["modules"])]


def _before(row: Row) -> list[str]:
    before = row.get("before")
    return [f"{before['cpu']:.2f}", f"{row['now']['cpu'] / before['cpu']:.2f}"] if before else ["–", "–"]


RENDERERS: dict[str, Renderer] = {"endpoints": endpoints, "peers": peers, "imports": imports}
