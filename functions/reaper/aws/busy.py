"""The `Busy` signal that our own script publishes from inside a notebook or app: 1 while a kernel, terminal job, CPU or GPU works, else 0.

Namespace `MLIdleReaper`, dimension `Resource` = the ARN. Its points are activity and heartbeat in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.aws import metrics
from reaper.aws.metrics import MetricQuery
from reaper.errors import CloudError
from reaper.evidence import is_recent, point_count
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAMESPACE, METRIC, DIMENSION = "MLIdleReaper", "Busy", "Resource"


def busy_readings(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, tuple[Reading, ...]]:
    """Busy as activity and as heartbeat, by resource id. Without any point both are empty: it isn't published there.

    The whole window is only read of what the first look leaves open.
    """
    spelled = _published_arns(cloud) if resources else {}
    queries_by_id = {r.id: [_busy_query(arn) for arn in (spelled or {}).get(r.id.lower(), [r.id])] for r in resources}
    first = metrics.fetch_first_look(cloud, [(r, queries_by_id[r.id]) for r in resources], window)
    observations = [
        Observation(resource=r, readings=tuple(_activity_and_heartbeat(first[q])[0] for q in queries_by_id[r.id]))
        for r in resources
    ]
    silent = [observation.resource.id for observation in observations if not is_recent(observation, window)]
    results = first | metrics.fetch_metrics(cloud, [q for id_ in silent for q in queries_by_id[id_]], window)
    readings = {
        id_: tuple(r for q in queries for r in _activity_and_heartbeat(results[q])) for id_, queries in queries_by_id.items()
    }
    return readings if spelled is not None else {id_: _with_doubt(pairs) for id_, pairs in readings.items()}


def _with_doubt(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """Without a list of what is published, a series that seems empty may be there under another spelling."""
    return tuple(replace(r, complete=r.complete and point_count(r) > 0) for r in readings)


def _activity_and_heartbeat(answer: metrics.MetricResult) -> tuple[Reading, Reading]:
    activity = Reading(signal=METRIC, role=Role.ACTIVITY, series=answer.series, complete=answer.complete)
    below_any = float("-inf")
    heart = Reading(
        signal="Busy points", role=Role.HEARTBEAT, series=answer.series, complete=answer.complete, busy_above=below_any
    )
    return activity, heart


def _busy_query(arn: str) -> MetricQuery:
    return MetricQuery(namespace=NAMESPACE, metric=METRIC, stat="Maximum", dimensions=((DIMENSION, arn),))


def _published_arns(cloud: CloudSession) -> dict[str, list[str]] | None:
    """The ARNs as published, by lower-cased ARN: SageMaker spells one ARN in several cases, CloudWatch tells them apart.

    None, and noted, when they can't be listed.
    """
    arns: dict[str, list[str]] = {}
    try:
        for pairs in metrics.published_dimensions(cloud, NAMESPACE, METRIC):
            if DIMENSION in pairs and len(pairs) == 1:
                arns.setdefault(pairs[DIMENSION].lower(), []).append(pairs[DIMENSION])
    except CloudError as error:
        cloud.add_error(error)
        return None
    return arns
