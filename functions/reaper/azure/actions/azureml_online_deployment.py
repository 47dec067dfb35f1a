"""Online deployments: down to one instance, deleted with all that is needed to create them again, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments; traffic is changed by PUT of the whole endpoint:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import ActionFunctions, ActionResult, CallCheck, Earlier, Manifest, UndoResult, UndoState
from reaper.azure import assets, deployments, traffic
from reaper.azure.actions import deployment_restore, endpoint_traffic, identity
from reaper.azure.actions.endpoint_traffic import provisioning_state
from reaper.azure.count import valid_count
from reaper.azure.deployments import READ_DEPLOYMENTS, Deployment
from reaper.azure.kinds import azureml_online_deployment as kind
from reaper.azure.request import UNREADABLE_REPLY_ERRORS, ArmRequest, Json
from reaper.azure.writes import (
    always_permit,
    chosen_settings,
    message_without_operation,
    require_settled,
    was_already_written,
    with_retry_advice,
    write,
)
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

DELETE_PERMISSION, WRITE_PERMISSION = f"{deployments.DEPLOYMENT_ROOT}/delete", f"{deployments.DEPLOYMENT_ROOT}/write"
SETTINGS_KEYS = ("properties", "sku", "tags", "identity", "kind", "location")


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags, its traffic and its siblings as they are now."""
    found = _parse_deployment(cloud, deployments.read_deployment_now(cloud, resource.id, resource.facts["workspace"]))
    return replace(found, id=resource.id, name=resource.name)


