"""A metrics reply and its results: which resources, metrics and series it has, and the hourly buckets of each.

The shape is that of https://learn.microsoft.com/rest/api/monitor/metrics-batch/batch. A metric of a resource may be missing, may carry an
`errorCode`, or may have points without a value.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from reaper.azure.arm_values import parse_time
from reaper.azure.metrics_query import MetricQuery
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, Json
from reaper.errors import CloudError, Reason
from reaper.observation import Series, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PERMISSION = "Microsoft.Insights/metrics/read"
STEP = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """One series. Without any `values` there is no series; NaN is a bucket without a value."""

    series: Series
    complete: bool


@dataclass(slots=True, kw_only=True)
class MetricResults:
    """All results of one query, by resource, metric and dimension value, each in lower case."""

    window: Window
    step: timedelta = STEP
    series: dict[tuple[str, str, str], Series] = field(default_factory=dict)
    complete_metrics: set[tuple[str, str]] = field(default_factory=set)
    unreadable_series: set[tuple[str, str, str]] = field(default_factory=set)
    gone_ids: set[str] = field(default_factory=set)

    def result_of(self, resource_id: str, metric: str, value: str = "") -> MetricResult:
        """The result for one metric of one resource, and for one value of the dimension it was split by."""
        key = (resource_id.lower(), metric.lower())
        series_key = (*key, value.lower())
        series = self.series.get(series_key, Series(start=self.window.start, step=self.step, end=self.window.end))
        return MetricResult(series=series, complete=key in self.complete_metrics and series_key not in self.unreadable_series)


def read_reply(cloud: CloudSession, rows: Any, ids: set[str], query: MetricQuery, results: MetricResults) -> set[str]:
    """Add what a reply says of the resources `ids` (in lower case) to `results`, joined by ID: the order of a reply means nothing.

    Returns the IDs that are missing from it or repeated. If one resource, metric or series can't be read, it stays incomplete and is added
    to the session's errors; the rest of the reply counts. Raises CloudError for anything but a list, and for a reply that may have been
    cut off at `query.max_series` series.
    """
    if not isinstance(rows, list):
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"a reply can't be read (it is {type(rows).__name__}, not a list)")
    count = sum(len(_timeseries_entries(metric)) for row in rows for metric in _metric_entries(row))
    if count >= query.max_series:
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{count} series came back, and there may be more")
    times_in_reply = Counter(str(row.get("resourceid")).lower() for row in rows if isinstance(row, dict))
    for row in rows:
        if not isinstance(row, dict):
            continue
        resource_id = str(row.get("resourceid")).lower()
        if resource_id in ids and times_in_reply[resource_id] == 1:
            _read_resource(cloud, resource_id, _metric_entries(row), query, results)
    return {resource_id for resource_id in ids if times_in_reply[resource_id] != 1}


def _metric_entries(row: Any) -> list[Any]:
    value = row.get("value") if isinstance(row, dict) else None
    return value if isinstance(value, list) else []


def _timeseries_entries(metric: Any) -> list[Any]:
    value = metric.get("timeseries") if isinstance(metric, dict) else None
    return value if isinstance(value, list) else []


def _read_resource(cloud: CloudSession, resource_id: str, metrics: list[Any], query: MetricQuery, results: MetricResults) -> None:
    buckets = HourlyBuckets(start=results.window.start, end=results.window.end, step=results.step)
    for name in query.metrics:
        key = (resource_id, name.lower())
        try:
            for row in _single_metric(metrics, name, resource_id)["timeseries"]:
                _read_series(cloud, key, row, query, buckets, results)
            results.complete_metrics.add(key)
        except CloudError as error:
            cloud.add_error(error)
        except UNREADABLE_REPLY_ERRORS as error:
            cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{name} of {resource_id} can't be read ({error!r})"))


def _single_metric(metrics: list[Any], name: str, resource_id: str) -> Json:
    """The metric of that name. Raises CloudError if it is missing, repeated, or came with an error."""
    matches = [metric for metric in metrics if _metric_name(metric) == name.lower()]
    if len(matches) != 1:
        problem = "repeated in" if matches else "missing from"
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{name} of {resource_id}: {problem} the reply")
    metric: Json = matches[0]
    code = metric.get("errorCode") or "Success"
    if code != "Success":
        raise CloudError(
            Reason.PARTIAL, PERMISSION, f"{name} of {resource_id}: {code} {metric.get('errorMessage') or ''}".strip()
        )
    return metric


def _metric_name(metric: Any) -> str | None:
    name = metric.get("name") if isinstance(metric, dict) else None
    return str(name.get("value")).lower() if isinstance(name, dict) else None


def _read_series(
    cloud: CloudSession, key: tuple[str, str], row: Json, query: MetricQuery, buckets: HourlyBuckets, results: MetricResults
) -> None:
    """Raises one of the reading errors if the series doesn't say whose it is. One that only has odd points is incomplete, and an error."""
    aggregation = query.aggregation.lower()
    value = _dimension_value(row, query.split_by)
    if value is None:
        if any(point.get(aggregation) is not None for point in row["data"]):
            raise ValueError(f"a series doesn't say which {query.split_by} it belongs to")
        return
    series_key = (*key, value)
    because = ""
    try:
        results.series[series_key], odd_time = buckets.to_series(row["data"], aggregation, results.series.get(series_key))
        because = f"it has a point at {odd_time}, which begins no requested hour" if odd_time else ""
    except UNREADABLE_REPLY_ERRORS as error:
        because = repr(error)
    if because:
        results.unreadable_series.add(series_key)
        cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{key[1]} of {value or key[0]} can't be read ({because})"))


