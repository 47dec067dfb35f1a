"""Azure ML compute instances. Azure publishes no metric of their use, so proof needs our `Busy` signal; uptime is only a hint.

States and native idle shutdown: https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.azure import busy, computes, jobs, metrics, owner_lines
from reaper.azure.arm_values import parse_time
from reaper.azure.computes import Compute
from reaper.evidence import has_heartbeat, is_recent, last_used
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Blocked, IndirectEvidence, Observation, Reading, Resource, StepName, Window

if TYPE_CHECKING:
    from datetime import datetime

    from reaper.azure.session import CloudSession

NAME, TYPE = "azureml-compute-instance", "ComputeInstance"
CHANGING_STATES = {"Creating", "Updating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp"}
IN_PROGRESS = "InProgress"
FINISHED_STATUSES = {"Succeeded", "StopFailed", "DeleteFailed"}
"""How an operation can end that leaves a running instance as sound as it was."""


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every compute instance of the subscription, stopped ones too."""
    for one in computes.list_computes(cloud, TYPE):
        yield instance_resource(cloud, one)


def instance_resource(cloud: CloudSession, one: Compute) -> Resource:
    """The instance as a resource."""
    state = str(one.properties.get("state") or one.provisioning_state)
    size = one.properties.get("vmSize")
    parts = (BilledPart(component="Linux", instance=size),) if size else None
    return computes.compute_resource(
        cloud, NAME, one, "Deleting" if one.provisioning_state == "Deleting" else state, () if state == "Stopped" else parts
    )


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """What its states say settles most; `Busy` of all others, then the jobs of what was silent."""
    seen = [_settled_without_metrics(Observation(resource=resource)) for resource in resources]
    found = busy.busy_readings(cloud, [one.resource for one in seen if not _is_settled(one)], window)
    yield from cloud.map_concurrently(
        lambda one: one if _is_settled(one) else _look_closer(cloud, one, found[one.resource.id], window), seen
    )


def _settled_without_metrics(seen: Observation) -> Observation:
    """What its states alone say: its own, that of its provisioning, and how far its last operation is."""
    state, made, last = seen.resource.status, seen.resource.facts["state"], _last_operation(seen.resource)
    if state == "JobRunning":
        return replace(seen, in_use_because="a job is running on it")
    if state == "Deleting" or last == ("Delete", IN_PROGRESS):
        return replace(seen, free_because="it is being deleted")
    if last[1] == IN_PROGRESS:
        return replace(seen, changing_because=f"{_operation_text(last[0])} is in progress")
    if state == "Stopped":
        return replace(seen, free_because="it is stopped; only its disk and addresses are billed")
    if state in CHANGING_STATES:
        return replace(seen, changing_because=f"its state is {state}")
    if made in CHANGING_STATES:
        return replace(seen, changing_because=f"its provisioning state is {made}")
    return replace(seen, unknown_because=_unsound_because(state, made, last[1]))


def _unsound_because(state: str, made: str, status: str | None) -> str | None:
    """Why a state is none that a verdict could be built on; None where it runs and all is well. Values that nobody knows yet count, too."""
    if state != "Running":
        return f"its state is {state or 'missing'}"
    if made != "Succeeded":
        return f"its provisioning state is {made or 'missing'}"
    return None if status is None or status in FINISHED_STATUSES else f"its last operation is {status}"


def _last_operation(resource: Resource) -> tuple[str, str | None]:
    """The name of its last operation, and how far that is; None where Azure does not say."""
    last = resource.facts["inner"]["lastOperation"]
    status = last.get("operationStatus")
    return str(last.get("operationName") or ""), None if status is None else str(status)


def _operation_text(name: str) -> str:
    return f"a {name.lower()}" if name else "an operation"


def _is_settled(seen: Observation) -> bool:
    return bool(seen.in_use_because or seen.free_because or seen.changing_because or seen.unknown_because)


