"""Every state that Azure's own SDK knows has a verdict, and one that nobody knows is never idle."""

from __future__ import annotations

from enum import Enum

import pytest
from azure.mgmt.machinelearningservices import models

from on_azure.conftest import CLUSTER, DAY, DEPLOYMENT, INSTANCE, LONG_AGO, NOW, Sweep
from on_azure.prepared_actions import find_blocked
from reaper.azure.session import CloudSession
from reaper.model import State, StepName
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.subscription import Thing, Workspace

NEW = "SomethingNew"
COMPUTE = {
    "Unknown": State.UNKNOWN,
    "Updating": State.YOUNG,
    "Creating": State.YOUNG,
    "Deleting": State.EXEMPT,
    "Succeeded": State.IDLE,
    "Failed": State.UNKNOWN,
    "Canceled": State.UNKNOWN,
}
INSTANCE_STATES = {
    "Creating": State.YOUNG,
    "CreateFailed": State.UNKNOWN,
    "Deleting": State.EXEMPT,
    "Running": State.IDLE,
    "Restarting": State.YOUNG,
    "JobRunning": State.ACTIVE,
    "SettingUp": State.YOUNG,
    "SetupFailed": State.UNKNOWN,
    "Starting": State.YOUNG,
    "Stopped": State.EXEMPT,
    "Stopping": State.YOUNG,
    "UserSettingUp": State.YOUNG,
    "UserSetupFailed": State.UNKNOWN,
    "Unknown": State.UNKNOWN,
    "Unusable": State.UNKNOWN,
}
OPERATIONS = dict.fromkeys(("Create", "Start", "Stop", "Restart", "Reimage"), State.YOUNG) | {"Delete": State.EXEMPT}
"""While they are in progress."""
ENDS = dict.fromkeys(("Succeeded", "StopFailed", "DeleteFailed"), State.IDLE) | {
    "InProgress": State.YOUNG,
    **dict.fromkeys(("CreateFailed", "StartFailed", "RestartFailed", "ReimageFailed"), State.UNKNOWN),
}
ALLOCATION = {"Steady": State.IDLE, "Resizing": State.ACTIVE}
DEPLOYMENTS = {
    "Creating": State.YOUNG,
    "Deleting": State.EXEMPT,
    "Scaling": State.YOUNG,
    "Updating": State.YOUNG,
    "Succeeded": State.IDLE,
    "Failed": State.IDLE,
    "Canceled": State.IDLE,
}
"""A failed one with machines that are alive is judged by its metrics."""
ENDPOINTS = {name: state for name, state in DEPLOYMENTS.items() if name != "Scaling"}
JOBS = dict.fromkeys((one.value for one in models.JobStatus), State.ACTIVE) | dict.fromkeys(
    ("Completed", "Failed", "Canceled"), State.IDLE
)
JOBS_KNOWN = {"NotStarted", "Starting", "Provisioning", "Preparing", "Queued", "Running", "Finalizing", "CancelRequested"} | {
    "Completed", "Failed", "Canceled", "NotResponding", "Paused", "Unknown"
}  # fmt: skip


