"""Metrics: up to fifty resources per call if the identity may read them at subscription level, else one call each.

Batch calls, their limits and their permission: https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
`top` defaults to ten for the whole reply, which doesn't mention what it cut off. So `top` is always set and the series are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from reaper.azure import metrics_reply
from reaper.azure.metrics_query import MetricQuery, MetricSource, query_params, single_query_params
from reaper.azure.metrics_reply import PERMISSION, STEP, MetricResults
from reaper.azure.request import UNREGISTERED_TEXT, ArmRequest
from reaper.errors import CloudError, Reason
from reaper.observation import Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

MAX_RESOURCES = 50
METRIC_RETENTION = timedelta(days=92)
UNPUBLISHED_SENTENCE = re.compile(
    r"fail(ed|s)? to find metric|metric (namespace|configuration).*not found|not found.*metric|valid metrics", re.IGNORECASE
)
"""How Azure Monitor says that a custom namespace was never published to. Any other 400 is a failure."""

GoneCheck = Callable[[str], bool]
"""Whether the resource with this ID no longer exists. Raises CloudError."""


def never_gone(resource_id: str) -> bool:
    """The check of a kind whose list never lags behind."""
    return False


def fetch_metrics(
    cloud: CloudSession,
    sources: Sequence[MetricSource],
    query: MetricQuery,
    window: Window,
    is_gone: GoneCheck = never_gone,
) -> MetricResults:
    """The query's results. A failed call is added to the session's errors; its results stay empty and incomplete.

    `is_gone` is asked about a resource whose metrics aren't found: the list that named it may lag behind.
    """
    results = MetricResults(window=replace(window, start=max(window.start, _oldest_kept(window.end))))
    unique = list({source.id.lower(): source for source in sources}.values())
    single = [source for source in unique if query.is_published_by_us or not source.region]
    batches = [] if query.is_published_by_us else list(_split_batches([source for source in unique if source.region]))
    # The first batch goes alone: if it is denied, none of the others is sent.
    for some in (batches[:1], batches[1:]):
        single += chain(*cloud.map_concurrently(lambda batch: _fetch_batch(cloud, batch, query, results), some))
    cloud.map_concurrently(lambda source: _fetch_single(cloud, source, query, results, is_gone), single)
    return results


def _oldest_kept(end: datetime) -> datetime:
    """The oldest full hour that Azure Monitor still keeps."""
    return (end - METRIC_RETENTION + STEP - timedelta.resolution).replace(minute=0, second=0, microsecond=0)


def _split_batches(sources: Sequence[MetricSource]) -> Iterator[list[MetricSource]]:
    """Batches of up to fifty resources of one region. The caller asks for one resource type only."""
    by_region: dict[str, list[MetricSource]] = {}
    for source in sources:
        by_region.setdefault(source.region, []).append(source)
    for some in by_region.values():
        yield from (some[i : i + MAX_RESOURCES] for i in range(0, len(some), MAX_RESOURCES))


def _fetch_batch(
    cloud: CloudSession, batch: list[MetricSource], query: MetricQuery, results: MetricResults
) -> list[MetricSource]:
    """One batch call. Returns the resources that must be asked one by one: those missing from the reply, or all if it failed for them."""
    if not cloud.clients.may_use_batch:
        return batch
    request = ArmRequest(
        permission=PERMISSION,
        path=f"/subscriptions/{cloud.target.account}/metrics:getBatch",
        query=query_params(query, results.window),
        body={"resourceids": [source.id for source in batch]},
        required_keys=("values",),
        region=batch[0].region,
    )
    ids = {source.id.lower() for source in batch}
    try:
        missing = metrics_reply.read_reply(cloud, cloud.call(request)["values"], ids, query, results)
    except CloudError as error:
        return _sources_to_fetch_singly(cloud, batch, error)
    return [source for source in batch if source.id.lower() in missing]


def _sources_to_fetch_singly(cloud: CloudSession, batch: list[MetricSource], error: CloudError) -> list[MetricSource]:
    """The resources of a failed batch that are asked one by one.

    If this identity can't use batches, that is all of them, and those of later batches too. If one of its resources spoiled the batch, it
    is this batch only: Azure answers 404 or 400 for all if one is gone or its region is wrong, and a permanent 500 for a few batches
    (elastic/beats#41790). An unregistered provider is an error as well, because nothing else would report the cause.
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


def _fetch_single(
    cloud: CloudSession, source: MetricSource, query: MetricQuery, results: MetricResults, is_gone: GoneCheck
) -> None:
    request = ArmRequest(
        permission=PERMISSION,
        path=f"{source.id}/providers/Microsoft.Insights/metrics",
        query=single_query_params(query, results.window),
        required_keys=("value",),
    )
    try:
        rows = [{"resourceid": source.id, "value": cloud.call(request)["value"]}]
        metrics_reply.read_reply(cloud, rows, {source.id.lower()}, query, results)
    except CloudError as error:
        if query.is_published_by_us and _means_never_published(error):
            results.complete_metrics |= {(source.id.lower(), metric.lower()) for metric in query.metrics}
        elif _is_gone(cloud, source, error, is_gone):
            results.gone_ids.add(source.id.lower())
        else:
            cloud.add_error(error)


def _means_never_published(error: CloudError) -> bool:
    return error.code.startswith("400") and bool(UNPUBLISHED_SENTENCE.search(str(error)))


def _is_gone(cloud: CloudSession, source: MetricSource, error: CloudError, is_gone: GoneCheck) -> bool:
    """Whether the metrics weren't found because the resource no longer exists."""
    try:
        return error.reason is Reason.GONE and is_gone(source.id)
    except CloudError as another:
        cloud.add_error(another)
        return False
