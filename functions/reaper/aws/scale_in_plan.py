"""What scaling one endpoint in would do, and what stands against it. Pure.

Zero instances are for asynchronous endpoints, and for hosts of inference components whose instances SageMaker itself scales; whatever
would never answer again is not brought there: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from reaper.aws import autoscaling
from reaper.aws.autoscaling import Scaling
from reaper.aws.endpoint_description import Described, Variant, parts
from reaper.model import Bar, Resource
from reaper.prices import PriceBook

UNREAD = Bar(because="whether anything would wake it again could not be read")
AVAILABILITY = "one instance per variant does not keep a rule of two instances for availability"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleIn:
    """Instances by variant, for those that would get fewer; components whose copies would go to zero; or what bars it all.

    The variant that saves most comes first, then they go by name. An action scales in the first; each other one is an action of its own.
    """

    variants: Mapping[str, int] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    bar: Bar | None = None

    @property
    def first(self) -> dict[str, int]:
        """What one action changes: a call takes the capacity of one variant, and the endpoint is being updated after it."""
        return dict(islice(self.variants.items(), 1))


def needs_scaling(found: Described) -> bool:
    """Whether the autoscaling of the region must be read to know what can be done."""
    return (found.asynchronous or found.hosts) and any(_count(row) for row in rows(found))


def scale_in(resource: Resource, found: Described, components: Sequence[str], read: Scaling | None) -> ScaleIn:
    """For the endpoint as described, with the names of its components; `read` None: autoscaling could not be read."""
    if not rows(found):
        return ScaleIn(bar=Bar(because="its description names no variant"))
    if any(_serverless(row) for row in rows(found)):
        return ScaleIn(bar=Bar(because="it is serverless, or keeps provisioned concurrency, which scaling in does not change"))
    if any(row.get("InstancePools") for row in rows(found)):
        return ScaleIn(bar=Bar(because="it runs pools of several instance types, which are not scaled in"))
    if found.hosts or components:
        return _host(found, components, read)
    return _variants(resource, found, read)


def rows(found: Described) -> list[Mapping[str, Any]]:
    """The production variants as described. Shadow variants cannot be scaled."""
    return list(found.raw.get("ProductionVariants") or ())


def _variants(resource: Resource, found: Described, read: Scaling | None) -> ScaleIn:
    if found.asynchronous and read is None:
        return ScaleIn(bar=UNREAD)
    least = {r["VariantName"]: 0 if found.asynchronous and _wakes(read, resource.name, r) else 1 for r in rows(found)}
    fewer = {r["VariantName"]: least[r["VariantName"]] for r in rows(found) if _count(r) > least[r["VariantName"]]}
    if fewer:
        return ScaleIn(variants=_by_saving(resource, found, fewer))
    asleep = found.asynchronous and any(_count(r) for r in rows(found))
    why = "; no step scaling policy on HasBacklogWithoutCapacity would wake it from zero" if asleep else ""
    return ScaleIn(bar=Bar(because=f"it already runs no more than one instance per variant{why}", done=True))


def _by_saving(resource: Resource, found: Described, least: Mapping[str, int]) -> dict[str, int]:
    """The same, the greatest saving at list price first; those without a price come last, and equal ones go by name."""
    book, saved = PriceBook(), {}
    for variant in (v for v in found.variants if v.name in least):
        freed = parts(replace(found, variants=(_freed(variant, least[variant.name]),)))
        price = book.price(replace(resource, parts=freed))
        saved[variant.name] = price.usd_per_hour if price else -1.0
    return {name: least[name] for name in sorted(least, key=lambda name: (-saved.get(name, -1.0), name))}


def _freed(variant: Variant, left: int) -> Variant:
    """What of it is not paid for any more."""
    return replace(variant, instances=tuple((kind, max(0, count - left)) for kind, count in variant.instances))


def _host(found: Described, components: Sequence[str], read: Scaling | None) -> ScaleIn:
    """Without copies SageMaker lets the instances go, where it may: nobody else should take them from under a component."""
    if not all(_free_to_zero(row) for row in rows(found)):
        because = "it hosts inference components and SageMaker may not scale its instances to zero (ManagedInstanceScaling)"
        return ScaleIn(bar=Bar(because=because))
    if not components:
        return ScaleIn(bar=Bar(because="it hosts no inference component now; SageMaker lets its instances go by itself"))
    if read is None:
        return ScaleIn(bar=UNREAD)
    deaf = [one for one in components if not autoscaling.wakes_component(read, one)]
    if deaf:
        because = f"no step scaling policy on NoCapacityInvocationFailures would wake its component {deaf[0]} from zero"
        return ScaleIn(bar=Bar(because=because))
    return ScaleIn(components=tuple(components))


def _wakes(read: Scaling | None, name: str, row: Mapping[str, Any]) -> bool:
    return read is not None and autoscaling.wakes_variant(read, name, row["VariantName"])


def _free_to_zero(row: Mapping[str, Any]) -> bool:
    managed = row.get("ManagedInstanceScaling") or {}
    return managed.get("Status") == "ENABLED" and managed.get("MinInstanceCount") == 0


def _serverless(row: Mapping[str, Any]) -> bool:
    return bool(row.get("CurrentServerlessConfig") or row.get("DesiredServerlessConfig"))


def _count(row: Mapping[str, Any]) -> int:
    return int(row.get("CurrentInstanceCount") or 0)
