"""Credentials that are configured and can't be loaded: told in the helper's words by each command, and never taken for absent ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.test_environment import reaper
from reaper.errors import CloudError
from reaper.model import Mode
from reaper.notices.channels import delivery
from reaper.pending import plan_file
from reaper.policy.file import load_policy
from reaper.registry import kinds
from reaper.settings import Settings

ENDPOINT = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/x"
HELPERS = {
    "it fails": ("echo 'vault: log in' >&2; exit 1", "vault: log in"),
    "a long story": (f"echo {'why ' * 500} >&2; exit 1", "why why"),
    "no JSON": ("echo Please log in", "Expecting value"),
    "half of it": ("""echo '{"Version": 1}'""", "AccessKeyId"),
    "a list": ("echo []", "'list'"),
    "no date": ("""echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "soon"}'""", "soon"),
}
SESSION = "[sso-session s]\nsso_region = us-east-1\nsso_start_url = https://example.awsapps.com/start"
PROFILES = {
    "no such program": ("credential_process = /nope/helper", "/nope/helper"),
    "an open quote": ("credential_process = /nope/hel'per", "No closing quotation"),
    "no such profile below": ("role_arn = arn:aws:iam::123456789012:role/x\nsource_profile = gone", '"gone"'),
    "no session of SSO": (f"sso_session = s\nsso_account_id = 123456789012\nsso_role_name = r\n{SESSION}", "SSO Token"),
    "no number of attempts": (
        "aws_access_key_id = a\naws_secret_access_key = b\nmax_attempts = few",
        "invalid literal for int() with base 10:",
    ),
    "half a file": ("[half", "Unable to parse config file"),
    "no token file": ("role_arn = arn:aws:iam::123456789012:role/x\nweb_identity_token_file = /nope/token", "/nope/token"),
}
Broken = Callable[..., Any]


@pytest.fixture(params=[*HELPERS, *PROFILES])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Broken:
    """Runs a command with a profile whose credentials can't be loaded. Its `words` are what must be told."""
    lines, words = PROFILES.get(request.param, (f"credential_process = {tmp_path}/helper", ""))
    if request.param in HELPERS:
        script, words = HELPERS[request.param]
        (tmp_path / "helper").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "helper").chmod(0o755)
    return broken_with(tmp_path, lines, words)


def broken_with(folder: Path, lines: str, words: str) -> Broken:
    (folder / "config").write_text(f"[profile x]\nregion = us-east-1\n{lines}\n")
    environ = {"AWS_CONFIG_FILE": str(folder / "config"), "AWS_PROFILE": "x", "HOME": str(folder), "XDG_STATE_HOME": str(folder)}

    def run(*arguments: str, **more: str) -> Any:
        done = reaper(None, *arguments, **{**environ, **more})
        assert "Traceback" not in done.stderr, done.stderr
        assert words in done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def failing(tmp_path: Path) -> Broken:
    return broken_with(tmp_path, "credential_process = /nope/helper", "/nope/helper")


@pytest.mark.parametrize("cloud", ["aws", "all"])
def test_a_sweep_has_a_failed_row_a_kind(broken: Broken, cloud: str):
    done = broken("sweep", "--cloud", cloud, "--format", "json")
    rows = json.loads(done.stdout)["coverage"]
    assert done.returncode == 3, done.stderr
    assert {(row["cloud"], row["kind"], row["status"]) for row in rows} == {("aws", k.name, "failed") for k in kinds("aws")}
    assert all(len(row["error"]) < 300 for row in rows)


def test_the_other_cloud_is_swept_all_the_same(failing: Broken):
    done = failing("sweep", "--format", "json", AZURE_TOKEN_CREDENTIALS="bogus", AZURE_CLIENT_SECRET="x")
    rows = json.loads(done.stdout)["coverage"]
    assert (done.returncode, {row["cloud"] for row in rows}) == (3, {"aws", "azure"})


def test_a_profile_that_does_not_exist_is_no_cloud_to_leave_out(tmp_path: Path):
    missing = broken_with(tmp_path, "", "gone")
    done = missing("sweep", "--format", "json", AWS_PROFILE="gone", AZURE_TOKEN_CREDENTIALS="bogus", AZURE_CLIENT_SECRET="x")
    assert (done.returncode, {row["cloud"] for row in json.loads(done.stdout)["coverage"]}) == (3, {"aws", "azure"})
    assert missing("doctor", "--cloud", "aws", AWS_PROFILE="gone").returncode == 1


@pytest.mark.parametrize("command", [["plan"], ["explain", "x"], ["explain", ENDPOINT]], ids=" ".join)
def test_what_sweeps_is_incomplete(failing: Broken, command: list[str]):
    assert failing(*command, "--cloud", "aws").returncode == 3


