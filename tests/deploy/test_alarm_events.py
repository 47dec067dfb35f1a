"""Which events reach the queue of alarms, who may send them, and what a deployment has of it."""

from __future__ import annotations

from typing import Any

import pytest

from deploy import policies, sam
from deploy.bus import BUS, COMPOSITE, HUB_NAMES, RULES, Event, alarm, matches, metric, pattern
from deploy.test_target_role import DEPLOYED
from deploy.test_template import ALARM_RUNS, NAMES
from deploy.translate import translate

MEMBER = DEPLOYED["AWS::AccountId"]
EXPRESSION = {"id": "e1", "expression": "SEARCH('{AWS/SageMaker,EndpointName}', 'Sum')", "returnData": True}
FORWARDED = {"AlarmBus", "AlarmBusPolicy", "ForwardedAlarmRule"}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return translate(sam.ROOT / "template.yaml")


@pytest.mark.parametrize(
    ("event", "rule"),
    [
        pytest.param(alarm(), "AlarmRule", id="an endpoint"),
        pytest.param(alarm(metric(namespace="/aws/sagemaker/Endpoints")), "AlarmRule", id="its instances"),
        pytest.param(alarm(metric(namespace="AWS/EC2"), metric()), "AlarmRule", id="one of several metrics"),
        pytest.param(alarm(account=MEMBER), "ForwardedAlarmRule", id="an endpoint of another account"),
        pytest.param(alarm(state="OK"), None, id="back to OK"),
        pytest.param(alarm(state="INSUFFICIENT_DATA"), None, id="no data"),
        pytest.param(alarm(metric(namespace="AWS/EC2")), None, id="an instance"),
        pytest.param(alarm(metric(namespace="AWS/EC2"), account=MEMBER), None, id="an instance of another account"),
        pytest.param(COMPOSITE, None, id="a composite alarm"),
        pytest.param(COMPOSITE | {"account": MEMBER}, None, id="a composite alarm of another account"),
        pytest.param(alarm(EXPRESSION), None, id="an expression without a metric"),
        pytest.param(alarm(source="my.app"), None, id="another source"),
        pytest.param(alarm(**{"detail-type": "CloudWatch Alarm Configuration Change"}), None, id="a changed alarm"),
    ],
)
def test_an_alarm_on_an_endpoint_that_goes_off_matches_one_rule(template: dict[str, Any], event: Event, rule: str | None):
    assert [name for name in RULES if matches(pattern(template, name), event)] == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("event", "is_forwarded"),
    [
        pytest.param(alarm(account=MEMBER), True, id="an endpoint"),
        pytest.param(alarm(account="333333333333"), False, id="what yet another account forwarded"),
        pytest.param(alarm(account=MEMBER, state="OK"), False, id="back to OK"),
        pytest.param(alarm(metric(namespace="AWS/EC2"), account=MEMBER), False, id="an instance"),
        pytest.param(COMPOSITE | {"account": MEMBER}, False, id="a composite alarm"),
    ],
)
def test_an_account_forwards_its_own_alarms_on_endpoints(target_template: dict[str, Any], event: Event, is_forwarded: bool):
    assert matches(pattern(target_template, "ForwardRule", DEPLOYED), event) is is_forwarded


def test_each_rule_sends_to_the_queue_and_nowhere_else(template: dict[str, Any]):
    for rule in RULES:
        [target] = policies.resolve(template["Resources"][rule]["Properties"]["Targets"], HUB_NAMES)
        assert target["Arn"] == NAMES["AlarmQueue.Arn"]


def queue_policy(template: dict[str, Any], **names: str) -> list[dict[str, Any]]:
    document = policies.resolve(template["Resources"]["AlarmQueuePolicy"]["Properties"]["PolicyDocument"], HUB_NAMES | names)
    return list(document["Statement"])


@pytest.mark.parametrize(
    ("source", "may_send"),
    [
        ("AlarmRule.Arn", True),
        ("ForwardedAlarmRule.Arn", True),
        ("arn:aws:events:us-east-1:123456789012:rule/of-others", False),
        ("arn:aws:events:us-east-1:222222222222:rule/ml-idle-reaper-AlarmRule-1A2B", False),
        (None, False),
    ],
)
def test_only_the_two_rules_may_send_to_the_queue(template: dict[str, Any], source: str | None, may_send: bool):
    document = {"Statement": queue_policy(template)}
    keys = {"aws:SecureTransport": "true"} | ({"aws:SourceArn": HUB_NAMES.get(source, source)} if source else {})
    queue = NAMES["AlarmQueue.Arn"]
    assert policies.evaluate([document], "sqs:SendMessage", queue, keys) is may_send
    assert not policies.evaluate([document], "sqs:SendMessage", queue, keys | {"aws:SecureTransport": "false"})
    assert not policies.evaluate([document], "sqs:ReceiveMessage", queue, keys)


