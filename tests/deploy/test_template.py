from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import parliament
import pytest

from deploy import policies, sam
from deploy.translate import translate
from reaper import registry
from reaper.aws import ledger, snooze_function, targets
from reaper.model import Mode
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
    "EnforceRole.Arn": "arn:aws:iam::123456789012:role/enforce",
}
AUDIT = {"AuditPolicy", "ReportPolicy"}
NOTIFY = {*AUDIT, "NoticePolicy"}
ENFORCE_OWN = {"ReportPolicy", "NoticePolicy", "EnforceAccess"}
"""What the function itself has in mode enforce: nothing of SageMaker at all."""
ENFORCE = {"AuditPolicy", "EnforcePolicy", "GuardPolicy"}
"""What it takes on as the enforce role."""
TELLING = {"Tells": "true"}
MODES = {"audit": {}, "notify": TELLING, "announce": TELLING, "enforce": {**TELLING, "Acts": "true"}}
SAGEMAKER = "arn:aws:sagemaker:us-east-1:123456789012:"


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


@pytest.mark.parametrize(
    "name", ["AuditPolicy", "ReportPolicy", "NoticePolicy", "SnoozePolicy", "EnforcePolicy", "GuardPolicy", "EnforceAccess"]
)
def test_parliament_finds_nothing_in_the_policies(cloudformation, name: str):
    document = policies.resolve(cloudformation["Resources"][name]["Properties"]["PolicyDocument"], NAMES)
    found = parliament.analyze_policy_string(json.dumps(document)).findings
    assert [str(f) for f in found] == []


def actions(cloudformation, only: set[str] | None = None) -> set[str]:
    documents = policies.of_template(cloudformation, NAMES, only=only)
    return {a for s in policies.statements(documents) if s["Effect"] == "Allow" for a in policies.listed(s["Action"])}


def test_the_audit_policy_grants_exactly_what_the_kinds_declare(cloudformation):
    declared = {p for kind in registry.kinds("aws") for p in kind.permissions} | set(targets.PERMISSIONS)
    assert actions(cloudformation, {"AuditPolicy"}) == declared


def test_nothing_in_an_audits_role_can_change_anything_but_its_own_report(cloudformation):
    changing = {a for a in actions(cloudformation, AUDIT) if not a.split(":")[1].startswith(("List", "Describe", "Get"))}
    assert changing == {"s3:PutObject", "sns:Publish", "logs:CreateLogStream", "logs:PutLogEvents"}


READING = ("List", "Describe", "Get", "BatchGet", "Query", "Scan")


def test_nothing_but_the_enforce_role_can_change_a_machine_learning_resource(cloudformation):
    names = {n for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::IAM::ManagedPolicy"} - {"EnforcePolicy"}
    changing = {a.split(":")[0] for a in actions(cloudformation, names) if not a.split(":")[1].startswith(READING)}
    assert changing == {"s3", "sns", "logs", "dynamodb", "ses", "sts"}


@pytest.mark.parametrize(("mode", "own"), [("audit", AUDIT), ("notify", NOTIFY), ("announce", NOTIFY), ("enforce", ENFORCE_OWN)])
def test_the_function_has_of_itself_what_its_mode_needs(cloudformation, mode: str, own: set[str]):
    assert policies.of_role(cloudformation, "SweepRole", MODES[mode]) == own


def test_the_template_takes_every_mode_and_all_above_audit_keep_the_ledger(cloudformation):
    assert cloudformation["Parameters"]["Mode"]["AllowedValues"] == [mode.value for mode in Mode]
    assert cloudformation["Conditions"]["Tells"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "Mode"}, "audit"]}]}
    assert {mode for mode, conditions in MODES.items() if "Tells" in conditions} == {m.value for m in Mode if m.writes}
    assert {mode for mode, conditions in MODES.items() if "Acts" in conditions} == {m.value for m in Mode if m.acts}


