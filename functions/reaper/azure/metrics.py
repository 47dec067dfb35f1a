"""Metrics, fifty resources a call where the identity may read them at subscription level, else one call each.

Batch calls, their limits and their right: https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
`top` is ten unless told otherwise, for the whole reply, and what is cut off is not mentioned: it is set, and what comes is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING

from reaper.azure import metrics_reply
from reaper.azure.arm_values import query_time
from reaper.azure.request import UNREGISTERED_TEXT, ArmRequest
from reaper.errors import CloudError, Reason
from reaper.model import Series, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

STEP = timedelta(hours=1)
MAX_RESOURCES = 50
METRIC_RETENTION = timedelta(days=92)
PERMISSION = metrics_reply.PERMISSION


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """Metrics of one namespace under one aggregation, split by the values of one dimension or not at all; `top` series at most.

    `published_by_us` is for a namespace that may not be there at all: it is asked for one resource at a time, and 400 means no series.
    """

    namespace: str
    metrics: tuple[str, ...]
    aggregation: str
    split_by: str | None = None
    is_published_by_us: bool = False
    max_series: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """A resource that has metrics, and the region whose host knows them."""

    id: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """One series. Without any `values` there is no series; NaN is a bucket without a value."""

    series: Series
    complete: bool


@dataclass(slots=True, kw_only=True)
class MetricResults:
    """Everything one query found, by resource, metric and value of the dimension, all in lower case.

    `odd` are series that could not be read, `gone` resources that are not there any more.
    """

    window: Window
    step: timedelta = STEP
    series: dict[tuple[str, str, str], Series] = field(default_factory=dict)
    complete_metrics: set[tuple[str, str]] = field(default_factory=set)
    unreadable_series: set[tuple[str, str, str]] = field(default_factory=set)
    gone_ids: set[str] = field(default_factory=set)

    def result_of(self, id_: str, metric: str, value: str = "") -> MetricResult:
        """The answer for one metric of one resource, and for one value of the dimension it was split by."""
        key = (id_.lower(), metric.lower())
        whole = (*key, value.lower())
        series = self.series.get(whole, Series(start=self.window.start, step=self.step, end=self.window.end))
        return MetricResult(series=series, complete=key in self.complete_metrics and whole not in self.unreadable_series)


GoneCheck = Callable[[str], bool]
"""Asks whether the resource with this id is not there any more. Raises CloudError."""


def fetch_metrics(
    cloud: CloudSession,
    places: Sequence[MetricSource],
    query: MetricQuery,
    window: Window,
    is_gone: GoneCheck = lambda id_: False,
) -> MetricResults:
    """What the query finds. A call that fails is noted on the cloud and leaves its answers empty and incomplete.

    `gone` is asked about a resource whose metrics are not found: the list that named it may lag behind.
    """
    oldest = (window.end - METRIC_RETENTION + STEP - timedelta.resolution).replace(minute=0, second=0, microsecond=0)
    found = MetricResults(window=replace(window, start=max(window.start, oldest)))
    unique = list({place.id.lower(): place for place in places}.values())
    alone = [place for place in unique if query.is_published_by_us or not place.region]
    batches = [] if query.is_published_by_us else list(_split_batches([place for place in unique if place.region]))
    for some in (batches[:1], batches[1:]):
        alone += chain(*cloud.map_concurrently(lambda batch: _fetch_batch(cloud, batch, query, found), some))
    cloud.map_concurrently(lambda place: _fetch_single(cloud, place, query, found, is_gone), alone)
    return found


def _split_batches(places: Sequence[MetricSource]) -> Iterator[list[MetricSource]]:
    """All of one region, fifty at most. The caller asks for one resource type only."""
    by_region: dict[str, list[MetricSource]] = {}
    for place in places:
        by_region.setdefault(place.region, []).append(place)
    for some in by_region.values():
        yield from (some[i : i + MAX_RESOURCES] for i in range(0, len(some), MAX_RESOURCES))


def _fetch_batch(cloud: CloudSession, batch: list[MetricSource], query: MetricQuery, found: MetricResults) -> list[MetricSource]:
    """One batch call; returns the places that must be asked one by one: those that did not come back, or all where it failed for them."""
    if not cloud.clients.may_use_batch:
        return batch
    call = ArmRequest(
        permission=PERMISSION,
        path=f"/subscriptions/{cloud.target.account}/metrics:getBatch",
        query=_query_params(query, found.window),
        body={"resourceids": [place.id for place in batch]},
        required_keys=("values",),
        region=batch[0].region,
    )
    try:
        left = metrics_reply.read_reply(cloud, cloud.call(call)["values"], {place.id.lower() for place in batch}, query, found)
    except CloudError as error:
        return _sources_to_fetch_singly(cloud, batch, error)
    return [place for place in batch if place.id.lower() in left]


def _sources_to_fetch_singly(cloud: CloudSession, batch: list[MetricSource], error: CloudError) -> list[MetricSource]:
    """What of a failed batch is asked one by one.

    All of it, and of later batches, where bulk reading is not for this identity; all of this batch only where one of its resources
    spoilt it: Azure answers 404 or 400 for all when one is gone or is of another region than it says, and a few batches with 500 for ever
    (elastic/beats#41790). A provider that is not registered is told, too, because nothing else would say why.
    """
    if error.reason in (Reason.DENIED, Reason.UNREACHABLE):
        cloud.clients.may_use_batch = False
        return batch
    if error.reason is Reason.GONE or error.code[:1] in {"4", "5"}:
        if UNREGISTERED_TEXT in str(error):
            cloud.add_error(error)
        return batch
    cloud.add_error(error)
    return []


UNPUBLISHED_SENTENCE = re.compile(
    r"fail(ed|s)? to find metric|metric (namespace|configuration).*not found|not found.*metric|valid metrics", re.IGNORECASE
)
"""How Azure Monitor says that nobody ever published to a custom namespace; any other 400 is a failure."""


def _fetch_single(cloud: CloudSession, place: MetricSource, query: MetricQuery, found: MetricResults, gone: GoneCheck) -> None:
    asked = _query_params(query, found.window)
    asked["timespan"] = f"{asked.pop('starttime')}/{asked.pop('endtime')}"
    if "filter" in asked:
        asked["$filter"] = asked.pop("filter")
    call = ArmRequest(
        permission=PERMISSION, path=f"{place.id}/providers/Microsoft.Insights/metrics", query=asked, required_keys=("value",)
    )
    try:
        metrics_reply.read_reply(
            cloud, [{"resourceid": place.id, "value": cloud.call(call)["value"]}], {place.id.lower()}, query, found
        )
    except CloudError as error:
        if query.is_published_by_us and error.code.startswith("400") and UNPUBLISHED_SENTENCE.search(str(error)):
            found.complete_metrics |= {(place.id.lower(), metric.lower()) for metric in query.metrics}
        elif _is_gone(cloud, place, error, gone):
            found.gone_ids.add(place.id.lower())
        else:
            cloud.add_error(error)


def _is_gone(cloud: CloudSession, place: MetricSource, error: CloudError, gone: GoneCheck) -> bool:
    """Whether the metrics were not found because the resource is not there any more."""
    try:
        return error.reason is Reason.GONE and gone(place.id)
    except CloudError as another:
        cloud.add_error(another)
        return False


def _query_params(query: MetricQuery, window: Window) -> dict[str, str]:
    common = {
        "metricnamespace": query.namespace,
        "metricnames": ",".join(query.metrics),
        "aggregation": query.aggregation,
        "interval": "PT1H",
        "starttime": query_time(window.start),
        "endtime": query_time(window.end),
        "top": str(query.max_series),
    }
    return common | ({"filter": f"{query.split_by} eq '*'"} if query.split_by else {})
