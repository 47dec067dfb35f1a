"""The functions themselves, called directly, so that they are tried on any Python."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from types import SimpleNamespace

import azure.functions as func
import pytest

from fakes.fake_deployment import POLICY, FakeDeployment, policy
from on_azure.conftest import CLUSTER, LONG_AGO, OTHER, SUB
from reaper.azure import triggers
from reaper.errors import CloudError, SettingsError
from reaper.model import Mode
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

FUNCTIONS = {f.get_function_name(): f.get_user_function() for f in triggers.app.get_functions()}


@pytest.fixture
def deployed(server: Server, vision: Workspace, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A deployment that mails; the sandbox's clock runs, because the entry points read the real one."""
    server.world.fixed = None
    for name, value in {"ENDPOINT": server.url, "SENDER": "reaper@example.com", "TO": "ada@example.com"}.items():
        monkeypatch.setenv(f"REAPER_EMAIL_{name}", value)
    return server


def tick(*, late: bool = False) -> None:
    FUNCTIONS["sweep_on_schedule"](SimpleNamespace(past_due=late))


def post(body: object) -> func.HttpResponse:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: func.HttpResponse = FUNCTIONS["sweep_by_hand"](func.HttpRequest("POST", "http://127.0.0.1/api/sweep", body=raw))
    return answer


def test_a_quiet_deployment_mails_only_news(deployed: Server, vision: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_QUIET", "true")
    tick()
    assert deployed.mails == []
    signals.nodes(vision.cluster("gpus", created=LONG_AGO), active=0, idle=1, since=LONG_AGO)
    tick()
    assert [m["content"]["subject"] for m in deployed.mails] == ["[ML Idle Reaper] 1 idle ML resource costs $3.82 an hour"]


def test_a_quiet_deployment_mails_gaps_too(deployed: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_QUIET", "true")
    deployed.rules.append(deny("*/computes/read"))
    tick()
    assert "coverage " in deployed.mails[0]["content"]["subject"]


def test_a_scheduled_run_fails_if_its_mail_is_not_accepted(deployed: Server):
    deployed.rules.append(on("POST", "/emails:send", error(400, "InvalidRequest", "no such sender")))
    with pytest.raises(CloudError, match="the summary was not accepted"):
        tick()


def test_a_manual_sweep_is_answered_if_its_mail_is_not_accepted(
    deployed: Server, vision: Workspace, caplog: pytest.LogCaptureFixture
):
    vision.cluster("gpus", created=LONG_AGO)
    deployed.rules.append(on("POST", "/emails:send", error(400, "InvalidRequest", "no such sender")))
    with caplog.at_level(logging.INFO, "reaper"):
        answer = post({})
    report = json.loads(answer.get_body())
    assert answer.status_code == 200
    assert [finding["name"] for finding in report["findings"]] == ["gpus"]
    assert "no such sender" in report["troubles"][0]
    assert any('"summary not sent"' in r.getMessage() and r.levelno == logging.ERROR for r in caplog.records)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The events in the log."""
    return [json.loads(r.getMessage())["event"] for r in caplog.records if r.getMessage().startswith('{"event"')]


def test_a_scheduled_sweep_that_succeeded_is_the_last_line_in_the_log(deployed: Server, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "reaper"):
        tick()
    assert messages(caplog)[-1] == "scheduled sweep succeeded"


def test_only_a_successful_scheduled_sweep_is_logged_as_one(deployed: Server, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "reaper"):
        post({})
        deployed.rules.append(on("POST", "/emails:send", error(400, "InvalidRequest", "no such sender")))
        with pytest.raises(CloudError):
            tick()
    assert "swept" in messages(caplog)
    assert "scheduled sweep succeeded" not in messages(caplog)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_only_a_post_sweeps_stores_or_mails(deployed: Server, method: str):
    before = len(deployed.requests)
    answer: func.HttpResponse = FUNCTIONS["sweep_by_hand"](func.HttpRequest(method, "http://127.0.0.1/api/sweep", body=b""))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert "POST" in json.loads(answer.get_body())["error"]
    assert (len(deployed.requests), deployed.mails) == (before, [])


@pytest.mark.parametrize("option", ["region", "regions", "account", "accounts"])
def test_options_for_aws_only_are_refused(deployed: Server, option: str):
    answer = post({option: ["westeurope"]})
    assert answer.status_code == 400
    assert "use 'subscriptions' to narrow" in json.loads(answer.get_body())["error"]
    assert post({option: []}).status_code == 200


def test_an_unreadable_policy_is_a_server_error(deployed: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_POLICY", f"{deployed.url}/account/policies/policy.yaml")
    answer = post({})
    assert (answer.status_code, "policy https://" in json.loads(answer.get_body())["error"]) == (500, True)


def test_a_report_that_cannot_be_stored_fails_the_run(deployed: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_REPORTS", f"{deployed.url}/account/reports")
    with pytest.raises(SettingsError, match="the report can't be stored"):
        tick()
    answer = post({})
    assert (answer.status_code, "can't be stored" in json.loads(answer.get_body())["troubles"][0]) == (200, True)


def test_a_gap_is_one_line_of_its_own_in_the_log(deployed: Server, caplog: pytest.LogCaptureFixture):
    deployed.rules.append(deny("*/computes/read"))
    with caplog.at_level(logging.INFO, "reaper"):
        tick()
    events = [json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith("{")]
    [gap] = [e for e in events if e["event"] == "coverage incomplete" and e["kind"] == CLUSTER]
    assert (gap["missing"], gap["subscription"]) == ("Microsoft.MachineLearningServices/workspaces/computes/read", SUB)
    assert [e["Failures"] for e in events if e["event"] == "swept"] == [2]


@pytest.mark.parametrize(("mode", "rings"), [(Mode.ENFORCE, True), (Mode.AUDIT, False)])
def test_actions_on_hold_are_logged_for_the_alert(caplog: pytest.LogCaptureFixture, mode: Mode, rings: bool):
    deployment = FakeDeployment(policy=policy(POLICY.replace("max_acts: 20", "max_acts: 0")))
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += timedelta(days=3)
    with caplog.at_level(logging.INFO, "reaper"):
        triggers._log_metrics(deployment.sweep(mode), None)
    events = {e["event"]: e for e in (json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith("{"))}
    assert (events["swept"]["Held"], events["swept"]["ActsFailed"], "acts held" in events) == (1, 0, rings)


def test_a_very_large_report_is_answered_in_full_without_a_store(deployed: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(triggers, "MAX_ANSWER_CHARS", 10)
    assert "stored" not in json.loads(post({}).get_body())


def test_a_call_can_name_its_own_subscriptions(deployed: Server):
    report = json.loads(post({"subscription": OTHER}).get_body())
    assert {row["account"] for row in report["coverage"]} == {OTHER}


def test_no_body_sweeps_a_subscription_that_the_deployment_does_not(deployed: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_SUBSCRIPTIONS", SUB)
    before = len(deployed.requests)
    for body in ({"subscription": OTHER}, {"subscriptions": [SUB, OTHER]}):
        answer = post(body)
        assert answer.status_code == 400
        assert f"this deployment doesn't sweep '{OTHER}'" in json.loads(answer.get_body())["error"]
    assert len(deployed.requests) == before
    report = json.loads(post({"subscription": SUB.upper()}).get_body())
    assert {row["account"] for row in report["coverage"]} == {SUB}
