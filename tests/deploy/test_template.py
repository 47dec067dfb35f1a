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
from reaper.aws import ledger, snooze_function, targets
from reaper.settings import DOCS

ROOT = Path(__file__).parents[2]
NAMES = {
    "SweepLogs.Arn": "arn:aws:logs:us-east-1:123456789012:log-group:sweep:*",
    "ReportBucket": "reports-bucket",
    "ReportBucket.Arn": "arn:aws:s3:::reports-bucket",
    "SummaryTopic": "arn:aws:sns:us-east-1:123456789012:summary",
    "PolicyParameter": "/ml-idle-reaper/policy",
    "HasPolicyParameter": "true",
    "LedgerTable.Arn": "arn:aws:dynamodb:us-east-1:123456789012:table/ledger",
    "SesIdentity": "arn:aws:ses:us-east-1:123456789012:identity/example.com",
    "HasSesIdentity": "true",
    "SesConfigurationSet": "arn:aws:ses:us-east-1:123456789012:configuration-set/ours",
    "HasSesConfigurationSet": "true",
    "ChannelTopics": ["arn:aws:sns:us-east-1:123456789012:team-a", "arn:aws:sns:eu-west-1:123456789012:team-b"],
    "HasChannelTopics": "true",
    "ChannelSecrets": "arn:aws:secretsmanager:us-east-1:123456789012:secret:reaper/*",
    "HasChannelSecrets": "true",
    "SnoozeSecret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:snooze-AbCdEf",
    "HasSnooze": "true",
    "SnoozeLogs.Arn": "arn:aws:logs:us-east-1:123456789012:log-group:snooze:*",
}
AUDIT = {"AuditPolicy", "ReportPolicy"}
NOTIFY = {*AUDIT, "NoticePolicy"}


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


@pytest.mark.parametrize("name", ["AuditPolicy", "ReportPolicy", "NoticePolicy", "SnoozePolicy"])
def test_parliament_finds_nothing_in_the_policies(cloudformation, name: str):
    document = policies.resolve(cloudformation["Resources"][name]["Properties"]["PolicyDocument"], NAMES)
    found = parliament.analyze_policy_string(json.dumps(document)).findings
    assert [str(f) for f in found] == []


def actions(cloudformation, only: set[str] | None = None) -> set[str]:
    documents = policies.of_template(cloudformation, NAMES, only=only)
    return {a for d in documents for s in policies.statements([d]) for a in policies.listed(s["Action"])}


def test_the_audit_policy_grants_exactly_what_the_kinds_declare(cloudformation):
    declared = {p for kind in registry.kinds("aws") for p in kind.permissions} | set(targets.PERMISSIONS)
    assert actions(cloudformation, {"AuditPolicy"}) == declared


def test_nothing_in_an_audits_role_can_change_anything_but_its_own_report(cloudformation):
    changing = {a for a in actions(cloudformation, AUDIT) if not a.split(":")[1].startswith(("List", "Describe", "Get"))}
    assert changing == {"s3:PutObject", "sns:Publish", "logs:CreateLogStream", "logs:PutLogEvents"}


def test_nothing_in_any_role_can_change_a_machine_learning_resource(cloudformation):
    reading = ("List", "Describe", "Get", "BatchGet", "Query", "Scan")
    changing = {a.split(":")[0] for a in actions(cloudformation) if not a.split(":")[1].startswith(reading)}
    assert changing == {"s3", "sns", "logs", "dynamodb", "ses"}


def test_the_notice_policy_grants_exactly_what_the_ledger_and_the_channels_declare(cloudformation):
    channels = {"ses:SendEmail", "sns:Publish", "secretsmanager:GetSecretValue"}
    assert actions(cloudformation, {"NoticePolicy"}) == {*ledger.PERMISSIONS, *channels}


def test_a_sweep_may_send_where_the_policys_channels_lead_and_nowhere_else(cloudformation):
    plain = {**NAMES, "HasSesConfigurationSet": "false", "HasChannelTopics": "false"}
    topic, configuration = NAMES["ChannelTopics"][1], NAMES["SesConfigurationSet"]
    for names, allowed in ((NAMES, True), (plain, False)):
        found = policies.Policies(policies.of_template(cloudformation, names, only=NOTIFY))
        assert found.allow("ses:SendEmail", NAMES["SesIdentity"])
        assert found.allow("ses:SendEmail", configuration) is allowed
        assert found.allow("sns:Publish", topic) is allowed
        assert found.allow("sns:Publish", NAMES["SummaryTopic"])
        assert not found.allow("sns:Publish", f"{topic}-of-others")


def test_the_keep_links_page_can_do_exactly_what_it_declares(cloudformation):
    log = {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert actions(cloudformation, {"SnoozePolicy"}) == {*snooze_function.PERMISSIONS, *log}


@pytest.mark.parametrize("function", ["SweepFunction", "SnoozeFunction"])
def test_every_setting_that_the_template_sets_is_one_we_know(cloudformation, function: str):
    variables = cloudformation["Resources"][function]["Properties"]["Environment"]["Variables"]
    assert {name for name in variables if name.startswith("REAPER_")} <= set(DOCS)


def test_a_deployment_is_an_audit_unless_somebody_says_otherwise(cloudformation):
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["REAPER_MODE"] == {"Ref": "Mode"}
    assert cloudformation["Parameters"]["Mode"]["Default"] == "audit"


def test_the_schedule_has_a_time_zone_and_no_fixed_name(cloudformation):
    [schedule] = [r["Properties"] for r in cloudformation["Resources"].values() if r["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["ScheduleExpressionTimezone"] == {"Ref": "ScheduleTimezone"}
    assert "Name" not in schedule, "two stacks in one account would collide"


def test_every_parameter_and_permission_is_in_the_guide(cloudformation):
    guide = (ROOT / "docs/deploy-aws.md").read_text()
    wanted = {*cloudformation["Parameters"], *actions(cloudformation)}
    assert sorted(name for name in wanted if f"`{name}`" not in guide) == []
