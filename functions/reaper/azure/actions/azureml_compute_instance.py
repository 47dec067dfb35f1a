"""Compute instances: stop, start, and switching on the idle shutdown of their own.

https://learn.microsoft.com/rest/api/azureml/compute/stop and, for idle shutdown, the REST call named in
https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance#configure-idle-shutdown (15 minutes to 3 days).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.azure import computes
from reaper.azure.actions import identity
from reaper.azure.arm_values import lapse
from reaper.azure.kinds import azureml_compute_instance as kind
from reaper.azure.request import Call
from reaper.azure.writes import afterwards, always, change, made_before, patient, ready
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

IDLE_TIME, SETTING = "PT60M", "idleTimeBeforeShutdown"
"""An hour, which is what the studio proposes."""
SETTING_VERSION = "2021-07-01"
"""The version that Microsoft documents for this one call."""
UNDER_WAY = {"stop": {"Stopping", "Stopped"}, "start": {"Starting", "Running", "JobRunning"}}
MEMORY = "kernels, terminals and what was in memory when it was stopped are not brought back"


def look(cloud: Cloud, resource: Resource) -> Resource:
    """The instance with its own and its workspace's tags as they are now."""
    found = kind.instance(cloud, computes.again(cloud, resource, kind.TYPE))
    return replace(found, id=resource.id, name=resource.name)


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Which way it is stopped, its state and idle shutdown before, its size and when it was made."""
    row = computes.row(cloud, resource.id)
    inner = computes.inner_of(row)
    by = resource.facts.get("stop_by", "stop") if move is Move.STOP else None
    return {"by": by, "state": inner.get("state"), SETTING: inner.get(SETTING), "was": identity.of_compute(row)}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Start to stop or to start it, or switch its idle shutdown on."""
    by = manifest.record["by"]
    if manifest.move is Move.START:
        return Made(because=_turn(cloud, resource.id, "start", permit))
    if manifest.move is Move.STOP and by == "stop":
        return Made(because=_turn(cloud, resource.id, "stop", permit))
    if manifest.move is Move.STOP and by == "native":
        return Made(because=_shut_down_when_idle(cloud, resource, permit))
    raise CloudError(Trouble.REFUSED, kind.NAME, f"it cannot be made to {manifest.move} by {by!r}")


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Start it again, or set its idle shutdown to what it was. A start is not undone: it may be in use by now."""
    if manifest.move is not Move.STOP:
        raise CloudError(Trouble.REFUSED, kind.NAME, f"a {manifest.move} is not undone: office hours or a person may stop it")
    return patient(lambda: _taken_back(cloud, manifest))


def _taken_back(cloud: Cloud, manifest: Manifest) -> Undone:
    row = computes.row(cloud, manifest.id)
    identity.check(manifest.record.get("was") or {}, identity.of_compute(row), kind.NAME)
    inner = computes.inner_of(row)
    if manifest.record["by"] == "native":
        return _set_back(cloud, manifest.id, manifest.record[SETTING], inner.get(SETTING))
    state = inner.get("state")
    if state in UNDER_WAY["start"]:
        return Undone(because=f"it is {state} already")
    ready(state, f"{computes.ROOT}/start/action")
    return Undone(because=f"{_turn(cloud, manifest.id, 'start', always)}; {MEMORY}")


def _turn(cloud: Cloud, id_: str, verb: str, permit: Permit) -> str:
    call = Call(permission=f"{computes.ROOT}/{verb}/action", path=f"{id_}/{verb}", method="POST")
    states: list[object] = []

    def seen() -> bool:
        states.append(computes.inner(cloud, id_).get("state"))
        return states[-1] in UNDER_WAY[verb]

    if made_before(partial(change, cloud, call, id_, computes.PERMISSION, permit), seen):
        return f"it is {states[-1]} already"
    return f"its {verb} has begun; the next sweep sees what became of it"


def _shut_down_when_idle(cloud: Cloud, resource: Resource, permit: Permit) -> str:
    before = computes.inner(cloud, resource.id).get(SETTING)
    if before:
        return f"its own idle shutdown was on already, after {before}"
    after = _set(cloud, resource.id, IDLE_TIME, permit)
    if not after:
        text = f"Azure took {IDLE_TIME} as its idle shutdown, but shows none"
        raise CloudError(Trouble.PARTIAL, f"{computes.ROOT}/updateIdleShutdownSetting/action", text)
    doubt = "; it has a managed identity, and unless that is Contributor on the workspace, Azure will silently not shut it down"
    return f"its own idle shutdown is on, after {after} without use{doubt if resource.facts.get('identity') else ''}"


def _set_back(cloud: Cloud, id_: str, before: Any, now: Any) -> Undone:
    """Azure documents no way to switch it off, so null is tried, and what it shows afterwards is told. Anything but our hour is left alone."""
    if lapse(now or None) == lapse(before or None):
        return Undone(because=f"its own idle shutdown is {f'after {now}' if now else 'off'} already")
    if lapse(now) != lapse(IDLE_TIME):
        chosen = f"after {now}" if now else "off"
        return Undone(because=f"its own idle shutdown is {chosen}, which somebody chose since: left as it is")
    try:
        after = _set(cloud, id_, before, always)
    except CloudError as error:
        if before or error.trouble is not Trouble.REFUSED:
            raise
        after = computes.inner(cloud, id_).get(SETTING)
    if bool(after) == bool(before):
        return Undone(because=f"its own idle shutdown is {f'after {after}' if after else 'off'} again")
    lost = f"its own idle shutdown could not be switched off again; it is on, after {after}: switch it off in the studio"
    return Undone(because="its own idle shutdown is as it was left", lost=(lost,))


def _set(cloud: Cloud, id_: str, value: Any, permit: Permit) -> Any:
    """Set it, and give what Azure shows then."""
    call = Call(
        permission=f"{computes.ROOT}/updateIdleShutdownSetting/action",
        path=f"{id_}/updateIdleShutdownSetting?api-version={SETTING_VERSION}",
        body={SETTING: value},
        method="POST",
    )
    change(cloud, call, id_, computes.PERMISSION, permit)
    return afterwards(lambda: computes.inner(cloud, id_).get(SETTING))


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=(f"{computes.ROOT}/start/action", f"{computes.ROOT}/updateIdleShutdownSetting/action"),
)
