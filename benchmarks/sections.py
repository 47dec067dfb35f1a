"""How each section of RESULTS.md reads."""

from __future__ import annotations

from collections.abc import Mapping

from results import Renderer, Row, measured, table

HEAD = """# Results

Written by the scripts in this folder; rows that weren't measured again stay as they were. The simulated cloud counts the calls, not the
process that made them. CPU time and peak memory are those of the measured process alone. Wall times depend on how quiet the machine was,
because cloud and command share its cores. Reproduce them with `make bench`, `make bench-peers` and `python benchmarks/imports.py`.
"""
REAPER = "reaper"
"""The reaper's own name among the tools, which the others are compared with."""
GOALS = {1_000: {"wall": 3.0}, 10_000: {"cpu": 30.0, "mb": 150.0}, 50_000: {"wall": 900.0, "mb": 1024.0}}
"""By number of endpoints. The goal for 10,000 applies to fleets of which 10% are silent, the one for 1,000 to fleets without silent endpoints."""

ACCOUNTS_MB = 300
AZURE_GOALS = {"each": 0.3, "mb": 200, "wrong": 0}
NIGHT_GOALS = {"cpu": 20.0, "mb": 150.0}
"""For 10,000 endpoints at night under fifteen rules."""


def endpoints(rows: Mapping[str, Row]) -> str:
    """One line per sweep, and which goals are met."""
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
Each call takes {_latency(rows)} ms more. *Silent* endpoints show no invocations. Most are idle, the others asynchronous, serverless,
young or without metrics. *audit* has no memory. *first* and *second* are two sweeps in mode notify with one SQLite ledger, messages
included. *goal*: 0.04 calls for each endpoint, and 2 for each silent one (1 in the second sweep, but asynchronous endpoints, hosts and pools
need 2 in each), and 2 for each one that a price rule may match and that was silent for as long as that rule requires (0 in the second).
*wrong*: verdicts that differ from those that the fleet was built for.

*fifteen at night*: fifteen rules, two of which are about prices, with an `idle_after` of 2 and 4 hours. Most endpoints in use were last used
more than two hours ago, so their prices must be read: `python benchmarks/endpoints.py --endpoints 10000 --idle 5 --policy fifteen --fleet night`.
The goal for 10,000 of these is {NIGHT_GOALS["cpu"]:.0f} s of CPU and {NIGHT_GOALS["mb"]:.0f} MB.

{table(heads, lines)}"""


def day(rows: Mapping[str, Row]) -> str:
    """One line per policy and schedule."""
    heads = [
        "endpoints",
        "policy",
        "every",
        "sweeps a day",
        "metrics of one sweep before",
        "metrics a day",
        "times",
        "before",
        "goal",
    ]
    heads += ["CPU s a sweep", "before", "wrong", "goals"]
    lines = [
        [
            *(f"{row['endpoints']:,}", row["policy"], f"{row['every']} min", str(row["sweeps"]), f"{row['before']:,}"),
            *(f"{row['requested']:,}", f"{row['times']:.2f}", str(row["times_before"]), str(row["goal"])),
            *(f"{row['cpu']:.1f}", f"{row['cpu_before']:.1f}", str(row["wrong"])),
            "met" if row["times"] <= row["goal"] and row["cpu"] <= row["cpu_before"] and not row["wrong"] else "missed",
        ]
        for _, row in sorted(rows.items())
    ]
    return f"""## Metrics requested in a day

`python benchmarks/day.py`. {measured(rows)}
The sweeps of one simulated day in mode notify, with a ledger that knows the fleet. One endpoint in twenty is idle, the others are used all the
time. CloudWatch bills the metrics requested. *times*: how many times the metrics of one sweep that asks everything, which is what a daily
schedule cost before uses were remembered. CPU time is the median of the day's sweeps, *before* that of sweeps with the same ledger but without the uses.
Goals: `times`, no more CPU time than before, no wrong verdict.

