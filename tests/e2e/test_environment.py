"""The command where its environment or its options are not as they should be: a plain sentence, the right status, and nothing done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import forks
from reaper.registry import kinds
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import Organization
from reaper_sandbox.aws.server import Server

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
REAPER = Path(sys.executable).with_name("reaper")
POLICY = """\
version: 1
owners: {{domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{}/mails"}}]
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(NOW) as running:
        account = Account(running)
        account.endpoint("quiet")
        account.alive("quiet", "AllTraffic", NOW - 15 * DAY, NOW + DAY)
        yield running


def environment(server: Server | None, **environ: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_", "PYTHON"))}
    nobody = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    return {**plain, **(server.env if server else nobody), **environ}


def reaper(server: Server | None, *arguments: str, stdout: Any = subprocess.PIPE, **environ: str) -> Any:
    env = environment(server, **environ)
    if stdout == subprocess.PIPE:
        return forks.reaper(*arguments, env=env)
    return subprocess.run(
        [REAPER, *arguments], env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )


def refused(completed: Any, message: str) -> None:
    assert completed.returncode == 2, completed.stdout
    assert message in " ".join(completed.stderr.split())
    assert "Traceback" not in completed.stderr


@pytest.mark.parametrize("output", ["nowhere/report.json", ".", ""])
def test_an_unwritable_output_fails_before_notices(server: Server, tmp_path: Path, output: str):
    environ = {"REAPER_LEDGER": f"sqlite://{tmp_path}/ledger.db", "REAPER_POLICY": POLICY.format(tmp_path)}
    where = f"{tmp_path}/{output}" if output else ""
    completed = reaper(server, "sweep", "--cloud", "aws", "--mode", "notify", "--output", where, **environ)
    refused(completed, "can't be written" if output else "--output '' names no file")
    assert (completed.stdout, list(tmp_path.iterdir())) == ("", [])


def test_checking_the_output_leaves_an_old_report_intact(server: Server, tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("as it was")
    for path in (old, new):
        refused(reaper(server, "sweep", "--cloud", "aws", "--output", str(path), "--policy", "nowhere.yaml"), "nowhere.yaml")
    assert (old.read_text(), new.exists()) == ("as it was", False)


def test_a_report_goes_to_stdout_if_its_file_fails(server: Server):
    completed = reaper(server, "sweep", "--cloud", "aws", "--format", "json", "--output", "/dev/full")
    refused(completed, "it went to standard output")
    assert [f["name"] for f in json.loads(completed.stdout)["findings"]] == ["quiet"]


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("kinds", ""), ("kinds", "1"), ("sweep --cloud aws --fail-on idle", ""), ("--help", "1")],
)
def test_a_full_stdout_is_a_plain_error(server: Server, command: str, unbuffered: str):
    with open("/dev/full", "w") as full:
        refused(reaper(server, *command.split(), stdout=full, PYTHONUNBUFFERED=unbuffered), "No space left on device")


@pytest.mark.parametrize(("command", "unbuffered"), [("kinds", "1"), ("policy schema", ""), ("--help", ""), ("--help", "1")])
def test_a_closed_pipe_never_exits_with_1(command: str, unbuffered: str):
    reading, writing = os.pipe()
    os.close(reading)
    completed = reaper(None, *command.split(), stdout=writing, PYTHONUNBUFFERED=unbuffered)
    os.close(writing)
    assert (completed.returncode, "Traceback" in completed.stderr, "Exception ignored" in completed.stderr) == (2, False, False)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param({"REQUESTS_CA_BUNDLE": "/nope"}, "REQUESTS_CA_BUNDLE='/nope'", id="no certificates"),
        pytest.param({"AZURE_TOKEN_CREDENTIALS": "bogus"}, "AZURE_TOKEN_CREDENTIALS: bogus", id="no such credential"),
    ],
)
def test_an_azure_session_error_is_a_coverage_row(environ: dict[str, str], message: str):
    completed = reaper(None, "sweep", "--cloud", "azure", "--format", "json", **environ)
    assert (completed.returncode, completed.stderr.count("\n")) == (3, 1)
    assert completed.stderr.startswith("coverage incomplete: 0 of 3 complete; first: failed: ")
    rows = json.loads(completed.stdout)["coverage"]
    assert {row["kind"] for row in rows} == {kind.name for kind in kinds("azure")}
    assert {(row["cloud"], row["status"], message in row["error"]) for row in rows} == {("azure", "failed", True)}


