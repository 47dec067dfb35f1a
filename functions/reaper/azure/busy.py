"""The `Busy` signal that our script publishes from inside a compute instance: 1 while a kernel, terminal job, CPU or GPU works, else 0.

A custom metric of the workspace, namespace `MLIdleReaper`, dimension `ComputeName`. Its points are activity and heartbeat in one:
https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-custom-overview
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reaper.azure.metrics import fetch_metrics
from reaper.azure.metrics_query import MetricQuery, MetricSource
from reaper.azure.readings import activity_reading, heartbeat_reading
from reaper.model import Resource
from reaper.observation import Reading, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

BUSY_QUERY = MetricQuery(
    namespace="MLIdleReaper", metrics=("Busy",), aggregation="Maximum", split_by="ComputeName", is_published_by_us=True
)


def busy_readings(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, tuple[Reading, ...]]:
    """Busy as activity and as heartbeat, by resource ID. Without any point both are empty: nothing publishes it there."""
    workspaces = [resource.details.workspace for resource in resources]
    sources = [MetricSource(id=space.id, region=space.region) for space in workspaces]
    results = fetch_metrics(cloud, sources, BUSY_QUERY, window)
    by_id = {resource.id: results.result_of(resource.details.workspace.id, "Busy", resource.name) for resource in resources}
    return {
        resource_id: (activity_reading("Busy", result), heartbeat_reading("Busy points", result))
        for resource_id, result in by_id.items()
    }
