"""What can be done to an endpoint, and what bars it: the part of the kind that looks ahead to an act. Calls nothing.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reaper.aws import protection, restorable
from reaper.aws.autoscaling import Scaling
from reaper.aws.endpoint_description import Described, parts
from reaper.aws.scale_in_plan import AVAILABILITY, ScaleIn, scale_in
from reaper.model import Bar, Deed, Move, Part, Resource

UNSETTLED = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
SETTLED = {"InService", "OutOfService", "Failed", "UpdateRollbackFailed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What else a closer look needs: the region's autoscaling, its components' descriptions by name (None: not readable), and
    which models were deleted."""

    read: Scaling | None
    rows: Mapping[str, Mapping[str, Any] | None]
    gone: Collection[str] = ()


def facts(resource: Resource, found: Described, inside: protection.Inside, around: Around, now: datetime) -> dict[str, Any]:
    """What `able` needs. `inside`: the tags of its components as listed; those of a fresh look, in its facts already, count too."""
    fresh: protection.Inside = resource.facts.get("inside", {})
    way = scale_in(resource, found, tuple(inside), around.read)
    rows = {name: around.rows.get(name) for name in inside}
    return {
        "scale_in": replace(way, bar=way.bar or _asleep(way, rows)),
        "left": _scaled(found, way),
        "lost": _lost(resource, found, inside, rows) or _without_model(found, rows, around.gone),
        "kept": protection.kept(inside, now) | protection.kept(fresh, now),
    }


def _asleep(way: ScaleIn, rows: Mapping[str, Mapping[str, Any] | None]) -> Bar | None:
    """Where no component has a copy there is none to take; one that cannot be read may have some."""
    runs = [name for name in way.components if (row := rows[name]) is None or restorable.copies(row)]
    done = way.components and not runs
    return Bar(because="its components have no copies already; SageMaker lets its instances go", done=True) if done else None


def _lost(
    resource: Resource, found: Described, inside: protection.Inside, rows: Mapping[str, Mapping[str, Any] | None]
) -> str | None:
    """The clause that says why it, with all inside, could not be created again."""
    if odd := restorable.endpoint(found) or restorable.crowded(resource.tags):
        return odd
    for name, row in rows.items():
        if row is None:
            return f"what its component {name} is made of could not be read"
        if odd := restorable.component(row) or restorable.crowded(inside[name]):
            return odd if name in odd else f"{name} inside it: {odd}"
    return None


def _without_model(found: Described, rows: Mapping[str, Mapping[str, Any] | None], gone: Collection[str]) -> str | None:
    return restorable.without(restorable.models(found.config, *(row for row in rows.values() if row)), gone)


def _scaled(found: Described, way: ScaleIn) -> tuple[Part, ...] | None:
    """What is still paid for after the next action. Without copies of its components SageMaker lets all instances go."""
    if way.components:
        return ()
    least = way.first
    fewer = [
        replace(v, instances=tuple((kind, min(count, least.get(v.name, count))) for kind, count in v.instances))
        for v in found.variants
    ]
    return parts(replace(found, variants=tuple(fewer)))


def left(resource: Resource, move: Move) -> tuple[Part, ...] | None:
    """What is still paid for after a move; None where that is not known."""
    known: tuple[Part, ...] | None = resource.facts.get("left") if move is Move.STOP else ()
    return known


def able(resource: Resource) -> Mapping[Move, Bar | None]:
    """Scaling in needs an endpoint in service; deleting one that could be created again; both one that nothing inside forbids."""
    facts = resource.facts
    kept = {move: Bar(because=why) for move, why in facts.get("kept", {}).items()}
    first = _state(resource) or (None if "kept" in facts else Bar(because="it was not looked at closely"))
    return {
        Move.STOP: first or kept.get(Move.STOP) or _stop(resource),
        Move.DELETE: first or kept.get(Move.DELETE) or _delete(resource),
    }


def _state(resource: Resource) -> Bar | None:
    if resource.status == "Deleting":
        return Bar(because="it is being deleted already", done=True)
    return None if resource.status in SETTLED else Bar(because=f"its status is {resource.status or 'missing'}")


def _stop(resource: Resource) -> Bar | None:
    if resource.status != "InService":
        return Bar(because=f"its status is {resource.status}, in which it cannot be scaled")
    way: ScaleIn = resource.facts["scale_in"]
    return way.bar


def _delete(resource: Resource) -> Bar | None:
    if because := protection.managed(resource.tags):
        return Bar(because=because)
    lost = resource.facts["lost"]
    return Bar(because=lost) if lost else None


DEEDS = {
    Move.STOP: Deed(
        verb="scaled in",
        what="scales in: to no instances where a step scaling policy would wake it again (asynchronous endpoints, hosts of inference "
        f"components that SageMaker scales), else to one instance per variant ({AVAILABILITY}); one variant at a time, the one that saves "
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
        in_vain="one that runs one instance per variant, and is not asynchronous with a policy that would wake it, stays and costs as "
        "before; only `action: delete` ends that",
    ),
    Move.DELETE: Deed(
        verb="deleted",
        what="deletes the endpoint, the inference components on it and its autoscaling; the configuration and the models stay; never one "
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
