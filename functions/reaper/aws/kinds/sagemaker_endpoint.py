"""SageMaker inference endpoints: real-time with any number of variants, asynchronous, serverless, and hosts of inference components.

Metrics and their dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Asynchronous endpoints publish no Invocations: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, configuration_cache, endpoint_actions, endpoint_description, metrics, restorable, tags
from reaper.aws import endpoint_metrics as signals
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.endpoint_actions import CHANGING_STATUSES, STEADY_STATUSES, RegionContext
from reaper.aws.endpoint_description import EndpointDescription
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.metrics import MetricQuery
from reaper.aws.scale_in_plan import needs_autoscaling
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent
from reaper.kind import Kind
from reaper.model import CachedDescription, IndirectEvidence, Observation, Reading, Resource, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAME = "sagemaker-endpoint"
ComponentsByEndpoint = dict[str, list[dict[str, Any]]]
CHANGING_COMPONENT_STATUSES = {*CHANGING_STATUSES, "Deleting"}
KNOWN_COMPONENT_STATUSES = {*CHANGING_COMPONENT_STATUSES, *component.STEADY_STATUSES}
"""What the status of a component may be; one that moves unsettles its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CloserLook:
    """One silent endpoint, looked at closely: `described` None when that failed, and then `blind` says why."""

    resource: Resource
    described: EndpointDescription | None = None
    unknown_because: str | None = None
    changing_because: str | None = None
    components: tuple[Mapping[str, Any], ...] = ()
    to_cache: CachedDescription | None = None
    queries: signals.Queries = field(default_factory=dict)


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every endpoint of the region, whatever its state."""
    rows = list(cloud.sagemaker_rows("ListEndpoints", "Endpoints", "EndpointArn"))
    found = tags.tags_by_arn(cloud, "endpoint") if rows else {}
    for row in rows:
        yield resource_from_row(cloud, {"EndpointName": None, **row}, tags.tags_of(found, row["EndpointArn"]))


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    return Resource(
        kind=NAME,
        id=row["EndpointArn"],
        name=row["EndpointName"],
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        changed=row.get("LastModifiedTime"),
        status=row.get("EndpointStatus", ""),
        tags=found,
    )


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; only what was silent is described, and then asked for every signal that it could show use by."""
    listed = _recent_variants(cloud) if resources else {}
    asked = {
        r.id: signals.traffic_queries(r.name, listed.get(r.name, ()))
        for r in resources
        if r.status not in {"Creating", "Deleting"}
    }
    first = metrics.fetch_first_look(cloud, [(r, asked.get(r.id, ())) for r in resources], window)
    silent = []
    for resource in resources:
        seen = Observation(resource=resource, readings=_to_readings(asked.get(resource.id, {}), first))
        if settled := _settled_without_look(seen, window):
            yield settled
        else:
            silent.append(resource)
    kept = window.read_cached([r.id for r in silent]) if silent else {}
    looks = list(cloud.map_concurrently(lambda resource: _look_closer(cloud, resource, kept.get(resource.id)), silent))
    components = _components_by_endpoint(cloud) if _must_list_components(cloud, looks) else {}
    full = _with_details(cloud, [_with_component_queries(look, components) for look in looks], window)
    answers = metrics.fetch_metrics(cloud, [q for look in full for q in look.queries], window)
    for look in full:
        yield _to_observation(look, _to_readings(look.queries, answers), window)


def _settled_without_look(seen: Observation, window: Window) -> Observation | None:
    """What needs no Describe: in use or new enough that no rule can call it idle, or in a state that says it all."""
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free_because="it is being deleted")
    if status in CHANGING_STATUSES:
        return replace(seen, changing_because=f"its status is {status}")
    if is_recent(seen, window):
        return replace(seen, unknown_because="it was used or changed too recently for a closer look")
    return None


def _recent_variants(cloud: CloudSession) -> dict[str, list[str]]:
    """Variants by endpoint that ran within two weeks, from the heartbeat's own dimensions: 500 a call instead of one Describe each."""
    found: dict[str, list[str]] = {}
    try:
        for pairs in metrics.published_dimensions(cloud, signals.INSTANCE_NAMESPACE, "CPUUtilization"):
            if pairs.keys() == {"EndpointName", "VariantName"}:
                found.setdefault(pairs["EndpointName"], []).append(pairs["VariantName"])
    except CloudError as error:
        cloud.add_error(error)
    return found


