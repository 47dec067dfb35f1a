from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import parliament
import pytest

from deploy import policies, sam
from reaper import registry
from reaper.aws import targets
from reaper.aws.functions import snooze
from reaper.aws.stores import dynamodb
from reaper.ledger.rows import DOCUMENT
from reaper.model import Mode
from reaper.settings import SETTING_DOCS

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
    "SesFrom": "reaper@example.com",
    "HasSesFrom": "true",
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
    "SweepFunction.Arn": "arn:aws:lambda:us-east-1:123456789012:function:sweep",
    "WorkflowFunction.Arn": "arn:aws:lambda:us-east-1:123456789012:function:workflow",
    "TargetFunction.Arn": "arn:aws:lambda:us-east-1:123456789012:function:target",
    "Workflow": "arn:aws:states:us-east-1:123456789012:stateMachine:ml-idle-reaper-sweep",
    "TargetRoleName": "ml-idle-reaper-target",
    "AlarmQueue.Arn": "arn:aws:sqs:us-east-1:123456789012:alarms",
    "AlarmDeadLetters.QueueName": "dead-alarms",
    "WorkflowLogs.Arn": "arn:aws:logs:us-east-1:123456789012:log-group:/aws/vendedlogs/states/ml-idle-reaper-sweep:*",
    "SpansAccounts": "true",
    "Regions": ["us-east-1", "eu-west-1"],
    "KmsKey": "arn:aws:kms:us-east-1:123456789012:key/ours",
    "HasKmsKey": "true",
    "SignsByKmsKey": "true",
    "ChannelKeys": ["arn:aws:kms:us-east-1:123456789012:key/of-the-channels"],
    "HasChannelKeys": "true",
}
AUDIT = {"AuditPolicy", "ReportPolicy"}
NOTIFY = {*AUDIT, "NoticePolicy"}
ENFORCE_OWN = {"ReportPolicy", "NoticePolicy", "EnforceAccess"}
"""What the function itself has in mode enforce: nothing of SageMaker at all."""
ALARM_RUNS = {
    "AlarmRule",
    "AlarmQueue",
    "AlarmQueuePolicy",
    "AlarmDeadLetters",
    "AlarmSource",
    "AlarmPolicy",
    "AlarmRunFailedAlarm",
}
"""What looks out for alarms of this account."""
ENFORCE = {"AuditPolicy", "EnforcePolicy", "GuardPolicy"}
"""What it takes on as the enforce role."""
TELLING = {"Tells": "true"}
MODES = {"audit": {}, "notify": TELLING, "announce": TELLING, "enforce": {**TELLING, "Acts": "true"}}
SAGEMAKER = "arn:aws:sagemaker:us-east-1:123456789012:"


def test_cfn_lint_finds_nothing_in_the_translated_template(cloudformation, tmp_path: Path):
    plain = tmp_path / "template.json"
    plain.write_text(json.dumps(cloudformation))
    completed = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), plain, ROOT / "template.yaml"], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout) == (0, "")


def test_sam_validates_the_template():
    try:
        completed = sam.sam("validate", "--lint", "--template", "template.yaml")
    except sam.Missing as why:
        pytest.skip(str(why))
    assert completed.returncode == 0, completed.stdout + completed.stderr


@pytest.mark.parametrize(
    "name",
    [
        "AuditPolicy",
        "ReportPolicy",
        "NoticePolicy",
        "SnoozePolicy",
        "EnforcePolicy",
        "GuardPolicy",
        "EnforceAccess",
        "SchedulePolicy",
        "WorkflowPolicy",
        "AccountsPolicy",
        "AlarmPolicy",
    ],
)
def test_parliament_finds_nothing_in_the_policies(cloudformation, name: str):
    document = policies.resolve(cloudformation["Resources"][name]["Properties"]["PolicyDocument"], NAMES)
    complaints = map(str, parliament.analyze_policy_string(json.dumps(document)).findings)
    assert [text for text in complaints if "express:" not in text and "bedrock:ListTags" not in text] == [], (
        "it wants every type of resource that an action may be for"
    )


def actions(cloudformation, only: set[str] | None = None) -> set[str]:
    documents = policies.of_template(cloudformation, NAMES, only=only)
    return {a for s in policies.statements(documents) if s["Effect"] == "Allow" for a in policies.listed(s["Action"])}