def _look_closer(cloud: CloudSession, seen: Observation, readings: tuple[Reading, ...], window: Window) -> Observation:
    seen = replace(seen, readings=readings)
    if is_recent(seen, window):
        return replace(seen, unknown_because="it was used or changed too recently for a closer look")
    return _with_indirect_evidence(computes.with_unseen_jobs(jobs.with_jobs(cloud, seen)))


def _with_indirect_evidence(seen: Observation) -> Observation:
    """How long it has been up is all that Azure tells. Without its last operation not even that is known."""
    if seen.in_use_because or seen.unknown_because:
        return seen
    inner = seen.resource.facts["inner"]
    since = _running_since(seen.resource)
    if since is None:
        return (
            seen
            if has_heartbeat(seen)
            else replace(seen, unknown_because="its last operation is not known, so neither is how long it has been up")
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
    return replace(seen, indirect_evidence=IndirectEvidence(since=since, because=because))


def _running_since(resource: Resource) -> datetime | None:
    """When it was last started, or more was done to it; None where that is not known. What was stopped and runs was started unseen."""
    stopped = _last_operation(resource) in {("Stop", "Succeeded"), ("Delete", "Succeeded")}
    return None if stopped else parse_time(resource.facts["inner"]["lastOperation"].get("operationTime"))


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps it from being stopped, or its own idle shutdown from being switched on, and from being started."""
    return {StepName.STOP: _stop_blocked(resource), StepName.START: _start_blocked(resource)}


def _stop_blocked(resource: Resource) -> Blocked | None:
    inner, state = resource.facts.get("inner"), resource.status
    if state == "Stopped":
        return Blocked(because="it is stopped already", already_done=True)
    if state == "JobRunning":
        return Blocked(because="a job is running on it")
    if state != "Running" or inner is None:
        return Blocked(because=f"its state is {state or 'missing'}")
    if resource.facts["state"] != "Succeeded":
        return Blocked(because=f"its provisioning state is {resource.facts['state'] or 'missing'}")
    if _last_operation(resource)[1] == IN_PROGRESS:
        return Blocked(because=f"{_operation_text(_last_operation(resource)[0])} is in progress")
    if resource.stop_by == "native" and inner.get("idleTimeBeforeShutdown"):
        return Blocked(because="its own idle shutdown is on already", already_done=True)
    return None


def _start_blocked(resource: Resource) -> Blocked | None:
    if resource.status in {"Running", "JobRunning"}:
        return Blocked(because="it is running already", already_done=True)
    if resource.status != "Stopped":
        return Blocked(because=f"its state is {resource.status or 'missing'}")
    if resource.facts.get("state", "Deleting") in {*CHANGING_STATES, "Deleting"}:
        return Blocked(because=f"its provisioning state is {resource.facts.get('state')}")
    if _last_operation(resource)[1] == IN_PROGRESS:
        return Blocked(because=f"{_operation_text(_last_operation(resource)[0])} is in progress")
    return None


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="stopped",
        effect="stops it: what its machine costs ends, its disk and addresses are billed on. With `stop_by: native` it is left running and "
        "its own idle shutdown is switched on where it is off, after an hour without use; Azure silently does nothing about that on an "
        "instance with a managed identity that is not Contributor on the workspace",
        undo="starts it again; what was in memory is lost. Idle shutdown is set to what it was; where Azure does not take it back off, that is told",
        permissions=(f"{computes.ROOT}/stop/action", f"{computes.ROOT}/updateIdleShutdownSetting/action"),
    ),
    StepName.START: ActionSpec(
        participle="started",
        effect="starts it when its office hours begin",
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
    without_proof="likely by uptime since the last start and no job since, where nobody ever published Busy; exempt when stopped",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    actions=ACTION_SPECS,
    commands={StepName.STOP: owner_lines.stop_instance_command},
    undo_line=owner_lines.start_instance_line,
    console_url=owner_lines.console_url,
    place=owner_lines.place,
    price_keys=("Linux",),
    needs_setup="Busy (docs/busy.md)",
)
