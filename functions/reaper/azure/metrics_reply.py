"""A metrics reply, read: which resources, metrics and series are in it, and the hourly buckets of each.

The shape is that of https://learn.microsoft.com/rest/api/monitor/metrics-batch/batch; one metric of one resource may be missing, may
carry an `errorCode`, or may have points without a value.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.azure.arm_values import parse_time
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, Json
from reaper.errors import CloudError, Reason
from reaper.model import Series

if TYPE_CHECKING:
    from reaper.azure.metrics import MetricQuery, MetricResults
    from reaper.azure.session import CloudSession

PERMISSION = "Microsoft.Insights/metrics/read"


def read_reply(cloud: CloudSession, rows: Any, asked: set[str], query: MetricQuery, found: MetricResults) -> set[str]:
    """Put what a reply says of the resources `asked` (lower-cased ids) into `found`. Joined by id: the order of a reply means nothing.

    Returns those that are not in it, or more than once. What cannot be read of one resource, metric or series is noted, and stays
    incomplete; the rest of the reply is sound. Raises CloudError for what is no list, or may have been cut off at `query.top` series.
    """
    if not isinstance(rows, list):
        raise CloudError(Reason.UNREADABLE, PERMISSION, f"a reply cannot be read (it is {type(rows).__name__}, not a list)")
    count = sum(len(_timeseries_entries(metric)) for row in rows for metric in _metric_entries(row))
    if count >= query.max_series:
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{count} series came back, and there may be more")
    ids = Counter(str(row.get("resourceid")).lower() for row in rows if isinstance(row, dict))
    for row in rows:
        if isinstance(row, dict) and (id_ := str(row.get("resourceid")).lower()) in asked and ids[id_] == 1:
            _read_resource(cloud, id_, _metric_entries(row), query, found)
    return {id_ for id_ in asked if ids[id_] != 1}


def _metric_entries(row: Any) -> list[Any]:
    value = row.get("value") if isinstance(row, dict) else None
    return value if isinstance(value, list) else []


def _timeseries_entries(metric: Any) -> list[Any]:
    value = metric.get("timeseries") if isinstance(metric, dict) else None
    return value if isinstance(value, list) else []


def _read_resource(cloud: CloudSession, id_: str, metrics: list[Any], query: MetricQuery, found: MetricResults) -> None:
    grid = HourlyBuckets(start=found.window.start, end=found.window.end, step=found.step)
    for name in query.metrics:
        try:
            metric = _single_metric(metrics, name, id_)
            for row in metric["timeseries"]:
                _read_series(cloud, (id_, name.lower()), row, query, grid, found)
            found.complete_metrics.add((id_, name.lower()))
        except CloudError as error:
            cloud.add_error(error)
        except UNREADABLE_REPLY_ERRORS as error:
            cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{name} of {id_} cannot be read ({error!r})"))


def _single_metric(metrics: list[Any], name: str, id_: str) -> Json:
    """The one metric of that name. Raises CloudError where it is missing, twice there, or came with an error."""
    mine = [metric for metric in metrics if _metric_name(metric) == name.lower()]
    if len(mine) != 1:
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{name} of {id_}: {'twice' if mine else 'not'} in the reply")
    code = mine[0].get("errorCode") or "Success"
    if code != "Success":
        raise CloudError(Reason.PARTIAL, PERMISSION, f"{name} of {id_}: {code} {mine[0].get('errorMessage') or ''}".strip())
    metric: Json = mine[0]
    return metric


def _metric_name(metric: Any) -> str | None:
    name = metric.get("name") if isinstance(metric, dict) else None
    return str(name.get("value")).lower() if isinstance(name, dict) else None


def _read_series(
    cloud: CloudSession, key: tuple[str, str], row: Json, query: MetricQuery, grid: HourlyBuckets, found: MetricResults
) -> None:
    """Raises what reading raises where it cannot be told whose series it is; one that only has odd points is noted and incomplete."""
    aggregation = query.aggregation.lower()
    label = _dimension_value(row, query.split_by)
    if label is None:
        if any(point.get(aggregation) is not None for point in row["data"]):
            raise ValueError(f"a series does not say which {query.split_by} it is of")
        return
    whole = (*key, label)
    because = ""
    try:
        found.series[whole], strange = grid.to_series(row["data"], aggregation, found.series.get(whole))
        because = f"it has a point at {strange}, where no hour that was asked for begins" if strange else ""
    except UNREADABLE_REPLY_ERRORS as error:
        because = repr(error)
    if because:
        found.unreadable_series.add(whole)
        cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"{key[1]} of {label or key[0]} cannot be read ({because})"))


def _dimension_value(row: Json, split: str | None) -> str | None:
    """The value of the dimension that the query was split by, lower-cased as the names of dimensions come back; None where it is not there."""
    labels = {str(pair["name"]["value"]).lower(): str(pair["value"]).lower() for pair in row.get("metadatavalues") or ()}
    return labels.get(split.lower()) if split else ""


@dataclass(slots=True, kw_only=True)
class HourlyBuckets:
    """Buckets over a window. It starts on the full hour, where Azure's hourly buckets begin, too."""

    start: datetime
    end: datetime
    step: Any
    bucket_indexes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def to_series(self, points: Sequence[Json], value: str, old: Series | None) -> tuple[Series, str]:
        """The points as a series, and a time stamp that begins none of its buckets, if any.

        NaN stands for a bucket without a point and for a point without a value. `old` is merged in. A point at such a time stamp is of an
        hour that is not one of ours, so the series proves nothing, and it counts as use in both hours that it may be of.
        """
        buckets = array("f", old.values) if old else array("f", [math.nan]) * -(-(self.end - self.start) // self.step)
        strange = ""
        for places, point in zip([self._indexes_of(point["timeStamp"]) for point in points], points, strict=True):
            if math.isnan(number := _point_value(point.get(value))):
                continue
            _put_value(buckets, number, places)
            if len(places) > 1 or not 0 <= places[0] < len(buckets):
                strange = str(point["timeStamp"])
        return Series(start=self.start, step=self.step, values=buckets, end=self.end), strange

    def _indexes_of(self, stamp: str) -> tuple[int, ...]:
        """The bucket that begins at `stamp`, or the two that are nearest to it."""
        if stamp not in self.bucket_indexes:
            when = parse_time(stamp)
            if when is None:
                raise ValueError("a point has no time")
            index, late = divmod(when - self.start, self.step)
            self.bucket_indexes[stamp] = (index, index + 1) if late else (index,)
        return self.bucket_indexes[stamp]


def _put_value(buckets: array[float], number: float, places: tuple[int, ...]) -> None:
    for place in places:
        if 0 <= place < len(buckets):
            before = buckets[place]
            buckets[place] = number if math.isnan(before) else max(before, number)


def _point_value(value: object) -> float:
    """The value of a point; NaN for none. None of our metrics is ever below zero. Raises ValueError, or OverflowError for what is too large."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{value!r} is no value of a point")
    return float(value)
