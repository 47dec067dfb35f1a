"""Looks at endpoints: the traffic of all in bulk; of those that were silent their descriptions, the inference components they host, every metric of
both, and what could be done to them.

A host is as young as the youngest of its components, and changing or unknown while one of them is. What its list says may be minutes old, so
each component is described, too: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
Metrics: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING

from reaper.aws import autoscaling, metrics, sagemaker
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.kinds.sagemaker_endpoint import description
from reaper.aws.kinds.sagemaker_endpoint.description import (
    CHANGING_STATUSES,
    STEADY_STATUSES,
    EndpointDescription,
    needs_autoscaling,
)
from reaper.aws.metrics import MetricQuery
from reaper.aws.reader import Asked, Row
from reaper.errors import CloudError, Reason
from reaper.evidence import last_used
from reaper.kind import by_status, is_decided, status_rule
from reaper.model import Resource, Role
from reaper.observation import CachedDescription, IndirectEvidence, Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.reader import Batch
    from reaper.aws.session import CloudSession


STATES = (
    status_rule("free", {"Deleting"}, "it is being deleted"),
    status_rule("changing", CHANGING_STATUSES),
)
"""What a list shows. All other statuses are judged by a description, in `_to_observation`: a list may be minutes old."""
ComponentsByEndpoint = dict[str, list[Row]]
CHANGING_COMPONENT_STATUSES = {*CHANGING_STATUSES, "Deleting"}
KNOWN_COMPONENT_STATUSES = {*CHANGING_COMPONENT_STATUSES, *component.STEADY_STATUSES}
"""The statuses of a component. A changing one makes its host unsettled."""
TRAFFIC_NAMESPACE, INSTANCE_NAMESPACE = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
ASYNC_METRICS = ("InvocationsProcessed", "InvocationsProcesssed", "InvocationFailures", "ModelLatency")
"""AWS documents the first with three s; both spellings are asked for. Sums, since a metric may be published as zeros while at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloserLook:
    """One silent endpoint, read closely."""

    resource: Resource
    described: EndpointDescription
    unknown_because: str | None = None
    changing_because: str | None = None
    components: tuple[Row, ...] = ()
    to_cache: CachedDescription | None = None
    queries: tuple[MetricQuery, ...] = ()


def first_queries(resources: Sequence[Resource], batch: Batch) -> Asked:
    """The traffic of each variant that ran lately."""
    variants = _recent_variants(batch.cloud) if resources else {}
    named = {r.name: () if r.status in {"Creating", "Deleting"} else variants.get(r.name, ()) for r in resources}
    return [(r, [_traffic_query(r.name, variant) for variant in named[r.name]]) for r in resources]


