"""SageMaker inference components: models that share the instances of one endpoint, each with copies of its own.

Metrics by component: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Adapters run inside their base component, so their traffic is the base's too:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, component_actions, metrics, protection, restorable, tags
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.metrics import MetricQuery, MetricResult
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, last_used, merge_heartbeats
from reaper.kind import Kind
from reaper.model import Observation, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAME = "sagemaker-inference-component"
REQUIRED_KEYS = ("InferenceComponentName", "InferenceComponentArn", "EndpointName")
CHANGING_STATUSES = {"Creating", "Updating"}
STEADY_STATUSES = {"InService", "Failed"}
ACTIVITY_METRICS = (("Invocations", "Sum"), ("NoCapacityInvocationFailures", "Sum"))
DescriptionOrError = dict[str, Any] | CloudError
HEARTBEAT_METRICS = ("CPUUtilizationNormalized", "GPUUtilizationNormalized")


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every component of the region. Its endpoint's tags are its own too, where it has no others.

    One that cannot be placed fails them all: it may be an adapter of any other.
    """
    rows = list(
        cloud.paged_rows("sagemaker", "ListInferenceComponents", "InferenceComponents", *REQUIRED_KEYS[1:], MaxResults=100)
    )
    found = tags.tags_by_arn(cloud, "inference-component", "endpoint") if rows else {}
    for row in rows:
        yield resource_from_row(
            cloud, {REQUIRED_KEYS[0]: None, **row}, tags.tags_of(found, row["InferenceComponentArn"], endpoint_arn(cloud, row))
        )


def endpoint_arn(cloud: CloudSession, row: Mapping[str, Any]) -> str:
    """The ARN of the endpoint that it runs on, in the case of its name; replies have it lower-cased."""
    return f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:endpoint/{row['EndpointName']}"


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    return Resource(
        kind=NAME,
        id=row["InferenceComponentArn"],
        name=row["InferenceComponentName"],
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        changed=row.get("LastModifiedTime"),
        status=row.get("InferenceComponentStatus", ""),
        tags=found,
        facts={"endpoint": row["EndpointName"], "host": endpoint_arn(cloud, row)},
    )


