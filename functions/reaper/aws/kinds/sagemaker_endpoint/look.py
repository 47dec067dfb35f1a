"""A closer look at endpoints that were silent: their descriptions, the inference components they host, and what could be done to them.

A host is as young as the youngest of its components, and changing or unknown while one of them is. What its list says may be minutes old, so
each component is described, too: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, metrics, tags
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.kinds.sagemaker_endpoint import blocked, restorable
from reaper.aws.kinds.sagemaker_endpoint.blocked import CHANGING_STATUSES, EndpointDetails, RegionContext, needs_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription
from reaper.aws.kinds.sagemaker_inference_component.blocked import STEADY_STATUSES
from reaper.aws.metrics import MetricQuery
from reaper.errors import CloudError, Reason
from reaper.model import Resource, Role
from reaper.observation import CachedDescription, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession


Row = Mapping[str, Any]
ComponentsByEndpoint = dict[str, list[dict[str, Any]]]
CHANGING_COMPONENT_STATUSES = {*CHANGING_STATUSES, "Deleting"}
KNOWN_COMPONENT_STATUSES = {*CHANGING_COMPONENT_STATUSES, *STEADY_STATUSES}
"""The statuses of a component. A changing one makes its host unsettled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloserLook:
    """One silent endpoint, read closely. `described` is None if that failed; then `unknown_because` says why."""

    resource: Resource
    described: EndpointDescription | None = None
    unknown_because: str | None = None
    changing_because: str | None = None
    components: tuple[Row, ...] = ()
    to_cache: CachedDescription | None = None
    queries: Queries = field(default_factory=dict)


def with_component_queries(cloud: CloudSession, looks: Sequence[CloserLook]) -> list[CloserLook]:
    """The looks with the components they host and every metric to read, those of the components included."""
    components = _components_by_endpoint(cloud) if _must_list_components(cloud, looks) else {}
    return [_with_queries(look, components) for look in looks]


def _must_list_components(cloud: CloudSession, looks: Sequence[CloserLook]) -> bool:
    """Whether inference components must be listed: an endpoint looks like a host, or any component of the region reported lately."""
    if not looks or any(look.described and look.described.may_host_components for look in looks):
        return bool(looks)
    try:
        pairs = metrics.published_dimensions(cloud, "/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized")
        return any(True for _ in pairs)
    except CloudError as error:
        cloud.add_error(error)
        return True


def _components_by_endpoint(cloud: CloudSession) -> ComponentsByEndpoint | None:
    """Inference components by endpoint; None, and noted, when they can't be listed."""
    components: ComponentsByEndpoint = {}
    try:
        for row in cloud.paged_rows(
            "sagemaker", "ListInferenceComponents", "InferenceComponents", *component.REQUIRED_KEYS, MaxResults=100
        ):
            components.setdefault(row["EndpointName"], []).append(row)
    except CloudError as error:
        cloud.add_error(error)
        return None
    return components


def _with_queries(look: CloserLook, components: ComponentsByEndpoint | None) -> CloserLook:
    """An endpoint without components or a model of its own can serve nothing: its heartbeat alone proves it idle, since its last change."""
    endpoint = look.described
    if endpoint is None:
        return look
    if components is None and endpoint.may_host_components:
        return replace(look, unknown_because="whether it hosts inference components, and their traffic, couldn't be read")
    listed = (components or {}).get(look.resource.name, [])
    rows = [*listed, *_rows_of_gone(look.resource, {row["InferenceComponentName"] for row in listed})]
    if not rows and _may_have_own_models(endpoint):
        because = "it may host inference components but has none now, and whether it has models of its own couldn't be read"
        return replace(look, unknown_because=because)
    queries = all_queries(look.resource.name, endpoint, [row["InferenceComponentName"] for row in rows])
    if endpoint.hosts_components_only and not rows:
        queries = named_for_empty_host(queries)
    return _with_component_changes(replace(look, queries=queries, components=tuple(rows)), rows)


def _rows_of_gone(resource: Resource, listed: Collection[str]) -> list[dict[str, Any]]:
    """The components that the action deleted whose look this is: their use up to now still counts."""
    return [
        {
            "InferenceComponentName": inner.name,
            "InferenceComponentArn": inner.id,
            "EndpointName": resource.name,
            "InferenceComponentStatus": inner.status,
            "CreationTime": inner.created,
            "LastModifiedTime": inner.changed,
        }
        for inner in resource.contained
        if inner.name not in listed
    ]


