"""SageMaker inference components: models that share the instances of one endpoint, each with copies of its own.

Metrics by component: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Adapters run inside their base component, so their traffic is the base's too:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, metrics, sagemaker, tags
from reaper.aws.kinds.sagemaker_inference_component import blocked
from reaper.aws.kinds.sagemaker_inference_component.blocked import (
    CHANGING_STATUSES,
    STEADY_STATUSES,
    ComponentDetails,
    details_of,
)
from reaper.aws.metrics import MetricQuery, MetricResult
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, last_used, merge_heartbeats
from reaper.kind import Kind
from reaper.model import Resource, Role, StepName
from reaper.observation import Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


NAME = "sagemaker-inference-component"
REQUIRED_KEYS = ("InferenceComponentName", "InferenceComponentArn", "EndpointName")
ACTIVITY_METRICS = ("Invocations", "NoCapacityInvocationFailures")
RESERVED_UNITS = ("NumberOfAcceleratorDevicesRequired", "MinMemoryRequiredInMb")
"""What a copy reserves of an instance: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentComputeResourceRequirements.html"""
HEARTBEAT_METRICS = ("CPUUtilizationNormalized", "GPUUtilizationNormalized")
DescriptionOrError = dict[str, Any] | CloudError


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every component of the region. Its endpoint's tags are its own too, unless it has others.

    A component that can't be placed fails them all: it may be an adapter of any other.
    """
    rows = list_rows(cloud, *REQUIRED_KEYS[1:])
    tags_by_arn = tags.tags_by_arn(cloud, "sagemaker:inference-component", "sagemaker:endpoint") if rows else {}
    for row in rows:
        own_tags = tags.tags_of(tags_by_arn, row["InferenceComponentArn"], endpoint_arn(cloud, row))
        yield resource_from_row(cloud, {REQUIRED_KEYS[0]: None, **row}, own_tags)


def list_rows(cloud: CloudSession, *has: str, **filters: Any) -> list[dict[str, Any]]:
    """The rows of all components, or of those that match. Raises CloudError, also for a row without the keys `has`."""
    operation, want = "ListInferenceComponents", "InferenceComponents"
    return list(cloud.paged_rows("sagemaker", operation, want, *has, MaxResults=100, **filters))