def test_the_audit_policy_grants_exactly_what_the_kinds_declare(cloudformation):
    declared = {p for kind in registry.kinds("aws") for p in kind.permissions} | set(targets.PERMISSIONS)
    assert actions(cloudformation, {"AuditPolicy"}) == declared


def test_nothing_in_an_audits_role_can_change_anything_but_its_own_report(cloudformation):
    changing = {a for a in actions(cloudformation, AUDIT) if not a.split(":")[1].startswith(("List", "Describe", "Get"))}
    keys = {"kms:Decrypt", "kms:GenerateDataKey"}
    assert changing == {"s3:PutObject", "sns:Publish", "logs:CreateLogStream", "logs:PutLogEvents", *keys}


READING = ("List", "Describe", "Get", "BatchGet", "Query", "Scan")


def test_only_what_aws_cannot_scope_is_granted_everywhere(cloudformation):
    """Everything else names the table, the bucket's folder, the secret, or a sort of resource of this account."""
    allowed = [s for s in policies.statements(policies.of_template(cloudformation, NAMES)) if s["Effect"] == "Allow"]
    everywhere = {s["Sid"] for s in allowed for r in policies.listed(s["Resource"]) if r == "*" or r.count(":") < 5}
    assert everywhere == {"ListAndMeasure", "LookAgain", "ListAccounts", "DeliverLogs"}
    unscoped = everywhere - {"DeliverLogs"}
    granted = [action for s in allowed if s["Sid"] in unscoped for action in policies.listed(s["Action"])]
    assert [action for action in granted if not action.split(":")[1].startswith(READING)] == []


def test_only_the_enforce_role_can_change_a_machine_learning_resource(cloudformation):
    names = {n for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::IAM::ManagedPolicy"} - {"EnforcePolicy"}
    changing = {a.split(":")[0] for a in actions(cloudformation, names) if not a.split(":")[1].startswith(READING)}
    assert changing == {"s3", "sns", "logs", "dynamodb", "ses", "sts", "kms", "lambda", "states", "sqs"}


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


def test_the_enforce_policy_allows_exactly_what_actions_need_past_reading(cloudformation):
    needed = {p for kind in registry.kinds("aws") for deed in kind.actions.values() for p in deed.permissions}
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
    context = {"aws:RequestedRegion": "us-east-1"} | {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    assert policies.evaluate(documents, action, SAGEMAKER + name, context) is (deletes if action in DELETES else stops)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("", True),
        ("arn:aws:secretsmanager:us-east-1:123456789012:secret:reaper/*", True),
        ("arn:aws-us-gov:secretsmanager:*:123456789012:secret:reaper/hook-a1B2c3", True),
        ("arn:aws:secretsmanager:r:1:secret:a, arn:aws:secretsmanager:r:1:secret:b", False),
        ("arn:aws:secretsmanager:r:1:secret:a,arn:aws:secretsmanager:r:1:secret:b", False),
    ],
)
def test_the_channels_secrets_are_one_pattern_and_no_list(cloudformation, value: str, fits: bool):
    pattern = cloudformation["Parameters"]["ChannelSecrets"]["AllowedPattern"]
    assert bool(re.search(pattern, value)) is fits


DATA = [
    *(
        "Cluster",
        "Domain",
        "EndpointConfig",
        "Experiment",
        "FeatureGroup",
        "Image",
        "ImageVersion",
        "MlflowTrackingServer",
        "Model",
    ),
    *("ModelPackage", "ModelPackageGroup", "NotebookInstance", "Pipeline", "Project", "Space", "UserProfile"),
]


