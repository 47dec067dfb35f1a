from __future__ import annotations

import json

import boto3
import pytest
from botocore.credentials import RefreshableCredentials

from fakes.sweeps import SweepOrder, sweep
from on_aws.conftest import DAY, NOW
from reaper import registry
from reaper.aws import targets
from reaper.aws.stores import dynamodb
from reaper.errors import CloudError, SettingsError
from reaper.model import Mode
from reaper.policy.parse import parse_policy
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server
from reaper_sandbox.shortcuts import sessions_of

ARN = "arn:aws:iam::210987654321:role/ml-idle-reaper"
READING = sorted({p for kind in registry.kinds("aws") for p in kind.permissions} | set(targets.PERMISSIONS))


def assumed(server: Server) -> list[dict[str, str]]:
    return [call.params for call in server.calls if call.action == "sts:AssumeRole"]


def test_below_enforce_the_session_can_only_read(server: Server):
    targets.assume_role(ARN, False, READING).client("sts").get_caller_identity()
    [request] = assumed(server)
    [statement] = json.loads(request["Policy"])["Statement"]
    assert statement == {"Effect": "Allow", "Action": READING, "Resource": "*"}
    assert (request["RoleArn"], request["RoleSessionName"]) == (ARN, "ml-idle-reaper")
    assert not [a for a in statement["Action"] if not a.split(":")[1].startswith(("List", "Describe", "Get"))]


def test_in_enforce_the_role_is_assumed_unrestricted(server: Server):
    targets.assume_role(ARN, True, READING).client("sts").get_caller_identity()
    [request] = assumed(server)
    assert "Policy" not in request


@pytest.mark.parametrize("mode", list(Mode))
def test_only_a_run_that_acts_has_a_session_that_may(server: Server, mode: Mode):
    sessions_of(Settings(mode=mode, cloud="aws", regions=("us-east-1",), role=ARN), "aws")
    assert ["Policy" in request for request in assumed(server)] == [mode is not Mode.ENFORCE]


def test_the_session_policy_fits_with_the_ledgers_rights():
    assert len(targets.session_policy([*READING, *dynamodb.PERMISSIONS])) < targets.MAX_POLICY_CHARS


def test_a_too_long_session_policy_is_refused_before_any_call(server: Server):
    with pytest.raises(SettingsError, match="2048 at most"):
        targets.assume_role(ARN, False, [f"sagemaker:DescribeSomething{n}" for n in range(100)])
    assert server.calls == []


def test_a_sweep_through_the_role_sees_the_other_account(server: Server):
    account = Account(server, "210987654321")
    account.endpoint("far")
    account.alive("far", "AllTraffic", NOW - 15 * DAY, NOW)
    clouds = targets.target_sessions(("us-east-1",), (), targets.assume_role(ARN, False, READING))
    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    report = sweep(clouds, [registry.kind("sagemaker-endpoint")], order)
    assert [(f.case.resource.name, f.case.resource.target.account) for f in report.findings] == [("far", "210987654321")]
    assert len(assumed(server)) == 1, "one set of credentials serves the whole sweep"


def test_a_role_that_cannot_be_assumed_is_reported_as_denied(server: Server):
    server.rules.append(on("AssumeRole", denied()))
    with pytest.raises(CloudError) as raised:
        targets.target_sessions(("us-east-1",), (), targets.assume_role(ARN, False, READING))
    assert raised.value.missing == "sts:AssumeRole"


def test_credentials_are_renewed_before_they_expire(server: Server):
    credentials = targets.assume_role(ARN, False, READING).get_credentials()
    assert isinstance(credentials, RefreshableCredentials)
    credentials.get_frozen_credentials()
    assert (credentials.refresh_needed(), credentials.refresh_needed(2 * 3600)) == (False, True)


def test_missing_credentials_name_the_setting(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    assert boto3.Session().get_credentials() is None
    with pytest.raises(SettingsError, match="no AWS credentials to assume this role with"):
        targets.assume_role(ARN, True, READING)