def closer_look(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """Each described, with its components, and all their signals in bulk, unless what it runs shows that no rule can call it idle."""
    cloud, window = batch.cloud, batch.window
    cached = window.read_cached([one.resource.id for one in observations]) if observations else {}
    described: list[CloserLook] = []
    for closer in cloud.map_concurrently(lambda one: _look_closer(one, cached.get(one.resource.id), batch), observations):
        if isinstance(closer, Observation):
            yield closer
        else:
            described.append(closer)
    components = _components_by_endpoint(cloud, described)
    looks = _with_endpoint_details([_with_queries(look, components) for look in described], batch)
    results = metrics.fetch_metrics(cloud, [query for one in looks for query in one.queries], window)
    for one in looks:
        yield _to_observation(one, tuple(results[query] for query in one.queries), window)


def _recent_variants(cloud: CloudSession) -> dict[str, list[str]]:
    """Variants by endpoint that ran within two weeks, from the heartbeat's own dimensions: 500 a call instead of a description each."""
    variants: dict[str, list[str]] = {}
    series = metrics.published_dimensions(cloud, INSTANCE_NAMESPACE, "CPUUtilization")
    for pairs in cloud.read_or_none("cloudwatch:ListMetrics", lambda: list(series)) or ():
        if pairs.keys() == {"EndpointName", "VariantName"}:
            variants.setdefault(pairs["EndpointName"], []).append(pairs["VariantName"])
    return variants


def _look_closer(observation: Observation, cached: CachedDescription | None, batch: Batch) -> CloserLook | Observation:
    """The endpoint as described; or the observation of what was used within the `idle_after` of the rule for what it turned out to run, if no
    signal of another sort can make it idle.
    """
    resource = observation.resource
    read = partial(_described, batch.cloud, resource, cached)
    closer = batch.cloud.attempt("sagemaker:DescribeEndpoint", read, may_be_gone=True)
    if isinstance(closer, CloudError):
        return Observation(resource=resource, unknown_because=f"it couldn't be described: {closer}")
    endpoint, used = closer.described, last_used(observation)
    is_plain = not endpoint.may_host_components and not endpoint.is_asynchronous
    if not is_plain or used is None or endpoint.status != description.STEADY_STATUS:
        return closer
    recent = batch.window.recent_since_of(closer.resource)
    is_in_use = recent is not None and used > recent.under_some_rule
    return replace(observation, resource=closer.resource, to_cache=closer.to_cache) if is_in_use else closer


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


def _to_observation(closer: CloserLook, readings: tuple[Reading, ...], window: Window) -> Observation:
    """Its status decides before anything that couldn't be read, and serverless or scaled-in endpoints cost nothing while idle."""
    seen = Observation(resource=closer.resource, readings=readings, to_cache=closer.to_cache)
    endpoint, unknown = closer.described, closer.unknown_because
    seen = by_status(seen, STATES)
    if is_decided(seen):
        return seen
    if closer.changing_because or unknown:
        return replace(
            seen, changing_because=closer.changing_because, unknown_because=None if closer.changing_because else unknown
        )
    if closer.resource.status not in STEADY_STATUSES:
        return replace(seen, unknown_because=f"this version doesn't recognize its status {closer.resource.status}")
    if not endpoint.variants and endpoint.status != "Failed":
        return replace(seen, unknown_because=f"its status is {endpoint.status}, but its description lists no variants")
    if any(v.serverless and v.serverless.get("ProvisionedConcurrency") for v in endpoint.variants):
        because = "no invocations, but provisioned concurrency is billed; serverless endpoints publish no heartbeat"
        return replace(seen, indirect_evidence=IndirectEvidence(since=window.start, because=because))
    if endpoint.variants and all(v.serverless for v in endpoint.variants):
        return replace(seen, free_because="it is serverless and costs nothing while idle")
    if not any(v.instance_count for v in endpoint.variants):
        return replace(seen, free_because=f"its status is {endpoint.status} and it runs no instances, so it costs nothing")
    return seen


def _components_by_endpoint(cloud: CloudSession, looks: Sequence[CloserLook]) -> ComponentsByEndpoint | None:
    """Inference components by endpoint; None, and noted, when they can't be listed. They are, if an endpoint looks like a host, or any component of
    the region reported lately.
    """
    if not looks:
        return {}
    if not any(look.described.may_host_components for look in looks):
        series = metrics.published_dimensions(cloud, component.HEARTBEAT_NAMESPACE, component.HEARTBEAT_METRICS[0])
        if cloud.read_or_none("cloudwatch:ListMetrics", lambda: any(True for _ in series)) is False:
            return {}
    rows = cloud.read_or_none("sagemaker:ListInferenceComponents", lambda: component.list_rows(cloud, *component.REQUIRED_KEYS))
    if rows is None:
        return None
    components: ComponentsByEndpoint = {}
    for row in rows:
        components.setdefault(row["EndpointName"], []).append(row)
    return components


def _with_queries(look: CloserLook, components: ComponentsByEndpoint | None) -> CloserLook:
    """The look with the components it hosts and every metric to read, theirs included. An endpoint without components or a model of its own can
    serve nothing: its heartbeat alone proves it idle, since its last change.
    """
    endpoint = look.described
    if components is None and endpoint.may_host_components:
        return replace(look, unknown_because="whether it hosts inference components, and their traffic, couldn't be read")
    rows = (components or {}).get(look.resource.name, [])
    unclear = endpoint.may_host_components and not endpoint.hosts_components_only
    if not rows and unclear and any(variant.instance_count for variant in endpoint.variants):
        because = "it may host inference components but has none now, and whether it has models of its own couldn't be read"
        return replace(look, unknown_because=because)
    queries = _all_queries(look.resource.name, endpoint, [row[component.NAME_KEY] for row in rows])
    return _with_component_changes(replace(look, queries=queries, components=tuple(rows)), rows)


def _with_component_changes(look: CloserLook, rows: Sequence[Row]) -> CloserLook:
    """The look with what the list, or the descriptions, say of its components: when they changed, and whether one is changing now."""
    times = [look.resource.changed, *(row.get(key) for row in rows for key in ("CreationTime", "LastModifiedTime"))]
    statuses = {row[component.NAME_KEY]: str(row.get("InferenceComponentStatus", "")) for row in rows}
    changing = [f"its component {name} is {s}" for name, s in statuses.items() if s in CHANGING_COMPONENT_STATUSES]
    unknown = [
        f"this version doesn't recognize the status {status} of its component {name}"
        for name, status in statuses.items()
        if status and status not in KNOWN_COMPONENT_STATUSES
    ]
    return replace(
        look,
        resource=replace(look.resource, changed=max(filter(None, times), default=None)),
        changing_because=look.changing_because or next(iter(changing), None),
        unknown_because=look.unknown_because or next(iter(unknown), None),
    )


def _with_endpoint_details(looks: Sequence[CloserLook], batch: Batch) -> list[CloserLook]:
    """The looks with what acting needs: the effect of a scale-in, whether the endpoint could be recreated, and what is on it, as described now.

    Right before an action autoscaling always matters: it says what of the saving isn't the reaper's.
    """
    cloud = batch.cloud
    endpoints = [(look, look.described) for look in looks if not look.unknown_because]
    is_needed = batch.window.reads_in_full or any(needs_autoscaling(endpoint) for _, endpoint in endpoints)
    scaling = autoscaling.read_autoscaling_or_none(cloud) if is_needed else Autoscaling()
    names = [row[component.NAME_KEY] for look, _ in endpoints for row in look.components]
    replies = component.describe_all(cloud, names)
    rows: dict[str, Row | None] = {name: reply for name, reply in replies.items() if not isinstance(reply, CloudError)}
    # None: it is gone by now. Empty: it can't be read.
    rows |= {n: None if e.reason is Reason.GONE else {} for n, e in replies.items() if isinstance(e, CloudError)}
    deleted = sagemaker.deleted_models(cloud, sagemaker.model_names(*(endpoint.config for _, endpoint in endpoints)))
    detailed = []
    for listed in looks:
        components = {row[component.NAME_KEY]: rows.get(row[component.NAME_KEY]) for row in listed.components}
        look = _with_component_changes(listed, [{**row, component.NAME_KEY: name} for name, row in components.items() if row])
        if unread := [name for name, row in components.items() if row is not None and not row]:
            look = replace(look, unknown_because=look.unknown_because or f"its component {unread[0]} couldn't be described")
        if not look.unknown_because:
            details = description.endpoint_details(look.resource, look.described, components, scaling, deleted)
            look = replace(look, resource=replace(look.resource, details=details, fingerprint=fingerprint(components)))
        detailed.append(look)
    return detailed


def fingerprint(names: Iterable[str]) -> str:
    """What tells the endpoint its owner was notified about from one that hosts something else by now.

    Traffic is read by the names of the components that exist, so the use of a component that is gone no longer shows.
    """
    text = " ".join(sorted(names))
    return f"hosts {sha256(text.encode()).hexdigest()[:16]}" if text else "hosts nothing"


def _all_queries(name: str, endpoint: EndpointDescription, components: Collection[str]) -> tuple[MetricQuery, ...]:
    """Everything that could show use of the endpoint as described, or that it was watched."""
    is_empty_host = endpoint.hosts_components_only and not components
    bare = "Invocations (it hosts no inference component)" if is_empty_host else ""  # nothing on it can be invoked
    running = [v.name for v in endpoint.variants if v.instance_count]
    queries = [_traffic_query(name, variant, bare) for variant in running]
    for variant in running:
        query = metrics.query(INSTANCE_NAMESPACE, "CPUUtilization", "SampleCount", EndpointName=name, VariantName=variant)
        queries.append(replace(query, role=Role.HEARTBEAT, subject=variant))
    others = [v.name for v in endpoint.variants if not v.instance_count]  # they have no heartbeat of their own
    queries += [replace(_traffic_query(name, variant, bare or f"Invocations of {variant}"), subject="") for variant in others]
    if endpoint.is_asynchronous:
        queries.append(metrics.query(TRAFFIC_NAMESPACE, "ApproximateBacklogSize", "Maximum", EndpointName=name))
        for one, metric in product(endpoint.variants, ASYNC_METRICS):
            query = metrics.query(TRAFFIC_NAMESPACE, metric, "Sum", EndpointName=name, VariantName=one.name)
            queries.append(replace(query, subject=one.name if one.instance_count else ""))
    for inside, metric in product(components, component.ACTIVITY_METRICS):
        query = metrics.query(TRAFFIC_NAMESPACE, metric, "Sum", InferenceComponentName=inside)
        queries.append(replace(query, signal=f"{metric} of component {inside}"))
    return tuple(dict.fromkeys(queries))


def _traffic_query(name: str, variant: str, signal: str = "") -> MetricQuery:
    query = metrics.query(TRAFFIC_NAMESPACE, "Invocations", "Sum", EndpointName=name, VariantName=variant)
    return replace(query, signal=signal, subject=variant)
