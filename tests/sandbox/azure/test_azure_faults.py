"""Faults and rights: what the real SDKs make of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import AzureError, DecodeError, HttpResponseError

from reaper_sandbox.azure.fault import carried_out, cut, denied, empty, error, garbage, latency, lost, on, throttled
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace
from sandbox.azure import sdk

READ = "Microsoft.MachineLearningServices/workspaces/computes/read"


def computes(server: Server, workspace: str = "vision", **options: Any) -> list[str]:
    return [c.name for c in sdk.ml(server, **options).compute.list("ml", workspace)]


def test_a_missing_right_names_the_action_and_the_scope(server: Server, vision: Workspace) -> None:
    server.subscription(sdk.SUB).workspace("other")
    server.rules.append(deny(READ, ".*/workspaces/vision"))
    with pytest.raises(HttpResponseError) as raised:
        computes(server)
    assert raised.value.status_code == 403
    assert raised.value.error is not None
    assert raised.value.error.code == "AuthorizationFailed"
    assert f"does not have authorization to perform action '{READ}' over scope '{vision.id}' or the scope" in str(raised.value)
    assert computes(server, "other") == []


def test_a_role_grants_its_actions_and_no_others(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    server.rules.append(only("Microsoft.MachineLearningServices/*/read"))
    assert computes(server) == ["ada"]
    with pytest.raises(HttpResponseError, match="computes/stop/action"):
        sdk.ml(server).compute.begin_stop("ml", "vision", "ada")
    assert ada.body["properties"]["properties"]["state"] == "Running"
    assert len(server.mutations) == 1


def test_a_path_can_be_denied(server: Server, vision: Workspace) -> None:
    server.rules.append(on("GET", ".*/computes", denied()))
    with pytest.raises(HttpResponseError, match=READ):
        computes(server)


def test_endless_throttling_reaches_the_caller_with_its_wait(server: Server, vision: Workspace) -> None:
    server.rules.append(on("GET", ".*", throttled(7)))
    with pytest.raises(HttpResponseError) as raised:
        computes(server, retry_total=0)
    assert raised.value.status_code == 429
    assert raised.value.response is not None
    assert raised.value.response.headers["Retry-After"] == "7"


@pytest.mark.parametrize("fault", [pytest.param(error(503), id="503"), pytest.param(cut(), id="cut connection")])
def test_the_sdk_retries_after_a_passing_fault(server: Server, vision: Workspace, fault: Any) -> None:
    vision.cluster("gpus")
    server.rules.append(on("GET", ".*/computes", fault, times=1))
    assert computes(server) == ["gpus"]


def test_a_lasting_fault_is_an_azure_error(server: Server, vision: Workspace) -> None:
    server.rules.append(on("GET", ".*/computes", cut()))
    with pytest.raises(AzureError):
        computes(server)


def test_a_lost_reply_follows_a_request_that_took_effect(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    server.rules.append(on("POST", ".*/stop", lost()))
    with pytest.raises(AzureError):
        sdk.ml(server).compute.begin_stop("ml", "vision", "ada", polling=False)
    assert ada.body["properties"]["properties"]["state"] == "Stopping"
    assert len(server.mutations) == 1


def test_an_error_may_follow_a_request_that_took_effect(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    server.rules.append(on("POST", ".*/stop", carried_out(error(501))))
    with pytest.raises(HttpResponseError):
        sdk.ml(server).compute.begin_stop("ml", "vision", "ada", polling=False)
    assert ada.body["properties"]["properties"]["state"] == "Stopping"


def test_a_garbled_reply_is_an_error(server: Server, vision: Workspace) -> None:
    server.rules.append(on("GET", ".*/computes", garbage()))
    with pytest.raises(DecodeError):
        computes(server)


def test_the_sdk_fails_on_an_empty_object_instead_of_a_page(server: Server, vision: Workspace) -> None:
    server.rules.append(on("GET", ".*/computes", empty()))
    with pytest.raises(TypeError):
        computes(server)


def test_a_slow_answer_is_correct_and_blocks_no_other(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus")
    client = sdk.ml(server)
    list(client.compute.list("ml", "vision"))
    slow = threading.Event()
    server.rules.append(on("GET", ".*/computes", latency(0.5), times=1))
    server.rules.append(lambda request: slow.set())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(computes, server)
        assert client.workspaces.get("ml", "vision").name == "vision"
        assert not first.done()
        assert first.result() == ["gpus"]
    assert slow.is_set()


def test_many_callers_at_once_are_all_answered_and_logged(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus")
    client = sdk.ml(server)
    server.rules.append(on("GET", ".*/computes", error(404), times=5))
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(lambda: list(client.compute.list("ml", "vision"))) for _ in range(40)]
        failed = sum(job.exception() is not None for job in jobs)
    assert failed == 5
    assert len(server.requests) == 40


def test_the_ca_is_gone_with_the_server(now: Any) -> None:
    with Server(now) as running:
        path = Path(running.ca)
        assert path.read_text().startswith("-----BEGIN CERTIFICATE")
    assert not path.exists()