@pytest.mark.parametrize(
    "action",
    [
        *(f"sagemaker:Delete{what}" for what in DATA),
        *("sagemaker:AddTags", "sagemaker:DeleteTags", "tag:TagResources", "tag:UntagResources"),
        *("s3:DeleteBucket", "s3:DeleteObject", "s3:DeleteObjectVersion", "ec2:DeleteSnapshot", "ec2:DeleteVolume"),
        *("elasticfilesystem:DeleteFileSystem", "fsx:DeleteFileSystem"),
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
        context = {"application-autoscaling:service-namespace": service, "aws:RequestedRegion": "us-east-1"}
        assert policies.evaluate(documents, "application-autoscaling:RegisterScalableTarget", target, context) is allowed


@pytest.mark.parametrize("action", ["DeregisterScalableTarget", "RegisterScalableTarget", "PutScalingPolicy"])
@pytest.mark.parametrize("tag", [{"reaper:keep": "yes"}, {"Reaper:Action": "notify"}])
def test_iam_denies_autoscaling_whose_own_tag_protects_it(cloudformation, action: str, tag: dict[str, str]):
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    documents = [*policies.of_template(cloudformation, NAMES, only=ENFORCE), everything]
    target = "arn:aws:application-autoscaling:us-east-1:123456789012:scalable-target/0ec5"
    tags = {f"aws:ResourceTag/{key}": value for key, value in tag.items()}
    assert policies.evaluate(documents, f"application-autoscaling:{action}", target, {})
    assert not policies.evaluate(documents, f"application-autoscaling:{action}", target, tags)


SCALES = [(f"application-autoscaling:{name}ScalableTarget", "") for name in ("Register", "Deregister")]


@pytest.mark.parametrize(("action", "name"), [*ACTS, *SCALES])
@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        pytest.param({}, {"us-east-1", "eu-west-1"}, id="the regions listed"),
        pytest.param({"SweepsHere": "true", "Regions": [""]}, {"us-east-1"}, id="the stack's own"),
        pytest.param({"SweepsEverywhere": "true"}, {"us-east-1", "eu-west-1", "ap-south-1"}, id="all"),
    ],
)
def test_nothing_is_changed_outside_the_regions_listed(cloudformation, action: str, name: str, names: dict, allowed: set[str]):
    documents = policies.of_template(cloudformation, {**NAMES, **names}, only=ENFORCE)
    stem, regions = SAGEMAKER if name else "arn:aws:application-autoscaling:us-east-1:123456789012:scalable-target/0ec5", set()
    for region in ("us-east-1", "eu-west-1", "ap-south-1"):
        context = {"aws:RequestedRegion": region, "application-autoscaling:service-namespace": "sagemaker"}
        if policies.evaluate(documents, action, (stem + name).replace("us-east-1", region), context):
            regions.add(region)
    assert regions == allowed


def test_every_changing_statement_of_the_enforce_role_knows_its_regions(cloudformation):
    documents = policies.of_template(cloudformation, NAMES, only={"EnforcePolicy"})
    for statement in policies.statements(documents):
        changes = [a for a in policies.listed(statement["Action"]) if not a.split(":")[1].startswith(READING)]
        regions = statement.get("Condition", {}).get("StringLike", {}).get("aws:RequestedRegion")
        assert bool(changes) is (regions == NAMES["Regions"]), statement["Sid"]


@pytest.mark.parametrize(
    ("value", "fits"), [("", True), ("all", True), ("eu-west-1", True), ("us-gov-west-1", True), ("*", False)]
)
def test_regions_are_named_and_not_matched(cloudformation, value: str, fits: bool):
    """CloudFormation looks at each value of the list, without the spaces around it."""
    regions = cloudformation["Parameters"]["Regions"]
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["REAPER_REGIONS"] == {"Fn::Join": [",", {"Ref": "Regions"}]}
    assert regions["Type"] == "CommaDelimitedList"
    assert bool(re.search(regions["AllowedPattern"], value)) is fits


