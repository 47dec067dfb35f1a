"""Below mode enforce the code that acts is not even loaded: entry points and whole sweeps in processes of their own, which tell what they
imported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server as Azure

ROOT = Path(__file__).parents[2]
NOW = datetime.now(UTC)
ACTING = re.compile(r"reaper\.act|reaper\.(.+\.)?(acting|executor)(\..+)?")
POLICY = """
version: 1
defaults: {{action: delete, idle_after: 24h, act_on: likely, grace: 1m}}
limits: {{max_share: 100%}}
owners: {{fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""
SWEEP = """
import os
from datetime import UTC, datetime
from reaper import settings
from reaper.policy.file import load_policy
from reaper.report.json import report_json
from reaper.run import run

chosen = settings.from_env(os.environ)
report = report_json(run(chosen, load_policy(chosen.policy), lambda: datetime.now(UTC)))
"""
COMMAND = """
import contextlib, io, json
from reaper.cli.main import app

printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    app(["sweep", "--format", "json"], standalone_mode=False)
report = json.loads(printed.getvalue())
"""
LAMBDA = """
from types import SimpleNamespace
from reaper.aws.functions import sweep

names = dict.fromkeys(("function_name", "memory_limit_in_mb", "invoked_function_arn", "aws_request_id"), "1")
report = sweep.handler({}, SimpleNamespace(**names, get_remaining_time_in_millis=lambda: 900_000))
"""
WORKFLOW = """
from reaper.azure.functions import triggers
from reaper.azure.functions.orchestration import CARRIED
from reaper.report.json import report_json

call = {"run": "r1", "options": {}, "scheduled": False, "failures": {}}
did = lambda activity, **given: getattr(triggers, activity)._function.get_user_function()({**call, **given})
listed = did("list_targets")
call |= {name: listed[name] for name in CARRIED}
for item in range(listed["items"]):
    assert "failed" not in did("observe_item", item=item)
for item in range(did("decide_run")["actions"]):
    did("act_on_item", item=item)
reports, publish = [], triggers.run_report.publish
triggers.run_report.publish = lambda report, *rest, **options: reports.append(report) or publish(report, *rest, **options)
did("conclude_run")
report = report_json(reports[0])
"""
TELL = """
import sys
print("\\n" + json.dumps({"idle": idle, "modules": sorted(m for m in sys.modules if m.startswith("reaper."))}))
"""
IDLE = """
import json
idle = [finding["kind"] for finding in report["findings"] if finding["state"] == "idle"]
"""
ENTRY_POINTS = [
    "reaper.cli.main",
    "function_app",
    *sorted(
        f"reaper.{cloud}.functions.{path.stem}"
        for cloud in ("aws", "azure")
        for path in (ROOT / f"functions/reaper/{cloud}/functions").glob("[!_]*.py")
    ),
    "reaper.snooze.handler",
]


def swept(code: str, mode: str, environ: dict[str, str], home: Path, ledger: bool) -> dict[str, Any]:
    """What one sweep in a process of its own saw idle, and what of ours it loaded."""
    ours = {
        "REAPER_MODE": mode,
        "REAPER_POLICY": POLICY.format(folder=home / "mails"),
        "REAPER_MANIFESTS": str(home / "manifests"),
        "REAPER_RUNS": str(home / "runs"),
    }
    if ledger:
        ours["REAPER_LEDGER"] = f"sqlite://{home}/ledger.db"
    return told(code + IDLE, environ | ours)


def told(code: str, environ: dict[str, str]) -> dict[str, Any]:
    """What a process of its own tells at its end."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "functions")])
    completed = subprocess.run(
        [sys.executable, "-c", code + TELL],
        env={**plain, **environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return result


def acting(modules: list[str]) -> list[str]:
    return [module for module in modules if ACTING.fullmatch(module)]


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_no_entry_point_loads_the_acting_code(module: str):
    environ = {"AWS_DEFAULT_REGION": "us-east-1"}
    assert acting(told(f"import json, {module}; idle = []", environ)["modules"]) == []


def test_there_are_entry_points_of_both_clouds():
    assert {"reaper.aws.functions.sweep", "reaper.aws.functions.workflow", "reaper.azure.functions.triggers"} <= {*ENTRY_POINTS}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(COMMAND, "sagemaker-endpoint", id="reaper sweep"),
        pytest.param(LAMBDA, "sagemaker-endpoint", id="Lambda"),
        pytest.param(WORKFLOW, "azureml-compute-cluster", id="Durable Functions"),
    ],
)
def test_an_audit_by_any_entry_point_never_loads_the_acting_code(code: str, kind: str, tmp_path: Path):
    with Aws(NOW) as aws, Azure(NOW) as azure:
        _fill(aws, azure)
        result = swept(code, "audit", aws.env | azure.env, tmp_path, ledger=False)
    assert kind in result["idle"], "there was something to act on"
    assert acting(result["modules"]) == []


@pytest.mark.parametrize(
    ("mode", "ledger"),
    [
        pytest.param("audit", False, id="audit"),
        pytest.param("audit", True, id="audit that knows of notices"),
        pytest.param("notify", True, id="notify"),
        pytest.param("announce", True, id="announce"),
    ],
)
def test_below_enforce_the_acting_code_is_never_loaded(mode: str, ledger: bool, tmp_path: Path):
    with Aws(NOW) as aws, Azure(NOW) as azure:
        _fill(aws, azure)
        result = swept(SWEEP, mode, aws.env | azure.env, tmp_path, ledger)
    assert {"sagemaker-endpoint", "azureml-compute-cluster"} <= set(result["idle"]), "there was something to act on"
    assert acting(result["modules"]) == []


def test_an_enforcing_sweep_loads_the_acting_code(tmp_path: Path):
    with Aws(NOW) as aws, Azure(NOW) as azure:
        _fill(aws, azure)
        assert "reaper.acting.executor" in swept(SWEEP, "enforce", aws.env | azure.env, tmp_path, ledger=True)["modules"]


def _fill(aws: Aws, azure: Azure) -> None:
    account = Account(aws)
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", NOW - timedelta(days=15), NOW + timedelta(days=1))
    account.notebook("nb")
    cluster = azure.subscription("11111111-1111-1111-1111-111111111111").workspace("vision").cluster("nodes", nodes=(2, 4))
    signals.nodes(cluster, active=0, idle=2, since=NOW - timedelta(days=20))
