"""SageMaker inference endpoints: real-time with any number of variants, asynchronous, serverless, and hosts of inference components.

Metrics and their dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Asynchronous endpoints publish no Invocations: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, metrics, sagemaker, tags
from reaper.aws.kinds.sagemaker_endpoint import blocked, description, look
from reaper.aws.kinds.sagemaker_endpoint.blocked import CHANGING_STATUSES, STEADY_STATUSES, EndpointDetails
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription
from reaper.aws.kinds.sagemaker_endpoint.look import CloserLook
from reaper.aws.metrics import MetricQuery, MetricResult
from reaper.errors import CloudError
from reaper.evidence import is_recent, last_used
from reaper.kind import Kind
from reaper.model import Resource, StepName
from reaper.observation import CachedDescription, IndirectEvidence, Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


NAME = "sagemaker-endpoint"


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every endpoint of the region, whatever its state."""
    rows = list(cloud.paged_rows("sagemaker", "ListEndpoints", "Endpoints", MaxResults=100))
    by_arn = tags.tags_by_arn(cloud, "sagemaker:endpoint") if rows else {}

    def parse(row: Mapping[str, Any]) -> Resource:
        return resource_from_row(cloud, {"EndpointName": None, **row}, tags.tags_of(by_arn, row["EndpointArn"]))

    return cloud.each("sagemaker:ListEndpoints", rows, parse)


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], own_tags: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    return sagemaker.listed_resource(cloud, "Endpoint", row, own_tags, NAME)


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk, but of those known from an earlier sweep. Only silent endpoints are described, and then every signal that could
    show their use is read.
    """
    unknown = [r for r in resources if r.id not in window.known]
    variants = _recent_variants(cloud) if unknown else {}
    queries = {
        r.id: look.traffic_queries(r.name, variants.get(r.name, ())) for r in unknown if r.status not in {"Creating", "Deleting"}
    }
    traffic = metrics.fetch_first_look(cloud, [(r, queries.get(r.id, ())) for r in unknown], window)
    silent = []
    for resource in resources:
        readings = window.known.get(resource.id) or _to_readings(queries.get(resource.id, {}), traffic)
        observation = Observation(resource=resource, readings=readings)
        if settled := _settled_without_look(observation, window):
            yield settled
        else:
            silent.append(observation)
    del queries, traffic  # the closer look needs the memory
    yield from _observe_silent(cloud, silent, window)


def _observe_silent(cloud: CloudSession, silent: Sequence[Observation], window: Window) -> Iterator[Observation]:
    """Each described, with its components, and all their signals in bulk, unless what it runs shows that no rule can call it idle."""
    cached = window.read_cached([one.resource.id for one in silent]) if silent else {}
    described: list[CloserLook] = []
    for closer in cloud.map_concurrently(lambda one: _look_closer(cloud, one, cached.get(one.resource.id), window), silent):
        if isinstance(closer, Observation):
            yield closer
        else:
            described.append(closer)
    looks = look.with_endpoint_details(cloud, look.with_component_queries(cloud, described), window)
    results = metrics.fetch_metrics(cloud, [query for one in looks for query in one.queries], window)
    for one in looks:
        yield _to_observation(one, _to_readings(one.queries, results), window)


def _settled_without_look(observation: Observation, window: Window) -> Observation | None:
    """What needs no description: in use or so new that no rule can call it idle, or in a status that decides."""
    status = observation.resource.status
    if status == "Deleting":
        return replace(observation, free_because="it is being deleted")
    if status in CHANGING_STATUSES:
        return replace(observation, changing_because=f"its status is {status}")
    if is_recent(observation, window):
        return replace(observation, unknown_because="it was used or changed too recently for a closer look")
    return None


def _recent_variants(cloud: CloudSession) -> dict[str, list[str]]:
    """Variants by endpoint that ran within two weeks, from the heartbeat's own dimensions: 500 a call instead of a description each."""
    variants: dict[str, list[str]] = {}
    series = metrics.published_dimensions(cloud, look.INSTANCE_NAMESPACE, "CPUUtilization")
    for pairs in cloud.read_or_none("cloudwatch:ListMetrics", lambda: list(series)) or ():
        if pairs.keys() == {"EndpointName", "VariantName"}:
            variants.setdefault(pairs["EndpointName"], []).append(pairs["VariantName"])
    return variants


def _look_closer(
    cloud: CloudSession, observation: Observation, cached: CachedDescription | None, window: Window
) -> CloserLook | Observation:
    resource = observation.resource
    described = cloud.attempt("sagemaker:DescribeEndpoint", lambda: _described(cloud, resource, cached), may_be_gone=True)
    if isinstance(described, CloudError):
        return CloserLook(resource=resource, unknown_because=f"it couldn't be described: {described}")
    return _settled_as_described(observation, described, window) or described


