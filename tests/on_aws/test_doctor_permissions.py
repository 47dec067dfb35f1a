"""`reaper doctor` on AWS: whatever single permission is taken away, it names exactly that one, and it never changes anything."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.client import BaseClient
from botocore.validate import ParamValidator

from reaper import registry, settings
from reaper.aws.doctor import checks as doctor
from reaper.aws.doctor.checks import NOTHING
from reaper.aws.session import CloudSession, new_session
from reaper.aws.stores import dynamodb
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.doctor.examine import examine
from reaper.model import Target
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, denied, on, without
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.server import Server

TOPIC = "arn:aws:sns:us-east-1:123456789012:summary"
POLICY = f"""
version: 1
defaults: {{action: delete}}
owners: {{fallback: admins@example.com}}
channels:
- {{type: ses, from: reaper@example.com, region: us-east-1}}
- {{type: sns, topic: "{TOPIC}"}}
- {{type: webhook, url: "http://127.0.0.1:1/", secret: "secretsmanager:hook", name: hook}}
"""
READING = {permission for kind in registry.kinds("aws") for permission in kind.permissions}
ACTING = {p for kind in registry.kinds("aws") for spec in kind.actions.values() for p in spec.permissions}
UNDOING = {p for kind in registry.kinds("aws") if kind.actions for p in registry.action_functions(kind.name).undo_permissions}
STORES = {*dynamodb.PERMISSIONS, "s3:PutObject", "s3:GetObject", "s3:ListBucket"}
CHANNELS = {"ses:SendEmail", "sns:Publish", "secretsmanager:GetSecretValue"}
NEEDED = sorted({*READING, *ACTING, *UNDOING, *STORES, *CHANNELS, "ssm:GetParameter", "sts:GetCallerIdentity"})
ONLY_THE_DOCTOR_NEEDS = (
    "iam:SimulatePrincipalPolicy",
    "ses:GetAccount",
    "ses:GetEmailIdentity",
    "sns:ListSubscriptionsByTopic",
)
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
READS = ("List", "Describe", "Get", "BatchGet", "Query", "Simulate")


@pytest.fixture(scope="module")
def deployment() -> Iterator[tuple[Server, dict[str, str]]]:
    """A fleet, the stores and channels of a deployment in mode enforce, and its settings."""
    with Server(datetime.now(UTC)) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.env.items():
            patch.setenv(name, value)
        account = Account(server)
        account.endpoint("quiet")
        keys = [{"AttributeName": name, "KeyType": type_} for name, type_ in (("pk", "HASH"), ("sk", "RANGE"))]
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            KeySchema=keys,
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )
        boto3.client("s3").create_bucket(Bucket="bucket")
        server.world.verified_mail.add("reaper@example.com")
        boto3.client("ssm").put_parameter(Name="/policy", Value=POLICY, Type="String")
        boto3.client("secretsmanager").create_secret(Name="hook", SecretString="s" * 40)
        sns = boto3.client("sns")
        sns.create_topic(Name="summary")
        sns.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:q")
        yield (
            server,
            {
                "REAPER_MODE": "enforce",
                "REAPER_POLICY": "ssm:/policy",
                "REAPER_REGIONS": "us-east-1",
                "REAPER_LEDGER": "dynamodb://ledger",
                "REAPER_MANIFESTS": "s3://bucket/manifests",
                "REAPER_REPORTS": "s3://bucket/reports",
                "REAPER_SECRETS": "hook",
            },
        )


def examined(environ: dict[str, str], *, undo: bool = True) -> list[Check]:
    chosen = settings.from_env(environ)
    context = DoctorContext(
        settings=chosen,
        environ={**os.environ, **environ},
        clock=lambda: datetime.now(UTC),
        kinds=registry.kinds("aws"),
        includes_undo=undo,
    )
    return examine(context)


def named(checks: list[Check], *statuses: CheckStatus) -> set[str]:
    """The permissions that checks of these statuses name."""
    return {check.missing for check in checks if check.missing and check.status in statuses}


def granted(check: Check) -> tuple[str, str]:
    """The permission and the resource in the command of a check."""
    [statement] = json.loads(shlex.split(check.fix or "")[-1])["Statement"]
    return statement["Action"], statement["Resource"]


def take_away(server: Server, *permissions: str) -> None:
    server.rules[:] = [without(permission) for permission in permissions]
    server.world.denied_actions = set(permissions)
    server.calls.clear()


@pytest.mark.parametrize("permission", sorted(READING - set(doctor.METRIC_PERMISSIONS)))
def test_the_sdk_says_how_to_ask_for_what_the_tables_name(deployment, permission: str):
    """One row of a list, or one thing by a name that nothing has, in the form that AWS's own models ask for."""
    here = CloudSession(new_session(), Target(cloud="aws", account="123456789012", region="us-east-1"))
    service, operation, params = doctor.question(here, permission)
    client = boto3.client(service)
    shape = client.meta.service_model.operation_model(operation).input_shape
    assert operation.startswith(("List", "Describe", "Get"))
    assert ParamValidator().validate(params, shape).generate_report() == ""
    for name, value in params.items():
        member = shape.members[name]
        assert not (pattern := member.metadata.get("pattern")) or re.fullmatch(pattern, value), name
        assert not getattr(member, "enum", None) or value in member.enum, name
    pages = client.get_paginator(xform_name(operation)) if client.can_paginate(xform_name(operation)) else None
    assert not pages or params[pages._pagination_cfg["limit_key"]] == 1
    named = {value for name, value in params.items() if name in shape.required_members and name.endswith("Name")}
    assert named <= {NOTHING}


