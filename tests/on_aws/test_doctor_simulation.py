"""What IAM's simulation says, and whom it is asked about; and whether SES and SNS would send."""

from __future__ import annotations

import json
import shlex
from typing import Any

import boto3
import pytest

from on_aws.conftest import NOW
from reaper import registry
from reaper.aws.doctor import channels
from reaper.aws.doctor import checks as doctor
from reaper.aws.doctor.checks import (
    Request,
    grant_line,
    known_principal,
    parse_principal,
    resource_arn,
    simulated_rights,
)
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.policy.channel_settings import Ses, Sns
from reaper.settings import Settings
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, on, without
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.server import Server

ROLE = "arn:aws:iam::123456789012:role/ml-idle-reaper/enforce"
ASSUMED = "arn:aws:sts::123456789012:assumed-role/enforce/me"
DELETE, NOTEBOOK = "sagemaker:DeleteEndpoint", "sagemaker:StopNotebookInstance"
TOPIC = "arn:aws:sns:us-east-1:123456789012:summary"


def simulated(principal: str = ROLE, *actions: str) -> list[Check]:
    return simulated_rights(
        [doctor.own_session("us-east-1")], Request(principal=parse_principal(principal), actions=actions or (DELETE,))
    )


def rewritten(**row: Any) -> Fault:
    """A simulation whose results have these keys, too."""

    def change(call: Call, data: dict[str, Any]) -> dict[str, Any]:
        return data | {"EvaluationResults": [{**one, **row} for one in data["EvaluationResults"]]}

    return Fault(rewrite=change)


def test_each_action_is_asked_about_for_its_own_sort_of_resource(server: Server):
    assert {right.status for right in simulated(ROLE, DELETE, NOTEBOOK, "sagemaker:ListModels")} == {CheckStatus.OK}
    asked = {call.params["ActionNames"][0]: call.params["ResourceArns"][0] for call in server.calls}
    assert asked == {
        DELETE: "arn:aws:sagemaker:us-east-1:123456789012:endpoint/ml-idle-reaper-doctor",
        NOTEBOOK: "arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/ml-idle-reaper-doctor",
        "sagemaker:ListModels": "*",
    }


