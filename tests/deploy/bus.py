"""EventBridge and SQS as the templates set them up: moto's rules, buses and queues, made from the templates' own properties.

Two things moto doesn't do as AWS does: its patterns don't look into objects inside arrays, and it gives a forwarded event the account of the
bus that it arrives on. https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-cross-account.html
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto.events.models import EventPattern, events_backends

from deploy import policies
from deploy.test_target_role import DEPLOYED
from deploy.test_template import NAMES

BUS, HERE = "ml-idle-reaper-alarms", f"{policies.REGION}:{policies.ACCOUNT}"
HUB_NAMES = {
    **NAMES,
    "TakesForwardedAlarms": "true",
    "OrganizationId": DEPLOYED["OrganizationId"],
    "AlarmBus": BUS,
    "AlarmBus.Arn": f"arn:aws:events:{HERE}:event-bus/{BUS}",
    "AlarmQueue": f"https://sqs.{policies.REGION}.amazonaws.com/{policies.ACCOUNT}/ml-idle-reaper-AlarmQueue-1A2B",
    "AlarmDeadLetters.Arn": f"arn:aws:sqs:{HERE}:dead",
    "AlarmRule.Arn": f"arn:aws:events:{HERE}:rule/ml-idle-reaper-AlarmRule-1A2B",
    "ForwardedAlarmRule.Arn": f"arn:aws:events:{HERE}:rule/{BUS}/ml-idle-reaper-ForwardedAlarmRule-1A2B",
}
"""What the hub's template refers to."""
RULES = ("AlarmRule", "ForwardedAlarmRule")
Event = dict[str, Any]


def metric(endpoint: str = "churn", namespace: str = "AWS/SageMaker") -> dict[str, Any]:
    """One metric of an alarm."""
    dimensions = {"EndpointName": endpoint, "VariantName": "AllTraffic"}
    watched = {"namespace": namespace, "name": "Invocations", "dimensions": dimensions}
    return {"id": "m1", "metricStat": {"metric": watched, "period": 3600, "stat": "Sum"}, "returnData": True}


def alarm(*metrics: dict[str, Any], account: str = policies.ACCOUNT, state: str = "ALARM", **envelope: Any) -> Event:
    """CloudWatch's event about an alarm on these metrics, as EventBridge delivers it."""
    event = {
        "version": "0",
        "id": "c4c1c1c9-6542-e61b-6ef0-8c4d36933a92",
        "detail-type": "CloudWatch Alarm State Change",
        "source": "aws.cloudwatch",
        "account": account,
        "time": 1_790_000_000,
        "region": policies.REGION,
        "resources": [f"arn:aws:cloudwatch:{policies.REGION}:{account}:alarm:quiet"],
        "detail": {
            "alarmName": "quiet",
            "state": {"value": state, "reason": "Threshold Crossed", "timestamp": "2026-11-20T10:00:00.000+0000"},
            "previousState": {"value": "OK"},
            "configuration": {"metrics": list(metrics or (metric(),))},
        },
    }
    return event | envelope


COMPOSITE = alarm(detail={"alarmName": "both", "state": {"value": "ALARM"}, "configuration": {"alarmRule": "ALARM(quiet)"}})


def pattern(template: Mapping[str, Any], rule: str, names: Mapping[str, Any] = HUB_NAMES) -> dict[str, Any]:
    """The pattern of a template's rule."""
    resolved: dict[str, Any] = policies.resolve(template["Resources"][rule]["Properties"]["EventPattern"], names)
    return resolved


MOTOS_OWN = EventPattern.matches_event


def matches(event_pattern: Mapping[str, Any], event: Event) -> bool:
    """Whether the event matches. An array of objects matches if one of its objects does, all fields from the same one."""
    parsed = EventPattern(None, dict(event_pattern))
    return any(MOTOS_OWN(parsed, one) for one in _one_of_each(event))  # type: ignore[arg-type]


def _one_of_each(node: Any) -> Iterator[Any]:
    """The node with one object in the place of each array of objects, in every combination."""
    if isinstance(node, dict):
        for values in itertools.product(*(list(_one_of_each(value)) for value in node.values())):
            yield dict(zip(node, values, strict=True))
    elif isinstance(node, list) and node and all(isinstance(item, dict) for item in node):
        for item in node:
            yield from _one_of_each(item)
    else:
        yield node


@dataclass(frozen=True)
class Buses:
    """What both templates make of EventBridge, and the hub's queue."""

    template: Mapping[str, Any]
    target_template: Mapping[str, Any]
    queue: str

    def put(self, event: Event) -> None:
        """Put CloudWatch's event on the default bus of its own account. A forwarding rule sends it on to the bus that it names."""
        if event["account"] == policies.ACCOUNT:
            self._arrive("default", event)
            return
        names = {
            **DEPLOYED,
            "AWS::AccountId": event["account"],
            "HubRegion": policies.REGION,
            "HubBus": BUS,
            "ForwardRole.Arn": "x",
        }
        rule = policies.resolve(self.target_template["Resources"]["ForwardRule"]["Properties"], names)
        if matches(rule["EventPattern"], event):
            [target] = rule["Targets"]
            assert target["Arn"].startswith(f"arn:aws:events:{HERE}:event-bus/")
            self._arrive(target["Arn"].partition("/")[2], event)

    def take(self) -> dict[str, Any]:
        """What Lambda hands to the function: every message in the queue. They are deleted, as after a success."""
        sqs, records = boto3.client("sqs"), []
        while found := sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
                records.append({"messageId": message["MessageId"], "body": message["Body"], "eventSource": "aws:sqs"})
        return {"Records": records}

    def _arrive(self, bus: str, event: Event) -> None:
        for rule in events_backends[policies.ACCOUNT][policies.REGION].event_buses[bus].rules.values():
            rule.send_to_targets(deepcopy(event), transform_input=False)  # type: ignore[arg-type]


def buses(template: Mapping[str, Any], target_template: Mapping[str, Any], patch: pytest.MonkeyPatch) -> Buses:
    """The hub's bus, rules and queue in the sandbox."""
    patch.setattr(EventPattern, "matches_event", lambda self, event: matches(self.get_pattern(), event))
    events = boto3.client("events")
    events.create_event_bus(Name=policies.resolve(template["Resources"]["AlarmBus"]["Properties"]["Name"], HUB_NAMES))
    queue = boto3.client("sqs").create_queue(QueueName=NAMES["AlarmQueue.Arn"].rpartition(":")[2])["QueueUrl"]
    for name in RULES:
        rule = policies.resolve(template["Resources"][name]["Properties"], HUB_NAMES)
        bus = rule.get("EventBusName", "default")
        events.put_rule(Name=name, EventPattern=json.dumps(rule["EventPattern"]), EventBusName=bus)
        events.put_targets(Rule=name, EventBusName=bus, Targets=rule["Targets"])
    return Buses(template, target_template, queue)