def test_the_sweep_can_write_a_manifest_once_but_not_read_or_change_it(cloudformation):
    own = policies.of_template(cloudformation, NAMES, only=ENFORCE_OWN)
    place = f"{NAMES['ReportBucket.Arn']}/manifests/run/one.json"
    assert policies.evaluate(own, "s3:PutObject", place, {"s3:if-none-match": "*"})
    assert not policies.evaluate(own, "s3:PutObject", place, {})
    for action in ("s3:GetObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert not policies.evaluate(own, action, place, {"s3:if-none-match": "*"})
    assert policies.evaluate(own, "s3:ListBucket", NAMES["ReportBucket.Arn"], {"s3:prefix": "manifests/2026-11-24/"})
    assert not policies.evaluate(own, "s3:ListBucket", NAMES["ReportBucket.Arn"], {"s3:prefix": "reports/"})
    bucket = cloudformation["Resources"]["ReportBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    [rule] = [s for s in bucket if s["Sid"] == "NoManifestIsWrittenOver"]
    assert rule["Condition"]["Null"] == {"s3:if-none-match": "true"}


def test_old_reports_go_and_manifests_stay(cloudformation):
    bucket = cloudformation["Resources"]["ReportBucket"]["Properties"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    days = {rule["Prefix"]: rule["ExpirationInDays"] for rule in bucket["LifecycleConfiguration"]["Rules"]}
    assert days == {"reports/": {"Ref": "ReportRetentionDays"}, "runs/": 30}


@pytest.mark.parametrize(
    ("alarm", "metric", "condition"), [("ActsFailedAlarm", "ActsFailed", "Acts"), ("HeldAlarm", "Held", "Announces")]
)
def test_admins_are_told_of_acts_that_failed_or_are_held(cloudformation, alarm: str, metric: str, condition: str):
    resource = cloudformation["Resources"][alarm]
    assert (resource["Condition"], resource["Properties"]["MetricName"]) == (condition, metric)
    assert resource["Properties"]["AlarmActions"] == [{"Ref": "SummaryTopic"}]


def test_the_notice_policy_grants_exactly_what_ledger_and_channels_declare(cloudformation):
    channels = {"ses:SendEmail", "sns:Publish", "secretsmanager:GetSecretValue"}
    assert actions(cloudformation, {"NoticePolicy"}) == {
        *dynamodb.PERMISSIONS,
        *channels,
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }


def test_a_sweep_may_send_where_the_policys_channels_lead_and_nowhere_else(cloudformation):
    plain = {**NAMES, "HasSesConfigurationSet": "false", "HasChannelTopics": "false"}
    topic, configuration = NAMES["ChannelTopics"][1], NAMES["SesConfigurationSet"]
    ours = {"ses:FromAddress": NAMES["SesFrom"]}
    for names, allowed in ((NAMES, True), (plain, False)):
        rights = policies.Policies(policies.of_template(cloudformation, names, only=NOTIFY))
        assert rights.allow("ses:SendEmail", NAMES["SesIdentity"], ours)
        assert rights.allow("ses:SendEmail", configuration, ours) is allowed
        assert rights.allow("sns:Publish", topic) is allowed
        assert rights.allow("sns:Publish", NAMES["SummaryTopic"])
        assert not rights.allow("sns:Publish", f"{topic}-of-others")


ANY_ADDRESS = {"HasSesFrom": "false"}
ONE_ADDRESS = {**ANY_ADDRESS, "SesIdentity": "arn:aws:ses:us-east-1:123456789012:identity/reaper@example.com"}


@pytest.mark.parametrize(
    ("names", "sender", "allowed"),
    [
        pytest.param({}, "reaper@example.com", True, id="the address given"),
        pytest.param({}, "ceo@example.com", False, id="another address of the same domain"),
        pytest.param(ANY_ADDRESS, "ceo@example.com", True, id="any of the domain where none is given"),
        pytest.param(ANY_ADDRESS, "reaper@ml.example.com", True, id="below the domain"),
        pytest.param(ANY_ADDRESS, "reaper@notexample.com", False, id="another domain"),
        pytest.param(ONE_ADDRESS, "reaper@example.com", True, id="the identity is an address"),
        pytest.param(ONE_ADDRESS, "ceo@example.com", False, id="and no other address"),
        pytest.param({}, None, False, id="no address at all"),
    ],
)
def test_mail_comes_from_the_notices_own_address(cloudformation, names: dict[str, str], sender: str | None, allowed: bool):
    documents = policies.of_template(cloudformation, {**NAMES, **names}, only=NOTIFY)
    context = {"ses:FromAddress": sender} if sender else {}
    identity = {**NAMES, **names}["SesIdentity"]
    assert policies.evaluate(documents, "ses:SendEmail", identity, context) is allowed


def test_the_keep_links_page_can_do_exactly_what_it_declares(cloudformation):
    log = {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert actions(cloudformation, {"SnoozePolicy"}) == {*snooze.PERMISSIONS, *log, "kms:Decrypt"}


SNOOZED = ["pk", "sk", "id", "document", "expires", "touched", "version", "writer"]
NOTED = ["pk", "sk", "id", "document", "expires", "touched"]


@pytest.mark.parametrize(
    ("operation", "keys", "attributes", "more", "allowed"),
    [
        pytest.param("PutItem", "snooze#e", SNOOZED, {}, True, id="a snooze"),
        pytest.param("PutItem", "snooze#e", SNOOZED, {"ReturnValues": "NONE"}, True, id="a snooze that wants nothing back"),
        pytest.param("PutItem", "snooze#e", SNOOZED, {"ReturnValues": "ALL_OLD"}, False, id="one that reads as well"),
        pytest.param("PutItem", "snooze#e", [*SNOOZED, "holder"], {}, False, id="a snooze with more in it"),
        pytest.param("PutItem", "record#e", SNOOZED, {}, False, id="what happened to a resource"),
        pytest.param("PutItem", "visit#v", SNOOZED, {}, False, id="another list behind a link"),
        pytest.param("PutItem", "visit#v", NOTED, {}, False, id="a list behind a link"),
        pytest.param("GetItem", "visit#v", None, {}, True, id="reading what a link opens"),
        pytest.param("BatchGetItem", ["visit#v", "visit#w"], None, {}, False, id="reading what many links open"),
        pytest.param("Query", "visit#v", None, {}, False, id="a query for links"),
        pytest.param("DeleteItem", "visit#v", None, {}, False, id="deleting a link"),
        pytest.param("PutItem", "snooze#e", None, {}, False, id="a snooze that names no attribute"),
        pytest.param("PutItem", None, SNOOZED, {}, False, id="a snooze without a key"),
        pytest.param("PutItem", ["snooze#e", "record#e"], SNOOZED, {}, False, id="a record along with a snooze"),
        pytest.param("PutItem", "history#e", SNOOZED, {}, False, id="a snooze in the history"),
        pytest.param("PutItem", "state#hold", SNOOZED, {}, False, id="a hold"),
        pytest.param("PutItem", "lease#aws/1/r", SNOOZED, {}, False, id="a lease"),
        pytest.param("UpdateItem", "snooze#e", SNOOZED, {}, False, id="a change of a snooze"),
        pytest.param("UpdateItem", "record#e", SNOOZED, {}, False, id="a change of a record"),
        pytest.param("UpdateItem", "history#e", NOTED, {}, False, id="a change of the history"),
        pytest.param("UpdateItem", "state#hold", SNOOZED, {}, False, id="a change of a hold"),
        pytest.param("PutItem", "history#e", NOTED, {}, True, id="an entry of the history"),
        pytest.param("PutItem", "history#e", [*NOTED, "version"], {}, False, id="an entry with more in it"),
        pytest.param("PutItem", "history#e", NOTED, {"ReturnValues": "ALL_OLD"}, False, id="an entry that reads as well"),
        pytest.param("PutItem", "history#e", None, {}, False, id="an entry that names no attribute"),
        pytest.param("PutItem", None, NOTED, {}, False, id="an entry without a key"),
        pytest.param("PutItem", "record#e", NOTED, {}, False, id="a record written over"),
        pytest.param("PutItem", "state#format", NOTED, {}, False, id="another format"),
        pytest.param("PutItem", "state#open targets", SNOOZED, {}, False, id="the open targets"),
        pytest.param("PutItem", "saving#e", SNOOZED, {}, False, id="a saving"),
        pytest.param("BatchGetItem", ["record#e", "snooze#e"], None, {}, True, id="reading a record and its snooze"),
        pytest.param("GetItem", "snooze#e", None, {}, True, id="reading it again after a write that was lost"),
        pytest.param("GetItem", "state#format", None, {}, True, id="reading the format"),
        pytest.param("GetItem", "state#paused", None, {}, False, id="reading the stop switch"),
        pytest.param("GetItem", "history#e", None, {}, False, id="reading the history"),
        pytest.param("GetItem", "state#open targets", None, {}, False, id="reading the open targets"),
        pytest.param("BatchGetItem", ["record#e", "state#format"], None, {}, False, id="reading a named row along with a record"),
        pytest.param("GetItem", None, None, {}, False, id="reading one without a key"),
        pytest.param("BatchGetItem", None, None, {}, False, id="reading without a key"),
        pytest.param("DeleteItem", "record#e", None, {}, False, id="forgetting a record"),
        pytest.param("DeleteItem", "snooze#e", None, {}, False, id="forgetting a snooze"),
        pytest.param("Query", "record#e", None, {}, False, id="a query for records"),
        pytest.param("Query", "snooze#e", None, {}, False, id="a query for snoozes"),
        pytest.param("Scan", None, None, {}, False, id="a scan"),
    ],
)
def test_the_page_may_write_a_snooze_and_its_history_only(cloudformation, operation, keys, attributes, more, allowed: bool):
    documents = policies.of_template(cloudformation, NAMES, only={"SnoozePolicy"})
    keys_and_values = {"LeadingKeys": policies.listed(keys) if keys else None, "Attributes": attributes, **more}
    context = {f"dynamodb:{key}": value for key, value in keys_and_values.items() if value is not None}
    assert policies.evaluate(documents, f"dynamodb:{operation}", NAMES["LedgerTable.Arn"], context) is allowed


def test_the_attributes_a_snooze_may_write_are_those_of_its_item(cloudformation):
    documents = policies.of_template(cloudformation, NAMES, only={"SnoozePolicy"})
    granted = {
        s["Sid"]: s["Condition"].get("ForAllValues:StringEquals", {}) for s in policies.statements(documents) if "Condition" in s
    }
    assert set(granted["Keep"]["dynamodb:Attributes"]) == {"id", DOCUMENT, *dynamodb.OWN_ATTRIBUTES}
    assert set(granted["Note"]["dynamodb:Attributes"]) == {"id", DOCUMENT, "pk", "sk", "expires", "touched"}


def test_only_this_accounts_schedules_can_use_the_schedules_role(cloudformation):
    resources = cloudformation["Resources"]
    [schedule] = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::Scheduler::Schedule"]
    assert schedule["Target"]["RoleArn"] == {"Fn::GetAtt": ["ScheduleRole", "Arn"]}
    assert "GroupName" not in schedule, "then the group of the trust below is another one"
    [trust] = policies.resolve(resources["ScheduleRole"]["Properties"]["AssumeRolePolicyDocument"], NAMES)["Statement"]
    group = "arn:aws:scheduler:us-east-1:123456789012:schedule-group/default"
    ours = {"aws:SourceAccount": "123456789012", "aws:SourceArn": group}
    assert (trust["Principal"], trust["Action"]) == ({"Service": "scheduler.amazonaws.com"}, "sts:AssumeRole")
    assert policies.conditions_hold(trust["Condition"], ours)
    for other in ({**ours, "aws:SourceAccount": "999999999999"}, {**ours, "aws:SourceArn": f"{group}-of-others"}, {}):
        assert not policies.conditions_hold(trust["Condition"], other)


@pytest.mark.parametrize(
    ("spans", "action", "target"),
    [
        pytest.param("false", "lambda:InvokeFunction", "SweepFunction.Arn", id="this account only"),
        pytest.param("true", "states:StartExecution", "Workflow", id="several accounts"),
    ],
)
def test_the_schedule_can_start_the_sweep_and_do_nothing_else(cloudformation, spans: str, action: str, target: str):
    assert policies.of_role(cloudformation, "ScheduleRole", MODES["enforce"]) == {"SchedulePolicy"}
    names = {**NAMES, "SpansAccounts": spans, "ScheduleRole.Arn": "the schedule's"}
    [statement] = policies.statements(policies.of_template(cloudformation, names, only={"SchedulePolicy"}))
    assert (statement["Action"], statement["Resource"]) == (action, NAMES[target])
    [schedule] = [r["Properties"] for r in cloudformation["Resources"].values() if r["Type"] == "AWS::Scheduler::Schedule"]
    assert policies.resolve(schedule["Target"]["Arn"], names) == NAMES[target]


def test_the_ledger_outlives_the_stack_and_a_hasty_delete(cloudformation):
    table = cloudformation["Resources"]["LedgerTable"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert table["Properties"]["DeletionProtectionEnabled"] is True


def encryption(cloudformation, names: dict) -> dict[str, object]:
    """What encrypts each thing that the stack keeps; None for the service's own key."""
    by_name = {name: policies.resolve(r["Properties"], names) for name, r in cloudformation["Resources"].items() if name in KEEPS}
    [bucket] = by_name["ReportBucket"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return {
        **{name: by_name[name].get("KmsKeyId") for name in ("SweepLogs", "SnoozeLogs", "WorkflowLogs", "SnoozeSecret")},
        "SummaryTopic": by_name["SummaryTopic"].get("KmsMasterKeyId"),
        "LedgerTable": by_name["LedgerTable"].get("SSESpecification", {}).get("KMSMasterKeyId"),
        "ReportBucket": bucket["ServerSideEncryptionByDefault"].get("KMSMasterKeyID"),
    }


KEEPS = {"SweepLogs", "SnoozeLogs", "WorkflowLogs", "SnoozeSecret", "SummaryTopic", "LedgerTable", "ReportBucket"}
PLAIN = {**NAMES, **dict.fromkeys(("HasKmsKey", "SignsByKmsKey", "HasChannelKeys"), "false")}
SIZES = {"LogRetentionDays": 90, "ReportRetentionDays": 400}


def test_a_customer_key_encrypts_everything_that_the_stack_keeps(cloudformation):
    assert encryption(cloudformation, {**NAMES, **SIZES}) == dict.fromkeys(KEEPS, NAMES["KmsKey"])
    assert encryption(cloudformation, {**PLAIN, **SIZES}) == dict.fromkeys(KEEPS, None)
    kinds = ("Bucket", "Topic", "LogGroup", "Secret", "Table")
    stores = {n for n, r in cloudformation["Resources"].items() if r["Type"].endswith(tuple(f"::{kind}" for kind in kinds))}
    assert stores == KEEPS, "something new is kept: encrypt it, too"


def test_without_a_customer_key_no_role_has_a_right_in_kms(cloudformation):
    documents = policies.of_template(cloudformation, PLAIN)
    assert [a for s in policies.statements(documents) for a in policies.listed(s["Action"]) if a.startswith("kms:")] == []


@pytest.mark.parametrize(
    ("role", "action", "service", "key", "allowed"),
    [
        pytest.param(NOTIFY, "GenerateDataKey", "s3", "KmsKey", True, id="the sweep's report"),
        pytest.param(NOTIFY, "Decrypt", "s3", "KmsKey", False, id="the sweep reads no report"),
        pytest.param(NOTIFY, "GenerateDataKey", "sns", "KmsKey", True, id="the sweep's summary"),
        pytest.param(NOTIFY, "Decrypt", "dynamodb", "KmsKey", True, id="the ledger"),
        pytest.param(NOTIFY, "GenerateDataKey", "dynamodb", "KmsKey", False, id="no new table"),
        pytest.param(NOTIFY, "Decrypt", "secretsmanager", "KmsKey", True, id="the key that signs"),
        pytest.param(NOTIFY, "Decrypt", "", "KmsKey", False, id="not by itself"),
        pytest.param(NOTIFY, "Decrypt", "secretsmanager", "ChannelKeys", True, id="a channel's secret"),
        pytest.param(NOTIFY, "GenerateDataKey", "sns", "ChannelKeys", True, id="a channel's topic"),
        pytest.param(NOTIFY, "Decrypt", "s3", "ChannelKeys", False, id="nothing else of the channels' key"),
        pytest.param({"SnoozePolicy"}, "Decrypt", "dynamodb", "KmsKey", True, id="the page's ledger"),
        pytest.param({"SnoozePolicy"}, "Decrypt", "secretsmanager", "KmsKey", True, id="the page's keys"),
        pytest.param({"SnoozePolicy"}, "Decrypt", "s3", "KmsKey", False, id="no report for the page"),
        pytest.param({"SnoozePolicy"}, "GenerateDataKey", "dynamodb", "KmsKey", False, id="the page encrypts nothing"),
        pytest.param({"SnoozePolicy"}, "Decrypt", "", "KmsKey", False, id="the page not by itself"),
    ],
)
def test_a_key_is_used_through_the_service_that_needs_it_only(cloudformation, role, action, service, key, allowed: bool):
    documents = policies.of_template(cloudformation, NAMES, only=role)
    context = {"kms:ViaService": f"{service}.us-east-1.amazonaws.com"} if service else {}
    assert policies.evaluate(documents, f"kms:{action}", policies.listed(NAMES[key])[0], context) is allowed


@pytest.mark.parametrize("function", ["SweepFunction", "SnoozeFunction", "WorkflowFunction", "TargetFunction"])
def test_every_setting_that_the_template_sets_is_one_we_know(cloudformation, function: str):
    variables = cloudformation["Resources"][function]["Properties"]["Environment"]["Variables"]
    assert {name for name in variables if name.startswith("REAPER_")} <= set(SETTING_DOCS)


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
    guide = "".join((ROOT / f"docs/{page}.md").read_text() for page in ("deploy-aws", "deploy-aws-organization"))
    wanted = {*cloudformation["Parameters"], *actions(cloudformation)}
    assert sorted(name for name in wanted if f"`{name}`" not in guide) == []


LINKS = {"SnoozeSecret", "SnoozeFunction", "SnoozeFunctionUrl", "SnoozeFunctionUrlPublicPermissions"}
LINKS |= {"SnoozeFunctionURLInvokeAllowPublicAccess", "SnoozeRole", "SnoozePolicy", "SnoozeLogs", "SnoozeAlarm"}


def test_lowering_the_mode_keeps_the_ledger_and_the_links_that_were_sent(cloudformation):
    stacks = {mode: policies.present(cloudformation, {"Mode": mode, "SnoozeLinks": "true"}) for mode in MODES}
    acting = {"EnforceRole", "EnforcePolicy", "GuardPolicy", "EnforceAccess", "ActsFailedAlarm"}
    assert stacks["enforce"] - stacks["announce"] == acting
    assert stacks["announce"] - stacks["notify"] == {"HeldAlarm"}
    assert stacks["notify"] - stacks["audit"] == {"NoticePolicy", *ALARM_RUNS}
    assert stacks["audit"] >= {"LedgerTable", *LINKS}
    assert not policies.present(cloudformation, {"Mode": "enforce"}) & LINKS


@pytest.mark.parametrize("setting", ["REAPER_SNOOZE_URL", "REAPER_SNOOZE_KEYS"])
def test_an_audit_offers_no_links_even_where_the_page_is_still_there(cloudformation, setting: str):
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    assert variables[setting]["Fn::If"][0] == "OffersSnooze"
    condition = {"Fn::And": [{"Condition": "Tells"}, {"Condition": "HasSnooze"}]}
    assert cloudformation["Conditions"]["OffersSnooze"] == condition


def test_every_role_has_the_permissions_boundary_where_one_is_given(cloudformation):
    roles = {n: r["Properties"] for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::IAM::Role"}
    boundary = {"Fn::If": ["HasPermissionsBoundary", {"Ref": "PermissionsBoundary"}, {"Ref": "AWS::NoValue"}]}
    assert {name: role.get("PermissionsBoundary") for name, role in roles.items()} == dict.fromkeys(roles, boundary)
    assert set(roles) == {"ScheduleRole", "SweepRole", "EnforceRole", "SnoozeRole", "WorkflowRole"}


def test_no_alarm_listens_to_another_stack(cloudformation):
    own = [{"Name": "service", "Value": "ml-idle-reaper"}, {"Name": "stack", "Value": "ml-idle-reaper"}]
    for name, alarm in alarms(cloudformation).items():
        named = {**NAMES, "SweepFunction": "sweep", "SnoozeFunction": "page", "AlarmDeadLetters.QueueName": "dead"}
        dimensions = policies.resolve(alarm["Dimensions"], named)
        theirs = [[{"Name": "FunctionName", "Value": function}] for function in ("sweep", "page")]
        theirs += [[{"Name": "StateMachineArn", "Value": NAMES["Workflow"]}], [{"Name": "QueueName", "Value": "dead"}]]
        assert dimensions in ([own] if alarm["Namespace"] == "MLIdleReaper" else theirs), name


def test_the_alarm_for_missing_sweeps_also_says_that_they_finish_again(cloudformation):
    """That of a new stack rang before anybody heard: its OK is the proof that schedule, policy and mail work."""
    silence = alarms(cloudformation)["SilenceAlarm"]
    assert (silence["OKActions"], silence["TreatMissingData"]) == ([{"Ref": "SummaryTopic"}], "breaching")


def test_a_sweep_that_fails_as_a_whole_rings(cloudformation):
    error = alarms(cloudformation)["ErrorAlarm"]
    assert (error["Namespace"], error["MetricName"], error["Threshold"]) == ("AWS/Lambda", "Errors", 1)
    assert error["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": "SweepFunction"}}]
    assert error["AlarmActions"] == [{"Ref": "SummaryTopic"}]
    assert "Condition" not in cloudformation["Resources"]["ErrorAlarm"]


def alarms(cloudformation) -> dict[str, dict]:
    """The properties of every alarm."""
    return {n: r["Properties"] for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::CloudWatch::Alarm"}


@pytest.mark.parametrize("path", ["template.yaml", "samconfig.toml", *sorted(p.name for p in (ROOT / "policies").glob("*.yaml"))])
def test_nothing_that_is_deployed_mails_an_address_of_somebody_else(path: str):
    file = ROOT / path if (ROOT / path).exists() else ROOT / "policies" / path
    assert re.findall(r"[\w.-]+@[\w-]+\.[\w.]+", file.read_text()) == []
