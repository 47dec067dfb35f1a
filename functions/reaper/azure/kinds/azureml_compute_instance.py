"""Azure ML compute instances. Azure publishes no metric of their use, so proof needs our `Busy` signal; uptime is only a hint.

States and native idle shutdown: https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.azure import busy, computes, jobs, metrics
from reaper.azure.arm_values import moment
from reaper.azure.computes import Compute
from reaper.evidence import heard, last_used, settled
from reaper.model import Bar, Deed, Hint, Kind, Move, Observation, Part, Reading, Resource, Window

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import Cloud

NAME, TYPE = "azureml-compute-instance", "ComputeInstance"
UNSETTLED = {"Creating", "Updating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp"}
UNDER_WAY = "InProgress"
OVER = {"Succeeded", "StopFailed", "DeleteFailed"}
"""How an operation can end that leaves a running instance as sound as it was."""


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every compute instance of the subscription, stopped ones too."""
    for one in computes.computes(cloud, TYPE):
        yield instance(cloud, one)


def instance(cloud: Cloud, one: Compute) -> Resource:
    """The instance as a resource."""
    state = str(one.inner.get("state") or one.state)
    size = one.inner.get("vmSize")
    parts = (Part(component="Linux", instance=size),) if size else None
    return computes.resource(
        cloud, NAME, one, "Deleting" if one.state == "Deleting" else state, () if state == "Stopped" else parts
    )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """What its states say settles most; `Busy` of all others, then the jobs of what was silent."""
    seen = [_settled(Observation(resource=resource)) for resource in resources]
    found = busy.readings(cloud, [one.resource for one in seen if not _is_settled(one)], window)
    yield from cloud.each(lambda one: one if _is_settled(one) else _closer(cloud, one, found[one.resource.id], window), seen)


def _settled(seen: Observation) -> Observation:
    """What its states alone say: its own, that of its provisioning, and how far its last operation is."""
    state, made, last = seen.resource.status, seen.resource.facts["state"], _last(seen.resource)
    if state == "JobRunning":
        return replace(seen, in_use="a job is running on it")
    if state == "Deleting" or last == ("Delete", UNDER_WAY):
        return replace(seen, free="it is being deleted")
    if last[1] == UNDER_WAY:
        return replace(seen, unsettled=f"{_operation(last[0])} is in progress")
    if state == "Stopped":
        return replace(seen, free="it is stopped; only its disk and addresses are billed")
    if state in UNSETTLED:
        return replace(seen, unsettled=f"its state is {state}")
    if made in UNSETTLED:
        return replace(seen, unsettled=f"its provisioning state is {made}")
    return replace(seen, blind=_unsound(state, made, last[1]))


def _unsound(state: str, made: str, status: str | None) -> str | None:
    """Why a state is none that a verdict could be built on; None where it runs and all is well. Values that nobody knows yet count, too."""
    if state != "Running":
        return f"its state is {state or 'missing'}"
    if made != "Succeeded":
        return f"its provisioning state is {made or 'missing'}"
    return None if status is None or status in OVER else f"its last operation is {status}"


def _last(resource: Resource) -> tuple[str, str | None]:
    """The name of its last operation, and how far that is; None where Azure does not say."""
    last = resource.facts["inner"]["lastOperation"]
    status = last.get("operationStatus")
    return str(last.get("operationName") or ""), None if status is None else str(status)


def _operation(name: str) -> str:
    return f"a {name.lower()}" if name else "an operation"


def _is_settled(seen: Observation) -> bool:
    return bool(seen.in_use or seen.free or seen.unsettled or seen.blind)


def _closer(cloud: Cloud, seen: Observation, readings: tuple[Reading, ...], window: Window) -> Observation:
    seen = replace(seen, readings=readings)
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return _with_hint(computes.within_sight(jobs.with_jobs(cloud, seen)))