def contained_resource(
    cloud: CloudSession, row: Mapping[str, Any], own: Mapping[str, str] | None, hosts: Mapping[str, str] | None
) -> Resource:
    """The same as part of an endpoint: with its own tags over those of its host; None where either could not be read."""
    return resource_from_row(cloud, row, None if own is None or hosts is None else {**hosts, **own})


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; a description of every component on an endpoint where one was silent.

    One that was looked at alone brings the others of its endpoint along in its facts: adapters among them are part of it.
    """
    asked_for = {r.name for r in resources}
    resources = [*resources, *(s for r in resources for s in r.facts.get("siblings", ()) if s.name not in asked_for)]
    first = metrics.fetch_first_look(cloud, [(r, _metric_queries(r.name)[: len(ACTIVITY_METRICS)]) for r in resources], window)
    seen = {r.name: Observation(resource=r, readings=_to_readings(r.name, first)) for r in resources}
    silent = {name for name, one in seen.items() if not _needs_no_look(one, window)}
    answers = metrics.fetch_metrics(cloud, [q for name in silent for q in _metric_queries(name)], window)
    seen |= {name: replace(seen[name], readings=_to_readings(name, answers)) for name in silent}
    hosts = {seen[name].resource.facts["endpoint"] for name in silent}
    asked = [r for r in resources if r.facts["endpoint"] in hosts]
    described = dict(
        zip([r.name for r in asked], cloud.map_concurrently(lambda r: _describe_or_error(cloud, r), asked), strict=True)
    )
    found = [
        _to_observation(one, described, seen, window) if name in silent else _observation_without_look(one)
        for name, one in seen.items()
        if name in asked_for
    ]
    runs = any(one.resource.facts.get("copies") and not one.free_because and not one.unknown_because for one in found)
    read = autoscaling.read_autoscaling_or_none(cloud) if runs else None
    gone = restorable.deleted_models(cloud, {name for one in found for name in one.resource.facts.get("models", ())})
    yield from (_with_missing_model(_with_can_wake(one, read), gone) for one in found)


def _metric_queries(name: str) -> list[MetricQuery]:
    pair = (("InferenceComponentName", name),)
    traffic = [
        MetricQuery(namespace="AWS/SageMaker", metric=metric, stat=stat, dimensions=pair) for metric, stat in ACTIVITY_METRICS
    ]
    hearts = [
        MetricQuery(namespace="/aws/sagemaker/InferenceComponents", metric=m, stat="SampleCount", dimensions=pair)
        for m in HEARTBEAT_METRICS
    ]
    return traffic + hearts


def _to_readings(name: str, answers: dict[MetricQuery, MetricResult]) -> tuple[Reading, ...]:
    found = [(query.metric, answers[query]) for query in _metric_queries(name) if query in answers]
    traffic = [
        Reading(signal=m, role=Role.ACTIVITY, series=a.series, complete=a.complete) for m, a in found[: len(ACTIVITY_METRICS)]
    ]
    hearts = [
        Reading(signal=m, role=Role.HEARTBEAT, series=a.series, complete=a.complete) for m, a in found[len(ACTIVITY_METRICS) :]
    ]
    return (*traffic, merge_heartbeats(*hearts)) if hearts else tuple(traffic)


def _needs_no_look(seen: Observation, window: Window) -> bool:
    return seen.resource.status in {*CHANGING_STATUSES, "Deleting"} or is_recent(seen, window)


def _observation_without_look(seen: Observation) -> Observation:
    return _judged_by_status(seen) or replace(seen, unknown_because="it was used or changed too recently for a closer look")


def _judged_by_status(seen: Observation) -> Observation | None:
    """What its status says by itself; None for one in which silence can be judged."""
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free_because="it is being deleted")
    if status in CHANGING_STATUSES:
        return replace(seen, changing_because=f"its status is {status}")
    return (
        None
        if status in STEADY_STATUSES
        else replace(seen, unknown_because=f"its status is {status or 'missing'}, which we do not know")
    )


def _describe_or_error(cloud: CloudSession, resource: Resource) -> DescriptionOrError:
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=resource.name)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            cloud.add_error(error)
        return error


def _to_observation(
    seen: Observation, described: Mapping[str, DescriptionOrError], all_seen: Mapping[str, Observation], window: Window
) -> Observation:
    row = described[seen.resource.name]
    if isinstance(row, CloudError):
        return replace(seen, unknown_because=f"it could not be described: {row}")
    seen = _with_current_status(seen, row)
    copies, base = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount"), _base_component(row)
    seen = _with_facts(
        seen,
        copies=copies,
        base=base,
        lost=restorable.component_unrestorable_because(row),
        models=tuple(sorted(restorable.model_names(row))),
    )
    if odd := _judged_by_status(seen):
        return odd
    if base:
        return replace(seen, free_because=f"it is an adapter inside {base} and takes no capacity of its own")
    if copies == 0:
        return replace(seen, free_because="it runs no copies right now")
    size = f"{copies} {'copy' if copies == 1 else 'copies'}" if copies else ""
    return _with_adapters(replace(seen, resource=replace(seen.resource, size=size)), described, all_seen, window)


def _with_current_status(seen: Observation, row: Mapping[str, Any]) -> Observation:
    """With its status and last change of this moment; the list may be minutes old."""
    known = seen.resource
    status = str(row.get("InferenceComponentStatus") or known.status)
    times = [t for t in (known.changed, row.get("LastModifiedTime")) if t]
    return replace(seen, resource=replace(known, status=status, changed=max(times, default=None)))


def _with_facts(seen: Observation, **facts: Any) -> Observation:
    return replace(seen, resource=replace(seen.resource, facts={**seen.resource.facts, **facts}))


def _with_can_wake(seen: Observation, read: Autoscaling | None) -> Observation:
    wakes = None if read is None else autoscaling.can_wake_component(read, seen.resource.name)
    return _with_facts(seen, wakes=wakes)


def _with_missing_model(seen: Observation, gone: Collection[str]) -> Observation:
    because = restorable.missing_model_because(seen.resource.facts.get("models", ()), gone)
    return _with_facts(seen, lost=because) if because else seen


def _with_adapters(
    seen: Observation, described: Mapping[str, DescriptionOrError], all_seen: Mapping[str, Observation], window: Window
) -> Observation:
    """The traffic of its adapters is its own, it is as young as the youngest of them, and their own tags forbid what would end them."""
    resource, extra = seen.resource, list(seen.readings)
    within: list[Resource] = []
    for one in all_seen.values():
        other = described.get(one.resource.name)
        if one.resource.facts["endpoint"] != resource.facts["endpoint"] or other is None or one.resource.name == resource.name:
            continue
        if isinstance(other, CloudError) and other.reason is Reason.GONE:
            # What has been deleted is an adapter of nothing. Of what may have been one until a moment ago, the use still counts.
            extra += _traffic_readings(one, "deleted component") if last_used(one) else ()
            continue
        if isinstance(other, CloudError):
            return replace(seen, unknown_because=f"whether {one.resource.name} is an adapter of it could not be read")
        if _base_component(other) == resource.name:
            within.append(one.resource)
            extra += _traffic_readings(one, "adapter")
            times = [t for t in (resource.changed, one.resource.created, one.resource.changed) if t]
            resource = replace(resource, changed=max(times, default=None))
    seen = replace(seen, resource=resource, readings=tuple(extra))
    held = {one.name: one.tags for one in within}
    return _with_facts(seen, adapters=tuple(held), within=tuple(within), kept=protection.protected_inside(held, window.end))


def _traffic_readings(seen: Observation, what: str) -> list[Reading]:
    return [replace(r, signal=f"{r.signal} of {what} {seen.resource.name}") for r in seen.readings if r.role is Role.ACTIVITY]


def _base_component(row: Mapping[str, Any]) -> str | None:
    """The component that this one is an adapter of. A reply has `Specification` or `Specifications`, never both."""
    specs = [row.get("Specification"), *(row.get("Specifications") or ())]
    return next((str(s["BaseInferenceComponentName"]) for s in specs if s and s.get("BaseInferenceComponentName")), None)


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker inference component",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    permissions=(
        "sagemaker:ListInferenceComponents",
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:ListModels",
        tags.PERMISSION,
        *metrics.PERMISSIONS,
        *autoscaling.PERMISSIONS,
    ),
    activity="Invocations by InferenceComponentName, its adapters' included; NoCapacityInvocationFailures",
    heartbeat="CPUUtilizationNormalized or GPUUtilizationNormalized samples in /aws/sagemaker/InferenceComponents, same dimension",
    without_proof="unknown; exempt with no copies. Its money is its endpoint's, so it has no price of its own",
    discover=discover,
    observe=observe,
    blocked_actions=component_actions.blocked_actions,
    actions=component_actions.ACTION_SPECS,
    has_price=False,
)
