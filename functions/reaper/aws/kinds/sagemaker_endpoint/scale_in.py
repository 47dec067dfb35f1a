"""Scaling an endpoint in: what it would do, what blocks that or a deletion, and what is paid for after it. Pure.

An action touches one resource, and AWS deletes no endpoint with inference components on it: they come first. Zero instances are for asynchronous
endpoints; whatever would never answer again is not brought there. Those of a host are SageMaker's to release: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from reaper.aws import autoscaling, sagemaker
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.kinds.sagemaker_endpoint import description
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDescription, billed_parts
from reaper.aws.kinds.sagemaker_inference_component.description import copy_count
from reaper.aws.table import Row
from reaper.case import Blocked
from reaper.kind import block, none_of
from reaper.model import BilledPart, Resource, StepName
from reaper.prices import PriceBook
from reaper.text import count_noun

CHANGING_STATUSES = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
STEADY_STATUSES = {"InService", "OutOfService", "Failed", "UpdateRollbackFailed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInPlan:
    """Instances by variant, for those that would get fewer; or what blocks it all.

    The variant that saves most comes first, then they go by name. An action scales in the first; each other one is an action of its own.
    """

    instances_by_variant: Mapping[str, int] = field(default_factory=dict)
    blocked: Blocked | None = None

    @property
    def first_variant(self) -> dict[str, int]:
        """What one action changes: a call takes the capacity of one variant, and the endpoint is being updated after it."""
        return dict(islice(self.instances_by_variant.items(), 1))


def needs_autoscaling(endpoint: EndpointDescription) -> bool:
    """Whether the autoscaling of the region must be read to know what can be done."""
    return endpoint.is_asynchronous and any(map(_instance_count, production_variants(endpoint)))


def plan_scale_in(resource: Resource, endpoint: EndpointDescription, scaling: Autoscaling | None) -> ScaleInPlan:
    """For the endpoint as described: to none where a request would wake an asynchronous one again, else to one. `scaling` None: autoscaling
    couldn't be read.
    """
    rows = production_variants(endpoint)
    if not rows:
        return _blocked_plan("its description lists no variants")
    if any(row.get("CurrentServerlessConfig") or row.get("DesiredServerlessConfig") for row in rows):
        return _blocked_plan("it is serverless or has provisioned concurrency, which scaling in doesn't change")
    if any(row.get("InstancePools") for row in rows):
        return _blocked_plan("it runs pools of several instance types, which are not scaled in")
    if endpoint.may_host_components:
        managed = [row.get("ManagedInstanceScaling") or {} for row in rows]
        may_release = all(one.get("Status") == "ENABLED" and one.get("MinInstanceCount") == 0 for one in managed)
        after = "; SageMaker releases its instances" if may_release else ", and SageMaker may not scale its instances to zero"
        return _blocked_plan(f"it hosts no inference component now{after} (ManagedInstanceScaling)")
    if endpoint.is_asynchronous and scaling is None:
        return _blocked_plan(autoscaling.UNREAD)
    counts = {row["VariantName"]: _instance_count(row) for row in rows}
    wakes = endpoint.is_asynchronous and scaling
    least = {name: 0 if wakes and autoscaling.can_wake_variant(wakes, resource.name, name) else 1 for name in counts}
    fewer = {name: least[name] for name, count in counts.items() if count > least[name]}
    if fewer:
        return ScaleInPlan(instances_by_variant=_by_saving_descending(resource, endpoint, fewer))
    asleep = endpoint.is_asynchronous and any(counts.values())
    suffix = "; no step scaling policy on HasBacklogWithoutCapacity would wake it from zero" if asleep else ""
    return _blocked_plan(f"it already runs no more than one instance per variant{suffix}", already_done=True)


def _blocked_plan(because: str, *, already_done: bool = False) -> ScaleInPlan:
    return ScaleInPlan(blocked=Blocked(because=because, already_done=already_done))


def production_variants(endpoint: EndpointDescription) -> list[Row]:
    """The production variants as described. Shadow variants can't be scaled."""
    return list(endpoint.reply.get("ProductionVariants") or ())


def _by_saving_descending(resource: Resource, endpoint: EndpointDescription, least: Mapping[str, int]) -> dict[str, int]:
    """The same, the greatest saving at list price first; those without a price come last, and equal ones go by name."""
    book, saved = PriceBook(), dict.fromkeys(least, -1.0)
    for variant in (v for v in endpoint.variants if v.name in least):
        freed = tuple((size, max(0, count - least[variant.name])) for size, count in variant.instances)
        parts = billed_parts(replace(endpoint, variants=(replace(variant, instances=freed),)))
        if price := book.price(replace(resource, parts=parts)):
            saved[variant.name] = price.usd_per_hour
    return {name: least[name] for name in sorted(least, key=lambda name: (-saved[name], name))}


