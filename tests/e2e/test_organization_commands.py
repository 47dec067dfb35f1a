"""The commands over the accounts of an organization: processes of their own against the sandbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import forks
from fakes.records import a_record
from reaper.ledger import opening
from reaper.model import StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, denied
from reaper_sandbox.aws.organization import Organization, TargetRole, Unit
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
HUB, RESEARCH, VISION = "123456789012", "111111111111", "222222222222"
LABS = "ou-ab12-labslabs"
EXTERNAL_ID = "sweep-8f2c"
POLICY = """\
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d}}
limits: {{max_acts: {most}, max_share: 100%, run: {{max_acts: {run}}}}}
owners: {{domains: [example.com], fallback: admins@example.com}}
channels: [{{type: folder, path: "{folder}"}}]
"""


class Company:
    """Three accounts with an idle endpoint of three instances each, whose owner was warned four days ago, and the command to run on them."""

    def __init__(self, home: Path, server: Server) -> None:
        self.home, self.server, self.now = home, server, datetime.now(UTC)
        self.organization = server.world.organization = Organization(units=[Unit(id=LABS, name="labs")])
        self.organization.add(HUB, "platform", role=None)
        self.organization.add(RESEARCH, "research", parent=LABS)
        self.organization.add(VISION, "vision")
        for role in self.organization.roles:
            role.external_id = EXTERNAL_ID
        self.ids = {account_id: self._quiet(account_id) for account_id in (HUB, RESEARCH, VISION)}
        self.policy(most=20)

    def _quiet(self, account_id: str, region: str = "us-east-1") -> str:
        account = Account(self.server, account_id, region)
        endpoint = account.endpoint("quiet", variants=(Variant(count=3),), tags={"owner": "ana@example.com"})
        account.alive("quiet", "AllTraffic", self.now - 20 * DAY, self.now + DAY)
        record = a_record(
            idle_since=self.now - 20 * DAY,
            seen_idle_at=self.now - HOUR,
            warned_at=self.now - 4 * DAY,
            receipt="r",
            to="ana@example.com",
            announced=StepName.STOP,
            not_before=self.now - DAY,
        )
        ledger = opening.open_ledger(f"sqlite://{self.home}/ledger.db", {})
        assert ledger.write_record(endpoint.arn, record, 0, self.now - HOUR)
        ledger.close()
        return endpoint.arn

    def add_region(self, region: str) -> None:
        for account_id in (HUB, RESEARCH, VISION):
            self._quiet(account_id, region)

    def forget_notices(self) -> None:
        (self.home / "ledger.db").unlink()

    def policy(self, most: int, run: int = 200) -> None:
        (self.home / "policy.yaml").write_text(POLICY.format(most=most, run=run, folder=self.home / "mails"))

    def counts(self) -> dict[str, int]:
        region = self.server.world.region
        return {id_: region(id_, "us-east-1").endpoints["quiet"].variants[0].count for id_ in self.ids}

    def assumed(self) -> list[dict[str, Any]]:
        return [call.params for call in self.server.calls if call.action == "sts:AssumeRole"]

    def __call__(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "REAPER_", "IDENTITY_"))}
        ours = {
            "REAPER_LEDGER": f"sqlite://{self.home}/ledger.db",
            "REAPER_MANIFESTS": str(self.home / "manifests"),
            "REAPER_POLICY": str(self.home / "policy.yaml"),
            "REAPER_EXTERNAL_ID": EXTERNAL_ID,
        }
        env = {name: value for name, value in {**plain, **self.server.env, **ours, **environ}.items() if value}
        return forks.reaper(*arguments, env=env, cwd=self.home)


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    with Server() as server:
        yield Company(tmp_path, server)


def everywhere(count: int) -> dict[str, int]:
    return {HUB: count, RESEARCH: count, VISION: count}


def rows(completed: subprocess.CompletedProcess[str], account: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(completed.stdout)["coverage"] if row["account"] == account]


# sweep and explain


def test_a_sweep_of_the_organization_names_accounts_and_shows_progress(company: Company):
    completed = company("sweep", "--cloud", "aws", "--organization", "--format", "json")
    assert completed.returncode == 0, completed.stderr
    found = {(f["account"], f["account_name"]) for f in json.loads(completed.stdout)["findings"]}
    assert found == {(HUB, "platform"), (RESEARCH, "research"), (VISION, "vision")}
    assert "account 111111111111 (research): 1 region" in completed.stderr
    assert EXTERNAL_ID not in completed.stdout + completed.stderr


@pytest.mark.parametrize(
    ("options", "environ", "accounts"),
    [
        (["--ou", LABS], {}, {RESEARCH}),
        (["--organization", "--exclude-account", VISION], {}, {HUB, RESEARCH}),
        (["--account", f"{HUB},{VISION}"], {}, {HUB, VISION}),
        ([], {}, {HUB}),
        ([], {"REAPER_ACCOUNTS": "organization", "REAPER_EXCLUDE_ACCOUNTS": RESEARCH}, {HUB, VISION}),
        ([], {"REAPER_ACCOUNTS": f"{RESEARCH},{VISION}"}, {RESEARCH, VISION}),
        (["--account", HUB], {"REAPER_ACCOUNTS": "organization"}, {HUB}),
        (["--organization"], {"REAPER_ACCOUNTS": "self", "REAPER_EXCLUDE_ACCOUNTS": VISION}, {HUB, RESEARCH}),
    ],
)
def test_options_and_settings_choose_the_accounts(
    company: Company, options: list[str], environ: dict[str, str], accounts: set[str]
):
    completed = company("sweep", "--cloud", "aws", "--format", "json", *options, **environ)
    assert completed.returncode == 0, completed.stderr
    assert {row["account"] for row in json.loads(completed.stdout)["coverage"]} == accounts


def test_a_wrong_external_id_is_denied_rows_and_exit_3(company: Company):
    completed = company("sweep", "--cloud", "aws", "--organization", "--external-id", "another", "--format", "json")
    assert completed.returncode == 3
    assert {(row["region"], row["status"], row["missing"]) for row in rows(completed, VISION)} == {
        (None, "denied", "sts:AssumeRole")
    }
    assert {row["status"] for row in rows(completed, HUB)} == {"ok"}


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_reports_for_people_name_the_accounts(company: Company, format_: str):
    company.organization.management, company.organization.delegated = VISION, {HUB}
    company.organization.roles = [role for role in company.organization.roles if VISION not in role.arn]
    completed = company("sweep", "--cloud", "aws", "--organization", "--format", format_, COLUMNS="160")
    assert completed.returncode == 3, completed.stderr
    assert {"research us-east-1", "platform us-east-1"} <= set(re.findall(r"\w+ us-east-1", completed.stdout))
    assert f"all of vision ({VISION})" in " ".join(completed.stdout.replace("\\", "").split())
    own_only = company("sweep", "--cloud", "aws", "--format", format_, COLUMNS="160")
    assert "platform us-east-1" not in own_only.stdout


def test_an_unreadable_organization_exits_with_2(company: Company):
    company.organization.management = RESEARCH
    completed = company("sweep", "--cloud", "aws", "--organization")
    assert (completed.returncode, completed.stdout) == (2, "")
    assert "the organization can't be read, so nothing was swept" in " ".join(completed.stderr.split())


def test_explain_finds_the_account_in_the_arn(company: Company):
    completed = company("explain", company.ids[VISION])
    assert (completed.returncode, "verdict   idle" in completed.stdout) == (0, True), completed.stderr
    assert {request["RoleArn"].split(":")[4] for request in company.assumed()} == {VISION}


def test_explain_searches_the_organization_for_a_name(company: Company):
    completed = company("explain", "quiet", "--cloud", "aws", "--ou", LABS)
    assert (completed.returncode, company.ids[RESEARCH] in completed.stdout) == (0, True), completed.stderr


# Limits and notices


def test_limits_of_the_run_count_over_all_accounts(company: Company):
    company.policy(most=20, run=2)
    completed = company("sweep", "--cloud", "aws", "--organization", "--mode", "enforce", "--format", "json")
    assert {f["step"] for f in json.loads(completed.stdout)["findings"]} == {"hold"}, completed.stderr
    assert company.counts() == everywhere(3)


def test_an_accounts_limits_hold_no_other_account(company: Company):
    """Each of the three has one action due, which is as many as may be."""
    company.policy(most=1)
    completed = company("sweep", "--cloud", "aws", "--organization", "--mode", "enforce", "--format", "json")
    assert {f["outcome"] for f in json.loads(completed.stdout)["findings"]} == {"done"}, completed.stderr
    assert company.counts() == everywhere(1)


def test_an_owner_gets_one_notice_about_all_accounts(company: Company):
    company.forget_notices()
    completed = company("sweep", "--cloud", "aws", "--organization", "--mode", "announce", "--format", "json")
    assert completed.returncode == 0, completed.stderr
    [file] = (company.home / "mails").glob("ana@*.eml")
    mail = message_from_bytes(file.read_bytes(), policy=default)
    body = mail.get_body(("plain",))
    assert "3 idle ML resources" in mail["Subject"]
    assert body is not None
    assert all(account_id in body.get_content() for account_id in company.ids)


# plan and apply


def test_a_plan_over_the_organization_is_applied_in_each_account(company: Company):
    made = company("plan", "--cloud", "aws", "--organization", "-o", "plan.json")
    assert (made.returncode, company.counts()) == (0, everywhere(3)), made.stderr
    assert "To carry it out, run:\n  reaper apply plan.json --organization\n" in made.stderr
    text = (company.home / "plan.json").read_text()
    assert json.loads(text)["scope"]["organization"] is True
    assert EXTERNAL_ID not in text
    assert all("Policy" in request for request in company.assumed()), "a plan only reads"
    company.server.calls.clear()
    applied = company("apply", "plan.json", "--organization", "--external-id", EXTERNAL_ID, REAPER_EXTERNAL_ID="")
    assert (applied.returncode, company.counts()) == (0, everywhere(1)), applied.stdout + applied.stderr
    assert Counter(request["RoleArn"].split(":")[4] for request in company.assumed()) == {RESEARCH: 2, VISION: 2}
    assert ["Policy" in request for request in company.assumed()].count(False) == 2, "one to act in each account"


def test_a_plan_remembers_units_exclusions_and_the_role(company: Company):
    company.organization.roles.append(TargetRole(arn=f"arn:aws:iam::{RESEARCH}:role/tools/reaper", external_id=EXTERNAL_ID))
    options = ("--ou", LABS, "--exclude-account", VISION, "--role-name", "tools/reaper")
    assert company("plan", "--cloud", "aws", *options, "-o", "plan.json").returncode == 0
    scope = json.loads((company.home / "plan.json").read_text())["scope"]
    assert {key: scope.get(key) for key in ("organization", "ous", "exclude_accounts", "role_name")} == {
        "organization": None,
        "ous": [LABS],
        "exclude_accounts": [VISION],
        "role_name": "tools/reaper",
    }
    applied = company("apply", "plan.json", "--role-name", "tools/reaper", REAPER_ACCOUNTS="organization")
    assert (applied.returncode, company.counts()) == (0, {**everywhere(3), RESEARCH: 1}), applied.stdout + applied.stderr
    assert {request["RoleArn"] for request in company.assumed()} == {f"arn:aws:iam::{RESEARCH}:role/tools/reaper"}


FORGER = "999999999999"


def forged(text: str, **scope: Any) -> str:
    """The plan with another scope, and the hash that belongs to it: the hash is no signature."""
    plan = json.loads(text)
    del plan["sha256"]
    plan["scope"] |= scope
    return json.dumps({**plan, "sha256": sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()})


@pytest.mark.parametrize(
    ("scope", "options", "message"),
    [
        pytest.param({"accounts": [FORGER]}, [], "only its own account", id="another account"),
        pytest.param({"accounts": [FORGER]}, ["--organization"], "isn't an active account", id="not in the organization"),
        pytest.param({"accounts": [FORGER]}, ["--account", VISION], "doesn't sweep '999999999999'", id="not the account named"),
        pytest.param({"organization": True}, ["--account", VISION], "doesn't sweep 'organization'", id="the whole organization"),
        pytest.param(
            {"organization": True, "role_name": "admin"}, ["--organization"], "assumes 'ml-idle-reaper-target'", id="another role"
        ),
        pytest.param({"regions": ["eu-west-1"]}, ["--region", "us-east-1"], "doesn't sweep 'eu-west-1'", id="another region"),
        pytest.param(
            {"management_group": "all"},
            ["--subscription", "11111111-1111-1111-1111-111111111111"],
            "management group 'all'",
            id="another group",
        ),
    ],
)
def test_a_plan_reaches_no_further_than_the_command(company: Company, scope: dict[str, Any], options: list[str], message: str):
    """Its maker would learn the external ID, or have another role assumed."""
    company("plan", "--cloud", "aws", "-o", "plan.json")
    file = company.home / "plan.json"
    file.write_text(forged(file.read_text(), **scope))
    company.server.calls.clear()
    applied = company("apply", "plan.json", *options)
    assert (applied.returncode, company.counts(), company.assumed()) == (2, everywhere(3), []), applied.stdout
    assert message in " ".join(applied.stderr.split())


def test_apply_without_the_external_id_acts_in_the_own_account_only(company: Company):
    company("plan", "--cloud", "aws", "--organization", "-o", "plan.json")
    applied = company("apply", "plan.json", "--organization", REAPER_EXTERNAL_ID="")
    assert (applied.returncode, company.counts()) == (3, {**everywhere(3), HUB: 1}), applied.stdout
    assert "sts:AssumeRole" in applied.stderr


def test_apply_leaves_an_account_alone_that_is_excluded_by_now(company: Company):
    company("plan", "--cloud", "aws", "--organization", "-o", "plan.json")
    applied = company("apply", "plan.json", "--organization", REAPER_EXCLUDE_ACCOUNTS=VISION)
    assert (applied.returncode, company.counts()) == (1, {**everywhere(1), VISION: 3}), applied.stdout + applied.stderr


def test_an_account_that_cannot_be_opened_to_act_hides_no_other(company: Company):
    def no_acting_in_vision(call: Call) -> Fault | None:
        is_acting = call.action == "sts:AssumeRole" and "Policy" not in call.params
        return denied() if is_acting and VISION in call.params["RoleArn"] else None

    company.server.rules.append(no_acting_in_vision)
    completed = company("sweep", "--cloud", "aws", "--organization", "--mode", "enforce", "--format", "json")
    assert (completed.returncode, company.counts()) == (3, {HUB: 1, RESEARCH: 1, VISION: 3}), completed.stderr
    report = json.loads(completed.stdout)
    [refused] = [f for f in report["findings"] if f["account"] == VISION]
    assert (refused["outcome"], "sts:AssumeRole" in refused["outcome_because"]) == ("refused", True)
    assert [row["missing"] for row in report["coverage"] if row["kind"] == "acts"] == ["sts:AssumeRole"]


def test_an_account_is_entered_once_to_read_and_once_to_act(company: Company):
    company.add_region("eu-west-1")
    options = ("--organization", "--region", "us-east-1,eu-west-1", "--mode", "enforce", "--format", "json")
    completed = company("sweep", "--cloud", "aws", *options)
    assert [f["outcome"] for f in json.loads(completed.stdout)["findings"]] == ["done"] * 6, completed.stderr
    entered = Counter((request["RoleArn"].split(":")[4], "Policy" in request) for request in company.assumed())
    assert entered == dict.fromkeys([(RESEARCH, True), (RESEARCH, False), (VISION, True), (VISION, False)], 1)


# restore and undo


def stop_everywhere(company: Company) -> str:
    completed = company("sweep", "--cloud", "aws", "--organization", "--mode", "enforce", "--format", "json")
    assert (completed.returncode, company.counts()) == (0, everywhere(1)), completed.stderr
    company.server.calls.clear()
    return str(json.loads(completed.stdout)["run"]["id"])


def add_restore_role(company: Company) -> None:
    for account in (RESEARCH, VISION):
        company.organization.roles.append(TargetRole(arn=f"arn:aws:iam::{account}:role/restore", external_id=EXTERNAL_ID))


def test_restore_in_another_account_needs_a_role_by_name(company: Company):
    stop_everywhere(company)
    for environ in ({}, {"REAPER_TARGET_ROLE": "ml-idle-reaper-target"}):
        completed = company("restore", company.ids[VISION], **environ)
        assert (completed.returncode, company.counts()) == (3, everywhere(1))
        assert f"it is in AWS account {VISION}, to which the current credentials don't belong" in completed.stdout
        assert "--role-name" in completed.stdout
    assert company.assumed() == []


def test_restore_in_another_account_uses_the_role_that_was_named(company: Company):
    stop_everywhere(company)
    add_restore_role(company)
    completed = company("restore", company.ids[VISION], "--role-name", "restore")
    assert (completed.returncode, company.counts()) == (0, {HUB: 1, RESEARCH: 1, VISION: 3}), completed.stdout
    assert [(request["RoleArn"], "Policy" in request) for request in company.assumed()] == [
        (f"arn:aws:iam::{VISION}:role/restore", False)
    ]


def test_the_credentials_of_that_very_account_are_used_as_they_are(company: Company):
    stop_everywhere(company)
    completed = company("restore", company.ids[HUB], "--role-name", "restore")
    assert (completed.returncode, company.counts()) == (0, {HUB: 3, RESEARCH: 1, VISION: 1}), completed.stdout
    assert company.assumed() == []


def test_undo_restores_what_it_can_and_names_the_rest(company: Company):
    run_id = stop_everywhere(company)
    completed = company("undo", "--run", run_id)
    assert (completed.returncode, company.counts()) == (3, {HUB: 3, RESEARCH: 1, VISION: 1}), completed.stdout
    assert completed.stdout.count("--role-name") == 2
    add_restore_role(company)
    again = company("undo", "--run", run_id, "--role-name", "restore")
    assert (again.returncode, company.counts()) == (0, everywhere(3)), again.stdout


def test_a_restore_role_with_another_external_id_is_denied(company: Company):
    stop_everywhere(company)
    add_restore_role(company)
    completed = company("restore", company.ids[VISION], "--role-name", "restore", "--external-id", "another")
    assert (completed.returncode, company.counts()) == (3, everywhere(1))
    assert "sts:AssumeRole" in completed.stdout