def _with_hint(seen: Observation) -> Observation:
    """How long it has been up is all that Azure tells. Without its last operation not even that is known."""
    if seen.in_use or seen.blind:
        return seen
    inner = seen.resource.facts["inner"]
    since = _up_since(seen.resource)
    if since is None:
        return (
            seen if heard(seen) else replace(seen, blind="its last operation is not known, so neither is how long it has been up")
        )
    limit = inner.get("idleTimeBeforeShutdown")
    native = f"idle shutdown after {limit} is set but did not stop it" if limit else "its idle shutdown is off"
    used = last_used(seen)
    quiet = (
        "no job has run on it since"
        if used is None or used < since
        else f"its last job was heard of at {used:%Y-%m-%d %H:%M} UTC"
    )
    because = f"it has been up since {since:%Y-%m-%d %H:%M} UTC, {quiet}, and {native}; no Busy signal proves it"
    return replace(seen, hint=Hint(since=since, because=because))


def _up_since(resource: Resource) -> datetime | None:
    """When it was last started, or more was done to it; None where that is not known. What was stopped and runs was started unseen."""
    stopped = _last(resource) in {("Stop", "Succeeded"), ("Delete", "Succeeded")}
    return None if stopped else moment(resource.facts["inner"]["lastOperation"].get("operationTime"))


def able(resource: Resource) -> dict[Move, Bar | None]:
    """What keeps it from being stopped, or its own idle shutdown from being switched on, and from being started."""
    return {Move.STOP: _stoppable(resource), Move.START: _startable(resource)}


def _stoppable(resource: Resource) -> Bar | None:
    inner, state = resource.facts.get("inner"), resource.status
    if state == "Stopped":
        return Bar(because="it is stopped already", done=True)
    if state == "JobRunning":
        return Bar(because="a job is running on it")
    if state != "Running" or inner is None:
        return Bar(because=f"its state is {state or 'missing'}")
    if resource.facts["state"] != "Succeeded":
        return Bar(because=f"its provisioning state is {resource.facts['state'] or 'missing'}")
    if _last(resource)[1] == UNDER_WAY:
        return Bar(because=f"{_operation(_last(resource)[0])} is in progress")
    if resource.facts.get("stop_by", "stop") == "native" and inner.get("idleTimeBeforeShutdown"):
        return Bar(because="its own idle shutdown is on already", done=True)
    return None


def _startable(resource: Resource) -> Bar | None:
    if resource.status in {"Running", "JobRunning"}:
        return Bar(because="it is running already", done=True)
    if resource.status != "Stopped":
        return Bar(because=f"its state is {resource.status or 'missing'}")
    if resource.facts.get("state", "Deleting") in {*UNSETTLED, "Deleting"}:
        return Bar(because=f"its provisioning state is {resource.facts.get('state')}")
    if _last(resource)[1] == UNDER_WAY:
        return Bar(because=f"{_operation(_last(resource)[0])} is in progress")
    return None


DEEDS = {
    Move.STOP: Deed(
        verb="stopped",
        what="stops it: what its machine costs ends, its disk and addresses are billed on. With `stop_by: native` it is left running and "
        "its own idle shutdown is switched on where it is off, after an hour without use; Azure silently does nothing about that on an "
        "instance with a managed identity that is not Contributor on the workspace",
        undo="starts it again; what was in memory is lost. Idle shutdown is set to what it was; where Azure does not take it back off, that is told",
        permissions=(f"{computes.ROOT}/stop/action", f"{computes.ROOT}/updateIdleShutdownSetting/action"),
    ),
    Move.START: Deed(
        verb="started",
        what="starts it when its office hours begin",
        undo="does nothing: stopping what may be in use by now is left to office hours and people",
        permissions=(f"{computes.ROOT}/start/action",),
    ),
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML compute instance",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance",
    permissions=(*computes.PERMISSIONS, jobs.PERMISSION, metrics.PERMISSION),
    activity="Busy above 0; a job on it that is not over; state JobRunning",
    heartbeat="points of Busy",
    otherwise="likely by uptime since the last start and no job since, where nobody ever published Busy; exempt when stopped",
    discover=discover,
    observe=observe,
    able=able,
    deeds=DEEDS,
    needs="Busy (docs/busy.md)",
)
