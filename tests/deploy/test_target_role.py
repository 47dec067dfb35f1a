"""The role of the other accounts: the same statements as in the deployment's own template, and a trust that nothing else passes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import parliament
import pytest
from cfnlint.decode.cfn_yaml import load

from deploy import policies, sam
from deploy.test_template import MODES, NAMES
from deploy.translate import translate

FILE = sam.ROOT / "infra/aws/target-role.yaml"
POLICIES = ("AuditPolicy", "EnforcePolicy", "GuardPolicy")
HUB, ORGANIZATION = "123456789012", "o-ab12cd34ef"
DEPLOYED = {
    "RoleName": "ml-idle-reaper-target",
    "HubAccount": HUB,
    "HubRoles": ["ml-idle-reaper/*"],
    "OrganizationId": ORGANIZATION,
    "ExternalId": "x-1",
    "HasExternalId": "true",
    "Regions": ["us-east-1"],
    "AWS::AccountId": "222222222222",
    **{f"{name}.Arn": name for name in POLICIES},
    **{name: name for name in POLICIES},
}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return json.loads(json.dumps(load(str(FILE)), default=str))


@pytest.fixture(scope="module")
def own() -> dict[str, Any]:
    return translate(sam.ROOT / "template.yaml")


def trust(template: dict[str, Any], **names: Any) -> dict[str, Any]:
    """The one statement of the role's trust policy."""
    document = template["Resources"]["TargetRole"]["Properties"]["AssumeRolePolicyDocument"]
    [statement] = policies.resolve(document, {**DEPLOYED, **names})["Statement"]
    return dict(statement)


@pytest.mark.parametrize("name", POLICIES)
def test_each_account_grants_what_the_deployment_grants_itself(template: dict[str, Any], own: dict[str, Any], name: str):
    theirs, ours = template["Resources"][name], own["Resources"][name]
    assert theirs["Properties"]["PolicyDocument"] == ours["Properties"]["PolicyDocument"]
    assert theirs.get("Condition") == ours.get("Condition")


def test_the_script_that_copies_the_statements_has_nothing_to_do():
    done = subprocess.run(
        [sys.executable, FILE.with_name("target_role.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_regions_mean_the_same_in_both_templates(template: dict[str, Any], own: dict[str, Any]):
    for name in ("SweepsHere", "SweepsEverywhere"):
        assert template["Conditions"][name] == own["Conditions"][name]
    assert template["Parameters"]["Regions"]["AllowedPattern"] == own["Parameters"]["Regions"]["AllowedPattern"]


@pytest.mark.parametrize(("acting", "expected"), [("no", {"AuditPolicy"}), ("yes", set(POLICIES))])
def test_the_role_can_act_only_if_the_admin_says_so_and_is_guarded(template: dict[str, Any], acting: str, expected: set[str]):
    assert template["Parameters"]["Acting"]["Default"] == "no"
    present = policies.present(template, {"Acting": acting, "ExternalId": ""})
    acts = {"Acts": "true" if acting == "yes" else "false"}
    attached = set(policies.resolve(template["Resources"]["TargetRole"]["Properties"]["ManagedPolicyArns"], {**DEPLOYED, **acts}))
    assert present == attached | {"TargetRole"}
    assert attached == expected


HUB_ROLE = f"arn:aws:iam::{HUB}:role/ml-idle-reaper/ml-idle-reaper-SweepRole-1A2B"
ASKS = {"aws:PrincipalArn": HUB_ROLE, "aws:PrincipalOrgID": ORGANIZATION, "sts:ExternalId": "x-1"}


def test_the_trust_names_the_hub_account_and_no_role(template: dict[str, Any]):
    """IAM stores a role's unique ID: one that CloudFormation replaces would be refused from then on."""
    assert trust(template)["Principal"] == {"AWS": f"arn:aws:iam::{HUB}:root"}
    assert trust(template, **{"AWS::Partition": "aws-cn"})["Principal"] == {"AWS": f"arn:aws-cn:iam::{HUB}:root"}
    assert policies.conditions_hold(trust(template)["Condition"], ASKS)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"aws:PrincipalArn": f"arn:aws:iam::{HUB}:role/admin"}, id="another role of the hub"),
        pytest.param({"aws:PrincipalArn": f"arn:aws:iam::{HUB}:role/x/ml-idle-reaper/y"}, id="the path within another"),
        pytest.param({"aws:PrincipalArn": f"arn:aws:iam::{HUB}:user/ml-idle-reaper/y"}, id="a user"),
        pytest.param({"aws:PrincipalOrgID": "o-zz12cd34ef"}, id="another organization"),
        pytest.param({"sts:ExternalId": "x-2"}, id="another external ID"),
    ],
)
def test_nothing_else_passes_the_trust(template: dict[str, Any], changed: dict[str, str]):
    conditions = trust(template)["Condition"]
    assert not policies.conditions_hold(conditions, ASKS | changed)
    [key] = changed
    assert not policies.conditions_hold(conditions, {k: v for k, v in ASKS.items() if k != key})


