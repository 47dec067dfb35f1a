"""The GitHub Action: its own steps, run against the simulated clouds as a runner does."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, SWEEP = ACTION["runs"]["steps"]
GUIDE = (ROOT / "docs/github-action.md").read_text()
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a step left."""

    status: int
    summary: str
    outputs: dict[str, str]
    log: str


@pytest.fixture
def server() -> Iterator[Server]:
    now = datetime.now(UTC)
    with Server(now) as running:
        account = Account(running)
        account.endpoint("quiet")
        account.alive("quiet", "AllTraffic", now - 15 * DAY, now + DAY)
        yield running


def run_sweep(server: Server, folder: Path, command: str = SWEEP["run"], **inputs: str) -> Ran:
    """Run the step of the sweep with these inputs, the rest by default."""
    values = {name: inputs.get(name.replace("-", "_"), spec["default"]) for name, spec in ACTION["inputs"].items()}
    env = {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text) for name, text in SWEEP["env"].items()}
    files = {name: str(folder / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for path in files.values():
        Path(path).touch()
    runner = {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(folder), "REAPER_MODE": "enforce", **files}
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "AZURE_", "REAPER_"))}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        env=plain | server.env | runner | env,
        capture_output=True,
        text=True,
        check=False,
    )
    outputs = dict(line.split("=", 1) for line in Path(files["GITHUB_OUTPUT"]).read_text().splitlines())
    return Ran(done.returncode, Path(files["GITHUB_STEP_SUMMARY"]).read_text(), outputs, done.stderr)


def test_the_report_is_the_summary_and_its_sums_are_outputs(server: Server, tmp_path: Path):
    ran = run_sweep(server, tmp_path, cloud="aws", regions="us-east-1")
    assert ran.status == 0, ran.log
    assert ran.summary.startswith("# Idle machine-learning resources")
    report = json.loads(Path(ran.outputs["report"]).read_text())
    assert report["run"]["mode"] == "audit", "whatever REAPER_MODE says"
    assert float(ran.outputs["idle-usd-per-hour"]) == report["totals"]["idle_usd_per_hour"] > 0
    assert ran.outputs["idle"] == "1"
    assert set(ran.outputs) == set(ACTION["outputs"])


@pytest.mark.parametrize("limit", [{"fail_on": "idle"}, {"fail_on_cost": "0.01"}], ids=["idle", "cost"])
def test_an_idle_resource_fails_the_step_only_if_asked(server: Server, tmp_path: Path, limit: dict[str, str]):
    ran = run_sweep(server, tmp_path, cloud="aws", regions="us-east-1", **limit)
    assert (ran.status, ran.outputs["idle"]) == (1, "1")
    assert "quiet" in ran.summary


def test_what_could_not_be_read_fails_the_step(server: Server, tmp_path: Path):
    server.rules.append(on("ListEndpoints", denied()))
    ran = run_sweep(server, tmp_path, cloud="aws", regions="us-east-1")
    assert ran.status == 3
    assert "sagemaker:ListEndpoints" in ran.summary


def test_a_wrong_input_fails_the_step_before_any_call(server: Server, tmp_path: Path):
    ran = run_sweep(server, tmp_path, cloud="aws", regions="us-east-1; rm -rf /", policy="version: 1\nrulez: []")
    assert (ran.status, ran.summary, ran.outputs, server.calls) == (2, "", {}, [])


def test_a_long_report_is_cut_to_what_github_takes(server: Server, tmp_path: Path):
    """With lower limits, after which the same script cuts."""
    (tmp_path / ".github/action").mkdir(parents=True)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    short = tmp_path / ".github/action/sweep.sh"
    short.write_text((ROOT / ".github/action/sweep.sh").read_text().replace(" 1000000 ", " 400 ").replace(" 900000 ", " 300 "))
    short.chmod(0o755)
    whole = run_sweep(server, tmp_path, cloud="aws", regions="us-east-1").summary
    assert len(whole) > 400
    (tmp_path / "GITHUB_STEP_SUMMARY").unlink()
    cut = run_sweep(server, tmp_path, f'"{short}"', cloud="aws", regions="us-east-1")
    shown, _, note = cut.summary.partition("\n\n\nThe rest is too long")
    assert (cut.status, note) == (0, " for a summary. The JSON report has all of it.\n")
    assert whole.startswith(shown), "whole lines"
    assert len(shown) <= 300


def test_the_first_step_installs_what_is_pinned():
    target = INSTALL["run"].split()[-1].removeprefix(".venv")
    makefile = (ROOT / "Makefile").read_text()
    assert INSTALL["run"] == f'make -C "$GITHUB_ACTION_PATH" .venv{target}'
    assert re.search(
        rf"^\$\(VENV\){re.escape(target)}: .*constraints\.txt\n\t\$\(INSTALL\) '\.\[aws,azure\]'$", makefile, re.MULTILINE
    )


def test_no_input_is_a_part_of_a_script():
    assert not [step for step in ACTION["runs"]["steps"] if "${{" in step["run"]]


def test_the_guide_lists_every_input_and_output():
    assert set(re.findall(r"^\| `([\w-]+)` \|", GUIDE, re.MULTILINE)) == {*ACTION["inputs"], *ACTION["outputs"]}
    [block] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    used = next(
        step["with"] for step in yaml.safe_load(block)["jobs"]["idle"]["steps"] if "ml-idle-reaper" in step.get("uses", "")
    )
    assert set(used) <= set(ACTION["inputs"])
