"""Below mode enforce the code that acts is not even loaded: whole sweeps in processes of their own, which tell what they imported."""

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

NOW = datetime.now(UTC)
ACTING = re.compile(r"reaper\.act|reaper\.(.+\.)?acting(\..+)?")
POLICY = """
version: 1
defaults: {{action: delete, idle_after: 24h, act_on: likely, grace: 1m}}
limits: {{max_share: 100%}}
owners: {{fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""
SWEEP = """
import json, os, sys
from datetime import UTC, datetime
from reaper import settings
from reaper.policy.file import load_policy
from reaper.run import run

chosen = settings.from_env(os.environ)
report = run(chosen, load_policy(chosen.policy), lambda: datetime.now(UTC))
idle = [f.case.resource.kind for f in report.findings if f.case.verdict.state == "idle"]
print(json.dumps({"idle": idle, "modules": sorted(m for m in sys.modules if m.startswith("reaper."))}))
"""


def swept(mode: str, environ: dict[str, str], home: Path, ledger: bool) -> dict[str, Any]:
    """What one sweep in a process of its own saw idle, and what of ours it loaded."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    ours = {
        "REAPER_MODE": mode,
        "REAPER_POLICY": POLICY.format(folder=home / "mails"),
        "REAPER_MANIFESTS": str(home / "manifests"),
    }
    if ledger:
        ours["REAPER_LEDGER"] = f"sqlite://{home}/ledger.db"
    completed = subprocess.run(
        [sys.executable, "-c", SWEEP], env={**plain, **environ, **ours}, capture_output=True, text=True, check=False, timeout=200
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result: dict[str, Any] = json.loads(completed.stdout)
    return result


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
        result = swept(mode, aws.env | azure.env, tmp_path, ledger)
    assert {"sagemaker-endpoint", "azureml-compute-cluster"} <= set(result["idle"]), "there was something to act on"
    assert [m for m in result["modules"] if ACTING.fullmatch(m)] == []


def test_an_enforcing_sweep_loads_the_acting_code(tmp_path: Path):
    with Aws(NOW) as aws, Azure(NOW) as azure:
        _fill(aws, azure)
        assert "reaper.acting.executor" in swept("enforce", aws.env | azure.env, tmp_path, ledger=True)["modules"]


def _fill(aws: Aws, azure: Azure) -> None:
    account = Account(aws)
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", NOW - timedelta(days=15), NOW + timedelta(days=1))
    account.notebook("nb")
    cluster = azure.subscription("11111111-1111-1111-1111-111111111111").workspace("vision").cluster("nodes", nodes=(2, 4))
    signals.nodes(cluster, active=0, idle=2, since=NOW - timedelta(days=20))
