"""`reaper doctor` as a person runs it: a process of its own, its exit status, and a result on standard output alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

import forks
from doctor.test_check import SCHEMA
from e2e.test_audit_is_structural import ACTING
from reaper_sandbox.aws.fault import latency, on, without
from reaper_sandbox.aws.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(datetime.now(UTC)) as running:
        yield running


def doctor(server: Server | None, *arguments: str, **environ: str) -> Any:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    env = {**plain, **nowhere, "AZURE_CONFIG_DIR": "/dev/null", **(server.env if server else {}), **environ}
    return forks.reaper("doctor", *arguments, env=env)


def test_nothing_to_fix_is_status_0_and_the_json_is_exact(server: Server):
    completed = doctor(server, "--cloud", "aws", "--format", "json")
    assert completed.returncode == 0, completed.stdout
    content = json.loads(completed.stdout)
    validate(content, SCHEMA)
    assert {"credentials.aws", "reading.aws", "metrics.aws", "policy"} <= {check["check"] for check in content["checks"]}


def test_without_credentials_only_the_sign_in_is_asked_for():
    stores = {
        "REAPER_LEDGER": "dynamodb://ledger",
        "REAPER_MANIFESTS": "s3://bucket/manifests",
        "REAPER_REPORTS": "s3://bucket/r",
    }
    completed = doctor(None, "--cloud", "aws", "--mode", "enforce", "--format", "json", AWS_DEFAULT_REGION="us-east-1", **stores)
    assert completed.returncode == 1
    first, *others = json.loads(completed.stdout)["checks"]
    assert (first["check"], first["fix"].split(":")[0]) == ("credentials.aws", "Sign in")
    assert first["because"].endswith(
        "Until you sign in, these can't be checked: report, clock.aws, ledger, manifests, reports, pause"
    )
    assert [check["check"] for check in others if "credentials" in check["because"]] == []


def test_something_to_fix_is_status_1_and_names_the_command(server: Server):
    server.rules.append(without("sagemaker:ListNotebookInstances"))
    completed = doctor(server, "--cloud", "aws", COLUMNS="50")
    assert completed.returncode == 1
    lines = completed.stdout.splitlines()
    assert any(line.strip().startswith("Fix: aws iam put-user-policy") for line in lines)
    too_long = [line for line in lines if len(line) > 50 and "Fix: " not in line and "Missing: " not in line]
    assert [line for line in too_long if len(line.split()) > 1] == [], "only a word that is for pasting may be longer"
    assert lines[-1].endswith("1 unknown")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "stop"], "unknown mode"),
        (["--every", "often"], "--every 'often'"),
        (["--kind", "sagemaker-x"], "unknown kind"),
        (["--cloud", "azure", "--region", "us-east-1"], "--region is for aws"),
        (["--format", "yaml"], "yaml"),
    ],
)
def test_a_wrong_option_is_status_2_and_checks_nothing(server: Server, arguments: list[str], message: str):
    completed = doctor(server, *arguments)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert message in completed.stderr
    assert server.calls == []


def test_only_the_named_kinds_are_checked(server: Server):
    server.rules.append(without("sagemaker:ListEndpoints"))
    assert doctor(server, "--cloud", "aws", "--kind", "sagemaker-notebook").returncode == 0
    assert doctor(server, "--cloud", "aws", "--kind", "sagemaker-endpoint").returncode == 1


def test_without_any_credentials_the_rest_is_still_checked(tmp_path: Path):
    completed = doctor(None, "--policy", str(tmp_path / "none.yaml"), "--format", "json", HOME=str(tmp_path))
    assert completed.returncode == 1
    broken = {check["check"] for check in json.loads(completed.stdout)["checks"] if check["status"] == "fix"}
    assert broken == {"credentials", "policy"}


def test_the_process_ends_although_everything_hangs(server: Server):
    server.rules.append(on(".*", latency(60)))
    reaper = Path(sys.executable).with_name("reaper")
    began = time.monotonic()
    completed = subprocess.run(
        [reaper, "doctor", "--cloud", "aws", "--timeout", "1", "--format", "json"],
        env={**os.environ, **server.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert time.monotonic() - began < 30
    statuses = {check["check"]: check["status"] for check in json.loads(completed.stdout)["checks"]}
    assert (statuses["credentials.aws"], statuses["policy"]) == ("unknown", "ok")


def test_no_acting_code_is_loaded_in_mode_enforce_either(server: Server, tmp_path: Path):
    """Only `--undo` loads some, to know which permissions that takes."""
    ledger = f"sqlite://{tmp_path}/ledger.db"
    environ = {"REAPER_LEDGER": ledger, "REAPER_MANIFESTS": str(tmp_path), **server.env}
    code = (
        "import json, os, sys\n"
        "from datetime import UTC, datetime\n"
        "from reaper import registry, settings\n"
        "from reaper.doctor.check import DoctorContext\n"
        "from reaper.doctor.examine import examine\n"
        "chosen = settings.from_env(os.environ)\n"
        "examine(DoctorContext(settings=chosen, environ=dict(os.environ), clock=lambda: datetime.now(UTC), kinds=registry.kinds()))\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('reaper.')]))\n"
    )
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={**plain, **environ, "REAPER_MODE": "enforce"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    modules = json.loads(completed.stdout)
    assert [name for name in modules if ACTING.fullmatch(name)] == []
