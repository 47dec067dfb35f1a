"""Azure ML compute instances. Azure publishes no metric of their use, so proof needs our `Busy` signal; uptime is only a hint.

States and native idle shutdown: https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from reaper.azure import azureml, computes
from reaper.azure.computes import ComputeDetails
from reaper.azure.metrics import PERMISSION as METRICS_PERMISSION
from reaper.azure.requests import parse_time
from reaper.case import Blocked
from reaper.evidence import has_heartbeat, last_used
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import IndirectEvidence, Observation, Window
from reaper.planning.possible_actions import is_native

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


NAME, TYPE = "azureml-compute-instance", "ComputeInstance"
CHANGING_STATES = {"Creating", "Updating", "Starting", "Stopping", "Restarting", "Resizing", "SettingUp", "UserSettingUp"}
IN_PROGRESS = "InProgress"
FINISHED_STATUSES = {"Succeeded", "StopFailed", "DeleteFailed"}
"""How an operation can end that leaves a running instance as sound as it was."""
SHUTDOWN_UNKNOWN = "this cloud doesn't say whether its idle shutdown is on"


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every compute instance of the subscription, stopped ones too."""
    yield from map(instance_resource, computes.list_computes(cloud, TYPE))


def instance_resource(compute: Resource) -> Resource:
    properties, provisioning_state = compute.details.properties, compute.details.provisioning_state
    state = str(properties.get("state") or provisioning_state)
    size = properties.get("vmSize")
    parts = (BilledPart(component="Linux", instance=size),) if size else None
    status = "Deleting" if provisioning_state == "Deleting" else state
    return computes.complete(compute, NAME, status, () if state == "Stopped" else parts)


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Reads the states of all, then `Busy` of the undecided, then the jobs of the silent."""
    observations = [_settled_without_metrics(Observation(resource=resource)) for resource in resources]
    readings = azureml.busy_readings(cloud, azureml.undecided_resources(observations), window)
    yield from map(_with_indirect_evidence, azureml.look_closer(cloud, observations, readings, window))


def _settled_without_metrics(observation: Observation) -> Observation:
    """What its states alone say: its own, its provisioning state, and the status of its last operation."""
    resource = observation.resource
    state, made, (operation, status) = resource.status, resource.details.provisioning_state, _last_operation(resource)
    if state == "JobRunning":
        return replace(observation, in_use_because="a job is running on it")
    if state == "Deleting" or (operation, status) == ("Delete", IN_PROGRESS):
        return replace(observation, free_because="it is being deleted")
    if status == IN_PROGRESS:
        return replace(observation, changing_because=f"{_operation_text(operation)} is in progress")
    if state == "Stopped":
        return replace(observation, free_because="it is stopped; only its disk and addresses are billed")
    if state in CHANGING_STATES:
        return replace(observation, changing_because=f"its state is {state}")
    if made in CHANGING_STATES:
        return replace(observation, changing_because=f"its provisioning state is {made}")
    return replace(observation, unknown_because=_unsound_because(state, made, status))


def _unsound_because(state: str, made: str, status: str | None) -> str | None:
    """Why no verdict can rest on its state, unrecognized values included; None if it is running and sound."""
    if state != "Running":
        return f"its state is {state or 'missing'}"
    if made != "Succeeded":
        return f"its provisioning state is {made or 'missing'}"
    return None if status is None or status in FINISHED_STATUSES else f"its last operation is {status}"


def _last_operation(resource: Resource) -> tuple[str, str | None]:
    """The name and the status of its last operation; the status is None if Azure doesn't say."""
    last = resource.details.properties["lastOperation"]
    status = last.get("operationStatus")
    return str(last.get("operationName") or ""), None if status is None else str(status)


def _operation_text(name: str) -> str:
    return f"a {name.lower()}" if name else "an operation"


def _with_indirect_evidence(observation: Observation) -> Observation:
    """Uptime is all that Azure itself knows. Without a last operation not even that is known."""
    if azureml.is_settled(observation):
        return observation
    since = _running_since(observation.resource)
    if since is not None:
        because = _uptime_sentence(observation, since)
        return replace(observation, indirect_evidence=IndirectEvidence(since=since, because=because))
    if has_heartbeat(observation):
        return observation
    return replace(observation, unknown_because="its last operation is unknown, and so is its uptime")


def _uptime_sentence(observation: Observation, since: datetime) -> str:
    details, used = observation.resource.details, last_used(observation)
    limit = details.properties.get("idleTimeBeforeShutdown")
    shutdown = SHUTDOWN_UNKNOWN if details.may_lack_settings else "its idle shutdown is off"
    shutdown = f"its idle shutdown ({limit}) is on but didn't stop it" if limit else shutdown
    no_job = used is None or used < since
    last_job = "no job since" if no_job else f"its last job was seen at {used:%Y-%m-%d %H:%M} UTC"
    return f"running since {since:%Y-%m-%d %H:%M} UTC, {last_job}, {shutdown}, and no Busy signal as proof"


