"""SageMaker inference endpoints: real-time with any number of variants, asynchronous, serverless, and hosts of inference components.

Metrics and their dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Asynchronous endpoints publish no Invocations: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reaper.aws import series, tags
from reaper.aws.series import Query
from reaper.errors import CloudError, Trouble
from reaper.evidence import last_used
from reaper.model import Hint, Kind, Observation, Part, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.cloud import Cloud

NAME = "sagemaker-endpoint"
TRAFFIC, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
UNSETTLED = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
Queries = dict[Query, tuple[Role, str, str]]
"""What to ask for, and as what to understand the answer: role, signal and subject."""
COMPONENT = ("InferenceComponentName", "EndpointName")
ASYNC = (
    ("InvocationsProcessed", "Sum"),
    ("InvocationsProcesssed", "Sum"),
    ("InvocationFailures", "Sum"),
    ("ModelLatency", "SampleCount"),
)
"""AWS documents the first with three s; both spellings are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    name: str
    count: int
    instances: tuple[tuple[str | None, int], ...] = ()
    serverless: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What Describe says of one endpoint."""

    resource: Resource
    variants: tuple[_Variant, ...] = ()
    asynchronous: bool = False
    hosts_components: bool = False
    blind: str | None = None
    queries: Queries = field(default_factory=dict)


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every endpoint of the region, whatever its state."""
    rows = list(cloud.pages("sagemaker", "ListEndpoints", "Endpoints", "EndpointName", "EndpointArn", MaxResults=100))
    found = tags.tagged(cloud, "endpoint") if rows else {}
    for row in rows:
        yield Resource(
            kind=NAME,
            id=row["EndpointArn"],
            name=row["EndpointName"],
            target=cloud.target,
            region=cloud.region,
            created=row.get("CreationTime"),
            changed=row.get("LastModifiedTime"),
            status=row.get("EndpointStatus", ""),
            tags=tags.of(found, row["EndpointArn"]),
        )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; only what was silent is described, and then asked for every signal that it could show use by."""
    listed = _listed_variants(cloud) if resources else {}
    asked = {r.id: _traffic(r.name, listed.get(r.name, ())) for r in resources if r.status not in {"Creating", "Deleting"}}
    first = series.answers(cloud, [q for queries in asked.values() for q in queries], series.recent(window))
    silent = []
    for resource in resources:
        seen = Observation(resource=resource, readings=_readings(asked.get(resource.id, {}), first))
        if settled := _settled(seen, window):
            yield settled
        else:
            silent.append(resource)
    looks = list(cloud.each(lambda resource: _look(cloud, resource), silent))
    components = _components(cloud) if any(look.hosts_components for look in looks) else {}
    full = [_with_queries(look, components) for look in looks]
    answers = series.answers(cloud, [q for look in full for q in look.queries], window)
    for look in full:
        yield _observation(look, _readings(look.queries, answers), window)


def _settled(seen: Observation, window: Window) -> Observation | None:
    """What needs no Describe: in use or new enough that no rule can call it idle, or in a state that says it all."""
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {status}")
    times = [last_used(seen), seen.resource.created, seen.resource.changed]
    if any(t and t > window.quiet_from for t in times):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return None


def _listed_variants(cloud: Cloud) -> dict[str, list[str]]:
    """Variants by endpoint that ran within two weeks, from the heartbeat's own dimensions: 500 a call instead of one Describe each."""
    found: dict[str, list[str]] = {}
    try:
        for pairs in series.dimensions(cloud, INSTANCES, "CPUUtilization"):
            if pairs.keys() == {"EndpointName", "VariantName"}:
                found.setdefault(pairs["EndpointName"], []).append(pairs["VariantName"])
    except CloudError as error:
        cloud.note(error)
    return found


def _traffic(endpoint: str, variants: Iterable[str], *, subject: bool = True) -> Queries:
    return {
        Query(namespace=TRAFFIC, metric="Invocations", stat="Sum", dimensions=_pair(endpoint, v)): (
            Role.ACTIVITY,
            "Invocations",
            v if subject else "",
        )
        for v in variants
    }


