"""A change that Azure carries out although its reply is lost on the way, so that the SDK tries again and is refused."""

from __future__ import annotations

import pytest

from on_azure.acting import PreparedAction, later, prepare_action
from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE
from reaper.azure.deployments import DEPLOYMENT_ROOT
from reaper.azure.request import ArmRequest
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.azure.fault import Fault, cut, error, garbage, lost, on, throttled
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

CONFLICT = error(409, "Conflict", "cannot update in-progress endpoint")
CHANGES = "PUT|PATCH|POST|DELETE"


@pytest.fixture
def blue(vision: Workspace) -> Thing:
    """The only deployment of an endpoint, without traffic."""
    return vision.endpoint("chat").deployment("blue", capacity=3)


def first(server: Server, fault: Fault, next_fault: Fault = CONFLICT) -> None:
    """The first change meets `fault`, every later one `then`."""
    faults = [fault]
    server.rules.append(lambda request: (faults.pop() if faults else next_fault) if request.mutation else None)


def change(cloud: CloudSession, thing: Thing) -> CloudError:
    """What a change that the product makes ends with."""
    body = {"sku": {"name": "Default", "tier": "Standard", "capacity": 1}}
    with pytest.raises(CloudError) as caught:
        cloud.call(ArmRequest(permission=f"{DEPLOYMENT_ROOT}/write", path=thing.id, body=body, method="PATCH"))
    return caught.value


@pytest.mark.parametrize(
    ("fault", "next_fault", "trouble", "retried"),
    [
        pytest.param(lost(), CONFLICT, Reason.REFUSED, True, id="carried out and refused"),
        pytest.param(cut(), CONFLICT, Reason.REFUSED, True, id="cut off and refused"),
        pytest.param(error(503, "Busy"), CONFLICT, Reason.REFUSED, True, id="a server error and refused"),
        pytest.param(error(408, "Timeout"), CONFLICT, Reason.REFUSED, True, id="timed out and refused"),
        pytest.param(lost(), throttled(99), Reason.THROTTLED, True, id="carried out and throttled"),
        pytest.param(lost(), error(403, "AuthorizationFailed"), Reason.DENIED, True, id="carried out and denied"),
        pytest.param(lost(), garbage(), Reason.UNREADABLE, True, id="carried out and garbled"),
        pytest.param(throttled(1), CONFLICT, Reason.REFUSED, False, id="throttled was surely not carried out"),
        pytest.param(CONFLICT, CONFLICT, Reason.REFUSED, False, id="refused at once"),
        pytest.param(throttled(99), CONFLICT, Reason.THROTTLED, False, id="throttled at once"),
    ],
)
def test_an_error_knows_if_an_earlier_try_may_have_succeeded(
    server: Server, cloud: CloudSession, blue: Thing, fault: Fault, next_fault: Fault, trouble: Reason, retried: bool
):
    first(server, fault, next_fault)
    failed = change(cloud, blue)
    assert (failed.reason, failed.retried) == (trouble, retried)


def test_one_request_does_not_remember_the_tries_of_another(server: Server, cloud: CloudSession, blue: Thing):
    first(server, lost())
    assert [change(cloud, blue).retried for _ in range(2)] == [True, False]


def scaled(server: Server, vision: Workspace, cloud: CloudSession) -> tuple[PreparedAction, str]:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue"), "scaling it from 3 instances to one has started"


def deleted(server: Server, vision: Workspace, cloud: CloudSession) -> tuple[PreparedAction, str]:
    vision.endpoint("chat").deployment("blue", capacity=3)
    return prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE), "it is already being deleted"


def shrunk(server: Server, vision: Workspace, cloud: CloudSession) -> tuple[PreparedAction, str]:
    vision.cluster("gpus", nodes=(2, 4))
    return prepare_action(cloud, CLUSTER, "gpus"), "its minimum is 0 nodes instead of 2"


def stopped(server: Server, vision: Workspace, cloud: CloudSession) -> tuple[PreparedAction, str]:
    vision.instance("ada")
    return prepare_action(cloud, INSTANCE, "ada"), "it is already Stopping"


EVERY = pytest.mark.parametrize("act", [scaled, deleted, shrunk, stopped], ids=lambda act: act.__name__)


@EVERY
def test_a_carried_out_write_is_done_although_its_retry_is_refused(server: Server, vision: Workspace, cloud: CloudSession, act):
    one, message = act(server, vision, cloud)
    first(server, lost())
    assert one.perform().startswith(message)
    assert len(server.mutations) == 2


@EVERY
def test_an_unreadable_result_after_a_lost_reply_is_partial(server: Server, vision: Workspace, cloud: CloudSession, act):
    one, _ = act(server, vision, cloud)
    first(server, lost())
    server.rules.append(lambda request: error(500) if server.mutations and request.method == "GET" else None)
    failed = one.refused()
    assert (failed.reason, failed.retried) == (Reason.PARTIAL, True)


@EVERY
def test_a_refusal_after_a_lost_reply_stays_in_doubt(server: Server, vision: Workspace, cloud: CloudSession, act):
    one, _ = act(server, vision, cloud)
    first(server, cut())
    failed = one.refused()
    assert (failed.reason, failed.retried) == (Reason.REFUSED, True)


def test_a_deployment_gone_at_the_delete_retry_was_deleted(server: Server, vision: Workspace, cloud: CloudSession):
    act, _ = deleted(server, vision, cloud)
    server.rules.append(on("DELETE", ".*", lost(), times=1))
    server.rules.append(lambda request: later(server) if len(server.mutations) == 2 else None)
    assert act.perform() == "it is deleted"


def test_traffic_moved_by_a_lost_reply_is_known_despite_throttling(server: Server, vision: Workspace, cloud: CloudSession):
    chat = vision.endpoint("chat")
    chat.deployment("blue")
    chat.traffic(blue=100)
    cloud.clients.pause = lambda seconds: later(server)
    act = prepare_action(cloud, DEPLOYMENT, "chat/blue", StepName.DELETE)
    server.rules.append(on("PUT", ".*", lost(), times=1))
    server.rules.append(lambda request: throttled(99) if request.method == "PUT" and len(server.mutations) == 2 else None)
    assert act.perform().startswith("its 100% of the traffic was set to 0%, and deletion started")
