"""A run as a Durable orchestration over five subscriptions, replayed by the SDK's own engine, with everything that can go wrong between them."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import pytest

from on_azure.orchestrated import LONG_AGO, SUBS, Deployment
from reaper.azure.functions.orchestration import ACT_ON_ITEM, CONCLUDE_RUN, DECIDE_RUN, LIST_TARGETS, OBSERVE_ITEM, TIMED_OUT
from reaper.workflow.store import open_run_store
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import error, on, throttled
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.rights import deny


def rows(report: dict[str, Any], status: str) -> dict[str, str]:
    """The errors of the rows with that status, by the first digit of the subscription."""
    return {row["account"][:1]: row["error"] for row in report["coverage"] if row["status"] == status}


def test_a_run_notifies_once_and_then_stops_everywhere(deployed_app: Deployment):
    deployed_app.warned()
    [notice] = deployed_app.mails_to("ana@example.com")
    assert all(f"gpus-{sub[0]}" in notice for sub in SUBS)
    report = deployed_app.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "done")}
    assert set(deployed_app.least().values()) == {0}
    assert len(deployed_app.mails_to("ana@example.com")) == 2
    assert deployed_app.engine.most_at_once == len(SUBS)


def test_one_denied_throttled_hanging_and_repeated_hide_no_other(deployed_app: Deployment):
    deployed_app.warned()
    deployed_app.server.rules.append(deny("*", f"/subscriptions/{SUBS[0]}.*"))
    deployed_app.server.rules.append(on("GET|POST", f"/subscriptions/{SUBS[1]}.*", throttled(0)))
    deployed_app.engine.faults = {(OBSERVE_ITEM, 2): ["hang"], (OBSERVE_ITEM, 3): ["twin"], (ACT_ON_ITEM, 0): ["twin"]}
    report = deployed_app.sweep()
    assert "Microsoft.Resources/subscriptions/read" in rows(report, "denied")["1"]
    assert "throttled" in rows(report, "failed")["2"]
    assert f"not read: {TIMED_OUT}" in rows(report, "failed")["3"]
    assert {f["account"][0]: (f["step"], f["outcome"]) for f in report["findings"]} == dict.fromkeys("45", ("stop", "done"))
    assert deployed_app.least() == {"1": 1, "2": 1, "3": 1, "4": 0, "5": 0}
    assert sorted(deployed_app.changes()) == ["4", "5"]
    [_, stopped] = deployed_app.mails_to("ana@example.com")
    assert "gpus-4" in stopped
    assert "gpus-5" in stopped


def test_every_activity_bears_a_concurrent_twin_of_itself(deployed_app: Deployment):
    deployed_app.warned()
    items = [(OBSERVE_ITEM, item) for item in range(5)] + [(ACT_ON_ITEM, item) for item in range(5)]
    once = [(LIST_TARGETS, None), (DECIDE_RUN, None), (CONCLUDE_RUN, None)]
    deployed_app.engine.faults = {key: ["twin"] for key in [*items, *once]}
    report = deployed_app.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "done")}
    assert sorted(deployed_app.changes()) == list("12345")
    assert len(deployed_app.mails_to("ana@example.com")) == 2
    assert rows(report, "failed") == {}


def test_an_act_whose_worker_dies_is_a_row_and_the_next_run_carries_it_out(deployed_app: Deployment):
    deployed_app.warned()
    deployed_app.engine.faults = {(ACT_ON_ITEM, 0): ["crash"]}
    report = deployed_app.sweep()
    [dead] = [account for account, least in deployed_app.least().items() if least]
    [row] = [row for row in report["coverage"] if row["kind"] == "acts"]
    assert "the worker process exited" in row["error"]
    assert {f["account"][0]: f["outcome"] for f in report["findings"]}[dead] != "done"
    deployed_app.later(hours=1)
    deployed_app.sweep()
    assert set(deployed_app.least().values()) == {0}
    assert sorted(deployed_app.changes()) == list("12345")


def test_an_activity_that_fails_twice_is_tried_again(deployed_app: Deployment):
    deployed_app.server.rules.append(on("GET", "/subscriptions", error(400, "Busy", "try again"), times=2))
    assert {f["step"] for f in deployed_app.sweep()["findings"]} == {"warn"}


def test_a_run_that_cannot_be_listed_fails_and_says_why(deployed_app: Deployment, caplog: pytest.LogCaptureFixture):
    deployed_app.server.rules.append(on("GET", "/subscriptions", error(400, "Broken", "no list today")))
    with caplog.at_level(logging.INFO, "reaper"):
        deployed_app.tick()
        instance = deployed_app.run()
    assert instance.status == "Failed"
    assert "list_targets" in instance.output
    assert "no list today" in instance.output
    status, answer = deployed_app.ask(deployed_app.engine.input_of("sweep")["run"])
    assert (status, "ended as Failed: list_targets: " in answer["error"], "no list today" in answer["error"]) == (500, True, True)
    assert "OutOfProcData" not in answer["error"]
    assert "scheduled sweep succeeded" not in caplog.text


@pytest.mark.parametrize(("step", "times"), [(DECIDE_RUN, 1), (CONCLUDE_RUN, 2)])
def test_a_decide_or_conclude_that_hangs_fails_the_run(deployed_app: Deployment, step: str, times: int):
    deployed_app.engine.faults = {(step, None): ["hang"] * times}
    deployed_app.tick()
    instance = deployed_app.run()
    assert (instance.status, instance.output) == ("Failed", f"{step}: {TIMED_OUT}")
    deployed_app.later(hours=1)
    assert {f["step"] for f in deployed_app.sweep()["findings"]} == {"warn"}


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_a_conclude_that_dies_is_repeated_and_mails_everything(deployed_app: Deployment, fault: str):
    deployed_app.warned()
    deployed_app.engine.faults = {(CONCLUDE_RUN, None): [fault]}
    assert {(f["step"], f["outcome"]) for f in deployed_app.sweep()["findings"]} == {("stop", "done")}
    assert len(deployed_app.mails_to("ana@example.com")) == 2
    assert [name for name, _ in deployed_app.engine.calls].count(CONCLUDE_RUN) == 2


def test_nothing_to_observe_or_to_act_on_ends_at_once(deployed_app: Deployment):
    for cluster in deployed_app.clusters.values():
        cluster.remove()
    assert deployed_app.sweep()["findings"] == []
    assert [name for name, _ in deployed_app.engine.calls if name == ACT_ON_ITEM] == []


def test_a_policy_that_changes_before_act_stops_nothing(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.warned()
    changed = os.environ["REAPER_POLICY"].replace("grace: 3d", "grace: 4d")
    deployed_app.engine.after = lambda name, _: monkeypatch.setenv("REAPER_POLICY", changed) if name == DECIDE_RUN else None
    report = deployed_app.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "refused")}
    assert deployed_app.changes() == []


def test_a_policy_that_changes_after_act_hides_nothing_that_was_done(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.warned()
    changed = os.environ["REAPER_POLICY"].replace("action: stop", "action: ignore")
    deployed_app.engine.after = lambda name, _: monkeypatch.setenv("REAPER_POLICY", changed) if name == ACT_ON_ITEM else None
    deployed_app.engine.faults = {(ACT_ON_ITEM, item): ["hang"] for item in range(1, 5)}
    report = deployed_app.sweep()
    assert sorted(f["outcome"] for f in report["findings"])[0] == "done"
    assert len(deployed_app.changes()) == 1


def test_a_deployment_that_stops_enforcing_stops_nothing_in_its_run(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.warned()
    deployed_app.engine.after = lambda name, _: monkeypatch.setenv("REAPER_MODE", "audit") if name == DECIDE_RUN else None
    report = deployed_app.sweep()
    assert {f["outcome"] for f in report["findings"]} == {"refused"}
    assert deployed_app.changes() == []


def test_a_warned_subscription_is_read_and_never_acted_on(deployed_app: Deployment):
    deployed_app.warned()
    for sub, state in zip(SUBS, ("Warned", "Disabled", "Expired", "PastDue", "Enabled"), strict=True):
        deployed_app.server.subscription(sub).in_state(state)
    report = deployed_app.sweep()
    assert deployed_app.least() == {"1": 1, "2": 1, "3": 1, "4": 0, "5": 0}
    assert sorted(deployed_app.changes()) == ["4", "5"]
    because = {f["account"][0]: f["step_because"] for f in report["findings"]}
    assert {f["state"] for f in report["findings"]} == {"idle"}
    assert all("acts only in subscriptions that are Enabled or PastDue" in because[digit] for digit in "123"), because


def test_a_subscription_that_is_no_longer_swept_is_not_acted_on(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_SUBSCRIPTIONS", ",".join(SUBS))
    deployed_app.warned()
    left = ",".join(SUBS[1:])
    deployed_app.engine.after = lambda name, _: monkeypatch.setenv("REAPER_SUBSCRIPTIONS", left) if name == DECIDE_RUN else None
    report = deployed_app.sweep()
    assert sorted(deployed_app.changes()) == list("2345")
    [refused] = [f for f in report["findings"] if f["account"] == SUBS[0]]
    assert (refused["outcome"], "no longer sweeps" in refused["outcome_because"]) == ("refused", True)


def test_a_run_tells_what_it_did_where_the_deployment_no_longer_sweeps(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.warned()
    deployed_app.engine.after = lambda name, _: (
        monkeypatch.setenv("REAPER_SUBSCRIPTIONS", SUBS[4]) if name == ACT_ON_ITEM else None
    )
    run = json.loads(deployed_app.post({"subscriptions": [SUBS[0]]}).get_body())["run"]
    deployed_app.run()
    status, report = deployed_app.ask(run)
    assert (status, [(f["name"], f["outcome"]) for f in report["findings"]]) == (200, [("gpus-1", "done")])
    assert len(deployed_app.mails_to("ana@example.com")) == 2


def test_a_list_of_subscriptions_that_fails_once_blocks_no_action(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    """Their states are read one by one before anything is done in them."""
    monkeypatch.setenv("REAPER_SUBSCRIPTIONS", ",".join(SUBS))
    deployed_app.warned()
    deployed_app.server.subscription(SUBS[0]).in_state("Warned")
    deployed_app.server.rules.append(on("GET", "/subscriptions", error(400, "Broken", "no list today")))
    report = deployed_app.sweep()
    assert sorted(deployed_app.changes()) == list("2345")
    [because] = [f["step_because"] for f in report["findings"] if f["account"] == SUBS[0]]
    assert "its subscription is Warned" in because


def test_a_subscription_that_is_disabled_after_the_decision_is_left_alone(deployed_app: Deployment):
    served = deployed_app.server.subscription(SUBS[0]).workspace("vision").endpoint("served").deployment("blue", capacity=3)
    signals.capacity(served, since=LONG_AGO)
    deployed_app.warned()

    def disable(name: str, _: int) -> None:
        if name == DECIDE_RUN:
            deployed_app.server.subscription(SUBS[0]).in_state("Warned")
            deployed_app.server.requests.clear()

    deployed_app.engine.after = disable
    report = deployed_app.sweep()
    outcomes = {f["outcome"] for f in report["findings"] if f["account"] == SUBS[0]}
    assert (outcomes, served.body["sku"]["capacity"], deployed_app.least()["1"]) == ({"refused"}, 3, 1)
    paths = [request.path for request in deployed_app.server.requests]
    assert [path for path in paths if SUBS[0] in path] == [f"/subscriptions/{SUBS[0]}"], "nothing else is read there"
    assert sorted(deployed_app.changes()) == list("2345")


def test_a_subscription_that_is_warned_between_two_deletes_loses_no_more(
    deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REAPER_POLICY", os.environ["REAPER_POLICY"].replace("action: stop", "action: delete"))
    for cluster in deployed_app.clusters.values():
        cluster.remove()
    subscription = deployed_app.server.subscription(SUBS[0])
    for name in ("one", "two", "three"):
        signals.capacity(subscription.workspace("vision").endpoint(name).deployment("blue", capacity=2), since=LONG_AGO)
    deployed_app.warned()

    def warn_after_the_first(request: Request) -> None:
        if request.method == "DELETE":
            subscription.in_state("Warned")

    deployed_app.server.rules.append(warn_after_the_first)
    report = deployed_app.sweep()
    assert sorted(f["outcome"] for f in report["findings"]) == ["done", "refused", "refused"]
    assert [r.method for r in deployed_app.server.requests if r.method == "DELETE"] == ["DELETE"]
    because = [f["outcome_because"] for f in report["findings"] if f["outcome"] == "refused"]
    assert all("its subscription is Warned" in text for text in because)


def test_a_forged_decision_lends_a_cluster_no_other_workspaces_tags(deployed_app: Deployment):
    """The forger names a workspace of the same subscription, in which a cluster of that name idles and nothing is protected."""
    deployed_app.warned()
    decoy = deployed_app.server.subscription(SUBS[0]).workspace("decoy")
    signals.nodes(decoy.cluster("gpus-1", nodes=(1, 4), created=LONG_AGO), active=0, idle=1, since=LONG_AGO)

    def forge(name: str, _: int) -> None:
        if name != DECIDE_RUN:
            return
        deployed_app.server.subscription(SUBS[0]).workspace("vision").tagged({"reaper:keep": "true"})
        store = open_run_store(os.environ["REAPER_RUNS"], deployed_app.engine.input_of("sweep")["run"])
        for part in store.names("decided/"):
            store.write(part, (store.read(part) or "").replace('workspaces/vision"', 'workspaces/decoy"'))

    deployed_app.engine.after = forge
    report = deployed_app.sweep()
    assert (deployed_app.least()["1"], deployed_app.changes()) == (1, [])
    assert all("isn't in" in f["outcome_because"] for f in report["findings"] if f["outcome"] == "refused")


def test_a_policy_that_cannot_be_read_before_act_stops_nothing(deployed_app: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployed_app.warned()
    deployed_app.engine.after = lambda name, _: monkeypatch.setenv("REAPER_POLICY", "/gone") if name == DECIDE_RUN else None
    report = deployed_app.sweep()
    assert {(f["step"], f["outcome"]) for f in report["findings"]} == {("stop", "refused")}
    assert deployed_app.changes() == []