def _look_closer(cloud: CloudSession, resource: Resource, kept: CachedDescription | None) -> _CloserLook:
    try:
        found = endpoint_description.describe_endpoint(
            cloud, resource.name, lambda row: configuration_cache.cached_types(resource, kept, row)
        )
    except CloudError as error:
        if error.reason is not Reason.GONE:
            cloud.add_error(error)
        return _CloserLook(resource=resource, unknown_because=f"it could not be described: {error}")
    changed = found.reply.get("LastModifiedTime") or resource.changed
    known = replace(
        resource,
        status=found.status,
        changed=changed,
        parts=endpoint_description.billed_parts(found),
        size=endpoint_description.size_text(found),
    )
    return _CloserLook(resource=known, described=found, to_cache=configuration_cache.description_to_cache(resource, found))


def _must_list_components(cloud: CloudSession, looks: Sequence[_CloserLook]) -> bool:
    """Whether inference components must be listed: an endpoint looks like a host, or any component of the region reported lately."""
    if not looks or any(look.described and look.described.may_host_components for look in looks):
        return bool(looks)
    try:
        return any(
            True for _ in metrics.published_dimensions(cloud, "/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized")
        )
    except CloudError as error:
        cloud.add_error(error)
        return True


def _components_by_endpoint(cloud: CloudSession) -> ComponentsByEndpoint | None:
    """Inference components by endpoint; None, and noted, when they cannot be listed."""
    found: ComponentsByEndpoint = {}
    try:
        for row in cloud.paged_rows(
            "sagemaker", "ListInferenceComponents", "InferenceComponents", *component.REQUIRED_KEYS, MaxResults=100
        ):
            found.setdefault(row["EndpointName"], []).append(row)
    except CloudError as error:
        cloud.add_error(error)
        return None
    return found


def _with_component_queries(look: _CloserLook, components: ComponentsByEndpoint | None) -> _CloserLook:
    """The look with everything to ask for. A host is as young as the youngest of its components, and unsettled or unknown while one is.

    One that hosts none, and has no model of its own, can serve nothing: its heartbeat alone proves it idle, since its last change.
    """
    found = look.described
    if found is None:
        return look
    if components is None and found.may_host_components:
        return replace(look, unknown_because="whether it hosts inference components, and their traffic, could not be read")
    mine = (components or {}).get(look.resource.name, [])
    if (
        found.may_host_components
        and not found.hosts_components_only
        and not mine
        and any(v.instance_count for v in found.variants)
    ):
        return replace(
            look,
            unknown_because="it may host inference components but has none now, and whether it has models of its own could not be read",
        )
    asked = signals.all_queries(look.resource.name, found, [row["InferenceComponentName"] for row in mine])
    asked = signals.named_for_empty_host(asked) if found.hosts_components_only and not mine else asked
    return _with_component_changes(replace(look, queries=asked, components=tuple(mine)), mine)


def _with_component_changes(look: _CloserLook, rows: Sequence[Mapping[str, Any]]) -> _CloserLook:
    """The look with what the list, or the descriptions, say of its components: when they changed, and whether one is changing now."""
    times = [t for row in rows for t in (row.get("CreationTime"), row.get("LastModifiedTime")) if t]
    latest = max([*times, *([look.resource.changed] if look.resource.changed else [])], default=None)
    said = {row["InferenceComponentName"]: str(row.get("InferenceComponentStatus", "")) for row in rows}
    moving = next(
        (f"its component {name} is {status}" for name, status in said.items() if status in CHANGING_COMPONENT_STATUSES), None
    )
    odd = next(
        (f"its component {n} is {s}, which we do not know" for n, s in said.items() if s and s not in KNOWN_COMPONENT_STATUSES),
        None,
    )
    return replace(
        look,
        resource=replace(look.resource, changed=latest),
        changing_because=look.changing_because or moving,
        unknown_because=look.unknown_because or odd,
    )


def _with_details(cloud: CloudSession, looks: Sequence[_CloserLook], window: Window) -> list[_CloserLook]:
    """What `able` needs: what scaling in would do, whether it could be created again, and whether a component's own tags forbid it."""
    clear = [look for look in looks if look.described and not look.unknown_because]
    scaled = any(look.described and needs_autoscaling(look.described) for look in clear)
    read = autoscaling.read_autoscaling_or_none(cloud) if scaled else Autoscaling()
    found = tags.tags_by_name(cloud, "inference-component") if any(look.components for look in clear) else {}
    names = [row["InferenceComponentName"] for look in clear for row in look.components]
    rows: dict[str, Mapping[str, Any] | None] = dict(
        zip(names, cloud.map_concurrently(lambda name: _describe_component(cloud, name), names), strict=True)
    )
    configs = [look.described.config for look in clear if look.described]
    gone = restorable.deleted_models(cloud, restorable.model_names(*configs, *(row for row in rows.values() if row)))
    around = RegionContext(autoscaling=read, component_rows=rows, deleted_models=gone)
    return [_with_endpoint_details(cloud, _with_component_descriptions(look, rows), around, found, window) for look in looks]


