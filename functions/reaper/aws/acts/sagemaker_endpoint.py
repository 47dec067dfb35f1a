"""Scaling an endpoint in, deleting it, and undoing both.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace

from reaper.acts import Acts, Manifest, Record, Undone
from reaper.aws import tags
from reaper.aws.acts import autoscaling, component, endpoint_delete, endpoint_restore, endpoint_scale_in
from reaper.aws.cloud import Cloud
from reaper.aws.kinds import sagemaker_endpoint as kind
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Its description and tags, and the tags of every component on it, which may forbid what would take them away."""
    row = endpoint_delete.describe(cloud, resource.name)
    found = kind.resource(cloud, row, tags.fresh(cloud, row["EndpointArn"]))
    inside = {name: _tags(cloud, name) for name in component.listed(cloud, resource.name)}
    return replace(found, facts={"inside": {name: own for name, own in inside.items() if own is not None}})


def _tags(cloud: Cloud, name: str) -> dict[str, str] | None:
    """The component's own tags; None when it is gone."""
    try:
        return tags.fresh(cloud, component.describe(cloud, name)["InferenceComponentArn"])
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return None
        raise


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Read anew; see the modules of the two moves."""
    return endpoint_delete.record(cloud, resource) if move is Move.DELETE else endpoint_scale_in.record(cloud, resource)


def carry(cloud: Cloud, resource: Resource, manifest: Manifest) -> str:
    """Neither move is waited for."""
    if manifest.move is Move.DELETE:
        return endpoint_delete.carry(cloud, resource, manifest)
    return endpoint_scale_in.carry(cloud, resource, manifest)


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Can be run again and again, and then goes on with what is missing."""
    return endpoint_restore.restore(cloud, manifest) if manifest.move is Move.DELETE else endpoint_scale_in.undo(cloud, manifest)


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=(
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