@pytest.mark.parametrize(
    "environ",
    [{"AZURE_TOKEN_CREDENTIALS": "bogus"}, {"REAPER_ARM_ENDPOINT": "http://plain"}],
    ids=lambda environ: next(iter(environ)),
)
def test_an_invalid_azure_setting_does_not_block_aws(server: Server, environ: dict[str, str]):
    completed = reaper(
        server, "sweep", "--format", "json", REAPER_SUBSCRIPTIONS="11111111-1111-1111-1111-111111111111", **environ
    )
    report = json.loads(completed.stdout)
    assert (completed.returncode, [f["name"] for f in report["findings"]]) == (3, ["quiet"])
    failed = [row for row in report["coverage"] if row["status"] != "ok"]
    assert {(row["cloud"], row["status"], row["kind"]) for row in failed} == {("azure", "failed", k.name) for k in kinds("azure")}


@pytest.mark.parametrize("mode", ["notify", "enforce"])
def test_a_memory_ledger_is_refused_above_audit(server: Server, tmp_path: Path, mode: str):
    environ = {"REAPER_LEDGER": "memory:", "REAPER_POLICY": POLICY.format(tmp_path)}
    refused(reaper(server, "sweep", "--cloud", "aws", "--mode", mode, **environ), "would notify the owners again on every run")
    assert list(tmp_path.iterdir()) == []
    assert reaper(server, "sweep", "--cloud", "aws", **environ).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "--cloud", "aws", "--kind", "azure*"], "no kind in cloud aws fits 'azure*'"),
        (["sweep", "--cloud", "azure", "--kind", "sagemaker-endpoint"], "no kind in cloud azure fits 'sagemaker-endpoint'"),
        (["sweep", "--cloud", "azure", "--region", "us-east-1"], "--region is for aws, but --cloud azure excludes it"),
        (["sweep", "--cloud", "aws", "--subscription", "1"], "--subscription is for azure, but --cloud aws excludes it"),
        (["plan", "-o", "-", "--cloud", "azure", "--account", "1"], "--account is for aws, but --cloud azure excludes it"),
        (["explain", "x", "--cloud", "azure", "--region", "us-east-1"], "--region is for aws"),
        (["sweep", "--cloud", "aws", "--region", "US-EAST-1"], "did you mean us-east-1?"),
        (["sweep", "--cloud", "aws", "--policy", ""], "the policy is empty"),
        (["explain", "x", "--policy", " "], "the policy is empty"),
        (["plan", "-o", "nowhere/plan.json"], "'nowhere/plan.json': can't be written"),
        (["plan", "-o", "-", "--expires", "8d"], "--expires '8d': expected at most 7d"),
        (["release", "--for", "8d"], "--for '8d': expected at most 7d"),
        (["release", "--account", "dev"], "--account 'dev': expected 12 digits, or the ID of an Azure subscription"),
        (["release", "--account", "111111111111", "--all"], "--account and --all don't go together"),
        (["release", "--account", ","], "--account '' is empty"),
        (["release", "--for", "soon"], "--for 'soon': expected a duration such as"),
    ],
)
def test_contradictory_options_are_errors(server: Server, arguments: list[str], message: str):
    completed = reaper(server, *arguments)
    refused(completed, message)
    assert completed.stdout == ""


def test_a_missing_s3_policy_is_named_by_its_address(server: Server):
    completed = reaper(server, "sweep", "--cloud", "aws", "--policy", "s3://nowhere/policy.yaml")
    refused(completed, "policy s3://nowhere/policy.yaml: can't be read")
    assert "REAPER_POLICY" not in completed.stderr


def test_an_invalid_address_error_shows_a_valid_one():
    completed = reaper(None, "sweep", "--cloud", "azure", REAPER_METRICS_ENDPOINT="http://plain")
    refused(completed, "such as https://{region}.metrics.monitor.azure.com; tokens are only sent over https")


def test_explain_takes_account_and_region_from_the_arn(server: Server):
    arn = Account(server).arn("endpoint/quiet")
    completed = reaper(
        server, "explain", arn, REAPER_REGIONS="eu-west-1,us-east-1", REAPER_SUBSCRIPTIONS="11111111-1111-1111-1111-111111111111"
    )
    assert (completed.returncode, "verdict   idle" in completed.stdout) == (0, True), completed.stderr
    assert ("eu-west-1" in completed.stderr, "azure" in completed.stderr) == (False, False)


def test_an_option_wins_over_the_arn(server: Server):
    completed = reaper(server, "explain", Account(server).arn("endpoint/quiet"), "--region", "eu-west-1")
    refused(completed, "was not found")
    assert "us-east-1: " not in completed.stderr


def test_an_arn_of_another_account_names_the_role_to_create_there(server: Server):
    server.world.organization = Organization()
    completed = reaper(server, "explain", "arn:aws:sagemaker:us-east-1:999999999999:endpoint/x")
    assert completed.returncode == 3, completed.stderr
    shown = " ".join(completed.stdout.split())
    assert "not found, but the coverage is incomplete" in shown
    assert "sts:AssumeRole" in shown
    assert "create the role" in shown
