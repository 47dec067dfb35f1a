"""Whether Azure Monitor's metrics can be read: by the batch hosts, which take tokens of their own, or one resource at a time.

https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reaper.azure.doctor_rights import grant_line, place_of
from reaper.azure.metrics_query import MetricQuery, MetricSource, query_params, single_query_params
from reaper.azure.metrics_reply import PERMISSION
from reaper.azure.request import ArmRequest
from reaper.azure.service_hosts import hosts_from_env
from reaper.azure.workspaces import TYPE
from reaper.doctor.check import CheckStatus
from reaper.doctor.right import Right, right_of_call
from reaper.errors import CloudError, Reason
from reaper.observation import Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

QUERY = MetricQuery(namespace=TYPE, metrics=("Active Nodes",), aggregation="Maximum", split_by="ClusterName", max_series=1)
"""A metric of every workspace, split by the dimension that sweeps split it by, because a dimension may be denied alone."""


def metric_right(cloud: CloudSession, space: MetricSource, now: datetime, principal: str) -> Right:
    """The right to read metrics of one workspace. A refused batch is no obstacle as long as single calls work, and its place says so."""
    home = f"/subscriptions/{cloud.target.account}"
    place = f"{place_of(home)} {space.region}"

    def grant(missing: str) -> str:
        return grant_line(principal, missing, home)

    batch_error = _error_of(cloud, _batch_request(home, space, now))
    if batch_error is None:
        return Right(permission=PERMISSION, place=place)
    error = _error_of(cloud, _single_request(space, now))
    if error is not None:
        return right_of_call(PERMISSION, place, error, grant)
    if batch_error.reason is Reason.DENIED:
        return Right(permission=PERMISSION, place=f"{place} (no batches)")
    return Right(
        permission=PERMISSION,
        place=place,
        status=CheckStatus.FIX,
        because=f"metrics are read one resource at a time, which is slow: {batch_error}",
        fix=f"Let this network reach {_host(space.region)}, or correct REAPER_METRICS_ENDPOINT.",
    )


def _error_of(cloud: CloudSession, request: ArmRequest | None) -> CloudError | None:
    if request is None:
        return CloudError(Reason.UNREACHABLE, PERMISSION, "the batch metrics host of this cloud is unknown")
    try:
        cloud.call(request)
    except CloudError as error:
        return error
    return None


def _window(now: datetime) -> Window:
    end = now.replace(minute=0, second=0, microsecond=0)
    return Window(start=end - timedelta(hours=1), end=end, recent_since=end)


def _batch_request(home: str, space: MetricSource, now: datetime) -> ArmRequest | None:
    if hosts_from_env(os.environ).metrics is None:
        return None
    return ArmRequest(
        permission=PERMISSION,
        path=f"{home}/metrics:getBatch",
        query=query_params(QUERY, _window(now)),
        body={"resourceids": [space.id]},
        required_keys=("values",),
        region=space.region,
    )


def _single_request(space: MetricSource, now: datetime) -> ArmRequest:
    return ArmRequest(
        permission=PERMISSION,
        path=f"{space.id}/providers/Microsoft.Insights/metrics",
        query=single_query_params(QUERY, _window(now)),
        required_keys=("value",),
    )


def _host(region: str) -> str:
    return (hosts_from_env(os.environ).metrics or "the batch metrics host").replace("{region}", region)
