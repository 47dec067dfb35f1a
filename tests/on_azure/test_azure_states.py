"""States of instances that are being created, started, stopped or restarted."""

from __future__ import annotations

import pytest

from on_azure.conftest import DAY, INSTANCE, LONG_AGO, NOW, Sweep
from on_azure.prepared_actions import find_blocked
from reaper.azure.session import CloudSession
from reaper.model import State, StepName
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.subscription import Thing, Workspace


def silent_instance(vision: Workspace, name: str) -> Thing:
    one = vision.instance(f"ci-{name.lower()}", started=NOW - 30 * DAY)
    signals.busy(one, 0, since=LONG_AGO)
    return one


@pytest.mark.parametrize("state", ["Running", "Stopped"])
def test_a_start_in_progress_is_young_in_any_state(vision: Workspace, run_sweep: Sweep, state: str):
    one = silent_instance(vision, "one").set("properties.properties.state", state)
    one.body["properties"]["properties"]["lastOperation"] |= {"operationName": "Start", "operationStatus": "InProgress"}
    result = run_sweep(INSTANCE)
    assert (result.state(one.name), result.because(one.name)) == (State.YOUNG, "a start is in progress")


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
