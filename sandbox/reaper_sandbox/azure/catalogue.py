"""Which platform metrics exist, with their dimensions and the aggregations that are documented for them.

https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
"""

from __future__ import annotations

from dataclasses import dataclass

WORKSPACES = "microsoft.machinelearningservices/workspaces"
ENDPOINTS = f"{WORKSPACES}/onlineendpoints"
DEPLOYMENTS = f"{ENDPOINTS}/deployments"
AGGREGATIONS = ("Average", "Minimum", "Maximum", "Total", "Count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One metric. An aggregation that is not listed is answered with points that have no value."""

    name: str
    unit: str = "Count"
    dimensions: tuple[str, ...] = ()
    aggregations: tuple[str, ...] = ("Average", "Minimum", "Maximum", "Total")


def custom(name: str, dimensions: tuple[str, ...]) -> Definition:
    """A published custom metric: every aggregation works."""
    return Definition(name=name, unit="Unspecified", dimensions=dimensions, aggregations=AGGREGATIONS)


def _quota() -> list[Definition]:
    states = ("Active", "Idle", "Leaving", "Preempted", "Total", "Unusable")
    names = [f"{state} {what}" for state in states for what in ("Nodes", "Cores")]
    return [Definition(name=name, dimensions=("Scenario", "ClusterName")) for name in names]


def _runs() -> list[Definition]:
    states = ("Cancelled", "Completed", "Failed", "Finalizing", "Preparing", "Provisioning", "Queued", "Started", "Starting")
    split = ("Scenario", "RunType", "PublishedPipelineId", "ComputeType", "PipelineStepType", "ExperimentName")
    return [Definition(name=f"{state} Runs", dimensions=split) for state in states]


def _run_resources() -> list[Definition]:
    by_node = ("Scenario", "runId", "NodeId", "DeviceId", "ClusterName")
    by_instance = ("RunId", "InstanceId", "DeviceId", "ComputeName")
    nodes = [Definition(name=n, dimensions=by_node) for n in ("CpuUtilization", "GpuUtilization", "GpuMemoryUtilization")]
    names = ("CpuUtilizationPercentage", "CpuMemoryUtilizationPercentage", "GpuUtilizationPercentage")
    return nodes + [Definition(name=n, dimensions=by_instance) for n in names]


def _endpoint() -> list[Definition]:
    split = ("deployment", "statusCode", "statusCodeClass", "modelStatusCode")
    latencies = [f"RequestLatency{p}" for p in ("", "_P50", "_P90", "_P95", "_P99")]
    return [
        Definition(name="RequestsPerMinute", dimensions=split, aggregations=("Average",)),
        Definition(name="ConnectionsActive", aggregations=("Average",)),
        Definition(name="NewConnectionsPerSecond", unit="CountPerSecond", aggregations=("Average",)),
        Definition(name="NetworkBytes", unit="BytesPerSecond", aggregations=("Average",)),
        *(Definition(name=n, unit="Milliseconds", dimensions=("deployment",), aggregations=("Average",)) for n in latencies),
    ]


def _deployment() -> list[Definition]:
    most = ("Average", "Minimum", "Maximum")
    names = (
        "CpuUtilizationPercentage",
        "CpuMemoryUtilizationPercentage",
        "GpuUtilizationPercentage",
        "GpuMemoryUtilizationPercentage",
    )
    latencies = [f"RequestLatency_{p}" for p in ("P50", "P90", "P95", "P99")]
    return [
        Definition(name="RequestsPerMinute", dimensions=("envoy_response_code",), aggregations=("Average",)),
        Definition(name="DeploymentCapacity", dimensions=("instanceId", "State"), aggregations=most),
        Definition(name="DiskUtilization", unit="Percent", dimensions=("instanceId", "disk"), aggregations=most),
        *(Definition(name=n, unit="Percent", dimensions=("instanceId",), aggregations=most) for n in names),
        *(Definition(name=n, unit="Milliseconds", aggregations=("Average",)) for n in latencies),
    ]


PLATFORM: dict[str, dict[str, Definition]] = {
    WORKSPACES: {d.name.lower(): d for d in (*_quota(), *_runs(), *_run_resources())},
    ENDPOINTS: {d.name.lower(): d for d in _endpoint()},
    DEPLOYMENTS: {d.name.lower(): d for d in _deployment()},
}
"""Definitions by lower-cased name, by lower-cased namespace."""
