"""Compute instances: stop, start, and turning on their own idle shutdown.

https://learn.microsoft.com/rest/api/azureml/compute/stop and, for idle shutdown, the REST call named in
https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance#configure-idle-shutdown (15 minutes to 3 days).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.acting.contract import (
    NOTHING_EARLIER,
    ActionFunctions,
    ActionResult,
    Earlier,
    Manifest,
    Permit,
    UndoResult,
    UndoState,
    any_members,
)
from reaper.azure import computes
from reaper.azure.kinds import acting
from reaper.azure.kinds import azureml_compute_instance as kind
from reaper.azure.kinds.acting import require_settled, with_retry_advice, write
from reaper.azure.requests import ArmChange, duration_seconds
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


IDLE_SHUTDOWN_AFTER, IDLE_SHUTDOWN_KEY = "PT60M", "idleTimeBeforeShutdown"
"""An hour, which is what the studio proposes."""
IDLE_SHUTDOWN_API_VERSION = "2021-07-01"
"""The version that Microsoft documents for this call."""
IDLE_SHUTDOWN_PERMISSION = f"{computes.ROOT}/updateIdleShutdownSetting/action"
STARTED_STATES = {"Starting", "Running", "JobRunning"}
MEMORY_LOST_TEXT = "kernels, terminals and what was in memory when it was stopped are lost"


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The instance with its own and its workspace's tags as they are now."""
    fresh = kind.instance_resource(computes.read_compute_now(cloud, resource, kind.TYPE))
    return replace(fresh, id=resource.id, name=resource.name, stop_by=resource.stop_by)


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier = NOTHING_EARLIER) -> UndoState:
    """How it is stopped, its state and idle shutdown before, its size and its creation time, as it was just read."""
    properties = resource.details.properties
    return {
        "by": resource.stop_by if action is StepName.STOP else None,
        "state": properties.get("state"),
        IDLE_SHUTDOWN_KEY: properties.get(IDLE_SHUTDOWN_KEY),
        "was": acting.compute_identity_of(resource),
    }


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Begin to stop or start it, or turn its idle shutdown on."""
    stop_by = manifest.undo_state["by"]
    if manifest.action is StepName.STOP and stop_by == "native":
        return ActionResult(because=_enable_idle_shutdown(cloud, resource, permit))
    if manifest.action is StepName.START:
        operation, verb = acting.start_instance(cloud, resource.id), "start"
    elif manifest.action is StepName.STOP and stop_by == "stop":
        operation, verb = acting.stop_instance(cloud, resource.id), "stop"
    else:
        raise CloudError(Reason.REFUSED, kind.NAME, f"{manifest.action} by {stop_by!r} isn't possible")
    with permit():
        write(cloud, operation, resource.id, computes.PERMISSION)
    return ActionResult(because=f"{verb} requested; the next sweep checks the result")


@with_retry_advice
def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Start it, or set its idle shutdown to what it was."""
    row = computes.read_row(cloud, manifest.id)
    acting.require_same(manifest.undo_state.get("was") or {}, acting.compute_identity(row), kind.NAME)
    properties = computes.properties_of(row)
    if manifest.undo_state["by"] == "native":
        before, now = manifest.undo_state[IDLE_SHUTDOWN_KEY], properties.get(IDLE_SHUTDOWN_KEY)
        if not now and computes.PERMISSION in cloud.clients.older_versions:
            raise CloudError(Reason.REFUSED, IDLE_SHUTDOWN_PERMISSION, f"{kind.SHUTDOWN_UNKNOWN}; check it in the studio")
        return _restore_idle_shutdown(cloud, manifest.id, before, now)
    state = properties.get("state")
    if state in STARTED_STATES:
        return UndoResult(because=f"it is already {state}")
    require_settled(state, f"{computes.ROOT}/start/action")
    write(cloud, acting.start_instance(cloud, manifest.id), manifest.id, computes.PERMISSION)
    return UndoResult(because=f"start requested; the next sweep checks the result; {MEMORY_LOST_TEXT}")


def _enable_idle_shutdown(cloud: CloudSession, resource: Resource, permit: Permit) -> str:
    with permit():
        _set_idle_shutdown(cloud, resource.id, IDLE_SHUTDOWN_AFTER)
    after = _read_idle_shutdown(cloud, resource.id)
    if not after:
        text = f"Azure accepted an idle shutdown of {IDLE_SHUTDOWN_AFTER} but shows none"
        raise CloudError(Reason.REFUSED, IDLE_SHUTDOWN_PERMISSION, text)
    doubt = "; it has a managed identity, and unless that is Contributor on the workspace, Azure will silently not shut it down"
    return f"its idle shutdown was switched on: it runs on until {after} without use have passed{doubt if resource.details.has_identity else ''}"


def _restore_idle_shutdown(cloud: CloudSession, instance_id: str, before: Any, now: Any) -> UndoResult:
    """Leaves anything but our hour alone. Azure documents no way to turn it off, so null is tried and the result reported."""
    if duration_seconds(now or None) == duration_seconds(before or None):
        return UndoResult(because=f"its idle shutdown is already {_shutdown_text(now)}")
    if duration_seconds(now) != duration_seconds(IDLE_SHUTDOWN_AFTER):
        return UndoResult(because=f"its idle shutdown has been set to {_shutdown_text(now)} since, so the reaper left it alone")
    after = _try_idle_shutdown(cloud, instance_id, before)
    if bool(after) == bool(before):
        return UndoResult(because=f"its idle shutdown is {_shutdown_text(after)} again")
    still_on = f"its idle shutdown couldn't be turned off; it is on ({after}): turn it off in the studio"
    return UndoResult(because="its idle shutdown is unchanged", not_restored=(still_on,))


def _shutdown_text(after: Any) -> str:
    return str(after) if after else "off"


def _try_idle_shutdown(cloud: CloudSession, instance_id: str, value: Any) -> Any:
    """Set it and return what Azure shows then, also if Azure refuses to turn it off."""
    try:
        _set_idle_shutdown(cloud, instance_id, value)
    except CloudError as error:
        if value or error.reason is not Reason.REFUSED:
            raise
    return _read_idle_shutdown(cloud, instance_id)


def _set_idle_shutdown(cloud: CloudSession, instance_id: str, value: Any) -> None:
    change = ArmChange(
        permission=IDLE_SHUTDOWN_PERMISSION,
        path=f"{instance_id}/updateIdleShutdownSetting?api-version={IDLE_SHUTDOWN_API_VERSION}",
        body={IDLE_SHUTDOWN_KEY: value},
        method="POST",
    )
    write(cloud, change, instance_id, computes.PERMISSION)


def _read_idle_shutdown(cloud: CloudSession, instance_id: str) -> Any:
    return computes.read_properties(cloud, instance_id).get(IDLE_SHUTDOWN_KEY)


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(f"{computes.ROOT}/start/action", IDLE_SHUTDOWN_PERMISSION),
    undo_members={StepName.STOP: {**any_members("by", "state", IDLE_SHUTDOWN_KEY), "was": acting.IDENTITY_MEMBERS}},
    id_pattern=acting.COMPUTE_ID,
)