@pytest.mark.parametrize(
    ("enum", "known"),
    [
        (models.ProvisioningState, COMPUTE),
        (models.ComputeInstanceState, INSTANCE_STATES),
        (models.OperationName, OPERATIONS),
        (models.OperationStatus, ENDS),
        (models.AllocationState, ALLOCATION),
        (models.DeploymentProvisioningState, DEPLOYMENTS),
        (models.EndpointProvisioningState, ENDPOINTS),
        (models.JobStatus, JOBS_KNOWN),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_every_state_in_the_sdk_has_a_verdict(enum: type[Enum], known: object):
    assert {str(one.value) for one in enum} == set(known)


def each(known: dict[str, State]) -> dict[str, State]:
    """The same, and a state that nobody knows."""
    return known | {NEW: State.UNKNOWN}


def silent_instance(vision: Workspace, name: str) -> Thing:
    one = vision.instance(f"ci-{name.lower()}", started=NOW - 30 * DAY)
    signals.busy(one, 0, since=LONG_AGO)
    return one


def silent_cluster(vision: Workspace, name: str) -> Thing:
    one = vision.cluster(f"c-{name.lower()}")
    signals.nodes(one, active=0, idle=1, since=LONG_AGO)
    return one


def silent_deployment(vision: Workspace, name: str) -> Thing:
    one = vision.endpoint(f"e-{name.lower()}").deployment(f"d-{name.lower()}")
    signals.requests(one, 0, since=LONG_AGO)
    signals.capacity(one, since=LONG_AGO)
    return one


@pytest.mark.parametrize(
    ("make", "kind", "path", "known"),
    [
        (silent_instance, INSTANCE, "properties.properties.state", INSTANCE_STATES),
        (silent_instance, INSTANCE, "properties.provisioningState", COMPUTE),
        (silent_instance, INSTANCE, "properties.properties.lastOperation.operationStatus", ENDS),
        (silent_cluster, CLUSTER, "properties.provisioningState", COMPUTE),
        (silent_cluster, CLUSTER, "properties.properties.allocationState", ALLOCATION),
        (silent_deployment, DEPLOYMENT, "properties.provisioningState", DEPLOYMENTS),
    ],
    ids=["instance", "its provisioning", "its last operation", "cluster", "its allocation", "deployment"],
)
def test_each_state_has_its_verdict(vision: Workspace, run_sweep: Sweep, make, kind: str, path: str, known: dict[str, State]):
    states = {make(vision, value).set(path, value).name: state for value, state in each(known).items()}
    result = run_sweep(kind)
    assert {name: result.state(name) for name in states} == states


def test_each_endpoint_state_has_a_verdict_for_its_deployments(vision: Workspace, run_sweep: Sweep):
    states = {}
    for value, state in each(ENDPOINTS).items():
        one = silent_deployment(vision, value)
        vision.world.estate.find(one.id.partition("/deployments/")[0])["properties"]["provisioningState"] = value
        states[one.name] = state
    result = run_sweep(DEPLOYMENT)
    assert {name: result.state(name) for name in states} == states


def test_an_operation_in_progress_is_never_idle_in_any_state(vision: Workspace, run_sweep: Sweep):
    states = {}
    for name, state in each(OPERATIONS).items():
        one = silent_instance(vision, name)
        one.body["properties"]["properties"]["lastOperation"] |= {"operationName": name, "operationStatus": "InProgress"}
        states[one.name] = State.YOUNG if name == NEW else state
    result = run_sweep(INSTANCE)
    assert {name: result.state(name) for name in states} == states


@pytest.mark.parametrize("state", ["Running", "Stopped"])
def test_a_start_in_progress_is_young_in_any_state(vision: Workspace, run_sweep: Sweep, state: str):
    one = silent_instance(vision, "one").set("properties.properties.state", state)
    one.body["properties"]["properties"]["lastOperation"] |= {"operationName": "Start", "operationStatus": "InProgress"}
    result = run_sweep(INSTANCE)
    assert (result.state(one.name), result.because(one.name)) == (State.YOUNG, "a start is in progress")


def test_each_status_of_a_job_has_its_verdict(vision: Workspace, run_sweep: Sweep):
    states = {}
    for status, state in (JOBS | {NEW: State.ACTIVE}).items():
        one = silent_cluster(vision, status)
        job = vision.job(f"j-{status.lower()}", on=one.name, created=NOW - 9 * DAY)
        job.set("properties.status", status)
        states[one.name] = state
    result = run_sweep(CLUSTER)
    assert {name: result.state(name) for name in states} == states


def test_an_instance_being_created_is_young(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", created=NOW).set("properties.provisioningState", "Creating").tagged(None)
    one.set("properties.properties.state", None).set("properties.properties.lastOperation", None)
    result = run_sweep(INSTANCE)
    assert (result.state("ci"), result.coverage(INSTANCE).status) == (State.YOUNG, "ok")


def test_a_running_instance_last_stopped_has_unknown_uptime(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=NOW - 30 * DAY)
    one.body["properties"]["properties"]["lastOperation"]["operationName"] = "Stop"
    assert run_sweep(INSTANCE).state("ci") is State.UNKNOWN


@pytest.mark.parametrize(("move", "state"), [(StepName.STOP, "Running"), (StepName.START, "Stopped")])
def test_an_operation_in_progress_blocks_stop_and_start(cloud: CloudSession, vision: Workspace, move: StepName, state: str):
    one = vision.instance("ci").set("properties.properties.state", state)
    assert find_blocked(cloud, INSTANCE, "ci", move) is None
    one.body["properties"]["properties"]["lastOperation"] |= {"operationName": "Restart", "operationStatus": "InProgress"}
    assert find_blocked(cloud, INSTANCE, "ci", move).because == "a restart is in progress"
