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
from reaper.azure.arm_values import spelled
from reaper.azure.request import UNREGISTERED, Call
from reaper.errors import CloudError, Trouble
from reaper.model import Series, Window

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

STEP = timedelta(hours=1)
MOST_RESOURCES = 50
RETENTION = timedelta(days=92)
PERMISSION = metrics_reply.PERMISSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Metrics of one namespace under one aggregation, split by the values of one dimension or not at all; `top` series at most.

    `published_by_us` is for a namespace that may not be there at all: it is asked for one resource at a time, and 400 means no series.
    """

    namespace: str
    metrics: tuple[str, ...]
    aggregation: str
    split: str | None = None
    published_by_us: bool = False
    top: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A resource that has metrics, and the region whose host knows them."""

    id: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One series. Without any `values` there is no series; NaN is a bucket without a value."""

    series: Series
    complete: bool


@dataclass(slots=True, kw_only=True)
class Answers:
    """Everything one query found, by resource, metric and value of the dimension, all in lower case.

    `odd` are series that could not be read, `gone` resources that are not there any more.
    """

    window: Window
    step: timedelta = STEP
    series: dict[tuple[str, str, str], Series] = field(default_factory=dict)
    complete: set[tuple[str, str]] = field(default_factory=set)
    odd: set[tuple[str, str, str]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def of(self, id_: str, metric: str, value: str = "") -> Answer:
        """The answer for one metric of one resource, and for one value of the dimension it was split by."""
        key = (id_.lower(), metric.lower())
        whole = (*key, value.lower())
        series = self.series.get(whole, Series(start=self.window.start, step=self.step, end=self.window.end))
        return Answer(series=series, complete=key in self.complete and whole not in self.odd)


Gone = Callable[[str], bool]
"""Asks whether the resource with this id is not there any more. Raises CloudError."""


def answers(cloud: Cloud, places: Sequence[Place], query: Query, window: Window, gone: Gone = lambda id_: False) -> Answers:
    """What the query finds. A call that fails is noted on the cloud and leaves its answers empty and incomplete.

    `gone` is asked about a resource whose metrics are not found: the list that named it may lag behind.
    """
    oldest = (window.end - RETENTION + STEP - timedelta.resolution).replace(minute=0, second=0, microsecond=0)
    found = Answers(window=replace(window, start=max(window.start, oldest)))
    unique = list({place.id.lower(): place for place in places}.values())
    alone = [place for place in unique if query.published_by_us or not place.region]
    batches = [] if query.published_by_us else list(_batches([place for place in unique if place.region]))
    for some in (batches[:1], batches[1:]):
        alone += chain(*cloud.each(lambda batch: _in_bulk(cloud, batch, query, found), some))
    cloud.each(lambda place: _alone(cloud, place, query, found, gone), alone)
    return found


def _batches(places: Sequence[Place]) -> Iterator[list[Place]]:
    """All of one region, fifty at most. The caller asks for one resource type only."""
    by_region: dict[str, list[Place]] = {}
    for place in places:
        by_region.setdefault(place.region, []).append(place)
    for some in by_region.values():
        yield from (some[i : i + MOST_RESOURCES] for i in range(0, len(some), MOST_RESOURCES))


def _in_bulk(cloud: Cloud, batch: list[Place], query: Query, found: Answers) -> list[Place]:
    """One batch call; returns the places that must be asked one by one: those that did not come back, or all where it failed for them."""
    if not cloud.session.bulk:
        return batch
    call = Call(
        permission=PERMISSION,
        path=f"/subscriptions/{cloud.target.account}/metrics:getBatch",
        query=_asked(query, found.window),
        body={"resourceids": [place.id for place in batch]},
        has=("values",),
        region=batch[0].region,
    )
    try:
        left = metrics_reply.take(cloud, cloud.call(call)["values"], {place.id.lower() for place in batch}, query, found)
    except CloudError as error:
        return _one_by_one(cloud, batch, error)
    return [place for place in batch if place.id.lower() in left]


def _one_by_one(cloud: Cloud, batch: list[Place], error: CloudError) -> list[Place]:
    """What of a failed batch is asked one by one.

    All of it, and of later batches, where bulk reading is not for this identity; all of this batch only where one of its resources
    spoilt it: Azure answers 404 or 400 for all when one is gone or is of another region than it says, and a few batches with 500 for ever
    (elastic/beats#41790). A provider that is not registered is told, too, because nothing else would say why.
    """
    if error.trouble in (Trouble.DENIED, Trouble.UNREACHABLE):
        cloud.session.bulk = False
        return batch
    if error.trouble is Trouble.GONE or error.code[:1] in {"4", "5"}:
        if UNREGISTERED in str(error):
            cloud.note(error)
        return batch
    cloud.note(error)
    return []


UNPUBLISHED = re.compile(
    r"fail(ed|s)? to find metric|metric (namespace|configuration).*not found|not found.*metric|valid metrics", re.IGNORECASE
)
"""How Azure Monitor says that nobody ever published to a custom namespace; any other 400 is a failure."""


def _alone(cloud: Cloud, place: Place, query: Query, found: Answers, gone: Gone) -> None:
    asked = _asked(query, found.window)
    asked["timespan"] = f"{asked.pop('starttime')}/{asked.pop('endtime')}"
    if "filter" in asked:
        asked["$filter"] = asked.pop("filter")
    call = Call(permission=PERMISSION, path=f"{place.id}/providers/Microsoft.Insights/metrics", query=asked, has=("value",))
    try:
        metrics_reply.take(
            cloud, [{"resourceid": place.id, "value": cloud.call(call)["value"]}], {place.id.lower()}, query, found
        )
    except CloudError as error:
        if query.published_by_us and error.code.startswith("400") and UNPUBLISHED.search(str(error)):
            found.complete |= {(place.id.lower(), metric.lower()) for metric in query.metrics}
        elif _is_gone(cloud, place, error, gone):
            found.gone.add(place.id.lower())
        else:
            cloud.note(error)


def _is_gone(cloud: Cloud, place: Place, error: CloudError, gone: Gone) -> bool:
    """Whether the metrics were not found because the resource is not there any more."""
    try:
        return error.trouble is Trouble.GONE and gone(place.id)
    except CloudError as another:
        cloud.note(another)
        return False


def _asked(query: Query, window: Window) -> dict[str, str]:
    common = {
        "metricnamespace": query.namespace,
        "metricnames": ",".join(query.metrics),
        "aggregation": query.aggregation,
        "interval": "PT1H",
        "starttime": spelled(window.start),
        "endtime": spelled(window.end),
        "top": str(query.top),
    }
    return common | ({"filter": f"{query.split} eq '*'"} if query.split else {})
