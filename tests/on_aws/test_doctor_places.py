"""`reaper doctor` in other regions, roles and accounts: one line for all that fail alike, and sessions that can only read."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reaper import registry, settings
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.doctor.examine import examine
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import cut, denied, forbidden, on, without
from reaper_sandbox.aws.organization import Organization
from reaper_sandbox.aws.server import Server

ROLE = "arn:aws:iam::123456789012:role/enforce"
OTHERS = ["111122223333", "222233334444"]


def examined(limit_s: float = 60, **environ: str) -> list[Check]:
    """An audit of us-east-1, unless the settings say otherwise."""
    chosen = {"REAPER_REGIONS": "us-east-1", "REAPER_POLICY": "version: 1\ndefaults: {action: delete}\n", **environ}
    context = DoctorContext(
        settings=settings.from_env(chosen),
        environ={**os.environ, **chosen},
        clock=lambda: datetime.now(UTC),
        kinds=registry.kinds("aws"),
    )
    return examine(context, limit_s)


def to_fix(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.status is CheckStatus.FIX]


def test_a_metric_that_is_forbidden_alone_is_named(server: Server):
    server.rules.append(on("GetMetricData", forbidden("CPUUtilization")))
    [check] = to_fix(examined())
    assert (check.missing, "/aws/sagemaker/Endpoints CPUUtilization" in check.because) == ("cloudwatch:GetMetricData", True)


def test_metrics_are_asked_for_in_every_region(server: Server):
    server.rules.append(on("GetMetricData", denied(), region="eu-west-1"))
    [check] = to_fix(examined(REAPER_REGIONS="us-east-1,eu-west-1"))
    assert "eu-west-1" in check.because


def test_a_role_that_cannot_be_assumed_is_one_line(server: Server):
    server.rules.append(on("AssumeRole", denied(resource=ROLE)))
    checks = examined(REAPER_ROLE=ROLE, REAPER_MODE="enforce", REAPER_LEDGER="sqlite:////tmp/none/ledger.db")
    [check] = [check for check in to_fix(checks) if check.missing]
    assert (check.missing, ROLE in str(check.fix)) == ("sts:AssumeRole", True)


def test_the_role_is_assumed_for_reading_whatever_the_mode(server: Server, tmp_path):
    ledger = f"sqlite://{tmp_path}/ledger.db"
    examined(REAPER_ROLE=ROLE, REAPER_MODE="enforce", REAPER_LEDGER=ledger, REAPER_MANIFESTS=str(tmp_path))
    policies = [call.params.get("Policy") for call in server.calls if call.operation == "AssumeRole"]
    assert policies
    allowed = {action for text in policies for action in json.loads(text)["Statement"][0]["Action"]}
    assert all(action.split(":")[1].startswith(("List", "Describe", "Get")) for action in allowed)


def test_the_rights_to_act_are_those_of_the_role(server: Server, tmp_path):
    server.world.denied_actions = {"sagemaker:DeleteEndpoint"}
    ledger = f"sqlite://{tmp_path}/ledger.db"
    checks = examined(REAPER_ROLE=ROLE, REAPER_MODE="enforce", REAPER_LEDGER=ledger, REAPER_MANIFESTS=str(tmp_path))
    assert {call.params["PolicySourceArn"] for call in server.calls if call.operation == "SimulatePrincipalPolicy"} == {ROLE}
    assert [check.missing for check in to_fix(checks) if check.missing] == ["sagemaker:DeleteEndpoint"]


@pytest.mark.parametrize(
    ("action", "missing"),
    [
        pytest.param("delete", ["sagemaker:DeleteEndpoint", "sagemaker:StopNotebookInstance"], id="a rule may delete"),
        pytest.param("stop", ["sagemaker:StopNotebookInstance"], id="no rule may delete"),
        pytest.param("notify", [], id="no rule may stop"),
    ],
)
def test_no_right_to_act_is_offered_that_the_policy_rules_out(server: Server, tmp_path: Path, action: str, missing: list[str]):
    server.world.denied_actions = {"sagemaker:DeleteEndpoint", "sagemaker:StopNotebookInstance"}
    policy = f"version: 1\nrules: [{{name: dev, match: {{name: 'dev-*'}}, action: {action}}}]\n"
    ledger = f"sqlite://{tmp_path}/ledger.db"
    checks = examined(REAPER_POLICY=policy, REAPER_MODE="enforce", REAPER_LEDGER=ledger, REAPER_MANIFESTS=str(tmp_path))
    assert sorted(check.missing for check in to_fix(checks) if check.missing) == missing


def test_accounts_whose_role_fails_alike_are_one_line(server: Server):
    found = server.world.organization = Organization()
    found.add("111122223333", "research")
    for account in ("222233334444", "333344445555"):
        found.add(account, account, role=None)
    checks = examined(REAPER_ACCOUNTS="123456789012,111122223333,222233334444,333344445555")
    [check] = to_fix(checks)
    assert (check.check, check.missing) == ("targets.aws", "sts:AssumeRole")
    assert check.because.startswith("2 accounts can't be swept (222233334444, 333344445555)")
    [reading] = [check for check in checks if check.check == "reading.aws"]
    assert "account 111122223333 us-east-1, account 123456789012 us-east-1" in reading.because


def test_what_other_accounts_roles_lack_is_one_line_about_their_template(server: Server, tmp_path: Path):
    permission = "sagemaker:DescribeEndpoint"
    checks = examined_elsewhere(server, tmp_path, permission)
    [check] = [check for check in to_fix(checks) if check.missing]
    assert check.missing == permission
    assert str(check.fix).startswith(f"Allow {permission} to the role ml-idle-reaper-target in each of these accounts.")
    assert all(account in check.because for account in OTHERS)


def test_that_rights_to_act_elsewhere_are_unknown_is_one_line(server: Server, tmp_path: Path):
    checks = examined_elsewhere(server, tmp_path, "sagemaker:DeleteEndpoint")
    [check] = [check for check in checks if check.check == "acting.aws"]
    assert (check.status, check.missing) == (CheckStatus.UNKNOWN, None)
    assert all(account in check.because for account in OTHERS)
    assert "credentials" in str(check.fix)


def examined_elsewhere(server: Server, folder: Path, denied_there: str) -> list[Check]:
    """The checks over two other accounts, whose roles lack one permission, in mode enforce."""
    found = server.world.organization = Organization()
    for account in OTHERS:
        found.add(account, account)
    server.rules.append(lambda call: without(denied_there)(call) if call.account in OTHERS else None)
    server.world.denied_actions = {denied_there}
    stores = {"REAPER_LEDGER": f"sqlite://{folder}/ledger.db", "REAPER_MANIFESTS": str(folder)}
    return examined(REAPER_ACCOUNTS=",".join(OTHERS), REAPER_MODE="enforce", **stores)


@pytest.mark.parametrize("accounts", [OTHERS, [OTHERS[0], "123456789012"]], ids=["only others", "another one first"])
def test_the_reaper_is_not_said_to_be_another_accounts_role(server: Server, accounts: list[str]):
    found = server.world.organization = Organization()
    for account in OTHERS:
        found.add(account, account)
    [who] = [check.because for check in examined(REAPER_ACCOUNTS=",".join(accounts)) if check.check == "credentials.aws"]
    assert who == "signed in as arn:aws:sts::123456789012:user/moto"


def test_the_role_of_the_own_account_is_who_the_reaper_is(server: Server):
    found = server.world.organization = Organization()
    found.add(OTHERS[0], "other")
    checks = examined(REAPER_ACCOUNTS=f"{OTHERS[0]},123456789012", REAPER_ROLE=ROLE)
    [who] = [check.because for check in checks if check.check == "credentials.aws"]
    assert who.startswith("signed in as arn:aws:sts::123456789012:assumed-role/enforce/")


def test_an_excluded_account_that_is_no_target_may_be_a_typo(server: Server):
    found = server.world.organization = Organization()
    for account in OTHERS:
        found.add(account, account)
    excluded = f"{OTHERS[0]},222233334445"
    checks = examined(REAPER_ACCOUNTS="organization", REAPER_EXCLUDE_ACCOUNTS=excluded)
    [typo] = [check for check in to_fix(checks) if check.check == "targets.aws"]
    assert typo.because == "222233334445 in REAPER_EXCLUDE_ACCOUNTS wouldn't be swept anyway, so it may be a typo"


@pytest.mark.parametrize("setting", [{"REAPER_REGIONS": "us-est-1"}, {"REAPER_REGIONS": ""}], ids=["a typo", "no region"])
def test_a_setting_that_cannot_be_used_is_not_blamed_on_the_credentials(
    server: Server, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]
):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    [check] = [check for check in examined(**setting) if check.check == "credentials.aws"]
    assert "region" in check.because
    assert str(check.fix).startswith("Correct the setting")


def test_it_ends_although_everything_hangs(server: Server):
    released, answered = threading.Event(), list[str]()

    def hang(call: Call) -> None:
        released.wait(60)
        answered.append(call.operation)

    server.rules.append(hang)
    checks = examined(limit_s=1)
    assert answered == []
    released.set()
    assert [check.check for check in checks if check.status is CheckStatus.UNKNOWN][:1] == ["credentials.aws"]
    assert "policy" in {check.check for check in checks if check.status is CheckStatus.OK}


def test_what_is_out_of_reach_is_said_once_for_each_reason(server: Server):
    server.rules.append(on(".*", cut(), service="sagemaker"))
    checks = to_fix(examined(limit_s=120))
    assert {check.missing for check in checks} == {None}
    assert all("sagemaker" in check.because for check in checks)


def test_nothing_else_is_hidden_if_no_credentials_work(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.rules.append(on("GetCallerIdentity", denied()))
    checks = examined(REAPER_POLICY="version: 2\n")
    assert {"credentials.aws", "policy"} <= {check.check for check in to_fix(checks)}
