"""What to ask CloudWatch about an endpoint: its variants' traffic and heartbeats, its backlog, its components' traffic. Pure.

https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Iterable

from reaper.aws.endpoint_description import Described
from reaper.aws.metrics import Query
from reaper.model import Role

TRAFFIC, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
Queries = dict[Query, tuple[Role, str, str]]
"""What to ask for, and as what to understand the answer: role, signal and subject."""
ASYNC = (
    ("InvocationsProcessed", "Sum"),
    ("InvocationsProcesssed", "Sum"),
    ("InvocationFailures", "Sum"),
    ("ModelLatency", "Sum"),
)
"""AWS documents the first with three s; both spellings are asked for. Sums, since a metric may be published as zeros while at rest."""


def traffic(name: str, variants: Iterable[str], *, subject: bool = True) -> Queries:
    """Invocations of those variants. Without `subject`, of ones that have no heartbeat of their own: these are named all the same."""
    return {
        Query(namespace=TRAFFIC, metric="Invocations", stat="Sum", dimensions=_pair(name, v)): (
            Role.ACTIVITY,
            "Invocations" if subject else f"Invocations of {v}",
            v if subject else "",
        )
        for v in variants
    }


def _hearts(name: str, variants: Iterable[str]) -> Queries:
    return {
        Query(namespace=INSTANCES, metric="CPUUtilization", stat="SampleCount", dimensions=_pair(name, v)): (
            Role.HEARTBEAT,
            "CPUUtilization",
            v,
        )
        for v in variants
    }


def _pair(name: str, variant: str) -> tuple[tuple[str, str], ...]:
    return (("EndpointName", name), ("VariantName", variant))


def without_components(asked: Queries) -> Queries:
    """The same for a host that hosts nothing, as the report calls it: nothing on it can be invoked."""
    bare = "Invocations (it hosts no inference component)"
    named = {signal: bare for _, signal, _ in asked.values() if signal.partition(" of ")[0] == "Invocations"}
    return {query: (role, named.get(signal, signal), what) for query, (role, signal, what) in asked.items()}


def full(name: str, found: Described, components: Iterable[str]) -> Queries:
    """Everything that could show use of the endpoint as described, or that it was watched."""
    running = [v.name for v in found.variants if v.count]
    resting = [v.name for v in found.variants if not v.count]
    asked = traffic(name, running) | _hearts(name, running) | traffic(name, resting, subject=False)
    whole = (("EndpointName", name),)
    if found.asynchronous:
        backlog = Query(namespace=TRAFFIC, metric="ApproximateBacklogSize", stat="Maximum", dimensions=whole)
        asked[backlog] = (Role.ACTIVITY, "ApproximateBacklogSize", "")
        for variant in found.variants:
            for metric, stat in ASYNC:
                query = Query(namespace=TRAFFIC, metric=metric, stat=stat, dimensions=_pair(name, variant.name))
                asked[query] = (Role.ACTIVITY, metric, variant.name if variant.count else "")
    for component in components:
        for metric in ("Invocations", "NoCapacityInvocationFailures"):
            query = Query(namespace=TRAFFIC, metric=metric, stat="Sum", dimensions=(("InferenceComponentName", component),))
            asked[query] = (Role.ACTIVITY, f"{metric} of component {component}", "")
    return asked