def test_what_can_act_is_made_in_mode_enforce_and_in_no_other(cloudformation):
    resources = cloudformation["Resources"]
    assert cloudformation["Conditions"]["Acts"] == {"Fn::Equals": [{"Ref": "Mode"}, "enforce"]}
    for name in ("EnforceRole", "EnforcePolicy", "GuardPolicy", "EnforceAccess"):
        assert resources[name]["Condition"] == "Acts", name
    holders = {n for n, r in resources.items() if r["Type"] == "AWS::IAM::Role" and "EnforcePolicy" in json.dumps(r)}
    assert holders == {"EnforceRole"}


def test_the_enforce_role_is_the_functions_alone_and_carries_its_guard(cloudformation):
    properties = cloudformation["Resources"]["EnforceRole"]["Properties"]
    [trust] = properties["AssumeRolePolicyDocument"]["Statement"]
    assert (trust["Principal"], trust["Action"]) == ({"AWS": {"Fn::GetAtt": ["SweepRole", "Arn"]}}, "sts:AssumeRole")
    assert policies.of_role(cloudformation, "EnforceRole", MODES["enforce"]) == ENFORCE
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    absent = {"Ref": "AWS::NoValue"}
    assert variables["REAPER_ROLE"] == {"Fn::If": ["Acts", {"Fn::GetAtt": ["EnforceRole", "Arn"]}, absent]}
    assert variables["REAPER_MANIFESTS"]["Fn::If"][0] == "Acts"


def test_the_enforce_policy_grants_exactly_what_the_deeds_need_on_top_of_reading(cloudformation):
    needed = {p for kind in registry.kinds("aws") for deed in kind.deeds.values() for p in deed.permissions}
    assert actions(cloudformation, {"EnforcePolicy"}) == needed - actions(cloudformation, {"AuditPolicy"})


ACTS = [
    ("sagemaker:StopNotebookInstance", "notebook-instance/n"),
    ("sagemaker:StartNotebookInstance", "notebook-instance/n"),
    ("sagemaker:DeleteApp", "app/d/s/jupyterlab/default"),
    ("sagemaker:UpdateEndpointWeightsAndCapacities", "endpoint/e"),
    ("sagemaker:DeleteEndpoint", "endpoint/e"),
    ("sagemaker:UpdateInferenceComponentRuntimeConfig", "inference-component/c"),
    ("sagemaker:DeleteInferenceComponent", "inference-component/c"),
]
DELETES = {"sagemaker:DeleteEndpoint", "sagemaker:DeleteInferenceComponent"}


@pytest.mark.parametrize(("action", "name"), ACTS)
@pytest.mark.parametrize(
    ("tags", "stops", "deletes"),
    [
        pytest.param({}, True, True, id="no tags"),
        pytest.param({"team": "vision"}, True, True, id="other tags"),
        pytest.param({"reaper:keep": "true"}, False, False, id="kept"),
        pytest.param({"reaper:keep": "until the paper is out"}, False, False, id="kept in other words"),
        pytest.param({"reaper:keep": ""}, False, False, id="kept without a word"),
        pytest.param({"Reaper:Keep": "TRUE"}, False, False, id="kept in other letters"),
        pytest.param({"reaper:keep": "False"}, True, True, id="kept no more"),
        pytest.param({"reaper:keep-until": "2999-01-01"}, True, True, id="kept for long: the code knows dates and IAM does not"),
        pytest.param({"reaper:keep-until": "2001-01-01"}, True, True, id="kept until a day that is over"),
        pytest.param({"reaper:action": "ignore"}, False, False, id="ignored"),
        pytest.param({"reaper:action": "Notify"}, False, False, id="told only"),
        pytest.param({"reaper:action": "stopp"}, False, False, id="misspelt"),
        pytest.param({"reaper:action": "stop"}, True, False, id="stopped at most"),
        pytest.param({"reaper:action": "delete"}, True, True, id="deleted at most"),
    ],
)
def test_iam_itself_denies_what_a_tag_protects(cloudformation, action: str, name: str, tags: dict, stops: bool, deletes: bool):
    documents = policies.of_template(cloudformation, NAMES, only=ENFORCE)
    context = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    assert policies.evaluate(documents, action, SAGEMAKER + name, context) is (deletes if action in DELETES else stops)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ("", True),
        ("arn:aws:secretsmanager:us-east-1:123456789012:secret:reaper/*", True),
        ("arn:aws-us-gov:secretsmanager:*:123456789012:secret:reaper/hook-a1B2c3", True),
        ("arn:aws:secretsmanager:r:1:secret:a, arn:aws:secretsmanager:r:1:secret:b", False),
        ("arn:aws:secretsmanager:r:1:secret:a,arn:aws:secretsmanager:r:1:secret:b", False),
    ],
)
def test_the_channels_secrets_are_one_pattern_and_no_list(cloudformation, given: str, fits: bool):
    pattern = cloudformation["Parameters"]["ChannelSecrets"]["AllowedPattern"]
    assert bool(re.search(pattern, given)) is fits