@pytest.mark.parametrize(
    ("row", "status", "text"),
    [
        pytest.param({"EvalDecision": "implicitDeny"}, CheckStatus.FIX, "no policy allows it", id="not allowed"),
        pytest.param(
            {"EvalDecision": "explicitDeny", "MatchedStatements": [{"SourcePolicyId": "Guard"}]},
            CheckStatus.FIX,
            "denies it explicitly (Guard)",
            id="denied explicitly",
        ),
        pytest.param(
            {"EvalDecision": "implicitDeny", "PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False}},
            CheckStatus.FIX,
            "permissions boundary",
            id="boundary",
        ),
        pytest.param(
            {"EvalDecision": "implicitDeny", "OrganizationsDecisionDetail": {"AllowedByOrganizations": False}},
            CheckStatus.UNKNOWN,
            "service control policy",
            id="a service control policy, which the simulation may judge wrongly",
        ),
    ],
)
def test_only_a_plain_denial_asks_for_a_statement(server: Server, row: dict[str, Any], status: CheckStatus, text: str):
    server.rules.append(on("SimulatePrincipalPolicy", rewritten(**row)))
    [right] = simulated()
    assert (right.status, text in right.because) == (status, True)
    assert ("put-role-policy" in str(right.fix)) == (text == "no policy allows it")


def test_the_path_of_an_assumed_role_is_asked_for(server: Server):
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    boto3.client("iam").create_role(RoleName="enforce", Path="/ml-idle-reaper/", AssumeRolePolicyDocument=trust)
    server.calls.clear()
    assert simulated(ASSUMED)[0].status is CheckStatus.OK
    assert [call.params.get("PolicySourceArn") for call in server.calls] == [None, ROLE]


def test_a_role_that_the_settings_name_needs_no_question(server: Server):
    assert known_principal(ASSUMED, ROLE).arn == ROLE
    assert known_principal(ASSUMED, "arn:aws:iam::999999999999:role/enforce").arn == ASSUMED
    assert known_principal(ASSUMED, None).arn == ASSUMED


def test_who_cannot_be_simulated_is_unknown_and_root_may_do_all(server: Server):
    assert simulated("arn:aws:sts::123456789012:federated-user/x")[0].status is CheckStatus.UNKNOWN
    assert simulated("arn:aws:iam::123456789012:root")[0].status is CheckStatus.OK
    assert server.calls == []


def test_without_the_right_to_simulate_nothing_is_claimed(server: Server):
    server.rules.append(without("iam:SimulatePrincipalPolicy"))
    rights = simulated(ROLE, DELETE, NOTEBOOK)
    assert {(right.status, right.missing) for right in rights} == {(CheckStatus.UNKNOWN, "iam:SimulatePrincipalPolicy")}


@pytest.mark.parametrize(
    ("arn", "type_", "name"),
    [
        (ASSUMED, "role", "enforce"),
        (ROLE, "role", "enforce"),
        ("arn:aws-cn:iam::123456789012:user/team/ana", "user", "ana"),
        ("arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_0a1b/ana@example.com", "sso-role", None),
        ("arn:aws:iam::123456789012:root", "other", None),
        ("odd", "other", None),
    ],
)
def test_who_asks_is_known_by_its_arn(arn: str, type_: str, name: str | None):
    principal = parse_principal(arn)
    assert principal.type == type_
    assert name is None or principal.name == name


def test_the_command_is_pasteable_and_grants_exactly_one_action():
    principal = parse_principal(ASSUMED)
    words = shlex.split(grant_line(principal, DELETE, resource_arn(principal, DELETE)))
    assert words[:5] == ["aws", "iam", "put-role-policy", "--role-name", "enforce"]
    [statement] = json.loads(words[-1])["Statement"]
    assert statement == {"Effect": "Allow", "Action": DELETE, "Resource": "arn:aws:sagemaker:*:123456789012:endpoint/*"}


def test_two_grants_have_two_policies_so_that_none_overwrites_another():
    principal = parse_principal(ROLE)
    names = {shlex.split(grant_line(principal, action, "*"))[6] for action in (DELETE, NOTEBOOK)}
    assert len(names) == 2


def test_grants_on_two_resources_have_two_policies_too():
    principal = parse_principal(ROLE)
    buckets = ("arn:aws:s3:::reports/*", "arn:aws:s3:::manifests/*")
    words = [shlex.split(grant_line(principal, "s3:PutObject", bucket)) for bucket in buckets]
    assert len({name for _, _, _, _, _, _, name, *_ in words}) == 2
    assert words[0] == shlex.split(grant_line(principal, "s3:PutObject", buckets[0])), "and the same one each time"


def test_nobody_but_identity_center_changes_its_roles():
    principal = parse_principal("arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_0a1b/ana")
    assert "permission set" in grant_line(principal, DELETE, "*")


@pytest.mark.parametrize(
    "permission",
    sorted({p for kind in registry.kinds("aws") for spec in kind.actions.values() for p in spec.permissions if "Tags" not in p}),
)
def test_every_action_but_lists_is_granted_on_its_own_sort_of_resource(permission: str):
    arn = resource_arn(parse_principal(ROLE), permission)
    assert (arn == "*") == (permission == "application-autoscaling:DescribeScheduledActions")


def of(checks: list[Check], status: CheckStatus) -> list[Check]:
    return [check for check in checks if check.status is status]


def examined(spec: Any) -> list[Check]:
    context = DoctorContext(settings=Settings(), environ={}, clock=lambda: NOW, kinds=registry.kinds())
    return list(channels.examine(spec, "channel", context))


SES = Ses.model_validate({"type": "ses", "from": "reaper@mail.example.com", "region": "us-east-1"})
SNS = Sns.model_validate({"type": "sns", "topic": TOPIC})


def test_a_verified_domain_is_enough(server: Server):
    server.world.verified_mail.add("mail.example.com")
    assert of(examined(SES), CheckStatus.FIX) == []


def test_an_identity_that_is_not_verified_needs_mending(server: Server):
    [check] = of(examined(SES), CheckStatus.FIX)
    assert str(check.fix).startswith("aws sesv2 create-email-identity --email-identity reaper@mail.example.com ")


@pytest.mark.parametrize(
    ("identity", "fix"),
    [
        ("reaper@mail.example.com", "delete-email-identity --email-identity reaper@mail.example.com --region us-east-1 && aws"),
        ("mail.example.com", "get-email-identity --email-identity mail.example.com --region us-east-1 --query DkimAttributes"),
    ],
)
def test_an_identity_that_waits_for_confirmation_is_not_created_again(server: Server, identity: str, fix: str):
    boto3.client("sesv2").create_email_identity(EmailIdentity=identity)
    [check] = of(examined(SES), CheckStatus.FIX)
    assert fix in str(check.fix)
    assert not str(check.fix).startswith("aws sesv2 create")


@pytest.mark.parametrize(("production", "sending", "text"), [(False, True, "in its sandbox"), (True, False, "sending is paused")])
def test_an_account_that_would_not_deliver_needs_mending(server: Server, production: bool, sending: bool, text: str):
    server.world.verified_mail.add("mail.example.com")
    server.world.has_mail_production_access, server.world.sends_mail = production, sending
    [check] = of(examined(SES), CheckStatus.FIX)
    assert text in check.because


def test_a_topic_that_nothing_or_nobody_confirmed_needs_mending(server: Server):
    boto3.client("sns").create_topic(Name="summary")
    [empty] = of(examined(SNS), CheckStatus.FIX)
    assert "nothing is subscribed" in empty.because
    for protocol, endpoint in (("email", "ana@example.com"), ("https", "https://hooks.example.com/?a=1&b=$2")):
        rows = [{"SubscriptionArn": "PendingConfirmation", "Endpoint": endpoint, "Protocol": protocol}]
        pending = Fault(answer=lambda call, rows=rows: reply.result(call, {"Subscriptions": rows}))
        server.rules[:] = [on("ListSubscriptionsByTopic", pending)]
        [check] = of(examined(SNS), CheckStatus.FIX)
        assert endpoint in check.because
        words = shlex.split(str(check.fix).partition("again: ")[2])
        assert words[4:9] == [TOPIC, "--protocol", protocol, "--notification-endpoint", endpoint]


def test_a_topic_that_does_not_exist_needs_mending(server: Server):
    assert "does not exist" in of(examined(SNS), CheckStatus.FIX)[0].because


def test_a_throttled_question_proves_nothing(server: Server):
    server.rules.append(on("GetAccount", Fault(answer=lambda call: reply.refusal(call, Refusal("Throttling", "slow", 429)))))
    server.world.verified_mail.add("mail.example.com")
    assert of(examined(SES), CheckStatus.FIX) == []
    assert of(examined(SES), CheckStatus.UNKNOWN)