def _may_have_own_models(endpoint: EndpointDescription) -> bool:
    """Whether a host without components runs instances for models that couldn't be read."""
    unclear = endpoint.may_host_components and not endpoint.hosts_components_only
    return unclear and any(variant.instance_count for variant in endpoint.variants)


def _with_component_changes(look: CloserLook, rows: Sequence[Row]) -> CloserLook:
    """The look with what the list, or the descriptions, say of its components: when they changed, and whether one is changing now."""
    times = [t for row in rows for t in (row.get("CreationTime"), row.get("LastModifiedTime")) if t]
    times += [look.resource.changed] if look.resource.changed else []
    statuses = {row["InferenceComponentName"]: str(row.get("InferenceComponentStatus", "")) for row in rows}
    return replace(
        look,
        resource=replace(look.resource, changed=max(times, default=None)),
        changing_because=look.changing_because or _changing_component_because(statuses),
        unknown_because=look.unknown_because or _unknown_component_because(statuses),
    )


def _changing_component_because(statuses: Mapping[str, str]) -> str | None:
    changing = [name for name, status in statuses.items() if status in CHANGING_COMPONENT_STATUSES]
    return f"its component {changing[0]} is {statuses[changing[0]]}" if changing else None


def _unknown_component_because(statuses: Mapping[str, str]) -> str | None:
    unknown = [name for name, status in statuses.items() if status and status not in KNOWN_COMPONENT_STATUSES]
    return f"this version doesn't recognize the status {statuses[unknown[0]]} of its component {unknown[0]}" if unknown else None


def with_endpoint_details(cloud: CloudSession, looks: Sequence[CloserLook], window: Window) -> list[CloserLook]:
    """The looks with what acting needs: the effect of a scale-in, whether the endpoint could be recreated, and what its components' tags forbid."""
    clear = [look for look in looks if look.described and not look.unknown_because]
    names = [row["InferenceComponentName"] for look in clear for row in look.components]
    tags_by_name = tags.tags_by_name(cloud, "inference-component") if names else {}
    region = _region_context(cloud, clear, names)
    return [_with_details(cloud, _with_component_descriptions(look, region), region, tags_by_name, window) for look in looks]


def _region_context(cloud: CloudSession, looks: Sequence[CloserLook], names: Sequence[str]) -> RegionContext:
    """The region's autoscaling if it matters, and the components of these names described."""
    scaled = any(look.described and needs_autoscaling(look.described) for look in looks)
    found_autoscaling = autoscaling.read_autoscaling_or_none(cloud) if scaled else Autoscaling()
    rows: dict[str, Row | None] = dict(
        zip(names, cloud.map_concurrently(lambda name: _describe_component(cloud, name), names), strict=True)
    )
    configs = [look.described.config for look in looks if look.described]
    needed = restorable.model_names(*configs, *(row for row in rows.values() if row))
    return RegionContext(
        autoscaling=found_autoscaling, component_rows=rows, deleted_models=restorable.deleted_models(cloud, needed)
    )


def _with_component_descriptions(look: CloserLook, region: RegionContext) -> CloserLook:
    """The look with what its components' descriptions say at this moment. It is unknown if one can't be read."""
    named = [(row["InferenceComponentName"], region.component_rows.get(row["InferenceComponentName"])) for row in look.components]
    changed = _with_component_changes(look, [{**row, "InferenceComponentName": name} for name, row in named if row])
    unread = [name for name, row in named if row is not None and not row]
    because = f"its component {unread[0]} couldn't be described" if unread else None
    return replace(changed, unknown_because=changed.unknown_because or because)


def _describe_component(cloud: CloudSession, name: str) -> Row | None:
    """Its description; None if it is gone by now, and empty if it can't be read, which is noted."""
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)
    except CloudError as error:
        if error.reason is Reason.GONE:
            return None
        cloud.add_error(error)
        return {}


def _with_details(
    cloud: CloudSession, look: CloserLook, region: RegionContext, tags_by_name: tags.TagsByName | None, window: Window
) -> CloserLook:
    """The components as listed, and those read right before an action, which knows their tags better."""
    resource = look.resource
    if look.described is None or look.unknown_because:
        return look
    rows = {row["InferenceComponentName"]: row for row in look.components}
    own_tags = {name: None if tags_by_name is None else tags_by_name.get(name.lower(), {}) for name in rows}
    listed = [component.contained_resource(cloud, row, own_tags[name], resource.tags) for name, row in rows.items()]
    contained = {inner.id: inner for inner in (*listed, *resource.contained)}
    return replace(
        look,
        resource=replace(
            resource,
            details=_endpoint_details(look, own_tags, region, window),
            contained=tuple(contained.values()),
            fingerprint=_fingerprint(rows),
        ),
    )


