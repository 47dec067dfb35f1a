"""Taking an inference component's copies to zero, deleting it, and undoing both.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateInferenceComponentRuntimeConfig.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionFunctions,
    ActionResult,
    Earlier,
    Interrupted,
    Manifest,
    Members,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
)
from reaper.aws import autoscaling, sagemaker, tags
from reaper.aws.kinds import acting
from reaper.aws.kinds import sagemaker_inference_component as kind
from reaper.aws.kinds.acting import RestoredCount
from reaper.aws.kinds.sagemaker_endpoint.acting import autoscaling as saved_autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting import delete, live_settings
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import (
    autoscaling_settings,
    being_deleted,
    component_settings,
    merged,
    numbers_set,
)
from reaper.aws.kinds.sagemaker_endpoint.acting.put_back import put_back_minimum
from reaper.aws.kinds.sagemaker_inference_component import blocked
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members, tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, SideChange, StepName

NAME_KEYS = blocked.COMPONENT_MEMBERS
SPECIFICATION_MEMBERS: Members = {
    **any_members(*blocked.SPECIFICATION_MEMBERS),
    "Container": any_members("Image", *blocked.CONTAINER_MEMBERS),
}
SAVED_MEMBERS: Members = {
    **any_members(*NAME_KEYS, "LastDeploymentConfig", "copies", "tags", "born"),
    "Specification": SPECIFICATION_MEMBERS,
    "Specifications": SPECIFICATION_MEMBERS,
}
UNDO_MEMBERS = {
    StepName.STOP: {**any_members("born", "made_of", "on", "copies", "least"), "scaling": saved_autoscaling.SAVED_MEMBERS},
    StepName.DELETE: {
        "component": SAVED_MEMBERS,
        "host": None,
        "previous": PREVIOUS_MEMBERS,
        "scaling": saved_autoscaling.SAVED_MEMBERS,
    },
}


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description and tags, merged with its endpoint's as `discover` does, and its autoscaling; and all others on that endpoint."""
    row = _fetch(cloud, resource.name)
    component = kind.resource_from_row(
        cloud, row, tags.read_tags_now(cloud, row["InferenceComponentArn"], kind.endpoint_arn(cloud, row))
    )
    details, id_ = blocked.details_of(component), autoscaling.component_resource_id(component.name)
    parts = [component_settings(row), autoscaling_settings(saved_autoscaling.read_autoscaling_state(cloud, {id_}), {id_})]
    hosted = kind.list_rows(cloud, NAME_KEYS[0], EndpointNameEquals=details.endpoint_name)
    names = sorted({one[NAME_KEYS[0]] for one in hosted} - {component.name})
    found = cloud.map_concurrently(partial(_find, cloud), names)
    siblings = tuple(kind.resource_from_row(cloud, sibling, None) for sibling in found if sibling)
    return replace(component, details=replace(details, siblings=siblings, **merged(parts)))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """Read right before the action. Raises CloudError if it can't be recreated, or if nothing would wake it."""
    id_ = autoscaling.component_resource_id(resource.name)
    if action is StepName.DELETE:
        saved = _read_saved_state(cloud, resource.name)
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
    row = _fetch(cloud, resource.name)
    return {
        "born": acting.first_created(row, tags.read_tags_now(cloud, row["InferenceComponentArn"])),
        "made_of": _specifications_of(row),
        "on": _placement(row),
        "copies": blocked.copy_count(row),
        "least": {id_: 0},
        "scaling": saved_autoscaling.read_autoscaling_state(cloud, {id_}),
    }


