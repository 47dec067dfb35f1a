"""Scaling an endpoint in, deleting it, and undoing both.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace

from reaper.actions.contract import ActionFunctions, ActionResult, CallCheck, Manifest, UndoResult, UndoState
from reaper.aws import tags
from reaper.aws.actions import (
    autoscaling,
    endpoint_delete,
    endpoint_restore,
    endpoint_scale_in,
    endpoint_scale_out,
    inference_component,
)
from reaper.aws.kinds import sagemaker_endpoint as kind
from reaper.aws.kinds import sagemaker_inference_component as component_kind
from reaper.aws.session import CloudSession
from reaper.model import Resource, StepName


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description and tags, and every component on it with its tags: what forbids acts on them forbids what takes them away."""
    row = endpoint_delete.fetch_endpoint(cloud, resource.name)
    own = tags.read_tags_now(cloud, row["EndpointArn"])
    inside: dict[str, dict[str, str]] = {}
    within: list[Resource] = []
    for name in inference_component.component_names(cloud, resource.name):
        if inner := inference_component.find_component(cloud, name):
            inside[name] = tags.read_tags_now(cloud, inner["InferenceComponentArn"])
            within.append(component_kind.contained_resource(cloud, inner, inside[name], own))
    return replace(kind.resource_from_row(cloud, row, own), facts={"inside": inside, "within": tuple(within)})


def read_undo_state(cloud: CloudSession, resource: Resource, move: StepName) -> UndoState:
    """Read anew; see the modules of the two moves."""
    return (
        endpoint_delete.read_undo_state(cloud, resource)
        if move is StepName.DELETE
        else endpoint_scale_in.read_undo_state(cloud, resource)
    )


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Neither move is waited for."""
    if manifest.action is StepName.DELETE:
        return endpoint_delete.perform(cloud, resource, manifest, permit)
    return endpoint_scale_in.perform(cloud, resource, manifest, permit)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing."""
    return (
        endpoint_restore.restore_endpoint(cloud, manifest)
        if manifest.action is StepName.DELETE
        else endpoint_scale_out.undo_scale_in(cloud, manifest)
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
        *autoscaling.RESTORE_PERMISSIONS,
    ),
)
