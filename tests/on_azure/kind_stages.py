"""Each Azure kind in the sandbox, for `test_kind_contract.py`. A new kind adds how a silent one is made, and the verdicts of its vendor's states."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from azure.mgmt.machinelearningservices import models

import kind_contract
from kind_contract import NEW, ODD, Act, verdicts
from on_azure.conftest import CLUSTER, DAY, DEPLOYMENT, HOUR, INSTANCE, LONG_AGO, NOW, SUB, changed
from on_azure.prepared_actions import later, prepare_action
from on_azure.test_changes_sent_once import FAULTS
from reaper.azure import targets
from reaper.azure.session import CloudSession
from reaper.kind import Kind
from reaper.model import StepName
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import denied, error, garbage, throttled
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

Records = tuple[Thing, ...]
SOUND, STATE, OPERATION = "properties.provisioningState", "properties.properties.state", "properties.properties.lastOperation"
ALLOCATION = "properties.properties.allocationState"


def at(path: str, thing: int = 0) -> Callable[[Records, str], object]:
    """Puts a state there, in what was made."""
    return lambda made, state: made[thing].set(path, state)


def in_progress(made: Records, operation: str) -> None:
    made[0].body["properties"]["properties"]["lastOperation"] |= {"operationName": operation, "operationStatus": "InProgress"}


def with_job(made: Records, status: str) -> None:
    space = Workspace(made[1].world, made[1].body)
    space.job(f"j-{status.lower()}", on=made[0].name, created=NOW - 9 * DAY).set("properties.status", status)


COMPUTE = verdicts(idle="Succeeded", young="Updating Creating", exempt="Deleting", unknown="Unknown Failed Canceled")
ENDPOINTS = verdicts(idle="Succeeded Failed Canceled", young="Creating Updating", exempt="Deleting")
"""A failed one with machines that are alive is judged by its metrics."""
STATES: dict[str, list[tuple[str, Any, Callable[[Records, str], object], dict[str, str | None]]]] = {
    INSTANCE: [
        ("its-state", models.ComputeInstanceState, at(STATE), verdicts(
            idle="Running", active="JobRunning", exempt="Stopped Deleting", unknown="CreateFailed SetupFailed Unknown UserSetupFailed Unusable",
            young="Creating Restarting SettingUp Starting Stopping UserSettingUp",
        )),
        ("its-provisioning", models.ProvisioningState, at(SOUND), COMPUTE),
        ("its-last-operation", models.OperationStatus, at(f"{OPERATION}.operationStatus"), verdicts(
            idle="Succeeded StopFailed DeleteFailed", young="InProgress", unknown="CreateFailed StartFailed RestartFailed ReimageFailed",
        )),
        ("its-operation", models.OperationName, in_progress, verdicts(young=f"Create Start Stop Restart Reimage {NEW}", exempt="Delete")),
    ],
    CLUSTER: [
        ("its-provisioning", models.ProvisioningState, at(SOUND), COMPUTE),
        ("its-allocation", models.AllocationState, at(ALLOCATION), verdicts(idle="Steady", active="Resizing")),
        ("its-job", models.JobStatus, with_job, verdicts(
            idle="Completed Failed Canceled", active="NotStarted Starting Provisioning Preparing Queued Running Finalizing "
            f"CancelRequested NotResponding Paused Unknown {NEW}",
        )),
    ],
    DEPLOYMENT: [
        ("its-provisioning", models.DeploymentProvisioningState, at(SOUND), ENDPOINTS | verdicts(young="Scaling")),
        ("its-endpoints", models.EndpointProvisioningState, at(SOUND, 1), ENDPOINTS),
    ],
}  # fmt: skip
"""Where a state of which enum of the SDK stands, and what a sweep says of each."""
FIELDS = {
    INSTANCE: (SOUND, STATE, "properties.computeType", "properties.createdOn"),
    CLUSTER: (SOUND, ALLOCATION, "properties.properties.scaleSettings", "properties.computeType", "properties.createdOn"),
    DEPLOYMENT: (SOUND, "systemData.createdAt"),
}
"""Of a row, without which nothing is proven."""


class AzureStage(kind_contract.Stage):
    """One kind in one subscription."""

    failures: Mapping[str, Any] = {
        "denied": denied(), "throttled": throttled(1), "garbled": garbage(), "vanished": error(404, "ResourceNotFound", "x"),
    }  # fmt: skip
    with_fallback = ("metrics:getBatch", "ResourceGraph", "onlineEndpoints", "autoscalesettings")
    """What is read in another way where it fails, or, like autoscale, only blocks an action."""
    reads_after_permit = 1
    """Before a PUT its endpoint is read once more: everything in it is written."""

    def __init__(self, server: Server, kind: Kind[Any]) -> None:
        super().__init__(server, kind)
        self.subscription, self.wire = server.subscription(SUB), server.requests
        self.space = self.subscription.workspace("vision")
        self.faults = {name: (make(server), reason, may) for name, (make, reason, may) in FAULTS.items()}
        self.looked_at = SOUND if kind.name == DEPLOYMENT else ""

    def sessions(self) -> list[CloudSession]:
        def pause(seconds: float) -> None:
            self.server.now = self.server.world.now + timedelta(seconds=seconds + 60)

        [session] = targets.target_sessions([SUB])
        session.clients.pause = pause
        return [session]

    def make(self, name: str, space: Workspace | None = None, created: Any = None) -> Records:
        space = space or self.space
        match self.kind.name:
            case "azureml-compute-instance":
                one = space.instance(name, started=NOW - 30 * DAY, created=created)
                signals.busy(one, 0, since=LONG_AGO)
            case "azureml-compute-cluster":
                one = space.cluster(name, nodes=(2, 4), created=created)
                signals.nodes(one, active=0, idle=2, since=LONG_AGO)
            case "azureml-online-deployment":
                endpoint = space.endpoint(f"of-{name}", created=LONG_AGO)
                one = endpoint.deployment(name, capacity=3, created=created)
                signals.requests(one, 0, since=LONG_AGO)
                signals.capacity(one, since=LONG_AGO)
                return one, endpoint, space
            case _:
                pytest.fail(f"{__name__} doesn't know how a silent {self.kind.name} is made")
        return one, space

    def places(self) -> Iterator[tuple[str, set[str], dict[str, str | None], Callable[[str, str], object]]]:
        for place, enum, put, known in STATES[self.kind.name]:
            yield place, {str(one.value) for one in enum}, known, lambda name, state, put=put: put(self.seed(name), state)  # type: ignore[misc]

    def odd_rows(self) -> Iterator[tuple[str, str]]:
        yield from ((field, odd) for field in ("id", "name", *FIELDS[self.kind.name]) for odd in ODD)

    def fatal_rows(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def odd_row(self, name: str, field: str, odd: str) -> None:
        one = self.seed(name)[0]
        one.without(field) if odd == "missing" else one.set(field, ODD[odd])

    def odd_look(self, name: str, odd: str) -> None:
        self.seed(name)
        change = lambda body: body["properties"].update(provisioningState=ODD[odd])  # noqa: E731
        self.server.rules.append(changed(self.server, f"/deployments/{name}", change))

    def key(self, call: Request) -> str:
        path = call.path.replace(f"/{self.about(call)}", "/*").replace(f"/of-{self.about(call)}", "/of-*")
        return "" if call.path == f"/subscriptions/{SUB}" else f"{call.method} {path}"

    def about(self, call: Request) -> str | None:
        """Which one a call is about; None if about all."""
        words = call.path.split("/")
        return next((name for name in self.records if name in words or f"of-{name}" in words), None)

    def is_change(self, call: Any) -> bool:
        return bool(call.mutation)

    def tag(self, name: str, thing: int, tags: Mapping[str, str]) -> None:
        self.seed(name, space=self.subscription.workspace(f"w-{name}"))[thing].tagged(dict(tags))

    def spoil_tags(self) -> None:
        for one, *_ in self.records.values():
            one.body["tags"] = "odd"

    def ways(self, step: StepName) -> list[tuple[str, Callable[[Records], object]]]:
        """By what it is stopped, and what is done to what was made."""
        unchanged = ("stop", lambda made: None)
        if step is StepName.START:
            return [("stop", lambda made: made[0].set(STATE, "Stopped"))]
        if step is StepName.DELETE:
            return [unchanged, ("stop", lambda made: made[1].set("properties.traffic", {made[0].name: 100}))]
        return [unchanged, ("native", lambda made: None)] if self.kind.has_idle_shutdown else [unchanged]

    def act(self, step: StepName, way: tuple[str, Callable[[Records], object]], name: str) -> Act:
        way[1](self.seed(name))
        [session] = self.sessions()
        one = prepare_action(session, self.kind.name, self.found(name).name, step, stop_by=way[0])
        return Act(perform=one.result, undo=one.undo, renew=lambda: self._renew(name))

    def _renew(self, name: str) -> None:
        one = self.records[name][0]
        if self.server.world.estate.find(one.id) is None:
            self.seed(name, created=NOW - HOUR)
        else:
            one.set("systemData.createdAt" if self.kind.name == DEPLOYMENT else "properties.createdOn", (NOW - HOUR).isoformat())

    def settle(self) -> None:
        later(self.server)


@contextmanager
def opened(kind: Kind[Any], patch: pytest.MonkeyPatch) -> Iterator[AzureStage]:
    for name in [n for n in os.environ if n.startswith(("AZURE_", "REAPER_", "IDENTITY_"))]:
        patch.delenv(name)
    with Server(NOW) as server:
        for name, value in server.env.items():
            patch.setenv(name, value)
        yield AzureStage(server, kind)
