"""The `Busy` signal that our own script publishes from inside a compute instance: 1 while a kernel, terminal job, CPU or GPU works, else 0.

Custom metrics of the workspace, namespace `MLIdleReaper`, dimension `ComputeName`. Its points are activity and heartbeat in one:
https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-custom-overview
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reaper.azure import metrics
from reaper.azure import readings as azure_readings
from reaper.azure.metrics import MetricQuery, MetricSource
from reaper.model import Reading, Resource, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

BUSY_QUERY = MetricQuery(
    namespace="MLIdleReaper", metrics=("Busy",), aggregation="Maximum", split_by="ComputeName", is_published_by_us=True
)


def busy_readings(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, tuple[Reading, ...]]:
    """Busy as activity and as heartbeat, by resource id. Without any point both are empty: nobody publishes it there."""
    places = [MetricSource(id=r.facts["workspace"].id, region=r.facts["workspace"].region) for r in resources]
    found = metrics.fetch_metrics(cloud, places, BUSY_QUERY, window)
    answers = {r.id: found.result_of(r.facts["workspace"].id, "Busy", r.name) for r in resources}
    return {
        id_: (azure_readings.activity_reading("Busy", answer), azure_readings.heartbeat_reading("Busy points", answer))
        for id_, answer in answers.items()
    }
