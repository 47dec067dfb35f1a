"""Metrics in bulk: up to 500 series a call, every page followed, every status checked.

Limits and retention (5-minute points live 63 days, hourly points 455): https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
Hourly buckets are asked for at any age, because the estimated number of points is what CloudWatch throttles. They begin where StartTime
does, which CloudWatch rounds down to the hour beyond 63 days: windows start on the hour.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.errors import CloudError, Reason
from reaper.evidence import first_read_from
from reaper.model import Resource, Role
from reaper.observation import Reading, Series, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


STEP = timedelta(hours=1)
MAX_QUERIES = 500
MAX_POINTS = 51_000
"""Half of what a call may ask for: a reply is in memory several times over while it is parsed."""
MAX_CONCURRENT_CALLS = 2
PERMISSIONS = ("cloudwatch:GetMetricData", "cloudwatch:ListMetrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """One series: `stat` of a metric under exactly these dimensions, as (name, value) pairs.

    What it shows is a reading of this `role`, about `subject`, and is called `signal`, by default as the metric is.
    """

    namespace: str
    metric: str
    stat: str
    dimensions: tuple[tuple[str, str], ...]
    role: Role = field(default=Role.ACTIVITY, compare=False)
    signal: str = field(default="", compare=False)
    subject: str = field(default="", compare=False)

    def reading(self, series: Series, *, is_complete: bool = False) -> Reading:
        """What it showed; complete only when CloudWatch said so and nothing went wrong on the way."""
        named = self.signal or self.metric
        return Reading(signal=named, role=self.role, subject=self.subject, series=series, complete=is_complete)


def query(namespace: str, metric: str, stat: str, **dimensions: str) -> MetricQuery:
    """One series by the names of its dimensions."""
    return MetricQuery(namespace=namespace, metric=metric, stat=stat, dimensions=tuple(dimensions.items()))


def fetch_metrics(cloud: CloudSession, queries: Sequence[MetricQuery], window: Window) -> dict[MetricQuery, Reading]:
    """One answer per distinct query. A batch that fails is noted on the cloud and leaves its answers empty and incomplete."""
    return _fetch_since(cloud, dict.fromkeys(queries, window.start), window)


def fetch_first_look(
    cloud: CloudSession, queries_by_resource: Iterable[tuple[Resource, Iterable[MetricQuery]]], window: Window
) -> dict[MetricQuery, Reading]:
    """The same of the part of the window in which use settles the matter for that very resource, or of some hours more.

    It is asked of all, the whole window only of what was silent in it.
    """
    starts: dict[MetricQuery, datetime] = {}
    for resource, queries in queries_by_resource:
        start = first_read_from(resource, window)
        for query in queries:
            starts[query] = min(start, starts.get(query, start))
    return _fetch_since(cloud, starts, window)


def published_dimensions(cloud: CloudSession, namespace: str, metric: str) -> Iterator[dict[str, str]]:
    """The dimensions of every series of a metric with a point in the last two weeks. Raises CloudError."""
    for row in cloud.paged_rows("cloudwatch", "ListMetrics", "Metrics", Namespace=namespace, MetricName=metric):
        yield {str(d.get("Name")): str(d.get("Value")) for d in row.get("Dimensions") or ()}


def _fetch_since(cloud: CloudSession, starts: Mapping[MetricQuery, datetime], window: Window) -> dict[MetricQuery, Reading]:
    """One answer for each query, from at least its own start on."""
    cloud.count_metrics(len(starts))
    results = {query: query.reading(Series(start=start, step=STEP, end=window.end)) for query, start in starts.items()}
    cloud.map_concurrently(
        lambda batch: _fetch_batch(cloud, *batch, results), list(_split_batches(starts, window)), MAX_CONCURRENT_CALLS
    )
    return results


def _split_batches(starts: Mapping[MetricQuery, datetime], window: Window) -> Iterator[tuple[list[MetricQuery], Window]]:
    """The queries in as few calls as points and queries allow: those that reach back furthest first, each batch as far as its first."""
    waiting = sorted(starts, key=lambda query: starts[query])
    while waiting:
        stretch = replace(window, start=starts[waiting[0]])
        size = max(1, min(MAX_QUERIES, MAX_POINTS // _bucket_count(stretch)))
        yield waiting[:size], stretch
        waiting = waiting[size:]


def _bucket_count(window: Window) -> int:
    return max(1, -(-(window.end - window.start) // STEP))


def _fetch_batch(cloud: CloudSession, batch: list[MetricQuery], window: Window, results: dict[MetricQuery, Reading]) -> None:
    ids = {f"q{i}": query for i, query in enumerate(batch)}
    values: dict[str, array[float]] = {}
    status = cloud.read_or_none(PERMISSIONS[0], lambda: _read_points(cloud, ids, values, window)) or {}
    for id_, query in ids.items():
        series = Series(start=window.start, step=STEP, values=values.get(id_, ()), end=window.end)
        results[query] = query.reading(series, is_complete=status.get(id_) == "Complete")
    incomplete = {id_: s for id_, s in status.items() if s != "Complete"}
    if forbidden := sorted({ids[i].metric for i, s in incomplete.items() if s == "Forbidden" and i in ids}):
        text = f"forbidden for {', '.join(forbidden)}"
        cloud.add_error(CloudError(Reason.DENIED, PERMISSIONS[0], text, code="Forbidden", missing=PERMISSIONS[0]))
    if others := sorted({s for s in incomplete.values() if s != "Forbidden"}):
        text = f"{len(incomplete)} series came back incomplete ({', '.join(others)})"
        cloud.add_error(CloudError(Reason.PARTIAL, PERMISSIONS[0], text))


def _read_points(
    cloud: CloudSession, ids: dict[str, MetricQuery], values: dict[str, array[float]], window: Window
) -> dict[str, str]:
    """Put all points into `values`, and return the status of each series. Raises CloudError."""
    status = dict.fromkeys(ids, "missing")
    queries = []
    for id_, query in ids.items():
        dimensions = [{"Name": name, "Value": value} for name, value in query.dimensions]
        metric = {"Namespace": query.namespace, "MetricName": query.metric, "Dimensions": dimensions}
        queries.append({"Id": id_, "MetricStat": {"Metric": metric, "Period": int(STEP.total_seconds()), "Stat": query.stat}})
    times: dict[str, Any] = {"StartTime": window.start, "EndTime": window.end, "ScanBy": "TimestampAscending"}
    for page in cloud.pages("cloudwatch", "GetMetricData", "MetricDataResults", MetricDataQueries=queries, **times):
        for row in page["MetricDataResults"]:
            now = _merge_points(row, values, window)
            # PartialData may still become Complete, whatever else went wrong stays wrong.
            if status.setdefault(row["Id"], "unasked") in {"missing", "PartialData", "Complete"}:
                status[row["Id"]] = now
        if page.get("Messages"):
            status |= dict.fromkeys(status, "Messages")
    return status


def _merge_points(row: dict[str, Any], values: dict[str, array[float]], window: Window) -> str:
    """Put a page's points into their buckets and say how good the row was.

    A time at which no bucket begins proves nothing: its point is kept as a sign of use in both hours that it may be of.
    """
    stamps, points = row.get("Timestamps") or (), row.get("Values") or ()
    if len(stamps) != len(points):
        return "Misaligned"
    places = [divmod(stamp - window.start, STEP) for stamp in stamps]
    size = _bucket_count(window)
    buckets = values.setdefault(row["Id"], array("f", [float("nan")]) * size) if points else array("f")
    for (first, late), point in zip(places, points, strict=True):
        for index in (first, first + 1) if late else (first,):
            if 0 <= index < size:
                old = buckets[index]
                buckets[index] = point if old != old else max(old, point)
    is_odd = any(late or not 0 <= index < size for index, late in places)
    return "Misaligned" if is_odd else "Messages" if row.get("Messages") else str(row["StatusCode"])
