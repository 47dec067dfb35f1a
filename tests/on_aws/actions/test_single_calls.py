"""A changing call is sent once, whatever becomes of it: counted at the wire, with and without its having taken effect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import boto3
import pytest

from on_aws.actions import deployment as wired
from on_aws.actions.deployment import APP, COMPONENT, ENDPOINT, NOTEBOOK, AwsDeployment, announced, finding
from on_aws.actions.test_looks import LAB, MINIMUM, app, hosted, notebook
from on_aws.conftest import NOW
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Result, Target
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, carried_out, cut, denied, error, garbage, on, throttled
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

UNCERTAIN = {
    "408": error(408, "RequestTimeout"),
    "500": error(500),
    "503": error(503),
    "broken connection": cut(),
    "unreadable reply": garbage(),
}


CHANGE = "UpdateEndpointWeightsAndCapacities"


def plain(account: Account) -> str:
    account.endpoint("e", variants=[Variant(count=3)])
    account.alive("e", "AllTraffic", NOW - timedelta(days=15), NOW + timedelta(days=20))
    return account.arn("endpoint/e")


def count(account: Account) -> int:
    return account.contents.endpoints["e"].variants[0].count


def endpoint_gone(account: Account) -> bool:
    return "e" not in account.contents.endpoints


Scene = tuple[Callable[[Account], str], str, str, str, str, Callable[[Account], bool]]
SCENES: list[Scene] = [
    (plain, ENDPOINT, "e", "stop", CHANGE, lambda account: count(account) == 1),
    (plain, ENDPOINT, "e", "delete", "DeleteEndpoint", endpoint_gone),
    (
        hosted, COMPONENT, "one", "stop", "UpdateInferenceComponentRuntimeConfig",
        lambda account: account.contents.components["one"].copies == 0,
    ),
    (
        hosted, COMPONENT, "one", "delete", "DeleteInferenceComponent",
        lambda account: account.contents.components.get("one") is None,
    ),
    (notebook, NOTEBOOK, "nb", "stop", "StopNotebookInstance", lambda account: account.contents.notebooks["nb"].status != "InService"),
    (app, APP, "lab/JupyterLab/default", "stop", "DeleteApp", lambda account: account.contents.apps[LAB].status != "InService"),
]  # fmt: skip
IDS = [f"{scene[1]}-{scene[3]}" for scene in SCENES]
PLAYS = [
    pytest.param(scene, fault, id=f"{id_}-{name}")
    for scene, id_ in zip(SCENES, IDS, strict=True)
    for name, fault in UNCERTAIN.items()
    if scene is SCENES[0] or name in {"500", "broken connection"}
]


def acted(account: Account, server: Server, scene: Scene, fault: Fault, settle: timedelta) -> tuple[AwsDeployment, Any, int]:
    """The sweep that acts while the first main call meets the fault; how often that call was sent."""
    setup, kind, name, action, operation, _ = scene
    setup(account)
    deployment = announced(server, action, (kind,))
    server.world.settle_after = settle
    server.rules.append(on(operation, fault, times=1))
    outcome = finding(deployment.sweep(), name).outcome
    return deployment, outcome, deployment.changes().count(operation)


@pytest.mark.parametrize(("scene", "fault"), PLAYS)
@pytest.mark.parametrize("settle", [timedelta(), timedelta(minutes=9)], ids=["at once", "in a while"])
def test_a_call_that_took_effect_is_sent_once_and_done(
    account: Account, server: Server, scene: Scene, settle: timedelta, fault: Fault
):
    deployment, outcome, sent = acted(account, server, scene, carried_out(fault), settle)
    if not settle:
        assert scene[5](account)
    assert (sent, outcome.result, outcome.begun) == (1, Result.DONE, True), outcome
    assert "although the reply was lost" in deployment.mails()[0]


@pytest.mark.parametrize(("scene", "fault"), PLAYS)
def test_a_call_that_took_no_effect_is_sent_once_and_failed(account: Account, server: Server, scene: Scene, fault: Fault):
    _, outcome, sent = acted(account, server, scene, fault, timedelta())
    assert (sent, outcome.result, outcome.begun, scene[5](account)) == (1, Result.FAILED, True, False)


@pytest.mark.parametrize("scene", SCENES, ids=IDS)
def test_a_refused_call_is_sent_once_and_changed_nothing(account: Account, server: Server, scene: Scene):
    deployment, outcome, sent = acted(account, server, scene, denied(), timedelta())
    lowered_first = scene[0] is hosted and scene[3] == "stop"
    result = Result.REFUSED if lowered_first else Result.FAILED
    assert (sent, outcome.result, outcome.begun, scene[5](account)) == (1, result, lowered_first, False)
    assert bool(deployment.mails()) == lowered_first


@pytest.mark.parametrize("scene", SCENES, ids=IDS)
def test_a_throttled_action_is_tried_once_more_after_a_new_look(account: Account, server: Server, scene: Scene):
    _, outcome, sent = acted(account, server, scene, throttled(), timedelta())
    is_first = scene[0] is not hosted or scene[3] == "delete"
    assert (sent, outcome.result) == ((2, Result.DONE) if is_first else (1, Result.REFUSED)), outcome
    assert scene[5](account) == is_first


def test_a_keep_tag_wins_while_a_throttled_action_waits(account: Account, server: Server):
    plain(account)
    deployment = announced(server)

    def refuse(call: Any) -> Fault | None:
        if call.operation != CHANGE:
            return None
        account.contents.endpoints["e"].tags = {"reaper:keep": "true"}
        return throttled()

    server.rules.append(refuse)
    assert finding(deployment.sweep(), "e").outcome.result is Result.REFUSED
    assert (deployment.changes(), count(account)) == ([CHANGE], 3)


@pytest.mark.parametrize("made", [False, True], ids=["not made", "made"])
@pytest.mark.parametrize("fault", [error(408), error(500), error(503), cut()], ids=["408", "500", "503", "broken connection"])
def test_a_minimum_whose_lowering_failed_is_put_back(account: Account, server: Server, fault: Fault, made: bool):
    id_ = wired.autoscaled(account)
    deployment = announced(server)
    server.rules.append(on("RegisterScalableTarget", carried_out(fault) if made else fault, times=1))
    outcome = finding(deployment.sweep(), "e").outcome
    lowering = [c for c in server.calls if c.operation == "RegisterScalableTarget" and c.params["MinCapacity"] == 1]
    assert (len(lowering), outcome.result, deployment.result(id_)) == (1, Result.FAILED, Result.FAILED)
    assert ("is 2 again" in (outcome.error or "")) == made
    assert (count(account), account.contents.scalable[MINIMUM].least) == (3, 2)
    assert CHANGE not in deployment.changes()


def test_a_minimum_that_may_not_be_lowered_changes_nothing(account: Account, server: Server):
    id_ = wired.autoscaled(account)
    deployment = announced(server)
    server.rules.append(on("RegisterScalableTarget", denied(), times=1))
    outcome = finding(deployment.sweep(), "e").outcome
    assert (outcome.result, outcome.begun, deployment.result(id_)) == (Result.FAILED, False, None)
    assert deployment.changes() == ["RegisterScalableTarget"]


@pytest.fixture
def cloud(server: Server) -> CloudSession:
    return CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def failed(call: Callable[..., Any]) -> CloudError:
    with pytest.raises(CloudError) as raised:
        call("sagemaker", CHANGE, "EndpointArn", EndpointName="e", DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic"}])
    return raised.value


@pytest.mark.parametrize(
    ("fault", "reason", "may_have_been_made"),
    [
        pytest.param(denied(), Reason.DENIED, False, id="denied"),
        pytest.param(error(400), Reason.REFUSED, False, id="refused"),
        pytest.param(error(404, "ResourceNotFound"), Reason.GONE, False, id="not found"),
        pytest.param(throttled(), Reason.THROTTLED, False, id="throttled"),
        pytest.param(error(429, "TooManyRequestsException"), Reason.THROTTLED, False, id="429"),
        pytest.param(error(503, "SlowDown"), Reason.THROTTLED, True, id="throttled by 503"),
        pytest.param(error(408), Reason.REFUSED, True, id="408"),
        pytest.param(error(500), Reason.REFUSED, True, id="500"),
        pytest.param(error(503), Reason.REFUSED, True, id="503"),
        pytest.param(error(500, "AccessDenied"), Reason.DENIED, True, id="500, denied"),
        pytest.param(cut(), Reason.UNREACHABLE, True, id="cut"),
        pytest.param(garbage(), Reason.UNREADABLE, True, id="unreadable"),
    ],
)
@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_a_failed_change_says_whether_it_may_have_been_made(
    monkeypatch: pytest.MonkeyPatch,
    account: Account,
    server: Server,
    fault: Fault,
    reason: Reason,
    may_have_been_made: bool,
    mode: str,
):
    monkeypatch.setenv("AWS_RETRY_MODE", mode)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    account.endpoint("e")
    server.rules.append(on(CHANGE, fault))
    cloud = CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))
    error = failed(cloud.change)
    assert (error.reason, error.may_have_been_made, len(server.calls)) == (reason, may_have_been_made, 1)


def test_reads_are_still_sent_again(server: Server, account: Account, cloud: CloudSession):
    account.endpoint("e")
    server.rules.append(on("ListEndpoints", error(503), times=2))
    assert len(cloud.call("sagemaker", "ListEndpoints", "Endpoints")["Endpoints"]) == 1
    assert len(server.calls) == 3


def test_a_change_after_the_time_for_calls_is_not_sent(server: Server, cloud: CloudSession):
    cloud.is_over = lambda: True
    assert (failed(cloud.change).may_have_been_made, server.calls) == (False, [])


def test_a_change_without_credentials_is_not_sent(monkeypatch: pytest.MonkeyPatch, server: Server):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    cloud = CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))
    assert (failed(cloud.change).may_have_been_made, server.calls) == (False, [])


def test_a_change_waits_for_no_rate_limiter(account: Account, server: Server, cloud: CloudSession):
    account.endpoint("e")
    server.rules.append(on("ListEndpoints", throttled(), times=3))
    cloud.call("sagemaker", "ListEndpoints", "Endpoints")
    once = cloud._method("sagemaker", "DeleteEndpoint", sends_once=True)
    assert once.__self__.meta.config.retries == {"total_max_attempts": 1, "mode": "standard"}
    cloud.change("sagemaker", "DeleteEndpoint", "ResponseMetadata", EndpointName="e")
    assert "e" not in account.contents.endpoints