def _hearts(endpoint: str, variants: Iterable[str]) -> Queries:
    return {
        Query(namespace=INSTANCES, metric="CPUUtilization", stat="SampleCount", dimensions=_pair(endpoint, v)): (
            Role.HEARTBEAT,
            "CPUUtilization",
            v,
        )
        for v in variants
    }


def _pair(endpoint: str, variant: str) -> tuple[tuple[str, str], ...]:
    return (("EndpointName", endpoint), ("VariantName", variant))


def _look(cloud: Cloud, resource: Resource) -> _Look:
    try:
        described = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=resource.name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return _Look(resource=resource, blind=f"it could not be described: {error}")
    config = _config(cloud, described.get("EndpointConfigName"))
    try:
        return _understood(resource, described, config)
    except (KeyError, TypeError, AttributeError) as error:
        cloud.note(
            CloudError(Trouble.GARBLED, "sagemaker:DescribeEndpoint", f"{resource.name}: the reply cannot be read ({error!r})")
        )
        return _Look(resource=resource, blind="its description cannot be read")


def _config(cloud: Cloud, name: str | None) -> dict[str, Any] | None:
    """The endpoint's configuration; None when it was deleted, which costs us the instance type and with it the price."""
    if not name:
        return None
    try:
        return cloud.call("sagemaker", "DescribeEndpointConfig", "ProductionVariants", EndpointConfigName=name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return None


def _understood(resource: Resource, described: dict[str, Any], config: dict[str, Any] | None) -> _Look:
    rows = [*(described.get("ProductionVariants") or ()), *(described.get("ShadowProductionVariants") or ())]
    plans = [*((config or {}).get("ProductionVariants") or ()), *((config or {}).get("ShadowProductionVariants") or ())]
    by_name = {p["VariantName"]: p for p in plans}
    failed = described["EndpointStatus"] == "Failed" and not any(row.get("CurrentInstanceCount") for row in rows)
    variants = tuple(_variant(row, by_name.get(row["VariantName"], {}), failed) for row in rows)
    asynchronous = bool(described.get("AsyncInferenceConfig") or (config or {}).get("AsyncInferenceConfig"))
    hosts = any(
        row.get("ManagedInstanceScaling")
        or (not plan.get("ModelName") if (plan := by_name.get(row["VariantName"])) else not row.get("DeployedImages"))
        for row in rows
    )
    parts = _parts(variants, "AsyncInf" if asynchronous else "Hosting")
    resource = replace(
        resource,
        status=described["EndpointStatus"],
        changed=described.get("LastModifiedTime") or resource.changed,
        parts=parts,
        size=_size(variants),
    )
    return _Look(resource=resource, variants=variants, asynchronous=asynchronous, hosts_components=hosts)


def _variant(row: dict[str, Any], plan: dict[str, Any], failed: bool) -> _Variant:
    serverless = row.get("CurrentServerlessConfig") or plan.get("ServerlessConfig")
    pools = row.get("InstancePools")
    if pools:
        instances = tuple((p.get("InstanceType"), int(p.get("CurrentInstanceCount", 0))) for p in pools)
    else:
        count = 0 if serverless or failed else int(row["CurrentInstanceCount"])
        instances = ((plan.get("InstanceType"), count),)
    return _Variant(name=row["VariantName"], count=sum(n for _, n in instances), instances=instances, serverless=serverless)


def _parts(variants: tuple[_Variant, ...], component: str) -> tuple[Part, ...] | None:
    """What is paid for; None as soon as one running instance's type is not known."""
    parts = []
    for variant in variants:
        if variant.serverless and (units := variant.serverless.get("ProvisionedConcurrency")):
            memory = f"{variant.serverless['MemorySizeInMB']}MB"
            parts.append(Part(component="ServerlessProvisionedConcurrency", instance=memory, count=units))
        for kind, count in variant.instances:
            if count and not kind:
                return None
            if count and kind:
                parts.append(Part(component=component, instance=kind, count=count))
    return tuple(parts)


def _size(variants: tuple[_Variant, ...]) -> str:
    counts: dict[str, int] = {}
    for variant in variants:
        if variant.serverless:
            name = f"serverless {variant.serverless.get('MemorySizeInMB', '?')} MB"
            counts[name] = counts.get(name, 0) + int(variant.serverless.get("ProvisionedConcurrency") or 0)
        for kind, count in variant.instances if not variant.serverless else ():
            counts[kind or "unknown"] = counts.get(kind or "unknown", 0) + count
    return ", ".join(f"{name} x{count}" if count else name for name, count in counts.items())


def _components(cloud: Cloud) -> dict[str, list[str]] | None:
    """Inference components by endpoint; None, and noted, when they cannot be listed."""
    found: dict[str, list[str]] = {}
    try:
        for row in cloud.pages("sagemaker", "ListInferenceComponents", "InferenceComponents", *COMPONENT, MaxResults=100):
            found.setdefault(row["EndpointName"], []).append(row["InferenceComponentName"])
    except CloudError as error:
        cloud.note(error)
        return None
    return found


def _with_queries(look: _Look, components: dict[str, list[str]] | None) -> _Look:
    if look.hosts_components and components is None:
        return replace(look, blind="whether it hosts inference components, and their traffic, could not be read")
    running = [v.name for v in look.variants if v.count]
    resting = [v.name for v in look.variants if not v.count]
    asked = (
        _traffic(look.resource.name, running)
        | _hearts(look.resource.name, running)
        | _traffic(look.resource.name, resting, subject=False)
    )
    whole = (("EndpointName", look.resource.name),)
    if look.asynchronous:
        backlog = Query(namespace=TRAFFIC, metric="ApproximateBacklogSize", stat="Maximum", dimensions=whole)
        asked[backlog] = (Role.ACTIVITY, "ApproximateBacklogSize", "")
        for variant in look.variants:
            for metric, stat in ASYNC:
                query = Query(namespace=TRAFFIC, metric=metric, stat=stat, dimensions=(*whole, ("VariantName", variant.name)))
                asked[query] = (Role.ACTIVITY, metric, variant.name if variant.count else "")
    for name in (components or {}).get(look.resource.name, ()):
        query = Query(namespace=TRAFFIC, metric="Invocations", stat="Sum", dimensions=(("InferenceComponentName", name),))
        asked[query] = (Role.ACTIVITY, f"Invocations of component {name}", "")
    return replace(look, queries=asked)


def _readings(asked: Queries, answers: dict[Query, series.Answer]) -> tuple[Reading, ...]:
    return tuple(
        Reading(signal=signal, role=role, subject=subject, series=answers[query].series, complete=answers[query].complete)
        for query, (role, signal, subject) in asked.items()
    )


def _observation(look: _Look, readings: tuple[Reading, ...], window: Window) -> Observation:
    seen = Observation(resource=look.resource, readings=readings, blind=look.blind)
    status = look.resource.status
    if look.blind:
        return seen
    if status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {status}")
    if not look.variants and status != "Failed":
        return replace(seen, blind=f"its status is {status}, yet its description names no variant")
    if any(v.serverless and v.serverless.get("ProvisionedConcurrency") for v in look.variants):
        because = (
            "it keeps provisioned concurrency and shows no invocation; serverless endpoints have no heartbeat to prove it by"
        )
        return replace(seen, hint=Hint(since=window.start, because=because))
    if look.variants and all(v.serverless for v in look.variants):
        return replace(seen, free="it is serverless and costs nothing while idle")
    if not any(v.count for v in look.variants):
        return replace(seen, free=f"its status is {status} and it runs no instances, so it costs nothing")
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
        tags.PERMISSION,
        *series.PERMISSIONS,
    ),
    activity="Invocations of every production and shadow variant and of every inference component it hosts; asynchronous: backlog, "
    "processed and failed invocations, model latency samples",
    heartbeat="CPUUtilization samples of every variant that runs instances",
    otherwise="unknown; exempt where it runs no instances or is serverless; likely for silent provisioned concurrency",
    discover=discover,
    observe=observe,
)
