"""What an event may ask the Lambda function for: less than it is deployed for, and never anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.lambda_context import lambda_context
from fakes.sample_findings import report
from reaper.aws.functions import sweep
from reaper.errors import SettingsError
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

CONTEXT = lambda_context("sweep")


def invoked(event: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = sweep.handler(event, CONTEXT)  # type: ignore[arg-type]
    return answer


@pytest.fixture
def deployed(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in {"AWS_REGION": "us-east-1", "REAPER_REGIONS": "us-east-1,us-west-2", "REAPER_QUIET": "true"}.items():
        monkeypatch.setenv(name, value)
    return server


WIDER: list[dict[str, Any]] = [
    {"region": "eu-west-1"},
    {"regions": ["us-east-1", "eu-west-1"]},
    {"regions": "all"},
    {"source": "aws.events", "detail-type": "x", "detail": {"regions": "all"}},
]


@pytest.mark.parametrize("event", WIDER, ids=repr)
@pytest.mark.parametrize("regions", ["us-east-1,us-west-2", ""], ids=["some regions", "its own region"])
def test_no_event_adds_a_region_to_the_deployments(
    deployed: Server, monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], regions: str
):
    monkeypatch.setenv("REAPER_REGIONS", regions)
    with pytest.raises(SettingsError, match="this deployment doesn't sweep"):
        invoked(event)
    assert deployed.calls == []


def test_an_event_may_narrow_the_deployments_regions(deployed: Server):
    report = invoked({"region": "us-west-2", "kinds": ["sagemaker-notebook"]})
    assert {row["region"] for row in report["coverage"]} == {"us-west-2"}


def test_a_call_for_the_doctor_checks_and_sweeps_nothing(deployed: Server):
    answer = invoked({"doctor": True})
    assert answer["schema"] == 1
    assert {check["check"] for check in answer["checks"]} >= {"credentials.aws", "reading.aws", "policy"}
    assert [call.action for call in deployed.calls if call.operation.startswith(("Put", "Update", "Delete", "Stop"))] == []


def test_a_call_for_the_doctor_adds_no_region_either(deployed: Server):
    with pytest.raises(SettingsError, match="this deployment doesn't sweep"):
        invoked({"doctor": True, "region": "eu-west-1"})
    with pytest.raises(SettingsError, match="unknown option 'doctor'"):
        invoked({"doctor": "yes"})


def alarm(name: str, id: str, **envelope: str) -> dict[str, Any]:
    """A queue's message with the event of an alarm on that endpoint."""
    metric = {"namespace": "AWS/SageMaker", "name": "Invocations", "dimensions": {"EndpointName": name}}
    body = {
        "id": id,
        "source": "aws.cloudwatch",
        "detail-type": "CloudWatch Alarm State Change",
        "account": "123456789012",
        "region": "us-east-1",
        "detail": {"state": {"value": "ALARM"}, "configuration": {"metrics": [{"metricStat": {"metric": metric}}]}},
    }
    return {"eventSource": "aws:sqs", "body": json.dumps(body | envelope)}


def test_a_queue_of_alarms_is_one_run_over_their_endpoints(deployed: Server, account: Account):
    for name in ("quiet", "other", "third"):
        account.endpoint(name)
    records = [alarm("quiet", "1"), alarm("quiet", "1"), alarm("other", "2"), alarm("x", "3", account="999999999999")]
    answer = invoked({"Records": records})
    assert (answer["resources"], sum(answer["dropped"].values())) == (2, 2)


def test_alarms_of_other_accounts_alone_start_no_run(deployed: Server):
    answer = invoked({"Records": [alarm("x", "3", account="999999999999")]})
    assert answer == {"run": None, "resources": 0, "dropped": {"outside the deployment's accounts and regions": 1}}


@pytest.mark.parametrize(("environ", "expected"), [({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1536"}, 135.0), ({}, None)])
def test_the_report_of_a_function_has_its_gigabyte_seconds(environ: dict[str, str], expected: float | None):
    made = report()
    ninety = replace(made, run=replace(made.run, finished_at=made.run.started_at + timedelta(seconds=90)))
    assert sweep._with_gb_seconds(ninety, environ).run.gb_seconds == expected
