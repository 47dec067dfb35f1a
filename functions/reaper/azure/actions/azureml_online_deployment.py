"""Online deployments: scaled to one instance, deleted with everything needed to recreate them stored, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments. Traffic is changed by PUT of the whole endpoint:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import (
    NOTHING_EARLIER,
    ActionFunctions,
    ActionResult,
    CallCheck,
    Earlier,
    Manifest,
    UndoResult,
    UndoState,
)
from reaper.azure import assets, deployments, operations, traffic
from reaper.azure.actions import deployment_restore, endpoint_traffic, identity
from reaper.azure.actions.endpoint_traffic import provisioning_state
from reaper.azure.arm_values import valid_count
from reaper.azure.deployment_details import with_autoscale
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

WRITE_PERMISSION = f"{deployments.DEPLOYMENT_ROOT}/write"
SETTINGS_KEYS = ("properties", "sku", "tags", "identity", "kind", "location")


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags, its traffic and its siblings as they are now."""
    fresh = _parse_deployment(cloud, _read_everything(cloud, resource))
    return replace(fresh, id=resource.id, name=resource.name)


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier = NOTHING_EARLIER) -> UndoState:
    """The whole deployment, its endpoint with its traffic and, before a delete, the assets it would be recreated from.

    Raises CloudError if it couldn't be recreated.
    """
    row = deployments.read_deployment(cloud, resource.id)
    endpoint = deployments.read_endpoint(cloud, deployments.endpoint_id(resource.id))
    is_delete = action is StepName.DELETE
    made_from = assets.require_assets(cloud, row, resource.details.workspace) if is_delete else []
    return {"deployment": row, "endpoint": endpoint, "assets": made_from, "previous": earlier.manifest_address}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Begin to scale it in or to delete it. Raises CloudError, and does nothing, if it is no longer as recorded."""
    now = _read_everything(cloud, resource)
    _require_unchanged(cloud, resource, manifest, now)
    if manifest.action is StepName.STOP:
        return ActionResult(because=_scale_in(cloud, now.row, permit))
    _require_same_endpoint(now.endpoint, manifest, traffic.traffic_by_name(manifest.undo_state["endpoint"]))
    percent = traffic.traffic_percent(now.endpoint, now.row["name"])
    if percent:
        return ActionResult(because=_delete_with_traffic(cloud, resource, manifest, percent, permit))
    return ActionResult(because=_delete_deployment(cloud, now.row["id"], permit))


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Restore the instance count; or recreate the deployment and, once it is ready, restore its traffic."""
    restore = _scale_out if manifest.action is StepName.STOP else deployment_restore.restore_deployment
    return with_retry_advice(lambda: restore(cloud, manifest))


def _read_everything(cloud: CloudSession, resource: Resource) -> Deployment:
    return deployments.read_deployment_now(cloud, resource.id, resource.details.workspace)


def _parse_deployment(cloud: CloudSession, deployment: Deployment) -> Resource:
    try:
        return kind.deployment_resource(cloud, deployment)
    except UNREADABLE_REPLY_ERRORS as error:
        text = f"{deployment.row.get('id')} can't be read ({error!r})"
        raise CloudError(Reason.UNREADABLE, READ_DEPLOYMENTS, text) from error


def _require_unchanged(cloud: CloudSession, resource: Resource, manifest: Manifest, now: Deployment) -> None:
    """Raises CloudError if it, or any tag it has or inherits, has changed since the decision, or if the action is blocked now."""
    recorded, fresh = manifest.undo_state["deployment"], _parse_deployment(cloud, now)
    changed = [key for key in SETTINGS_KEYS if chosen_settings(now.row).get(key) != chosen_settings(recorded).get(key)]
    if fresh.tags != resource.tags and "tags" not in changed:
        changed.append("tags")
    if changed:
        raise CloudError(Reason.REFUSED, kind.NAME, f"its {', '.join(changed)} changed a moment ago")
    identity.require_same(identity.deployment_identity(recorded), identity.deployment_identity(now.row), kind.NAME)
    blocked = kind.blocked_actions(with_autoscale(cloud, fresh))[manifest.action]
    if because := blocked.because if blocked else fresh.target.blocked_because:
        raise CloudError(Reason.REFUSED, kind.NAME, because)


def _require_same_endpoint(endpoint: Json, manifest: Manifest, shares: dict[str, Any] | None) -> None:
    """Raises CloudError if the endpoint isn't as recorded, with these `shares` of its traffic; zeros may be left out."""
    recorded = manifest.undo_state["endpoint"]
    before, now = identity.endpoint_identity(recorded), identity.endpoint_identity(endpoint)
    identity.require_same(before, now, kind.NAME, "its endpoint")
    settings, recorded_settings = _settings_without_traffic(endpoint), _settings_without_traffic(recorded)
    changed = [key for key in SETTINGS_KEYS if settings.get(key) != recorded_settings.get(key)]
    if _without_zeros(traffic.traffic_by_name(endpoint)) != _without_zeros(shares):
        changed.append("traffic")
    if changed:
        raise CloudError(Reason.REFUSED, kind.NAME, f"its endpoint's {', '.join(changed)} changed a moment ago")


