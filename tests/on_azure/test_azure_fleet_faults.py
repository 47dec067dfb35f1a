"""The whole fleet under several rules and one fault at a time: nothing used is called idle, and nothing idle is missed without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fakes.sweeps import SweepOrder, sweep
from on_azure.conftest import NOW, changed
from reaper import registry
from reaper.azure import targets
from reaper.finding import Report
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.fault import Guard, cut, error, garbage, on, throttled
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server

POLICY = """
version: 1
rules:
  - {name: overnight, match: {name: ["busy-last-night", "*/valueless-heartbeat-hour"]}, action: stop, idle_after: 6h}
  - {name: patient, match: {name: "*/valueless-since-use"}, action: stop, idle_after: 4d}
  - {name: leftovers, match: {kind: azureml-online-deployment}, action: delete, idle_after: 1d}
  - {name: rest, match: {}, action: notify, idle_after: 1d}
"""
LATER = {"valueless-since-use"}
SOONER = {"busy-last-night", "valueless-heartbeat-hour"}
IDLE = ({name for name, one in fleet.EXPECTED.items() if one.state == "idle"} - LATER) | SOONER
BATCH, GRAPH = ".*metrics:getBatch", ".*/Microsoft.ResourceGraph/resources"
UNREGISTERED = "The subscription is not registered to use namespace 'Microsoft.Insights'."


def truncated(body: dict[str, Any]) -> None:
    body["data"] = body["data"][:3]
    body |= {"totalRecords": 3, "resultTruncated": "true"}


HARMLESS = {
    "nothing": lambda server: (),
    "throttled once": lambda server: (on(".*", ".*", throttled(1), times=4),),
    "503 once": lambda server: (on(".*", ".*computes|.*jobs", error(503, "ServerBusy"), times=2),),
    "batches answer 500": lambda server: (on("POST", BATCH, error(500, "System.ArgumentOutOfRangeException")),),
    "no bulk role": lambda server: (on("POST", BATCH, error(401, "AuthorizationFailed")),),
    "no bulk host": lambda server: (on("POST", BATCH, cut()),),
    "no graph": lambda server: (on("POST", GRAPH, error(500)),),
    "graph cut off": lambda server: (changed(server, "/Microsoft.ResourceGraph/resources", truncated),),
}
TOLD = {
    "not registered": lambda server: (on("POST", BATCH, error(403, "Forbidden", UNREGISTERED)),),
    "a row of computes without a name": lambda server: (changed(server, "/computes", lambda b: b["value"].append({"id": "/x"})),),
    "a compute without a type": lambda server: (changed(server, "/computes", lambda b: b["value"].append(typeless())),),
}
BLINDING = {
    "no metrics": lambda server: (deny("Microsoft.Insights/metrics/read"),),
    "no jobs": lambda server: (deny("*/jobs/read"),),
    "garbled batches": lambda server: (on("POST", BATCH, garbage()),),
    "garbled computes": lambda server: (on("GET", ".*/vision/computes", garbage()),),
    "garbled jobs": lambda server: (on("GET", ".*/jobs", garbage()),),
    "one endpoint denied": lambda server: (deny("*/onlineEndpoints/deployments/read", ".*/onlineEndpoints/search.*"),),
}


def typeless() -> dict[str, Any]:
    return {"id": "/x/computes/odd", "name": "odd", "properties": {"computeType": None}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(NOW) as running, pytest.MonkeyPatch.context() as patch:
        fleet.settle(running, NOW)
        for name, value in running.env.items():
            patch.setenv(name, value)
        yield running


def idle(report: Report) -> set[str]:
    return {f.case.resource.id.rpartition("/")[2] for f in report.findings if f.case.verdict.state == "idle"}


def run(server: Server, rules: tuple[Guard, ...]) -> Report:
    server.rules[:] = rules
    order = SweepOrder(policy=parse_policy(POLICY, "policy", registry.kind_names()), now=NOW)
    return sweep(targets.target_sessions((fleet.FIRST, fleet.SECOND)), registry.kinds("azure"), order)


@pytest.mark.parametrize("fault", HARMLESS)
def test_a_fault_with_a_fallback_changes_no_verdict(server: Server, fault: str):
    report = run(server, HARMLESS[fault](server))
    assert idle(report) == IDLE
    assert [(c.status, c.error) for c in report.coverage] == [("ok", None)] * 6


@pytest.mark.parametrize("fault", TOLD)
def test_a_fault_beside_the_fleet_is_a_gap_and_changes_no_verdict(server: Server, fault: str):
    report = run(server, TOLD[fault](server))
    assert idle(report) == IDLE
    assert "partial" in {c.status for c in report.coverage}


@pytest.mark.parametrize("fault", BLINDING)
def test_a_fault_that_hides_signals_is_a_gap_and_makes_nothing_idle(server: Server, fault: str):
    report = run(server, BLINDING[fault](server))
    assert idle(report) < IDLE
    assert {c.status for c in report.coverage} & {"partial", "denied", "failed"}
