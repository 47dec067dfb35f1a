"""Runs and the executions that they are, over the wire."""

from __future__ import annotations

import re

import pytest

from reaper.aws.functions.executions import is_running, require_running, run_id_of, start_execution
from reaper.errors import SettingsError
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, cut, denied, error, on
from reaper_sandbox.aws.server import Server

EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:ml-idle-reaper-sweep"
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:ml-idle-reaper-sweep"


def test_a_run_has_its_executions_name_if_that_is_a_run_id():
    assert run_id_of(f"{EXECUTION}:0123456789ab") == "0123456789ab"


@pytest.mark.parametrize("name", ["2f6c6f1e-0b2b-4d0e-8a44-6ad0f6b0a7f1", "0123456789AB", "0123456789abc", "by-hand"])
def test_any_other_execution_is_one_run_however_often_it_is_asked_for(name: str):
    run_id = run_id_of(f"{EXECUTION}:{name}")
    assert re.fullmatch("[0-9a-f]{12}", run_id)
    assert run_id == run_id_of(f"{EXECUTION}:{name}")
    assert run_id != run_id_of(f"{EXECUTION}-2:{name}")


def described(status: str, machine: str = MACHINE) -> Fault:
    found = {"executionArn": EXECUTION, "status": status, "stateMachineArn": machine}
    return Fault(answer=lambda call: reply.result(call, found))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(described("RUNNING"), True, id="running"),
        pytest.param(described("PENDING_REDRIVE"), True, id="about to go on"),
        *(pytest.param(described(status), False, id=status) for status in ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")),
        pytest.param(error(400, "ExecutionDoesNotExist"), False, id="gone"),
        pytest.param(error(400, "InvalidArn"), True, id="not an execution"),
        pytest.param(denied(), True, id="denied"),
        pytest.param(cut(), True, id="no answer"),
    ],
)
def test_only_an_execution_that_is_known_to_be_over_is_over(server: Server, fault: Fault, expected: bool):
    server.rules.append(on("DescribeExecution", fault))
    assert is_running(f"{EXECUTION}:1") is expected


@pytest.mark.parametrize(
    ("fault", "because"),
    [
        *(
            pytest.param(described(status), "isn't a running execution", id=status)
            for status in ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE")
        ),
        pytest.param(described("RUNNING", f"{MACHINE}-2"), "isn't a running execution", id="another machine"),
        pytest.param(described("RUNNING", f"{MACHINE}/Observe"), "isn't a running execution", id="an item of its map"),
        pytest.param(error(400, "ExecutionDoesNotExist"), "can't be read", id="made up"),
        pytest.param(error(400, "InvalidArn"), "can't be read", id="not an execution"),
        pytest.param(denied(), "can't be read", id="denied"),
        pytest.param(cut(), "can't be read", id="no answer"),
    ],
)
def test_only_an_execution_that_is_known_to_run_may_sweep(server: Server, fault: Fault, because: str):
    server.rules.append(on("DescribeExecution", fault))
    with pytest.raises(SettingsError, match=f"{EXECUTION}:1 {because}"):
        require_running(f"{EXECUTION}:1", MACHINE)


def test_the_machines_own_running_execution_may_sweep(server: Server):
    server.rules.append(on("DescribeExecution", described("RUNNING")))
    require_running(f"{EXECUTION}:1", MACHINE)
    with pytest.raises(SettingsError, match="REAPER_WORKFLOW=None"):
        require_running(f"{EXECUTION}:1", None)


def test_a_machine_that_cannot_be_started_is_named(server: Server):
    server.rules.append(on("StartExecution", denied()))
    with pytest.raises(SettingsError, match=f"REAPER_WORKFLOW={MACHINE}: it can't be started.*not authorized"):
        start_execution(MACHINE, "0123456789ab", {})


def test_an_execution_gets_the_runs_id_and_the_calls_options(server: Server):
    def started(call: Call) -> Fault:
        return Fault(answer=lambda call: reply.result(call, {"executionArn": f"{EXECUTION}:{call.params['name']}"}))

    server.rules.append(lambda call: started(call) if call.operation == "StartExecution" else None)
    assert start_execution(MACHINE, "0123456789ab", {"mode": "audit"}) == f"{EXECUTION}:0123456789ab"
    assert server.calls[-1].params == {"stateMachineArn": MACHINE, "name": "0123456789ab", "input": '{"mode": "audit"}'}