@pytest.mark.parametrize("command", [["restore", ENDPOINT], ["undo", "--run", "abcdefabcdef"], ["pause"]], ids=" ".join)
def test_what_needs_the_ledger_there_says_one_sentence(failing: Broken, command: list[str]):
    done = failing(*command, REAPER_LEDGER="dynamodb://table", REAPER_MANIFESTS="s3://bucket/manifests")
    assert (done.returncode, done.stdout) == (3, "")
    [said] = [line for line in done.stderr.splitlines() if not line.startswith("ledger: ")]
    assert said.startswith("error dynamodb:GetItem: the AWS credentials or settings can't be used: ")


@pytest.mark.parametrize("ledger", [None, "dynamodb://table"])
def test_apply_is_incomplete_and_does_nothing(failing: Broken, tmp_path: Path, ledger: str | None):
    now = datetime.now(UTC)
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nowners: {{fallback: a@example.com}}\nchannels: [{{type: folder, path: {tmp_path}/mails}}]\n")
    fields = {
        "schema": plan_file.SCHEMA,
        "made_at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "expires_at": f"{now + timedelta(hours=5):%Y-%m-%dT%H:%M:%SZ}",
        "run": "abcdefabcdef",
        "version": "1",
        "policy_sha256": load_policy(str(policy)).sha256,
        "scope": plan_file.scope_of(Settings(cloud="aws", mode=Mode.AUDIT)),
        "acts": [
            {
                "id": ENDPOINT,
                "kind": "sagemaker-endpoint",
                "name": "x",
                "cloud": "aws",
                "account": "123456789012",
                "account_name": None,
                "region": "us-east-1",
                "move": "stop",
                "because": "idle",
                "usd_per_hour": 1.0,
                "saves_usd_per_hour": 1.0,
                "owner": None,
                "seen": {},
            }
        ],
        "held": [],
        "coming": [],
    }
    (tmp_path / "plan.json").write_text(json.dumps({**fields, "sha256": plan_file._plan_hash(fields)}))
    done = failing(
        "apply", str(tmp_path / "plan.json"), "--yes", "--policy", str(policy), **({"REAPER_LEDGER": ledger} if ledger else {})
    )
    assert done.returncode == 3, done.stderr
    assert "0 of 1 action carried out" in done.stdout or done.stderr.count("error ") == 1


def test_doctor_fails_the_check_and_names_the_profile_of_an_ended_session(tmp_path: Path):
    lines, words = PROFILES["no session of SSO"]
    done = broken_with(tmp_path, lines, words)("doctor", "--cloud", "aws", "--format", "json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["credentials.aws"]["status"]) == (1, "fix")
    assert checks["credentials.aws"]["fix"] == "aws sso login --profile x"


def test_doctor_names_what_the_helper_said(failing: Broken):
    done = failing("doctor", "--cloud", "aws", "--format", "json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["credentials.aws"]["status"]) == (1, "fix")
    assert "/nope/helper" in checks["credentials.aws"]["because"]
    assert "clock.aws" not in checks, "what keeps it from being asked is said once"


def test_azure_says_what_its_helper_said(tmp_path: Path):
    (tmp_path / "az").write_text("#!/bin/sh\necho 'ERROR: AADSTS70043: the refresh token has expired' >&2\nexit 1\n")
    (tmp_path / "az").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "AZURE_TOKEN_CREDENTIALS": "AzureCliCredential"}
    done = reaper(None, "sweep", "--cloud", "azure", "--format", "json", **environ)
    errors = {row["error"] for row in json.loads(done.stdout)["coverage"]}
    assert (done.returncode, len(errors)) == (3, 1)
    assert "AADSTS70043: the refresh token has expired" in errors.pop()


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_sweep_of_aws_names_certificates_that_do_not_exist(name: str):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    done = reaper(None, "sweep", "--cloud", "aws", "--format", "json", **keys, **{name: "/nope.pem"})
    rows = json.loads(done.stdout)["coverage"]
    assert (done.returncode, {row["cloud"] for row in rows}) == (3, {"aws"}), done.stderr
    assert all(f"{name}='/nope.pem': no such file" in row["error"] for row in rows)


def test_a_missing_certificate_of_azure_is_a_failed_row(tmp_path: Path):
    environ = {
        "AZURE_CLIENT_ID": "a",
        "AZURE_TENANT_ID": "b",
        "AZURE_CLIENT_CERTIFICATE_PATH": "/nope.pem",
        "HOME": str(tmp_path),
    }
    done = reaper(None, "sweep", "--format", "json", **environ)
    rows = json.loads(done.stdout)["coverage"]
    assert (done.returncode, {row["cloud"] for row in rows}) == (3, {"azure"}), done.stderr
    assert all("/nope.pem" in row["error"] for row in rows)


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_channel_names_certificates_that_cannot_be_used(name: str, content: str | None, tmp_path: Path, monkeypatch):
    for other in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(other, raising=False)
    if content:
        (tmp_path / "ca.pem").write_text(content)
    monkeypatch.setenv(name, str(tmp_path / "ca.pem"))
    with pytest.raises(CloudError, match=str(tmp_path / "ca.pem")):
        delivery.tls_context()
