"""What clusters, deployments and our own script publish, in the words of the domain. `until` None: up to now, and on.

https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from reaper_sandbox.azure.metrics import Signal
from reaper_sandbox.azure.subscription import Thing

WORKSPACES = "Microsoft.MachineLearningServices/workspaces"
ENDPOINTS = f"{WORKSPACES}/onlineEndpoints"
DEPLOYMENTS = f"{ENDPOINTS}/deployments"
BUSY_EVERY = 300
"""Our script publishes every five minutes."""


def nodes(cluster: Thing, *, active: int, idle: int, since: datetime, until: datetime | None = None) -> None:
    """Active, Idle and Total Nodes on the workspace, with the cluster's name in lower case as the real service may give it."""
    for metric, value in {"Active Nodes": active, "Idle Nodes": idle, "Total Nodes": active + idle}.items():
        cluster.metrics.steady(_nodes(cluster, metric), value, since=since, until=until)


def resting_nodes(cluster: Thing, idle: int, *, total: int, since: datetime, until: datetime | None = None) -> None:
    """Idle and Total Nodes only, as where Active Nodes has nothing to say."""
    for metric, value in {"Idle Nodes": idle, "Total Nodes": total}.items():
        cluster.metrics.steady(_nodes(cluster, metric), value, since=since, until=until)


def busy(compute: Thing, value: int, *, since: datetime, until: datetime | None = None) -> None:
    """The Busy contract: namespace MLIdleReaper on the workspace, dimension ComputeName."""
    signal = Signal(
        resource=workspace_of(compute), namespace="MLIdleReaper", metric="Busy", dimensions={"ComputeName": compute.name}
    )
    compute.metrics.steady(signal, value, since=since, until=until, every=BUSY_EVERY)


def requests(deployment: Thing, per_minute: float, *, since: datetime, until: datetime | None = None) -> None:
    """RequestsPerMinute of the deployment, and of its endpoint split by deployment."""
    endpoint = deployment.id.partition("/deployments/")[0]
    for signal in (
        _of(deployment, "RequestsPerMinute", envoy_response_code="200"),
        Signal(
            resource=endpoint,
            namespace=ENDPOINTS,
            metric="RequestsPerMinute",
            dimensions={"deployment": deployment.name, "statusCode": "200", "statusCodeClass": "2xx", "modelStatusCode": "200"},
        ),
    ):
        deployment.metrics.steady(signal, per_minute, since=since, until=until)


def valueless_requests(deployment: Thing) -> None:
    """RequestsPerMinute is known, but no point of it has a value."""
    deployment.metrics.valueless(_of(deployment, "RequestsPerMinute"))


def valueless_nodes(cluster: Thing, *metrics: str) -> None:
    """These metrics of the cluster are known, but no point of them has a value; Active Nodes where none is named."""
    for metric in metrics or ("Active Nodes",):
        cluster.metrics.valueless(_nodes(cluster, metric))


def capacity(deployment: Thing, *, since: datetime, until: datetime | None = None) -> None:
    """DeploymentCapacity and CpuUtilizationPercentage of each machine: what shows that the pipeline is alive."""
    for live, cpu in _machines(deployment):
        deployment.metrics.steady(live, 1, since=since, until=until)
        deployment.metrics.steady(cpu, 2.5, since=since, until=until)


def valueless_capacity(deployment: Thing) -> None:
    """DeploymentCapacity and CpuUtilizationPercentage are known, but no point of them has a value."""
    for signals in _machines(deployment):
        for signal in signals:
            deployment.metrics.valueless(signal)


def workspace_of(thing: Thing) -> str:
    """The id of the workspace that a thing belongs to."""
    return "/".join(thing.id.split("/")[:9])


def _machines(deployment: Thing) -> Iterator[tuple[Signal, Signal]]:
    for index in range(deployment.body["sku"]["capacity"]):
        machine = f"{deployment.name}-{index}"
        live = _of(deployment, "DeploymentCapacity", instanceId=machine, State="Ready")
        yield live, _of(deployment, "CpuUtilizationPercentage", instanceId=machine)


def _nodes(cluster: Thing, metric: str) -> Signal:
    split = {"Scenario": "ComputeCluster", "ClusterName": cluster.name.lower()}
    return Signal(resource=workspace_of(cluster), namespace=WORKSPACES, metric=metric, dimensions=split)


def _of(deployment: Thing, metric: str, **dimensions: str) -> Signal:
    return Signal(resource=deployment.id, namespace=DEPLOYMENTS, metric=metric, dimensions=dimensions)