{table(heads, lines)}"""


def organization(rows: Mapping[str, Row]) -> str:
    """One line per organization."""
    heads = [
        *("accounts", "endpoints", "silent", "calls", "list s", "observe s", "decide s", "conclude s", "sum s"),
        *("decide MB", "conclude MB", "largest payload KB", "report MB", "wrong", "goals"),
    ]
    lines = [
        [
            str(row["accounts"]), f"{row['endpoints']:,}", f"{row['silent']:,}", f"{row['calls']:,}", f"{row['list_s']:.0f}",
            f"{row['observe_s']:.0f}", f"{row['decide_s']:.0f}", f"{row['conclude_s']:.0f}", f"{row['wall']:.0f}",
            str(row["decide_mb"]), str(row["conclude_mb"]), f"{row['payload_kb']:.1f}", str(row["report_mb"]), str(row["wrong"]),
            _organization_goals(row),
        ]
        for _, row in sorted(rows.items())
    ]  # fmt: skip
    return f"""## Organizations

`python benchmarks/organization.py`. {measured(rows)}
The real phases of the workflow, in mode notify, with the policy of six rules and an empty ledger, over accounts with four regions each. Each
call to a cloud takes {_latency(rows)} ms more, each one to the ledger 8 ms and each one to the store 25 ms. *observe* is the time of a map that runs
{", ".join(sorted({str(row["width"]) for row in rows.values()}))} items at once, and *sum* that of the whole run. *largest payload*: the longest input or answer of a state, of which AWS allows 256 KB. Goals:
15 minutes, 512 MB for decide, no payload over the limit, no wrong verdict.

{table(heads, lines)}"""


def azure(rows: Mapping[str, Row]) -> str:
    """One line per subscription."""
    heads = ["deployments", "silent", "calls", "calls each", "wall s", "CPU s", "peak MB", "wrong"]
    heads += ["before: calls each", "before: CPU s", "before: peak MB", "goals"]
    lines = [
        [
            *(f"{row['deployments']:,}", f"{row['silent']:,}", f"{row['calls']:,}", f"{row['each']:.2f}", f"{row['wall']:.1f}"),
            *(f"{row['cpu']:.1f}", str(row["mb"]), str(row["wrong"])),
            *(
                [f"{row['before']['each']:.2f}", f"{row['before']['cpu']:.1f}", str(row["before"]["mb"])]
                if "before" in row
                else "–––"
            ),
            _missed(row, AZURE_GOALS),
        ]
        for _, row in sorted(rows.items())
    ]
    spaces = ", ".join(sorted({str(row["workspaces"]) for row in rows.values()}))
    return f"""## Azure deployments

`python benchmarks/azure_deployments.py --before CHECKOUT`. {measured(rows)}
One subscription with {spaces} workspaces in five regions, in mode audit, under the built-in policy. Each call takes {_latency(rows)} ms more. Every fifth endpoint
has two deployments. *Silent* deployments get no requests. Most are idle, the others young, changing or without metrics. Each silent one is
read again at its source, because Resource Graph lags behind. *before*: the same sweep by an earlier version, with the same findings. Goals:
{AZURE_GOALS["each"]} calls for each deployment, {AZURE_GOALS["mb"]} MB.

{table(heads, lines)}"""


def _organization_goals(row: Row) -> str:
    return _missed(row, {"wall": 900, "decide_mb": 512, "payload_kb": 256, "wrong": 0, "gaps": 0})


def _missed(row: Row, goals: Mapping[str, float]) -> str:
    missed = [name for name, goal in goals.items() if row[name] > goal]
    return f"missed: {', '.join(missed)}" if missed else "met"


def accounts(rows: Mapping[str, Row]) -> str:
    """One line per organization that the command line swept."""
    heads = [
        "accounts",
        "regions",
        "endpoints",
        "calls",
        "CPU s",
        "peak MB",
        "wrong",
        "before: CPU s",
        "before: peak MB",
        "goals",
    ]
    lines = [
        [
            *(str(row["accounts"]), str(row["regions"]), f"{row['endpoints']:,}", f"{row['calls']:,}", f"{row['cpu']:.1f}"),
            *(str(row["mb"]), str(row["wrong"])),
            *([f"{row['before']['cpu']:.1f}", str(row["before"]["mb"])] if "before" in row else ["–", "–"]),
            "met" if row["mb"] <= ACCOUNTS_MB and not row["wrong"] else "missed",
        ]
        for _, row in sorted(rows.items())
    ]
    return f"""## Many accounts on the command line

`python benchmarks/accounts.py --before CHECKOUT`. {measured(rows)}
One `reaper sweep --organization` in one process, in mode audit, with the policy of six rules. It assumes a role in each account. *before*: the same
sweep by an earlier version, in which each session had its own copy of the SDK's descriptions of services. Goal: {ACCOUNTS_MB} MB.