def _with_component_descriptions(look: _CloserLook, rows: Mapping[str, Mapping[str, Any] | None]) -> _CloserLook:
    """With what its components' descriptions say at this moment; the list may be minutes old. Blind where one cannot be had."""
    named = [(one["InferenceComponentName"], rows.get(one["InferenceComponentName"])) for one in look.components]
    moved = _with_component_changes(look, [{**row, "InferenceComponentName": name} for name, row in named if row])
    unread = [name for name, row in named if row is not None and not row]
    return (
        replace(moved, unknown_because=moved.unknown_because or f"its component {unread[0]} could not be described")
        if unread
        else moved
    )


def _describe_component(cloud: CloudSession, name: str) -> Mapping[str, Any] | None:
    """Its description; None where it is gone by now, and nothing in it where it cannot be had, which is noted."""
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)
    except CloudError as error:
        if error.reason is Reason.GONE:
            return None
        cloud.add_error(error)
        return {}


def _with_endpoint_details(
    cloud: CloudSession, look: _CloserLook, around: RegionContext, found: tags.TagsByName | None, window: Window
) -> _CloserLook:
    """Of its components as listed, and those of a fresh look where it has had one, which knows their tags better."""
    known = look.resource
    if look.described is None or look.unknown_because:
        return look
    own = {row["InferenceComponentName"]: row for row in look.components}
    inside = {name: None if found is None else found.get(name.lower(), {}) for name in own}
    listed = {
        row["InferenceComponentArn"]: component.contained_resource(cloud, row, inside[name], known.tags)
        for name, row in own.items()
    }
    within = tuple((listed | {c.id: c for c in known.facts.get("within", ())}).values())
    more = endpoint_actions.endpoint_details(known, look.described, inside, around, window.end) | _hosted_details(look.components)
    return replace(look, resource=replace(known, facts={**known.facts, **more, "within": within}))


def _hosted_details(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What tells the endpoint as its owner was told of it from one that hosts something else by now.

    Traffic is asked for by the names of the components that are there, so of one that was used and taken away nothing is seen any more.
    """
    names = sorted(row["InferenceComponentName"] for row in rows)
    joined = max((row["CreationTime"] for row in rows if row.get("CreationTime")), default=None)
    return {"shape": f"hosts {sha256(' '.join(names).encode()).hexdigest()[:16]}" if names else "hosts nothing", "joined": joined}


def _to_readings(asked: signals.Queries, answers: dict[MetricQuery, metrics.MetricResult]) -> tuple[Reading, ...]:
    return tuple(
        Reading(signal=signal, role=role, subject=subject, series=answers[query].series, complete=answers[query].complete)
        for query, (role, signal, subject) in asked.items()
    )


def _to_observation(look: _CloserLook, readings: tuple[Reading, ...], window: Window) -> Observation:
    seen = Observation(resource=look.resource, readings=readings, unknown_because=look.unknown_because, to_cache=look.to_cache)
    found, status = look.described, look.resource.status
    if found is None:
        return seen
    if status == "Deleting":
        return replace(seen, free_because="it is being deleted")
    if status in CHANGING_STATUSES or look.changing_because:
        return replace(seen, changing_because=look.changing_because or f"its status is {status}")
    if look.unknown_because:
        return seen
    if status not in STEADY_STATUSES:
        return replace(seen, unknown_because=f"its status is {status}, which we do not know")
    if not found.variants and status != "Failed":
        return replace(seen, unknown_because=f"its status is {status}, yet its description names no variant")
    return _with_idle_cost(seen, found, window)


def _with_idle_cost(seen: Observation, found: EndpointDescription, window: Window) -> Observation:
    """Serverless and scaled-in endpoints cost nothing while idle, but for provisioned concurrency."""
    if any(v.serverless and v.serverless.get("ProvisionedConcurrency") for v in found.variants):
        because = (
            "it keeps provisioned concurrency and shows no invocation; serverless endpoints have no heartbeat to prove it by"
        )
        return replace(seen, indirect_evidence=IndirectEvidence(since=window.start, because=because))
    if found.variants and all(v.serverless for v in found.variants):
        return replace(seen, free_because="it is serverless and costs nothing while idle")
    if not any(v.instance_count for v in found.variants):
        return replace(seen, free_because=f"its status is {found.status} and it runs no instances, so it costs nothing")
    return seen


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
    without_proof="unknown; exempt where it runs no instances or is serverless; likely for silent provisioned concurrency; a host of inference "
    "components that has none now is judged by its heartbeat alone, from its last change",
    discover=discover,
    observe=observe,
    blocked_actions=endpoint_actions.blocked_actions,
    parts_after=endpoint_actions.parts_after,
    actions=endpoint_actions.ACTION_SPECS,
)