def read_undo_state(cloud: CloudSession, resource: Resource, move: StepName, earlier: Earlier) -> UndoState:
    """The whole deployment and its endpoint with its traffic, and of one that is to be deleted, what it can be created from again.

    Raises CloudError where it could not be created again.
    """
    row, endpoint = (
        deployments.read_deployment(cloud, resource.id),
        deployments.read_endpoint(cloud, deployments.endpoint_id(resource.id)),
    )
    made_from = assets.require_assets(cloud, row, resource.facts["workspace"]) if move is StepName.DELETE else []
    return {"deployment": row, "endpoint": endpoint, "assets": made_from, "previous": earlier.manifest_address}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Start to scale it in, or to delete it. Raises CloudError, and does nothing, where it is not as recorded any more."""
    now = deployments.read_deployment_now(cloud, resource.id, resource.facts["workspace"])
    _require_unchanged(cloud, resource, manifest, now)
    if manifest.action is StepName.STOP:
        return ActionResult(because=_scale_in(cloud, now.row, permit))
    _require_same_endpoint(now.endpoint, manifest, traffic.traffic_by_name(manifest.undo_state["endpoint"]))
    share = traffic.traffic_percent(now.endpoint, now.row["name"])
    if share:
        return ActionResult(because=_delete_with_traffic(cloud, resource, manifest, share, permit))
    return ActionResult(because=_delete_deployment(cloud, now.row["id"], permit))


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """As many instances as before; or the deployment itself, and once it is there, its traffic."""
    way = _scale_out if manifest.action is StepName.STOP else deployment_restore.restore_deployment
    return with_retry_advice(lambda: way(cloud, manifest))


def _parse_deployment(cloud: CloudSession, one: Deployment) -> Resource:
    try:
        return kind.deployment_resource(cloud, one)
    except UNREADABLE_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, READ_DEPLOYMENTS, f"{one.row.get('id')} cannot be read ({error!r})") from error


def _require_unchanged(cloud: CloudSession, resource: Resource, manifest: Manifest, now: Deployment) -> None:
    """Raises CloudError where it, or a tag that it has from anywhere, is not as when the act was decided, or something bars the act now."""
    old, known = manifest.undo_state["deployment"], _parse_deployment(cloud, now)
    changed = [key for key in SETTINGS_KEYS if chosen_settings(now.row).get(key) != chosen_settings(old).get(key)]
    if known.tags != resource.tags and "tags" not in changed:
        changed.append("tags")
    if changed:
        raise CloudError(Reason.REFUSED, kind.NAME, f"its {', '.join(changed)} changed a moment ago")
    identity.require_same(identity.deployment_identity(old), identity.deployment_identity(now.row), kind.NAME)
    if bar := kind.blocked_actions(kind.with_autoscale(cloud, known))[manifest.action]:
        raise CloudError(Reason.REFUSED, kind.NAME, bar.because)


def _require_same_endpoint(endpoint: Json, manifest: Manifest, shares: dict[str, Any] | None) -> None:
    """Raises CloudError where the endpoint is not as recorded, with these `shares` of its traffic; zeros may be left out."""
    old = manifest.undo_state["endpoint"]
    identity.require_same(identity.endpoint_identity(old), identity.endpoint_identity(endpoint), kind.NAME, "its endpoint")
    changed = [key for key in SETTINGS_KEYS if _without_traffic(endpoint).get(key) != _without_traffic(old).get(key)]
    given = [
        {name: share for name, share in (found or {}).items() if share} for found in (traffic.traffic_by_name(endpoint), shares)
    ]
    changed += ["traffic"] if given[0] != given[1] else []
    if changed:
        raise CloudError(Reason.REFUSED, kind.NAME, f"its endpoint's {', '.join(changed)} changed a moment ago")


def _without_traffic(endpoint: Json) -> Json:
    found = chosen_settings(endpoint)
    return {**found, "properties": {key: value for key, value in found["properties"].items() if key != traffic.TRAFFIC_KEY}}


def _scale_in(cloud: CloudSession, row: Json, permit: CallCheck) -> str:
    _set_instances(cloud, row, 1, permit)
    return f"scaling it from {row['sku']['capacity']} instances to one has begun; the next sweep sees what became of it"


def _set_instances(cloud: CloudSession, row: Json, capacity: int, permit: CallCheck) -> None:
    """Tags are not sent along: as they were read they might undo one that was set just now."""
    id_ = row["id"]
    call = ArmRequest(permission=WRITE_PERMISSION, path=id_, body={"sku": {**row["sku"], "capacity": capacity}}, method="PATCH")
    make = partial(write, cloud, call, id_, READ_DEPLOYMENTS, permit)
    was_already_written(make, lambda: (deployments.read_deployment(cloud, id_).get("sku") or {}).get("capacity") == capacity)


def _scale_out(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """The old number of instances, where it is the same deployment, or its like from a restore, and runs the one that it was scaled to."""
    row, recorded = deployments.read_deployment(cloud, manifest.id), manifest.undo_state["deployment"]
    if not deployment_restore.is_recreated(row, manifest, "properties", "tags"):
        identity.require_same(identity.deployment_identity(recorded), identity.deployment_identity(row), WRITE_PERMISSION)
    require_settled(provisioning_state(row), WRITE_PERMISSION)
    now, old = valid_count((row.get("sku") or {}).get("capacity")), recorded["sku"]["capacity"]
    if now is None:
        raise CloudError(Reason.UNREADABLE, READ_DEPLOYMENTS, f"how many instances {manifest.name} runs is not known")
    if now == old:
        return UndoResult(because=f"it runs {now} instances already")
    if now != 1:
        return UndoResult(because=f"it runs {now} instances, which somebody or autoscale chose since: left as it is")
    _set_instances(cloud, row, old, always_permit)
    return UndoResult(because=f"scaling it back from {now} to {old} instances has begun")


def _delete_deployment(cloud: CloudSession, id_: str, permit: CallCheck) -> str:
    call = ArmRequest(permission=DELETE_PERMISSION, path=id_, method="DELETE")
    make = partial(write, cloud, call, id_, READ_DEPLOYMENTS, permit)
    try:
        if was_already_written(make, lambda: provisioning_state(deployments.read_deployment(cloud, id_)) == "Deleting"):
            return "it is being deleted already"
    except CloudError as error:
        if error.reason is not Reason.GONE or not error.retried:
            raise
        return "it is deleted"
    return "deleting it has begun; the next sweep sees what became of it"


def _delete_with_traffic(cloud: CloudSession, resource: Resource, manifest: Manifest, share: int, permit: CallCheck) -> str:
    """Its traffic to 0 %, a wait, another look, and only then the delete. What fails in between puts the traffic back."""
    above, name = deployments.endpoint_id(resource.id), manifest.undo_state["deployment"]["name"]
    recorded = traffic.traffic_by_name(manifest.undo_state["endpoint"])
    endpoint_traffic.stop_traffic(
        cloud, above, name, lambda endpoint: _require_same_endpoint(endpoint, manifest, recorded), permit
    )
    try:
        endpoint_traffic.wait_until_settled(cloud, above)
        _require_still_due(cloud, resource, manifest)
        told = _delete_deployment(cloud, resource.id, permit)
    except CloudError as error:
        if error.reason is Reason.GONE:
            raise
        back = endpoint_traffic.restore_traffic(cloud, resource.id, share)
        text = f"{message_without_operation(error)}; its traffic had been set from {share} % to 0 %, {back}"
        raise error.reworded(text, Reason.PARTIAL) from error
    except ActionWithdrawn as reason:  # who snoozes it a moment before it goes wants it to answer
        back = endpoint_traffic.restore_traffic(cloud, resource.id, share)
        raise ActionWithdrawn(f"{reason}; its traffic had been set from {share} % to 0 %, {back}") from reason
    return f"its {share} % of the traffic was set to 0 %, and {told}"


def _require_still_due(cloud: CloudSession, resource: Resource, manifest: Manifest) -> None:
    """Raises CloudError where a tag, a setting or a sibling came during the wait: the last look before the delete."""
    now = deployments.read_deployment_now(cloud, resource.id, resource.facts["workspace"])
    _require_unchanged(cloud, resource, manifest, now)
    _require_same_endpoint(now.endpoint, manifest, {})
    if now.siblings:
        raise CloudError(Reason.REFUSED, kind.NAME, f"{', '.join(sorted(now.siblings))} came beside it a moment ago")


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(WRITE_PERMISSION, endpoint_traffic.WRITE_PERMISSION, deployments.ASSIGN_IDENTITY),
)
