"""What the entry points load before they know what is asked of them: little, because `--help` and every cold start wait for it.

How long that takes is measured by benchmarks/imports.py; here stands only what must not be among it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("pydantic", "yaml", "jinja2", "boto3", "s3transfer", "moto", "requests", "apprise")
AZURE = ("azure.core", "azure.identity", "azure.mgmt", "azure.storage", "azure.data", "azure.communication", "azure.monitor")


def loaded(module: str) -> set[str]:
    """The names of everything that a fresh process has loaded once it has imported `module`."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "functions")]), "AWS_REGION": "us-east-1"}
    completed = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(completed.stdout))


@pytest.mark.parametrize(
    ("module", "not_yet"),
    [
        pytest.param("reaper.cli.main", (*HEAVY, *AZURE, "azure", "aws_lambda_powertools"), id="the command line"),
        pytest.param("reaper.aws.functions.sweep", (*HEAVY, "azure", "typer", "rich"), id="the Lambda function"),
        pytest.param("reaper.aws.functions.snooze", (*HEAVY, "azure", "typer", "rich"), id="the Lambda function for links"),
        pytest.param("function_app", (*HEAVY, *AZURE, "typer", "rich"), id="the function app"),
    ],
)
def test_an_entry_point_loads_nothing_heavy(module: str, not_yet: tuple[str, ...]):
    modules = loaded(module)
    assert module in modules
    assert sorted(modules & set(not_yet)) == []
