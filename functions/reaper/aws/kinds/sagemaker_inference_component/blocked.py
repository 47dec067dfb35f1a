"""What can be done to an inference component, and what blocks it. Pure.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reaper.aws import sagemaker
from reaper.aws.autoscaling import BLOCKED_UNREAD
from reaper.aws.sagemaker import in_account, sagemaker_line, unknown_members_clause
from reaper.case import Blocked
from reaper.kind import ActionSpec, Command
from reaper.model import Resource, StepName

CHANGING_STATUSES = {"Creating", "Updating"}
STEADY_STATUSES = {"InService", "Failed"}
COMPONENT_MEMBERS = ("InferenceComponentName", "EndpointName", "VariantName")
COMPONENT_SERVICE_MEMBERS = {
    "CreationTime", "LastModifiedTime", "EndpointArn", "InferenceComponentArn", "InferenceComponentStatus", "FailureReason",
    "Specification", "Specifications", "RuntimeConfig", "LastDeploymentConfig",
}  # fmt: skip
SPECIFICATION_MEMBERS = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CONTAINER_MEMBERS = ("ArtifactUrl", "Environment", "ContainerMetricsConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDetails:
    """What a component is made of, from its description, which `is_described` says was read.

    `siblings`: the other components of its endpoint, between a read right before an action and the observation after it. `can_wake`: whether
    autoscaling would wake it from zero copies; None if that couldn't be read. `adapters`: their names; None if they weren't read.
    `settings` and `numbers`: what may be changed about it, as read right before an action.
    """

    endpoint_name: str = ""
    siblings: tuple[Resource, ...] = ()
    is_described: bool = False
    copies: int | None = None
    base_component: str | None = None
    models: tuple[str, ...] = ()
    unrestorable_because: str | None = None
    can_wake: bool | None = None
    adapters: tuple[str, ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)


def details_of(resource: Resource) -> ComponentDetails:
    """Its details; empty if it wasn't read."""
    return resource.details if isinstance(resource.details, ComponentDetails) else ComponentDetails()


def blocked_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """Copies go to zero only if something would wake them again; nothing is done to a component with adapters on it."""
    blocked = _blocked_by_state(resource) or _blocked_by_adapters(details_of(resource))
    return {
        StepName.STOP: blocked or _stop_blocked(resource),
        StepName.DELETE: blocked or _delete_blocked(resource),
    }


def _blocked_by_state(resource: Resource) -> Blocked | None:
    details = details_of(resource)
    if resource.status == "Deleting":
        return Blocked(because="it is being deleted already", already_done=True)
    if resource.status not in {"InService", "Failed"}:
        return Blocked(because=f"its status is {resource.status or 'missing'}")
    if details.base_component:
        return Blocked(because=f"it is an adapter inside {details.base_component} and uses no capacity of its own")
    return None if details.is_described else Blocked(because="it wasn't checked closely")


def _stop_blocked(resource: Resource) -> Blocked | None:
    details = details_of(resource)
    if details.copies == 0:
        return Blocked(because="it runs no copies already", already_done=True)
    if resource.status != "InService":
        return Blocked(because=f"its status is {resource.status}, in which it can't be scaled")
    if details.can_wake is None:
        return BLOCKED_UNREAD
    because = "no step scaling policy on NoCapacityInvocationFailures would wake it from zero"
    return None if details.can_wake else Blocked(because=because)


def _delete_blocked(resource: Resource) -> Blocked | None:
    """Its tags include its endpoint's: a stack that manages the endpoint manages what is on it."""
    because = sagemaker.undeletable_because(resource.tags) or details_of(resource).unrestorable_because
    return Blocked(because=because) if because else None


def _blocked_by_adapters(details: ComponentDetails) -> Blocked | None:
    """Adapters run inside it: what ends it ends them."""
    if details.adapters is None:
        return None if details.copies == 0 else Blocked(because="whether adapters are on it couldn't be read")
    count = len(details.adapters)
    if count > 1:
        return Blocked(because=f"{count} adapters are on it; delete them first")
    return Blocked(because=f"the adapter {details.adapters[0]} is on it; delete it first") if count else None


def component_unrestorable_because(row: Mapping[str, Any]) -> str | None:
    """The clause that says why an inference component can't be recreated; adapters never are."""
    specs = [s for s in (row.get("Specification"), *(row.get("Specifications") or ())) if s]
    name = row.get("InferenceComponentName")
    if not specs or any(s.get("BaseInferenceComponentName") for s in specs):
        return f"{name} is an adapter or has no readable specification, so it couldn't be recreated"
    odd = [
        unknown_members_clause(row, COMPONENT_MEMBERS, COMPONENT_SERVICE_MEMBERS),
        *(unknown_members_clause(s, SPECIFICATION_MEMBERS, ("Container",)) for s in specs),
    ]
    odd += [unknown_members_clause(s.get("Container") or {}, CONTAINER_MEMBERS, ("DeployedImage",)) for s in specs]
    return next((f"the component {name} {one}" for one in odd if one), None)


def copy_count(row: Mapping[str, Any]) -> int:
    """How many copies a component is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def remove_copies_command(resource: Resource) -> Command:
    """The line that takes its copies to zero."""
    line = sagemaker_line(resource, "update-inference-component-runtime-config", inference_component_name=resource.name)
    return Command(label=in_account(resource, "Scale it to zero now"), line=f"{line} --desired-runtime-config CopyCount=0")


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="scaled to zero copies",
        noun="scale-in",
        effect="takes its copies to zero, only if a step scaling policy would wake it again and no adapters are on it; lowers the autoscaling "
        "minimum first",
        undo="restores its copy count and the autoscaling minimum, if they are still as the stop left them and it is the same component",
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
        effect="deletes the component and its autoscaling; the endpoint, its instances and the model stay; never one with adapters on it",
        undo="recreates it on its endpoint with its tags and copies, and once it is in service (run it again then) its autoscaling; "
        "it gets the tag ml-idle-reaper:restored, which tells the next run to continue; one that a person recreated is left alone",
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