def _endpoint_details(
    look: CloserLook, own_tags: Mapping[str, tags.Tags | None], region: RegionContext, window: Window
) -> EndpointDetails | None:
    if look.described is None:
        return None
    return blocked.endpoint_details(look.resource, look.described, own_tags, region, window.end)


def _fingerprint(names: Mapping[str, Row]) -> str:
    """What tells the endpoint its owner was notified about from one that hosts something else by now.

    Traffic is read by the names of the components that exist, so the use of a component that is gone no longer shows.
    """
    return f"hosts {sha256(' '.join(sorted(names)).encode()).hexdigest()[:16]}" if names else "hosts nothing"


# MERGED What to ask CloudWatch about an endpoint: its variants' traffic and heartbeats, its backlog, its components' traffic. Pure.
#
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html


TRAFFIC_NAMESPACE, INSTANCE_NAMESPACE = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
Queries = dict[MetricQuery, tuple[Role, str, str]]
"""What to ask for, and as what to understand the answer: role, signal and subject."""
ASYNC_METRICS = (
    ("InvocationsProcessed", "Sum"),
    ("InvocationsProcesssed", "Sum"),
    ("InvocationFailures", "Sum"),
    ("ModelLatency", "Sum"),
)
"""AWS documents the first with three s; both spellings are asked for. Sums, since a metric may be published as zeros while at rest."""


def traffic_queries(name: str, variants: Iterable[str], *, with_subject: bool = True) -> Queries:
    """Invocations of those variants. Without `with_subject`, the variants have no heartbeat of their own; the signal's name then has the variant."""
    return {
        MetricQuery(namespace=TRAFFIC_NAMESPACE, metric="Invocations", stat="Sum", dimensions=_variant_dimensions(name, v)): (
            Role.ACTIVITY,
            "Invocations" if with_subject else f"Invocations of {v}",
            v if with_subject else "",
        )
        for v in variants
    }


def _heartbeat_queries(name: str, variants: Iterable[str]) -> Queries:
    return {
        MetricQuery(
            namespace=INSTANCE_NAMESPACE, metric="CPUUtilization", stat="SampleCount", dimensions=_variant_dimensions(name, v)
        ): (
            Role.HEARTBEAT,
            "CPUUtilization",
            v,
        )
        for v in variants
    }


def _variant_dimensions(name: str, variant: str) -> tuple[tuple[str, str], ...]:
    return (("EndpointName", name), ("VariantName", variant))


def named_for_empty_host(queries: Queries) -> Queries:
    """The same for a host that hosts nothing, as the report calls it: nothing on it can be invoked."""
    bare = "Invocations (it hosts no inference component)"
    named = {signal: bare for _, signal, _ in queries.values() if signal.partition(" of ")[0] == "Invocations"}
    return {query: (role, named.get(signal, signal), what) for query, (role, signal, what) in queries.items()}


def all_queries(name: str, endpoint: EndpointDescription, components: Iterable[str]) -> Queries:
    """Everything that could show use of the endpoint as described, or that it was watched."""
    running = [v.name for v in endpoint.variants if v.instance_count]
    resting = [v.name for v in endpoint.variants if not v.instance_count]
    queries = (
        traffic_queries(name, running) | _heartbeat_queries(name, running) | traffic_queries(name, resting, with_subject=False)
    )
    whole = (("EndpointName", name),)
    if endpoint.is_asynchronous:
        backlog = MetricQuery(namespace=TRAFFIC_NAMESPACE, metric="ApproximateBacklogSize", stat="Maximum", dimensions=whole)
        queries[backlog] = (Role.ACTIVITY, "ApproximateBacklogSize", "")
        for variant in endpoint.variants:
            for metric, stat in ASYNC_METRICS:
                query = MetricQuery(
                    namespace=TRAFFIC_NAMESPACE, metric=metric, stat=stat, dimensions=_variant_dimensions(name, variant.name)
                )
                queries[query] = (Role.ACTIVITY, metric, variant.name if variant.instance_count else "")
    for inside in components:
        for metric in ("Invocations", "NoCapacityInvocationFailures"):
            query = MetricQuery(
                namespace=TRAFFIC_NAMESPACE, metric=metric, stat="Sum", dimensions=(("InferenceComponentName", inside),)
            )
            queries[query] = (Role.ACTIVITY, f"{metric} of component {inside}", "")
    return queries
