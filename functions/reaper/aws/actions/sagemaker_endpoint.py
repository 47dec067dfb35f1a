"""Scaling an endpoint in, deleting it, and undoing both.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace

from reaper.actions.contract import ActionFunctions, ActionResult, CallCheck, Earlier, Manifest, UndoResult, UndoState
from reaper.aws import tags
from reaper.aws.actions import endpoint_delete, endpoint_restore, endpoint_scale, inference_component, saved_autoscaling
from reaper.aws.endpoint_actions import EndpointDetails
from reaper.aws.kinds import sagemaker_endpoint as kind
from reaper.aws.kinds import sagemaker_inference_component as component_kind
from reaper.aws.session import CloudSession
from reaper.model import Resource, StepName


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description and tags, and every component on it with its tags: what forbids acts on them forbids what takes them away."""
    row = endpoint_delete.fetch_endpoint(cloud, resource.name)
    own_tags = tags.read_tags_now(cloud, row["EndpointArn"])
    component_tags: dict[str, dict[str, str]] = {}
    contained: list[Resource] = []
    for name in inference_component.component_names(cloud, resource.name):
        if inner := inference_component.find_component(cloud, name):
            component_tags[name] = tags.read_tags_now(cloud, inner["InferenceComponentArn"])
            contained.append(component_kind.contained_resource(cloud, inner, component_tags[name], own_tags))
    endpoint = kind.resource_from_row(cloud, row, own_tags)
    return replace(endpoint, details=EndpointDetails(component_tags=component_tags), contained=tuple(contained))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """Read right before the action; see the modules of the two actions."""
    if action is StepName.DELETE:
        return endpoint_delete.read_undo_state(cloud, resource, earlier)
    return endpoint_scale.read_undo_state(cloud, resource, earlier)


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Neither action is waited for."""
    if manifest.action is StepName.DELETE:
        return endpoint_delete.perform(cloud, resource, manifest, permit)
    return endpoint_scale.perform(cloud, resource, manifest, permit)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing."""
    return (
        endpoint_restore.restore_endpoint(cloud, manifest)
        if manifest.action is StepName.DELETE
        else endpoint_scale.undo_scale_in(cloud, manifest)
    )


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(
        "sagemaker:ListTags",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:CreateEndpointConfig",
        "sagemaker:CreateEndpoint",
        "sagemaker:CreateInferenceComponent",
        "sagemaker:AddTags",
        "sagemaker:UpdateEndpointWeightsAndCapacities",
        "sagemaker:UpdateInferenceComponentRuntimeConfig",
        "iam:PassRole",
        *saved_autoscaling.RESTORE_PERMISSIONS,
    ),
)
