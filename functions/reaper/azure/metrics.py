"""Metrics: up to fifty resources per call if the identity may read them at subscription level, else one call each.

Batch calls, their limits and their permission: https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
`top` defaults to ten for the whole reply, which doesn't mention what it cut off. So `top` is always set and the series are counted.
For hours in which a sparse metric had nothing to report, there are points without a value. They don't count as points: for activity they are
silence, for a heartbeat a gap: https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics
In a reply, a metric of a resource may be missing, may carry an `errorCode`, or may have points without a value:
https://learn.microsoft.com/rest/api/monitor/metrics-batch/batch
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from reaper.azure.requests import UNREGISTERED_TEXT, ArmRequest, Json, parse_time, query_time, reading
from reaper.errors import CloudError, Reason
from reaper.model import Role
from reaper.observation import Reading, Series, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


PERMISSION = "Microsoft.Insights/metrics/read"
STEP = timedelta(hours=1)
MAX_RESOURCES = 50
MAX_POINTS = 60_000
"""In one reply, which is in memory several times over while it is parsed: fifty resources with three metrics over two weeks have fewer."""
BELOW_ANY = float("-inf")
METRIC_RETENTION = timedelta(days=92)
UNPUBLISHED_SENTENCE = re.compile(
    r"fail(ed|s)? to find metric|metric (namespace|configuration).*not found|not found.*metric|valid metrics", re.IGNORECASE
)
"""How Azure Monitor says that a custom namespace was never published to. Any other 400 is a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """Metrics of one namespace under one aggregation, split by the values of one dimension or not at all; `max_series` series at most.

    `is_published_by_us`: the namespace may not exist, so each resource is asked alone, and a 400 can mean that there is no series.
    `described_by(id)` reads a resource whose metrics aren't found: the list that named it may lag behind.
    """

    namespace: str
    metrics: tuple[str, ...]
    aggregation: str
    split_by: str | None = None
    is_published_by_us: bool = False
    described_by: Callable[[str], ArmRequest] | None = None
    max_series: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """One series. Without any `values` there is no series; NaN is a bucket without a value."""

    series: Series
    complete: bool


