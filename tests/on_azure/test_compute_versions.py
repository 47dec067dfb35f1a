"""Computes are read at the API version whose replies have idle shutdown; where a cloud refuses it, what isn't there is unknown."""

from __future__ import annotations

import pytest

from on_azure.conftest import CLUSTER, DAY, INSTANCE, NOW, Sweep
from on_azure.prepared_actions import find_blocked, prepare_action
from reaper.azure.session import CloudSession
from reaper.errors import CloudError
from reaper.model import Status
from reaper_sandbox.azure import refusal
from reaper_sandbox.azure.fault import Fault
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

NEW, OLD = "2026-03-01", "2025-12-01"
IDLE = "properties.properties.idleTimeBeforeShutdown"
TYPE = "workspaces/computes"
REFUSALS = [
    pytest.param(
        400,
        "NoRegisteredProviderFound",
        f"No registered resource provider found for location 'usgovvirginia' and API version '{NEW}' for type '{TYPE}'.",
        id="no provider for it",
    ),
    pytest.param(400, "InvalidApiVersionParameter", f"The api-version '{NEW}' is invalid.", id="an invalid parameter"),
    pytest.param(400, "UnsupportedApiVersion", "The HTTP resource does not support it.", id="an unsupported version"),
    pytest.param(
        404, "InvalidResourceType", f"The resource type '{TYPE}' could not be found for api version '{NEW}'.", id="no type"
    ),
]


def refuse_new_version(server: Server, status: int = 400, code: str = "InvalidApiVersionParameter", text: str = "no") -> None:
    """As a sovereign cloud does, which gets new versions months later."""

    def answer(request: Request) -> Reply:
        return refusal.refused(status, code, text).reply

    def guard(request: Request) -> Fault | None:
        return Fault(answer=answer) if "/computes" in request.path and request.api_version == NEW else None

    server.rules.append(guard)


def versions_of(server: Server) -> list[str | None]:
    return [r.api_version for r in server.requests if "/computes" in r.path]


def test_idle_shutdown_is_read_at_the_version_that_has_it(server: Server, vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=NOW - 30 * DAY).set(IDLE, "PT30M")
    assert "its idle shutdown (PT30M) is on but didn't stop it" in run_sweep(INSTANCE).because("ci")
    assert set(versions_of(server)) == {NEW}


@pytest.mark.parametrize(("status", "code", "text"), REFUSALS)
def test_a_cloud_without_that_version_is_asked_for_the_older_one(
    server: Server, vision: Workspace, run_sweep: Sweep, status: int, code: str, text: str
):
    refuse_new_version(server, status, code, text)
    vision.instance("on", started=NOW - 30 * DAY).set(IDLE, "PT30M")
    vision.instance("off", started=NOW - 30 * DAY)
    result = run_sweep(INSTANCE)
    for name in ("on", "off"):
        assert "this cloud doesn't say whether its idle shutdown is on" in result.because(name)
    assert result.coverage(INSTANCE).status is Status.OK
    assert versions_of(server) == [NEW, OLD]


def test_the_version_is_refused_once_for_all_workspaces_and_kinds(server: Server, vision: Workspace, cloud: CloudSession):
    refuse_new_version(server)
    vision.instance("ci")
    vision.cluster("gpu")
    for kind, name in ((INSTANCE, "ci"), (CLUSTER, "gpu")):
        prepare_action(cloud, kind, name)
    assert versions_of(server).count(NEW) == 1


def test_another_refusal_asks_for_no_older_version(server: Server, vision: Workspace, run_sweep: Sweep):
    refuse_new_version(server, 400, "BadRequest", "The workspace is being moved.")
    vision.instance("ci")
    assert run_sweep(INSTANCE).coverage(INSTANCE).status is Status.PARTIAL
    assert OLD not in versions_of(server)


def test_an_unknown_idle_shutdown_is_not_switched_on(server: Server, vision: Workspace, cloud: CloudSession):
    refuse_new_version(server)
    vision.instance("ci")
    blocked = find_blocked(cloud, INSTANCE, "ci", stop_by="native")
    assert blocked
    assert blocked.because == "this cloud doesn't say whether its idle shutdown is on"
    assert not blocked.already_done
    assert find_blocked(cloud, INSTANCE, "ci") is None


def test_an_unknown_idle_shutdown_is_not_called_off_by_an_undo(server: Server, vision: Workspace, cloud: CloudSession):
    vision.instance("ci")
    act = prepare_action(cloud, INSTANCE, "ci", stop_by="native")
    act.perform()
    refuse_new_version(server)
    with pytest.raises(CloudError, match="doesn't say whether its idle shutdown is on; check it in the studio"):
        act.undo()