{table(heads, lines)}"""


def peers(rows: Mapping[str, Row]) -> str:
    """One line per tool and fleet, with ratios to the reaper."""
    heads = ["fleet", "tool", "calls", "wall s", "CPU s", "peak MB", "wrongly idle", "missed", "exit status", "wrong about"]
    lines = []
    for key, row in sorted(rows.items(), key=lambda pair: (pair[1]["fleet"] != "mixed", pair[0].replace(REAPER, ""))):
        own = rows[f"{row['fleet']}: {REAPER}"]
        figures = [_ratio(row[name], own[name], digits) for name, digits in (("calls", 0), ("wall", 1), ("cpu", 1), ("mb", 0))]
        counts = [str(row["wrongly_idle"]), str(row["missed"]), str(row["status"])]
        lines.append([row["fleet"], key.rpartition(": ")[2], *figures, *counts, ", ".join(row["stories"]) or "nothing"])
    count = ", ".join(sorted({f"{row['endpoints']:,}" for row in rows.values()}))
    return f"""## Beside others

`make bench-peers`. {measured(rows)}
{count} endpoints. *mixed*: one in fifty silent, each call takes {_latency(rows)} ms more. *hard*: twelve stories in equal parts, no delay.
*metrics denied*: the same fleet, but the right to read metrics is missing, so that no endpoint can be proven idle. What each tool ran:

* **reaper**: `reaper sweep` under the built-in policy.
* **custodian**: Cloud Custodian, with `custodian.yaml`: in service, older than a day, no invocation for a day. The released version has
  no metrics filter for SageMaker endpoints. `custodian.py` adds one that reads every production variant.
* **naive**: `naive.py`: list, describe, GetMetricStatistics for each production variant.

The others report idle endpoints only, so only these count as right or wrong. In brackets: the ratio to the reaper.

{table(heads, lines)}"""


def imports(rows: Mapping[str, Row]) -> str:
    """One line per entry point."""
    heads = ["entry point", "goal s", "wall s", "CPU s", "peak MB", "modules", "before: CPU s", "now / before"]
    lines = [[name, _or_none(row["goal"]), *_loaded(row["now"]), *_before(row)] for name, row in rows.items()]
    return f"""## Loading

`python benchmarks/imports.py --before CHECKOUT`. {measured(rows)}
The fastest of several fresh processes, without the start of Python itself. `import boto3` isn't part of the reaper. On a quiet machine it
takes about 0.13 s, so it shows how busy this one was. The goals are for a quiet one. Modules that aren't loaded here are loaded when they are
used: a sweep still pays for pydantic and its SDK, but `--help` and the snooze page don't.

{table(heads, lines)}"""


def _goals(row: Row) -> str:
    """Which of the goals for that many endpoints are met."""
    more = (
        NIGHT_GOALS
        if "night" in row["policy"]
        else GOALS.get(row["endpoints"], {})
        if row["endpoints"] != 1_000 or not row["silent"]
        else {}
    )
    goals = {"calls": row["goal_calls"], "wrong": 0, **more}
    missed = [name for name, goal in goals.items() if row[name] > goal]
    return f"{_missed(row, goals)} (busy machine)" if missed and row["load"] > 3 else _missed(row, goals)


def _latency(rows: Mapping[str, Row]) -> str:
    return ", ".join(sorted({str(row["latency_ms"]) for row in rows.values() if row["latency_ms"]})) or "0"


def _ratio(value: float, own: float, digits: int) -> str:
    return f"{value:,.{digits}f}" + (f" ({value / own:.1f}x)" if own and value != own else "")


def _or_none(goal: float | None) -> str:
    return "–" if goal is None else f"{goal}"


def _loaded(figures: Row) -> list[str]:
    return [f"{figures['wall']:.2f}", f"{figures['cpu']:.2f}", f"{figures['mb']:.0f}", str(figures["modules"])]


def _before(row: Row) -> list[str]:
    before = row.get("before")
    return [f"{before['cpu']:.2f}", f"{row['now']['cpu'] / before['cpu']:.2f}"] if before else ["–", "–"]


RENDERERS: dict[str, Renderer] = {
    "endpoints": endpoints,
    "day": day,
    "azure": azure,
    "organization": organization,
    "accounts": accounts,
    "peers": peers,
    "imports": imports,
}