def test_people_at_the_command_line_are_added_by_name(template: dict[str, Any]):
    names = ["ml-idle-reaper/*", "ops", "aws-reserved/sso.amazonaws.com/*/AWSReservedSSO_ML_*"]
    conditions = trust(template, HubRoles=names)["Condition"]
    for role in ("ops", "aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_ML_0a1b", "ml-idle-reaper/SweepRole-1"):
        assert policies.conditions_hold(conditions, ASKS | {"aws:PrincipalArn": f"arn:aws:iam::{HUB}:role/{role}"}), role
    assert not policies.conditions_hold(conditions, ASKS | {"aws:PrincipalArn": f"arn:aws:iam::{HUB}:role/oops"})


def test_without_an_external_id_none_is_required(template: dict[str, Any]):
    conditions = trust(template, HasExternalId="false")["Condition"]
    assert policies.conditions_hold(conditions, {k: v for k, v in ASKS.items() if k != "sts:ExternalId"})


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("ml-idle-reaper/*", True), ("ops", True), ("*", False), ("?*", False), ("/*", False), ("", False)],
)
def test_the_trust_is_never_opened_to_every_role_of_the_hub(template: dict[str, Any], pattern: str, fits: bool):
    assert bool(re.search(template["Parameters"]["HubRoles"]["AllowedPattern"], pattern)) is fits


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_fits_into_a_managed_policy_even_with_every_region(template: dict[str, Any], name: str):
    """6,144 characters without white space: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
    regions = [f"ap-southeast-{number}" for number in range(1, 18)]
    names = {**DEPLOYED, "Regions": regions, "SweepsHere": "false", "SweepsEverywhere": "false"}
    document = policies.resolve(template["Resources"][name]["Properties"]["PolicyDocument"], names)
    assert len(json.dumps(document, separators=(",", ":"))) <= 6144


def test_the_template_fits_a_stack_set(template: dict[str, Any]):
    """A service-managed one takes no macro, and 51,200 bytes inline."""
    assert len(FILE.read_bytes()) <= 51_200
    assert "Transform" not in template
    assert {r["Type"] for r in template["Resources"].values()} == {
        "AWS::IAM::Role",
        "AWS::IAM::ManagedPolicy",
        "AWS::Events::Rule",
    }
    done = subprocess.run([Path(sys.executable).with_name("cfn-lint"), FILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", POLICIES)
def test_parliament_finds_nothing_in_the_policies(template: dict[str, Any], name: str):
    document = policies.resolve(template["Resources"][name]["Properties"]["PolicyDocument"], {**DEPLOYED, "Acts": "true"})
    complaints = map(str, parliament.analyze_policy_string(json.dumps(document)).findings)
    assert [text for text in complaints if "bedrock:ListTags" not in text] == [], (
        "it wants every type of resource that it may be for"
    )


def test_the_names_agree_with_the_hubs(template: dict[str, Any], own: dict[str, Any]):
    assert template["Parameters"]["RoleName"]["Default"] == own["Parameters"]["TargetRoleName"]["Default"]
    default = template["Parameters"]["HubRoles"]["Default"]
    path = policies.resolve(own["Resources"]["SweepRole"]["Properties"]["Path"], {**NAMES, **MODES["audit"]})
    assert f"/{default.removesuffix('*')}" == path
