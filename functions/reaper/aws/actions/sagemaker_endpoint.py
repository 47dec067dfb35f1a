"""Scaling an endpoint in, deleting it, and undoing both.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
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
from reaper.aws.session import Cloud
from reaper.model import Move, Resource


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Its description and tags, and every component on it with its tags: what forbids acts on them forbids what takes them away."""
    row = endpoint_delete.describe(cloud, resource.name)
    own = tags.fresh(cloud, row["EndpointArn"])
    inside: dict[str, dict[str, str]] = {}
    within: list[Resource] = []
    for name in inference_component.listed(cloud, resource.name):
        if inner := inference_component.find(cloud, name):
            inside[name] = tags.fresh(cloud, inner["InferenceComponentArn"])
            within.append(component_kind.inside(cloud, inner, inside[name], own))
    return replace(kind.resource(cloud, row, own), facts={"inside": inside, "within": tuple(within)})


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Read anew; see the modules of the two moves."""
    return endpoint_delete.record(cloud, resource) if move is Move.DELETE else endpoint_scale_in.record(cloud, resource)


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Neither move is waited for."""
    if manifest.move is Move.DELETE:
        return endpoint_delete.carry(cloud, resource, manifest, permit)
    return endpoint_scale_in.carry(cloud, resource, manifest, permit)


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Can be run again and again, and then goes on with what is missing."""
    return endpoint_restore.restore(cloud, manifest) if manifest.move is Move.DELETE else endpoint_scale_out.undo(cloud, manifest)


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
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
        *autoscaling.RESTORING,
    ),
)