def test_a_deployment_that_works_misses_nothing(deployment):
    server, environ = deployment
    take_away(server)
    checks = examined(environ)
    assert [check for check in checks if check.status is CheckStatus.FIX and check.check != "channel.hook"] == []
    assert named(checks, *CheckStatus) == set()


@pytest.mark.parametrize("permission", NEEDED)
def test_a_permission_taken_away_is_named_and_no_other(deployment, permission: str):
    server, environ = deployment
    take_away(server, permission)
    checks = examined(environ)
    assert named(checks, CheckStatus.FIX) == {permission}
    assert named(checks, CheckStatus.UNKNOWN) <= {permission}
    assert all(permission in str(check.fix) for check in checks if check.missing and check.status is CheckStatus.FIX)


@pytest.mark.parametrize("permission", ONLY_THE_DOCTOR_NEEDS)
def test_what_only_the_doctor_needs_is_no_fault_of_the_deployment(deployment, permission: str):
    server, environ = deployment
    take_away(server, permission)
    checks = examined(environ)
    assert named(checks, CheckStatus.UNKNOWN) == {permission}
    assert named(checks, CheckStatus.FIX) == set()
    assert {check.fix for check in checks if check.missing} == {None}, "a sweep does without it, so nothing offers to grant it"


def test_to_read_manifests_is_needed_for_an_undo_only(deployment):
    server, environ = deployment
    take_away(server, "s3:GetObject")
    assert named(examined(environ, undo=False), CheckStatus.FIX) == set()
    assert named(examined(environ, undo=True), CheckStatus.FIX) == {"s3:GetObject"}


@pytest.mark.parametrize(
    ("policy", "operation", "permission", "resource"),
    [
        pytest.param(
            "s3://bucket/team/policy.yaml", "GetObject", "s3:GetObject", "arn:aws:s3:::bucket/team/policy.yaml", id="S3"
        ),
        pytest.param("ssm:/policy", "GetParameter", "ssm:GetParameter", "arn:aws:ssm:*:123456789012:parameter/policy", id="SSM"),
        pytest.param("s3://bucket/policy.yaml", "GetObject", "kms:Decrypt", KEY, id="its key"),
    ],
)
def test_the_grant_for_a_policy_is_on_the_policy_itself(deployment, policy: str, operation: str, permission: str, resource: str):
    server, environ = deployment
    take_away(server)
    server.rules.append(on(operation, denied(permission, resource=KEY)))
    [check] = [check for check in examined({**environ, "REAPER_POLICY": policy}) if check.check == "policy"]
    assert granted(check) == (permission, resource)


