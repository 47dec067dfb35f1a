"""What to ask CloudWatch about an endpoint: its variants' traffic and heartbeats, its backlog, its components' traffic. Pure.

https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Iterable

from reaper.aws.endpoint_description import EndpointDescription
from reaper.aws.metrics import MetricQuery
from reaper.model import Role

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
    for component in components:
        for metric in ("Invocations", "NoCapacityInvocationFailures"):
            query = MetricQuery(
                namespace=TRAFFIC_NAMESPACE, metric=metric, stat="Sum", dimensions=(("InferenceComponentName", component),)
            )
            queries[query] = (Role.ACTIVITY, f"{metric} of component {component}", "")
    return queries