def endpoint_arn(cloud: CloudSession, row: Mapping[str, Any]) -> str:
    """The ARN of the endpoint that it runs on, in the case of its name; replies have it lower-cased."""
    return f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:endpoint/{row['EndpointName']}"


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], own_tags: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    listed = sagemaker.listed_resource(cloud, "InferenceComponent", row, own_tags, NAME)
    details = ComponentDetails(endpoint_name=row["EndpointName"])
    return replace(listed, details=details, host_id=endpoint_arn(cloud, row))


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk, but of those known from an earlier sweep; a description of every component on an endpoint that has a silent one.

    A component that was read alone brings its siblings, the others of its endpoint: adapters among them are part of it.
    """
    names = {r.name for r in resources}
    every = [*resources, *(s for r in resources for s in details_of(r).siblings if s.name not in names)]
    observations = {r.name: Observation(resource=r, readings=window.known.get(r.id, ())) for r in every}
    observations |= _first_looks(cloud, [r for r in every if r.id not in window.known], window)
    settled = {*CHANGING_STATUSES, "Deleting"}
    silent = {name for name, o in observations.items() if o.resource.status not in settled and not is_recent(o, window)}
    endpoints = {details_of(observations[name].resource).endpoint_name for name in silent}
    # The rule of the silent one may be shorter than that of an adapter, whose last use counts for it.
    in_use = [r for r in every if window.known.get(r.id) and details_of(r).endpoint_name in endpoints]
    observations |= _first_looks(cloud, in_use, window)
    whole = [query for name in silent for query in (*_traffic_queries(name), *_heartbeat_queries(name))]
    results = metrics.fetch_metrics(cloud, whole, window)
    observations |= {name: replace(observations[name], readings=_all_readings(name, results)) for name in silent}
    described = _describe_hosted(cloud, every, endpoints)
    closer = [
        _to_observation(observation, described, observations) if name in silent else _observation_without_look(observation)
        for name, observation in observations.items()
        if name in names
    ]
    yield from _with_region_facts(cloud, closer)


def _first_looks(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> dict[str, Observation]:
    """The recent traffic of these, by name."""
    queries = {r.name: _traffic_queries(r.name) for r in resources}
    first = metrics.fetch_first_look(cloud, [(r, queries[r.name]) for r in resources], window)
    return {
        r.name: Observation(resource=r, readings=tuple(_to_readings(queries[r.name], first, Role.ACTIVITY))) for r in resources
    }


def _describe_hosted(cloud: CloudSession, resources: Sequence[Resource], endpoints: set[str]) -> dict[str, DescriptionOrError]:
    """The descriptions of all components on these endpoints, by name."""
    names = [r.name for r in resources if details_of(r).endpoint_name in endpoints]
    return dict(zip(names, cloud.map_concurrently(lambda name: describe(cloud, name), names), strict=True))


def describe(cloud: CloudSession, name: str) -> DescriptionOrError:
    """Its description, or why it can't be read, which is noted unless it is gone."""
    return cloud.describe("DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def _with_region_facts(cloud: CloudSession, observations: Sequence[Observation]) -> Iterator[Observation]:
    """With what is read once for the region: what would wake each from zero, and whether its models still exist."""
    details = [details_of(observation.resource) for observation in observations]
    runs = any(d.copies and not o.free_because and not o.unknown_because for d, o in zip(details, observations, strict=True))
    scaling = autoscaling.read_autoscaling_or_none(cloud) if runs else None
    deleted = sagemaker.deleted_models(cloud, {name for d in details for name in d.models})
    for observation, known in zip(observations, details, strict=True):
        can_wake = scaling and autoscaling.can_wake_component(scaling, observation.resource.name)
        because = sagemaker.missing_model_because(known.models, deleted) or known.unrestorable_because
        yield _with_details(observation, can_wake=can_wake, unrestorable_because=because)


def _traffic_queries(name: str) -> list[MetricQuery]:
    return [metrics.query("AWS/SageMaker", metric, "Sum", InferenceComponentName=name) for metric in ACTIVITY_METRICS]


def _heartbeat_queries(name: str) -> list[MetricQuery]:
    namespace = "/aws/sagemaker/InferenceComponents"
    return [metrics.query(namespace, metric, "SampleCount", InferenceComponentName=name) for metric in HEARTBEAT_METRICS]


def _to_readings(queries: Sequence[MetricQuery], results: Mapping[MetricQuery, MetricResult], role: Role) -> list[Reading]:
    answers = [(query.metric, results[query]) for query in queries]
    return [Reading(signal=name, role=role, series=answer.series, complete=answer.complete) for name, answer in answers]


def _all_readings(name: str, results: Mapping[MetricQuery, MetricResult]) -> tuple[Reading, ...]:
    """Its traffic and one heartbeat: either of the two metrics will do."""
    traffic = _to_readings(_traffic_queries(name), results, Role.ACTIVITY)
    return (*traffic, merge_heartbeats(*_to_readings(_heartbeat_queries(name), results, Role.HEARTBEAT)))


def _observation_without_look(observation: Observation) -> Observation:
    settled = _settled_by_status(_without_siblings(observation))
    return settled or replace(observation, unknown_because="it was used or changed too recently for a closer look")


def _settled_by_status(observation: Observation) -> Observation | None:
    """What its status alone decides; None for a status in which silence can be judged."""
    status = observation.resource.status
    if status == "Deleting":
        return replace(observation, free_because="it is being deleted")
    if status in CHANGING_STATUSES:
        return replace(observation, changing_because=f"its status is {status}")
    if status in STEADY_STATUSES:
        return None
    return replace(observation, unknown_because=f"this version doesn't recognize its status {status or '(none)'}")


def _to_observation(
    observation: Observation,
    described: Mapping[str, DescriptionOrError],
    observations: Mapping[str, Observation],
) -> Observation:
    row = described[observation.resource.name]
    if isinstance(row, CloudError):
        return replace(_without_siblings(observation), unknown_because=f"it couldn't be described: {row}")
    observation = _with_description(observation, row)
    details = details_of(observation.resource)
    if settled := _settled_by_status(observation):
        return settled
    if details.base_component:
        because = f"it is an adapter inside {details.base_component} and takes no capacity of its own"
        return replace(observation, free_because=because)
    if details.copies == 0:
        return replace(observation, free_because="it runs no copies right now")
    size = f"{details.copies} {'copy' if details.copies == 1 else 'copies'}" if details.copies else ""
    share = _host_share(observation.resource, described, observations)
    sized = replace(observation, resource=replace(observation.resource, size=size, host_share=share))
    return _with_adapters(sized, described, observations)


def _host_share(
    resource: Resource, described: Mapping[str, DescriptionOrError], observations: Mapping[str, Observation]
) -> float | None:
    """Its share of what all components of its endpoint reserve: of accelerators if each reserves some, else of memory. None if a description is
    missing, or if they run on several variants, which cost differently.
    """
    names = [resource.name, *(other.resource.name for other in _hosted_with(resource, observations))]
    read = {name: row for name in names if (row := described.get(name)) is not None and not isinstance(row, CloudError)}
    known = {name: row for name, row in read.items() if not base_component(row) and _copies(row) != 0}
    if len(read) < len(names) or len({row.get("VariantName") for row in known.values()}) > 1:
        return None
    for unit in RESERVED_UNITS:
        reserved = {name: _reserved(row, unit) for name, row in known.items()}
        if all(reserved.values()):
            return float(reserved[resource.name]) / sum(reserved.values())
    return None


def _reserved(row: Mapping[str, Any], unit: str) -> float:
    """How much its copies reserve together; 0 if that isn't known."""
    needs = (row.get("Specification") or {}).get("ComputeResourceRequirements") or {}
    return float(needs.get(unit) or 0) * (_copies(row) or 0)


def _copies(row: Mapping[str, Any]) -> int | None:
    count: int | None = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount")
    return count


def _with_description(observation: Observation, row: Mapping[str, Any]) -> Observation:
    """With its status and last change of this moment, because the list may be minutes old, and what it is made of."""
    resource = observation.resource
    times = [t for t in (resource.changed, row.get("LastModifiedTime")) if t]
    current = replace(
        resource,
        status=str(row.get("InferenceComponentStatus") or resource.status),
        changed=max(times, default=None),
        details=ComponentDetails(
            endpoint_name=details_of(resource).endpoint_name,
            is_described=True,
            copies=_copies(row),
            base_component=base_component(row),
            models=tuple(sorted(sagemaker.model_names(row))),
            unrestorable_because=blocked.component_unrestorable_because(row),
        ),
    )
    return replace(observation, resource=current)


def _with_details(observation: Observation, **changes: Any) -> Observation:
    resource = observation.resource
    return replace(observation, resource=replace(resource, details=replace(details_of(resource), **changes)))


def _without_siblings(observation: Observation) -> Observation:
    return _with_details(observation, siblings=())


def _with_adapters(
    observation: Observation,
    described: Mapping[str, DescriptionOrError],
    observations: Mapping[str, Observation],
) -> Observation:
    """The traffic of its adapters is its own, and it is as young as the youngest of them."""
    resource, readings = observation.resource, list(observation.readings)
    adapters: list[Resource] = []
    for other in _hosted_with(resource, observations):
        row = described.get(other.resource.name)
        if isinstance(row, CloudError) and row.reason is Reason.GONE:
            # A deleted component is no adapter. If it was one until a moment ago, its use still counts.
            readings += _traffic_readings(other, "deleted component") if last_used(other) else ()
        elif isinstance(row, CloudError):
            return replace(observation, unknown_because=f"whether {other.resource.name} is an adapter of it couldn't be read")
        elif row is not None and base_component(row) == resource.name:
            adapters.append(other.resource)
            readings += _traffic_readings(other, "adapter")
    times = [t for t in (resource.changed, *(t for a in adapters for t in (a.created, a.changed))) if t]
    details = replace(details_of(resource), adapters=tuple(adapter.name for adapter in adapters))
    whole = replace(resource, changed=max(times, default=None), details=details)
    return replace(observation, resource=whole, readings=tuple(readings))


def _hosted_with(resource: Resource, observations: Mapping[str, Observation]) -> list[Observation]:
    """The other components of its endpoint."""
    endpoint = details_of(resource).endpoint_name
    others = [o for o in observations.values() if o.resource.name != resource.name]
    return [o for o in others if details_of(o.resource).endpoint_name == endpoint]


def _traffic_readings(observation: Observation, what: str) -> list[Reading]:
    name = observation.resource.name
    return [replace(r, signal=f"{r.signal} of {what} {name}") for r in observation.readings if r.role is Role.ACTIVITY]


def base_component(row: Mapping[str, Any]) -> str | None:
    """The component that this one is an adapter of. A reply has `Specification` or `Specifications`, never both."""
    specs = [row.get("Specification"), *(row.get("Specifications") or ())]
    return next((str(s["BaseInferenceComponentName"]) for s in specs if s and s.get("BaseInferenceComponentName")), None)


def console_url(resource: Resource) -> str | None:
    """The page of its endpoint: the SageMaker console has none of a component alone."""
    return sagemaker.console_url(resource, "endpoints", details_of(resource).endpoint_name)


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
    without_proof="unknown; exempt with no copies. Its endpoint's price includes it, so it has none of its own, only a share of that",
    discover=discover,
    observe=observe,
    blocked_actions=blocked.blocked_actions,
    actions=blocked.ACTION_SPECS,
    details=ComponentDetails,
    commands={StepName.STOP: blocked.remove_copies_command},
    console_url=console_url,
    keep_line=sagemaker.keep_line,
    has_price=False,
    host="sagemaker-endpoint",
    spares_known=True,
)
