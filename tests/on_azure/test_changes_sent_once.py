"""A change is sent once, whatever becomes of it: counted at the wire, through the real SDKs."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from on_azure.changes import deleted, deleted_with_traffic, minimum_lowered, scaled_in, started, stopped, stopped_natively
from on_azure.conftest import SUB
from on_azure.prepared_actions import PreparedAction
from reaper.azure import targets
from reaper.azure.requests import ArmRequest
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper_sandbox.azure.fault import Fault, carried_out, cut, error, garbage, lost, throttled
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

CLAIMS = base64.urlsafe_b64encode(b'{"access_token": {"nbf": {"essential": true, "value": "1"}}}').decode()


def challenge() -> Fault:
    """401 with claims, after which azure-core would get another token and send the request again."""
    header = f'Bearer realm="", authorization_uri="https://login.microsoftonline.com/common", error="insufficient_claims", claims="{CLAIMS}"'
    body = {"error": {"code": "InvalidAuthenticationToken", "message": "Continuous access evaluation"}}
    return Fault(answer=lambda request: Reply(status=401, body=body, headers={"WWW-Authenticate": header}))


def redirect(server: Server) -> Fault:
    """307 to the same place."""
    return Fault(answer=lambda r: Reply(status=307, headers={"Location": f"{server.url}{r.path}?api-version={r.api_version}"}))


def busy(status: int) -> Fault:
    """An error with a Retry-After, which alone makes azure-core repeat any method."""
    body = {"error": {"code": "Busy", "message": "later"}}
    return Fault(answer=lambda request: Reply(status=status, body=body, headers={"Retry-After": "1"}))


FAULTS: dict[str, tuple[Callable[[Server], Fault], Reason, bool]] = {
    "429": (lambda server: throttled(1), Reason.THROTTLED, False),
    "429, carried out": (lambda server: carried_out(throttled(1)), Reason.THROTTLED, False),
    "500": (lambda server: error(500), Reason.UNREACHABLE, True),
    "500, carried out": (lambda server: carried_out(error(500)), Reason.UNREACHABLE, True),
    "503 with Retry-After": (lambda server: busy(503), Reason.UNREACHABLE, True),
    "408 with Retry-After": (lambda server: busy(408), Reason.UNREACHABLE, True),
    "cut off": (lambda server: cut(), Reason.UNREACHABLE, True),
    "cut off, carried out": (lambda server: lost(), Reason.UNREACHABLE, True),
    "409 with Retry-After": (lambda server: busy(409), Reason.REFUSED, False),
    "another token is needed": (lambda server: challenge(), Reason.DENIED, False),
    "redirected": (redirect, Reason.REFUSED, False),
}


CHANGES = [scaled_in, deleted, deleted_with_traffic, minimum_lowered, stopped, stopped_natively, started]


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("change", [scaled_in, stopped], ids=lambda change: change.__name__)
def test_a_permit_knows_whether_a_failed_change_was_made(
    server: Server,
    vision: Workspace,
    cloud: CloudSession,
    change: Callable[[Workspace, CloudSession], PreparedAction],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
):
    one, (make, reason, may_have_been_made) = change(vision, cloud), FAULTS[fault]
    server.rules.append(lambda request: make(server) if request.mutation else None)
    permit, waits = one.permit(), list[float]()
    monkeypatch.setattr(time, "sleep", waits.append)
    failed = one.refused(permit)
    assert len(server.mutations) == 1
    assert (failed.reason, failed.may_have_been_made) == (reason, may_have_been_made)
    assert permit.calls_made == may_have_been_made
    assert not any(waits), "nothing is waited for"


@pytest.mark.parametrize("change", [scaled_in, deleted_with_traffic, minimum_lowered, stopped_natively])
@pytest.mark.parametrize("fault", [garbage(), carried_out(garbage())], ids=["not made", "made"])
def test_an_unreadable_reply_means_that_a_change_may_have_been_made(
    server: Server,
    vision: Workspace,
    cloud: CloudSession,
    change: Callable[[Workspace, CloudSession], PreparedAction],
    fault: Fault,
):
    one = change(vision, cloud)
    server.rules.append(lambda request: fault if request.mutation else None)
    failed = one.refused()
    assert (failed.reason, failed.may_have_been_made, len(server.mutations)) == (Reason.UNREADABLE, True, 1)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_that_was_never_sent_was_not_made(
    server: Server, vision: Workspace, cloud: CloudSession, change: Callable[[Workspace, CloudSession], PreparedAction]
):
    one = change(vision, cloud)
    permit = one.permit()
    session = cloud.without_cache()
    session.is_over = lambda: True
    with pytest.raises(CloudError) as caught:
        one.functions.perform(session, one.resource, one.manifest, permit)
    assert (caught.value.may_have_been_made, permit.calls_made, server.mutations) == (False, 0, [])


@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
def test_a_change_without_a_token_was_not_made(
    server: Server,
    vision: Workspace,
    cloud: CloudSession,
    change: Callable[[Workspace, CloudSession], PreparedAction],
    monkeypatch: pytest.MonkeyPatch,
):
    one = change(vision, cloud)
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    [session] = targets.target_sessions([SUB])
    with pytest.raises(CloudError, match="no token") as caught:
        one.functions.perform(session, one.resource, one.manifest, one.permit())
    assert (caught.value.may_have_been_made, server.mutations) == (False, [])


@pytest.mark.parametrize("undone", [scaled_in, minimum_lowered, stopped], ids=lambda change: change.__name__)
def test_undoing_sends_its_change_once_and_says_to_run_it_again(
    server: Server, vision: Workspace, cloud: CloudSession, undone: Callable[[Workspace, CloudSession], PreparedAction]
):
    one = undone(vision, cloud)
    one.perform()
    server.now = server.world.now + timedelta(minutes=5)
    server.world.operations.settle(server.world.now)
    server.rules.append(lambda request: throttled(1) if request.mutation else None)
    with pytest.raises(CloudError, match=r"throttled .*; run it again in a few minutes"):
        one.functions.undo(cloud.without_cache(), one.manifest)
    assert len(server.mutations) == 2


@pytest.mark.parametrize(
    ("fault", "requests"), [(throttled(1), 4), (error(503), 4), (error(500), 4), (cut(), 2), (challenge(), 2)],
    ids=["429", "503", "500", "cut off", "another token is needed"],
)  # fmt: skip
def test_reads_are_tried_again(server: Server, vision: Workspace, cloud: CloudSession, fault: Fault, requests: int):
    path = vision.cluster("gpus").id
    remaining = [fault] * (requests - 1)
    server.rules.append(lambda request: remaining.pop() if remaining else None)
    read = ArmRequest(permission="Microsoft.MachineLearningServices/workspaces/computes/read", path=path)
    assert cloud.call(read)["name"] == "gpus"
    assert [r.path for r in server.requests] == [path] * requests


def test_a_read_between_permit_and_call_is_tried_once(server: Server, vision: Workspace, cloud: CloudSession):
    one, seen = deleted_with_traffic(vision, cloud), list[Request]()

    def throttle(request: Request) -> Fault | None:
        seen.append(request)
        in_permit = request.path.endswith("/deployments/blue") or len(seen) < 2
        return None if in_permit or not seen[-2].path.endswith("/deployments/blue") else throttled(1)

    server.rules.append(throttle)
    failed = one.refused()
    assert (failed.reason, failed.may_have_been_made, server.mutations) == (Reason.THROTTLED, False, [])
    assert [r.method for r in seen if r.path.endswith("/onlineEndpoints/chat")] == ["GET", "GET"]
