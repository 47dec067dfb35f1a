"""Compute instances: stop, start, and switching on the idle shutdown of their own.

https://learn.microsoft.com/rest/api/azureml/compute/stop and, for idle shutdown, the REST call named in
https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance#configure-idle-shutdown (15 minutes to 3 days).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import ActionFunctions, ActionResult, CallCheck, Earlier, Manifest, UndoResult, UndoState
from reaper.azure import computes
from reaper.azure.actions import identity
from reaper.azure.arm_values import duration_seconds
from reaper.azure.kinds import azureml_compute_instance as kind
from reaper.azure.request import ArmRequest
from reaper.azure.writes import always_permit, read_after_write, require_settled, was_already_written, with_retry_advice, write
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

IDLE_SHUTDOWN_AFTER, IDLE_SHUTDOWN_KEY = "PT60M", "idleTimeBeforeShutdown"
"""An hour, which is what the studio proposes."""
IDLE_SHUTDOWN_API_VERSION = "2021-07-01"
"""The version that Microsoft documents for this one call."""
STATES_AFTER = {"stop": {"Stopping", "Stopped"}, "start": {"Starting", "Running", "JobRunning"}}
MEMORY_LOST_TEXT = "kernels, terminals and what was in memory when it was stopped are not brought back"


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The instance with its own and its workspace's tags as they are now."""
    found = kind.instance_resource(cloud, computes.read_compute_now(cloud, resource, kind.TYPE))
    return replace(found, id=resource.id, name=resource.name)


def read_undo_state(cloud: CloudSession, resource: Resource, move: StepName, earlier: Earlier) -> UndoState:
    """Which way it is stopped, its state and idle shutdown before, its size and when it was made."""
    row = computes.read_row(cloud, resource.id)
    inner = computes.properties_of(row)
    by = resource.stop_by if move is StepName.STOP else None
    return {
        "by": by,
        "state": inner.get("state"),
        IDLE_SHUTDOWN_KEY: inner.get(IDLE_SHUTDOWN_KEY),
        "was": identity.compute_identity(row),
    }


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Start to stop or to start it, or switch its idle shutdown on."""
    by = manifest.undo_state["by"]
    if manifest.action is StepName.START:
        return ActionResult(because=_start_or_stop(cloud, resource.id, "start", permit))
    if manifest.action is StepName.STOP and by == "stop":
        return ActionResult(because=_start_or_stop(cloud, resource.id, "stop", permit))
    if manifest.action is StepName.STOP and by == "native":
        return ActionResult(because=_enable_idle_shutdown(cloud, resource, permit))
    raise CloudError(Reason.REFUSED, kind.NAME, f"it cannot be made to {manifest.action} by {by!r}")


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Start it again, or set its idle shutdown to what it was. A start is not undone: it may be in use by now."""
    if manifest.action is not StepName.STOP:
        raise CloudError(Reason.REFUSED, kind.NAME, f"a {manifest.action} is not undone: office hours or a person may stop it")
    return with_retry_advice(lambda: _undo_stop(cloud, manifest))


def _undo_stop(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    row = computes.read_row(cloud, manifest.id)
    identity.require_same(manifest.undo_state.get("was") or {}, identity.compute_identity(row), kind.NAME)
    inner = computes.properties_of(row)
    if manifest.undo_state["by"] == "native":
        return _restore_idle_shutdown(cloud, manifest.id, manifest.undo_state[IDLE_SHUTDOWN_KEY], inner.get(IDLE_SHUTDOWN_KEY))
    state = inner.get("state")
    if state in STATES_AFTER["start"]:
        return UndoResult(because=f"it is {state} already")
    require_settled(state, f"{computes.ROOT}/start/action")
    return UndoResult(because=f"{_start_or_stop(cloud, manifest.id, 'start', always_permit)}; {MEMORY_LOST_TEXT}")


def _start_or_stop(cloud: CloudSession, id_: str, verb: str, permit: CallCheck) -> str:
    call = ArmRequest(permission=f"{computes.ROOT}/{verb}/action", path=f"{id_}/{verb}", method="POST")
    states: list[object] = []

    def seen() -> bool:
        states.append(computes.read_properties(cloud, id_).get("state"))
        return states[-1] in STATES_AFTER[verb]

    if was_already_written(partial(write, cloud, call, id_, computes.PERMISSION, permit), seen):
        return f"it is {states[-1]} already"
    return f"its {verb} has begun; the next sweep sees what became of it"


def _enable_idle_shutdown(cloud: CloudSession, resource: Resource, permit: CallCheck) -> str:
    before = computes.read_properties(cloud, resource.id).get(IDLE_SHUTDOWN_KEY)
    if before:
        return f"its own idle shutdown was on already, after {before}"
    after = _set_idle_shutdown(cloud, resource.id, IDLE_SHUTDOWN_AFTER, permit)
    if not after:
        text = f"Azure took {IDLE_SHUTDOWN_AFTER} as its idle shutdown, but shows none"
        raise CloudError(Reason.PARTIAL, f"{computes.ROOT}/updateIdleShutdownSetting/action", text)
    doubt = "; it has a managed identity, and unless that is Contributor on the workspace, Azure will silently not shut it down"
    return f"its own idle shutdown is on, after {after} without use{doubt if resource.facts.get('identity') else ''}"


def _restore_idle_shutdown(cloud: CloudSession, id_: str, before: Any, now: Any) -> UndoResult:
    """Azure documents no way to switch it off, so null is tried, and what it shows afterwards is told. Anything but our hour is left alone."""
    if duration_seconds(now or None) == duration_seconds(before or None):
        return UndoResult(because=f"its own idle shutdown is {f'after {now}' if now else 'off'} already")
    if duration_seconds(now) != duration_seconds(IDLE_SHUTDOWN_AFTER):
        chosen = f"after {now}" if now else "off"
        return UndoResult(because=f"its own idle shutdown is {chosen}, which somebody chose since: left as it is")
    try:
        after = _set_idle_shutdown(cloud, id_, before, always_permit)
    except CloudError as error:
        if before or error.reason is not Reason.REFUSED:
            raise
        after = computes.read_properties(cloud, id_).get(IDLE_SHUTDOWN_KEY)
    if bool(after) == bool(before):
        return UndoResult(because=f"its own idle shutdown is {f'after {after}' if after else 'off'} again")
    lost = f"its own idle shutdown could not be switched off again; it is on, after {after}: switch it off in the studio"
    return UndoResult(because="its own idle shutdown is as it was left", not_restored=(lost,))


def _set_idle_shutdown(cloud: CloudSession, id_: str, value: Any, permit: CallCheck) -> Any:
    """Set it, and give what Azure shows then."""
    call = ArmRequest(
        permission=f"{computes.ROOT}/updateIdleShutdownSetting/action",
        path=f"{id_}/updateIdleShutdownSetting?api-version={IDLE_SHUTDOWN_API_VERSION}",
        body={IDLE_SHUTDOWN_KEY: value},
        method="POST",
    )
    write(cloud, call, id_, computes.PERMISSION, permit)
    return read_after_write(lambda: computes.read_properties(cloud, id_).get(IDLE_SHUTDOWN_KEY))


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(f"{computes.ROOT}/start/action", f"{computes.ROOT}/updateIdleShutdownSetting/action"),
)