def test_the_queue_trusts_eventbridge_alone(template: dict[str, Any]):
    allowing = [s for s in queue_policy(template) if s["Effect"] == "Allow"]
    assert [s["Principal"] for s in allowing] == [{"Service": "events.amazonaws.com"}]
    [without] = [s for s in queue_policy(template, TakesForwardedAlarms="false") if s["Effect"] == "Allow"]
    assert without["Condition"]["ArnEquals"]["aws:SourceArn"] == [HUB_NAMES["AlarmRule.Arn"]]


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        pytest.param({}, True, id="an alarm of a member"),
        pytest.param({"aws:PrincipalOrgID": "o-zz12cd34ef"}, False, id="another organization"),
        pytest.param({"aws:PrincipalOrgID": None}, False, id="no organization"),
        pytest.param({"events:source": "my.application"}, False, id="another source"),
    ],
)
def test_the_bus_takes_only_the_organizations_alarms(template: dict[str, Any], keys: dict[str, str | None], allowed: bool):
    keys = {"aws:PrincipalOrgID": DEPLOYED["OrganizationId"], "events:source": "aws.cloudwatch", **keys}
    keys = {key: value for key, value in keys.items() if value}
    statement = policies.resolve(template["Resources"]["AlarmBusPolicy"]["Properties"]["Statement"], HUB_NAMES)
    document, bus = {"Statement": [statement]}, HUB_NAMES["AlarmBus.Arn"]
    assert policies.evaluate([document], "events:PutEvents", bus, keys) is allowed
    assert not policies.evaluate([document], "events:PutRule", bus, keys)


def test_no_other_account_can_put_events_on_the_default_bus(template: dict[str, Any]):
    """Every rule there without a filter for the account would fire on them."""
    open_to_others = [r for r in template["Resources"].values() if r["Type"] == "AWS::Events::EventBusPolicy"]
    assert [policies.resolve(r["Properties"]["EventBusName"], HUB_NAMES) for r in open_to_others] == [BUS]
    rule = policies.resolve(template["Resources"]["ForwardedAlarmRule"]["Properties"], HUB_NAMES)
    assert rule["EventBusName"] == BUS
    assert "EventBusName" not in template["Resources"]["AlarmRule"]["Properties"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param({"Mode": "notify"}, ALARM_RUNS, id="this account's alarms by default"),
        pytest.param({"Mode": "audit"}, set(), id="none in an audit"),
        pytest.param({"Mode": "enforce", "AlarmRuns": "false"}, set(), id="none if switched off"),
        pytest.param({"Mode": "notify", "OrganizationId": "o-ab12cd34ef"}, ALARM_RUNS, id="one account takes no others"),
        pytest.param({"Mode": "notify", "Targets": "organization"}, ALARM_RUNS, id="others only if they are named"),
        pytest.param(
            {"Mode": "notify", "Targets": "organization", "OrganizationId": "o-ab12cd34ef"}, ALARM_RUNS | FORWARDED, id="others"
        ),
        pytest.param(
            {"Mode": "notify", "Targets": "organization", "OrganizationId": "o-ab12cd34ef", "AlarmRuns": "false"},
            set(),
            id="others switched off",
        ),
    ],
)
def test_what_looks_out_for_alarms_is_there_if_it_is_wanted(
    template: dict[str, Any], parameters: dict[str, str], expected: set[str]
):
    assert policies.present(template, parameters) & (ALARM_RUNS | FORWARDED) == expected


def test_other_accounts_forward_nothing_unless_the_admin_says_so(target_template: dict[str, Any]):
    forwarding = {"ForwardRule", "ForwardRole", "ForwardPolicy"}
    assert target_template["Parameters"]["ForwardAlarms"]["Default"] == "no"
    for answer, expected in (("no", set()), ("yes", forwarding)):
        assert policies.present(target_template, {"ForwardAlarms": answer}) & forwarding == expected


def test_the_role_that_forwards_can_put_events_on_the_hubs_bus_only(template: dict[str, Any], target_template: dict[str, Any]):
    parameters = {name: p["Default"] for name, p in target_template["Parameters"].items() if name in {"HubRegion", "HubBus"}}
    documents = policies.of_template(target_template, DEPLOYED | parameters, only={"ForwardPolicy"})
    assert [(s["Action"], s["Resource"]) for s in policies.statements(documents)] == [
        ("events:PutEvents", HUB_NAMES["AlarmBus.Arn"])
    ]
    assert policies.resolve(template["Resources"]["AlarmBus"]["Properties"]["Name"], HUB_NAMES) == parameters["HubBus"]
    [trust] = target_template["Resources"]["ForwardRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "events.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


def test_a_batch_of_five_minutes_gets_its_time_and_three_attempts(template: dict[str, Any]):
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
    resources = {name: template["Resources"][name]["Properties"] for name in ("AlarmSource", "AlarmQueue", "AlarmDeadLetters")}
    source, queue, dead = resources.values()
    assert source["MaximumBatchingWindowInSeconds"] == 300
    assert source["FunctionName"] == {"Fn::GetAtt": ["SweepFunction", "Arn"]}
    assert queue["VisibilityTimeout"] >= 6 * template["Resources"]["SweepFunction"]["Properties"]["Timeout"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 3
    assert queue["MessageRetentionPeriod"] > 3 * queue["VisibilityTimeout"]
    assert queue["SqsManagedSseEnabled"] is dead["SqsManagedSseEnabled"] is True
    rings = template["Resources"]["AlarmRunFailedAlarm"]["Properties"]
    assert rings["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["AlarmDeadLetters", "QueueName"]}}]


def test_lambda_may_take_the_alarms_and_no_other_messages(template: dict[str, Any]):
    """Its poller uses the function's role, so none of these calls is the function's own."""
    assert "AlarmPolicy" in policies.of_role(template, "SweepRole", {"LooksAtAlarms": "true"})
    documents = policies.of_template(template, NAMES, only={"AlarmPolicy"})
    for action in ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"):
        assert policies.evaluate(documents, action, NAMES["AlarmQueue.Arn"], {})
        assert not policies.evaluate(documents, action, "arn:aws:sqs:us-east-1:123456789012:of-others", {})
    assert not policies.evaluate(documents, "sqs:SendMessage", NAMES["AlarmQueue.Arn"], {})
