"""What scaling one endpoint in would do, and what blocks it. Pure.

Zero instances are for asynchronous endpoints, and for hosts of inference components whose instances SageMaker itself scales; whatever
would never answer again is not brought there: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from reaper.aws import autoscaling
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.endpoint_description import EndpointDescription, Variant, billed_parts
from reaper.case import Blocked
from reaper.model import Resource
from reaper.prices import PriceBook

BLOCKED_UNREAD = Blocked(because="its scaling policies couldn't be read, so it may not scale up again automatically")
AVAILABILITY_WARNING = "one instance per variant is below the usual two for availability"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInPlan:
    """Instances by variant, for those that would get fewer; components whose copies would go to zero; or what blocks it all.

    The variant that saves most comes first, then they go by name. An action scales in the first; each other one is an action of its own.
    """

    instances_by_variant: Mapping[str, int] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    blocked: Blocked | None = None

    @property
    def first_variant(self) -> dict[str, int]:
        """What one action changes: a call takes the capacity of one variant, and the endpoint is being updated after it."""
        return dict(islice(self.instances_by_variant.items(), 1))


def needs_autoscaling(endpoint: EndpointDescription) -> bool:
    """Whether the autoscaling of the region must be read to know what can be done."""
    return (endpoint.is_asynchronous or endpoint.may_host_components) and any(
        _instance_count(row) for row in production_variants(endpoint)
    )


def plan_scale_in(
    resource: Resource, endpoint: EndpointDescription, components: Sequence[str], scaling: Autoscaling | None
) -> ScaleInPlan:
    """For the endpoint as described, with the names of its components. `scaling` None: autoscaling couldn't be read."""
    if not production_variants(endpoint):
        return ScaleInPlan(blocked=Blocked(because="its description lists no variants"))
    if any(_is_serverless(row) for row in production_variants(endpoint)):
        return ScaleInPlan(
            blocked=Blocked(because="it is serverless or has provisioned concurrency, which scaling in doesn't change")
        )
    if any(row.get("InstancePools") for row in production_variants(endpoint)):
        return ScaleInPlan(blocked=Blocked(because="it runs pools of several instance types, which are not scaled in"))
    if endpoint.may_host_components or components:
        return _plan_host(endpoint, components, scaling)
    return _plan_variants(resource, endpoint, scaling)


def production_variants(endpoint: EndpointDescription) -> list[Mapping[str, Any]]:
    """The production variants as described. Shadow variants can't be scaled."""
    return list(endpoint.reply.get("ProductionVariants") or ())


def _plan_variants(resource: Resource, endpoint: EndpointDescription, scaling: Autoscaling | None) -> ScaleInPlan:
    if endpoint.is_asynchronous and scaling is None:
        return ScaleInPlan(blocked=BLOCKED_UNREAD)
    least = {
        r["VariantName"]: 0 if endpoint.is_asynchronous and _can_wake(scaling, resource.name, r) else 1
        for r in production_variants(endpoint)
    }
    fewer = {
        r["VariantName"]: least[r["VariantName"]]
        for r in production_variants(endpoint)
        if _instance_count(r) > least[r["VariantName"]]
    }
    if fewer:
        return ScaleInPlan(instances_by_variant=_by_saving_descending(resource, endpoint, fewer))
    asleep = endpoint.is_asynchronous and any(_instance_count(r) for r in production_variants(endpoint))
    suffix = "; no step scaling policy on HasBacklogWithoutCapacity would wake it from zero" if asleep else ""
    return ScaleInPlan(
        blocked=Blocked(because=f"it already runs no more than one instance per variant{suffix}", already_done=True)
    )


def _by_saving_descending(resource: Resource, endpoint: EndpointDescription, least: Mapping[str, int]) -> dict[str, int]:
    """The same, the greatest saving at list price first; those without a price come last, and equal ones go by name."""
    book, saved = PriceBook(), {}
    for variant in (v for v in endpoint.variants if v.name in least):
        freed = billed_parts(replace(endpoint, variants=(_freed_instances(variant, least[variant.name]),)))
        price = book.price(replace(resource, parts=freed))
        saved[variant.name] = price.usd_per_hour if price else -1.0
    return {name: least[name] for name in sorted(least, key=lambda name: (-saved.get(name, -1.0), name))}


def _freed_instances(variant: Variant, remaining: int) -> Variant:
    """The instances that are no longer paid for."""
    return replace(variant, instances=tuple((kind, max(0, count - remaining)) for kind, count in variant.instances))


def _plan_host(endpoint: EndpointDescription, components: Sequence[str], scaling: Autoscaling | None) -> ScaleInPlan:
    """Without copies SageMaker releases the instances, if it may. Nothing else should take them from under a component."""
    if not all(_may_scale_to_zero(row) for row in production_variants(endpoint)):
        because = "it hosts inference components and SageMaker may not scale its instances to zero (ManagedInstanceScaling)"
        return ScaleInPlan(blocked=Blocked(because=because))
    if not components:
        return ScaleInPlan(blocked=Blocked(because="it hosts no inference component now; SageMaker releases its instances"))
    if scaling is None:
        return ScaleInPlan(blocked=BLOCKED_UNREAD)
    unwakeable = [component for component in components if not autoscaling.can_wake_component(scaling, component)]
    if unwakeable:
        because = f"no step scaling policy on NoCapacityInvocationFailures would wake its component {unwakeable[0]} from zero"
        return ScaleInPlan(blocked=Blocked(because=because))
    return ScaleInPlan(components=tuple(components))


def _can_wake(scaling: Autoscaling | None, name: str, row: Mapping[str, Any]) -> bool:
    return scaling is not None and autoscaling.can_wake_variant(scaling, name, row["VariantName"])


def _may_scale_to_zero(row: Mapping[str, Any]) -> bool:
    managed = row.get("ManagedInstanceScaling") or {}
    return managed.get("Status") == "ENABLED" and managed.get("MinInstanceCount") == 0


def _is_serverless(row: Mapping[str, Any]) -> bool:
    return bool(row.get("CurrentServerlessConfig") or row.get("DesiredServerlessConfig"))


def _instance_count(row: Mapping[str, Any]) -> int:
    return int(row.get("CurrentInstanceCount") or 0)