def _running_since(resource: Resource) -> datetime | None:
    """When it was last started or otherwise operated on; None if unknown: an instance that runs after a stop was started unseen."""
    was_stopped = _last_operation(resource) in {("Stop", "Succeeded"), ("Delete", "Succeeded")}
    return None if was_stopped else parse_time(resource.details.properties["lastOperation"].get("operationTime"))


def blocked_actions(resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps it from being stopped, or its idle shutdown from being turned on, and from being started."""
    return {StepName.STOP: _stop_blocked(resource), StepName.START: _start_blocked(resource)}


def _stop_blocked(resource: Resource) -> Blocked | None:
    state = resource.status
    if state == "Stopped":
        return Blocked(because="it is already stopped", already_done=True)
    if state == "Stopping":
        return Blocked(because="its state is Stopping", already_done=True)
    if state == "JobRunning":
        return Blocked(because="a job is running on it")
    if state != "Running" or resource.details is None:
        return Blocked(because=f"its state is {state or 'missing'}")
    if resource.details.provisioning_state != "Succeeded":
        return Blocked(because=f"its provisioning state is {resource.details.provisioning_state or 'missing'}")
    if in_progress := _operation_in_progress(resource):
        return in_progress
    if not is_native(resource, StepName.STOP):
        return None
    if limit := resource.details.properties.get("idleTimeBeforeShutdown"):
        because = f"its idle shutdown ({limit}) is already on; if that doesn't stop it, `stop_by: stop` does"
        return Blocked(because=because, already_done=True)
    return Blocked(because=SHUTDOWN_UNKNOWN) if resource.details.may_lack_settings else None


def _start_blocked(resource: Resource) -> Blocked | None:
    if resource.status in {"Running", "JobRunning"}:
        return Blocked(because="it is already running", already_done=True)
    if resource.status == "Starting":
        return Blocked(because="its state is Starting", already_done=True)
    if resource.status != "Stopped" or resource.details is None:
        return Blocked(because=f"its state is {resource.status or 'missing'}")
    if resource.details.provisioning_state in {*CHANGING_STATES, "Deleting"}:
        return Blocked(because=f"its provisioning state is {resource.details.provisioning_state}")
    return _operation_in_progress(resource)


def _operation_in_progress(resource: Resource) -> Blocked | None:
    name, status = _last_operation(resource)
    return Blocked(because=f"{_operation_text(name)} is in progress") if status == IN_PROGRESS else None


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """Nothing, or all of it while its own idle shutdown hasn't stopped it."""
    return resource.parts if is_native(resource, action) else ()


def undo_line(resource: Resource) -> str | None:
    """The line that starts it; None for an idle shutdown, which only `reaper restore` sets to what it was."""
    return None if is_native(resource, StepName.STOP) else azureml.line(azureml.START_INSTANCE, resource)


ACTION_SPECS = {
    StepName.STOP: ActionSpec(
        participle="stopped",
        effect="stops it. Its machine is no longer billed; its disk and addresses still are. With `stop_by: native` it keeps running, and "
        "its own idle shutdown is turned on (after an hour without use) if it is off. Azure silently ignores that on an instance with a "
        "managed identity that isn't Contributor on the workspace",
        undo="starts it; what was in memory is lost. Idle shutdown is set to what it was, with a warning if Azure doesn't turn it off",
        permissions=(f"{computes.ROOT}/stop/action", f"{computes.ROOT}/updateIdleShutdownSetting/action"),
    ),
    StepName.START: ActionSpec(
        participle="started",
        effect="starts it when its office hours begin",
        undo="does nothing: it may be in use by now, so stopping it is left to office hours and people",
        permissions=(f"{computes.ROOT}/start/action",),
    ),
}
KIND = Kind(
    name=NAME,
    cloud="azure",
    title="Azure ML compute instance",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance",
    permissions=(*computes.PERMISSIONS, azureml.PERMISSION, METRICS_PERMISSION),
    activity="Busy above 0; an unfinished job on it; state JobRunning",
    heartbeat="points of Busy",
    without_proof="likely by uptime since the last start and no job since, if Busy was never published; exempt if stopped",
    discover=discover,
    observe=observe,
    blocked_actions=blocked_actions,
    parts_after=parts_after,
    has_idle_shutdown=True,
    actions=ACTION_SPECS,
    commands={StepName.STOP: partial(azureml.command, "Stop it now", azureml.STOP_INSTANCE)},
    undo_line=undo_line,
    console_url=azureml.console_url,
    place=azureml.place,
    price_keys=("Linux",),
    details=ComputeDetails,
    needs_setup="Busy (docs/busy.md)",
)
