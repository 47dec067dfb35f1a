"""Azure ML compute instances. Azure publishes no metric of their use, so proof needs our `Busy` signal; uptime is only a hint.

`Busy` is published by our script from inside an instance, as a custom metric of the workspace: 1 while a kernel, terminal job, CPU or GPU works,
else 0: https://learn.microsoft.com/azure/azure-monitor/metrics/metrics-custom-overview
States and native idle shutdown (15 minutes to 3 days): https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance
Stopping and starting: https://learn.microsoft.com/rest/api/azureml/compute/stop
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from reaper.azure import computes, metrics, reader
from reaper.azure.computes import CHANGING_STATES, ComputeDetails
from reaper.azure.metrics import MetricQuery, MetricResult, activity_reading, heartbeat_reading
from reaper.azure.reader import Scaling, State, Table, each, kind_of, read_workspace_metrics, state_in, state_not_in
from reaper.azure.requests import ArmChange, Json, parse_time
from reaper.evidence import has_heartbeat, last_used
from reaper.kind import StartStop, Undo, block, none_of, status_rule
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import IndirectEvidence, Observation, Reading

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

NAME, TYPE = "azureml-compute-instance", "ComputeInstance"
STOP, START, SET_SHUTDOWN = (f"{computes.ROOT}/{name}/action" for name in ("stop", "start", "updateIdleShutdownSetting"))
IN_PROGRESS = "InProgress"
FINISHED_STATUSES = {None, "Succeeded", "StopFailed", "DeleteFailed"}
"""How an operation can end that leaves a running instance as sound as it was; None if Azure doesn't say."""
SHUTDOWN, SHUTDOWN_AFTER, SHUTDOWN_API_VERSION = "idleTimeBeforeShutdown", "PT60M", "2021-07-01"
"""An hour, which is what the studio proposes; and the version that Microsoft documents for this call."""
SHUTDOWN_UNKNOWN = "this cloud doesn't say whether its idle shutdown is on"
BUSY = MetricQuery(
    namespace="MLIdleReaper", metrics=("Busy",), aggregation="Maximum", split_by="ComputeName", is_published_by_us=True
)
changing_provisioning_state = partial(state_in, CHANGING_STATES, "provisioning_state")
unsound_provisioning_state = partial(state_not_in, {"Succeeded"}, "provisioning_state")


def instance(compute: Resource) -> Resource:
    properties, provisioning_state = compute.details.properties, compute.details.provisioning_state
    state, size = str(properties.get("state") or provisioning_state), properties.get("vmSize")
    parts = (BilledPart(component="Linux", instance=size),) if size else None
    status = "Deleting" if provisioning_state == "Deleting" else state
    return computes.complete(compute, NAME, status, () if state == "Stopped" else parts)


def readings(busy: MetricResult) -> tuple[Reading, ...]:
    """Without any point both are empty: nothing publishes it there."""
    return activity_reading("Busy", busy), heartbeat_reading("Busy heartbeat", busy)


def last_operation(resource: Resource) -> tuple[str, str | None]:
    """The name and the status of its last operation; the status is None if Azure doesn't say."""
    last = resource.details.properties["lastOperation"]
    status = last.get("operationStatus")
    return str(last.get("operationName") or ""), None if status is None else str(status)


def operation_in_progress(resource: Resource) -> str | None:
    name, status = last_operation(resource)
    return (f"a {name.lower()}" if name else "an operation") if status == IN_PROGRESS else None


def is_being_deleted(resource: Resource) -> bool:
    return resource.status == "Deleting" or last_operation(resource) == ("Delete", IN_PROGRESS)


def unsound_operation(resource: Resource) -> str | None:
    status = last_operation(resource)[1]
    return None if status in FINISHED_STATUSES else status or "missing"


@each
def with_uptime(cloud: CloudSession, observation: Observation) -> Observation:
    """Uptime is all that Azure itself knows: since its last operation. If that is a stop, it was started unseen."""
    was_stopped = last_operation(observation.resource) in {("Stop", "Succeeded"), ("Delete", "Succeeded")}
    since = parse_time(observation.resource.details.properties["lastOperation"].get("operationTime"))
    if since is not None and not was_stopped:
        because = _uptime_sentence(observation, since)
        return replace(observation, indirect_evidence=IndirectEvidence(since=since, because=because))
    if has_heartbeat(observation):
        return observation
    return replace(observation, unknown_because="its last operation is unknown, and so is its uptime")


def _uptime_sentence(observation: Observation, since: datetime) -> str:
    used, limit = last_used(observation), shutdown_limit(observation.resource)
    shutdown = SHUTDOWN_UNKNOWN if observation.resource.details.may_lack_settings else "its idle shutdown is off"
    shutdown = f"its idle shutdown ({limit}) is on but didn't stop it" if limit else shutdown
    no_job = used is None or used < since
    last_job = "no job since" if no_job else f"its last job was seen at {used:%Y-%m-%d %H:%M} UTC"
    return f"running since {since:%Y-%m-%d %H:%M} UTC, {last_job}, {shutdown}, and no Busy signal as proof"


def left_because(resource: Resource) -> str | None:
    """Why a running one can't be stopped now, or a stopped one started."""
    if resource.status == "JobRunning":
        return "a job is running on it"
    unfit = changing_provisioning_state if resource.status == "Stopped" else unsound_provisioning_state
    if state := unfit(resource):
        return f"its provisioning state is {state}"
    operation = operation_in_progress(resource)
    return f"{operation} is in progress" if operation else None