@pytest.mark.parametrize(
    "action",
    [
        *(
            f"sagemaker:Delete{what}"
            for what in ("NotebookInstance", "Space", "Domain", "UserProfile", "Model", "EndpointConfig")
        ),
        *(f"sagemaker:Delete{what}" for what in ("FeatureGroup", "ModelPackage", "Image", "Cluster", "Pipeline")),
        "sagemaker:AddTags",
        "sagemaker:DeleteTags",
        "tag:UntagResources",
        "s3:DeleteObject",
        "elasticfilesystem:DeleteFileSystem",
        "ec2:DeleteVolume",
    ],
)
def test_data_and_tags_stay_out_of_reach_even_under_administrators_rights(cloudformation, action: str):
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    documents = [*policies.of_template(cloudformation, NAMES, only=ENFORCE), everything]
    assert not policies.evaluate(documents, action, SAGEMAKER + "anything", {})


def test_autoscaling_is_changed_for_sagemaker_only(cloudformation):
    documents = policies.of_template(cloudformation, NAMES, only=ENFORCE)
    target = "arn:aws:application-autoscaling:us-east-1:123456789012:scalable-target/0ec5"
    for service, allowed in (("sagemaker", True), ("ecs", False)):
        context = {"application-autoscaling:service-namespace": service}
        assert policies.evaluate(documents, "application-autoscaling:RegisterScalableTarget", target, context) is allowed


def test_a_manifest_can_be_written_once_and_never_read_changed_or_deleted_by_the_sweep(cloudformation):
    own = policies.of_template(cloudformation, NAMES, only=ENFORCE_OWN)
    place = f"{NAMES['ReportBucket.Arn']}/manifests/run/one.json"
    assert policies.evaluate(own, "s3:PutObject", place, {"s3:if-none-match": "*"})
    assert not policies.evaluate(own, "s3:PutObject", place, {})
    for action in ("s3:GetObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert not policies.evaluate(own, action, place, {"s3:if-none-match": "*"})
    bucket = cloudformation["Resources"]["ReportBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    [rule] = [s for s in bucket if s["Sid"] == "NoManifestIsWrittenOver"]
    assert rule["Condition"]["Null"] == {"s3:if-none-match": "true"}


def test_old_reports_go_and_manifests_stay(cloudformation):
    bucket = cloudformation["Resources"]["ReportBucket"]["Properties"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert [rule["Prefix"] for rule in bucket["LifecycleConfiguration"]["Rules"]] == ["reports/"]


@pytest.mark.parametrize(
    ("alarm", "metric", "condition"), [("ActsFailedAlarm", "ActsFailed", "Acts"), ("HeldAlarm", "Held", "Announces")]
)
def test_admins_are_told_of_acts_that_failed_or_are_held(cloudformation, alarm: str, metric: str, condition: str):
    found = cloudformation["Resources"][alarm]
    assert (found["Condition"], found["Properties"]["MetricName"]) == (condition, metric)
    assert found["Properties"]["AlarmActions"] == [{"Ref": "SummaryTopic"}]
    assert f'"{metric}"' in (ROOT / "functions/reaper/aws/lambda_function.py").read_text()


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


def test_the_sweep_is_told_which_secrets_its_role_may_read(cloudformation):
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    granted = {"Fn::If": ["HasChannelSecrets", {"Ref": "ChannelSecrets"}, {"Ref": "AWS::NoValue"}]}
    assert variables["REAPER_SECRETS"] == granted


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
