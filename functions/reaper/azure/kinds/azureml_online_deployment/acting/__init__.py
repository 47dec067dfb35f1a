"""Online deployments: scaled to one instance, deleted with everything needed to recreate them stored, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments. Traffic is changed by PUT of the whole endpoint:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reaper.acting.contract import (
    NOTHING_EARLIER,
    PREVIOUS_MEMBERS,
    ActionFunctions,
    ActionResult,
    Earlier,
    Manifest,
    Permit,
    UndoResult,
    UndoState,
    any_members,
)
from reaper.azure import changes as acting
from reaper.azure.changes import require_settled, with_retry_advice, write
from reaper.azure.kinds import azureml_online_deployment as kind
from reaper.azure.kinds.azureml_online_deployment import details, listing
from reaper.azure.kinds.azureml_online_deployment.acting import restore
from reaper.azure.kinds.azureml_online_deployment.acting.restore import WRITE_PERMISSION, Share, provisioning_state
from reaper.azure.kinds.azureml_online_deployment.details import DeploymentDetails, endpoint_digest, with_autoscale, with_digests
from reaper.azure.kinds.azureml_online_deployment.listing import READ_DEPLOYMENTS
from reaper.azure.requests import ArmChange, Json, reading, valid_count
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import Resource, SideChange, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


UNDO_MEMBERS = {**any_members("deployment", "endpoint", "assets"), "previous": PREVIOUS_MEMBERS}


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags and settings, its traffic, siblings and autoscale as they are now."""
    with_autoscale(cloud, resource)  # so that nothing is read after the deployment
    deployment = listing.read_deployment_now(cloud, resource.id, resource.details.workspace)
    with reading(READ_DEPLOYMENTS, deployment.row["id"]):
        fresh = kind.deployment_resource(cloud, deployment)
        own_details = with_digests(fresh.details, deployment.row, deployment.endpoint)
    return with_autoscale(cloud, replace(fresh, id=resource.id, name=resource.name, details=own_details))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier = NOTHING_EARLIER) -> UndoState:
    """The whole deployment, its endpoint with its traffic and, before a delete, the assets it would be recreated from.

    Raises CloudError if it couldn't be recreated, or recognized later.
    """
    acting.require_known_creation(resource)
    row, endpoint = listing.read_deployment_and_endpoint(cloud, resource.id)
    is_delete = action is StepName.DELETE
    made_from = details.require_assets(cloud, row, resource.details.workspace) if is_delete else []
    return {"deployment": row, "endpoint": endpoint, "assets": made_from, "previous": earlier.record}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Begin to scale it in or to delete it. Raises ActionWithdrawn, and does nothing, if it isn't as recorded."""
    _require_recorded(resource, manifest)
    if manifest.action is StepName.STOP:
        row = manifest.undo_state["deployment"]
        with permit():
            _set_instances(cloud, row, 1)
        was = f"{row['sku']['capacity']} instances"
        return ActionResult(because=f"scaling it from {was} to one has started; the next sweep checks the result")
    if side_changes(manifest):
        return ActionResult(because=_delete_with_traffic(cloud, resource, manifest, permit))
    delete = acting.delete_deployment(cloud, resource.id)
    with permit():
        write(cloud, delete, listing.deployment_request(resource.id))
    return ActionResult(because="deletion started; the next sweep checks the result")


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """Its share of the traffic, which is set to 0% before it is deleted."""
    percent = _recorded_percent(manifest) if manifest.action is StepName.DELETE else 0
    return (SideChange(what=restore.SHARE, before=percent, ours=0),) if percent else ()


@with_retry_advice
def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Restore the instance count; or recreate the deployment and, once it is ready, restore its traffic."""
    return (_scale_out if manifest.action is StepName.STOP else restore.restore_deployment)(cloud, manifest)


def _recorded_percent(manifest: Manifest) -> int:
    state = manifest.undo_state
    return details.traffic_percent(state["endpoint"], state["deployment"]["name"]) or 0


def _require_recorded(resource: Resource, manifest: Manifest) -> None:
    """Raises ActionWithdrawn unless the manifest has the deployment and the endpoint that the permit compares with."""
    state, now = manifest.undo_state, resource.details
    recorded = with_digests(now, state["deployment"], state["endpoint"])
    if recorded != now or _recorded_percent(manifest) != (now.traffic_percent or 0):
        raise ActionWithdrawn("its settings or its endpoint's changed a moment ago")


def _set_instances(cloud: CloudSession, row: Json, count: int) -> None:
    """Tags aren't sent along: as they were read they might undo one that was set just now."""
    body = {"sku": {**row["sku"], "capacity": count}}
    change = ArmChange(permission=WRITE_PERMISSION, path=row["id"], body=body, method="PATCH")
    write(cloud, change, listing.deployment_request(row["id"]))


def _scale_out(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Restore the instance count, if it is the same deployment, or a restored one, and still has the one instance it was scaled to."""
    row, recorded = listing.read_deployment(cloud, manifest.id), manifest.undo_state["deployment"]
    if not restore.is_recreated(row, manifest, "properties", "tags"):
        before, now = acting.deployment_identity(recorded), acting.deployment_identity(row)
        acting.require_same(before, now, WRITE_PERMISSION)
    require_settled(provisioning_state(row), WRITE_PERMISSION)
    count, old_count = valid_count((row.get("sku") or {}).get("capacity")), recorded["sku"]["capacity"]
    if count is None:
        raise CloudError(Reason.UNREADABLE, READ_DEPLOYMENTS, f"the instance count of {manifest.name} is unknown")
    if count == old_count:
        return UndoResult(because=f"it already has {count} instances")
    if count != 1:
        return UndoResult(because=f"it has been scaled to {count} instances since, so the reaper left it alone")
    _set_instances(cloud, row, old_count)
    return UndoResult(because=f"scaling it back from {count} to {old_count} instances has started")


def _delete_with_traffic(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> str:
    """Set its traffic to 0%, wait until that is in place, look at everything again, and only then delete."""
    above, name = listing.endpoint_id(resource.id), manifest.undo_state["deployment"]["name"]
    delete = acting.delete_deployment(cloud, resource.id)
    with permit():
        _stop_traffic(cloud, resource.details, Share(endpoint_id=above, deployment_name=name, percent=0))
    restore.wait_until_settled(cloud, above)
    own_changes = partial(restore.without_own_change, resource)
    permit.after_wait(own_changes)
    with permit(own_changes):
        write(cloud, delete, listing.deployment_request(resource.id))
    percent = _recorded_percent(manifest)
    return f"its {percent}% of the traffic was set to 0%, and deletion started; the next sweep checks the result"


def _stop_traffic(cloud: CloudSession, before: DeploymentDetails, share: Share) -> None:
    """PUT replaces the whole endpoint. It is read once more, in case its tags changed since the permit's own look."""
    endpoint = cloud.call_once(listing.endpoint_request(share.endpoint_id))
    if endpoint_digest(endpoint, share.deployment_name) != before.endpoint_digest:
        raise CloudError(Reason.REFUSED, kind.NAME, "its endpoint's settings changed a moment ago")
    restore.set_traffic(cloud, endpoint, share)


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    side_changes=side_changes,
    put_back=restore.put_back,
    undo_permissions=(WRITE_PERMISSION, restore.TRAFFIC_PERMISSION, listing.ASSIGN_IDENTITY),
    undo_members={StepName.STOP: UNDO_MEMBERS, StepName.DELETE: UNDO_MEMBERS},
    id_pattern=acting.DEPLOYMENT_ID,
)
