"""Scaling an endpoint in, deleting it, and undoing both.

Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from reaper.acting.contract import (
    ActionFunctions,
    ActionResult,
    Earlier,
    Interrupted,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
)
from reaper.aws import tags
from reaper.aws.kinds import acting
from reaper.aws.kinds import sagemaker_endpoint as kind
from reaper.aws.kinds import sagemaker_inference_component as components
from reaper.aws.kinds.sagemaker_endpoint import look
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling, delete, restore, scale
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import (
    autoscaling_settings,
    endpoint_settings,
    merged,
)
from reaper.aws.kinds.sagemaker_endpoint.acting.put_back import put_back_minimum
from reaper.aws.kinds.sagemaker_endpoint.blocked import EndpointDetails
from reaper.aws.session import CloudSession
from reaper.model import Resource, SideChange, StepName

HAS_NAME = ("InferenceComponentName",)


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description, its tags, its autoscaling, and which components are on it."""
    row = delete.fetch_endpoint(cloud, resource.name)
    settings, numbers = endpoint_settings(row)
    hosted = [one["InferenceComponentName"] for one in components.list_rows(cloud, *HAS_NAME, EndpointNameEquals=resource.name)]
    saved = autoscaling.read_autoscaling_state(cloud, numbers)
    details = EndpointDetails(
        copies=dict.fromkeys(sorted(hosted)), **merged([(settings, numbers), autoscaling_settings(saved, numbers)])
    )
    own_tags = tags.read_tags_now(cloud, row["EndpointArn"])
    return replace(kind.resource_from_row(cloud, row, own_tags), details=details, fingerprint=look.fingerprint(hosted))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """Read right before the action; see the modules of the two actions."""
    if action is StepName.DELETE:
        return delete.read_undo_state(cloud, resource, earlier)
    return scale.read_undo_state(cloud, resource, earlier)


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Neither action is waited for."""
    if manifest.action is StepName.DELETE:
        return delete.perform(cloud, resource, manifest, permit)
    return scale.perform(cloud, resource, manifest, permit)


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """A deletion changes nothing beside what it deletes."""
    return scale.side_changes(manifest) if manifest.action is StepName.STOP else ()


def put_back(cloud: CloudSession, resource: Resource, interrupted: Interrupted) -> PutBackResult:
    """See the module of that name."""
    return put_back_minimum(cloud, partial(delete.fetch_endpoint, cloud, resource.name), endpoint_settings, interrupted)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing."""
    return (
        restore.restore_endpoint(cloud, manifest) if manifest.action is StepName.DELETE else scale.undo_scale_in(cloud, manifest)
    )


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    side_changes=side_changes,
    put_back=put_back,
    undo=undo,
    undo_permissions=(
        "sagemaker:ListTags",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:CreateEndpointConfig",
        "sagemaker:CreateEndpoint",
        "sagemaker:AddTags",
        "sagemaker:UpdateEndpointWeightsAndCapacities",
        "iam:PassRole",
        *autoscaling.RESTORE_PERMISSIONS,
    ),
    undo_members={StepName.STOP: scale.UNDO_MEMBERS, StepName.DELETE: delete.UNDO_MEMBERS},
    id_pattern=acting.arn_pattern("endpoint/(?P<name>.+)"),
)