def test_the_grants_for_stores_are_on_what_is_below_them(deployment):
    server, environ = deployment
    take_away(server, "s3:PutObject")
    checks = [check for check in examined({**environ, "REAPER_REPORTS": "s3://bucket"}) if check.missing]
    assert sorted((check.check, granted(check)[1]) for check in checks) == [
        ("manifests", "arn:aws:s3:::bucket/manifests/*"),
        ("reports", "arn:aws:s3:::bucket/*"),
    ]


def test_a_key_that_refuses_the_ledger_is_named(deployment):
    server, environ = deployment
    take_away(server)
    server.rules.append(on("BatchGetItem", denied("kms:Decrypt", resource=KEY)))
    [check] = [check for check in examined(environ) if check.missing]
    assert (check.missing, granted(check)) == ("kms:Decrypt", ("kms:Decrypt", KEY))


def test_a_denied_list_of_regions_hides_nothing_else(deployment):
    server, environ = deployment
    take_away(server, "ec2:DescribeRegions", "sagemaker:ListApps", "sagemaker:DeleteApp")
    checks = examined({**environ, "REAPER_REGIONS": "all"})
    assert named(checks, CheckStatus.FIX) == {"ec2:DescribeRegions", "sagemaker:ListApps", "sagemaker:DeleteApp"}


@contextmanager
def recorded() -> Iterator[list[tuple[str, str]]]:
    """Every call that the SDK is about to sign, whichever client makes it: service and operation."""
    made: list[tuple[str, str]] = []

    def record(self: BaseClient, operation: str, params: dict[str, Any]) -> Any:
        made.append((self.meta.service_model.service_name, operation))
        return call(self, operation, params)

    call = BaseClient._make_api_call
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", record)
        yield made


@pytest.mark.parametrize("mode", ["audit", "notify", "announce", "enforce"])
def test_every_call_only_reads(deployment, mode: str):
    """By the SDK's own record, and by what the stores hold."""
    server, environ = deployment
    table, s3 = boto3.client("dynamodb"), boto3.client("s3")
    take_away(server)
    with recorded() as made:
        examined({**environ, "REAPER_MODE": mode}, undo=True)
    assert len(made) > 30
    assert [call for call in made if not call[1].startswith(READS)] == []
    assert [call.action for call in server.calls if not call.operation.startswith(READS)] == []
    assert table.scan(TableName="ledger")["Items"] == []
    assert "Contents" not in s3.list_objects_v2(Bucket="bucket")


def test_below_enforce_no_right_to_act_is_asked_for(deployment):
    server, environ = deployment
    take_away(server, *ACTING - READING)
    checks = examined({**environ, "REAPER_MODE": "announce"}, undo=False)
    assert named(checks, *CheckStatus) == set()


def test_a_bucket_or_a_table_that_is_not_there_needs_mending(deployment):
    server, environ = deployment
    take_away(server)
    places = {"REAPER_LEDGER": "dynamodb://lodger", "REAPER_MANIFESTS": "s3://backet/manifests", "REAPER_REPORTS": ""}
    broken = {check.check: check.because for check in examined({**environ, **places}) if check.status is CheckStatus.FIX}
    assert broken.keys() - {"channel.hook"} == {"ledger", "manifests", "pause"}
    assert "no such table" in broken["ledger"]
    assert "s3://backet/manifests" in broken["manifests"]


def test_a_session_that_has_ended_is_said_once_and_as_such(deployment):
    server, environ = deployment
    take_away(server)
    ended = Refusal("ExpiredTokenException", "The security token included in the request is expired", 403)
    server.rules.append(on(".*", Fault(answer=lambda call: reply.refusal(call, ended))))
    checks = examined(environ)
    [broken] = [check for check in checks if check.status is CheckStatus.FIX and check.check != "channel.hook"]
    assert (broken.check, broken.fix) == ("credentials.aws", "Sign in again, or get new temporary keys.")
    assert broken.because.startswith("the session has ended: ")
    assert "Until you sign in, these can't be checked: " in broken.because