def _dimension_value(row: Json, split_by: str | None) -> str | None:
    """The value of the dimension that the query was split by, in lower case, as names of dimensions come back; None if it is missing."""
    labels = {str(pair["name"]["value"]).lower(): str(pair["value"]).lower() for pair in row.get("metadatavalues") or ()}
    return labels.get(split_by.lower()) if split_by else ""


@dataclass(slots=True, kw_only=True)
class HourlyBuckets:
    """Buckets over a window, which starts on the full hour, where Azure's hourly buckets begin too."""

    start: datetime
    end: datetime
    step: timedelta
    bucket_indexes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def to_series(self, points: Sequence[Json], value: str, earlier: Series | None) -> tuple[Series, str]:
        """The points as a series, and a time stamp that begins none of its buckets, if any.

        NaN stands for a bucket without a point and for a point without a value. `earlier` is merged in. A point at such a time stamp
        belongs to no requested hour, so the series proves nothing, and the point counts as use in both hours it may belong to.
        """
        values = array("f", earlier.values) if earlier else array("f", [math.nan]) * -(-(self.end - self.start) // self.step)
        odd_time = ""
        for indexes, point in zip([self._indexes_of(point["timeStamp"]) for point in points], points, strict=True):
            if math.isnan(number := _point_value(point.get(value))):
                continue
            _put_value(values, number, indexes)
            if len(indexes) > 1 or not 0 <= indexes[0] < len(values):
                odd_time = str(point["timeStamp"])
        return Series(start=self.start, step=self.step, values=values, end=self.end), odd_time

    def _indexes_of(self, stamp: str) -> tuple[int, ...]:
        """The bucket that begins at `stamp`, or the two nearest to it."""
        if stamp not in self.bucket_indexes:
            moment = parse_time(stamp)
            if moment is None:
                raise ValueError("a point has no time")
            index, late = divmod(moment - self.start, self.step)
            self.bucket_indexes[stamp] = (index, index + 1) if late else (index,)
        return self.bucket_indexes[stamp]


def _put_value(values: array[float], number: float, indexes: tuple[int, ...]) -> None:
    for index in indexes:
        if 0 <= index < len(values):
            before = values[index]
            values[index] = number if math.isnan(before) else max(before, number)


def _point_value(value: object) -> float:
    """The value of a point; NaN if it has none. None of these metrics is ever negative. Raises ValueError, or OverflowError if too large."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{value!r} isn't the value of a point")
    return float(value)
