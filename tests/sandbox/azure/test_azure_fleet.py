"""The fleet: everything is named, expected and as its name says, through the real SDKs."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.server import Server
from sandbox.azure import sdk

KINDS = {
    "ComputeInstance": "azureml-compute-instance",
    "AmlCompute": "azureml-compute-cluster",
}
NAMES = {
    "azureml-compute-instance": r"[A-Za-z][A-Za-z0-9-]{2,23}",
    "azureml-compute-cluster": r"[A-Za-z][A-Za-z0-9-]{1,31}",
    "azureml-online-deployment": r"[A-Za-z][A-Za-z0-9-]{2,31}",
}


@pytest.fixture
def settled(server: Server, now: datetime) -> Server:
    fleet.settle(server, now)
    return server


def things(server: Server) -> dict[str, Any]:
    """Every compute and deployment by name."""
    things_by_name = {}
    for sub in (fleet.FIRST, fleet.SECOND):
        client = sdk.ml(server, sub)
        for workspace in client.workspaces.list_by_subscription():
            place = (workspace.id.split("/")[4], workspace.name)
            things_by_name |= {c.name: c for c in client.compute.list(*place)}
            for endpoint in client.online_endpoints.list(*place):
                things_by_name |= {d.name: d for d in client.online_deployments.list(*place, endpoint.name)}
    return things_by_name


def test_each_resource_has_an_expected_verdict(settled: Server) -> None:
    resources = things(settled)
    kinds = {name: KINDS.get(getattr(t.properties, "compute_type", None) or "", "") for name, t in resources.items()}
    kinds |= {name: "azureml-online-deployment" for name, t in resources.items() if t.id.find("/deployments/") > 0}
    assert {name: kind for name, kind in kinds.items() if kind} == {name: e.kind for name, e in fleet.EXPECTED.items()}
    assert {name for name, kind in kinds.items() if not kind} == {"quantum-lab", "factory-aks"}


def test_only_idle_verdicts_have_a_confidence(settled: Server) -> None:
    assert {e.state for e in fleet.EXPECTED.values()} == {"active", "idle", "young", "exempt", "unknown"}
    assert all((e.confidence in ("proven", "likely")) == (e.state == "idle") for e in fleet.EXPECTED.values())


def test_every_seeded_name_is_valid_on_azure() -> None:
    assert [n for n, e in fleet.EXPECTED.items() if not re.fullmatch(NAMES[e.kind], n)] == []


def test_a_workspace_has_more_clusters_than_a_default_top(settled: Server) -> None:
    vision = f"/subscriptions/{fleet.FIRST}/resourceGroups/ml/providers/Microsoft.MachineLearningServices/workspaces/vision"
    query = {"metricnames": "Total Nodes", "filter": "ClusterName eq '*'", "aggregation": "Maximum", "interval": "PT1H"}
    span = "2026-11-20T00:00:00Z/2026-11-20T12:00:00Z"
    names = {}
    for top in (None, 1000):
        answer = sdk.monitor(settled).metrics.list(vision, timespan=span, top=top, **query)
        names[top] = {s.metadatavalues[0].value for s in answer.value[0].timeseries}
    assert len(names[None]) == 10
    assert {"mixed-case", "idle-min-nodes", "born-today"} <= names[1000]
    assert not {"Mixed-Case", "never-metered", "heartbeat-stopped"} & names[1000]


def test_seeding_makes_no_requests(settled: Server) -> None:
    assert settled.requests == []
