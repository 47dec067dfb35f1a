"""The Terraform module: formatted, valid, and its plan hands CloudFormation the released template with the released code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from deploy import release, sam
from reaper_sandbox.aws.server import Server

MODULE = sam.ROOT / "infra/terraform"
BUNDLE = "ml-idle-reaper-lambda-1.2.3.zip"
PROVIDER = """
provider "aws" {
  s3_use_path_style           = true
  skip_requesting_account_id  = true
}
"""


def terraform(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run it in a copy of the module."""
    command = ["terraform", f"-chdir={folder}", *arguments]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module with its provider. Skips loudly where Terraform or the provider can't be had."""
    if not shutil.which("terraform"):
        warnings.warn("NOT TESTED: the Terraform module, because terraform isn't installed", stacklevel=1)
        pytest.skip("terraform isn't installed")
    folder = tmp_path_factory.mktemp("terraform")
    shutil.copy(MODULE / "main.tf", folder)
    (folder / "provider.tf").write_text(PROVIDER)
    made = terraform(folder, "init", "-backend=false", "-input=false")
    if made.returncode:
        warnings.warn(f"NOT TESTED: the Terraform module, because its provider isn't here: {made.stderr}", stacklevel=1)
        pytest.skip("the provider can't be installed")
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(datetime.now(UTC)) as running:
        keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        boto3.client("s3", endpoint_url=running.url, **keys).create_bucket(Bucket="code")
        yield running


def test_the_module_is_formatted_and_valid(module: Path):
    assert terraform(module, "fmt", "-check", str(MODULE)).stdout == ""
    checked = terraform(module, "validate", "-json")
    assert json.loads(checked.stdout)["diagnostics"] == []


def test_the_stack_gets_the_released_template_and_code(module: Path, server: Server, tmp_path: Path):
    (tmp_path / BUNDLE).write_bytes(b"code")
    (tmp_path / "template.yaml").write_text(release.packed_template(BUNDLE))
    options = [f"-var=release={tmp_path}", "-var=bucket=code", '-var=parameters={"Mode":"notify"}']
    environ = server.env | {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    planned = terraform(module, "plan", "-input=false", f"-out={tmp_path}/plan", *options, **environ)
    assert planned.returncode == 0, planned.stderr
    shown = json.loads(terraform(module, "show", "-json", f"{tmp_path}/plan").stdout)
    resources: dict[str, Any] = {r["address"]: r["values"] for r in shown["planned_values"]["root_module"]["resources"]}
    key = f"ml-idle-reaper/{hashlib.sha256(b'code').hexdigest()}.zip"
    template = resources["aws_s3_object.template"]["content"]
    assert resources["aws_s3_object.bundle"]["key"] == key
    assert template == (sam.ROOT / "template.yaml").read_text().replace("CodeUri: functions/", f"CodeUri: s3://code/{key}")
    stack = resources["aws_cloudformation_stack.reaper"]
    assert stack["template_url"].endswith(f"/ml-idle-reaper/{hashlib.sha256(template.encode()).hexdigest()}.yaml")
    assert (stack["parameters"], sorted(stack["capabilities"])) == (
        {"Mode": "notify"},
        ["CAPABILITY_AUTO_EXPAND", "CAPABILITY_IAM"],
    )