def _without_zeros(shares: dict[str, Any] | None) -> dict[str, Any]:
    return {name: percent for name, percent in (shares or {}).items() if percent}


def _settings_without_traffic(endpoint: Json) -> Json:
    settings = chosen_settings(endpoint)
    properties = {key: value for key, value in settings["properties"].items() if key != traffic.TRAFFIC_KEY}
    return {**settings, "properties": properties}


def _scale_in(cloud: CloudSession, row: Json, permit: CallCheck) -> str:
    _set_instances(cloud, row, 1, permit)
    return f"scaling it from {row['sku']['capacity']} instances to one has started; the next sweep checks the result"


def _set_instances(cloud: CloudSession, row: Json, count: int, permit: CallCheck) -> None:
    """Tags aren't sent along: as they were read they might undo one that was set just now."""
    deployment_id, body = row["id"], {"sku": {**row["sku"], "capacity": count}}
    request = ArmRequest(permission=WRITE_PERMISSION, path=deployment_id, body=body, method="PATCH")

    def is_scaled() -> bool:
        return bool((deployments.read_deployment(cloud, deployment_id).get("sku") or {}).get("capacity") == count)

    was_already_written(partial(write, cloud, request, deployment_id, READ_DEPLOYMENTS, permit), is_scaled)


def _scale_out(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Restore the instance count, if it is the same deployment, or a restored one, and still has the one instance it was scaled to."""
    row, recorded = deployments.read_deployment(cloud, manifest.id), manifest.undo_state["deployment"]
    if not deployment_restore.is_recreated(row, manifest, "properties", "tags"):
        before, now = identity.deployment_identity(recorded), identity.deployment_identity(row)
        identity.require_same(before, now, WRITE_PERMISSION)
    require_settled(provisioning_state(row), WRITE_PERMISSION)
    count, old_count = valid_count((row.get("sku") or {}).get("capacity")), recorded["sku"]["capacity"]
    if count is None:
        raise CloudError(Reason.UNREADABLE, READ_DEPLOYMENTS, f"the instance count of {manifest.name} is unknown")
    if count == old_count:
        return UndoResult(because=f"it already has {count} instances")
    if count != 1:
        return UndoResult(because=f"it has been scaled to {count} instances since, so the reaper left it alone")
    _set_instances(cloud, row, old_count, always_permit)
    return UndoResult(because=f"scaling it back from {count} to {old_count} instances has started")


def _delete_deployment(cloud: CloudSession, deployment_id: str, permit: CallCheck) -> str:
    request = operations.delete_deployment(deployment_id)

    def is_being_deleted() -> bool:
        return provisioning_state(deployments.read_deployment(cloud, deployment_id)) == "Deleting"

    try:
        if was_already_written(partial(write, cloud, request, deployment_id, READ_DEPLOYMENTS, permit), is_being_deleted):
            return "it is already being deleted"
    except CloudError as error:
        if error.reason is not Reason.GONE or not error.retried:
            raise
        return "it is deleted"
    return "deletion started; the next sweep checks the result"


def _delete_with_traffic(cloud: CloudSession, resource: Resource, manifest: Manifest, percent: int, permit: CallCheck) -> str:
    """Set its traffic to 0%, wait, check again, and only then delete. A failure in between restores the traffic."""
    above, name = deployments.endpoint_id(resource.id), manifest.undo_state["deployment"]["name"]
    recorded = traffic.traffic_by_name(manifest.undo_state["endpoint"])
    endpoint_traffic.stop_traffic(
        cloud, above, name, lambda endpoint: _require_same_endpoint(endpoint, manifest, recorded), permit
    )
    try:
        endpoint_traffic.wait_until_settled(cloud, above)
        _require_still_due(cloud, resource, manifest)
        result = _delete_deployment(cloud, resource.id, permit)
    except CloudError as error:
        if error.reason is Reason.GONE:
            raise
        restored = endpoint_traffic.restore_traffic(cloud, resource.id, percent)
        text = f"{message_without_operation(error)}; its traffic had been set from {percent}% to 0%, {restored}"
        raise error.reworded(text, Reason.PARTIAL) from error
    except ActionWithdrawn as reason:  # a deployment that is snoozed a moment before its delete is to answer requests
        restored = endpoint_traffic.restore_traffic(cloud, resource.id, percent)
        raise ActionWithdrawn(f"{reason}; its traffic had been set from {percent}% to 0%, {restored}") from reason
    return f"its {percent}% of the traffic was set to 0%, and {result}"


def _require_still_due(cloud: CloudSession, resource: Resource, manifest: Manifest) -> None:
    """Raises CloudError if a tag, a setting or a sibling appeared during the wait: the last check before the delete."""
    now = _read_everything(cloud, resource)
    _require_unchanged(cloud, resource, manifest, now)
    _require_same_endpoint(now.endpoint, manifest, {})
    if now.siblings:
        raise CloudError(Reason.REFUSED, kind.NAME, f"{', '.join(sorted(now.siblings))} appeared beside it a moment ago")


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(WRITE_PERMISSION, endpoint_traffic.WRITE_PERMISSION, deployments.ASSIGN_IDENTITY),
)
