"""The benchmarks still run, and the fleets they measure are judged right. Nothing here looks at how long anything takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "endpoints.py"


@pytest.mark.parametrize("policy", ["default", "six"])
@pytest.mark.parametrize("fleet", ["mixed", "hard"])
def test_benchmark_fleets_are_judged_correctly(fleet: str, policy: str):
    options = [
        "--endpoints",
        "60",
        "--idle",
        "50",
        "--latency",
        "0",
        "--no-ledger",
        "--no-write",
        "--fleet",
        fleet,
        "--policy",
        policy,
    ]
    completed = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False, timeout=280)
    assert (completed.returncode, "0 wrong verdicts" in completed.stderr) == (0, True), completed.stderr