@dataclass(slots=True, kw_only=True)
class MetricResults:
    """All results of one query, by resource, metric and dimension value, each in lower case.

    The window starts on the full hour, where Azure's hourly buckets begin too. `indexes`: the buckets of each time stamp.
    """

    window: Window
    series: dict[tuple[str, str, str], Series] = field(default_factory=dict)
    complete_metrics: set[tuple[str, str]] = field(default_factory=set)
    unreadable_series: set[tuple[str, str, str]] = field(default_factory=set)
    gone_ids: set[str] = field(default_factory=set)
    indexes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def hours(self) -> int:
        """How many buckets the window has."""
        return -(-(self.window.end - self.window.start) // STEP)

    def result_of(self, resource_id: str, metric: str, value: str = "") -> MetricResult:
        """The result for one metric of one resource, and for one value of the dimension it was split by."""
        key = (resource_id.lower(), metric.lower())
        series_key = (*key, value.lower())
        series = self.series.get(series_key, Series(start=self.window.start, step=STEP, end=self.window.end))
        return MetricResult(series=series, complete=key in self.complete_metrics and series_key not in self.unreadable_series)

    def add_points(self, key: tuple[str, str, str], points: Sequence[Json], aggregation: str) -> None:
        """Add the points to the series `key`. NaN stands for a bucket without a point and for a point without a value.

        Raises one of the reading errors for points that can't be read. Raises ValueError, too, for a point at a time stamp that begins no
        requested hour: it counts as use in both hours it may belong to, but the series proves nothing.
        """
        earlier, length = self.series.get(key), self.hours
        values = array("f", earlier.values) if earlier else array("f", [math.nan]) * length
        odd_time = ""
        for point in points:
            indexes, number = self._indexes_of(point["timeStamp"]), _point_value(point.get(aggregation))
            if math.isnan(number):
                continue
            for index in indexes:
                if 0 <= index < length:
                    values[index] = number if math.isnan(values[index]) else max(values[index], number)
            if len(indexes) > 1 or not 0 <= indexes[0] < length:
                odd_time = str(point["timeStamp"])
        self.series[key] = Series(start=self.window.start, step=STEP, values=values, end=self.window.end)
        if odd_time:
            raise ValueError(f"it has a point at {odd_time}, which begins no requested hour")

    def _indexes_of(self, stamp: str) -> tuple[int, ...]:
        """The bucket that begins at `stamp`, or the two nearest to it."""
        if stamp not in self.indexes:
            moment = parse_time(stamp)
            if moment is None:
                raise ValueError("a point has no time")
            index, late = divmod(moment - self.window.start, STEP)
            self.indexes[stamp] = (index, index + 1) if late else (index,)
        return self.indexes[stamp]


def fetch_metrics(cloud: CloudSession, regions: Mapping[str, str], query: MetricQuery, window: Window) -> MetricResults:
    """The query's results for these resources; `regions`: by ID, the region whose host serves its metrics. A failed call is added to the session's
    errors; its results stay empty and incomplete.
    """
    oldest_kept = (window.end - METRIC_RETENTION + STEP - timedelta.resolution).replace(minute=0, second=0, microsecond=0)
    results = MetricResults(window=replace(window, start=max(window.start, oldest_kept)))
    fetch = _Fetch(cloud=cloud, query=query, results=results)
    single: list[str] = []
    by_region: dict[str, list[str]] = defaultdict(list)
    for one, region in {one.lower(): (one, region) for one, region in regions.items()}.values():
        (single if query.is_published_by_us or not region else by_region[region]).append(one)
    most = max(1, min(MAX_RESOURCES, MAX_POINTS // max(1, results.hours * len(query.metrics))))
    batches = [(region, some[i : i + most]) for region, some in by_region.items() for i in range(0, len(some), most)]
    # The first batch goes alone: if it is denied, none of the others is sent.
    for some in (batches[:1], batches[1:]):
        single += chain(*cloud.map_concurrently(fetch.batch, some))
    cloud.map_concurrently(fetch.single, single)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """The calls of one query, which fill its results."""

    cloud: CloudSession
    query: MetricQuery
    results: MetricResults

    def batch(self, region_and_ids: tuple[str, list[str]]) -> list[str]:
        """One batch call. Returns the resources that must be asked one by one: those missing from the reply, or all if it failed for them."""
        batch = region_and_ids[1]
        if not self.cloud.clients.may_use_batch:
            return batch
        try:
            request = batch_request(self.cloud.target.account, region_and_ids, self.query, self.results.window)
            missing = self._read_reply(self.cloud.call(request)["values"], {one.lower() for one in batch})
        except CloudError as error:
            # This identity can't use batches: neither this one nor a later one.
            cannot_batch = error.reason in (Reason.DENIED, Reason.UNREACHABLE)
            # One of its resources spoiled this batch: Azure answers 404 or 400 for all if one is gone or its region is wrong, and a permanent 500
            # for a few batches (elastic/beats#41790).
            is_spoiled = error.reason is Reason.GONE or error.code[:1] in {"4", "5"}
            if cannot_batch:
                self.cloud.clients.may_use_batch = False
            elif not is_spoiled or UNREGISTERED_TEXT in str(error):  # nothing else would report that cause
                self.cloud.add_error(error)
            return batch if cannot_batch or is_spoiled else []
        return [one for one in batch if one.lower() in missing]

    def single(self, resource_id: str) -> None:
        """The call for one resource."""
        key = resource_id.lower()
        try:
            reply = self.cloud.call(single_request(resource_id, self.query, self.results.window))
            self._read_reply([{"resourceid": resource_id, "value": reply["value"]}], {key})
        except CloudError as error:
            if self.query.is_published_by_us and error.code.startswith("400") and UNPUBLISHED_SENTENCE.search(str(error)):
                self.results.complete_metrics |= {(key, metric.lower()) for metric in self.query.metrics}
            elif error.reason is Reason.GONE and self._is_gone(resource_id):
                self.results.gone_ids.add(key)
            else:
                self.cloud.add_error(error)

    def _is_gone(self, resource_id: str) -> bool:
        try:
            return self.query.described_by is not None and self.cloud.find(self.query.described_by(resource_id)) is None
        except CloudError as another:
            self.cloud.add_error(another)
            return False

    def _read_reply(self, rows: Any, ids: set[str]) -> set[str]:
        """Add what a reply says of the resources `ids` (in lower case) to the results, joined by ID: the order of a reply means nothing.

        Returns the IDs that are missing from it or repeated. If one resource, metric or series can't be read, it stays incomplete and is added
        to the session's errors; the rest of the reply counts. Raises CloudError for anything but a list, and for a reply that may have been
        cut off at `query.max_series` series.
        """
        if not isinstance(rows, list):
            raise CloudError(Reason.UNREADABLE, PERMISSION, f"a reply can't be read (it is {type(rows).__name__}, not a list)")
        named = [(str(row.get("resourceid")).lower(), _list_at(row, "value")) for row in rows if isinstance(row, dict)]
        count = sum(len(_list_at(metric, "timeseries")) for _, metrics in named for metric in metrics)
        if count >= self.query.max_series:
            raise CloudError(Reason.PARTIAL, PERMISSION, f"{count} series came back, and there may be more")
        times_in_reply = Counter(key for key, _ in named)
        for key, metrics in named:
            if key in ids and times_in_reply[key] == 1:
                read = partial(self._read_metric, key, metrics)
                self.results.complete_metrics.update(
                    self.cloud.each(PERMISSION, self.query.metrics, read, f"{{}} of {key}".format)
                )
        return {key for key in ids if times_in_reply[key] != 1}

    def _read_metric(self, resource_id: str, metrics: list[Any], name: str) -> tuple[str, str]:
        """Add the series of the metric of that name. Raises CloudError if it is missing, repeated, or came with an error."""
        named = [metric for metric in metrics if isinstance(metric, dict) and isinstance(metric.get("name"), dict)]
        matches = [metric for metric in named if str(metric["name"].get("value")).lower() == name.lower()]
        if len(matches) != 1:
            problem = "repeated in" if matches else "missing from"
            raise CloudError(Reason.PARTIAL, PERMISSION, f"{name} of {resource_id}: {problem} the reply")
        code = matches[0].get("errorCode") or "Success"
        if code != "Success":
            text = f"{name} of {resource_id}: {code} {matches[0].get('errorMessage') or ''}".strip()
            raise CloudError(Reason.PARTIAL, PERMISSION, text)
        key = (resource_id, name.lower())
        for row in matches[0]["timeseries"]:
            self._read_series(key, row)
        return key

    def _read_series(self, key: tuple[str, str], row: Json) -> None:
        """Raises one of the reading errors if the series doesn't say whose it is. One that only has odd points is incomplete, and an error."""
        labels = {str(pair["name"]["value"]).lower(): str(pair["value"]).lower() for pair in row.get("metadatavalues") or ()}
        aggregation, split_by = self.query.aggregation.lower(), self.query.split_by
        value = labels.get(split_by.lower()) if split_by else ""
        if value is None:
            if any(point.get(aggregation) is not None for point in row["data"]):
                raise ValueError(f"a series doesn't say which {split_by} it belongs to")
            return
        try:
            with reading(PERMISSION, f"{key[1]} of {value or key[0]}"):
                self.results.add_points((*key, value), row["data"], aggregation)
        except CloudError as error:
            self.results.unreadable_series.add((*key, value))
            self.cloud.add_error(error)


def batch_request(subscription: str, region_and_ids: tuple[str, Sequence[str]], query: MetricQuery, window: Window) -> ArmRequest:
    """The query about resources of one region, all at once."""
    region, ids = region_and_ids
    times = {"starttime": query_time(window.start), "endtime": query_time(window.end)}
    return ArmRequest(
        permission=PERMISSION,
        path=f"/subscriptions/{subscription}/metrics:getBatch",
        query=_query_params(query, "filter") | times,
        body={"resourceids": list(ids)},
        required_keys=("values",),
        region=region,
    )


def single_request(resource_id: str, query: MetricQuery, window: Window) -> ArmRequest:
    """The query about one resource."""
    params = _query_params(query, "$filter") | {"timespan": f"{query_time(window.start)}/{query_time(window.end)}"}
    path = f"{resource_id}/providers/Microsoft.Insights/metrics"
    return ArmRequest(permission=PERMISSION, path=path, query=params, required_keys=("value",))


def _query_params(query: MetricQuery, filter_key: str) -> dict[str, str]:
    return {
        "metricnamespace": query.namespace,
        "metricnames": ",".join(query.metrics),
        "aggregation": query.aggregation,
        "interval": "PT1H",
        "top": str(query.max_series),
    } | ({filter_key: f"{query.split_by} eq '*'"} if query.split_by else {})


def _list_at(row: Any, key: str) -> list[Any]:
    value = row.get(key) if isinstance(row, dict) else None
    return value if isinstance(value, list) else []


def _point_value(value: object) -> float:
    """The value of a point; NaN if it has none. None of these metrics is ever negative. Raises ValueError, or OverflowError if too large."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{value!r} isn't the value of a point")
    return float(value)


def activity_reading(signal: str, result: MetricResult) -> Reading:
    """The result as an activity signal."""
    return Reading(signal=signal, role=Role.ACTIVITY, series=result.series, complete=result.complete, busy_above=0.0)


def heartbeat_reading(signal: str, result: MetricResult) -> Reading:
    """The result as a heartbeat: any value will do, zero too."""
    return Reading(signal=signal, role=Role.HEARTBEAT, series=result.series, complete=result.complete, busy_above=BELOW_ANY)


def stand_in_reading(signal: str, active: MetricResult, total: MetricResult, idle: MetricResult) -> Reading | None:
    """A heartbeat for hours without a value of `active`: a gap if `idle` and `total` show that nodes were at work all the same.

    None if there is no such hour, so that no stand-in is needed. If one of the two has no value either, nothing contradicts the silence,
    and the heartbeat decides.
    """
    complete = total.complete and idle.complete
    reading = Reading(signal=signal, role=Role.HEARTBEAT, series=replace(total.series, values=()), complete=complete)
    known = [result.series for result in (active, total, idle) if result.series.values]
    if len({(series.start, len(series.values)) for series in known}) > 1:
        return reading
    silent = array("f", [math.nan]) * max((len(series.values) for series in known), default=0)
    hours = zip(*(result.series.values or silent for result in (active, total, idle)), strict=True)
    at_work = [math.isnan(active) and idle < total for active, total, idle in hours]  # never true of NaN
    values = array("f", (math.nan if hour else 1.0 for hour in at_work))
    return replace(reading, series=replace(known[0], values=values)) if any(at_work) else None
