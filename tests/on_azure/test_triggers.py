"""What follows a run: the admins' summary in an audit, the lines in the log that the alerts look for, and the stored report."""

from __future__ import annotations

import json
import logging
import os
from datetime import timedelta

import azure.functions as func
import pytest

from fakes.fake_deployment import POLICY, FakeDeployment, policy
from on_azure.conftest import CLUSTER
from on_azure.orchestrated import FUNCTIONS, LOOP, SUBS, Deployment
from reaper.azure.functions import report as run_report
from reaper.azure.functions import starting
from reaper.azure.stores import texts
from reaper.model import Mode
from reaper.workflow.store import open_run_store
from reaper_sandbox.azure.fault import error, on
from reaper_sandbox.azure.rights import deny


@pytest.fixture
def audit(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """An audit of one subscription with nothing in it, which mails the admins."""
    for sub, cluster in deployed_app.clusters.items():
        if sub != SUBS[0]:
            cluster.remove()
    for name, value in {"ENDPOINT": deployed_app.server.url, "SENDER": "reaper@example.com", "TO": "ada@example.com"}.items():
        monkeypatch.setenv(f"REAPER_EMAIL_{name}", value)
    monkeypatch.setenv("REAPER_MODE", "audit")
    monkeypatch.setenv("REAPER_SUBSCRIPTIONS", SUBS[0])
    monkeypatch.setenv("REAPER_QUIET", "true")
    return deployed_app


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The events in the log."""
    return [json.loads(r.getMessage())["event"] for r in caplog.records if r.getMessage().startswith('{"event"')]


def test_a_quiet_deployment_mails_only_news(audit: Deployment):
    audit.sweep()
    assert [m["content"]["subject"] for m in audit.server.mails] == ["[ML Idle Reaper] 1 idle ML resource costs $2,791 a month"]
    audit.clusters[SUBS[0]].remove()
    audit.sweep()
    assert len(audit.server.mails) == 1


def test_a_quiet_deployment_mails_gaps_too(audit: Deployment):
    audit.clusters[SUBS[0]].remove()
    audit.server.rules.append(deny("*/computes/read"))
    audit.sweep()
    assert "coverage " in audit.server.mails[0]["content"]["subject"]


def test_a_summary_that_is_not_accepted_is_no_success(audit: Deployment, caplog: pytest.LogCaptureFixture):
    audit.server.rules.append(on("POST", "/emails:send", error(400, "InvalidRequest", "no such sender")))
    with caplog.at_level(logging.INFO, "reaper"):
        report = audit.sweep()
    assert [finding["name"] for finding in report["findings"]] == ["gpus-1"]
    assert "no such sender" in report["troubles"][0]
    assert "summary not sent" in events(caplog)
    assert "scheduled sweep succeeded" not in events(caplog)


def test_only_a_scheduled_sweep_that_succeeded_is_logged_as_one(audit: Deployment, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "reaper"):
        audit.post()
        audit.run()
        assert "swept" in events(caplog)
        assert "scheduled sweep succeeded" not in events(caplog)
        audit.sweep()
    assert events(caplog)[-1] == "scheduled sweep succeeded"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_only_a_post_starts_a_run(audit: Deployment, method: str):
    request = func.HttpRequest(method, "http://127.0.0.1/api/sweep", body=b"")
    answer = LOOP.run_until_complete(FUNCTIONS["sweep_by_hand"](req=request, client=audit.binding))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert "POST" in json.loads(answer.get_body())["error"]
    assert audit.engine.instances == {}


def test_a_late_timer_is_noticed(audit: Deployment, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "reaper"):
        audit.tick(late=True)
    assert events(caplog)[:2] == ["late", "run started"]


def test_an_unreadable_policy_fails_the_run(audit: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_POLICY", f"{audit.server.url}/account/policies/policy.yaml")
    audit.tick()
    instance = audit.run()
    assert (instance.status, "policy https://" in instance.output) == ("Failed", True)


def test_a_gap_is_one_line_of_its_own_in_the_log(audit: Deployment, caplog: pytest.LogCaptureFixture):
    audit.server.rules.append(deny("*/computes/read"))
    with caplog.at_level(logging.INFO, "reaper"):
        audit.sweep()
    lines = [json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith("{")]
    [gap] = [e for e in lines if e["event"] == "coverage incomplete" and e["kind"] == CLUSTER]
    assert (gap["missing"], gap["subscription"]) == ("Microsoft.MachineLearningServices/workspaces/computes/read", SUBS[0])
    assert [e["Failures"] for e in lines if e["event"] == "swept"] == [2]


@pytest.mark.parametrize(("mode", "rings"), [(Mode.ENFORCE, True), (Mode.AUDIT, False)])
def test_actions_on_hold_are_logged_for_the_alert(caplog: pytest.LogCaptureFixture, mode: Mode, rings: bool):
    deployment = FakeDeployment(policy=policy(POLICY.replace("max_acts: 20", "max_acts: 0")))
    deployment.cloud.add("churn")
    deployment.sweep()
    deployment.now += timedelta(days=3)
    with caplog.at_level(logging.INFO, "reaper"):
        run_report.log_metrics(deployment.sweep(mode), None)
    logged = {e["event"]: e for e in (json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith("{"))}
    assert (logged["swept"]["Held"], logged["swept"]["ActsFailed"], "acts held" in logged) == (1, 0, rings)


def test_a_very_large_report_is_answered_with_its_address(audit: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(starting, "MAX_ANSWER_CHARS", 10)
    report = audit.sweep()
    assert report["findings"] == []
    assert report["stored"].startswith(f"{audit.blobs}/reports-")


@pytest.mark.parametrize("damaged", ["report", "result"])
def test_a_damaged_report_is_no_answer(audit: Deployment, damaged: str):
    run = audit.sweep()["run"]["id"]
    store = open_run_store(os.environ["REAPER_RUNS"], run)
    stored = str((run_report.published(store) or {})["stored"])
    place, _, name = stored.rpartition("/")
    if damaged == "report":
        texts.replace_text(place, name, texts.read_text(stored)[:200])
    else:
        store.write(run_report.PUBLISHED, '{"run": "')
    status, answer = audit.ask(run)
    assert (status, "is damaged" in answer["error"]) == (500, True)


def test_a_missing_report_is_named(audit: Deployment):
    run = audit.sweep()["run"]["id"]
    store = open_run_store(os.environ["REAPER_RUNS"], run)
    result = run_report.published(store) or {}
    store.write(run_report.PUBLISHED, json.dumps({**result, "stored": f"{result['stored']}x"}))
    status, answer = audit.ask(run)
    assert (status, f"{run}.jsonx" in answer["error"]) == (500, True)
