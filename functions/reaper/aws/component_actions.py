"""What can be done to an inference component, and what bars it. Calls nothing.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Mapping

from reaper.aws import protection
from reaper.aws.scale_in_plan import BLOCKED_UNREAD
from reaper.kind import ActionSpec
from reaper.model import Blocked, Resource, StepName


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Copies go to zero only where something would wake them again; one with adapters inside is not deleted."""
    first, facts = _blocked_by_state(resource), resource.facts
    kept = {move: Blocked(because=why) for move, why in facts.get("kept", {}).items()}
    return {
        StepName.STOP: first or kept.get(StepName.STOP) or _stop_blocked(resource),
        StepName.DELETE: first or kept.get(StepName.DELETE) or _delete_blocked(resource),
    }


def _blocked_by_state(resource: Resource) -> Blocked | None:
    if resource.status == "Deleting":
        return Blocked(because="it is being deleted already", already_done=True)
    if resource.status not in {"InService", "Failed"}:
        return Blocked(because=f"its status is {resource.status or 'missing'}")
    if resource.facts.get("base"):
        return Blocked(because=f"it is an adapter inside {resource.facts['base']} and takes no capacity of its own")
    return None if "copies" in resource.facts else Blocked(because="it was not looked at closely")


def _stop_blocked(resource: Resource) -> Blocked | None:
    facts = resource.facts
    if facts["copies"] == 0:
        return Blocked(because="it runs no copies already", already_done=True)
    if resource.status != "InService":
        return Blocked(because=f"its status is {resource.status}, in which it cannot be scaled")
    if facts.get("wakes") is None:
        return BLOCKED_UNREAD
    return (
        None
        if facts["wakes"]
        else Blocked(because="no step scaling policy on NoCapacityInvocationFailures would wake it from zero")
    )


def _delete_blocked(resource: Resource) -> Blocked | None:
    """Its tags are its endpoint's too: a stack that manages the endpoint manages what is on it."""
    if because := protection.undeletable_because(resource.tags):
        return Blocked(because=because)
    if lost := resource.facts.get("lost"):
        return Blocked(because=lost)
    if "adapters" not in resource.facts:
        return None if resource.facts["copies"] == 0 else Blocked(because="whether it has adapters inside could not be read")
    adapters = resource.facts["adapters"]
    return Blocked(because=f"its adapter {adapters[0]} would go with it") if adapters else None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="taken to no copies",
        effect="takes its copies to zero, only where a step scaling policy would wake it again; lowers the autoscaling minimum first",
        undo="brings back its number of copies and the autoscaling minimum, where they are still as the stop left them and it is the same",
        permissions=(
            "sagemaker:ListTags",
            "sagemaker:UpdateInferenceComponentRuntimeConfig",
            "application-autoscaling:DescribeScheduledActions",
            "application-autoscaling:RegisterScalableTarget",
        ),
        no_effect_where="one without a step scaling policy that would wake it keeps its copies; give it one on NoCapacityInvocationFailures, or "
        "write `action: delete`",
    ),
    StepName.DELETE: ActionSpec(
        participle="deleted",
        effect="deletes the component and its autoscaling; the endpoint, its instances and the model stay",
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