def _placement(row: Mapping[str, Any]) -> list[str]:
    return [str(row.get(name, "")) for name in NAME_KEYS[1:]]


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
        _set_copies(cloud.change, resource.name, 0)
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
    return put_back_minimum(cloud, partial(_fetch, cloud, resource.name), component_settings, interrupted)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing. Copies that were chosen since stay as they are."""
    if manifest.action is StepName.DELETE:
        return _undo_delete(cloud, manifest)
    saved, name = manifest.undo_state, manifest.name
    row = _fetch(cloud, name)
    if not acting.is_same_resource(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise CloudError.left_alone("sagemaker:UpdateInferenceComponentRuntimeConfig", f"{name} has been recreated since")
    if _specifications_of(row) != saved["made_of"] or _placement(row) != saved["on"]:
        raise CloudError.left_alone(
            "sagemaker:UpdateInferenceComponentRuntimeConfig", f"{name} has another specification, endpoint or variant now"
        )
    id_ = autoscaling.component_resource_id(name)
    copies = RestoredCount(
        label=f"The number of copies of {name}",
        before=saved["copies"],
        stopped_at=0,
        now=blocked.copy_count(row),
        maximum=live_settings.maximum_by_id(cloud).get(id_),
    )
    if copies.count_to_request is not None:
        _set_copies(cloud.call, name, copies.count_to_request)
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
        raise CloudError.left_alone("sagemaker:CreateInferenceComponent", f"its endpoint {endpoint} has been recreated since")
    lost: list[str] = []
    status, was_created = _recreate(cloud, saved["component"], lost)
    if status in {"Deleting", "Failed"}:
        raise _undo_refusal(f"the status of {name} is {status}")
    later: list[str] = []
    if saved["scaling"]["targets"]:
        lost.append("The tags of its autoscaling are lost.")
        later.append(f"Not restored yet: autoscaling. Its status is {status}; run this again once it is in service.")
        if status == "InService":
            later = saved_autoscaling.restore_autoscaling(cloud, saved["scaling"], {autoscaling.component_resource_id(name)})
    because = "it was recreated" if was_created else f"its status is {status}"
    return UndoResult(because=because, not_restored=(*later, *lost), run_again=bool(later))


def _undo_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:CreateInferenceComponent", text)


def _fetch(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The reply as it is."""
    return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def _find(cloud: CloudSession, name: str) -> dict[str, Any] | None:
    """The reply as it is; None when it is gone."""
    return cloud.find("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)


def _status_of(row: Mapping[str, Any]) -> str:
    """What a description says."""
    return str(row.get("InferenceComponentStatus", ""))


def _recreate(cloud: CloudSession, saved: Mapping[str, Any], lost: list[str]) -> tuple[str, bool]:
    """Its status and whether it was created now. Raises CloudError if another one has its name."""
    name = saved["InferenceComponentName"]
    if saved.get("LastDeploymentConfig"):
        lost.append(f"The last deployment settings of {name} aren't restored.")
    row = _find(cloud, name)
    if row is None:
        _create(cloud, saved, lost)
        return _status_of(_fetch(cloud, name)), True
    if not acting.is_same_resource(cloud, row, row["InferenceComponentArn"], saved.get("born")):
        raise CloudError.left_alone("sagemaker:CreateInferenceComponent", f"{name} has been recreated since")
    return _status_of(row), False


def _read_saved_state(cloud: CloudSession, name: str) -> dict[str, Any]:
    """The parameters of CreateInferenceComponent, with its tags. Raises CloudError for what is not brought back, such as an adapter."""
    row = _fetch(cloud, name)
    if odd := blocked.component_unrestorable_because(row):
        raise CloudError(Reason.REFUSED, "sagemaker:DescribeInferenceComponent", odd)
    own_tags = tags.read_tags_now(cloud, row["InferenceComponentArn"])
    first_created_at = acting.first_created(row, own_tags)
    acting.with_restored_tag(own_tags, first_created_at)
    saved = {**chosen_members(row, *NAME_KEYS, "LastDeploymentConfig"), **_specifications_of(row)}
    return {**saved, "copies": blocked.copy_count(row), "tags": own_tags, "born": first_created_at}


def _specifications_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What it runs, as create calls take it."""
    if row.get("Specification"):
        return {"Specification": _specification_to_create(row["Specification"])}
    return {"Specifications": [_specification_to_create(component) for component in row.get("Specifications") or ()]}


def _create(cloud: CloudSession, saved: Mapping[str, Any], lost: list[str]) -> None:
    """Recreate it, with the tag that marks it, and as many copies as before.

    The API model allows 0 copies. If AWS refuses them all the same, it gets one, and `lost` gets a sentence.
    """
    params = {name: saved[name] for name in (*NAME_KEYS, "Specification", "Specifications") if name in saved}
    params |= tags_parameter(acting.with_restored_tag(saved["tags"], saved["born"]))
    try:
        _call_create(cloud, params, saved["copies"])
    except CloudError as error:
        if saved["copies"] or error.reason is not Reason.REFUSED:
            raise
        _call_create(cloud, params, 1)
        lost.append(
            f"{saved['InferenceComponentName']} has one copy instead of 0, because AWS refused to create it with none ({error})."
        )


def _call_create(cloud: CloudSession, params: Mapping[str, Any], count: int) -> None:
    runtime = {"CopyCount": count}
    cloud.call("sagemaker", "CreateInferenceComponent", "InferenceComponentArn", **params, RuntimeConfig=runtime)


def _set_copies(send: Callable[..., Any], name: str, count: int) -> None:
    """Ask for that many copies. `send`: the session's `call` or `change`."""
    send(
        "sagemaker",
        "UpdateInferenceComponentRuntimeConfig",
        "InferenceComponentArn",
        InferenceComponentName=name,
        DesiredRuntimeConfig={"CopyCount": count},
    )


def _specification_to_create(row: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as create calls take it; the reply shows an image as it was named and as it was found."""
    spec = chosen_members(row, *blocked.SPECIFICATION_MEMBERS)
    if container := row.get("Container"):
        image = {"Image": (container.get("DeployedImage") or {}).get("SpecifiedImage")}
        members = chosen_members(container, *blocked.CONTAINER_MEMBERS)
        spec["Container"] = {**({k: to_plain_json(v) for k, v in image.items() if v}), **members}
    return spec


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
