"""What can be done to an endpoint, and what bars it: the part of the kind that looks ahead to an act. Calls nothing.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reaper.aws import protection, restorable
from reaper.aws.autoscaling import Autoscaling
from reaper.aws.endpoint_description import EndpointDescription, billed_parts
from reaper.aws.scale_in_plan import AVAILABILITY_WARNING, ScaleInPlan, plan_scale_in
from reaper.kind import ActionSpec
from reaper.model import BilledPart, Blocked, Resource, StepName

CHANGING_STATUSES = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
STEADY_STATUSES = {"InService", "OutOfService", "Failed", "UpdateRollbackFailed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionContext:
    """What else a closer look needs: the region's autoscaling, its components' descriptions by name (None: not readable), and
    which models were deleted."""

    autoscaling: Autoscaling | None
    component_rows: Mapping[str, Mapping[str, Any] | None]
    deleted_models: Collection[str] = ()


def endpoint_details(
    resource: Resource, found: EndpointDescription, inside: protection.TagsOfContained, around: RegionContext, now: datetime
) -> dict[str, Any]:
    """What `able` needs. `inside`: the tags of its components as listed; those of a fresh look, in its facts already, count too."""
    fresh: protection.TagsOfContained = resource.facts.get("inside", {})
    way = plan_scale_in(resource, found, tuple(inside), around.autoscaling)
    rows = {name: around.component_rows.get(name) for name in inside}
    return {
        "scale_in": replace(way, blocked=way.blocked or _blocked_without_copies(way, rows)),
        "left": _parts_after_scale_in(found, way),
        "lost": _unrestorable_because(resource, found, inside, rows)
        or _missing_model_because(found, rows, around.deleted_models),
        "kept": protection.protected_inside(inside, now) | protection.protected_inside(fresh, now),
    }


def _blocked_without_copies(way: ScaleInPlan, rows: Mapping[str, Mapping[str, Any] | None]) -> Blocked | None:
    """Where no component has a copy there is none to take; one that cannot be read may have some."""
    runs = [name for name in way.components if (row := rows[name]) is None or restorable.copy_count(row)]
    done = way.components and not runs
    return (
        Blocked(because="its components have no copies already; SageMaker lets its instances go", already_done=True)
        if done
        else None
    )


def _unrestorable_because(
    resource: Resource,
    found: EndpointDescription,
    inside: protection.TagsOfContained,
    rows: Mapping[str, Mapping[str, Any] | None],
) -> str | None:
    """The clause that says why it, with all inside, could not be created again."""
    if odd := restorable.endpoint_unrestorable_because(found) or restorable.no_room_for_tag_because(resource.tags):
        return odd
    for name, row in rows.items():
        if row is None:
            return f"what its component {name} is made of could not be read"
        if odd := restorable.component_unrestorable_because(row) or restorable.no_room_for_tag_because(inside[name]):
            return odd if name in odd else f"{name} inside it: {odd}"
    return None


def _missing_model_because(
    found: EndpointDescription, rows: Mapping[str, Mapping[str, Any] | None], gone: Collection[str]
) -> str | None:
    return restorable.missing_model_because(restorable.model_names(found.config, *(row for row in rows.values() if row)), gone)


def _parts_after_scale_in(found: EndpointDescription, way: ScaleInPlan) -> tuple[BilledPart, ...] | None:
    """What is still paid for after the next action. Without copies of its components SageMaker lets all instances go."""
    if way.components:
        return ()
    least = way.first_variant
    fewer = [
        replace(v, instances=tuple((kind, min(count, least.get(v.name, count))) for kind, count in v.instances))
        for v in found.variants
    ]
    return billed_parts(replace(found, variants=tuple(fewer)))


def parts_after(resource: Resource, move: StepName) -> tuple[BilledPart, ...] | None:
    """What is still paid for after a move; None where that is not known."""
    known: tuple[BilledPart, ...] | None = resource.facts.get("left") if move is StepName.STOP else ()
    return known


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Scaling in needs an endpoint in service; deleting one that could be created again; both one that nothing inside forbids."""
    facts = resource.facts
    kept = {move: Blocked(because=why) for move, why in facts.get("kept", {}).items()}
    first = _blocked_by_state(resource) or (None if "kept" in facts else Blocked(because="it was not looked at closely"))
    return {
        StepName.STOP: first or kept.get(StepName.STOP) or _stop_blocked(resource),
        StepName.DELETE: first or kept.get(StepName.DELETE) or _delete_blocked(resource),
    }


def _blocked_by_state(resource: Resource) -> Blocked | None:
    if resource.status == "Deleting":
        return Blocked(because="it is being deleted already", already_done=True)
    return None if resource.status in STEADY_STATUSES else Blocked(because=f"its status is {resource.status or 'missing'}")


def _stop_blocked(resource: Resource) -> Blocked | None:
    if resource.status != "InService":
        return Blocked(because=f"its status is {resource.status}, in which it cannot be scaled")
    way: ScaleInPlan = resource.facts["scale_in"]
    return way.blocked


def _delete_blocked(resource: Resource) -> Blocked | None:
    if because := protection.undeletable_because(resource.tags):
        return Blocked(because=because)
    lost = resource.facts["lost"]
    return Blocked(because=lost) if lost else None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="scaled in",
        effect="scales in: to no instances where a step scaling policy would wake it again (asynchronous endpoints, hosts of inference "
        f"components that SageMaker scales), else to one instance per variant ({AVAILABILITY_WARNING}); one variant at a time, the one that saves "
        "most first, each with a notice of its own; lowers the autoscaling minimum first",
        undo="brings back the number of instances or copies and the autoscaling minimum, where they are still as the stop left them and "
        "the endpoint is the same; of several variants one after the other, each once the endpoint is in service (run it again then)",
        permissions=(
            "sagemaker:ListTags",
            "sagemaker:UpdateEndpointWeightsAndCapacities",
            "sagemaker:UpdateInferenceComponentRuntimeConfig",
            "application-autoscaling:DescribeScheduledActions",
            "application-autoscaling:RegisterScalableTarget",
        ),
        no_effect_where="one that runs one instance per variant, and is not asynchronous with a policy that would wake it, stays and costs as "
        "before; only `action: delete` ends that",
    ),
    StepName.DELETE: ActionSpec(
        participle="deleted",
        effect="deletes the endpoint, the inference components on it and its autoscaling; the configuration and the models stay; never one "
        "with tags that AWS keeps for itself, such as those of a CloudFormation stack",
        undo="creates it again from the stored manifest: the configuration where it is gone, the endpoint with its tags, and once it "
        "is in service (run it again then) components, autoscaling and numbers of instances; the tags of its autoscaling are lost; what is created "
        "again gets the tag ml-idle-reaper:restored, by which the next run knows it; one that somebody made anew is left as it is",
        permissions=(
            "sagemaker:ListTags",
            "sagemaker:DescribeModel",
            "sagemaker:DeleteEndpoint",
            "sagemaker:DeleteInferenceComponent",
            "application-autoscaling:DescribeScheduledActions",
            "application-autoscaling:DeregisterScalableTarget",
        ),
    ),
}
