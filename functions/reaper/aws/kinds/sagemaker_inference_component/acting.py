"""Taking an inference component's copies to zero, deleting it, and undoing both.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateInferenceComponentRuntimeConfig.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionFunctions,
    ActionResult,
    Earlier,
    Interrupted,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
)
from reaper.aws import autoscaling, sagemaker, tags
from reaper.aws.kinds import acting
from reaper.aws.kinds import sagemaker_inference_component as kind
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting import components, delete, live_settings
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import (
    autoscaling_settings,
    being_deleted,
    component_settings,
    merged,
    numbers_set,
)
from reaper.aws.kinds.sagemaker_endpoint.acting.put_back import put_back as put_back_minima
from reaper.aws.kinds.sagemaker_inference_component import blocked
from reaper.aws.sagemaker import ANY_REPLY_KEY
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, SideChange, StepName

UNDO_MEMBERS = {
    StepName.STOP: {**any_members("born", "made_of", "on", "copies", "least"), "scaling": saved_autoscaling.SAVED_MEMBERS},
    StepName.DELETE: {
        "component": components.SAVED_MEMBERS,
        "host": None,
        "previous": PREVIOUS_MEMBERS,
        "scaling": saved_autoscaling.SAVED_MEMBERS,
    },
}


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description and tags, merged with its endpoint's as `discover` does, and its autoscaling; and all others on that endpoint."""
    row = components.fetch_component(cloud, resource.name)
    component = _with_tags(cloud, row)
    details, id_ = blocked.details_of(component), autoscaling.component_resource_id(component.name)
    parts = [component_settings(row), autoscaling_settings(saved_autoscaling.read_autoscaling_state(cloud, {id_}), {id_})]
    names = sorted(set(components.component_names(cloud, details.endpoint_name)) - {component.name})
    siblings = cloud.map_concurrently(lambda name: _read_sibling(cloud, name), names)
    known = replace(details, siblings=tuple(filter(None, siblings)), **merged(parts))
    return replace(component, details=known)


def _with_tags(cloud: CloudSession, row: Mapping[str, Any]) -> Resource:
    return kind.resource_from_row(
        cloud, row, tags.read_tags_now(cloud, row["InferenceComponentArn"], kind.endpoint_arn(cloud, row))
    )


def _read_sibling(cloud: CloudSession, name: str) -> Resource | None:
    row = components.find_component(cloud, name)
    return _with_tags(cloud, row) if row else None


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """Read right before the action. Raises CloudError if it can't be recreated, or if nothing would wake it."""
    id_ = autoscaling.component_resource_id(resource.name)
    if action is StepName.DELETE:
        saved = components.read_component_state(cloud, resource.name)
        delete.require_models(cloud, sagemaker.model_names(saved))
        return {
            "component": saved,
            "host": _endpoint_first_created(cloud, saved["EndpointName"]),
            "scaling": saved_autoscaling.read_autoscaling_state(cloud, {id_}, will_be_deleted=True),
            "previous": earlier.record,
        }
    if not autoscaling.can_wake_component(autoscaling.read_autoscaling_of(cloud, {id_}), resource.name):
        text = f"{resource.name}: nothing would scale it up from zero any more"
        raise CloudError(Reason.REFUSED, "application-autoscaling:DescribeScalingPolicies", text)
    row = components.fetch_component(cloud, resource.name)
    return {
        "born": components.component_first_created(cloud, row),
        "made_of": components.specifications_of(row),
        "on": _placement(row),
        "copies": blocked.copy_count(row),
        "least": {id_: 0},
        "scaling": saved_autoscaling.read_autoscaling_state(cloud, {id_}),
    }


def _placement(row: Mapping[str, Any]) -> list[str]:
    return [str(row.get(name, "")) for name in components.NAME_KEYS[1:]]


