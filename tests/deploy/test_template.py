from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import parliament
import pytest

from deploy import policies, sam
from deploy.translate import translate
from reaper import registry
from reaper.aws import targets
from reaper.settings import DOCS

ROOT = Path(__file__).parents[2]
NAMES = {
    "SweepLogs.Arn": "arn:aws:logs:us-east-1:123456789012:log-group:sweep:*",
    "ReportBucket": "reports-bucket",
    "ReportBucket.Arn": "arn:aws:s3:::reports-bucket",
    "SummaryTopic": "arn:aws:sns:us-east-1:123456789012:summary",
    "PolicyParameter": "/ml-idle-reaper/policy",
    "HasPolicyParameter": "true",
}


@pytest.fixture(scope="module")
def cloudformation():
    return translate(ROOT / "template.yaml")


def test_cfn_lint_finds_nothing_in_the_translated_template(cloudformation, tmp_path: Path):
    plain = tmp_path / "template.json"
    plain.write_text(json.dumps(cloudformation))
    done = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), plain, ROOT / "template.yaml"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_sam_validates_the_template():
    try:
        done = sam.sam("validate", "--lint", "--template", "template.yaml")
    except sam.Missing as why:
        pytest.skip(str(why))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["AuditPolicy", "ReportPolicy"])
def test_parliament_finds_nothing_in_the_policies(cloudformation, name: str):
    document = policies.resolve(cloudformation["Resources"][name]["Properties"]["PolicyDocument"], NAMES)
    found = parliament.analyze_policy_string(json.dumps(document)).findings
    assert [str(f) for f in found] == []


def test_the_audit_policy_grants_exactly_what_the_kinds_declare(cloudformation):
    [document] = policies.of_template(cloudformation, NAMES, skip={"ReportPolicy"})
    granted = {action for s in policies.statements([document]) for action in policies.listed(s["Action"])}
    declared = {p for kind in registry.kinds("aws") for p in kind.permissions} | set(targets.PERMISSIONS)
    assert granted == declared


def test_nothing_in_the_role_can_change_a_resource(cloudformation):
    granted = {
        a
        for d in policies.of_template(cloudformation, NAMES)
        for s in policies.statements([d])
        for a in policies.listed(s["Action"])
    }
    reading = {a for a in granted if a.split(":")[1].startswith(("List", "Describe", "Get"))}
    assert granted - reading == {"s3:PutObject", "sns:Publish", "logs:CreateLogStream", "logs:PutLogEvents"}


def test_every_setting_that_the_template_sets_is_one_we_know(cloudformation):
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    assert set(variables) <= set(DOCS)
    assert variables["REAPER_MODE"] == {"Ref": "Mode"}
    assert cloudformation["Parameters"]["Mode"]["Default"] == "audit"


def test_the_schedule_has_a_time_zone_and_no_fixed_name(cloudformation):
    [schedule] = [r["Properties"] for r in cloudformation["Resources"].values() if r["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpressionTimezone"] == {"Ref": "ScheduleTimezone"}
    assert "Name" not in schedule, "two stacks in one account would collide"


def test_every_parameter_is_in_the_guide(cloudformation):
    guide = (ROOT / "docs/deploy-aws.md").read_text()
    assert [name for name in cloudformation["Parameters"] if f"`{name}`" not in guide] == []


def test_every_permission_is_in_the_guide(cloudformation):
    guide = (ROOT / "docs/deploy-aws.md").read_text()
    granted = {
        a
        for d in policies.of_template(cloudformation, NAMES)
        for s in policies.statements([d])
        for a in policies.listed(s["Action"])
    }
    assert sorted(a for a in granted if f"`{a}`" not in guide) == []
