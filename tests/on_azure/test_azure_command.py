"""`reaper sweep --cloud azure` as a person runs it: a process of its own, found through the environment alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server

REAPER = Path(sys.executable).with_name("reaper")
CONTRACT = {
    "run": {"id", "started_at", "finished_at", "mode", "version", "policy_sha256"},
    "coverage": {"cloud", "account", "region", "kind", "status", "resources", "calls", "missing", "error"},
    "findings": {
        "id",
        "kind",
        "name",
        "cloud",
        "account",
        "region",
        "size",
        "state",
        "confidence",
        "because",
        "idle_for_s",
        "last_busy",
    }
    | {"rule", "tags", "owner", "usd_per_hour", "price", "wasted_usd", "step", "step_because", "outcome", "error", "evidence"},
    "totals": {"resources", "by_state", "idle_usd_per_hour", "idle_usd_per_month", "unpriced_idle", "calls"},
}


@pytest.fixture
def running() -> Iterator[Server]:
    with Server() as server:
        fleet.settle(server, datetime.now(UTC))
        yield server


def reaper(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    command = [REAPER, "sweep", "--cloud", "azure", "--format", "json", *arguments]
    return subprocess.run(command, env={**plain, **server.env}, capture_output=True, text=True, timeout=120, check=False)


def test_the_json_report_keeps_its_contract_without_a_wrong_verdict(running: Server):
    completed = reaper(running)
    assert completed.returncode == 0, completed.stderr
    report = json.loads(completed.stdout)
    assert report["schema"] == 1
    assert CONTRACT["run"] <= report["run"].keys()
    assert CONTRACT["totals"] <= report["totals"].keys()
    assert all(CONTRACT["coverage"] <= row.keys() for row in report["coverage"])
    assert all(CONTRACT["findings"] <= row.keys() for row in report["findings"])
    states = {f["id"].rpartition("/")[2]: (f["state"], f["confidence"]) for f in report["findings"]}
    assert states == {name: (e.state, e.confidence) for name, e in fleet.EXPECTED.items()}
    assert {f["account"] for f in report["findings"]} == {fleet.FIRST, fleet.SECOND}
    assert running.mutations == []


def test_incomplete_coverage_exits_with_3_and_names_action_and_scope(running: Server):
    action = "Microsoft.MachineLearningServices/workspaces/computes/read"
    running.rules.append(deny(action, ".*/workspaces/forecasting"))
    completed = reaper(running, "--kind", "azureml-compute-cluster")
    [gap] = [row for row in json.loads(completed.stdout)["coverage"] if row["status"] != "ok"]
    assert (completed.returncode, gap["status"], gap["missing"], gap["account"]) == (3, "denied", action, fleet.SECOND)
    assert "/workspaces/forecasting" in gap["error"]


def test_only_the_subscription_that_was_asked_for_is_swept(running: Server):
    completed = reaper(running, "--subscription", fleet.SECOND.upper())
    report = json.loads(completed.stdout)
    assert completed.returncode == 0
    assert {row["account"] for row in report["coverage"] + report["findings"]} == {fleet.SECOND}


def test_a_subscription_that_cannot_be_read_exits_with_3(running: Server):
    running.world.unreadable.add(fleet.SECOND)
    completed = reaper(running, "--subscription", f"{fleet.FIRST},{fleet.SECOND}")
    statuses = {(row["account"], row["status"]) for row in json.loads(completed.stdout)["coverage"]}
    assert (completed.returncode, statuses) == (3, {(fleet.FIRST, "ok"), (fleet.SECOND, "denied")})


def test_without_a_way_to_sign_in_one_plain_sentence_says_so():
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    only = {"AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"}
    completed = subprocess.run(
        [REAPER, "sweep", "--cloud", "azure", "--format", "json"],
        env={**plain, **only},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    gaps = json.loads(completed.stdout)["coverage"]
    assert (completed.returncode, len(gaps), {gap["status"] for gap in gaps}, completed.stderr.count("\n")) == (
        3,
        3,
        {"failed"},
        1,
    )
    assert completed.stderr.startswith("coverage incomplete: 0 of 3 complete; first: failed: ")
    assert all("no token" in gap["error"] for gap in gaps)


def test_standard_error_stays_free_of_the_sdks_own_words(running: Server):
    running.rules.append(deny("Microsoft.Insights/metrics/read"))
    lines = reaper(running).stderr.strip().splitlines()
    assert all(": azureml-" in line for line in lines), lines