def _endpoint_first_created(cloud: CloudSession, endpoint: str) -> str:
    """Which endpoint of its name it is on."""
    row = cloud.call("sagemaker", "DescribeEndpoint", "EndpointStatus", EndpointName=endpoint)
    return acting.first_created(row, tags.read_tags_now(cloud, row["EndpointArn"]))


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Neither action is waited for. Before a stop the autoscaling minimum is lowered, or autoscaling would undo it."""
    saved = manifest.undo_state
    if manifest.action is StepName.DELETE:
        with permit():
            cloud.change("sagemaker", "DeleteInferenceComponent", ANY_REPLY_KEY, InferenceComponentName=resource.name)
        remaining = saved_autoscaling.deregister_targets(cloud, saved["scaling"], permit, being_deleted(resource))
        return ActionResult(because="; ".join(["it is being deleted; its endpoint and model stay", *remaining]))
    with permit(numbers_set(live_settings.lower_minimum(cloud, manifest, permit))):
        components.set_copies(cloud.change, resource.name, 0)
    summary = f"its {saved['copies']} copies are scaling to zero; a request scales it up again"
    return ActionResult(because=summary + sagemaker.stack_warning(resource.tags))


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """The autoscaling minimum, and the copies of the stop itself: they show whether it took effect."""
    if manifest.action is not StepName.STOP:
        return ()
    saved = manifest.undo_state
    copies = SideChange(what=autoscaling.component_resource_id(manifest.name), before=saved["copies"], ours=0)
    return (*live_settings.minimum_changes(saved["scaling"], saved["least"]), copies)


def put_back(cloud: CloudSession, resource: Resource, interrupted: Interrupted) -> PutBackResult:
    """See the module of that name."""
    return put_back_minima(cloud, components.fetch_component(cloud, resource.name), interrupted)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing. Copies that were chosen since stay as they are."""
    if manifest.action is StepName.DELETE:
        return _undo_delete(cloud, manifest)
    saved, name = manifest.undo_state, manifest.name
    row = components.fetch_component(cloud, name)
    if not acting.is_same_resource(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise acting.recreated_error("sagemaker:UpdateInferenceComponentRuntimeConfig", name)
    if components.specifications_of(row) != saved["made_of"] or _placement(row) != saved["on"]:
        raise _undo_refusal(f"{name} has another specification, endpoint or variant now, so the reaper left it alone")
    id_ = autoscaling.component_resource_id(name)
    copies = components.restored_copies(row, saved["copies"], live_settings.maximum_by_id(cloud).get(id_))
    components.restore_copies(cloud, name, copies)
    chosen = {id_: copies.now} if copies.was_chosen_since else {}
    lost = [*copies.not_restored, *live_settings.raise_minimum(cloud, saved["scaling"], saved["least"], chosen)]
    requested = f"{copies.count_to_request} copies were requested again"
    return UndoResult(
        because=requested if copies.count_to_request is not None else "its copies stay as they are", not_restored=tuple(lost)
    )


def _undo_delete(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    saved, name = manifest.undo_state, manifest.name
    endpoint, saved_name = saved["component"]["EndpointName"], saved["component"]["InferenceComponentName"]
    if saved_name != name:
        raise _undo_refusal(f"the manifest's record is about {saved_name}, so it isn't used")
    if _endpoint_first_created(cloud, endpoint) != saved.get("host"):
        raise _undo_refusal(f"its endpoint {endpoint} has been recreated since, so {name} can't be recreated there")
    lost: list[str] = []
    status, was_created = components.recreate_component(cloud, saved["component"], lost)
    if status in {"Deleting", "Failed"}:
        raise _undo_refusal(f"the status of {name} is {status}")
    waits = bool(saved["scaling"]["targets"]) and status != "InService"
    if saved["scaling"]["targets"]:
        later = (
            [_waiting_sentence(status)]
            if waits
            else saved_autoscaling.restore_autoscaling(cloud, saved["scaling"], {autoscaling.component_resource_id(name)})
        )
        lost, waits = [*later, *lost], bool(later)
        lost.append("The tags of its autoscaling are lost.")
    return UndoResult(
        because="it was recreated" if was_created else f"its status is {status}", not_restored=tuple(lost), run_again=waits
    )


def _undo_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:CreateInferenceComponent", text)


def _waiting_sentence(status: str) -> str:
    return f"Not restored yet: autoscaling. Its status is {status}; run this again once it is in service."


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
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:CreateInferenceComponent",
        "sagemaker:UpdateInferenceComponentRuntimeConfig",
        "sagemaker:AddTags",
        "iam:PassRole",
        *saved_autoscaling.RESTORE_PERMISSIONS,
    ),
    undo_members=UNDO_MEMBERS,
    id_pattern=acting.arn_pattern("inference-component/(?P<name>.+)"),
)
