"""What can be done to an inference component, and what bars it. Calls nothing.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Mapping

from reaper.aws import protection
from reaper.aws.scale_in_plan import UNREAD
from reaper.model import Bar, Deed, Move, Resource


def able(resource: Resource) -> Mapping[Move, Bar | None]:
    """Copies go to zero only where something would wake them again; one with adapters inside is not deleted."""
    first, facts = _state(resource), resource.facts
    kept = {move: Bar(because=why) for move, why in facts.get("kept", {}).items()}
    return {
        Move.STOP: first or kept.get(Move.STOP) or _stop(resource),
        Move.DELETE: first or kept.get(Move.DELETE) or _delete(resource),
    }


def _state(resource: Resource) -> Bar | None:
    if resource.status == "Deleting":
        return Bar(because="it is being deleted already", done=True)
    if resource.status not in {"InService", "Failed"}:
        return Bar(because=f"its status is {resource.status or 'missing'}")
    if resource.facts.get("base"):
        return Bar(because=f"it is an adapter inside {resource.facts['base']} and takes no capacity of its own")
    return None if "copies" in resource.facts else Bar(because="it was not looked at closely")


def _stop(resource: Resource) -> Bar | None:
    facts = resource.facts
    if facts["copies"] == 0:
        return Bar(because="it runs no copies already", done=True)
    if resource.status != "InService":
        return Bar(because=f"its status is {resource.status}, in which it cannot be scaled")
    if facts.get("wakes") is None:
        return UNREAD
    return (
        None if facts["wakes"] else Bar(because="no step scaling policy on NoCapacityInvocationFailures would wake it from zero")
    )


def _delete(resource: Resource) -> Bar | None:
    """Its tags are its endpoint's too: a stack that manages the endpoint manages what is on it."""
    if because := protection.managed(resource.tags):
        return Bar(because=because)
    if lost := resource.facts.get("lost"):
        return Bar(because=lost)
    if "adapters" not in resource.facts:
        return None if resource.facts["copies"] == 0 else Bar(because="whether it has adapters inside could not be read")
    adapters = resource.facts["adapters"]
    return Bar(because=f"its adapter {adapters[0]} would go with it") if adapters else None


DEEDS = {
    Move.STOP: Deed(
        verb="taken to no copies",
        what="takes its copies to zero, only where a step scaling policy would wake it again; lowers the autoscaling minimum first",
        undo="brings back its number of copies and the autoscaling minimum, where they are still as the stop left them and it is the same",
        permissions=(
            "sagemaker:ListTags",
            "sagemaker:UpdateInferenceComponentRuntimeConfig",
            "application-autoscaling:DescribeScheduledActions",
            "application-autoscaling:RegisterScalableTarget",
        ),
        in_vain="one without a step scaling policy that would wake it keeps its copies; give it one on NoCapacityInvocationFailures, or "
        "write `action: delete`",
    ),
    Move.DELETE: Deed(
        verb="deleted",
        what="deletes the component and its autoscaling; the endpoint, its instances and the model stay",
        undo="creates it again on its endpoint with its tags and copies, and once it is in service (run it again then) its autoscaling; "
        "it gets the tag ml-idle-reaper:restored, by which the next run knows it; one that somebody made anew is left as it is",
        permissions=(
            "sagemaker:ListTags",
            "sagemaker:DescribeEndpoint",
            "sagemaker:DescribeModel",
            "sagemaker:DeleteInferenceComponent",
            "application-autoscaling:DescribeScheduledActions",
            "application-autoscaling:DeregisterScalableTarget",
        ),
    ),
}
