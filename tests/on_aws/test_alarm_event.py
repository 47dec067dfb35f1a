"""CloudWatch's alarm events: which endpoints they are about, and why an event is dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reaper.aws.functions.alarms import AlarmedEndpoint, alarmed_endpoints

CHURN = AlarmedEndpoint(account="111111111111", region="eu-west-1", name="churn")


def metric(name: str = "churn", namespace: Any = "AWS/SageMaker", **dimensions: str) -> dict[str, Any]:
    every = {"EndpointName": name, "VariantName": "AllTraffic", **dimensions}
    stat = {"metric": {"namespace": namespace, "name": "Invocations", "dimensions": every}, "period": 300, "stat": "Sum"}
    return {"id": "m1", "metricStat": stat, "returnData": True}


def event(*metrics: dict[str, Any], state: str = "ALARM", id: str = "e1", **envelope: Any) -> str:
    body = {
        "version": "0",
        "id": id,
        "source": "aws.cloudwatch",
        "detail-type": "CloudWatch Alarm State Change",
        "account": "111111111111",
        "region": "eu-west-1",
        "resources": ["arn:aws:cloudwatch:eu-west-1:111111111111:alarm:quiet"],
        "detail": {
            "alarmName": "quiet",
            "state": {"value": state, "reasonData": "{}"},
            "configuration": {"metrics": list(metrics or (metric(),))},
        },
    }
    return json.dumps(body | envelope)


def test_an_alarm_on_an_endpoint_names_it():
    assert alarmed_endpoints([event()])[0] == {CHURN}
    assert alarmed_endpoints([event(metric("Churn", "/aws/sagemaker/Endpoints"))])[0] == {CHURN}


def test_an_event_that_comes_twice_counts_once():
    endpoints, dropped = alarmed_endpoints([event(), event(), event(metric("other"), id="e2")])
    assert {endpoint.name for endpoint in endpoints} == {"churn", "other"}
    assert dropped == {"sent twice": 1}


def test_a_list_as_namespace_costs_no_other_event():
    assert alarmed_endpoints([event(metric("odd", namespace=["AWS/SageMaker"])), event(id="e2")])[0] == {CHURN}


def test_account_and_region_come_from_the_envelope():
    forged = json.loads(event())
    forged["detail"] |= {"account": "999999999999", "region": "us-east-1"}
    forged["resources"] = ["arn:aws:cloudwatch:us-east-1:999999999999:alarm:quiet"]
    assert alarmed_endpoints([json.dumps(forged)])[0] == {CHURN}


def test_an_expression_names_the_endpoints_of_its_metrics():
    expression = {"id": "e1", "expression": "m1 + m2", "label": "sum", "returnData": True}
    assert alarmed_endpoints([event(metric(), metric("other"), expression)])[0] == {
        CHURN,
        AlarmedEndpoint(account="111111111111", region="eu-west-1", name="other"),
    }


COMPOSITE = {"detail": {"alarmName": "x", "state": {"value": "ALARM"}, "configuration": {"alarmRule": "ALARM(quiet)"}}}


@pytest.mark.parametrize(
    ("body", "because"),
    [
        pytest.param(event(state="OK"), "not in ALARM", id="back to OK"),
        pytest.param(event(**COMPOSITE), "a composite alarm, which watches other alarms", id="a composite alarm"),
        pytest.param(
            event({"id": "e1", "expression": "SEARCH('…', 'Sum')", "returnData": True}),
            "an expression that names no endpoint",
            id="an expression",
        ),
        pytest.param(event(metric("x", "AWS/EC2")), "not about an endpoint", id="another service"),
        pytest.param(event(metric(namespace=["AWS/SageMaker"])), "not about an endpoint", id="a list as namespace"),
        pytest.param(event(metric("")), "not about an endpoint", id="an empty name"),
        pytest.param(event(detail="x"), "not an alarm's event", id="odd detail"),
        pytest.param(event(detail={"state": [], "configuration": 5}), "not in ALARM", id="odd state"),
        pytest.param(event(account=None), "not an alarm's event", id="no account"),
        pytest.param(event(source="me"), "not an alarm's event", id="another source"),
        pytest.param("[" * 100_000, "not an alarm's event", id="too deep"),
        pytest.param("nonsense", "not an alarm's event", id="no JSON"),
    ],
)
def test_other_events_are_dropped_and_counted(body: str, because: str):
    endpoints, dropped = alarmed_endpoints([body])
    assert (endpoints, dropped) == (set(), {because: 1})
