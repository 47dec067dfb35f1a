"""The scripts that install Busy: built as docs/busy.md says, and run with every place they write to moved."""

from __future__ import annotations

import ast
import base64
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.machine import SCRIPT
from reaper.aws import sagemaker

FOLDER = SCRIPT.parent
PAGE = (SCRIPT.parents[2] / "docs" / "busy.md").read_text()
WORKSPACE = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/rg/providers/Microsoft.MachineLearningServices/workspaces/w"


def test_the_script_is_python_3_8():
    ast.parse(SCRIPT.read_text(), feature_version=(3, 8))


SHELLS = sorted(FOLDER.glob("*.sh"))


def built(shell: Path) -> str:
    return shell.read_text() + SCRIPT.read_text()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda path: path.name)
def test_a_built_script_is_valid(shell: Path):
    completed = subprocess.run(
        ["bash", "-n"], input=built(shell), env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.parametrize("name", ["sagemaker-lifecycle.sh", "studio-lifecycle.sh"])
def test_a_lifecycle_configuration_is_no_longer_than_sagemaker_takes(name: str):
    assert len(base64.b64encode(built(FOLDER / name).encode())) <= 16384


def moved(text: str, home: Path) -> str:
    """The text with every place it writes to or reads from under `home`, also this Python, and nothing in the background."""
    text = re.sub(r"/(opt|var/tmp)/ml-idle-reaper", f"{home}/reaper", text).replace("/etc/cron.d", f"{home}/cron.d")
    text = re.sub(r"(/usr/bin/python3|/opt/conda/bin/python)(?=[ ;])", f"{home}/python", text)
    return text.replace("/opt/ml/metadata", str(home)).replace("setsid nohup", ":")


def installed(shell: Path, home: Path, *arguments: str, **env: str) -> str:
    """What the built script says."""
    (home / "cron.d").mkdir()
    (home / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (home / "python").chmod(0o755)
    (home / "script").write_text(moved(built(shell), home))
    command = ["bash", str(home / "script"), *arguments]
    env = {"PATH": "/usr/bin:/bin", **env}
    completed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stderr) == (
        0,
        "",
    )  # a lifecycle script that fails would keep the notebook from starting
    return completed.stdout


CI = {"CI_RESOURCE_GROUP": "rg", "CI_WORKSPACE": "w", "CI_NAME": "ci-1"}


@pytest.mark.parametrize(
    ("name", "arguments", "env"),
    [
        ("sagemaker-lifecycle.sh", [], {}),
        ("studio-lifecycle.sh", [], {}),
        ("azureml-setup.sh", ["11111111-1111-1111-1111-111111111111", "westeurope"], CI),
    ],
)
def test_a_built_script_installs_busy(tmp_path: Path, name: str, arguments: list[str], env: dict[str, str]):
    (tmp_path / "resource-metadata.json").write_text('{"AppType": "JupyterLab"}')
    assert "Busy is published from now on" in installed(FOLDER / name, tmp_path, *arguments, **env)
    whole = moved(SCRIPT.read_text(), tmp_path)
    assert (tmp_path / "reaper" / "busy.py").read_text() == whole.removesuffix("# end of busy.py\n")


def test_cron_runs_it_every_five_minutes_and_writes_no_jupyter_log(tmp_path: Path):
    installed(FOLDER / "azureml-setup.sh", tmp_path, "11111111-1111-1111-1111-111111111111", "westeurope", **CI)
    line = (tmp_path / "cron.d" / "ml-idle-reaper").read_text()
    assert line.startswith(
        f"*/5 * * * * root flock -n {tmp_path}/reaper timeout 120 {tmp_path}/python {tmp_path}/reaper/busy.py "
    )
    assert f"--workspace '{WORKSPACE}' --region 'westeurope' --compute 'ci-1' >" in line
    assert "jupyter.log" not in line


@pytest.mark.parametrize(
    ("name", "why"),
    [("studio-lifecycle.sh", "not a JupyterLab app"), ("azureml-setup.sh", "expected a subscription id and a region")],
)
def test_where_it_cannot_install_it_says_so_and_fails_nothing(tmp_path: Path, name: str, why: str):
    (tmp_path / "resource-metadata.json").write_text('{"AppType": "CodeEditor"}')
    output = installed(FOLDER / name, tmp_path)
    assert why in output
    assert "Busy will not be published" in output


def test_the_page_builds_every_script_as_these_tests_do():
    for shell in SHELLS:
        assert f"$ cat infra/busy/{shell.name} infra/busy/busy.py > " in PAGE


def test_the_permission_on_the_page_is_what_the_script_uses_and_no_more():
    policy = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    condition = {"StringEquals": {"cloudwatch:namespace": sagemaker.NAMESPACE}}
    allowed = {"Effect": "Allow", "Action": "cloudwatch:PutMetricData", "Resource": "*", "Condition": condition}
    assert policy["Statement"] == [allowed]
