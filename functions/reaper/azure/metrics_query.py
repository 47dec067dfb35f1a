"""A query for metrics as plain data: which metrics, of which resources."""

from __future__ import annotations

from dataclasses import dataclass

from reaper.azure.arm_values import query_time
from reaper.observation import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """Metrics of one namespace under one aggregation, split by the values of one dimension or not at all; `max_series` series at most.

    `is_published_by_us`: the namespace may not exist, so each resource is asked alone, and a 400 can mean that there is no series.
    """

    namespace: str
    metrics: tuple[str, ...]
    aggregation: str
    split_by: str | None = None
    is_published_by_us: bool = False
    max_series: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """A resource that has metrics, and the region whose host serves them."""

    id: str
    region: str


def query_params(query: MetricQuery, window: Window) -> dict[str, str]:
    """The parameters of a batch call."""
    params = {
        "metricnamespace": query.namespace,
        "metricnames": ",".join(query.metrics),
        "aggregation": query.aggregation,
        "interval": "PT1H",
        "starttime": query_time(window.start),
        "endtime": query_time(window.end),
        "top": str(query.max_series),
    }
    return params | ({"filter": f"{query.split_by} eq '*'"} if query.split_by else {})


def single_query_params(query: MetricQuery, window: Window) -> dict[str, str]:
    """The parameters of a call for one resource: the same under other names."""
    params = query_params(query, window)
    params["timespan"] = f"{params.pop('starttime')}/{params.pop('endtime')}"
    return {"$filter" if name == "filter" else name: value for name, value in params.items()}