def shutdown_limit(resource: Resource) -> object:
    """The time without use after which its own idle shutdown stops it; nothing if that is off or unknown."""
    return resource.details.properties.get(SHUTDOWN)


def shutdown_setting(state: State) -> Json:
    return {SHUTDOWN: state.get(SHUTDOWN) or None}


def shutdown_text(after: object) -> str:
    return str(after) if after else "off"


def set_shutdown(instance_id: str, state: State, setting: Json) -> ArmChange:
    """Azure documents no way to turn it off, so null is tried."""
    path = f"{instance_id}/updateIdleShutdownSetting?api-version={SHUTDOWN_API_VERSION}"
    return ArmChange(permission=SET_SHUTDOWN, path=path, body=setting, method="POST")


def shutdown_doubt(resource: Resource) -> str | None:
    doubt = "; it has a managed identity, and unless that is Contributor on the workspace, Azure will silently not shut it down"
    return doubt if resource.details.has_identity else None


TABLE = Table(
    name=NAME,
    title="Azure ML compute instance",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-compute-instance",
    activity="Busy above 0; an unfinished job on it; state JobRunning",
    heartbeat="points of Busy",
    without_proof="likely by uptime since the last start and no job since, if Busy was never published; exempt if stopped",
    permissions=(*computes.PERMISSIONS, computes.READ_JOBS, metrics.PERMISSION),
    discover=partial(computes.list_computes, TYPE, instance),
    read_now=partial(computes.read_compute_now, TYPE, instance),
    states=(
        status_rule("in_use", {"JobRunning"}, "a job is running on it"),
        status_rule("free", is_being_deleted, "it is being deleted"),
        status_rule("changing", operation_in_progress, "{0} is in progress"),
        status_rule("free", {"Stopped"}, "it is stopped; only its disk and addresses are billed"),
        status_rule("changing", CHANGING_STATES, "its state is {status}"),
        status_rule("changing", changing_provisioning_state, "its provisioning state is {0}"),
        status_rule("unknown", none_of("Running"), "its state is {status}"),
        status_rule("unknown", unsound_provisioning_state, "its provisioning state is {0}"),
        status_rule("unknown", unsound_operation, "its last operation is {0}"),
    ),
    signals=partial(read_workspace_metrics, BUSY, readings),
    closer_looks=(computes.with_jobs, with_uptime),
    saved=("state", SHUTDOWN),
    undo_permissions=(START, SET_SHUTDOWN),
    actions={
        StepName.STOP: StartStop(
            participle="stopped",
            effect="stops it. Its machine is no longer billed; its disk and addresses still are. With `stop_by: native` it keeps running, and "
            "its own idle shutdown is turned on (after an hour without use) if it is off. Azure silently ignores that on an instance with a "
            "managed identity that isn't Contributor on the workspace",
            undo="starts it; what was in memory is lost. Idle shutdown is set to what it was, with a warning if Azure doesn't turn it off",
            permissions=(STOP, SET_SHUTDOWN),
            call="stop",
            because="stop requested; the next sweep checks the result",
            allowed={"Running", "JobRunning"},
            done={"Stopped": "it is already stopped", "Stopping": "its state is Stopping"},
            left_because=left_because,
            status_noun="state",
            undo_call=Undo(
                call="start",
                because="start requested; the next sweep checks the result; kernels, terminals and what was in memory when it was stopped "
                "are lost",
                done={"Starting", "Running", "JobRunning"},
            ),
        ),
        StepName.START: StartStop(
            participle="started",
            effect="starts it when its office hours begin",
            undo="does nothing: it may be in use by now, so stopping it is left to office hours and people",
            permissions=(START,),
            call="start",
            because="start requested; the next sweep checks the result",
            allowed={"Stopped"},
            done={
                "Running": "it is already running",
                "JobRunning": "it is already running",
                "Starting": "its state is Starting",
            },
            left_because=left_because,
            status_noun="state",
        ),
    },
    native=Scaling(
        permissions=(SET_SHUTDOWN,),
        what="idle shutdown",
        to=SHUTDOWN_AFTER,
        number=SHUTDOWN,
        of=computes.compute_request,
        section=shutdown_setting,
        change=set_shutdown,
        text=shutdown_text,
        outcome=f"its idle shutdown was switched on: it runs on until {SHUTDOWN_AFTER} without use have passed",
        doubt=shutdown_doubt,
        may_stay="its idle shutdown couldn't be turned off; it is on ({}): turn it off in the studio",
        if_unknown=SHUTDOWN_UNKNOWN,
    ),
    native_blocks=(
        block(
            shutdown_limit,
            "its idle shutdown ({0}) is already on; if that doesn't stop it, `stop_by: stop` does",
            already_done=True,
        ),
        block(attrgetter("details.may_lack_settings"), SHUTDOWN_UNKNOWN),
    ),
    commands={StepName.STOP: partial(reader.command, "Stop it now", "az ml compute stop --name {name}" + reader.IN_WORKSPACE)},
    undo_command="az ml compute start --name {name}" + reader.IN_WORKSPACE,
    price_keys=("Linux",),
    details=ComputeDetails,
    needs_setup="Busy (docs/busy.md)",
)
KIND = kind_of(TABLE)
