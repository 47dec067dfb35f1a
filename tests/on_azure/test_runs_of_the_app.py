"""Starting runs and asking about them: one at a time, and never an address of the engine's own."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import azure.functions as func
import pytest

from on_azure import durable_engine
from on_azure.durable_engine import Engine, Instance, NotDeterministicError
from on_azure.orchestrated import SUBS, Deployment, replay
from reaper.azure.functions import report as run_notes
from reaper.azure.functions import report as run_report
from reaper.azure.functions import starting
from reaper.azure.functions.orchestration import (
    CONCLUDE_RUN,
    DECIDE_RUN,
    LIST_TARGETS,
    OBSERVE_ITEM,
    VERSIONS,
    WIDTH,
    orchestrate,
)
from reaper.coverage import RUNS
from reaper.errors import CloudError
from reaper.workflow.store import open_run_store

HISTORY = Path(__file__).with_name("run_version_2.json")


def body(answer: func.HttpResponse) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(answer.get_body())
    return parsed


def events(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith('{"event"')]


def test_a_call_is_answered_with_the_address_of_its_report(deployed_app: Deployment):
    answer = deployed_app.post({"mode": "audit", "kinds": ["azureml-compute-cluster"], "subscriptions": [SUBS[1]]})
    run = body(answer)["run"]
    assert (answer.status_code, body(answer)) == (202, {"schema": 1, "run": run, "status": f"/api/sweep/{run}"})
    assert answer.headers["Location"] == f"/api/sweep/{run}"
    assert deployed_app.ask(run) == (202, body(answer))
    deployed_app.run()
    status, report = deployed_app.ask(run)
    assert status == 200
    assert (report["schema"], report["run"]["id"], report["run"]["mode"]) == (1, run, "audit")
    assert {(row["account"], row["kind"]) for row in report["coverage"]} == {(SUBS[1], "azureml-compute-cluster")}


def test_a_report_is_answered_after_later_runs_too(deployed_app: Deployment):
    first = body(deployed_app.post({"mode": "audit"}))["run"]
    deployed_app.run()
    deployed_app.sweep()
    assert deployed_app.ask(first)[1]["run"]["id"] == first


@pytest.mark.parametrize("run", ["0" * 12, "sweep", "..", "A" * 12, ""])
def test_an_unknown_run_is_not_found(deployed_app: Deployment, run: str):
    assert deployed_app.ask(run)[0] == 404


def test_no_answer_has_an_address_of_the_engine(deployed_app: Deployment):
    started = deployed_app.post()
    run = body(started)["run"]
    answers = [
        str(started.get_body()),
        str(dict(started.headers)),
        json.dumps(deployed_app.ask(run)),
        json.dumps(deployed_app.ask("0" * 12)),
    ]
    answers.append(str(deployed_app.post().get_body()))
    deployed_app.engine.faults = {(DECIDE_RUN, None): ["crash"]}
    deployed_app.run()
    answers.append(json.dumps(deployed_app.ask(run)))
    deployed_app.later(hours=1)
    answers.append(json.dumps(deployed_app.sweep()))
    assert durable_engine.SYSTEM_KEY in deployed_app.binding
    assert [a for a in answers if "code=" in a or durable_engine.SYSTEM_KEY in a or "webhooks" in a] == []


def test_a_start_while_a_run_is_under_way_is_skipped_and_reported(deployed_app: Deployment, caplog: pytest.LogCaptureFixture):
    run = body(deployed_app.post())["run"]
    with caplog.at_level(logging.INFO, "reaper"):
        second = deployed_app.post()
        deployed_app.tick()
    assert (second.status_code, body(second)["status"]) == (409, f"/api/sweep/{run}")
    assert [(e["run"], e["scheduled"]) for e in events(caplog) if e["event"] == "start skipped"] == [(run, False), (run, True)]
    caplog.clear()
    with caplog.at_level(logging.INFO, "reaper"):
        deployed_app.run()
    skipped = [row for row in deployed_app.ask(run)[1]["coverage"] if row["kind"] == "runs"]
    assert [row["status"] for row in skipped] == ["partial", "partial"]
    assert all("was skipped" in row["error"] for row in skipped)
    assert [e for e in events(caplog) if e["event"] == "coverage incomplete"] == []
    assert len([name for name, _ in deployed_app.engine.calls if name == LIST_TARGETS]) == 1


@pytest.mark.parametrize("text", ['{"status": "part', "[]", '{"status": "odd", "because": "x"}', ""])
def test_a_note_that_cannot_be_read_is_a_row_and_costs_no_report(deployed_app: Deployment, text: str):
    def damage(name: str, _: int) -> None:
        if name == DECIDE_RUN:
            run = deployed_app.engine.input_of("sweep")["run"]
            open_run_store(os.environ["REAPER_RUNS"], run).write(f"{run_notes.FOLDER}1.json", text)

    deployed_app.engine.after = damage
    report = deployed_app.sweep()
    assert len(report["findings"]) == 5
    [row] = [row for row in report["coverage"] if row["kind"] == RUNS]
    assert (row["status"], "can't be read" in row["error"]) == ("failed", True)


@pytest.mark.parametrize("start", ["by hand", "by the timer"])
def test_a_start_that_another_one_overtakes_is_skipped(deployed_app: Deployment, caplog: pytest.LogCaptureFixture, start: str):
    """The other one starts after this one has asked whether a run is under way."""
    engine, other = deployed_app.engine, "0" * 12
    start_now = engine.start

    def overtaken(name: str, instance: str, given: str) -> Instance | None:
        start_now(name, instance, json.dumps({"run": other, "options": {}, "scheduled": False}))
        return start_now(name, instance, given)

    engine.start = overtaken  # type: ignore[method-assign]
    with caplog.at_level(logging.INFO, "reaper"):
        if start == "by hand":
            answer = deployed_app.post()
            assert (answer.status_code, body(answer)["run"], body(answer)["status"]) == (409, other, f"/api/sweep/{other}")
        else:
            deployed_app.tick()
    assert [e["event"] for e in events(caplog)] == ["start skipped"]
    assert engine.input_of("sweep")["run"] == other


def test_an_engine_that_takes_no_run_is_an_error_that_says_so(deployed_app: Deployment):
    deployed_app.engine.start = lambda name, instance, given: None  # type: ignore[method-assign]
    answer = deployed_app.post()
    assert answer.status_code == 500
    assert "can't start a run: An Orchestration instance" in body(answer)["error"]
    with pytest.raises(CloudError, match="can't start a run"):
        deployed_app.tick()


def test_a_run_that_is_stuck_is_ended_replaced_and_reported(deployed_app: Deployment, caplog: pytest.LogCaptureFixture):
    stuck = body(deployed_app.post())["run"]
    deployed_app.engine.instances["sweep"].status = "Running"
    deployed_app.later(hours=2, minutes=59)
    deployed_app.tick()
    assert deployed_app.engine.input_of("sweep")["run"] == stuck
    deployed_app.later(minutes=2)
    with caplog.at_level(logging.INFO, "reaper"):
        report = deployed_app.sweep()
    assert report["run"]["id"] != stuck
    [row] = [row for row in report["coverage"] if row["kind"] == "runs"]
    assert (row["status"], f"run {stuck} was ended" in row["error"]) == ("failed", True)
    assert [e["run"] for e in events(caplog) if e["event"] == "run ended"] == [stuck]
    assert [e["kind"] for e in events(caplog) if e["event"] == "coverage incomplete"] == ["runs"]


def test_a_run_with_the_ledger_of_another_deployment_is_refused(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.post()
    assert deployed_app.run().status == "Completed"
    monkeypatch.setenv("REAPER_DEPLOYMENT", "/subscriptions/x/another/app")
    deployed_app.post()
    instance = deployed_app.run()
    assert (instance.status, "the ledger belongs to the deployment /subscriptions/x/" in str(instance.output)) == ("Failed", True)


def test_the_timer_deletes_the_history_of_runs_that_ended_long_ago(deployed_app: Deployment):
    deployed_app.tick()
    [asked] = deployed_app.engine.purged
    assert asked["createdTimeTo"].startswith("2026-11-07T10:17:")
    assert asked["createdTimeTo"].endswith("Z")
    assert set(asked["runtimeStatus"].split(",")) == {"Completed", "Failed", "Terminated", "Canceled"}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param({"mode": "enforce"}, "a call can only lower the mode", id="a higher mode"),
        pytest.param({"subscriptions": [SUBS[2]]}, "this deployment doesn't sweep", id="another subscription"),
        pytest.param({"regions": ["westeurope"]}, "use 'subscriptions' to narrow", id="an option of AWS"),
        pytest.param({"__class__": "x"}, "unknown option", id="an unknown option"),
        pytest.param(b"{", "the body isn't JSON", id="no JSON"),
    ],
)
def test_a_wrong_call_starts_nothing(deployed_app: Deployment, raw: object, reason: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_MODE", "notify")
    monkeypatch.setenv("REAPER_SUBSCRIPTIONS", f"{SUBS[0]},{SUBS[1]}")
    answer = deployed_app.post(raw)
    assert (answer.status_code, reason in body(answer)["error"]) == (400, True)
    assert deployed_app.engine.instances == {}


@pytest.mark.parametrize("name", ["REAPER_RUNS", "REAPER_LEDGER", "REAPER_MANIFESTS"])
def test_a_deployment_without_its_stores_starts_nothing(deployed_app: Deployment, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(name)
    answer = deployed_app.post()
    assert name in body(answer)["error"]
    assert deployed_app.engine.instances == {}


def test_a_report_that_cannot_be_stored_is_no_silent_success(
    deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("REAPER_REPORTS", f"{deployed_app.blobs}/nowhere")
    run = body(deployed_app.post())["run"]
    with caplog.at_level(logging.INFO, "reaper"):
        deployed_app.run()
    status, answer = deployed_app.ask(run)
    assert (status, "can't be stored" in answer["error"]) == (500, True)
    assert "report not stored" in [e["event"] for e in events(caplog)]
    assert "scheduled sweep succeeded" not in [e["event"] for e in events(caplog)]


@pytest.mark.parametrize("forged", ["manifests", "runs"])
def test_the_status_of_a_run_reads_reports_only(deployed_app: Deployment, forged: str):
    """Who may write to the store of a run could otherwise read every blob that the app may read."""
    deployed_app.sweep()
    run = deployed_app.engine.input_of("sweep")["run"]
    secret = f"{os.environ[f'REAPER_{forged.upper()}']}/2026/11/21/{run}.json"
    container = os.environ[f"REAPER_{forged.upper()}"]
    open_run_store(container, "2026/11/21").write(f"{run}.json", '{"secret": true}')
    store = open_run_store(os.environ["REAPER_RUNS"], run)
    store.write(run_report.PUBLISHED, json.dumps({"run": run, "status": "concluded", "stored": secret, "troubles": []}))
    status, answer = deployed_app.ask(run)
    assert (status, "secret" in answer) == (500, False)
    assert "is no report of run" in answer["error"]


def test_a_repeated_conclude_mails_and_logs_once(deployed_app: Deployment, caplog: pytest.LogCaptureFixture):
    deployed_app.engine.faults = {(CONCLUDE_RUN, None): ["twin"]}
    with caplog.at_level(logging.INFO, "reaper"):
        deployed_app.sweep()
        deployed_app.engine.settle()
    assert [e["event"] for e in events(caplog)].count("swept") == 1
    assert [e["event"] for e in events(caplog)].count("scheduled sweep succeeded") == 1


def test_a_conclude_that_died_while_publishing_is_made_up_for(deployed_app: Deployment):
    def claim(name: str, _: int) -> None:
        if name == DECIDE_RUN:
            run = deployed_app.engine.input_of("sweep")["run"]
            open_run_store(os.environ["REAPER_RUNS"], run).write(run_report.PUBLISHING, "a process that is gone")

    deployed_app.engine.after = claim
    assert len(deployed_app.sweep()["findings"]) == 5


def test_the_window_bounds_what_is_under_way(deployed_app: Deployment):
    for digits in range(10, 10 + 3 * WIDTH):
        deployed_app.server.subscription(f"{digits}000000-0000-0000-0000-000000000000")
    report = deployed_app.sweep()
    assert len({row["account"] for row in report["coverage"]}) == 5 + 3 * WIDTH
    assert deployed_app.engine.most_at_once == WIDTH
    assert deployed_app.engine.instances["sweep"].largest < 1000


def test_a_run_ends_by_the_version_it_began_with(deployed_app: Deployment):
    """A new version is deployed in the middle of a run: that run goes on as it began, and the next one is new."""

    def new_orchestrator(context: df.DurableOrchestrationContext) -> Any:
        return (yield from orchestrate(context, {**VERSIONS, "3": newer}))

    def newer(context: df.DurableOrchestrationContext) -> Any:
        yield context.call_activity(OBSERVE_ITEM, {**context.get_input(), "item": 0})
        return {"run": context.get_input()["run"], "status": "newer"}

    handle = df.Orchestrator.create(new_orchestrator)
    deployed_app.warned()

    def redeploy(name: str, count: int) -> None:
        if name == OBSERVE_ITEM:
            deployed_app.engine.version = "3"
            deployed_app.engine.replay = lambda _, context: str(handle(func.OrchestrationContext(context)))

    deployed_app.engine.after = redeploy
    report = deployed_app.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "done")}
    assert sorted(deployed_app.changes()) == list("12345")
    deployed_app.tick()
    assert deployed_app.run().output["status"] == "newer"


def test_a_run_of_an_unknown_version_fails_and_says_so(deployed_app: Deployment):
    deployed_app.engine.version = "99"
    deployed_app.tick()
    instance = deployed_app.run()
    assert instance.status == "Failed"
    assert "no version '99'" in instance.output
    assert deployed_app.engine.calls == []


def test_version_2_still_asks_for_what_it_asked_for_when_it_was_released():
    """The history of a run of version 2. If its replay differs, runs that are under way break when this is deployed: add a version."""
    recorded = json.loads(HISTORY.read_text())
    results = iter(recorded["results"])
    engine = Engine(replay, lambda name, given: json.dumps(next(results)))
    engine.start(starting.ORCHESTRATOR, starting.INSTANCE, json.dumps(recorded["input"]))
    instance = engine.run(starting.INSTANCE)
    assert [[name, given] for name, given in engine.calls] == recorded["calls"]
    assert instance.output == recorded["output"]


def test_the_engine_of_these_tests_notices_a_changed_order():
    orders = iter([[LIST_TARGETS, DECIDE_RUN], [DECIDE_RUN, LIST_TARGETS]] * 9)

    def unsteady(context: df.DurableOrchestrationContext) -> Any:
        for name in next(orders):
            yield context.call_activity(name, {})

    handle = df.Orchestrator.create(unsteady)
    engine = Engine(lambda _, context: str(handle(func.OrchestrationContext(context))), lambda name, given: "{}")
    engine.start("x", "x", "{}")
    with pytest.raises(NotDeterministicError):
        engine.run("x")