def _instance_count(row: Row) -> int:
    return int(row.get("CurrentInstanceCount") or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDetails:
    """What acting on an endpoint needs. `scale_in` is None until it was described.

    `copies`: of each component on it, by name; None if they couldn't be read. `parts_after_stop`: what is still paid for after the next
    scale-in; None if that isn't known. `parts_anyway`: what its autoscaling's minimum keeps. `unrestorable`: why it can't be recreated.
    `settings` and `numbers`: what may be changed about it, as read right before an action.
    """

    copies: Mapping[str, int | None] = field(default_factory=dict)
    scale_in: ScaleInPlan | None = None
    parts_after_stop: tuple[BilledPart, ...] | None = None
    parts_anyway: tuple[BilledPart, ...] | None = None
    unrestorable: Blocked | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)


def details_of(resource: Resource) -> EndpointDetails:
    """Its details; empty if it wasn't read."""
    return resource.details if isinstance(resource.details, EndpointDetails) else EndpointDetails()


def endpoint_details(
    resource: Resource,
    endpoint: EndpointDescription,
    components: Mapping[str, Row | None],
    scaling: Autoscaling | None,
    deleted: Collection[str],
) -> EndpointDetails:
    """What acting needs. `components`: as described, by name; those read right before an action, in its details already, count too.
    `deleted`: models that were.
    """
    plan = plan_scale_in(resource, endpoint, scaling)
    return EndpointDetails(
        copies={**details_of(resource).copies, **{name: copy_count(row) if row else None for name, row in components.items()}},
        scale_in=plan,
        parts_after_stop=_parts_at_most(endpoint, plan.first_variant),
        parts_anyway=_parts_at_most(endpoint, autoscaling.minimum_by_variant(scaling, resource.name)),
        unrestorable=_unrestorable(resource, endpoint, deleted),
    )


def _unrestorable(resource: Resource, endpoint: EndpointDescription, deleted: Collection[str]) -> Blocked | None:
    """Why it can't be recreated."""
    if endpoint.has_cached_types:
        return Blocked(because=description.CONFIG_NOT_READ, not_read=True)
    because = (
        description.endpoint_unrestorable_because(endpoint)
        or sagemaker.no_room_for_tag_because(resource.tags)
        or sagemaker.missing_model_because(sagemaker.model_names(endpoint.config), deleted)
    )
    return Blocked(because=because) if because else None


def _parts_at_most(endpoint: EndpointDescription, most: Mapping[str, int]) -> tuple[BilledPart, ...] | None:
    """What is paid for with at most so many instances of each variant."""
    fewer = [
        replace(v, instances=tuple((size, min(count, most.get(v.name, count))) for size, count in v.instances))
        for v in endpoint.variants
    ]
    return billed_parts(replace(endpoint, variants=tuple(fewer)))


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """What is still paid for after an action; None if that isn't known."""
    return details_of(resource).parts_after_stop if action is StepName.STOP else ()


def parts_anyway(resource: Resource) -> tuple[BilledPart, ...] | None:
    """What is still paid for once its autoscaling has scaled it in to its minimum."""
    known = details_of(resource).parts_anyway
    return resource.parts if known is None else known


def components_because(resource: Resource) -> str | None:
    """The clause for the components on it. Each is a resource of its own, and a request may wake one without copies."""
    copies = details_of(resource).copies
    if not copies:
        return None
    components = count_noun(len(copies), "component")
    if all(number == 0 for number in copies.values()):
        verb, them = ("is", "it") if len(copies) == 1 else ("are", "them")
        return f"{components} without copies {verb} still on it; delete {them} first"
    return f"it hosts {components}; {'it' if len(copies) == 1 else 'each'} is handled on its own"


def plan_blocked(resource: Resource) -> Blocked | None:
    """Why nothing can be scaled in."""
    plan = details_of(resource).scale_in
    return plan.blocked if plan else None


BLOCKS = (
    block({"Deleting"}, "it is being deleted already", already_done=True),
    block(none_of(*STEADY_STATUSES), "its status is {status}"),
    block(components_because),
    block(lambda r: details_of(r).scale_in is None, "it wasn't checked closely"),
    block(none_of("InService"), "its status is {status}, in which it can't be scaled", StepName.STOP),
    block(plan_blocked, "{0}", StepName.STOP),
    block(sagemaker.undeletable_because, "{0}", StepName.DELETE),
    block(lambda r: details_of(r).unrestorable, "{0}", StepName.DELETE),
)