def _settled_as_described(observation: Observation, closer: CloserLook, window: Window) -> Observation | None:
    """The observation of what was used within the `idle_after` of the rule for what it turned out to run: no other signal can make it idle.

    None for what has signals of another sort, or isn't steady.
    """
    endpoint, used = closer.described, last_used(observation)
    if used is None or endpoint is None or endpoint.status != description.STEADY_STATUS:
        return None
    recent = None if endpoint.may_host_components or endpoint.is_asynchronous else window.recent_since_of(closer.resource)
    return (
        replace(observation, resource=closer.resource, to_cache=closer.to_cache)
        if recent and used > recent.under_some_rule
        else None
    )


def _described(cloud: CloudSession, resource: Resource, cached: CachedDescription | None) -> CloserLook:
    endpoint = description.describe_endpoint(cloud, resource.name, lambda row: description.cached_types(resource, cached, row))
    described = replace(
        resource,
        status=endpoint.status,
        changed=endpoint.reply.get("LastModifiedTime") or resource.changed,
        parts=description.billed_parts(endpoint),
        size=description.size_text(endpoint),
    )
    to_cache = description.description_to_cache(resource, endpoint)
    return CloserLook(resource=described, described=endpoint, to_cache=to_cache)


def _to_readings(queries: look.Queries, results: Mapping[MetricQuery, MetricResult]) -> tuple[Reading, ...]:
    return tuple(
        Reading(signal=signal, role=role, subject=subject, series=results[query].series, complete=results[query].complete)
        for query, (role, signal, subject) in queries.items()
    )


def _to_observation(closer: CloserLook, readings: tuple[Reading, ...], window: Window) -> Observation:
    observation = Observation(
        resource=closer.resource, readings=readings, unknown_because=closer.unknown_because, to_cache=closer.to_cache
    )
    endpoint, status = closer.described, closer.resource.status
    if endpoint is None:
        return observation
    if status == "Deleting":
        return replace(observation, free_because="it is being deleted")
    if status in CHANGING_STATUSES or closer.changing_because:
        return replace(observation, changing_because=closer.changing_because or f"its status is {status}")
    if closer.unknown_because:
        return observation
    if status not in STEADY_STATUSES:
        return replace(observation, unknown_because=f"this version doesn't recognize its status {status}")
    if not endpoint.variants and status != "Failed":
        return replace(observation, unknown_because=f"its status is {status}, but its description lists no variants")
    return _with_idle_cost(observation, endpoint, window)


def _with_idle_cost(observation: Observation, endpoint: EndpointDescription, window: Window) -> Observation:
    """Serverless and scaled-in endpoints cost nothing while idle, except for provisioned concurrency."""
    if any(v.serverless and v.serverless.get("ProvisionedConcurrency") for v in endpoint.variants):
        because = "no invocations, but provisioned concurrency is billed; serverless endpoints publish no heartbeat"
        return replace(observation, indirect_evidence=IndirectEvidence(since=window.start, because=because))
    if endpoint.variants and all(v.serverless for v in endpoint.variants):
        return replace(observation, free_because="it is serverless and costs nothing while idle")
    if not any(v.instance_count for v in endpoint.variants):
        because = f"its status is {endpoint.status} and it runs no instances, so it costs nothing"
        return replace(observation, free_because=because)
    return observation


def console_url(resource: Resource) -> str | None:
    """Its page in the SageMaker console."""
    return sagemaker.console_url(resource, "endpoints", resource.name)


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker endpoint",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    permissions=(
        "sagemaker:ListEndpoints",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:ListInferenceComponents",
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:ListModels",
        tags.PERMISSION,
        *metrics.PERMISSIONS,
        *autoscaling.PERMISSIONS,
    ),
    activity="Invocations of every production and shadow variant and of every inference component it hosts; asynchronous: backlog, "
    "processed and failed invocations, model latency",
    heartbeat="CPUUtilization samples of every variant that runs instances",
    without_proof="unknown; exempt without instances or if serverless; likely for silent provisioned concurrency; a host without inference "
    "components is judged by its heartbeat alone, from its last change",
    discover=discover,
    observe=observe,
    blocked_actions=blocked.blocked_actions,
    parts_after=blocked.parts_after,
    parts_anyway=blocked.parts_anyway,
    actions=blocked.ACTION_SPECS,
    details=EndpointDetails,
    commands={StepName.STOP: blocked.scale_in_command, StepName.DELETE: blocked.delete_command},
    console_url=console_url,
    keep_line=sagemaker.keep_line,
    price_keys=("Hosting", "AsyncInf", "ServerlessProvisionedConcurrency"),
    spares_known=True,
)
